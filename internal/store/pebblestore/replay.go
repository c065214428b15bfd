package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
)

// A start looks for loss before it writes anything. For that it needs a few keys that the
// store keeps about itself, and the numbers of the commits. After a kill the log may have
// 200 MB, and to put all of it into memtables takes as long as the start itself. So the
// look opens the tables alone, and picks these keys from the batches of the log.

// unreplayed is a file system in which the log files are empty.
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

// own is what a store keeps about itself, as its tables and log have it.
type own struct {
	db     *pebble.DB
	logged map[string][]byte // what the log has of it; nil: deleted
}

// errOdd: the log has something that own does not understand. Only a repair writes it.
var errOdd = errors.New("the log has to be replayed")

// add takes a batch of the log. Errors: ErrCorrupt, errOdd.
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
		case kind == pebble.InternalKeyKindRangeDelete:
			if bytes.Compare(key, []byte{kindStore + 1}) < 0 && bytes.Compare(value, []byte{kindStore}) > 0 {
				return errOdd
			}
		case kind != pebble.InternalKeyKindSet && kind != pebble.InternalKeyKindDelete:
			return errOdd
		case len(key) == 0 || key[0] != kindStore || bytes.HasPrefix(key, keyMarks):
		case kind == pebble.InternalKeyKindSet:
			w.logged[string(key)] = append([]byte{}, value...)
		default:
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

// scars reads the scars.
func (w *own) scars() (scars, error) {
	var all scars
	add := func(k, v []byte) error {
		sc, err := parseScar(k, v)
		all = append(all, sc)
		return err
	}
	s := Store{db: w.db}
	err := s.each(keyScars, func(k, v []byte) error {
		if _, ok := w.logged[string(k)]; ok {
			return nil
		}
		return add(k, v)
	})
	for k, v := range w.logged {
		if err == nil && v != nil && bytes.HasPrefix([]byte(k), keyScars) {
			err = add([]byte(k), v)
		}
	}
	return scars{}.with(all), err
}
