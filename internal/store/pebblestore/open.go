package pebblestore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// place is where a store keeps its files.
type place struct {
	fs      vfs.FS
	dir     string // the data folder
	db      string // Pebble's files
	birth   string // the path of db until it is complete
	witness string
	ballast string
	lock    string
	pid     string
	rewound string // file with the proof that the store is an earlier state; see Refute

	ranges    string // the damaged ranges
	repairing string // a file that exists while a repair changes the store
}

func (o Options) place() place {
	p := place{fs: o.FS, dir: o.Dir}
	for name, path := range map[string]*string{
		"store": &p.db, "store.new": &p.birth, "witness": &p.witness,
		"ballast": &p.ballast, "lock": &p.lock, "pid": &p.pid, "rewound": &p.rewound,
		"damaged-ranges": &p.ranges, "repairing": &p.repairing,
	} {
		*path = o.FS.PathJoin(o.Dir, name)
	}
	return p
}

// Open opens the store in o.Dir, or makes one if the folder holds none. If the log, the manifest or a whole table that
// the store has acked is missing or unreadable, or if the folder went back to an earlier state, Open returns a
// *Damaged and leaves the store as it is. A store with damaged blocks opens: their ranges are refused at reads. A torn
// end of the log that was never acked is normal. The folder is locked until Close. Errors: *Damaged, ErrOtherStore,
// ErrNoStore, those of the system, and texts for the operator: the folder is locked, a restore is unfinished, or the
// format or number of partitions is unknown.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	p := o.place()
	if err := p.isFolder(); err != nil {
		return nil, err
	}
	if err := p.unfinished(); err != nil {
		return nil, err
	}
	if err := p.expect(o); err != nil {
		return nil, err
	}
	lock, err := p.acquire()
	if err != nil {
		return nil, err
	}
	s, err := open(o, p)
	if err != nil {
		_ = lock.Close() // the first error says more
		return nil, err
	}
	s.lock = lock
	s.queue.stands, s.queue.durable = s.stands(), s.last
	p.leaveMarkers(o.Log, s.info.StoreID)
	go s.writeLog() // Close waits for logged, unless the store has failed
	s.mark = markfile.Keep(o.Mark, o.Log, s.out.ch, s.currentMark)
	s.tasks.Go(s.callBack)
	s.tasks.Go(s.watch)
	if s.place.fs == vfs.Default {
		here := map[string]os.FileInfo{}
		_ = s.checkFolder(here) // watchFolder meets an error again
		s.tasks.Go(func() { s.watchFolder(here) })
	}
	s.tasks.Go(s.keepSeal)
	s.tasks.Go(s.mender)
	s.tasks.Go(s.scrub)
	return s, nil
}

// isFolder refuses a file in the place of the data folder.
func (p place) isFolder() error {
	if st, err := p.fs.Stat(p.dir); err == nil && !st.IsDir() {
		return fmt.Errorf("open %s: it is a file; choose a folder with --data", p.dir)
	}
	return nil
}

// acquire makes the folder, locks it, and writes the file pid.
func (p place) acquire() (io.Closer, error) {
	if err := makeDir(p.fs, p.dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, withOwnerHint(err))
	}
	if err := p.isFolder(); err != nil {
		return nil, err
	}
	lock, err := p.fs.Lock(p.lock)
	if err != nil {
		if !isHeld(err) {
			return nil, fmt.Errorf("open %s: %w", p.dir, withOwnerHint(err))
		}
		return nil, fmt.Errorf("open %s: %w", p.dir, p.inUse())
	}
	both, err := p.lockFolder(lock)
	if err != nil {
		_ = lock.Close() // the first error says more
		return nil, fmt.Errorf("open %s: %w", p.dir, withOwnerHint(err))
	}
	// the file pid is for people
	if err := writeFile(p.fs, p.pid, strconv.Itoa(os.Getpid())); err != nil && !errors.Is(err, syscall.ENOSPC) {
		_ = both.Close() // the first error says more
		return nil, fmt.Errorf("open %s: %w", p.dir, withOwnerHint(err))
	}
	return both, nil
}

// isHeld tells whether a lock was refused because another holder has it, and not because its file cannot be
// opened. A second lock by this process itself fails without an error number of the system.
func isHeld(err error) bool {
	n, ok := errors.AsType[syscall.Errno](err)
	return !ok || n == syscall.EAGAIN
}

// withOwnerHint adds to a permission error the hint which user must own the files. It returns other errors as they
// are.
func withOwnerHint(err error) error {
	if !errors.Is(err, os.ErrPermission) {
		return err
	}
	return fmt.Errorf(
		"%w; run this as the user of the server, who owns the folder and all that is in it (chown -R USER DIR), and not as the user with the uid %d", err, os.Geteuid())
}

// inUse returns the error for a folder that is locked.
func (p place) inUse() error {
	holder := "another process"
	if b, err := readFile(p.fs, p.pid); err == nil && len(b) > 0 {
		holder = "pid " + string(b)
	}
	return fmt.Errorf("locked by %s; stop it or choose another --data", holder)
}

// makeDir makes dir and the folders above it, durably.
func makeDir(fs vfs.FS, dir string) error {
	var made []string // the parent of each new folder
	for d := dir; ; {
		if _, err := fs.Stat(d); err == nil {
			break
		} else if !isNotExist(err) {
			return err
		}
		above := fs.PathDir(d)
		made = append(made, above)
		if above == d {
			break
		}
		d = above
	}
	if len(made) == 0 {
		return nil
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range made {
		if err := syncDir(fs, d); err != nil {
			return err
		}
	}
	return nil
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	return io.ReadAll(f)
}

func writeFile(fs vfs.FS, path, text string) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// finding is the state of a store that inspect has read.
type finding struct {
	slots  slots
	inv    inventory
	acked  commitSlot
	id     identity
	last   last
	epoch  im.Epoch
	trim   im.Pos
	ranges damagedRanges

	unmarked bool // the store mark is missing
}

// open opens the store in a folder that is locked. Before that it removes left checkpoints, and makes a store if
// there is none.
func open(o Options, p place) (*Store, error) {
	if err := p.dropCheckpoints(); err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	switch _, err := p.fs.Stat(p.db); {
	case isNotExist(err):
		if err := create(o, p); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	f, err := inspect(o, p)
	if err != nil {
		return nil, err
	}
	if o.StoreID != 0 && o.StoreID != f.id.store {
		return nil, fmt.Errorf(
			"open %s: %w: the configuration names store %s in store.id, and the folder holds store %s; mount the folder of that store, or correct store.id",
			p.dir, ErrOtherStore, hex(o.StoreID), hex(f.id.store))
	}
	if o.Mark == "" {
		o.Log.Info(
			"store.mark is not set: a disk that is set back to a snapshot is noticed only when a client proves it")
	}
	if f.unmarked {
		o.Log.Warn(
			"the store mark is missing, so it cannot tell whether the store is the newest state: it is made anew",
			"file", o.Mark)
	}
	return start(o, p, f)
}

// inspect reads the state of a store, and refuses one that has lost something. It writes nothing. Errors:
// *Damaged, ErrOtherStore, and those of the system.
func inspect(o Options, p place) (*finding, error) {
	f := new(finding)
	damaged := func(missing string, cause error) error {
		return &Damaged{Dir: p.dir, Missing: missing, Cause: cause, WitnessedMs: f.acked.timeMs}
	}
	s, err := readWitness(p.fs, p.witness)
	if isNotExist(err) {
		return nil, damaged("the witness file is missing", nil)
	} else if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	f.slots = *s
	if _, err := p.fs.Stat(p.repairing); err == nil {
		return nil, damaged("a repair was cut off", nil)
	} else if !isNotExist(err) {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	if f.acked, err = s.commit(); err != nil {
		return nil, damaged(err.Error(), nil)
	}
	if f.inv, err = s.inventory(); err != nil {
		return nil, damaged(err.Error(), nil)
	}
	if err := f.checkCopied(o, p); err != nil {
		return nil, err
	}
	if missing, err := f.inv.check(p.fs, p.db); err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	} else if missing != "" {
		return nil, damaged(missing, nil)
	}
	lost, err := f.read(o, p)
	var corrupt *unreadable
	if errors.As(err, &corrupt) {
		return nil, damaged("the database cannot be read", corrupt.cause)
	} else if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	switch {
	case f.id.store != f.acked.store:
		return nil, damaged("the witness is of another store", nil)
	case f.last.n < f.acked.n:
		d := &Damaged{Dir: p.dir, First: f.last.n + 1, Last: f.acked.n}
		d.RecoveredMs, d.WitnessedMs = f.last.timeMs, f.acked.timeMs
		return nil, d
	}
	if lost != nil {
		lost.Dir, lost.WitnessedMs = p.dir, f.acked.timeMs
		return nil, lost
	}
	kept, err := p.readRanges()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	f.ranges = f.ranges.with(kept)
	return f, f.checkRewound(o, p)
}

// read reads the store's records about itself. lost has the first range of commits that the log lacks, nil if
// none are missing. Errors: *unreadable, those of the system, and one for a format or a number of partitions that
// this program does not serve.
func (f *finding) read(o Options, p place) (lost *Damaged, err error) {
	g := &guard{FS: unreplayed{p.fs}, dir: p.db, out: newFailure(o.Log), inv: f.inv}
	db, err := openPebble(o, g)
	if err != nil {
		return nil, asUnreadable(err)
	}
	w := &own{db: db, logged: map[string][]byte{}}
	base := last{}
	if b, e := w.get(keyCommit); e == nil {
		base, _ = parseLast(b) // load returns the error, unless the log has a newer record
	}
	if lost, err = checkLogs(p.fs, p.db, g.played, base.n, w.add); err != nil {
		err = asUnreadable(err)
	}
	if err == nil {
		if err = f.load(w); errors.Is(err, store.ErrCorrupt) {
			err = &unreadable{err}
		}
	}
	if e := db.Close(); err == nil {
		err = e
	}
	return lost, err
}

// unreadable is an error about the content of the database's files.
type unreadable struct{ cause error }

func (u *unreadable) Error() string { return u.cause.Error() }
func (u *unreadable) Unwrap() error { return u.cause }

// asUnreadable wraps an error about the content of the files, and returns an error of the system as it is.
func asUnreadable(err error) error {
	if isSystemError(err) {
		return err
	}
	return &unreadable{err}
}

// isSystemError tells an error of the system, such as a lack of permissions or of file descriptors, from one
// about the content of the files. A missing file counts as content.
func isSystemError(err error) bool {
	var no syscall.Errno
	return errors.As(err, &no) && no != syscall.ENOENT
}

// openPebble opens the database that g guards; without a witness in g, for reading only. If the store fails
// meanwhile, it returns that error and leaves the goroutine that opens behind.
func openPebble(o Options, g *guard) (*pebble.DB, error) {
	po := pebbleOptions(o, apart{g}, g.out)
	po.ReadOnly = g.wit == nil
	po.ErrorIfNotExists = g.wit == nil || len(g.inv.Manifests) > 0
	if g.wit != nil {
		g.dropOptions()
	}
	if g.damage != nil {
		g.damage.listen(po.EventListener)
	}
	compactions := newCompactions()
	po.Experimental.CompactionScheduler = compactions
	po.EventListener.CompactionEnd = compactions.ended
	type opened struct {
		db  *pebble.DB
		err error
	}
	// The goroutine that opens may be parked for ever (failure.park).
	c := make(chan opened, 1)
	go func() {
		var r opened
		r.err = caught(func() (err error) {
			r.db, err = pebble.Open(g.dir, po)
			return err
		})
		if r.err == nil {
			compactions.begin()
		}
		c <- r
	}()
	select {
	case r := <-c:
		return r.db, r.err
	case <-g.out.ch:
		return nil, g.out.err()
	}
}

// load reads the store's records about itself. It refuses a format or a number of partitions that this program does
// not serve.
func (f *finding) load(w *own) error {
	get := w.get
	format, err := get(keyFormat)
	if err != nil {
		return err
	}
	if len(format) != 8 {
		return fmt.Errorf("read the format: %d bytes: %w", len(format), store.ErrCorrupt)
	}
	if oldest := binary.BigEndian.Uint32(format[4:]); oldest > store.FormatLevel {
		return fmt.Errorf("the store has format %d and needs a Petrel that reads format %d; this one reads up to %d",
			binary.BigEndian.Uint32(format), oldest, store.FormatLevel)
	}
	b, err := get(keyIdentity)
	if err != nil {
		return err
	}
	if f.id, err = parseIdentity(b); err != nil {
		return err
	}
	if f.id.partitions != im.Partitions {
		return fmt.Errorf("the store has %d partitions, and this Petrel works with %d", f.id.partitions, im.Partitions)
	}
	if b, err = get(keyCommit); err != nil {
		return err
	}
	if f.last, err = parseLast(b); err != nil {
		return err
	}
	if b, err = get(keyEpoch); err != nil {
		return err
	} else if len(b) == 8 {
		f.epoch = im.Epoch(binary.BigEndian.Uint64(b))
	}
	if b, err = get(keyTrim); err != nil {
		return err
	} else if len(b) == 8 {
		f.trim = im.Pos(binary.BigEndian.Uint64(b))
	}
	if b, err = get(keyRanges); err != nil {
		return err
	}
	f.ranges, err = parseRanges(b)
	return err
}

// create makes a complete store under another name and then renames it, so that a folder with the final name is
// never incomplete. Errors: *Damaged if the witness shows that a database is missing.
func create(o Options, p place) error {
	wrap := func(err error) error { return fmt.Errorf("create %s: %w", p.dir, err) }
	if s, err := readWitness(p.fs, p.witness); err == nil {
		if t, err := s.commit(); err == nil && t.n > 0 {
			return &Damaged{Dir: p.dir, Missing: "the database is missing", WitnessedMs: t.timeMs}
		}
	} else if !isNotExist(err) {
		return wrap(err)
	}
	if err := p.fs.RemoveAll(p.birth); err != nil {
		return wrap(err)
	}
	id := newIdentity()
	if err := createWitness(p.fs, p.dir, p.witness, id); err != nil {
		return wrap(err)
	}
	w, err := openWitness(p.fs, p.witness, id.store)
	if err != nil {
		return wrap(err)
	}
	err = fillNew(o, p, w, id)
	if e := w.close(); err == nil {
		err = e
	}
	if err == nil {
		err = p.rename(p.birth, p.db)
	}
	if err != nil {
		return wrap(err)
	}
	return nil
}

func newIdentity() identity {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	id := identity{
		store:      binary.BigEndian.Uint64(b[:]),
		history:    binary.BigEndian.Uint64(b[8:]),
		partitions: im.Partitions,
	}
	copy(id.secret[:], b[16:])
	return id
}

// fillNew writes commit 1 into a new database.
func fillNew(o Options, p place, w *witness, id identity) error {
	inv := inventory{Identity: id.encode()}
	db, err := openPebble(o, &guard{FS: p.fs, dir: p.birth, out: newFailure(o.Log), wit: w, inv: inv})
	if err != nil {
		return err
	}
	b := db.NewBatch()
	format := binary.BigEndian.AppendUint32(nil, store.FormatLevel)
	format = binary.BigEndian.AppendUint32(format, store.FormatLevel)
	first := last{n: 1, timeMs: uint64(o.Now().UnixMilli())}
	for _, r := range []struct{ key, value []byte }{
		{keyFormat, format},
		{keyIdentity, id.encode()},
		{keyEpoch, be64(0)},
		{keyCommit, first.append(nil)},
	} {
		if err := b.Set(r.key, r.value, nil); err != nil {
			return err
		}
	}
	err = caught(func() error { return b.Commit(pebble.Sync) })
	if e := db.Close(); err == nil {
		err = e
	}
	return err
}

// start opens the database that inspect found sound, for writing. It writes both commit slots of the witness and a
// new seal.
func start(o Options, p place, f *finding) (*Store, error) {
	w, err := openWitness(p.fs, p.witness, f.id.store)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	w.turn = f.inv.Turn
	out := newFailure(o.Log)
	s := &Store{
		o: o, log: o.Log, place: p, witness: w, out: out,
		info: store.Info{StoreID: f.id.store, HistoryID: f.id.history, Secret: f.id.secret, Level: store.FormatLevel},
		last: f.last, epoch: f.epoch, trim: f.trim,
		stop: make(chan struct{}), idle: make(chan struct{}), logged: make(chan struct{}),
	}
	s.damage.init(o.Log)
	if len(f.ranges) > 0 {
		s.ranges.Store(&f.ranges)
		if err := p.writeRanges(f.ranges); err != nil { // a restored backup has no such file
			_ = w.close() // the first error says more
			return nil, fmt.Errorf("open %s: %w", p.dir, err)
		}
	}
	g := &guard{FS: p.fs, dir: p.db, out: out, wit: w, inv: f.inv.clone(), damage: &s.damage}
	s.guard = g
	db, err := openPebble(o, g) // replays the log and writes it as tables
	if err != nil {
		_ = w.close() // the first error says more
		if errors.Is(err, store.ErrCorrupt) || pebble.IsCorruptionError(err) {
			return nil, &Damaged{Dir: p.dir, Missing: "the database cannot be read", Cause: err,
				WitnessedMs: f.acked.timeMs}
		}
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	s.db = db
	s.queue.init()
	s.space.init(o, p)
	// Both slots are written anew: one of them may have been torn.
	for range 2 {
		if err = w.commit(s.last); err != nil {
			break
		}
	}
	if err != nil {
		out.fail(err)
		_ = w.close() // the first error says more
		return nil, fmt.Errorf("open %s: write witness: %w", p.dir, err)
	}
	if err := s.reseal(s.last.n); err != nil {
		_ = w.close() // the first error says more
		return nil, fmt.Errorf("open %s: %w", p.dir, err)
	}
	s.space.check()
	return s, nil
}
