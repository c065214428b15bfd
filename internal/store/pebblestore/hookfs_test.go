package pebblestore

import (
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// hookFS calls at around every change of the file system: before it, when an
// error that at returns takes its place, and after it.
type hookFS struct {
	vfs.FS
	at func(e event) error
}

// event is one moment of a change.
type event struct {
	op    string // create, write, sync, remove, rename, reuse, mkdir
	path  string
	after bool
	data  []byte // with write to a place
	off   int64
}

func (h *hookFS) do(op, path string, f func() error) error {
	if err := h.at(event{op: op, path: path}); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return h.at(event{op: op, path: path, after: true})
}

func (h *hookFS) file(op, path string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = h.do(op, path, func() (err error) {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &hookFile{File: f, h: h, path: path}, nil
}

func (h *hookFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return h.file("create", name, func() (vfs.File, error) { return h.FS.Create(name, c) })
}

func (h *hookFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return h.file("open", name, func() (vfs.File, error) { return h.FS.OpenReadWrite(name, c, o...) })
}

func (h *hookFS) OpenDir(name string) (vfs.File, error) {
	return h.file("open", name, func() (vfs.File, error) { return h.FS.OpenDir(name) })
}

// ReuseForWrite does in two steps what vfs.MemFS does under two read locks of
// one mutex, where a CrashClone that comes between them waits for ever
// (cockroachdb/pebble#5993).
func (h *hookFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return h.file("reuse", to, func() (vfs.File, error) {
		if _, ok := h.FS.(*vfs.MemFS); !ok {
			return h.FS.ReuseForWrite(from, to, c)
		}
		if err := h.FS.Rename(from, to); err != nil {
			return nil, err
		}
		return h.FS.OpenReadWrite(to, c)
	})
}

func (h *hookFS) Remove(name string) error {
	return h.do("remove", name, func() error { return h.FS.Remove(name) })
}

func (h *hookFS) Rename(from, to string) error {
	return h.do("rename", to, func() error { return h.FS.Rename(from, to) })
}

func (h *hookFS) MkdirAll(name string, perm os.FileMode) error {
	return h.do("mkdir", name, func() error { return h.FS.MkdirAll(name, perm) })
}

func (h *hookFS) Unwrap() vfs.FS { return h.FS }

type hookFile struct {
	vfs.File
	h    *hookFS
	path string

	mu     sync.RWMutex // held over WriteAt
	closed bool
}

// Close makes WriteAt an error, as on a disk: a compaction of an abandoned store may
// come to the witness after its end, and a file in memory panics then.
func (f *hookFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.File.Close()
}

func (f *hookFile) Write(p []byte) (n int, err error) {
	err = f.h.do("write", f.path, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *hookFile) WriteAt(p []byte, off int64) (n int, err error) {
	e := event{op: "write", path: f.path, data: p, off: off}
	if err := f.h.at(e); err != nil {
		return 0, err
	}
	f.mu.RLock()
	if f.closed {
		err = os.ErrClosed
	} else {
		n, err = f.File.WriteAt(p, off)
	}
	f.mu.RUnlock()
	if err != nil {
		return n, err
	}
	e.after = true
	return n, f.h.at(e)
}

func (f *hookFile) Sync() error {
	return f.h.do("sync", f.path, f.File.Sync)
}

func (f *hookFile) SyncData() error {
	return f.h.do("sync", f.path, f.File.SyncData)
}
