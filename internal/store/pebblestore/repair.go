package pebblestore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// ErrSound is returned by Repair for a store in which neither a start nor a read of all tables finds a fault.
var ErrSound = errors.New("the store is sound: there is nothing to repair")

// Report is what Repair, Renew or Restore found and did.
type Report struct {
	Found *Damaged // why Open refused the store, or that stored data is damaged; nil: no fault was found

	Recovered   uint64 // number of the last commit that is kept
	RecoveredMs uint64 // its time, Unix milliseconds
	HistoryID   uint64 // the new one

	// LostFrom and LostTo are the first and last of the acked commits that are gone with their content, 0 if
	// there are none. LostMs is the time of the last one, Unix milliseconds.
	LostFrom, LostTo, LostMs uint64

	Aside string   // folder with what was taken out, empty if nothing was
	Files []string // in Aside: log files and tables, as they were

	Lost     []string // what cannot be read any more, for people: entries of conversations, ranges of keys
	LostRows uint64   // entries that placeholders have replaced
	More     bool     // entries at the ends of conversations may be lost too, and nothing is left that shows it
}

// Repair accepts the loss of a store that Open refuses with a *Damaged, except a Rewound one, or whose tables are
// damaged. It keeps the longest unbroken run of commits and sets the rest aside. It draws a new history id, which
// tells clients to drop their stored state, and raises the epoch, which ends all earlier writers.
//
// Of a missing or damaged table it keeps the readable part. Lost rows become placeholders, so the seqs of a
// conversation stay without holes, and the report names these rows. ErrSound means that neither a start nor a
// read of all tables finds a fault.
func Repair(o Options) (Report, error) { return repairLocked(o, repair) }

// repairLocked runs the function repair while it holds the lock of the folder.
func repairLocked(o Options, repair func(Options, place) (Report, error)) (Report, error) {
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
		return Report{}, errors.New(
			"there is no database in the folder; restore a backup, or empty the folder to begin with a new store")
	} else if err != nil {
		return Report{}, err
	}
	r := Report{}
	f, err := inspect(o, p)
	d, damaged := errors.AsType[*Damaged](err)
	switch {
	case err == nil: // a start finds no fault; the tables are read below
		r.Found = &Damaged{Dir: p.dir, Missing: "a part of the stored data cannot be read"}
	case damaged && !d.Rewound:
		r.Found = d
		if err := p.checkManifest(); err != nil {
			return Report{}, err
		}
	default:
		return Report{}, err
	}
	l, err := p.tables(o)
	if err != nil {
		return Report{}, err
	}
	bad, err := p.damagedTables(o, l.tables)
	if err != nil {
		return Report{}, err
	}
	if !damaged {
		l.ranges = f.ranges
		if len(bad)+len(l.ranges) == 0 {
			return Report{}, ErrSound
		}
	} else if err := p.cutLogs(l.base, bad, &r); err != nil {
		return Report{}, err
	}
	kept, err := p.readRanges()
	if err != nil {
		return Report{}, err
	}
	return r, p.mendAll(o, bad, l.ranges.with(kept), &r)
}

// makeAside makes the folder aside of a repair, if it has none yet.
func (p place) makeAside(r *Report) (err error) {
	if r.Aside == "" {
		r.Aside, err = p.newAside()
	}
	return err
}

// mendAll replaces the damaged tables, settles the damaged ranges, and begins a new history.
func (p place) mendAll(o Options, bad []table, ranges damagedRanges, r *Report) error {
	if len(bad)+len(ranges) == 0 {
		return p.finish(o, r)
	}
	if err := writeSynced(p.fs, p.repairing, nil); err != nil {
		return err
	}
	if err := syncDir(p.fs, p.dir); err != nil {
		return err
	}
	po := tableOptions(o)
	for _, t := range bad {
		lost, err := mendTable(po, p.fs, p.db, p.freshTable(), t)
		if err != nil {
			return err
		}
		if err := p.keepTable(t.name, r); err != nil {
			return err
		}
		if lost != nil {
			ranges = append(ranges, lost.of(t, ranges.last()+1))
		}
		if err := p.writeRanges(ranges); err != nil {
			return err
		}
		if err := p.replaceTable(t.name); err != nil {
			return err
		}
	}
	slices.Sort(r.Files)
	if len(ranges) > 0 {
		if err := p.settle(o, ranges, r); err != nil {
			return err
		}
	}
	if err := p.removeFile(p.ranges); err != nil {
		return err
	}
	return p.finish(o, r)
}

// keepTable keeps a table aside, unless its file is missing.
func (p place) keepTable(name string, r *Report) error {
	if _, err := p.fs.Stat(p.fs.PathJoin(p.db, name)); isNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	if err := p.makeAside(r); err != nil {
		return err
	}
	r.Files = append(r.Files, name)
	return p.keepAside(r.Aside, name)
}

// unchecked returns options that open a database with missing tables, and without background work.
func (o Options) unchecked() Options {
	tune := o.tune
	o.tune = func(p *pebble.Options) {
		if tune != nil {
			tune(p)
		}
		p.DisableConsistencyCheck, p.DisableTableStats, p.DisableAutomaticCompactions = true, true, true
	}
	return o
}

// withTables adds names to the listing of a folder: Pebble opens a database with missing tables only if the
// listing has them.
type withTables struct {
	vfs.FS
	more []string
}

// List implements vfs.FS.
func (w withTables) List(dir string) ([]string, error) {
	names, err := w.FS.List(dir)
	return append(names, w.more...), err
}

// listed is the result of place.tables: the tables that the manifest names, and what they say of the store.
type listed struct {
	tables []table // also those whose file is missing
	ranges damagedRanges
	base   *last // the last commit in the tables; nil: not known
}

// tables lists the tables that the manifest names. The number of a missing one is only in the text of Pebble's
// error.
func (p place) tables(o Options) (l listed, err error) {
	fs := withTables{FS: withoutLogs{p.fs}}
	for {
		l, err = p.tablesIn(o, fs)
		if err == nil {
			return l, nil
		}
		var n uint64
		if _, e := fmt.Sscanf(err.Error(), "file %d (type sstable) unknown", &n); e != nil ||
			slices.Contains(fs.more, tableName(n)) {
			return l, fmt.Errorf("the list of tables cannot be read: %w; restore a backup", err)
		}
		fs.more = append(fs.more, tableName(n))
	}
}

func (p place) tablesIn(o Options, fs vfs.FS) (l listed, err error) {
	db, err := openPebble(o.unchecked(), &guard{FS: fs, dir: p.db, out: newFailure(o.Log)})
	if err != nil {
		return l, err
	}
	l.tables, err = liveTables(db)
	s := Store{db: db}
	if v, e := s.get(keyRanges); e == nil {
		l.ranges, _ = parseRanges(v) // if it is damaged, the file damaged-ranges has them
	}
	if v, e := s.get(keyCommit); e == nil && v == nil {
		l.base = &last{} // nothing was flushed yet
	} else if c, bad := parseLast(v); e == nil && bad == nil {
		l.base = &c
	}
	if e := db.Close(); err == nil {
		err = e
	}
	return l, err
}

// damagedTables reads all tables and returns those that are missing or damaged.
func (p place) damagedTables(o Options, all []table) (bad []table, err error) {
	po := tableOptions(o)
	for _, t := range all {
		if t.damage, err = checkTable(po, p.fs, p.db, t, nil); err != nil {
			return nil, fmt.Errorf("read table %s: %w", t.name, err)
		}
		if t.damage != nil {
			o.Log.Error("stored data is damaged", "file", t.name, "err", t.damage)
			bad = append(bad, t)
		}
	}
	return bad, nil
}

// checkManifest refuses a missing or damaged manifest: nothing else names the tables in use. A manifest that
// the inventory does not name is left to Pebble: an interrupted repair has made it, or it is older than the
// inventory.
func (p place) checkManifest() error {
	name, err := atomicfs.ReadMarker(p.fs, p.db, manifestMarker)
	if err != nil {
		return err
	}
	inv := p.lastInventory()
	i := slices.IndexFunc(inv.Manifests, func(m manifest) bool { return manifestFile(m.Number) == name })
	if i < 0 {
		return nil
	}
	missing, err := inv.Manifests[i].check(p.fs, p.fs.PathJoin(p.db, name), name)
	if missing != "" {
		err = fmt.Errorf("%s; restore a backup", missing)
	}
	return err
}

// lastInventory returns the inventory in the witness, empty if it cannot be read.
func (p place) lastInventory() (v inventory) {
	if s, err := readWitness(p.fs, p.witness); err == nil {
		v, _ = s.inventory()
	}
	return v
}

// withoutLogs hides the log files of a folder.
type withoutLogs struct{ vfs.FS }

func (w withoutLogs) List(dir string) ([]string, error) {
	names, err := w.FS.List(dir)
	return slices.DeleteFunc(names, func(n string) bool {
		_, ok := logNumber(n)
		return ok
	}), err
}

// logCut is the length up to which a log file is kept.
type logCut struct {
	name string
	keep int64 // 0: the whole file is removed
}

// cutLogs keeps the longest unbroken run of commits after base, the last one in the tables, and sets the rest of the
// log aside. If a damaged table may have had the record of base, the run begins where the log begins.
func (p place) cutLogs(base *last, bad []table, r *Report) error {
	if slices.ContainsFunc(bad, func(t table) bool { return t.whole.has(keyCommit) }) {
		base = nil
	}
	cuts, err := p.findCuts(base)
	if err != nil {
		return err
	}
	return p.setAside(cuts, r)
}

// findCuts follows the commit numbers through the log files, and returns the cuts after which the files
// continue base without a gap. With a nil base the log may begin with any commit.
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

// givenUp returns a function that tells whether everything in a log file is in tables. Nothing reads such a
// file, and only a power cut can have left it. The next log file need not continue it.
func (p place) givenUp() func(wal.LogicalLog) bool {
	inv := p.lastInventory() // without an inventory every file counts
	return func(l wal.LogicalLog) bool { return len(inv.Logs) > 0 && uint64(l.Num) < slices.Min(inv.Logs) }
}

// follow reads a log file that should continue commit n; if any is set, its first commit may have any number.
// keep is the length of the part that is readable and continues n without a gap, and reached is the last commit
// in it. gap: the commit behind that part leaves out a number. clean: the read has met no damage.
func follow(l wal.LogicalLog, n uint64, any bool) (keep int64, reached uint64, gap, clean bool) {
	keep, err := readLog(l, func(c uint64) bool {
		if gap = c > n+1 && !any; !gap {
			n, any = max(n, c), false
		}
		return !gap
	})
	return keep, n, gap, gap || err == nil
}

// setAside copies the log files of cuts into the folder r.Aside, and cuts or removes the originals.
func (p place) setAside(cuts []logCut, r *Report) error {
	if len(cuts) == 0 {
		return nil
	}
	if err := p.makeAside(r); err != nil {
		return err
	}
	// The last file comes first, so that an interrupted repair leaves no gap behind.
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

// finish gives the store a new history id, a higher epoch and a new witness. Until the new witness is renamed into its
// place, Open refuses the store as before. After that finish removes the file repairing, and calls accept.
func (p place) finish(o Options, r *Report) error {
	f := new(finding)
	db, err := openPebble(o, &guard{FS: p.fs, dir: p.db, out: newFailure(o.Log)})
	if err != nil {
		return fmt.Errorf("the repaired database cannot be read: %w; restore a backup", err)
	}
	err = f.load(&own{db: db})
	if e := db.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("the repaired database is not a store: %w; restore a backup", err)
	}
	r.Recovered, r.RecoveredMs = f.last.n, f.last.timeMs
	if _, acked := p.witnessed(); acked.n > f.last.n {
		r.LostFrom, r.LostTo, r.LostMs = f.last.n+1, acked.n, acked.timeMs
	}
	f.id.history = newIdentity().history
	r.HistoryID = f.id.history
	fresh := p.witness + ".new"
	if err := createWitness(p.fs, p.dir, fresh, f.id); err != nil {
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
		err = p.rename(fresh, p.witness)
	}
	if err == nil {
		err = p.removeFile(p.repairing)
	}
	if err == nil {
		err = p.accept(o, f)
	}
	return err
}

// rebase commits the identity of f with a higher epoch, and writes this commit into the witness w.
func (p place) rebase(o Options, w *witness, f *finding) error {
	inv, err := p.takeInventory()
	if err != nil {
		return err
	}
	inv.Identity = f.id.encode()
	inv.Seal = p.lastInventory().Seal.next() // the former seal stays until the new witness is in its place
	if err := inv.Seal.make(p); err != nil {
		return err
	}
	db, err := openPebble(o, &guard{FS: p.fs, dir: p.db, out: newFailure(o.Log), wit: w, inv: inv})
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

// takeInventory makes an inventory of the files that exist: the current manifest and all log files.
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
	v.Manifests = []manifest{m}
	for _, n := range names {
		if i, ok := logNumber(n); ok {
			v.Logs = append(v.Logs, i)
		}
	}
	return v, nil
}
