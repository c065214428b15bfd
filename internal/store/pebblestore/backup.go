package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// A folder of backups has one folder for each backup: backup-000001 and so on. It holds Pebble's files, as a
// checkpoint has them, and the manifest (backupmanifest.go). While a backup is written, the name of its folder
// ends in .part; the folder gets its name when all of it is durable. Each backup is complete. A table that is
// also in the previous backup is a hard link to the same file, so each backup can be deleted without the others.
const (
	backupPrefix = "backup-"
	partSuffix   = ".part"
	backupLock   = "backup.lock"
)

// BackupOptions say where a backup goes and how.
type BackupOptions struct {
	To   string // folder of the backups; made if it is missing
	Rate int64  // bytes per second that are read; 0: no limit

	// Checkpoint asks the server that uses the data folder for a checkpoint, and returns its name. See
	// Store.Checkpoint. nil: Backup fails if the folder is in use.
	Checkpoint func(context.Context) (name string, err error)

	// Progress is called after each piece with the bytes read so far and the bytes in all; nil: no calls.
	Progress func(read, total int64)
}

// Taken is a backup that was made.
type Taken struct {
	Manifest
	Folder string
	Bytes  int64 // of all its files
	Copied int64 // of these bytes, those that were copied; the others are linked to the previous backup
}

// Backup makes a backup of the store in o.Dir. If no server uses the folder, Backup locks it and copies it as
// it is; else it asks the server for a checkpoint. The backup has every commit that was acked before the call. If
// Backup holds the lock and the store has lost something, the error is a *Damaged, and no backup is made.
func Backup(ctx context.Context, o Options, b BackupOptions) (Taken, error) {
	o = o.withDefaults()
	p := o.place()
	t, err := backup(ctx, o, p, b)
	if _, ok := errors.AsType[*Damaged](err); err != nil && !ok {
		err = fmt.Errorf("back up %s: %w", p.dir, err)
	}
	return t, err
}

func backup(ctx context.Context, o Options, p place, b BackupOptions) (Taken, error) {
	if _, err := p.fs.Stat(p.db); isNotExist(err) {
		return Taken{}, errors.New("there is no store in the folder; name the data folder of the server with --data")
	} else if err != nil {
		return Taken{}, err
	}
	mine, err := p.fs.Lock(p.fs.PathJoin(p.dir, backupLock))
	if err != nil && !isHeld(err) {
		return Taken{}, fmt.Errorf("lock %s: %w", backupLock, withOwnerHint(err))
	}
	if err != nil {
		return Taken{}, fmt.Errorf("lock %s: %w; is another backup of this store under way?", backupLock, err)
	}
	defer func() { _ = mine.Close() }() // nothing was written to it
	p.leaveToOwner(backupLock)
	lock, err := p.acquire()
	if err == nil {
		defer func() { _ = lock.Close() }() // nothing was written to it
		if _, err := inspect(o, p); err != nil {
			return Taken{}, err
		}
		return copyStore(ctx, o, p.db, b)
	}
	if b.Checkpoint == nil {
		return Taken{}, err
	}
	name, err := b.Checkpoint(ctx)
	if err != nil {
		return Taken{}, err
	}
	from := p.fs.PathJoin(p.dir, p.fs.PathBase(name))
	if _, err := p.fs.Stat(from); isNotExist(err) {
		return Taken{}, fmt.Errorf(
			"the server has made the checkpoint %s, which is not here; give the server of this data folder with --server, and run this on its host", name)
	} else if err != nil {
		return Taken{}, err
	}
	defer func() { _ = p.fs.RemoveAll(from) }() // else the server does it
	return copyStore(ctx, o, from, b)
}

// copyStore copies the database in the folder from, which nobody changes meanwhile.
func copyStore(ctx context.Context, o Options, from string, b BackupOptions) (Taken, error) {
	src, err := examine(o, from)
	if err != nil {
		return Taken{}, err
	}
	m := Manifest{
		Format: backupFormat, StoreID: hex(src.id.store), HistoryID: hex(src.id.history), Level: store.FormatLevel,
		Commit: src.last.n, CommitMs: src.last.timeMs, MadeMs: uint64(o.Now().UnixMilli()),
	}
	c := &copier{ctx: ctx, fs: o.FS, rate: b.Rate, progress: b.Progress, begun: time.Now(), total: src.bytes}
	return c.toFolder(b.To, src, m)
}

// source is the database that is copied.
type source struct {
	finding
	dir   string
	files []sourceFile // ordered by name
	bytes int64        // of all of them
}

type sourceFile struct {
	name     string
	bytes    int64 // to copy
	modified time.Time
}

// examine opens the database in dir for reading and lists its files. It leaves out the torn end of the newest
// log file: that was never acked, or is left from a former use of the file.
func examine(o Options, dir string) (*source, error) {
	s := &source{dir: dir}
	var err error
	if s.finding, err = readable(o, dir); err != nil {
		return nil, err
	}
	names, err := o.FS.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, n := range names {
		if n == pebbleLock {
			continue
		}
		st, err := o.FS.Stat(o.FS.PathJoin(dir, n))
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, sourceFile{n, st.Size(), st.ModTime()})
	}
	logs, err := wal.Scan(wal.Dir{FS: o.FS, Dirname: dir})
	if err != nil {
		return nil, err
	}
	if len(logs) > 0 {
		newest := logs[len(logs)-1]
		// An error means that the torn end begins there.
		end, _ := readLog(newest, func(uint64) bool { return true })
		i := slices.IndexFunc(s.files, func(f sourceFile) bool { return f.name == logName(uint64(newest.Num)) })
		im.Assert(i >= 0, "a log file is not in its folder")
		s.files[i].bytes = min(s.files[i].bytes, end)
	}
	for _, f := range s.files {
		s.bytes += f.bytes
	}
	return s, nil
}

// pebbleLock is Pebble's name for its lock file, which has no content.
const pebbleLock = "LOCK"

// asIs is a file system in which Pebble makes no lock file.
type asIs struct{ vfs.FS }

// Lock implements vfs.FS.
func (asIs) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// readable opens the database in dir without changing anything and returns its identity and state. Its log
// files must continue each other.
func readable(o Options, dir string) (finding, error) {
	var f finding
	lost, err := f.read(o, place{fs: asIs{o.FS}, db: dir})
	if err != nil {
		return f, fmt.Errorf("the database cannot be read: %w", err)
	}
	if lost != nil {
		return f, fmt.Errorf("commits %d to %d are missing", lost.First, lost.Last)
	}
	return f, nil
}

// toFolder makes the next backup of src in to, the folder of backups: it copies or links the files of src, writes the
// manifest, and gives the folder of the backup its name. If that fails, it removes the unfinished folder.
func (c *copier) toFolder(to string, src *source, m Manifest) (t Taken, err error) {
	if err := makeDir(c.fs, to); err != nil {
		return t, err
	}
	lock, err := c.fs.Lock(c.fs.PathJoin(to, backupLock))
	if err != nil {
		return t, fmt.Errorf("lock %s: %w; is another backup into this folder under way?", to, err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	before, next, err := previous(c.fs, to)
	if err != nil {
		return t, err
	}
	if before != nil && before.StoreID != m.StoreID {
		return t, fmt.Errorf(
			"%s holds backups of the store %s, and this is the store %s; name another folder for its backups", to,
			before.StoreID, m.StoreID)
	}
	m.Name = next
	part := c.fs.PathJoin(to, m.Name+partSuffix)
	if err := c.fs.MkdirAll(part, 0o700); err != nil {
		return t, err
	}
	defer func() {
		if err != nil {
			_ = c.fs.RemoveAll(part) // else the next backup does it
		}
	}()
	had := map[string]File{}
	if before != nil && before.HistoryID == m.HistoryID {
		m.Continues = before.Name
		for _, f := range before.Files {
			had[f.Name] = f
		}
	}
	for _, f := range src.files {
		old, ok := had[f.name]
		if ok && isTable(f.name) && old.Bytes == f.bytes && old.ModifiedNs == f.modified.UnixNano() &&
			c.link(c.fs.PathJoin(to, before.Name, f.name), c.fs.PathJoin(part, f.name), f.bytes) {
			m.Files = append(m.Files, old)
			c.total -= f.bytes
			continue
		}
		d, err := c.copyTo(c.fs.PathJoin(part, f.name), c.fs.PathJoin(src.dir, f.name), f)
		if err != nil {
			return t, err
		}
		m.Files = append(m.Files, d)
		t.Copied += f.bytes
	}
	if err := m.write(c.fs, part); err != nil {
		return t, err
	}
	t.Manifest, t.Folder, t.Bytes = m, c.fs.PathJoin(to, m.Name), src.bytes
	if err := c.fs.Rename(part, t.Folder); err != nil {
		return t, err
	}
	return t, syncDir(c.fs, to)
}

// link makes a hard link to a table, and tells whether that succeeded. from is the path of the table, and to is the
// path of the link. It fails if the length of the table has changed, or if the file system of the backups has no links.
func (c *copier) link(from, to string, bytes int64) bool {
	st, err := c.fs.Stat(from)
	return err == nil && st.Size() == bytes && c.fs.Link(from, to) == nil
}

// previous removes unfinished backups from a folder of backups, and returns the name of the next backup. before is
// the manifest of the newest backup, with which the next one can share tables; nil: there is none, or it cannot be
// read.
func previous(fs vfs.FS, to string) (before *Manifest, next string, err error) {
	names, err := fs.List(to)
	if err != nil {
		return nil, "", err
	}
	newest := uint64(0)
	for _, n := range names {
		number, part, ok := backupNumber(n)
		if ok && part {
			if err := fs.RemoveAll(fs.PathJoin(to, n)); err != nil {
				return nil, "", err
			}
		} else if ok {
			newest = max(newest, number)
		}
	}
	if newest > 0 {
		// Without a readable manifest nothing is known of its tables, and all are copied.
		before, _ = readManifest(fs, fs.PathJoin(to, backupName(newest)))
	}
	return before, backupName(newest + 1), nil
}

func backupName(number uint64) string { return fmt.Sprintf("%s%06d", backupPrefix, number) }

// backupNumber reads the number in the name of a backup's folder. part: the backup is unfinished. ok: it is
// such a name.
func backupNumber(name string) (number uint64, part, ok bool) {
	s, part := strings.CutSuffix(name, partSuffix)
	if _, err := fmt.Sscanf(s, backupPrefix+"%d", &number); err != nil || s != backupName(number) {
		return 0, false, false
	}
	return number, part, true
}
