package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// TestInventoryIsAheadOfEveryFileThatGoes looks at the durable state of the
// disk whenever a file is about to go or the marker to move.
func TestInventoryIsAheadOfEveryFileThatGoes(t *testing.T) {
	seed := newSeed(t)
	rng, sample := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	fs, told := vfs.NewCrashableMem(), storetest.NewTold()
	var mu sync.Mutex
	looked := map[string]int{}
	at := func(e event) error {
		mu.Lock()
		defer mu.Unlock()
		kind := ""
		for _, k := range []string{"log", "sst", "manifest", "marker"} {
			if isFile(e.path, k) {
				kind = k
			}
		}
		name := fs.PathBase(e.path)
		goes := e.op == "remove" || e.op == "reuse"
		moves := e.op == "create" && strings.HasPrefix(name, "marker.manifest.")
		grows := e.op == "write" && kind == "log" && sample.IntN(20) == 0
		if e.after || kind == "" || !goes && !moves && !grows || !strings.HasPrefix(e.path, "data/store/") {
			return nil
		}
		looked[e.op+" "+kind]++
		disk := unplugged(fs)
		s, err := readWitness(disk, "data/witness")
		if err != nil {
			t.Errorf("%v: %v", e, err)
			return nil
		}
		inv, err := s.inventory()
		if err != nil {
			t.Errorf("%v: %v", e, err)
			return nil
		}
		// Pebble goes by the marker, and the inventory covers all of that manifest.
		if value, err := atomicfs.ReadMarker(disk, "data/store", manifestMarker); err != nil {
			t.Errorf("%v: %v", e, err)
		} else if value != "" {
			covers(t, disk, inv, value, e)
		}
		if moves {
			covers(t, disk, inv, strings.SplitN(name, ".", 4)[3], e)
		}
		listed := func(name string) bool {
			return slices.ContainsFunc(inv.logs, func(l logFile) bool { return logName(l.number) == name })
		}
		switch {
		case e.op == "remove" && kind == "log" && listed(name):
			t.Errorf("%s is removed and still listed", name)
		case grows && !listed(name):
			t.Errorf("%s grows and is not listed", name)
		}
		for _, l := range inv.logs {
			st, err := disk.Stat("data/store/" + logName(l.number))
			if err != nil {
				t.Errorf("%s %s: log %d is listed and not there: %v", e.op, e.path, l.number, err)
			} else if uint64(st.Size()) < l.length {
				t.Errorf("%s %s: log %d has %d bytes and is listed with %d", e.op, e.path, l.number, st.Size(), l.length)
			}
		}
		return nil
	}
	unseen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc([]string{"remove log", "reuse log", "remove sst", "remove manifest", "remove marker", "create marker", "write log"},
			func(k string) bool { return looked[k] > 0 })
	}
	// Whether a log is reused or removed is up to how far the flushes have come.
	const lives, most = 4, 60
	for i := 0; i < lives || i < most && len(unseen()) > 0; i++ {
		st := mustOpen(t, busy(&hookFS{FS: fs, at: at}))
		if err := told.Drive(t.Context(), st, rng, 150/raceFactor+30); err != nil {
			t.Fatal(err)
		}
		mustClose(t, st)
	}
	t.Logf("looked at %v", looked)
	if kinds := unseen(); len(kinds) > 0 {
		t.Errorf("not seen in %d lives: %q", most, kinds)
	}
}

// covers checks that inv has the whole of a manifest.
func covers(t *testing.T, disk *vfs.MemFS, inv inventory, name string, e event) {
	t.Helper()
	n, _ := manifestNumber(name)
	i := slices.IndexFunc(inv.manifests, func(m manifest) bool { return m.number == n })
	if i < 0 {
		t.Errorf("%s %s: %s is not in the inventory", e.op, e.path, name)
		return
	}
	b, err := readFile(disk, "data/store/"+name)
	if err != nil {
		t.Errorf("%s %s: %v", e.op, e.path, err)
		return
	}
	if got, want := inv.manifests[i], newManifest(name, b); got != want {
		t.Errorf("%s %s: %s has %d bytes, the inventory %d, or another hash", e.op, e.path, name, want.length, got.length)
	}
}

// alone opens a store as Pebble would by itself and returns its last commit.
func alone(fs *vfs.MemFS, o Options) (uint64, error) {
	db, err := openPebble(o, &guard{FS: fs, dir: "data/store", out: newOutage(o.withDefaults().Log)})
	if err != nil {
		return 0, err
	}
	f := new(finding)
	err = f.load(db)
	if e := db.Close(); err == nil {
		err = e
	}
	return f.last.n, err
}

func TestEveryCutOfTheManifestIsRefused(t *testing.T) {
	fs := vfs.NewCrashableMem()
	o := busy(fs)
	st := mustOpen(t, o)
	w := newWriter(t, st)
	for range 6 {
		w.add(t, 100)
		if err := st.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, st)
	value, err := atomicfs.ReadMarker(fs, "data/store", manifestMarker)
	if err != nil {
		t.Fatal(err)
	}
	path := "data/store/" + value
	whole := contentOf(t, fs, path)
	hidden := 0
	for n := range whole {
		if n%7 > 0 && n < len(whole)-20 {
			continue
		}
		bad := killed(fs)
		rewriteFile(t, bad, path, append([]byte{}, whole[:n]...))
		if _, err := alone(bad, o); err == nil {
			hidden++
		}
		refusal(t, bad, "cut")
		if n > 20 {
			bad = killed(fs)
			rewriteFile(t, bad, path, flipped(whole, n))
			refusal(t, bad, "flipped")
		}
	}
	t.Logf("Pebble alone takes the manifest with %d of %d cuts", hidden, len(whole))
	if hidden == 0 {
		t.Error("Pebble alone refuses all of them: what does the inventory prove?")
	}
}

func TestEveryMissingOrCutLogIsRefused(t *testing.T) {
	disk, _, _ := severalLogs(t)
	o := mem(disk)
	o.MemTableBytes = 64 << 10
	want, err := alone(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	logs := filesOf(t, disk, "log")
	hidden := 0
	for i, path := range logs {
		whole := contentOf(t, disk, path)
		for _, keep := range []int{-1, 0, 1, len(whole) / 2, len(whole) - 1, 32 << 10, 64 << 10} {
			if keep >= len(whole) {
				continue
			}
			bad := killed(disk)
			if keep < 0 {
				rewriteFile(t, bad, path, nil)
			} else {
				rewriteFile(t, bad, path, append([]byte{}, whole[:keep]...))
			}
			if n, err := alone(bad, o); err == nil && n == want && i < len(logs)-1 {
				hidden++ // the newest commit is there, one before it is not
			}
			refusal(t, bad, "cut "+path)
		}
	}
	t.Logf("Pebble alone hides %d losses behind the newest commit, in %d logs", hidden, len(logs))
	if hidden == 0 {
		t.Error("Pebble alone finds all of them: what does the inventory prove?")
	}
}

func TestABitThatEndsALogInTheMiddleIsRefused(t *testing.T) {
	disk, _, _ := severalLogs(t)
	o := mem(disk)
	o.MemTableBytes = 64 << 10
	want, err := alone(disk, o)
	if err != nil {
		t.Fatal(err)
	}
	logs := filesOf(t, disk, "log")
	hidden, named := 0, 0
	for _, path := range logs[:len(logs)-1] {
		whole := contentOf(t, disk, path)
		number, _ := logNumber(disk.PathBase(path))
		header := binary.LittleEndian.AppendUint32(nil, uint32(number))
		next := binary.LittleEndian.AppendUint32(nil, uint32(number)+1)
		for at, n := 0, 0; n < 40; n++ {
			i := bytes.Index(whole[at:], header)
			if i < 0 {
				break
			}
			at += i
			b := slices.Clone(whole)
			copy(b[at:], next)
			at++
			bad := killed(disk)
			rewriteFile(t, bad, path, b)
			if n, err := alone(bad, o); err != nil || n != want {
				continue // Pebble or the newest commit shows it
			}
			st, err := Open(mem(bad))
			if err == nil { // it was no header
				if got := st.Rows(t.Context(), conv, 1, lastSeq(t, st), func(store.Row) bool { return true }); got != nil {
					t.Errorf("%s with another number at %d: %v", path, at, got)
				}
				mustClose(t, st)
				continue
			}
			hidden++
			if d, ok := errors.AsType[*Damaged](err); !ok || d.Cause != nil || d.Last >= want {
				t.Errorf("%s with another number at %d: got %v, want the missing commits", path, at, err)
			} else if d.First > 0 {
				named++
			}
		}
	}
	t.Logf("Pebble alone hides %d of them behind the newest commit, %d were named by their commits", hidden, named)
	if hidden == 0 {
		t.Error("Pebble alone finds all of them: what does the check prove?")
	}
	if named == 0 {
		t.Error("no missing commit was named")
	}
}
