package pebblestore

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
)

// A start looks for loss before it writes anything. It needs a few records of the store about itself, and the
// numbers of the commits. After a kill the log may have 200 MB, and reading it into memtables would take as
// long as the start itself. So the search opens the tables alone, and picks these records from the batches of
// the log. No batch deletes them as a range.

// unreplayed is a file system in which all log files are empty.
type unreplayed struct{ vfs.FS }

// Open implements vfs.FS.
func (u unreplayed) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := u.FS.Open(name, o...)
	if _, ok := logNumber(u.PathBase(name)); ok && err == nil {
		f = emptyFile{f}
	}
	return f, err
}

type emptyFile struct{ vfs.File }

// Read implements vfs.File.
func (emptyFile) Read([]byte) (int, error) { return 0, io.EOF }

// ReadAt implements vfs.File.
func (emptyFile) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// own has the store's records about itself, from its tables and its log.
type own struct {
	db     *pebble.DB
	logged map[string][]byte // the values in the log; nil: deleted
}

// add notes the records of the store about itself that a batch of the log sets or deletes, except the marks of
// damaged ranges. Errors: ErrCorrupt.
func (w *own) add(repr []byte) error {
	if len(repr) < batchrepr.HeaderLen {
		return fmt.Errorf("a batch of %d bytes: %w", len(repr), store.ErrCorrupt)
	}
	for r := batchrepr.Read(repr); ; {
		kind, key, value, ok, err := r.Next()
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		case !ok:
			return nil
		case len(key) == 0 || key[0] != kindStore || bytes.HasPrefix(key, keyMarks):
		case kind == pebble.InternalKeyKindSet:
			w.logged[string(key)] = append([]byte{}, value...)
		case kind == pebble.InternalKeyKindDelete:
			w.logged[string(key)] = nil
		}
	}
}

// get returns the value of a key, nil if there is none.
func (w *own) get(key []byte) ([]byte, error) {
	if v, ok := w.logged[string(key)]; ok {
		return v, nil
	}
	s := Store{db: w.db}
	return s.get(key)
}
