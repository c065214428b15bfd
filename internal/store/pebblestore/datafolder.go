package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors of a data folder that is another one than expected, or is gone.
var (
	ErrOtherStore = errors.New("this is another store")
	ErrNoStore    = errors.New("there is no store where one is expected")
	ErrFolderGone = errors.New("the data folder was removed or replaced while it was in use")
)

// folderEvery is the interval at which a store checks that its folder is still there.
const folderEvery = 500 * time.Millisecond

// expect refuses a folder without a store if one is expected there: its volume may not be mounted, and a new
// store would then be made on another disk. It writes nothing.
func (p place) expect(o Options) error {
	for _, path := range []string{p.db, p.witness} {
		if _, err := p.fs.Stat(path); !isNotExist(err) {
			return nil // open judges what is there
		}
	}
	if o.StoreID != 0 {
		return fmt.Errorf(
			"open %s: %w: the configuration names store %s in store.id, and the folder holds none; mount its volume, or remove store.id to make a new store",
			p.dir, ErrNoStore, hex(o.StoreID))
	}
	if m, err := o.markWithoutStore(); err != nil {
		return err
	} else if m != nil {
		return fmt.Errorf(
			"open %s: %w: the mark %s is of store %s, and the folder holds none; mount its volume, or delete the mark to make a new store", p.dir, ErrNoStore, o.Mark, m.Store)
	}
	for _, marker := range p.markers() {
		b, err := os.ReadFile(marker)
		if err != nil {
			continue // there is none, or nobody can tell
		}
		id, _, _ := strings.Cut(string(b), "\n")
		return fmt.Errorf(
			"open %s: %w: the folder held %s, and holds none now; mount its volume, start with --data at the place where the folder is now, or delete %s to make a new store",
			p.dir, ErrNoStore, id, marker)
	}
	return nil
}

// markWithoutStore reads the store mark for a folder without a store; nil: there is no mark.
func (o Options) markWithoutStore() (*storeMark, error) {
	if o.Mark == "" {
		return nil, nil
	}
	return readStoreMark(o.Mark)
}

// markers returns the paths of the markers, the nearest first. A marker is a file that records a store in the
// data folder. It lies outside this folder, because the folder is empty while its volume is not mounted.
// leaveMarkers writes one beside the folder, and one beside the mount point if the folder is deeper in its
// volume. Without the volume the mount point is unknown, so the list has a path beside each folder above.
func (p place) markers() []string {
	dir, err := filepath.Abs(p.dir)
	if err != nil || p.fs != vfs.Default {
		return nil
	}
	var all []string
	for above := filepath.Dir(dir); ; above = filepath.Dir(above) {
		name := strings.TrimPrefix(strings.TrimPrefix(dir, above), "/")
		all = append(all, filepath.Join(above, "."+strings.ReplaceAll(name, "/", "-")+".store"))
		if filepath.Dir(above) == above {
			return all
		}
	}
}

// leaveMarkers writes the markers of an open store. If a marker cannot be written, this is only logged.
func (p place) leaveMarkers(log *slog.Logger, id uint64) {
	all := p.markers()
	if len(all) == 0 {
		return
	}
	where := []string{all[0]}
	if i := p.mountPoint(); i > 0 && i < len(all) {
		where = append(where, all[i])
	}
	text := fmt.Sprintf(
		"store %s\nA Petrel store is in this place, or was: %s\nWhile this file is here, \"petrel serve\" makes no new store there.\n", hex(id), filepath.Base(p.dir))
	for _, path := range where {
		if b, err := os.ReadFile(path); err == nil && string(b) == text {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			log.Info("cannot write a marker beside the data folder: set store.id, or an unmounted volume may be taken for a new store", "store", hex(id), "err", err)
		}
	}
}

// mountPoint counts the folders from the data folder up to the mount point of its volume. It returns 0 if the
// data folder is on the root file system, or is the mount point itself. A folder for temporary files counts as
// on the root file system: its stores vanish, and markers outside of it would stay.
func (p place) mountPoint() int {
	dir, err := filepath.Abs(p.dir)
	if err != nil || strings.HasPrefix(dir, filepath.Clean(os.TempDir())+"/") {
		return 0
	}
	device, ok := deviceOf(dir)
	for n := 0; ok; n++ {
		above := filepath.Dir(dir)
		d, known := deviceOf(above)
		switch {
		case above == dir || !known:
			return 0
		case d != device:
			return n
		}
		dir = above
	}
	return 0
}

func deviceOf(path string) (uint64, bool) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return 0, false
	}
	return uint64(st.Dev), true
}

// leaveToOwner gives a file that this process, if it is root, has made in the folder to the owner of the folder, who
// opens it next. If that fails, the next backup reports it.
func (p place) leaveToOwner(name string) {
	var st syscall.Stat_t
	if p.fs != vfs.Default || os.Geteuid() != 0 || syscall.Stat(p.dir, &st) != nil || st.Uid == 0 {
		return
	}
	if root, err := os.OpenRoot(p.dir); err == nil { // follows no link out of the folder
		_ = root.Lchown(name, int(st.Uid), int(st.Gid)) // the next backup reports it
		_ = root.Close()                                // read-only
	}
}

// lockFolder locks the folder itself: the lock file can be deleted while a server runs. The parameter with is the
// lock of the lock file. Closing the result ends both locks.
func (p place) lockFolder(with io.Closer) (io.Closer, error) {
	if p.fs != vfs.Default {
		return with, nil
	}
	d, err := os.Open(p.dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = d.Close() // was only read
		return nil, p.inUse()
	}
	return &folderLock{file: with, dir: d}, nil // NFS locks no folders: there the lock file must suffice
}

type folderLock struct {
	file io.Closer
	dir  *os.File
}

// Close implements io.Closer. It unlocks the folder explicitly: a child that this process has just forked
// keeps the folder open until it runs its own program.
func (l *folderLock) Close() error {
	_ = syscall.Flock(int(l.dir.Fd()), syscall.LOCK_UN) // it is closed anyway
	return errors.Join(l.file.Close(), l.dir.Close())
}

// watchFolder ends the store when its folder is gone: writes and syncs of a deleted file still succeed, and
// commits acked into it would be lost. The map here has the files as they were when the store was opened.
func (s *Store) watchFolder(here map[string]os.FileInfo) {
	tick := time.NewTicker(folderEvery)
	defer tick.Stop()
	for {
		if err := s.checkFolder(here); err != nil {
			s.out.fail(fmt.Errorf("%w: %s: %w", ErrFolderGone, s.place.dir, err))
			return
		}
		select {
		case <-s.stop:
			return
		case <-s.out.ch:
			return
		case <-tick.C:
		}
	}
}

// checkFolder returns an error if the folder is gone or replaced. It compares the folder, the witness and the
// database with the entries of the map here, which the first call fills, and looks for the newest log file. It
// ignores errors that say nothing about that, such as a lack of permission.
func (s *Store) checkFolder(here map[string]os.FileInfo) error {
	for _, path := range []string{s.place.dir, s.place.witness, s.place.db} {
		now, err := os.Stat(path)
		switch was := here[path]; {
		case gone(err):
			return err
		case err != nil: // it says nothing about the folder
		case was == nil:
			here[path] = now
		case !os.SameFile(was, now):
			return fmt.Errorf("%s is not the one that was opened", path)
		}
	}
	for log := s.witness.log.Load(); log != 0; {
		_, err := os.Stat(s.place.fs.PathJoin(s.place.db, logName(log)))
		newest := s.witness.log.Load()
		if !gone(err) || newest == log {
			if gone(err) {
				return err
			}
			return nil
		}
		log = newest // Pebble has removed the older one meanwhile
	}
	return nil
}

func gone(err error) bool { return isNotExist(err) || errors.Is(err, syscall.ENOTDIR) }
