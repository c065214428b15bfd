package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A seal shows that an older copy of the data folder was written over it. It is a small file in the folder, and
// the witness identifies this file by its inode number and the time of its creation. The store makes a new
// seal, under another name, at its start, at its end, and every second while commits come. Then it removes the
// former one. An older copy of the folder brings an older witness along. The seal that this witness names is
// missing by now, or is another file: no file can be created with a past time of creation.
type seal struct {
	Number uint64 // 1 or 2, in turn; 0: there is none yet
	File   fileID
}

func (s seal) name() string { return fmt.Sprintf("seal-%d", s.Number) }

// next returns the seal that replaces s. Its file is not known yet.
func (s seal) next() seal { return seal{Number: 1 + s.Number%2} }

// sealEvery is how often a store makes a new seal while commits come.
const sealEvery = time.Second

// sealShare bounds the time that seals take on a slow disk: at most 1/sealShare of all time.
const sealShare = 100

const sealText = "The witness of this Petrel store knows the inode number of this file. So the server notices when an older copy of the folder was written over it.\n"

// copied returns the proof that the folder was restored from a copy; empty: there is none. In a copy of the
// folder the seal is a copy too.
func (p place) copied(v inventory) (string, error) {
	if v.Seal.Number == 0 {
		return "", nil
	}
	path := p.fs.PathJoin(p.dir, v.Seal.name())
	now, err := identify(p.fs, path)
	if err == nil { // identify does not look at files in memory
		_, err = p.fs.Stat(path)
	}
	switch {
	case isNotExist(err):
		return v.Seal.name() + " is missing", nil
	case err != nil:
		return "", err
	case !v.Seal.File.is(now):
		return v.Seal.name() + " is not the file that the server made", nil
	}
	return "", nil
}

// make makes the file of a seal, durably, in place of any older one.
func (s *seal) make(p place) error {
	path := p.fs.PathJoin(p.dir, s.name())
	if err := p.fs.Remove(path); err != nil && !isNotExist(err) {
		return err
	}
	err := writeSynced(p.fs, path, []byte(sealText))
	if err == nil {
		err = syncDir(p.fs, p.dir) // its name must be durable before the witness names it
	}
	if err == nil {
		s.File, err = identify(p.fs, path)
	}
	return err
}

// sealing is the state of the store's seals. Only one goroutine at a time uses it: Open, then keepSeal, then
// Close.
type sealing struct {
	commit  uint64 // the newest commit when the seal was made
	failing bool   // the last one could not be made
}

// reseal makes a new seal if commits have come since the last one; newest is the number of the newest commit. It
// makes none if the path of the folder leads to another folder. If the file cannot be made, as on a full disk, the
// old seal stays. An error means that the store has failed, perhaps because the witness cannot be written.
func (s *Store) reseal(newest uint64) error {
	if newest == s.sealing.commit || s.out.err() != nil || !s.holdsFolder() {
		return s.out.err()
	}
	g := s.guard
	g.mu.Lock()
	was := g.inv.Seal
	g.mu.Unlock()
	now := was.next()
	if err := now.make(s.place); err != nil {
		if !s.sealing.failing {
			s.log.Warn("make a seal failed: a copy of the folder that is written over it may not be noticed", "err",
				err)
		}
		s.sealing.failing = true
		return nil
	}
	s.sealing = sealing{commit: newest}
	g.mu.Lock()
	g.inv.Seal = now
	err := g.wit.inventory(g.inv)
	g.mu.Unlock()
	if err != nil {
		s.out.fail(fmt.Errorf("write inventory to witness: %w", err))
		return s.out.err()
	}
	_ = s.place.fs.Remove(s.place.fs.PathJoin(s.place.dir, was.name())) // the next seal has this name and replaces it
	return nil
}

// holdsFolder tells whether the path of the folder still leads to the folder of this store. Another store may
// have taken the path, and the seal of that one must stay.
func (s *Store) holdsFolder() bool {
	l, ok := s.lock.(*folderLock)
	if !ok {
		return true // in memory, or not open yet
	}
	ours, err := l.dir.Stat()
	theirs, e := os.Stat(s.place.dir)
	return errors.Join(err, e) == nil && os.SameFile(ours, theirs)
}

// keepSeal makes new seals while commits come, until Close or a failure. A store in memory has only the seals of its
// start and end: nothing copies its folder.
func (s *Store) keepSeal() {
	if s.place.fs != vfs.Default {
		return
	}
	wait := time.NewTimer(sealEvery)
	defer wait.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.out.ch:
			return
		case <-wait.C:
		}
		begun := time.Now()
		if s.reseal(s.queue.synced().n) != nil {
			return
		}
		wait.Reset(max(sealEvery, s.o.sealShare*time.Since(begun)))
	}
}
