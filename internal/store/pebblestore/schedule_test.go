package pebblestore

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

var conv = im.Key{Tenant: 1, Conv: im.ConvID{'g', 1}}

// holder is every writer of these tests.
const holder = 1

// writer appends rows 1, 2, 3, ... of conv.
type writer struct {
	st    *Store
	epoch im.Epoch
	pos   im.Pos
	seq   im.Seq
}

func newWriter(t testing.TB, st *Store) *writer {
	t.Helper()
	w := &writer{st: st}
	var err error
	if w.epoch, w.pos, err = st.Takeover(context.Background(), feed, holder); err != nil {
		t.Fatal(err)
	}
	row, err := st.LastRow(context.Background(), conv)
	if err != nil {
		t.Fatal(err)
	}
	if row != nil {
		w.seq = row.Seq
	}
	return w
}

// next is the batch of the next row.
func (w *writer) next() *store.Batch {
	w.seq++
	b := &store.Batch{
		Epoch: w.epoch, Holder: holder, From: w.pos, Entry: &storepb.FeedEntry{},
		Rows: []store.RowPut{{Conv: conv, Seq: w.seq, Value: []byte(strings.Repeat("row ", int(w.seq%50)+1))}},
	}
	w.pos++
	return b
}

func (w *writer) add(t testing.TB, n int) {
	t.Helper()
	for range n {
		if err := storetest.Append(w.st, w.next()); err != nil {
			t.Fatal(err)
		}
	}
}

func lastSeq(t testing.TB, st *Store) im.Seq {
	t.Helper()
	row, err := st.LastRow(context.Background(), conv)
	if err != nil {
		t.Fatal(err)
	}
	if row == nil {
		return 0
	}
	return row.Seq
}

// killed is the disk as kill -9 leaves it.
func killed(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// unplugged is the disk with nothing that was not synced.
func unplugged(fs *vfs.MemFS) *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{}) }

func mem(fs vfs.FS) Options { return small(Options{Dir: "data", FS: fs}) }

func mustClose(t testing.TB, st *Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestF5StaleEpochWritesNothing(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	defer mustClose(t, st)
	old := newWriter(t, st)
	old.add(t, 3)
	fresh := newWriter(t, st)
	n := st.Stats().Commits
	for range 3 {
		b := old.next()
		b.From = 3
		if err := storetest.Append(st, b); !errors.Is(err, store.ErrStale) {
			t.Fatalf("append of the old epoch: got %v, want %v", err, store.ErrStale)
		}
	}
	if got := st.Stats().Commits; got != n {
		t.Errorf("refused batches made %d commits", got-n)
	}
	if got := lastSeq(t, st); got != 3 {
		t.Errorf("last row is %d, want 3", got)
	}
	fresh.add(t, 1)
	// The fence survives a crash: an owner that was paused meanwhile stays out.
	again := mustOpen(t, mem(unplugged(fs)))
	defer mustClose(t, again)
	for _, e := range []im.Epoch{old.epoch, fresh.epoch + 1} {
		b := &store.Batch{Epoch: e, Holder: holder, From: 4, Entry: &storepb.FeedEntry{}}
		if err := storetest.Append(again, b); !errors.Is(err, store.ErrStale) {
			t.Errorf("append of epoch %d after a crash in epoch %d: got %v, want %v", e, fresh.epoch, err, store.ErrStale)
		}
	}
	if got := lastSeq(t, again); got != 4 {
		t.Errorf("last row after a crash is %d, want 4", got)
	}
}

// refusal opens a store that must be refused.
func refusal(t *testing.T, fs vfs.FS, what string) *Damaged {
	t.Helper()
	st, err := Open(mem(fs))
	d, ok := errors.AsType[*Damaged](err)
	if !ok {
		if err == nil {
			defer mustClose(t, st)
		}
		t.Fatalf("%s: open: got %v, want *Damaged", what, err)
	}
	if !strings.HasSuffix(d.Error(), `; run "petrel repair --data data" to accept the loss`) {
		t.Errorf("%s: %q does not say what to do", what, d)
	}
	return d
}

func TestF15WitnessAheadRefuses(t *testing.T) {
	fs := vfs.NewCrashableMem()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := mem(fs)
	o.Now = func() time.Time { return now }
	st := mustOpen(t, o)
	w := newWriter(t, st)
	w.add(t, 10)
	early := killed(fs)
	now = now.Add(time.Hour)
	w.add(t, 10)
	late := killed(fs)
	mustClose(t, st)

	// The log is that of an hour ago, the witness of now.
	rewriteFile(t, early, "data/witness", contentOf(t, late, "data/witness"))
	before := everything(t, early)
	d := refusal(t, early, "an old log")
	if d.First != 13 || d.Last != 22 { // 1 made the store, 2 took it over
		t.Errorf("got commits %d to %d missing, want 13 to 22", d.First, d.Last)
	}
	for _, want := range []string{"commits 13 to 22 are missing", "2026-01-02 03:04:05.000 UTC", "2026-01-02 04:04:05.000 UTC"} {
		if !strings.Contains(d.Error(), want) {
			t.Errorf("%q does not say %q", d, want)
		}
	}
	if d := cmp.Diff(before, everything(t, early)); d != "" {
		t.Errorf("the refusal changed the folder: -before +after\n%s", d)
	}

	// Every way to lose the end of the newest log, none of which Pebble tells.
	logs := filesOf(t, late, "log")
	path := logs[len(logs)-1]
	whole := contentOf(t, late, path)
	for what, b := range map[string][]byte{
		"deleted":      nil,
		"emptied":      {},
		"cut by half":  whole[:len(whole)/2],
		"cut by bytes": whole[:len(whole)-30],
		"zeroed tail":  append(append([]byte{}, whole[:len(whole)-300]...), make([]byte, 300)...),
		"flipped":      flipped(whole, len(whole)-100),
		"flipped half": flipped(whole, len(whole)/2),
		"flipped head": flipped(whole, 3),
	} {
		bad := killed(late)
		rewriteFile(t, bad, path, b)
		refusal(t, bad, what)
	}
}

// everything is the content of all files of a store.
func everything(t *testing.T, fs vfs.FS) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, dir := range []string{"data", "data/store"} {
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if n != "store" {
				m[dir+"/"+n] = string(contentOf(t, fs, dir+"/"+n))
			}
		}
	}
	return m
}

func flipped(b []byte, at int) []byte {
	b = append([]byte{}, b...)
	b[at] ^= 0x10
	return b
}

func TestF15TornTailIsNormal(t *testing.T) {
	// The power fails after the log was written and before it was synced, or
	// after that and before the witness: the commit was not acked.
	var fs *vfs.MemFS
	var mu sync.Mutex
	var armed bool
	var cuts []*vfs.MemFS
	fs = vfs.NewCrashableMem()
	st := mustOpen(t, mem(&hookFS{FS: fs, at: func(e event) error {
		mu.Lock()
		defer mu.Unlock()
		if armed && (isFile(e.path, "log") || isFile(e.path, "witness")) {
			cuts = append(cuts, unplugged(fs), killed(fs))
			if isFile(e.path, "log") && !e.after && e.op == "sync" { // at a removal there may be none any more
				whole, torn := contentOf(t, fs, e.path), unplugged(fs)
				rewriteFile(t, torn, e.path, whole[:len(whole)-5])
				cuts = append(cuts, torn)
			}
		}
		return nil
	}}))
	w := newWriter(t, st)
	w.add(t, 5)
	arm := func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		armed = on
	}
	arm(true)
	w.add(t, 1)
	arm(false)
	mustClose(t, st)
	found := map[im.Seq]int{}
	for i, c := range cuts {
		again, err := Open(mem(c))
		if err != nil {
			t.Fatalf("cut %d: %v", i, err)
		}
		found[lastSeq(t, again)]++
		mustClose(t, again)
	}
	if len(found) != 2 || found[5] == 0 || found[6] == 0 {
		t.Errorf("last rows found after the cuts: %v, want some 5 and some 6", found)
	}
}

func TestF15WitnessDeletedRefuses(t *testing.T) {
	fs := vfs.NewCrashableMem()
	st := mustOpen(t, mem(fs))
	newWriter(t, st).add(t, 5)
	good := killed(fs)
	mustClose(t, st)
	whole := contentOf(t, good, "data/witness")
	wipe := func(slots ...int) []byte {
		b := append([]byte{}, whole...)
		for _, s := range slots {
			b[s*slotBytes+20] ^= 1
		}
		return b
	}
	for what, b := range map[string][]byte{
		"deleted":              nil,
		"emptied":              {},
		"no inventory":         whole[:2*slotBytes],
		"bad commit slots":     wipe(0, 1),
		"bad inventory slots":  wipe(2, 3),
		"all slots of another": otherWitness(t),
	} {
		bad := killed(good)
		rewriteFile(t, bad, "data/witness", b)
		refusal(t, bad, what)
	}
	for s := range 4 {
		torn := killed(good)
		rewriteFile(t, torn, "data/witness", wipe(s))
		again, err := Open(mem(torn))
		if err != nil {
			t.Fatalf("slot %d torn: %v", s, err)
		}
		if got := lastSeq(t, again); got != 5 {
			t.Errorf("slot %d torn: last row %d, want 5", s, got)
		}
		mustClose(t, again)
		if _, err := (&slots{}).commit(); err == nil {
			t.Error("empty slots passed for a commitSlot")
		}
		healed := slots(contentOf(t, torn, "data/witness"))
		for i := range 4 {
			if _, ok := parseCommitSlot(healed.slot(i)); i < 2 && !ok {
				t.Errorf("slot %d torn: slot %d is bad after a start", s, i)
			}
			if _, err := parseInventory(healed.slot(i)); i >= 2 && err != nil {
				t.Errorf("slot %d torn: slot %d is bad after a start", s, i)
			}
		}
	}
	// The database is gone, the witness knows that there was one.
	bad := killed(good)
	if err := bad.RemoveAll("data/store"); err != nil {
		names, err := bad.List("data/store")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			rewriteFile(t, bad, "data/store/"+n, nil)
		}
		if err := bad.Remove("data/store"); err != nil {
			t.Fatal(err)
		}
	}
	refusal(t, bad, "no database")
}

func otherWitness(t *testing.T) []byte {
	fs := vfs.NewMem()
	mustClose(t, mustOpen(t, mem(fs)))
	return contentOf(t, fs, "data/witness")
}

func TestMissingMarkerIsNoNewStore(t *testing.T) {
	for _, kind := range []string{"marker", "manifest", "log", "sst"} {
		fs := vfs.NewCrashableMem()
		st := mustOpen(t, busy(fs))
		newWriter(t, st).add(t, 900)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, st)
		for _, f := range filesOf(t, fs, kind) {
			rewriteFile(t, fs, f, nil)
		}
		refusal(t, fs, "no "+kind)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	st := mustOpen(t, mem(fs))
	if err := st.db.Set(keyFormat, []byte{0, 0, 0, 9, 0, 0, 0, 8}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, st)
	_, err := Open(mem(fs))
	if err == nil || !strings.Contains(err.Error(), "format 9 and needs a Petrel that reads format 8") {
		t.Errorf("got %v", err)
	}
}

// unlockable is a file system on which the user may not open the files of locks.
type unlockable struct{ vfs.FS }

func (unlockable) Lock(name string) (io.Closer, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EACCES}
}

// A folder of another user is not said to be in use, neither by the server nor by a backup.
func TestFolderOfAnotherUserIsNamed(t *testing.T) {
	o := mem(vfs.NewMem())
	mustClose(t, mustOpen(t, o))
	o.FS = unlockable{o.FS}
	_, opened := Open(o)
	_, backedUp := Backup(t.Context(), o, BackupOptions{To: "backups"})
	for _, err := range []error{opened, backedUp} {
		if err == nil || !strings.Contains(err.Error(), "permission denied; run this as the user of the server") || strings.Contains(err.Error(), "locked by") || strings.Contains(err.Error(), "under way") {
			t.Errorf("got %v", err)
		}
	}
}

func TestSecondOpenNamesTheHolder(t *testing.T) {
	o := small(Options{Dir: t.TempDir()})
	st := mustOpen(t, o)
	_, err := Open(o)
	if err == nil || !strings.HasPrefix(err.Error(), "open "+o.Dir+": locked by pid ") ||
		!strings.HasSuffix(err.Error(), "; stop it or choose another --data") {
		t.Errorf("got %v", err)
	}
	mustClose(t, st)
	mustClose(t, mustOpen(t, o))
}
