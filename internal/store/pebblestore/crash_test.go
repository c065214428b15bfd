package pebblestore

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store/storetest"
)

// How often the randomised tests do what they do; `make crash` does it in long counts.
const (
	standardCuts        = 150
	standardCorruptions = 40
	standardBackupKills = 40
)

var (
	cuts        = flag.Int("cuts", fromEnv("PETREL_CUTS", standardCuts), "simulated power cuts")
	corruptions = flag.Int("corruptions", fromEnv("PETREL_CORRUPTIONS", standardCorruptions), "damaged stores")
	seedFlag    = flag.Uint64("seed", uint64(fromEnv("PETREL_SEED", 0)), "of the randomised tests; 0: another one each time")
)

func fromEnv(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// newSeed is the seed of a randomised test, printed if the test fails.
func newSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with -run '%s$' -seed %d", t.Name(), seed)
		}
	})
	return seed
}

// busy are the options of a store whose files come and go quickly.
func busy(fs vfs.FS) Options {
	o := small(Options{Dir: "data", FS: fs})
	o.MemTableBytes = 64 << 10
	o.tune = func(p *pebble.Options) {
		p.L0CompactionThreshold = 2
		p.LBaseMaxBytes = 128 << 10
		p.MaxManifestFileSize = 2 << 10
		for i := range p.TargetFileSizes {
			p.TargetFileSizes[i] = 64 << 10
		}
	}
	return o
}

// life is one running store and the power cuts taken of it.
type life struct {
	fs    *vfs.MemFS
	told  *storetest.Workload
	mu    sync.Mutex
	rng   *rand.Rand // of the cuts
	left  int        // operations until the next cut
	every int
	want  int // cuts
	cuts  []cut
}

// cut is a disk as a power cut may leave it, and what had been told before.
type cut struct {
	fs      *vfs.MemFS
	where   string
	promise storetest.Promise
}

func (l *life) at(e event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left > 0 || len(l.cuts) == l.want {
		return nil
	}
	l.left = 1 + l.rng.IntN(l.every)
	l.take(e)
	return nil
}

func (l *life) take(e event) {
	c := cut{where: fmt.Sprintf("%s %s after=%v", e.op, e.path, e.after), promise: l.told.Promise()}
	percent := []int{0, 100, l.rng.IntN(100), l.rng.IntN(100)}[l.rng.IntN(4)]
	c.fs = l.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: l.rng})
	if len(e.data) > 0 && isFile(e.path, "witness") && l.rng.IntN(2) == 0 {
		tear(c.fs, e, l.rng)
	}
	l.cuts = append(l.cuts, c)
}

// tear leaves some bytes of a write in place and others as they were.
func tear(fs *vfs.MemFS, e event, rng *rand.Rand) {
	f, err := fs.OpenReadWrite(e.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return // the cut came before the file was
	}
	defer func() { _ = f.Close() }() // in memory
	from := rng.IntN(len(e.data))
	to := from + rng.IntN(len(e.data)-from) + 1
	if _, err := f.WriteAt(e.data[from:to], e.off+int64(from)); err == nil {
		_ = f.Sync() // in memory
	}
}

func TestPowerCutsLoseNothingThatWasTold(t *testing.T) {
	seed := newSeed(t)
	done, acked, lives := 0, 0, 0
	var fs *vfs.MemFS
	var told *storetest.Workload
	for ; done < *cuts; lives++ {
		rng := rand.New(rand.NewPCG(seed, uint64(lives)))
		if lives%8 == 0 {
			fs, told = vfs.NewCrashableMem(), storetest.NewWorkload()
		}
		before := told.Acked()
		l := &life{fs: fs, told: told, rng: rand.New(rand.NewPCG(seed, 1<<32+uint64(lives))), every: 1 + rng.IntN(600), want: min(6, *cuts-done)}
		l.left = 1 + rng.IntN(l.every)
		l.run(t, rng, 20+rng.IntN(120))
		acked += told.Acked() - before
		for i, c := range l.cuts {
			done++
			st, found := c.check(t, fmt.Sprintf("seed %d life %d cut %d", seed, lives, i))
			if i == len(l.cuts)-1 {
				told.Adopt(st, found)
				fs = c.fs
			}
			if err := st.Close(); err != nil {
				t.Fatalf("close after a cut: %v", err)
			}
		}
	}
	t.Logf("seed %d: %d cuts in %d lives, %d commits acked, lost 0", seed, done, lives, acked)
}

// run drives a store until its work is done and takes a last cut, which keeps
// what was not synced, as kill -9 does.
func (l *life) run(t *testing.T, rng *rand.Rand, n int) {
	t.Helper()
	st, err := Open(busy(&hookFS{FS: l.fs, at: l.at}))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := l.told.Drive(t.Context(), st, rng, n); err != nil {
		t.Fatalf("drive: %v", err)
	}
	if len(l.cuts) < l.want {
		l.mu.Lock()
		l.take(event{op: "kill", path: "-9"})
		l.mu.Unlock()
	}
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// check opens a store after its cut and compares it with what was told.
func (c cut) check(t *testing.T, what string) (*Store, storetest.Found) {
	t.Helper()
	st, err := Open(busy(c.fs))
	if err != nil {
		t.Fatalf("%s at %q: open: %v\n%s", what, c.where, err, c.fs)
	}
	found, err := c.promise.Check(t.Context(), st)
	if err != nil {
		t.Fatalf("%s at %q: %v", what, c.where, err)
	}
	return st, found
}

// isFile tells the files of the store apart by the names Pebble gives them.
func isFile(p, kind string) bool {
	b := path.Base(p)
	switch kind {
	case "log", "sst":
		return strings.HasSuffix(b, "."+kind)
	case "manifest":
		return strings.HasPrefix(b, "MANIFEST-")
	case "options":
		return strings.HasPrefix(b, "OPTIONS-")
	case "marker":
		return strings.HasPrefix(b, "marker.")
	}
	return b == kind
}
