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
	"github.com/cockroachdb/pebble/v2/vfs"
)

// mendAgain is the pause before a table that could not be mended is tried again.
const mendAgain = 10 * time.Second

// mender mends damaged tables until Close or a failure. Without it each compaction would meet the damage, and writes
// stop when too many tables wait for compaction.
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
			if err := s.mendIfDamaged(file); err == nil {
				s.damage.mended(file)
			} else if !errors.Is(err, errClosed) {
				s.log.Error("mend table failed", "file", file, "err", err)
			}
		}
	}
}

// mendIfDamaged mends a table if it is in use, and if a second read finds it damaged too.
func (s *Store) mendIfDamaged(file string) error {
	t, err := s.tableOf(file)
	if err != nil || t == nil { // nil: it is not in use any more
		return err
	}
	p := s.o.place()
	was, err := checkTable(tableOptions(s.o), p.fs, p.db, *t, nil)
	if err != nil {
		return err
	}
	if was == nil {
		s.log.Warn("table was read again without an error", "file", file)
		return nil
	}
	return s.mend(*t)
}

// tableOf returns the table in use with that file; nil: there is none.
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

// mend replaces a table by its readable part, and keeps the old file in a new folder aside. It closes the database
// and opens it again, because Pebble keeps the index of a table in memory. If the database cannot be opened again,
// mend ends the store.
func (s *Store) mend(t table) error {
	p := s.o.place()
	lost, err := mendTable(tableOptions(s.o), p.fs, p.db, p.freshTable(), t)
	if err != nil {
		return err
	}
	var fresh *damagedRange
	if lost != nil {
		if fresh, err = s.recordLoss(t, *lost); err != nil {
			return err
		}
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
	err = s.exclusive(func() error {
		if err := closePebble(s.db, s.guard); err != nil {
			return err
		}
		if err := p.replaceTable(t.name); err != nil {
			return err
		}
		db, err := openPebble(s.o, s.guard)
		if err != nil {
			return err
		}
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
	s.log.Warn("table was mended", "file", t.name, "aside", aside, "took", time.Since(begun))
	if fresh == nil {
		return nil
	}
	s.log.Error("stored data is lost", "file", t.name, "lost", fresh.String())
	return s.markNewer(*fresh)
}

// recordLoss makes a damaged range durable before its table is replaced, and returns the range. If an earlier attempt
// has ended with errBusy, the range is recorded already and keeps its number.
func (s *Store) recordLoss(t table, lost loss) (*damagedRange, error) {
	all := slices.Clone(s.damaged())
	i := slices.IndexFunc(all, func(r damagedRange) bool {
		return r.File == t.name && bytes.Equal(r.From, lost.From) && bytes.Equal(r.To, lost.To)
	})
	if i < 0 {
		i = len(all)
		all = append(all, lost.of(t, all.last()+1))
	}
	if err := s.o.place().writeRanges(all); err != nil {
		return nil, err
	}
	return &all[i], s.write(context.Background(), 1024, func(b *pebble.Batch) error {
		s.ranges.Store(&all) // the commits that are staged from now on get marks
		return b.Set(keyRanges, all.encode(), nil)
	})
}

// markNewer marks the keys in a fresh range that are newer than everything lost there, except the keys that an
// older range still has as damaged.
func (s *Store) markNewer(fresh damagedRange) error {
	if err := s.enter(); err != nil {
		return err
	}
	all := s.damaged()
	keys, err := s.newer(fresh, all[:slices.IndexFunc(all, func(r damagedRange) bool { return r.N == fresh.N })])
	s.leave()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(keys, 1000) {
		err := s.write(context.Background(), 64*len(part),
			func(b *pebble.Batch) error { return setMarks(b, part, fresh.N) })
		if err != nil {
			return err
		}
	}
	return nil
}

// newer returns the keys in r that were written after all entries of the range's table, without those whose mark
// holds for r and those that older ranges have as damaged.
func (s *Store) newer(r damagedRange, older damagedRanges) (keys [][]byte, err error) {
	err = s.db.ScanInternal(context.Background(), 0, r.From, r.To,
		func(k *pebble.InternalKey, _ pebble.LazyValue, _ pebble.IteratorLevel) error {
			if uint64(k.SeqNum()) <= r.MaxSeq {
				return nil
			}
			n, err := s.markOf(k.UserKey)
			if o := older.having(k.UserKey); err == nil && n < r.N && (o == nil || n >= o.N) {
				keys = append(keys, bytes.Clone(k.UserKey))
			}
			return err
		},
		func(_, _ []byte, _ pebble.SeqNum) error { return nil },
		func(_, _ []byte, _ []rangekey.Key) error { return nil }, nil, nil)
	return keys, asRead(err)
}

// errBusy is the error of exclusive when calls do not end in time.
var errBusy = errors.New("calls are under way")

// exclusiveWithin bounds how long exclusive waits for the calls under way, since new calls wait for exclusive.
const exclusiveWithin = time.Second

// exclusive runs f while no call uses Pebble and nothing is queued. New calls wait in enter meanwhile. Errors:
// errBusy, errClosed, that of a failed store, and that of f.
func (s *Store) exclusive(f func() error) error {
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
	limit := time.After(exclusiveWithin)
	for !s.isIdle() {
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

func (s *Store) isIdle() bool {
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

// keepAside keeps a file of the database in the folder aside, as a hard link or, where links fail, as a copy. A
// missing file is no error.
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

// freshTable returns the path of the table that will replace a damaged one.
func (p place) freshTable() string { return p.fs.PathJoin(p.dir, "table.new") }

// replaceTable renames the fresh table to the name of a file of the database, durably.
func (p place) replaceTable(name string) error {
	if err := p.fs.Rename(p.freshTable(), p.fs.PathJoin(p.db, name)); err != nil {
		return err
	}
	if err := syncDir(p.fs, p.db); err != nil {
		return err
	}
	return syncDir(p.fs, p.dir)
}
