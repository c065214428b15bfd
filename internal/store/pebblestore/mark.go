package pebblestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// markEvery is how far the store mark may be behind the newest acked commit.
const markEvery = time.Second

// markWait is how long Close waits for the disk of the store mark.
const markWait = 2 * time.Second

// mark is what the store mark says: a small file outside the data folder that
// tells which store was served and how far it had come. A folder that is put
// back to an earlier state does not take it along.
type mark struct {
	Store   string `json:"store"`   // store id, 16 hex digits
	History string `json:"history"` // history id, 16 hex digits
	Commit  uint64 `json:"commit"`  // number of a commit that was acked
	TimeMs  uint64 `json:"time_ms"` // of that commit, Unix milliseconds
}

func newMark(id identity, l last) mark {
	return mark{Store: hex(id.store), History: hex(id.history), Commit: l.n, TimeMs: l.timeMs}
}

func hex(id uint64) string { return fmt.Sprintf("%016x", id) }

// readMark returns nil if there is no mark at path. It refuses a file that is
// something else, which the next write would destroy.
func readMark(path string) (*mark, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the store mark: %w", err)
	}
	m := new(mark)
	err = json.Unmarshal(b, m)
	for _, id := range []string{m.Store, m.History} {
		if _, e := strconv.ParseUint(id, 16, 64); err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no mark of a store: %w; name another file in store.mark, or delete this one if it is damaged", path, err)
	}
	return m, nil
}

// writeMark replaces the mark at path. It is durable when writeMark returns.
func writeMark(path string, m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	fresh := path + ".new"
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// checkMark compares what was found with the store mark.
func (f *finding) checkMark(o Options) error {
	if o.Mark == "" {
		return nil
	}
	m, err := readMark(o.Mark)
	if err != nil || m == nil {
		f.unmarked = m == nil
		return err
	}
	switch {
	case m.Store != hex(f.id.store):
		return fmt.Errorf("%w: the mark %s is of store %s, and the folder holds store %s; mount the folder of that store, or delete the mark if this one is meant",
			ErrOtherStore, o.Mark, m.Store, hex(f.id.store))
	case m.History != hex(f.id.history):
		return &Damaged{Dir: o.Dir, Rewound: true, WitnessedMs: m.TimeMs, Missing: fmt.Sprintf(
			"the mark %s is of history %s, and the folder holds history %s of the store", o.Mark, m.History, hex(f.id.history))}
	case m.Commit > f.last.n:
		return &Damaged{Dir: o.Dir, Rewound: true, First: f.last.n + 1, Last: m.Commit, RecoveredMs: f.last.timeMs, WitnessedMs: m.TimeMs}
	}
	return nil
}

// marking keeps the store mark up to date.
type marking struct {
	failures atomic.Uint64
	failing  bool
	done     chan struct{} // closed when keepMark has returned
}

// MarkFailures counts the times that the store mark could not be written.
func (s *Store) MarkFailures() uint64 { return s.marking.failures.Load() }

// keepMark writes the store mark once a second while commits come, and at the
// end. A disk that hangs holds only this goroutine.
func (s *Store) keepMark() {
	defer close(s.marking.done)
	if s.o.Mark == "" {
		return
	}
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	said := last{}
	for {
		if l := s.queue.synced(); l.n > said.n && s.saveMark(l) {
			said = l
		}
		select {
		case <-tick.C:
		case <-s.out.ch:
			return
		case <-s.stop:
			if l := s.queue.synced(); l.n > said.n {
				s.saveMark(l)
			}
			return
		}
	}
}

func (s *Store) saveMark(l last) bool {
	k := &s.marking
	err := writeMark(s.o.Mark, newMark(identity{store: s.info.StoreID, history: s.info.HistoryID}, l))
	if err != nil {
		k.failures.Add(1)
		if !k.failing {
			s.log.Warn("write the store mark failed: a store that is put back to an earlier state may not be noticed", "err", err)
		}
	} else if k.failing {
		s.log.Info("the store mark is written again")
	}
	k.failing = err != nil
	return err == nil
}

// awaitMark waits for the last store mark, but not for a disk that hangs.
func (s *Store) awaitMark() {
	select {
	case <-s.marking.done:
	case <-time.After(markWait):
		s.log.Warn("the store mark was not written: its disk does not answer")
	}
}
