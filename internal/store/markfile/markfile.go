// Package markfile reads the file of store.mark and keeps it up to date. The file is outside of the store, so
// it stays when the store is put back to an earlier state.
package markfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	every    = time.Second     // interval at which a changed mark is written
	stopWait = 2 * time.Second // how long Stop waits for the disk of the mark
)

// Read reads the mark at path, as JSON, and returns nil if there is none. It refuses a mark that check refuses,
// and any other file, which the next Write would destroy.
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
		return nil, fmt.Errorf(
			"%s is no mark of this kind of store: %w; name another file in store.mark, or delete this one if it is damaged", path, err)
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

// Keeper writes a mark once a second if it has changed. A disk that hangs blocks only the Keeper's goroutine.
type Keeper struct {
	path     string
	log      *slog.Logger
	current  func() []byte
	failures atomic.Uint64
	once     sync.Once
	stop     chan struct{} // closed by Stop
	done     chan struct{} // closed when run has returned
}

// Keep starts a goroutine that writes the result of current into the file at path, until Stop is called or failed is
// closed. Nothing is written while current returns nil, or if path is empty.
func Keep(path string, log *slog.Logger, failed <-chan struct{}, current func() []byte) *Keeper {
	k := &Keeper{path: path, log: log, current: current, stop: make(chan struct{}), done: make(chan struct{})}
	go k.run(failed) // Stop waits for it unless its disk hangs
	return k
}

// Failures counts the times that the mark could not be written.
func (k *Keeper) Failures() uint64 { return k.failures.Load() }

// Stop writes the last mark, unless failed is closed, and ends the goroutine; a second call changes nothing. If the
// disk hangs, Stop gives up after stopWait.
func (k *Keeper) Stop() {
	k.once.Do(func() { close(k.stop) })
	select {
	case <-k.done:
	case <-time.After(stopWait):
		k.log.Warn("the store mark was not written: its disk does not answer")
	}
}

func (k *Keeper) run(failed <-chan struct{}) {
	defer close(k.done)
	if k.path == "" {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var written []byte
	failing := false
	save := func() {
		b := k.current()
		if b == nil || bytes.Equal(b, written) {
			return
		}
		err := Write(k.path, b)
		switch {
		case err == nil:
			written = b
			if failing {
				k.log.Info("the store mark is written again")
			}
		case !failing:
			k.log.Warn("write the store mark failed: a store that is put back to an earlier state may not be noticed",
				"err", err)
		}
		if failing = err != nil; failing {
			k.failures.Add(1)
		}
	}
	for {
		save()
		select {
		case <-tick.C:
		case <-failed:
			return
		case <-k.stop:
			save()
			return
		}
	}
}
