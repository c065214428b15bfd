// Package markfile reads and writes the file of store.mark. It is outside of the
// store, which does not take it along when it is put back to an earlier state.
package markfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Read reads the mark at path, as JSON, and returns nil if there is none. A file
// that is something else, which the next Write would destroy, is refused. So is a
// mark that check refuses.
func Read[M any](path string, check func(*M) error) (*M, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the store mark: %w; name a file that this user may read in store.mark", err)
	}
	m := new(M)
	if err = json.Unmarshal(b, m); err == nil {
		err = check(m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no mark of this kind of store: %w; name another file in store.mark, or delete this one if it is damaged", path, err)
	}
	return m, nil
}

// Write replaces the mark at path by b. It is durable when Write returns.
func Write(path string, b []byte) error {
	fresh := path + ".new"
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
