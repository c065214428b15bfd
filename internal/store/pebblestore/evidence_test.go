package pebblestore

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// convicted is what each check of a start finds in a store, as if it were the only one.
type convicted struct {
	witness    bool // the witness cannot be read
	inventory  bool
	number     bool // of the newest commit
	chain      bool // of the commit numbers in the log
	unreadable bool // Pebble or the store's records about itself

	found *finding
}

func convict(t testing.TB, o Options) (c convicted) {
	t.Helper()
	o = o.withDefaults()
	p, f := o.place(), new(finding)
	s, err := readWitness(p.fs, p.witness)
	if err != nil {
		c.witness = true
		return c
	}
	f.slots, c.found = *s, f
	var errs [2]error
	f.acked, errs[0] = s.commit()
	f.inv, errs[1] = s.inventory()
	if errs != [2]error{} {
		c.witness = true
		return c
	}
	missing, err := f.inv.check(p.fs, p.db)
	if err != nil {
		t.Fatal(err)
	}
	c.inventory = missing != ""
	lost, err := f.read(o, p)
	c.chain, c.number = lost != nil, err == nil && f.last.n < f.acked.n
	c.unreadable = err != nil || f.id.store != f.acked.store
	return c
}

func (c convicted) String() string {
	var l []string
	for _, e := range []struct {
		name string
		is   bool
	}{
		{"witness", c.witness}, {"inventory", c.inventory}, {"commit number", c.number}, {"log chain", c.chain},
		{"unreadable", c.unreadable},
	} {
		if e.is {
			l = append(l, e.name)
		}
	}
	if len(l) == 0 {
		return "nothing"
	}
	return strings.Join(l, " and ")
}

// unlocked stands for the lock of a store that was not opened by Open.
type unlocked struct{}

func (unlocked) Close() error { return nil }

// serveAnyway starts a store that an inspect has read, whatever its checks have found, and closes it after use.
func serveAnyway(t testing.TB, o Options, f *finding, use func(st *Store)) {
	t.Helper()
	o = o.withDefaults()
	st, err := start(o, o.place(), f)
	if err != nil {
		t.Fatal(err)
	}
	st.lock, st.queue.stands, st.queue.durable = unlocked{}, st.stands(), st.last
	go st.writeLog()
	st.mark = markfile.Keep("", o.Log, st.out.ch, st.currentMark)
	st.tasks.Go(st.callBack)
	use(st)
	mustClose(t, st)
}

// damagedCommit is the disk of a store that was killed, with commits in tables and in several logs after them. The
// block of a table that has the number of the last commit in tables is damaged.
func damagedCommit(t *testing.T) (disk *vfs.MemFS, logs []string) {
	t.Helper()
	gate := make(chan struct{})
	var armed atomic.Bool
	fs := vfs.NewCrashableMem()
	o := mem(&hookFS{FS: fs, at: func(e event) error {
		if armed.Load() && isFile(e.path, "sst") && e.op == "create" {
			<-gate // nothing is flushed
		}
		return nil
	}})
	o.MemTableBytes = 64 << 10
	st := mustOpen(t, o)
	w := newWriter(t, st)
	intoTables(t, st) // the epoch is in another table
	before := filesOf(t, fs, "sst")
	w.add(t, 50)
	if err := st.db.Flush(); err != nil {
		t.Fatal(err)
	}
	all, err := liveTables(st.db)
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(tb table) bool { return slices.Contains(before, "data/store/"+tb.name) })
	armed.Store(true)
	known := filesOf(t, fs, "log")
	for len(filesOf(t, fs, "log")) < len(known)+2 {
		w.add(t, 20)
	}
	w.add(t, 5)
	disk = killed(fs)
	close(gate)
	mustClose(t, st)
	damageBlock(t, disk, all, func(h keyRange) bool { return h.has(keyCommit) && !h.has(keyIdentity) })
	return disk, filesOf(t, disk, "log")
}

// Two faults at once: the log has lost its first file, and the number of the last commit in tables is damaged, so
// that nothing says with which commit the log begins. Only the inventory shows that a file is missing.
func TestMissingLogBehindADamagedCommitIsRefused(t *testing.T) {
	disk, logs := damagedCommit(t)
	if c := convict(t, mem(disk)); c.String() != "nothing" {
		t.Fatalf("the damaged block alone: %v", c)
	}
	if !bytes.Contains(contentOf(t, disk, logs[0]), rowKey(conv, 60)) {
		t.Fatal("the first log has no row that was acked")
	}
	gone := killed(disk)
	rewriteFile(t, gone, logs[0], nil)
	c := convict(t, mem(gone))
	if c.String() != "inventory" {
		t.Errorf("the loss is found by %v, want inventory", c)
	}
	d := refusal(t, gone, "the first log is missing")
	if !strings.Contains(d.Missing, gone.PathBase(logs[0])) {
		t.Errorf("got %v, want the name of %s", d, logs[0])
	}
}

// The file is there and has no commit.
func TestEmptiedLogBehindADamagedCommitIsRefused(t *testing.T) {
	disk, logs := damagedCommit(t)
	whole := contentOf(t, disk, logs[0])
	for what, b := range map[string][]byte{"emptied": {}, "cut in the first commit": whole[:20]} {
		bad := killed(disk)
		rewriteFile(t, bad, logs[0], append([]byte{}, b...))
		refusal(t, bad, what)
		if _, err := Repair(mem(bad)); err != nil {
			t.Errorf("%s: repair: %v", what, err)
		}
		mustClose(t, mustOpen(t, mem(bad)))
	}
	mustClose(t, mustOpen(t, mem(disk))) // the damaged block alone stops nothing
}

// The commit number, the log chain, or a file that an older manifest names shows each loss of commits by one fault.
func TestLossByOneFaultIsFoundWithoutTheInventory(t *testing.T) {
	found := map[string]int{}
	see := func(what string, fs *vfs.MemFS, o Options, newest im.Seq) {
		t.Helper()
		o.FS = fs
		c := convict(t, o)
		found[c.String()]++
		if c.number || c.chain || c.unreadable {
			return
		}
		serveAnyway(t, o, c.found, func(st *Store) {
			if got := lastSeq(t, st); got != newest {
				t.Errorf("%s: found by %v, last row is %d, want %d", what, c, got, newest)
			}
			if err := st.Rows(t.Context(), conv, 1, newest, func(store.Row) bool { return true }); err != nil {
				t.Errorf("%s: found by %v: %v", what, c, err)
			}
		})
	}
	disk, _, newest := severalLogs(t)
	o := mem(disk)
	o.MemTableBytes = 64 << 10
	for _, path := range filesOf(t, disk, "log") {
		whole := contentOf(t, disk, path)
		for _, keep := range []int{-1, 0, 1, len(whole) / 3, len(whole) - 1, 32 << 10} {
			bad := killed(disk)
			if keep < 0 {
				rewriteFile(t, bad, path, nil)
			} else {
				rewriteFile(t, bad, path, append([]byte{}, whole[:min(keep, len(whole))]...))
			}
			see(fmt.Sprintf("%s cut to %d", path, keep), bad, o, newest)
		}
	}
	fs := vfs.NewCrashableMem()
	o = busy(fs)
	st := mustOpen(t, o)
	w := newWriter(t, st)
	for range 6 {
		w.add(t, 100)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
		w.add(t, 5)
	}
	for i, fs := range []*vfs.MemFS{killed(fs), fs} {
		if i == 1 {
			mustClose(t, st)
		}
		value, err := atomicfs.ReadMarker(fs, "data/store", manifestMarker)
		if err != nil {
			t.Fatal(err)
		}
		path := "data/store/" + value
		whole := contentOf(t, fs, path)
		for n := 0; n < len(whole); n += 1 + len(whole)/40 {
			bad := killed(fs)
			rewriteFile(t, bad, path, append([]byte{}, whole[:n]...))
			see(fmt.Sprintf("%s cut to %d", path, n), bad, o, w.seq)
		}
	}
	t.Logf("found by: %v", found)
	chain := found["inventory and log chain"] + found["log chain"]
	if found["inventory"] == 0 || chain == 0 || found["inventory and unreadable"] == 0 {
		t.Errorf("found by: %v, want some by each check", found)
	}
}
