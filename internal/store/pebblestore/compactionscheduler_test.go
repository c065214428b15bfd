package pebblestore

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// The categories under which Pebble writes tables.
const (
	byFlush      vfs.DiskWriteCategory = "pebble-memtable-flush"
	byCompaction vfs.DiskWriteCategory = "pebble-compaction"
)

// heldFS holds the writes of one category back until it is told to let them through.
type heldFS struct {
	vfs.FS
	category vfs.DiskWriteCategory
	begun    atomic.Bool   // one was held back
	through  chan struct{} // closed when they are let through
	bytes    atomic.Int64  // written since
}

func hold(fs vfs.FS, c vfs.DiskWriteCategory) *heldFS {
	return &heldFS{FS: fs, category: c, through: make(chan struct{})}
}

func (h *heldFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	if err == nil && c == h.category {
		f = &heldFile{File: f, h: h}
	}
	return f, err
}

func (h *heldFS) Unwrap() vfs.FS { return h.FS }

type heldFile struct {
	vfs.File
	h *heldFS
}

func (f *heldFile) Write(p []byte) (int, error) {
	f.h.begun.Store(true)
	<-f.h.through
	f.h.bytes.Add(int64(len(p)))
	return f.File.Write(p)
}

// fill adds n rows of 100 kB that cannot be compressed.
func (w *writer) fill(t *testing.T, n int) {
	t.Helper()
	rng := rand.NewChaCha8([32]byte{})
	for range n {
		b := w.next()
		b.Rows[0].Value = make([]byte, 100_000)
		_, _ = rng.Read(b.Rows[0].Value) // never fails
		if err := storetest.Append(w.st, b); err != nil {
			t.Fatal(err)
		}
	}
}

// inDebt fills a store whose tables are never merged, and returns the disk as kill -9
// leaves it, and the newest seq of conv.
func inDebt(t *testing.T) (*vfs.MemFS, im.Seq) {
	t.Helper()
	fs := vfs.NewCrashableMem()
	o := mem(fs)
	o.tune = func(p *pebble.Options) { p.DisableAutomaticCompactions = true }
	st := mustOpen(t, o)
	w := newWriter(t, st)
	const tables = 12 // more than Pebble lets lie over each other before it merges them
	for range tables {
		w.fill(t, 2)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	w.fill(t, 1) // is in the log only: a start writes a table of it, and looks for what is to be merged
	disk := killed(fs)
	mustClose(t, st)
	return disk, w.seq
}

func (w *writer) rows(t *testing.T) im.Seq {
	t.Helper()
	n := im.Seq(0)
	if err := w.st.Rows(t.Context(), conv, 1, w.seq, func(store.Row) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestStartDoesNotWaitForCompactions(t *testing.T) {
	disk, rows := inDebt(t)
	fs := hold(disk, byCompaction)
	var st *Store
	opened := make(chan error, 1)
	go func() {
		var err error
		st, err = Open(mem(fs))
		opened <- err
	}()
	if err := eventually.Receive(t, "a store with tables to merge is open", opened); err != nil {
		t.Fatal(err)
	}
	if got := newWriter(t, st).rows(t); got != rows {
		t.Errorf("%d of %d rows are there", got, rows)
	}
	eventually.True(t, "tables are merged after the start", fs.begun.Load)
	close(fs.through)
	mustClose(t, st)
}

func TestStopDoesNotWaitForTables(t *testing.T) {
	for _, c := range []vfs.DiskWriteCategory{byCompaction, byFlush} {
		t.Run(string(c), func(t *testing.T) {
			disk, rows := inDebt(t)
			fs := hold(disk, c)
			if c == byFlush { // not the one of the start
				mustClose(t, mustOpen(t, mem(disk)))
			}
			st := mustOpen(t, mem(fs))
			if c == byFlush {
				w := newWriter(t, st)
				w.fill(t, 5) // more than a memtable
				rows = w.seq
			}
			eventually.True(t, "a table is being written", fs.begun.Load)
			closed := make(chan error, 1)
			go func() { closed <- st.Close() }()
			eventually.True(t, "the store is being closed", st.guard.ending.Load)
			close(fs.through)
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			if n := fs.bytes.Load(); n > 128<<10 {
				t.Errorf("%d bytes of tables were written while the store was being closed", n)
			}
			st = mustOpen(t, mem(disk))
			defer mustClose(t, st)
			if got := newWriter(t, st).rows(t); got != rows {
				t.Errorf("%d of %d rows are there after the next start", got, rows)
			}
		})
	}
}

func TestCompactionThatMeetsDamageRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, _ := inDebt(t)
		table := filesOf(t, disk, "sst")[6]
		rewriteFile(t, disk, table, flipped(contentOf(t, disk, table), 100))
		o, begun := calm(mem(disk)), 0
		tune := o.tune
		o.tune = func(p *pebble.Options) {
			tune(p)
			p.EventListener.CompactionBegin = func(pebble.CompactionInfo) {
				if begun++; begun > 1000 {
					panic("a compaction that fails is tried again and again") // time in the bubble stands still
				}
			}
		}
		st := mustOpen(t, o)
		defer mustClose(t, st)
		if err := st.enter(); err != nil { // a long read: the table cannot be mended
			t.Fatal(err)
		}
		time.Sleep(10 * restAfter)
		st.leave()
		if begun < 5 || begun > 20 {
			t.Errorf("%d compactions began in 10 s", begun)
		}
		awaitMender()
		if all := st.damage.places(nil); len(all) > 0 {
			t.Errorf("%q were not mended", all)
		}
	})
}
