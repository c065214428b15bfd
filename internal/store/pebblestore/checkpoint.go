package pebblestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
)

// checkpointPrefix begins the names of checkpoints, which are folders beside the database.
const checkpointPrefix = "checkpoint-"

// ErrBusy is returned by Checkpoint while another one is being made.
var ErrBusy = errors.New("another checkpoint is being made")

// Checkpoint makes a folder inside the data folder that holds the store as it was at a moment after the call
// began, and returns the folder's name. Tables are linked and not copied. The caller removes the folder in the
// end; if it does not, the store does so at its next checkpoint or start.
//
// The checkpoint has all commits that were acked before the call, and none that the store itself could still
// lose. It works on a nearly full disk too, if there is room for a copy of the log. Errors: ErrBusy,
// store.ErrFull, and others; an error of a file of the checkpoint does not end the store.
func (s *Store) Checkpoint(ctx context.Context) (name string, err error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.leave()
	if !s.checkpointing.CompareAndSwap(false, true) {
		return "", ErrBusy
	}
	defer s.checkpointing.Store(false)
	if err := s.Writable(); err != nil && !errors.Is(err, store.ErrFull) {
		return "", err
	}
	name = checkpointPrefix + strings.ToLower(rand.Text())
	dir := s.o.FS.PathJoin(s.o.Dir, name)
	if err := s.checkpoint(ctx, dir); err != nil {
		_ = s.o.FS.RemoveAll(dir) // the next checkpoint and the next start try again
		return "", fmt.Errorf("make checkpoint of %s: %w", s.o.Dir, err)
	}
	s.checkpoints.Add(1)
	return name, nil
}

func (s *Store) checkpoint(ctx context.Context, dir string) error {
	if err := s.o.place().dropCheckpoints(); err != nil {
		return err
	}
	full := s.space.full.Load()
	if full && !s.roomForCheckpoint() {
		return store.ErrFull
	}
	err := caught(func() error {
		// The log is copied, so a short log makes a small copy. But a flush that finds no space ends the
		// store, and a checkpoint does not.
		if !full {
			if err := s.db.Flush(); err != nil {
				return err
			}
		}
		return s.db.Checkpoint(dir)
	})
	if err != nil {
		return err
	}
	// The copy of the log may be ahead of the disk. This commit comes after all that was copied: once the
	// witness has it, all of the copy is durable.
	return s.write(ctx, 64, func(*pebble.Batch) error { return nil })
}

// roomForCheckpoint tells whether a copy of the log takes less than half of the free space. The store needs the
// rest for its tables.
func (s *Store) roomForCheckpoint() bool {
	free, err := s.space.free()
	return err == nil && free/2 > s.db.Metrics().WAL.Size
}

// dropCheckpoints removes the checkpoints that backups have left.
func (p place) dropCheckpoints() error {
	names, err := p.fs.List(p.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, checkpointPrefix) {
			if err := p.fs.RemoveAll(p.fs.PathJoin(p.dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// apart is the file system that Pebble gets. It passes the files in the folder of the database to the guard.
// Files elsewhere, which are those of checkpoints, go around it: a disk that gets full during a checkpoint must
// not end the store, and these files do not belong into the inventory.
type apart struct{ *guard }

// of returns the file system for the file name: the guard, or the one below it.
func (a apart) of(name string) vfs.FS {
	if name != a.dir && a.PathDir(name) != a.dir {
		return a.FS
	}
	return a.guard
}

// Create implements vfs.FS.
func (a apart) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return a.of(name).Create(name, c)
}

// Remove implements vfs.FS.
func (a apart) Remove(name string) error { return a.of(name).Remove(name) }

// RemoveAll implements vfs.FS.
func (a apart) RemoveAll(name string) error { return a.of(name).RemoveAll(name) }

// Link implements vfs.FS.
func (a apart) Link(from, to string) error { return a.of(to).Link(from, to) }

// MkdirAll implements vfs.FS.
func (a apart) MkdirAll(name string, perm os.FileMode) error { return a.of(name).MkdirAll(name, perm) }

// OpenDir implements vfs.FS. A sync of another folder makes no log file of the database durable.
func (a apart) OpenDir(name string) (vfs.File, error) {
	if name == a.dir {
		return a.guard.OpenDir(name)
	}
	return a.FS.OpenDir(name)
}
