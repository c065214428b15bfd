package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// restoring is the folder, inside the data folder, of an unfinished or failed restore. While it is there and no
// database is, nothing opens the store.
const restoring = "restoring"

// unfinished refuses a folder with an unfinished restore.
func (p place) unfinished() error {
	if _, err := p.fs.Stat(p.fs.PathJoin(p.dir, restoring)); isNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := p.fs.Stat(p.db); err == nil {
		return nil // the restore was complete, and a power cut has left both names
	}
	return fmt.Errorf(
		"open %s: a restore into this folder was not finished; run \"petrel restore --data %s\" again, or remove %s to make a new store",
		p.dir, p.dir, p.fs.PathJoin(p.dir, restoring))
}

// RestoreOptions name the backup.
type RestoreOptions struct {
	From     string // a backup, or a folder of backups, of which the newest is restored
	Progress func(read, total int64)
}

// Restored is a store that was made from a backup.
type Restored struct {
	Manifest
	Report // of the new history
}

// Restore makes the store in o.Dir from a backup, checks every byte of it, and draws a new history id, which
// tells clients to drop their stored state. It refuses a folder that is in use, or that holds anything but belongings
// and an unfinished restore. Until the restore is complete, and after a failure, Open refuses the folder and makes no
// store in it: otherwise a server that starts by itself would serve an empty one. Errors: *BadBackup, and others.
func Restore(ctx context.Context, o Options, r RestoreOptions) (Restored, error) {
	o = o.withDefaults()
	p := o.place()
	all, err := foldersOf(o.FS, r.From)
	if err != nil {
		return Restored{}, err
	}
	from := all[len(all)-1]
	m, err := readManifest(o.FS, from)
	if err != nil {
		return Restored{}, err
	}
	for _, older := range all[:len(all)-1] {
		// An unreadable backup may be of any store.
		if x, err := readManifest(o.FS, older); err == nil && x.StoreID != m.StoreID {
			return Restored{}, fmt.Errorf("%s is of the store %s, and %s of the store %s; name the one to restore",
				older, x.StoreID, from, m.StoreID)
		}
	}
	lock, err := p.acquire()
	if err != nil {
		return Restored{}, err
	}
	out, err := restore(ctx, o, p, from, m, r)
	if e := lock.Close(); err == nil {
		err = e
	}
	if _, bad := errors.AsType[*BadBackup](err); err != nil && !bad {
		err = fmt.Errorf("restore into %s: %w", p.dir, err)
	}
	return out, err
}

// restore makes the store in a locked folder from the backup in from, whose manifest is m.
func restore(ctx context.Context, o Options, p place, from string, m *Manifest,
	r RestoreOptions) (out Restored, err error) {
	if err := p.prepare(); err != nil {
		return out, err
	}
	q := p
	q.db = p.fs.PathJoin(p.dir, restoring)
	if err := p.fs.MkdirAll(q.db, 0o700); err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			p.empty(q.db)
		}
	}()
	if err := syncDir(p.fs, p.dir); err != nil {
		return out, err
	}
	c := &copier{ctx: ctx, fs: o.FS, progress: r.Progress, begun: time.Now()}
	if err := c.takeAll(from, q.db, m); err != nil {
		return out, err
	}
	if err := syncDir(p.fs, q.db); err != nil {
		return out, err
	}
	out.Manifest = *m
	if err := checkStore(o, q.db, from, m); err != nil {
		return out, err
	}
	if err := q.finish(o, &out.Report); err != nil {
		return out, err
	}
	return out, p.rename(q.db, p.db)
}

// empty removes the files of an unfinished restore. The folder itself stays, and the next restore removes the
// rest.
func (p place) empty(dir string) {
	names, _ := p.fs.List(dir) // as far as it can be read
	for _, n := range names {
		_ = p.fs.Remove(p.fs.PathJoin(dir, n))
	}
}

// belongings are the names that a data folder may hold before a restore: locks, the secrets of the command
// line, and what a new disk has.
var belongings = []string{"lock", "pid", backupLock, "admin.key", "tokens", "lost+found"}

// prepare refuses a folder that holds anything but belongings and the remains of an unfinished restore, and removes
// these remains.
func (p place) prepare() error {
	names, err := p.fs.List(p.dir)
	if err != nil {
		return err
	}
	left := slices.Contains(names, restoring) && !slices.Contains(names, p.fs.PathBase(p.db))
	witness := p.fs.PathBase(p.witness)
	// They are removed in this order: restoring, which shows the unfinished restore, goes last.
	mine := []string{witness + ".new", witness, seal{}.next().name(), restoring}
	for _, n := range names {
		switch {
		case slices.Contains(belongings, n):
		case !left || !slices.Contains(mine, n):
			return fmt.Errorf(
				"the folder is not empty: it holds %s; restore into another one, or move everything away first", n)
		}
	}
	if !left {
		return nil
	}
	for _, n := range mine {
		if err := p.fs.RemoveAll(p.fs.PathJoin(p.dir, n)); err != nil {
			return err
		}
	}
	return syncDir(p.fs, p.dir)
}

// foldersOf returns the folders of the backups in dir, the oldest first. If dir holds none, dir itself must
// be a backup.
func foldersOf(fs vfs.FS, dir string) ([]string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, fmt.Errorf("look for backups: %w; name a backup, or a folder of backups", err)
	}
	all := backupsIn(names)
	if len(all) == 0 {
		return []string{dir}, nil
	}
	for i, n := range all {
		all[i] = fs.PathJoin(dir, n)
	}
	return all, nil
}

// backupsIn returns the names of the finished backups, the oldest first.
func backupsIn(names []string) []string {
	var numbers []uint64
	for _, n := range names {
		if i, part, ok := backupNumber(n); ok && !part {
			numbers = append(numbers, i)
		}
	}
	slices.Sort(numbers)
	all := make([]string, len(numbers))
	for i, n := range numbers {
		all[i] = backupName(n)
	}
	return all
}

// takeAll copies the files of the backup in from into the folder to, and checks them.
func (c *copier) takeAll(from, to string, m *Manifest) error {
	c.total = m.bytes()
	for _, f := range m.Files {
		err := c.create(c.fs.PathJoin(to, f.Name), func(out io.Writer) error { return c.check(out, from, f) })
		if err != nil {
			return err
		}
	}
	return nil
}

// check reads a file of the backup in dir, writes it to out, and compares it with f, its entry in the manifest.
// Errors: *BadBackup, and those of the system.
func (c *copier) check(out io.Writer, dir string, f File) error {
	bad := func(what string, args ...any) error { return &BadBackup{dir, f.Name, fmt.Sprintf(what, args...)} }
	path := c.fs.PathJoin(dir, f.Name)
	st, err := lstat(c.fs, path)
	if isNotExist(err) {
		return bad("it is missing")
	} else if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return bad("it is no regular file")
	}
	if st.Size() != f.Bytes {
		return bad("it has %d bytes, and had %d when the backup was made", st.Size(), f.Bytes)
	}
	got, err := c.read(out, path, sourceFile{f.Name, f.Bytes, time.Unix(0, f.ModifiedNs)})
	if err != nil {
		return err
	}
	if got.SHA256 != f.SHA256 {
		return bad("it is damaged: its SHA-256 is %s, and was %s when the backup was made", got.SHA256, f.SHA256)
	}
	return nil
}

// lstat describes a path of a backup without following symbolic links: a backup holds files only, and nothing
// from outside gets into a store.
func lstat(fs vfs.FS, path string) (os.FileInfo, error) {
	if fs == vfs.Default {
		return os.Lstat(path)
	}
	return fs.Stat(path)
}

// checkStore opens the copied database in dir, and compares its identity and last commit with the manifest of
// backup. Errors: *BadBackup.
func checkStore(o Options, dir, backup string, m *Manifest) error {
	bad := func(what string, args ...any) error {
		return &BadBackup{Folder: backup, What: fmt.Sprintf(what, args...)}
	}
	f, err := readable(o, dir)
	switch {
	case err != nil:
		return bad("%v", err)
	case hex(f.id.store) != m.StoreID || hex(f.id.history) != m.HistoryID:
		return bad("it holds the store %016x with the history %016x, and should hold %s with %s", f.id.store,
			f.id.history, m.StoreID, m.HistoryID)
	case f.last.n != m.Commit:
		return bad("its last commit is %d, and should be %d", f.last.n, m.Commit)
	}
	return nil
}

// Verified is the result of VerifyBackups for one backup.
type Verified struct {
	Manifest
	Folder   string
	Problems []string // what is wrong with it, with the names of its files; empty: nothing
}

// VerifyBackups reads the backup in dir, or all backups in dir, the oldest first. It compares every file with
// the manifest, opens the store, follows the numbers of the commits through its log, and reads all tables.
func VerifyBackups(ctx context.Context, o Options, dir string, progress func(read, total int64)) ([]Verified, error) {
	o = o.withDefaults()
	folders, err := foldersOf(o.FS, dir)
	if err != nil {
		return nil, err
	}
	var all []Verified
	for _, folder := range folders {
		v, err := verifyBackup(ctx, o, folder, progress)
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func verifyBackup(ctx context.Context, o Options, dir string, progress func(read, total int64)) (Verified, error) {
	v := Verified{Folder: dir}
	note := func(err error) error { // adds a *BadBackup to Problems and returns nil
		if b, ok := errors.AsType[*BadBackup](err); ok {
			v.Problems = append(v.Problems, b.Error())
			return nil
		}
		return err
	}
	m, err := readManifest(o.FS, dir)
	if err != nil {
		return v, note(err)
	}
	v.Manifest = *m
	c := &copier{ctx: ctx, fs: o.FS, progress: progress, begun: time.Now(), total: m.bytes()}
	for _, f := range m.Files {
		if err := note(c.check(io.Discard, dir, f)); err != nil {
			return v, err
		}
	}
	if len(v.Problems) > 0 {
		return v, nil // a changed backup is not opened
	}
	err = checkStore(o, dir, dir, m)
	if err == nil {
		err = readThrough(o, dir)
	}
	return v, note(err)
}

// readThrough reads all tables of the store in dir. Errors: *BadBackup, and those of the system.
func readThrough(o Options, dir string) error {
	bad := func(err error) error {
		return &BadBackup{Folder: dir, What: fmt.Sprintf("the store was damaged before the backup was made: %v", err)}
	}
	p := place{fs: asIs{o.FS}, db: dir}
	l, err := p.tables(o)
	if err != nil {
		return bad(err)
	}
	damaged, err := p.damagedTables(o, l.tables)
	if err != nil || len(damaged) == 0 {
		return err
	}
	return bad(damaged[0].damage)
}
