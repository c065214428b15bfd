package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/petrel-im/petrel/internal/store"
)

// ErrSound is returned by Repair for a store that Open takes.
var ErrSound = errors.New("the store is sound: there is nothing to repair")

// Report is what Repair found and did.
type Report struct {
	Found *Damaged // why Open refused the store

	Recovered   uint64 // number of the last commit that is kept
	RecoveredMs uint64 // its time, Unix milliseconds
	HistoryID   uint64 // the new one, unless SameHistory
	SameHistory bool   // what was damaged had nothing in it: the store is as it was

	// LostFrom and LostTo are the numbers of the commits that were acked and are gone,
	// with all that was in them, 0 if there are none. LostMs is the time of the last.
	LostFrom, LostTo, LostMs uint64

	Aside string   // folder with what was taken out, empty if nothing was
	Files []string // in Aside: log files and tables, as they were

	Lost     []string // what cannot be read any more, for people: entries of conversations, ranges of keys
	LostRows uint64   // entries that are empty places now
	More     bool     // more may be lost at the ends of conversations: nothing is left that tells of it
}

// Repair accepts the loss of a store that Open refuses. It keeps the longest
// unbroken run of commits, sets the rest aside, draws a new history id, which
// tells clients to drop what they remember, and ends all earlier writers.
//
// Of a table that is missing or damaged it keeps what can be read. Rows that are gone
// become empty places, so the seqs of a conversation stay without holes; the report
// names them. A store that has lost nothing but a file of options keeps its history id.
// ErrSound: nothing was wrong, in the tables neither.
func Repair(o Options) (Report, error) {
	o = o.withDefaults()
	p := o.place()
	lock, err := p.acquire()
	if err != nil {
		return Report{}, err
	}
	r, err := repair(o, p)
	if e := lock.Close(); err == nil {
		err = e
	}
	if err != nil {
		return Report{}, fmt.Errorf("repair %s: %w", p.dir, err)
	}
	return r, nil
}

func repair(o Options, p place) (Report, error) {
	if err := p.unfinished(); err != nil {
		return Report{}, err
	}
	if _, err := p.fs.Stat(p.db); isNotExist(err) {
		return Report{}, errors.New("there is no database in the folder; restore a backup, or empty the folder to begin with a new store")
	} else if err != nil {
		return Report{}, err
	}
	r := Report{}
	if err := p.dropOptions(o, &r); err != nil {
		return Report{}, err
	}
	f, err := inspect(o, p)
	if err == nil { // as far as a start looks
		all, err := p.tables(o)
		if err != nil {
			return Report{}, err
		}
		bad, err := p.damagedTables(o, all)
		if err != nil {
			return Report{}, err
		}
		if len(bad) == 0 && len(f.scars) == 0 && len(r.Files) == 0 {
			return Report{}, ErrSound
		}
		if len(bad) == 0 && len(f.scars) == 0 {
			r.Found = &Damaged{Dir: p.dir, Missing: "the file " + r.Files[len(r.Files)-1] + " is damaged"}
			r.Recovered, r.RecoveredMs, r.HistoryID, r.SameHistory = f.last.n, f.last.timeMs, f.id.history, true
			return r, nil
		}
		r.Found = &Damaged{Dir: p.dir, Missing: "a part of what is stored cannot be read"}
		err = p.mendAll(o, bad, &r)
		return r, err
	}
	if d, ok := errors.AsType[*Damaged](err); ok && !d.Rewound {
		r.Found = d
	} else {
		return Report{}, err
	}
	whole, err := p.restoreMarkers()
	if err != nil {
		return Report{}, err
	}
	all, err := p.tables(o)
	if err != nil {
		return Report{}, err
	}
	bad, err := p.damagedTables(o, all)
	if err != nil {
		return Report{}, err
	}
	if !whole && len(bad) > 0 {
		return Report{}, fmt.Errorf("the manifest and its copy are damaged, and table %s of the manifest before is too; restore a backup", bad[0].name)
	}
	if !whole {
		if err := p.keepUnlisted(all, &r); err != nil {
			return Report{}, err
		}
	}
	base, err := p.base(o, bad)
	if err != nil {
		return Report{}, err
	}
	cuts, err := p.findCuts(base)
	if err != nil {
		return Report{}, err
	}
	if err := p.setAside(cuts, &r); err != nil {
		return Report{}, err
	}
	err = p.mendAll(o, bad, &r)
	return r, err
}

// dropOptions sets Pebble's files of options aside if it refuses the newest. They are for
// people, and a start writes a new one.
func (p place) dropOptions(o Options, r *Report) error {
	names, err := p.fs.List(p.db)
	if err != nil {
		return err
	}
	const prefix = "OPTIONS-"
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	newest, number := "", uint64(0)
	for _, n := range names {
		if i, err := strconv.ParseUint(strings.TrimPrefix(n, prefix), 10, 64); err == nil && i >= number {
			newest, number = n, i
		}
	}
	if newest == "" {
		return nil
	}
	b, err := readFile(p.fs, p.fs.PathJoin(p.db, newest))
	if err = asDamage(err); err != nil && !pebble.IsCorruptionError(err) {
		return err
	}
	if err == nil && tableOptions(o).CheckCompatibility(p.db, string(b)) == nil {
		return nil
	}
	o.Log.Warn("a file of options is damaged and is set aside: a start writes a new one", "file", newest)
	return p.takeOut(names, r)
}

// makeAside makes the folder aside of a repair, if it has none yet.
func (p place) makeAside(r *Report) (err error) {
	if r.Aside == "" {
		r.Aside, err = p.newAside()
	}
	return err
}

// takeOut moves files of the database into the folder aside.
func (p place) takeOut(names []string, r *Report) error {
	if err := p.makeAside(r); err != nil {
		return err
	}
	for _, n := range names {
		if err := p.fs.Rename(p.fs.PathJoin(p.db, n), p.fs.PathJoin(r.Aside, n)); err != nil {
			return err
		}
		r.Files = append(r.Files, n)
	}
	if err := syncDir(p.fs, r.Aside); err != nil {
		return err
	}
	return syncDir(p.fs, p.db)
}

// mendAll replaces the damaged tables, settles what is lost, and begins a new
// history.
func (p place) mendAll(o Options, bad []table, r *Report) error {
	holes, err := p.replaceTables(o, bad, r)
	if err != nil {
		return err
	}
	old, err := p.scars(o)
	if err != nil {
		return err
	}
	if len(holes)+len(old) > 0 {
		if err := p.fillHoles(o, holes, old, r); err != nil {
			return err
		}
	}
	return p.finish(o, r)
}

// scars are those that a running store has left.
func (p place) scars(o Options) (scars, error) {
	db, err := openPebble(o.unchecked(), &guard{FS: p.fs, dir: p.db, out: newOutage(o.Log)})
	if err != nil {
		return nil, fmt.Errorf("what is left cannot be read: %w; restore a backup", err)
	}
	old, err := (&own{db: db}).scars()
	if e := db.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	kept, err := p.readScars(p.scarsFile())
	if errors.Is(err, store.ErrCorrupt) {
		o.Log.Error("the file of scars is damaged; those in the store are taken", "err", err)
		err = nil
	}
	return old.with(kept), err
}

// keepUnlisted keeps aside the tables that the manifest does not name, an older one
// than the last: Pebble removes them.
func (p place) keepUnlisted(listed []table, r *Report) error {
	names, err := p.fs.List(p.db)
	if err != nil {
		return err
	}
	for _, n := range names {
		if _, ok := tableNumber(n); !ok || slices.ContainsFunc(listed, func(t table) bool { return t.name == n }) {
			continue
		}
		if err := p.keepTable(n, r); err != nil {
			return err
		}
	}
	return nil
}

// base is the last commit in the tables, nil if a damaged one may have had it: then
// the log begins where it begins.
func (p place) base(o Options, bad []table) (*last, error) {
	for _, t := range bad {
		if t.whole.has(keyCommit) {
			return nil, nil
		}
	}
	db, err := openPebble(o.unchecked(), &guard{FS: withoutLogs{p.fs}, dir: p.db, out: newOutage(o.Log)})
	if err != nil {
		return nil, fmt.Errorf("the tables cannot be read: %w; restore a backup", err)
	}
	s := Store{db: db}
	b, err := s.get(keyCommit)
	if e := db.Close(); err == nil {
		err = e
	}
	if b == nil || err != nil {
		return &last{}, err // nothing was flushed yet
	}
	l, err := parseLast(b)
	return &l, err
}

// restoreMarkers puts back the two marker files that Pebble needs. The names of
// the manifests are enough for that.
// whole: the manifest that they name is not known to be damaged.
func (p place) restoreMarkers() (whole bool, err error) {
	var inv inventory
	if s, err := readWitness(p.fs, p.witness); err == nil {
		inv, _ = s.inventory() // none is as good as an unreadable one
	} else if !isNotExist(err) {
		return false, err
	}
	restored, err := p.restoreManifest(inv)
	if err != nil {
		return false, err
	}
	if err := p.restoreMarkersTo(inv); err != nil {
		return false, err
	}
	pointed, err := atomicfs.ReadMarker(p.fs, p.db, manifestMarker)
	number, _ := manifestNumber(pointed)
	return len(inv.manifests) == 0 || pointed == restored || number > inv.manifests[len(inv.manifests)-1].number, err
}

func (p place) restoreMarkersTo(inv inventory) error {
	names, err := p.fs.List(p.db)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "marker.") && !isMarker(n, names) {
			if err := p.fs.Remove(p.fs.PathJoin(p.db, n)); err != nil { // it has no content
				return err
			}
		}
	}
	pointed, err := atomicfs.ReadMarker(p.fs, p.db, manifestMarker)
	if err != nil {
		return err
	}
	if want := p.manifestToUse(inv, names, pointed); want == "" {
		return errors.New("there is no manifest in the folder; restore a backup")
	} else if want != pointed {
		if err := p.moveMarker(manifestMarker, want); err != nil {
			return err
		}
	}
	if v, err := atomicfs.ReadMarker(p.fs, p.db, formatMarker); err != nil || v != "" {
		return err
	}
	return p.moveMarker(formatMarker, pebbleFormat.String())
}

// formatMarker is Pebble's name for the marker file of its format.
const formatMarker = "format-version"

// isMarker tells whether a file has a name that Pebble can have given it. Only
// this Pebble's format is one: it is the first that Petrel has used.
func isMarker(name string, names []string) bool {
	f := strings.SplitN(name, ".", 4)
	if len(f) != 4 {
		return false
	}
	if _, err := strconv.ParseUint(f[2], 10, 64); err != nil {
		return false
	}
	switch f[1] {
	case manifestMarker:
		_, ok := manifestNumber(f[3])
		return ok && slices.Contains(names, f[3])
	case formatMarker:
		return f[3] == pebbleFormat.String()
	}
	return false
}

// manifestToUse is the newer one of the manifest pointed to and the one that the
// inventory knows to be whole: an interrupted repair has moved the marker, and
// its inventory had no name yet. Without both it is the newest there is.
func (p place) manifestToUse(inv inventory, names []string, pointed string) string {
	number, ok := manifestNumber(pointed)
	damaged := func(name string) bool {
		i := slices.IndexFunc(inv.manifests, func(m manifest) bool { return manifestFile(m.number) == name })
		if i < 0 {
			return false
		}
		missing, err := inv.manifests[i].check(p.fs, p.fs.PathJoin(p.db, name), name)
		return missing != "" || err != nil
	}
	if !ok || !slices.Contains(names, pointed) || damaged(pointed) {
		number, pointed = 0, ""
	}
	for _, m := range slices.Backward(inv.manifests) {
		name := manifestFile(m.number)
		if missing, err := m.check(p.fs, p.fs.PathJoin(p.db, name), name); missing == "" && err == nil && m.number > number {
			return name
		}
	}
	if pointed != "" {
		return pointed
	}
	newest := ""
	for _, n := range names {
		if i, ok := manifestNumber(n); ok && i >= number && !damaged(n) {
			newest, number = n, i
		}
	}
	return newest
}

func (p place) moveMarker(name, value string) error {
	m, _, err := atomicfs.LocateMarker(p.fs, p.db, name)
	if err != nil {
		return err
	}
	err = m.Move(value)
	if e := m.Close(); err == nil {
		err = e
	}
	return err
}

// withoutLogs is a folder whose log files cannot be seen.
type withoutLogs struct{ vfs.FS }

func (w withoutLogs) List(dir string) ([]string, error) {
	names, err := w.FS.List(dir)
	return slices.DeleteFunc(names, func(n string) bool {
		_, ok := logNumber(n)
		return ok
	}), err
}

// verifyManifest refuses a manifest of which only the first record can be read.
// That lists the tables; how much of them is visible is said by the second.
func (p place) verifyManifest(tables []table) error {
	name, err := atomicfs.ReadMarker(p.fs, p.db, manifestMarker)
	if err != nil {
		return err
	}
	f, err := p.fs.Open(p.fs.PathJoin(p.db, name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read-only
	r := record.NewReader(f, 0)
	for range 2 {
		rec, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		if err == nil {
			continue
		}
		if len(tables) > 0 {
			return fmt.Errorf("manifest %s: %w", name, err)
		}
		return nil // it has no more: a new store
	}
	return nil
}

// logCut says that a log file is kept up to some length.
type logCut struct {
	name string
	keep int64 // 0: the whole file goes
}

// findCuts follows the numbers of the commits through the log files and says
// what has to go so that they run on from base without a gap.
func (p place) findCuts(base *last) ([]logCut, error) {
	logs, err := wal.Scan(wal.Dir{FS: p.fs, Dirname: p.db})
	if err != nil {
		return nil, err
	}
	logs = slices.DeleteFunc(logs, p.givenUp())
	var cuts []logCut
	n, broken := uint64(0), false
	if base != nil {
		n = base.n
	}
	for _, l := range logs {
		c := logCut{name: logName(uint64(l.Num))}
		clean := false
		if !broken {
			c.keep, n, broken, clean = follow(l, n, base == nil && n == 0)
		}
		if broken || !clean {
			cuts = append(cuts, c)
		}
	}
	return cuts, nil
}

// givenUp tells of a log file whether everything in it is in tables: then nothing reads
// it, and only a power cut can have left it. The log need not go on from its end.
func (p place) givenUp() func(wal.LogicalLog) bool {
	var inv inventory
	if s, err := readWitness(p.fs, p.witness); err == nil {
		inv, _ = s.inventory() // without one every file counts
	}
	oldest := uint64(math.MaxUint64)
	for _, l := range inv.logs {
		oldest = min(oldest, l.number)
	}
	return func(l wal.LogicalLog) bool { return len(inv.logs) > 0 && uint64(l.Num) < oldest }
}

// follow reads a log file after commit n. keep is the length up to which it can
// be read and goes on from n, reached the last commit in it, gap that one
// follows which does not, clean that Pebble reads it to its end. any: the first
// commit goes on from n whatever its number is.
func follow(l wal.LogicalLog, n uint64, any bool) (keep int64, reached uint64, gap, clean bool) {
	keep, err := readLog(l, func(c uint64) bool {
		if gap = c > n+1 && !any; !gap {
			n, any = max(n, c), false
		}
		return !gap
	})
	return keep, n, gap, gap || err == nil
}

// setAside copies the log files of cuts into a folder of their own and cuts
// them.
func (p place) setAside(cuts []logCut, r *Report) error {
	if len(cuts) == 0 {
		return nil
	}
	if err := p.makeAside(r); err != nil {
		return err
	}
	// The last file first: a repair that is cut short leaves no gap behind.
	for _, c := range slices.Backward(cuts) {
		from, to := p.fs.PathJoin(p.db, c.name), p.fs.PathJoin(r.Aside, c.name)
		if err := vfs.Copy(p.fs, from, to); err != nil {
			return err
		}
		if err := syncDir(p.fs, r.Aside); err != nil {
			return err
		}
		err := p.fs.Remove(from)
		if c.keep > 0 {
			err = vfs.LimitedCopy(p.fs, to, from, c.keep)
		}
		if err != nil {
			return err
		}
		if err := syncDir(p.fs, p.db); err != nil {
			return err
		}
		r.Files = append(r.Files, c.name)
	}
	slices.Sort(r.Files)
	return nil
}

// finish gives the store a new history and, last, a new witness: until that has
// its name, Open refuses the store as before.
func (p place) finish(o Options, r *Report) error {
	f := new(finding)
	db, err := openPebble(o, &guard{FS: p.fs, dir: p.db, out: newOutage(o.Log)})
	if err != nil {
		return fmt.Errorf("what is left cannot be read: %w; restore a backup", err)
	}
	err = f.load(&own{db: db})
	if e := db.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("what is left is not a store: %w; restore a backup", err)
	}
	fresh := p.witness + ".new"
	if err := createWitness(p.fs, p.dir, fresh, f.id.store); err != nil {
		return err
	}
	r.Recovered, r.RecoveredMs = f.last.n, f.last.timeMs
	if _, acked := p.witnessed(); acked.n > f.last.n {
		r.LostFrom, r.LostTo, r.LostMs = f.last.n+1, acked.n, acked.timeMs
	}
	f.id.history = newIdentity().history
	r.HistoryID = f.id.history
	if err := writeIdentity(p.fs, fresh, f.id); err != nil {
		return err
	}
	w, err := openWitness(p.fs, fresh, f.id.store)
	if err != nil {
		return err
	}
	err = p.rebase(o, w, f)
	if e := w.close(); err == nil {
		err = e
	}
	if err == nil {
		err = p.fs.Rename(fresh, p.witness)
	}
	if err == nil {
		err = syncDir(p.fs, p.dir)
	}
	if err == nil {
		err = p.settle(o, f)
	}
	return err
}

// rebase writes the identity of f and a higher epoch, and the witness of that.
func (p place) rebase(o Options, w *witness, f *finding) error {
	inv, err := p.takeInventory()
	if err != nil {
		return err
	}
	db, err := openPebble(o, &guard{FS: p.fs, dir: p.db, out: newOutage(o.Log), wit: w, inv: inv})
	if err != nil {
		return err
	}
	l := last{n: f.last.n + 1, timeMs: uint64(o.Now().UnixMilli()), pos: f.last.pos}
	b := db.NewBatch()
	for _, kv := range [][2][]byte{
		{keyIdentity, f.id.encode()}, {keyEpoch, be64(uint64(f.epoch) + 1)}, {keyCommit, l.append(nil)},
	} {
		if err := b.Set(kv[0], kv[1], nil); err != nil {
			return err
		}
	}
	err = caught(func() error { return b.Commit(pebble.Sync) })
	if e := db.Close(); err == nil {
		err = e
	}
	for range 2 {
		if err == nil {
			err = w.commit(l)
		}
	}
	return err
}

// takeInventory lists the files as they are.
func (p place) takeInventory() (inventory, error) {
	var v inventory
	names, err := p.fs.List(p.db)
	if err != nil {
		return v, err
	}
	value, err := atomicfs.ReadMarker(p.fs, p.db, manifestMarker)
	if err != nil {
		return v, err
	}
	b, err := readFile(p.fs, p.fs.PathJoin(p.db, value))
	if err != nil {
		return v, err
	}
	m := newManifest(value, b)
	if m.file, err = identify(p.fs, p.fs.PathJoin(p.db, value)); err != nil {
		return v, err
	}
	v.manifests = []manifest{m}
	for _, n := range names {
		i, ok := logNumber(n)
		if !ok {
			continue
		}
		id, err := identify(p.fs, p.fs.PathJoin(p.db, n))
		if err != nil {
			return v, err
		}
		v.logs = append(v.logs, logFile{number: i, file: id})
	}
	return v, nil
}
