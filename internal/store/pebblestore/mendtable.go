package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/rangekey"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// mendAgain is how long a table that could not be mended is left alone.
const mendAgain = 10 * time.Second

// mender mends the tables that were found to be damaged, until Close.
func (s *Store) mender() {
	tick := time.NewTicker(mendAgain)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.out.ch:
			return
		case <-s.damage.news:
		case <-tick.C:
		}
		for file := s.damage.next(mendAgain); file != ""; file = s.damage.next(mendAgain) {
			err := s.treat(file)
			if err != nil && !errors.Is(err, errClosed) {
				s.log.Error("mend table failed", "file", file, "err", err)
			}
			s.damage.treated(file, err == nil)
			select {
			case <-s.stop:
				return
			default:
			}
		}
	}
}

// treat mends a table, if it is in use, and damaged when it is read once more.
func (s *Store) treat(file string) error {
	t, err := s.tableOf(file)
	if err != nil {
		return err
	}
	if t == nil { // it is in use no more
		return nil
	}
	p := s.o.place()
	was, err := checkTable(s.readerOptions(), p.fs, p.db, *t, nil)
	if err != nil {
		return err
	}
	if was == nil {
		s.log.Warn("table was read again without an error", "file", file)
		return nil
	}
	return s.mend(*t)
}

// readerOptions are those of tables that are read without Pebble's database.
func (s *Store) readerOptions() *pebble.Options {
	return tableOptions(s.o)
}

func tableOptions(o Options) *pebble.Options {
	po := pebbleOptions(o, o.FS, newOutage(o.Log))
	po.EnsureDefaults()
	return po
}

// tableOf is the table in use with that file; nil: there is none.
func (s *Store) tableOf(file string) (*table, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	all, err := liveTables(s.db)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(t table) bool { return t.name == file }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// mend replaces a table by what can be read of it. The database is closed and
// opened again for that: Pebble keeps the index of a table in memory.
func (s *Store) mend(t table) error {
	p := s.o.place()
	fresh := p.fs.PathJoin(p.dir, "table.new")
	holes, err := mendTable(s.readerOptions(), p.fs, p.db, fresh, t)
	if err != nil {
		return err
	}
	scars, err := s.scar(t, holes)
	if err != nil {
		return err
	}
	aside, err := p.newAside()
	if err != nil {
		return err
	}
	if err := p.keepAside(aside, t.name); err != nil {
		return err
	}
	begun := time.Now()
	reopened := false
	err = s.alone(func() error {
		if err := closePebble(s.db, s.guard); err != nil {
			return err
		}
		if err := p.replace(fresh, t.name); err != nil {
			return err
		}
		s.guard.pace.hurry()
		db, err := openPebble(s.o, s.guard)
		if err != nil {
			return err
		}
		s.guard.pace.relax()
		s.db, reopened = db, true
		return nil
	})
	if errors.Is(err, errBusy) || errors.Is(err, errClosed) { // nothing was begun
		return err
	}
	if err != nil && !reopened {
		s.out.fail(fmt.Errorf("mend %s: %w", t.name, err))
		return err
	}
	for _, h := range holes {
		s.log.Error("stored data is lost", "file", t.name, "lost", h.String())
	}
	s.log.Warn("table was mended", "file", t.name, "aside", aside, "took", time.Since(begun))
	return s.markNewer(scars)
}

// scar makes the loss durable, before it happens.
func (s *Store) scar(t table, holes []hole) (fresh scars, err error) {
	if len(holes) == 0 {
		return nil, nil
	}
	old := s.scarred()
	for i, h := range holes {
		fresh = append(fresh, scar{hole: h, n: old.last() + 1 + uint64(i), file: t.name, timeMs: uint64(s.o.Now().UnixMilli()), maxSeq: t.maxSeq})
	}
	all := slices.Concat(old, fresh)
	p := s.o.place()
	if err := p.writeScars(p.scarsFile(), all); err != nil {
		return nil, err
	}
	return fresh, s.write(context.Background(), 1024, func(b *pebble.Batch) error {
		s.scars.Store(&all) // before what is staged after this: it is marked
		return all.put(b)   // the old ones too: they may have been in the table
	})
}

// markNewer marks the keys in fresh scars that are newer than all that was lost there.
// One that is not sound as far as an older scar goes has no use of it.
func (s *Store) markNewer(fresh scars) error {
	for _, sc := range fresh {
		keys, err := s.newer(sc)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(keys, 1000) {
			err := s.write(context.Background(), 64*len(part), func(b *pebble.Batch) error { return setMarks(b, part, sc.n) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// newer are the keys that markNewer marks in one scar.
func (s *Store) newer(sc scar) ([][]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	all := s.scarred()
	older := all[:slices.IndexFunc(all, func(o scar) bool { return o.n == sc.n })]
	keys, err := newer(s.db, sc.hole, sc.maxSeq)
	if err != nil {
		return nil, err
	}
	return s.undoubted(keys, older)
}

// undoubted are those of keys that are not doubted.
func (s *Store) undoubted(keys [][]byte, some scars) (sure [][]byte, err error) {
	for _, k := range keys {
		if bad, err := s.doubted(k, some); err != nil {
			return nil, err
		} else if !bad {
			sure = append(sure, k)
		}
	}
	return sure, nil
}

// newer are the keys of h that were written after seq of Pebble.
func newer(db *pebble.DB, h hole, seq uint64) (keys [][]byte, err error) {
	err = db.ScanInternal(context.Background(), block.CategoryUnknown, h.from, h.to,
		func(k *pebble.InternalKey, _ pebble.LazyValue, _ pebble.IteratorLevel) error {
			if uint64(k.SeqNum()) > seq {
				keys = append(keys, bytes.Clone(k.UserKey))
			}
			return nil
		},
		func(_, _ []byte, _ pebble.SeqNum) error { return nil },
		func(_, _ []byte, _ []rangekey.Key) error { return nil }, nil, nil)
	return keys, asRead(err)
}

// errBusy ends alone when calls take too long.
var errBusy = errors.New("calls are under way")

// aloneWithin is how long the others may wait for alone to begin.
const aloneWithin = time.Second

// alone runs f while no call is inside Pebble and nothing is queued. Calls wait
// meanwhile.
func (s *Store) alone(f func() error) error {
	gate := make(chan struct{})
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return errClosed
	}
	s.gate = gate
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.gate = nil
		s.mu.Unlock()
		close(gate)
	}()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	limit := time.After(aloneWithin)
	for !s.quiet() {
		select {
		case <-poll.C:
		case <-limit:
			return errBusy
		case <-s.out.ch:
			return s.out.err()
		}
	}
	return f()
}

func (s *Store) quiet() bool {
	s.mu.Lock()
	idle := s.uses == 0
	s.mu.Unlock()
	return idle && s.queue.oldest().IsZero()
}

// newAside makes a folder for files that are taken out of the store.
func (p place) newAside() (string, error) {
	for i := 1; ; i++ {
		dir := p.fs.PathJoin(p.dir, fmt.Sprintf("lost-%d", i))
		if _, err := p.fs.Stat(dir); isNotExist(err) {
			return dir, makeDir(p.fs, dir)
		} else if err != nil {
			return "", err
		}
	}
}

// keepAside keeps a file of the database in the folder aside as it is. What cannot
// be read of it is missing there.
func (p place) keepAside(aside, name string) error {
	from, to := p.fs.PathJoin(p.db, name), p.fs.PathJoin(aside, name)
	err := p.fs.Link(from, to)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		err = vfs.Copy(p.fs, from, to)
	}
	if err != nil {
		return err
	}
	return syncDir(p.fs, aside)
}

// replace puts the file fresh in the place of a file of the database.
func (p place) replace(fresh, name string) error {
	if err := p.fs.Rename(fresh, p.fs.PathJoin(p.db, name)); err != nil {
		return err
	}
	if err := syncDir(p.fs, p.db); err != nil {
		return err
	}
	return syncDir(p.fs, p.dir)
}

// each calls fn for the keys with a prefix.
func (s *Store) each(prefix []byte, fn func(k, v []byte) error) error {
	return s.scan(context.Background(), prefix, after(bytes.Clone(prefix)), func(k, v []byte) (bool, error) {
		return true, fn(k, v)
	})
}
