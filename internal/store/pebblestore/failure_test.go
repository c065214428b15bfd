package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// wantFailed checks that nothing is taken or served any more.
func wantFailed(t *testing.T, st *Store, w *writer) {
	t.Helper()
	eventually.Receive(t, "the store fails", st.Failed())
	ctx := t.Context()
	_, last := st.LastRow(ctx, conv)
	_, conversation := st.Conversation(ctx, conv)
	_, cursor := st.Cursor(ctx, conv, "u")
	_, member := st.Member(ctx, conv, "u")
	_, dedupe := st.Dedupe(ctx, conv, 1)
	_, record := st.Record(ctx, store.Users, 1, []byte("a"))
	_, _, takeover := st.Takeover(ctx, feed, holder)
	for name, err := range map[string]error{
		"Writable": st.Writable(), "Append": storetest.Append(st, w.next()), "LastRow": last,
		"Conversation": conversation, "Dedupe": dedupe, "Record": record, "Takeover": takeover,
		"Update":   st.Update(ctx, []store.RecordPut{{Table: store.Users, Key: []byte("a")}}),
		"Rows":     st.Rows(ctx, conv, 1, 1, func(store.Row) bool { return true }),
		"Members":  st.Members(ctx, conv, func(im.User, *storepb.Member) bool { return true }),
		"Cursor":   cursor,
		"Member":   member,
		"Cursors":  st.Cursors(ctx, conv, "", func(im.User, *storepb.Cursor) bool { return true }),
		"ScanFeed": st.ScanFeed(ctx, feed, 0, 1, func(im.Pos, *storepb.FeedEntry) bool { return true }),
		"Records":  st.Records(ctx, store.Users, 1, nil, func(_, _ []byte) bool { return true }),
		"DropRows": st.DropRows(ctx, conv, 2),
		"TrimFeed": st.TrimFeed(ctx, feed, 1),
	} {
		if !errors.Is(err, store.ErrFailed) {
			t.Errorf("%s of a failed store: got %v, want %v", name, err, store.ErrFailed)
		}
	}
}

func TestF20SyncErrorPoisons(t *testing.T) {
	disk := errors.New("injected: input/output error")
	for _, c := range []struct{ file, op string }{
		{"log", "sync"}, {"log", "write"}, {"witness", "sync"}, {"witness", "write"},
		{"sst", "sync"}, {"sst", "write"}, {"sst", "create"}, {"manifest", "sync"}, {"manifest", "write"}, {"log", "create"},
	} {
		t.Run(c.file+" "+c.op, func(t *testing.T) {
			var mu sync.Mutex
			var armed bool
			broken, again, later := "", 0, 0
			fs := vfs.NewCrashableMem()
			var st *Store
			st = mustOpen(t, busy(&hookFS{FS: fs, at: func(e event) error {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case e.after:
				case broken != "":
					if e.path == broken {
						again++
					}
					if st.out.err() != nil { // until the store knows of the error, commits go on
						later++
					}
				case armed && e.op == c.op && isFile(e.path, c.file):
					broken = e.path
					return disk
				}
				return nil
			}}))
			w := newWriter(t, st)
			w.add(t, 20)
			mu.Lock()
			armed = true
			mu.Unlock()
			acked := w.seq
			var err error
			for n := 0; n < 2000 && err == nil; n++ {
				if err = storetest.Append(st, w.next()); err == nil {
					acked = w.seq
				}
			}
			if !errors.Is(err, store.ErrFailed) || !errors.Is(err, disk) {
				t.Errorf("append: got %v, want %v because of %v", err, store.ErrFailed, disk)
			}
			wantFailed(t, st, w)
			mu.Lock()
			// One log write and one witness write can be under way beside it.
			if again > 0 || later > 4 {
				t.Errorf("%d operations on the broken file and %d in all came after the error", again, later)
			}
			mu.Unlock()
			_ = st.Close() // abandoned
			// The fate of a message without an ack is unknown: it may be there.
			for what, left := range map[string]*vfs.MemFS{"kept": killed(fs), "lost": unplugged(fs)} {
				again, err := Open(busy(left))
				if err != nil {
					t.Fatalf("unsynced data %s: %v", what, err)
				}
				if got := lastSeq(t, again); got < acked || got > acked+1 {
					t.Errorf("unsynced data %s: last row %d, want %d or one more", what, got, acked)
				}
				if err := again.Rows(t.Context(), conv, 1, acked, func(store.Row) bool { return true }); err != nil {
					t.Errorf("unsynced data %s: %v", what, err)
				}
				mustClose(t, again)
			}
		})
	}
}

func TestF20EveryWaitingAppendIsAnswered(t *testing.T) {
	gate := make(chan struct{})
	var armed atomic.Bool
	st := mustOpen(t, mem(&hookFS{FS: vfs.NewCrashableMem(), at: func(e event) error {
		if armed.Load() && isFile(e.path, "witness") && e.op == "sync" && !e.after {
			<-gate
			return errors.New("injected")
		}
		return nil
	}}))
	w := newWriter(t, st)
	armed.Store(true)
	var got []error
	all := make(chan struct{})
	const n = 20
	for range n {
		st.Append(w.next(), func(err error) {
			if got = append(got, err); len(got) == n {
				close(all)
			}
		})
	}
	close(gate)
	<-all
	for i, err := range got {
		if !errors.Is(err, store.ErrFailed) {
			t.Errorf("append %d: got %v, want %v", i, err, store.ErrFailed)
		}
	}
	wantFailed(t, st, w)
	_ = st.Close() // abandoned
}

func TestNothingIsAckedBeforeItsWitness(t *testing.T) {
	st := mustOpen(t, mem(vfs.NewCrashableMem()))
	defer mustClose(t, st)
	w := newWriter(t, st)
	gate := make(chan struct{})
	var writes atomic.Int32
	st.witness.mu.Lock()
	write := st.witness.write
	st.witness.write = func(b []byte, at int64) error {
		if at < 2*slotBytes { // of commits, not of files, which come and go by themselves
			writes.Add(1)
			<-gate
		}
		return write(b, at)
	}
	st.witness.mu.Unlock()
	synced := func() uint64 {
		st.queue.mu.Lock()
		defer st.queue.mu.Unlock()
		return st.queue.durable.n
	}
	const n = 20
	want := synced() + n
	var acked atomic.Int32
	for range n {
		st.Append(w.next(), func(err error) {
			if err != nil {
				t.Error(err)
			}
			acked.Add(1)
		})
	}
	if got := lastSeq(t, st); got != n {
		t.Errorf("last row is %d after %d appends returned", got, n)
	}
	eventually.True(t, "the first witness on its way", func() bool { return writes.Load() > 0 || acked.Load() > 0 })
	if got := acked.Load(); got != 0 {
		t.Errorf("%d appends were acked before a witness was written", got)
	}
	eventually.True(t, "all others on the disk, waiting for one", func() bool { return synced() >= want })
	close(gate)
	eventually.True(t, "all acked", func() bool { return acked.Load() == n })
	if got := writes.Load(); got > 2 {
		t.Errorf("%d witnesses were written, want one for the first and one for all that waited", got)
	}
}

// A file system has a number of files that it can take, whatever space is free.
func TestF20NoInodesRefusesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var files atomic.Uint64
		files.Store(minFreeFiles)
		o := mem(vfs.NewMem())
		o.FreeBytes = func() (uint64, error) { return math.MaxUint64, nil }
		o.FreeFiles = func() (uint64, error) { return files.Load(), nil }
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		st := mustOpen(t, o)
		defer mustClose(t, st)
		w := newWriter(t, st)
		w.add(t, 3)
		for _, c := range []struct {
			files uint64
			want  error
		}{{minFreeFiles - 1, store.ErrFull}, {minFreeFiles, store.ErrFull}, {minFreeFiles * 5 / 4, nil}, {minFreeFiles, nil}} {
			files.Store(c.files)
			time.Sleep(st.o.CheckEvery)
			synctest.Wait()
			if err := st.Writable(); !errors.Is(err, c.want) {
				t.Errorf("%d files are free, and appends meet %v, want %v", c.files, err, c.want)
			}
		}
		if !strings.Contains(log.String(), "out of inodes") {
			t.Errorf("the log does not name inodes: %s", log.String())
		}
		w.add(t, 3)
	})
}

func TestF20DiskFullRefusesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		free.Store(math.MaxUint64)
		o := mem(vfs.NewMem())
		o.MinFreeBytes, o.BallastBytes = 1000, 1<<20
		o.FreeBytes = func() (uint64, error) { return free.Load(), nil }
		st := mustOpen(t, o)
		defer mustClose(t, st)
		w := newWriter(t, st)
		w.add(t, 3)
		// is has the disk so much space, and returns after the next check of it.
		is := func(bytes uint64) {
			free.Store(bytes)
			time.Sleep(st.o.CheckEvery)
			synctest.Wait()
		}
		ballast := func() bool {
			_, err := o.FS.Stat("data/ballast")
			return err == nil
		}
		if !ballast() {
			t.Fatal("no ballast on an empty disk")
		}
		is(900)
		if err := st.Writable(); !errors.Is(err, store.ErrFull) {
			t.Errorf("900 bytes are free, and appends meet %v, want %v", err, store.ErrFull)
		}
		b := w.next()
		if err := storetest.Append(st, b); !errors.Is(err, store.ErrFull) {
			t.Errorf("append: got %v, want %v", err, store.ErrFull)
		}
		if err := st.Update(t.Context(), []store.RecordPut{{Table: store.Users, Key: []byte("a"), Value: []byte("a")}}); !errors.Is(err, store.ErrFull) {
			t.Errorf("update: got %v, want %v", err, store.ErrFull)
		}
		operators := func() error {
			return st.Update(store.ForOperators(t.Context()), []store.RecordPut{{Table: store.Operators, Key: []byte("o"), Value: []byte("o")}})
		}
		if err := operators(); err != nil {
			t.Errorf("an update for operators: %v, want nil: the reserve is there", err)
		}
		if got := lastSeq(t, st); got != 3 {
			t.Errorf("last row is %d, want 3: reads go on and nothing was written", got)
		}
		if !ballast() {
			t.Error("the ballast went before it was needed")
		}
		if is(100); ballast() {
			t.Error("the ballast stays on a disk that is almost full")
		}
		if err := operators(); !errors.Is(err, store.ErrFull) {
			t.Errorf("an update for operators below a quarter of the limit: %v, want %v", err, store.ErrFull)
		}
		is(1100)
		if err := st.Writable(); !errors.Is(err, store.ErrFull) {
			t.Errorf("just above the limit appends meet %v, want %v: the answer would flap", err, store.ErrFull)
		}
		is(1300)
		if err := st.Writable(); err != nil {
			t.Errorf("appends are refused although there is space again: %v", err)
		}
		if err := storetest.Append(st, b); err != nil {
			t.Errorf("append after space came back: %v", err)
		}
		if is(math.MaxUint64); !ballast() {
			t.Error("no ballast although there is space for it again")
		}
	})
}

func TestF20HungSyncMakesWritableRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var armed atomic.Bool
		o := mem(&hookFS{FS: vfs.NewCrashableMem(), at: func(e event) error {
			if armed.Load() && isFile(e.path, "log") && e.op == "sync" && !e.after {
				<-gate
			}
			return nil
		}})
		o.StallAfter = 0 // as the server has it
		st := mustOpen(t, o)
		defer mustClose(t, st)
		w := newWriter(t, st)
		armed.Store(true)
		outcome := make(chan error, 1)
		go func() { outcome <- storetest.Append(st, w.next()) }()
		time.Sleep(st.o.StallAfter)
		synctest.Wait()
		if err := st.Writable(); err != nil {
			t.Errorf("a commit that takes %s makes Writable refuse: %v", st.o.StallAfter, err)
		}
		time.Sleep(st.o.CheckEvery)
		synctest.Wait()
		if err := st.Writable(); !errors.Is(err, store.ErrStalled) {
			t.Errorf("Writable says %v while a commit hangs, want %v", err, store.ErrStalled)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := st.Update(ctx, []store.RecordPut{{Table: store.Users, Key: []byte("a"), Value: []byte("a")}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("update with a deadline: got %v, want %v", err, context.DeadlineExceeded)
		}
		close(gate)
		if err := <-outcome; err != nil {
			t.Errorf("the append that hung: %v", err)
		}
		time.Sleep(st.o.CheckEvery)
		synctest.Wait()
		if err := st.Writable(); err != nil {
			t.Errorf("Writable still refuses: %v", err)
		}
	})
}

func TestStartOnAFullDiskSaysSo(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 5)
	disk := killed(fs)
	mustClose(t, st)
	full := mem(&hookFS{FS: disk, at: func(e event) error {
		if isFile(e.path, "sst") && e.op == "write" && !e.after {
			return syscall.ENOSPC
		}
		return nil
	}})
	if st, err := Open(full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, %v, want %v", st, err, syscall.ENOSPC)
	}
	mustClose(t, mustOpen(t, mem(killed(disk))))
}
