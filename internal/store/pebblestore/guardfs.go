package pebblestore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func isNotExist(err error) bool { return err != nil && oserror.IsNotExist(err) }

// guard is the file system through which Pebble writes. It keeps the inventory (inventory.go) in the witness up to
// date, so that no change to a file hides a loss:
//
//   - A sync of a manifest returns when the inventory has its new length and hash. Pebble removes the input of an
//     edit (log, table, older manifest) only after this sync. So an edit behind the length in the inventory still
//     has its input.
//   - The marker moves only to a synced manifest, so the inventory names this one. The former manifest leaves the
//     inventory when the move is durable.
//   - A new log file enters the inventory when its name is durable, before its first byte is written. It leaves the
//     inventory before it is removed or reused.
//
// After the first failed write, guard lets no further write through, and blocks the goroutines that try one: Pebble
// panics or retries when a write fails.
type guard struct {
	vfs.FS
	dir string
	out *failure
	wit *witness // nil: nothing may be written

	damage *damage // notes the damage that Pebble meets; nil: nothing does

	ending atomic.Bool // the database is being closed: writes to tables fail

	mu     sync.Mutex // tier 1; guards the fields below, and is held during the write of the inventory
	played []uint64   // numbers of the log files that were opened for reading, in order
	inv    inventory
	fresh  []uint64 // new log files that are not in the inventory yet
	moves  int      // of the marker to another manifest
	moved  int      // moves that are durable
}

var errReadOnly = errors.New("store is open for checking only")

// usable is called before every write. It returns errReadOnly if the database is open for reading only, and blocks
// for ever once the store has failed.
func (g *guard) usable() error {
	if g.wit == nil {
		return errReadOnly
	}
	if g.out.err() != nil {
		g.out.park()
	}
	return nil
}

// check does nothing if err is nil. Otherwise a write has failed: check ends the store and blocks for ever.
func (g *guard) check(verb, name string, err error) {
	if err != nil {
		g.out.fail(fmt.Errorf("%s %s: %w", verb, g.PathBase(name), err))
		g.out.park()
	}
}

// record writes the inventory to the witness. The caller holds g.mu and has changed the inventory.
func (g *guard) record() {
	g.check("write inventory to", "witness", g.wit.inventory(g.inv))
}

// Open implements vfs.FS. It notes the numbers of log files in played, and returns each table as a tableReader.
func (g *guard) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if n, ok := logNumber(g.PathBase(name)); ok {
		g.mu.Lock()
		g.played = append(g.played, n)
		g.mu.Unlock()
	}
	f, err := g.FS.Open(name, o...)
	if err == nil && isTable(g.PathBase(name)) {
		f = &tableReader{File: f}
	}
	return f, err
}

// List implements vfs.FS. It leaves out the files of Pebble's options, which are for people only: Pebble
// refuses a damaged one, and writes a new one at each open.
func (g *guard) List(dir string) ([]string, error) {
	names, err := g.FS.List(dir)
	return slices.DeleteFunc(names, isOptions), err
}

func isTable(base string) bool {
	return strings.HasSuffix(base, ".sst") || strings.HasSuffix(base, ".blob")
}

func isOptions(base string) bool { return strings.HasPrefix(base, "OPTIONS-") }

// dropOptions removes the files of options before Pebble writes a new one.
func (g *guard) dropOptions() {
	names, _ := g.FS.List(g.dir) // the next start removes what is left
	for _, n := range names {
		if isOptions(n) {
			_ = g.FS.Remove(g.PathJoin(g.dir, n))
		}
	}
}

// Create implements vfs.FS. Like every method of guard that changes files, it returns errReadOnly without a witness,
// and ends the store and blocks for ever if the change fails.
func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.usable(); err != nil {
		return nil, err
	}
	base := g.PathBase(name)
	if strings.HasPrefix(base, "marker."+manifestMarker+".") {
		// The name of the manifest must become durable before its marker does.
		g.check("sync", g.dir, syncDir(g.FS, g.dir))
	}
	f, err := g.FS.Create(name, c)
	g.check("create", name, err)
	return g.wrap(f, base), nil
}

// wrap guards f, a new file to write.
func (g *guard) wrap(f vfs.File, base string) vfs.File {
	w := &guardedFile{File: f, g: g, name: base}
	if n, ok := logNumber(base); ok {
		g.mu.Lock()
		g.fresh = append(g.fresh, n)
		g.mu.Unlock()
	} else if n, ok := manifestNumber(base); ok {
		w.manifest, w.hash = n, sha256.New()
	} else if strings.HasPrefix(base, "marker."+manifestMarker+".") {
		g.mu.Lock()
		g.moves++
		g.mu.Unlock()
	}
	return w
}

// forget removes a log file from the inventory before the file itself is removed.
func (g *guard) forget(name string) {
	n, ok := logNumber(g.PathBase(name))
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.inv.Logs, n); i >= 0 {
		g.inv.Logs = slices.Delete(g.inv.Logs, i, i+1)
		g.record()
	}
}

// Remove implements vfs.FS.
func (g *guard) Remove(name string) error {
	if err := g.usable(); err != nil {
		return err
	}
	g.forget(name)
	err := g.FS.Remove(name)
	if !isNotExist(err) {
		g.check("remove", name, err)
	}
	return err
}

// RemoveAll implements vfs.FS.
func (g *guard) RemoveAll(name string) error { return g.Remove(name) }

// Rename implements vfs.FS.
func (g *guard) Rename(from, to string) error {
	if err := g.usable(); err != nil {
		return err
	}
	g.check("rename", from, g.FS.Rename(from, to))
	return nil
}

// Link implements vfs.FS.
func (g *guard) Link(from, to string) error {
	if err := g.usable(); err != nil {
		return err
	}
	g.check("link", from, g.FS.Link(from, to))
	return nil
}

// ReuseForWrite implements vfs.FS.
func (g *guard) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.usable(); err != nil {
		return nil, err
	}
	g.forget(from)
	f, err := g.FS.ReuseForWrite(from, to, c)
	g.check("reuse", from, err)
	return g.wrap(f, g.PathBase(to)), nil
}

// OpenReadWrite implements vfs.FS.
func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	if err := g.usable(); err != nil {
		return nil, err
	}
	f, err := g.FS.OpenReadWrite(name, c, o...)
	g.check("open", name, err)
	return &guardedFile{File: f, g: g, name: g.PathBase(name)}, nil
}

// MkdirAll implements vfs.FS.
func (g *guard) MkdirAll(name string, perm os.FileMode) error {
	if err := g.usable(); err != nil {
		return err
	}
	g.check("make", name, g.FS.MkdirAll(name, perm))
	return nil
}

// OpenDir implements vfs.FS.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedDir{File: f, g: g, name: name}, nil
}

// GetDiskUsage implements vfs.FS. It turns each error into ErrUnsupported: Pebble asks only to pace deletions,
// and would count another error as its own failure.
func (g *guard) GetDiskUsage(name string) (vfs.DiskUsage, error) {
	u, err := g.FS.GetDiskUsage(name)
	if err != nil {
		return u, vfs.ErrUnsupported
	}
	return u, nil
}

// Unwrap implements vfs.FS.
func (g *guard) Unwrap() vfs.FS { return g.FS }

// guardedDir updates the inventory after a sync of the folder: it adds the new log files, whose names are durable
// now, and removes the former manifest if the marker has moved.
type guardedDir struct {
	vfs.File
	g    *guard
	name string
}

// Sync implements vfs.File.
func (d *guardedDir) Sync() error {
	g := d.g
	if err := g.usable(); err != nil {
		return err
	}
	g.mu.Lock()
	fresh, moves := slices.Clone(g.fresh), g.moves // the sync does not cover later changes
	g.mu.Unlock()
	g.check("sync", d.name, d.File.Sync())
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for _, n := range fresh {
		i := slices.Index(g.fresh, n)
		if i < 0 {
			continue // listed by another sync
		}
		g.fresh = slices.Delete(g.fresh, i, i+1)
		g.inv.Logs = append(g.inv.Logs, n)
		g.wit.log.Store(max(g.wit.log.Load(), n))
		changed = true
	}
	if g.moved < moves {
		g.moved = moves
		g.inv.Manifests = slices.Delete(g.inv.Manifests, 0, max(0, len(g.inv.Manifests)-1))
		changed = true
	}
	if changed {
		g.record()
	}
	return nil
}

// guardedFile is a file that Pebble writes.
type guardedFile struct {
	vfs.File
	g        *guard
	name     string
	manifest uint64    // its number; 0: it is no manifest
	hash     hash.Hash // of all bytes written to a manifest; nil: the file is no manifest
	written  uint64    // bytes
}

// Write implements vfs.File.
func (f *guardedFile) Write(p []byte) (int, error) {
	if err := f.g.usable(); err != nil {
		return 0, err
	}
	if isTable(f.name) && f.g.ending.Load() {
		return 0, errEnding
	}
	if f.hash != nil {
		f.hash.Write(p)
	}
	n, err := f.File.Write(p)
	f.written += uint64(n)
	f.g.check("write", f.name, err)
	return n, nil
}

// Sync implements vfs.File.
func (f *guardedFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *guardedFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *guardedFile) sync(sync func() error) error {
	if err := f.g.usable(); err != nil {
		return err
	}
	f.g.check("sync", f.name, sync())
	if f.hash != nil {
		f.g.manifestSynced(f)
	}
	return nil
}

// SyncTo implements vfs.File.
func (f *guardedFile) SyncTo(length int64) (bool, error) {
	if err := f.g.usable(); err != nil {
		return false, err
	}
	all, err := f.File.SyncTo(length)
	f.g.check("sync", f.name, err)
	return all, nil
}

// manifestSynced writes the length and hash of a manifest into the inventory.
func (g *guard) manifestSynced(f *guardedFile) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := manifest{Number: f.manifest, Length: f.written}
	f.hash.Sum(m.Sum[:0])
	i := slices.IndexFunc(g.inv.Manifests, func(m manifest) bool { return m.Number == f.manifest })
	if i < 0 {
		g.inv.Manifests = append(g.inv.Manifests, m)
	} else {
		g.inv.Manifests[i] = m
	}
	g.record()
}
