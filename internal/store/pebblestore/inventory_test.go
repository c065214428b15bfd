package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// onlooker looks at the durable state of the disk whenever a file is about to go
// or the marker to move.
type onlooker struct {
	t    *testing.T
	fs   *vfs.MemFS
	next chan struct{} // takes a token for every look that a sync waits for

	mu     sync.Mutex
	sample *rand.Rand       // of the writes to a log
	looked map[string]int   // by operation and kind of file
	behind int              // looks at a file that goes while a manifest is longer than its place in the inventory
	told   map[string]int64 // manifests as long as Pebble was told that they are durable
}

// above notes what Pebble is told. It is called above the guard.
func (o *onlooker) above(e event) error {
	if e.op != "sync" || !e.after || !isFile(e.path, "manifest") {
		return nil
	}
	st, err := o.fs.Stat(e.path) // nobody else writes to it
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.t.Error(err)
		return nil
	}
	o.told[o.fs.PathBase(e.path)] = st.Size()
	return nil
}

// wait gives others the time to come between, without a clock: it ends when a file goes.
func (o *onlooker) wait() {
	for range 10_000 {
		select {
		case <-o.next:
			return
		default:
			runtime.Gosched()
		}
	}
}

// below is called between the guard and the disk. It holds up the syncs of the
// manifest, so that others come between one and its place in the inventory.
func (o *onlooker) below(e event) error {
	kind := ""
	for _, k := range []string{"log", "sst", "manifest", "marker"} {
		if isFile(e.path, k) {
			kind = k
		}
	}
	if e.op == "sync" && e.after && kind == "manifest" {
		o.wait()
	}
	goes := e.op == "remove" || e.op == "reuse"
	moves := e.op == "create" && strings.HasPrefix(o.fs.PathBase(e.path), "marker.manifest.")
	grows := e.op == "write" && kind == "log"
	if e.after || kind == "" || !goes && !moves && !grows || !strings.HasPrefix(e.path, "data/store/") {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !grows || o.sample.IntN(20) == 0 {
		o.look(e, kind, goes, moves)
	}
	if goes {
		select {
		case o.next <- struct{}{}:
		default:
		}
	}
	return nil
}

// look is called with o.mu held.
func (o *onlooker) look(e event, kind string, goes, moves bool) {
	o.looked[e.op+" "+kind]++
	disk, name := unplugged(o.fs), o.fs.PathBase(e.path)
	s, err := readWitness(disk, "data/witness")
	if err != nil {
		o.t.Errorf("%v: %v", e, err)
		return
	}
	inv, err := s.inventory()
	if err != nil {
		o.t.Errorf("%v: %v", e, err)
		return
	}
	// Pebble goes by the marker, and the inventory covers that manifest.
	if value, err := atomicfs.ReadMarker(disk, "data/store", manifestMarker); err != nil {
		o.t.Errorf("%v: %v", e, err)
	} else if value != "" {
		if rest := o.covers(disk, inv, value, e); rest > 0 && goes {
			o.behind++
			defer o.lose(disk, s, value, rest, e)
		}
	}
	if moves {
		o.covers(disk, inv, strings.SplitN(name, ".", 4)[3], e)
	}
	listed := func(name string) bool {
		return slices.ContainsFunc(inv.Logs, func(l uint64) bool { return logName(l) == name })
	}
	switch {
	case e.op == "remove" && kind == "log" && listed(name):
		o.t.Errorf("%s is removed and still listed", name)
	case e.op == "write" && !listed(name):
		o.t.Errorf("%s grows and is not listed", name)
	}
	for _, l := range inv.Logs {
		if _, err := disk.Stat("data/store/" + logName(l)); err != nil {
			o.t.Errorf("%s %s: log %d is listed and not there: %v", e.op, e.path, l, err)
		}
	}
}

// covers checks that inv has all of a manifest that Pebble was told is durable,
// and returns how many durable bytes lie behind that.
func (o *onlooker) covers(disk *vfs.MemFS, inv inventory, name string, e event) int {
	n, _ := manifestNumber(name)
	i := slices.IndexFunc(inv.Manifests, func(m manifest) bool { return m.Number == n })
	if i < 0 {
		o.t.Errorf("%s %s: %s is not in the inventory", e.op, e.path, name)
		return 0
	}
	b, err := readFile(disk, "data/store/"+name)
	if err != nil {
		o.t.Errorf("%s %s: %v", e.op, e.path, err)
		return 0
	}
	got := inv.Manifests[i]
	if got.Length > uint64(len(b)) || int64(got.Length) < o.told[name] {
		o.t.Errorf("%s %s: %s has %d bytes, Pebble knows of %d and the inventory of %d", e.op, e.path, name, len(b), o.told[name], got.Length)
		return 0
	}
	if got != newManifest(name, b[:got.Length]) {
		o.t.Errorf("%s %s: %s has another hash in the inventory", e.op, e.path, name)
	}
	return len(b) - int(got.Length)
}

// lose lets e happen and takes from the manifest what the inventory does not
// cover. Nothing that was acked may be missing then: the input of that edit is
// still there.
func (o *onlooker) lose(disk *vfs.MemFS, s *slots, name string, rest int, e event) {
	path := "data/store/" + name
	b, err := readFile(disk, path)
	if err == nil {
		err = writeFile(disk, path, string(b[:len(b)-rest]))
	}
	if err == nil && e.op == "remove" {
		err = disk.Remove(e.path)
	}
	acked, ackedErr := s.commit()
	n, openErr := alone(disk, busy(disk))
	if err := errors.Join(err, ackedErr, openErr); err != nil || n < acked.n {
		o.t.Errorf("%s %s and %d bytes of %s lost: opened with commit %d of %d: %v", e.op, e.path, rest, name, n, acked.n, err)
	}
}

// unseen are the kinds of looks that there were none of.
func (o *onlooker) unseen() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	kinds := slices.DeleteFunc([]string{"remove log", "reuse log", "remove sst", "remove manifest", "remove marker", "create marker", "write log"},
		func(k string) bool { return o.looked[k] > 0 })
	if o.behind == 0 {
		kinds = append(kinds, "a file that goes between a sync and the inventory")
	}
	return kinds
}

// TestInventoryIsAheadOfEveryFileThatGoes: the part of a manifest that Pebble takes for
// durable is in the inventory before Pebble gives up the files that the manifest replaces.
// A sync that is under way is neither told nor, for a moment, listed; files of earlier
// edits go meanwhile.
func TestInventoryIsAheadOfEveryFileThatGoes(t *testing.T) {
	seed := newSeed(t)
	rng, told := rand.New(rand.NewPCG(seed, 0)), storetest.NewWorkload()
	o := &onlooker{
		t: t, fs: vfs.NewCrashableMem(), next: make(chan struct{}),
		sample: rand.New(rand.NewPCG(seed, 1)), looked: map[string]int{}, told: map[string]int64{},
	}
	// Pebble reuses a log or removes it, depending on how far the flushes have come.
	const lives, most = 4, 60
	for i := 0; i < lives || i < most && len(o.unseen()) > 0; i++ {
		options := busy(&hookFS{FS: o.fs, at: o.below})
		quick := options.tune
		options.tune = func(p *pebble.Options) {
			quick(p)
			p.FS = &hookFS{FS: p.FS, at: o.above}
		}
		st := mustOpen(t, options)
		if err := told.Drive(t.Context(), st, rng, 180); err != nil {
			t.Fatal(err)
		}
		mustClose(t, st)
	}
	t.Logf("looked at %v, %d of them between a sync and the inventory", o.looked, o.behind)
	if kinds := o.unseen(); len(kinds) > 0 {
		t.Errorf("not seen in %d lives: %q", most, kinds)
	}
}

// alone opens a store as Pebble would by itself and returns its last commit.
func alone(fs *vfs.MemFS, o Options) (uint64, error) {
	db, err := openPebble(o, &guard{FS: fs, dir: "data/store", out: newFailure(o.withDefaults().Log)})
	if err != nil {
		return 0, err
	}
	f := new(finding)
	err = f.load(&own{db: db})
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
	disk, _, last := severalLogs(t)
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
			if keep == len(whole)-1 { // the last bytes of a closed log have no commit
				if st, err := Open(mem(bad)); err == nil {
					if err := st.Rows(t.Context(), conv, 1, last, func(store.Row) bool { return true }); err != nil {
						t.Errorf("cut %s: %v", path, err)
					}
					mustClose(t, st)
					continue
				}
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
