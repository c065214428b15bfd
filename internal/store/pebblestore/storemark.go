package pebblestore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// storeMark is the content of the store mark: a small file outside the data folder that records which store
// was served and its newest commit. If the folder is put back to an earlier state, the mark stays.
type storeMark struct {
	Store   string `json:"store"`   // store id, 16 hex digits
	History string `json:"history"` // history id, 16 hex digits
	Commit  uint64 `json:"commit"`  // number of a durable commit
	TimeMs  uint64 `json:"time_ms"` // of that commit, Unix milliseconds
	Folder  string `json:"folder"`  // data folder of the store, absolute
}

func newStoreMark(dir string, id identity, l last) storeMark {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return storeMark{Store: hex(id.store), History: hex(id.history), Commit: l.n, TimeMs: l.timeMs, Folder: dir}
}

// elsewhere tells whether the mark is of a store in another folder than dir that still exists. So a trial restore
// beside the store does not take over its mark.
func (m *storeMark) elsewhere(dir string) bool {
	theirs, err := os.Stat(m.Folder)
	if err != nil {
		return false // moved, or seen from another container
	}
	if _, err := os.Stat(filepath.Join(m.Folder, "store")); err != nil {
		return false
	}
	ours, err := os.Stat(dir)
	return err != nil || !os.SameFile(theirs, ours)
}

func hex(id uint64) string { return fmt.Sprintf("%016x", id) }

// readStoreMark reads the mark at path; nil: there is none.
func readStoreMark(path string) (*storeMark, error) {
	return markfile.Read(path, func(m *storeMark) error {
		for _, id := range []string{m.Store, m.History} {
			if _, err := strconv.ParseUint(id, 16, 64); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m storeMark) encode() []byte {
	b, err := json.Marshal(m)
	im.Assert(err == nil, "a mark does not encode")
	return append(b, '\n')
}

// checkStoreMark refuses the store if the store mark is of another store or history, or is ahead of it. If there is
// no mark, it sets unmarked. Errors: ErrOtherStore, *Damaged, and those of reading the mark.
func (f *finding) checkStoreMark(o Options) error {
	if o.Mark == "" {
		return nil
	}
	m, err := readStoreMark(o.Mark)
	if err != nil || m == nil {
		f.unmarked = m == nil
		return err
	}
	switch {
	case m.elsewhere(o.Dir):
		return fmt.Errorf(
			"%w: the mark %s is of the store in %s, which is there; name another file in store.mark, or none, to try %s beside it, or delete the mark if this one replaces it",
			ErrOtherStore, o.Mark, m.Folder, o.Dir)
	case m.Store != hex(f.id.store):
		return fmt.Errorf(
			"%w: the mark %s is of store %s, and the folder holds store %s; mount the folder of that store, or delete the mark if this one is meant",
			ErrOtherStore, o.Mark, m.Store, hex(f.id.store))
	case m.History != hex(f.id.history):
		return &Damaged{Dir: o.Dir, Rewound: true, Mark: o.Mark, WitnessedMs: m.TimeMs, Missing: fmt.Sprintf(
			"the mark %s is of history %s, and the folder holds history %s of the store", o.Mark, m.History,
			hex(f.id.history))}
	case m.Commit > f.last.n:
		return &Damaged{Dir: o.Dir, Rewound: true, Mark: o.Mark, First: f.last.n + 1, Last: m.Commit,
			RecoveredMs: f.last.timeMs, WitnessedMs: m.TimeMs}
	}
	return nil
}

// MarkFailures counts the times that the store mark could not be written.
func (s *Store) MarkFailures() uint64 { return s.mark.Failures() }

// currentMark returns the mark for the newest synced commit.
func (s *Store) currentMark() []byte {
	return newStoreMark(s.o.Dir, identity{store: s.info.StoreID, history: s.info.HistoryID}, s.queue.synced()).encode()
}
