package pebblestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

// rewriteFile replaces a file of a store that is not open; nil removes it.
func rewriteFile(t testing.TB, fs vfs.FS, path string, content []byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fs.Remove(path))
	if content != nil {
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		must(err)
		_, err = f.Write(slices.Clone(content)) // a write may change what it is given
		must(err)
		must(f.Sync())
		must(f.Close())
	}
	must(syncDir(fs, fs.PathDir(path)))
}

func contentOf(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	b, err := readFile(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// filesOf lists the files of one kind, as isFile names them, by their paths.
func filesOf(t testing.TB, fs vfs.FS, kind string) []string {
	t.Helper()
	if kind == "witness" {
		return []string{"data/witness"}
	}
	if kind == "seal" {
		for _, n := range []uint64{1, 2} {
			path := "data/" + seal{Number: n}.name()
			if _, err := fs.Stat(path); err == nil {
				return []string{path}
			}
		}
	}
	names, err := fs.List("data/store")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var got []string
	for _, n := range names {
		if isFile(n, kind) {
			got = append(got, "data/store/"+n)
		}
	}
	return got
}

// spoil changes one file at random and says how.
func spoil(t *testing.T, fs *vfs.MemFS, path, kind string, rng *rand.Rand) string {
	b := contentOf(t, fs, path)
	if strings.Contains(path, "marker.") && kind == "flip" {
		// The content is the name.
		name := []byte(fs.PathBase(path))
		i := len("marker.") + rng.IntN(len(name)-len("marker."))
		if name[i] ^= 1 << rng.IntN(4); name[i] == '/' {
			name[i] ^= 2
		}
		if err := fs.Rename(path, fs.PathJoin(fs.PathDir(path), string(name))); err != nil {
			t.Fatal(err)
		}
		if err := syncDir(fs, fs.PathDir(path)); err != nil {
			t.Fatal(err)
		}
		return "renamed to " + string(name)
	}
	span := len(b)
	if span == 0 && kind != "delete" {
		return "empty"
	}
	at := 0
	if span > 0 {
		at = rng.IntN(span)
	}
	if strings.HasSuffix(path, "witness") && rng.IntN(4) > 0 {
		at = rng.IntN(4)*slotBytes + rng.IntN(60) // the rest of a slot is empty
	}
	switch kind {
	case "flip":
		b[at] ^= 1 << rng.IntN(8)
		rewriteFile(t, fs, path, b)
	case "zero":
		clear(b[at:min(span, at+1+rng.IntN(5000))])
		rewriteFile(t, fs, path, b)
	case "truncate":
		if rng.IntN(3) == 0 {
			at &^= 32<<10 - 1 // the end of a block of the log is the hardest to see
		}
		rewriteFile(t, fs, path, append([]byte{}, b[:at]...))
	case "delete":
		rewriteFile(t, fs, path, nil)
	}
	return fmt.Sprintf("at %d of %d", at, span)
}

func TestDamageIsNeverServed(t *testing.T) {
	seed := newSeed(t)
	kinds := []string{"flip", "zero", "truncate", "delete"}
	targets := []string{"log", "sst", "manifest", "marker", "witness", "options", "seal"}
	counts := map[string]int{}
	var base *vfs.MemFS
	var promise storetest.Promise
	how := ""
	for i := range *corruptions {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		if i%8 == 0 {
			base, promise, how = damageBase(t, rng)
		}
		kind, target := kinds[i%len(kinds)], targets[rng.IntN(len(targets))]
		fs := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		files := filesOf(t, fs, target)
		if len(files) == 0 {
			target, files = "log", filesOf(t, fs, "log")
		}
		path := files[rng.IntN(len(files))]
		if rng.IntN(2) == 0 {
			path = files[len(files)-1] // the newest matters most
		}
		what := fmt.Sprintf("seed %d number %d: %s %s of a store that was %s: %s", seed, i, kind, path, how, spoil(t, fs, path, kind, rng))
		synctest.Test(t, func(t *testing.T) {
			counts[fmt.Sprintf("%-8s %-8s %s", target, kind, outcome(t, fs, promise, what, rng))]++
		})
	}
	var lines []string
	for k, n := range counts {
		lines = append(lines, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(lines)
	t.Logf("seed %d: %d damaged stores, none served\n%s", seed, *corruptions, strings.Join(lines, "\n"))
}

// damageBase is a disk with a store that was closed or killed.
func damageBase(t *testing.T, rng *rand.Rand) (*vfs.MemFS, storetest.Promise, string) {
	l := &life{fs: vfs.NewCrashableMem(), told: storetest.NewWorkload(), rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), every: 1}
	if rng.IntN(2) == 0 {
		l.run(t, rng, 20+rng.IntN(150))
		return l.fs, l.told.Promise(), "closed"
	}
	l.want, l.left = 1, 1<<30
	l.run(t, rng, 20+rng.IntN(150))
	return l.cuts[0].fs, l.cuts[0].promise, "killed"
}

// outcome opens a damaged store and fails the test if it serves anything else
// than what was acked, or does not go on.
func outcome(t *testing.T, fs *vfs.MemFS, p storetest.Promise, what string, rng *rand.Rand) string {
	t.Helper()
	st, err := Open(calm(busy(fs)))
	if _, ok := errors.AsType[*Damaged](err); ok {
		return "refused, " + repaired(t, killed(fs), p, what)
	} else if err != nil {
		return "error"
	}
	_, err = p.Check(t.Context(), st)
	if err == nil {
		mustClose(t, st)
		return "harmless"
	}
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("%s: %v\n%s", what, err, fs)
	}
	for i, again := range []string{"", " opened again", " damaged again", " opened once more"} {
		if i == 2 { // it has damaged ranges now
			mustClose(t, st)
			tables := filesOf(t, fs, "sst")
			path := tables[rng.IntN(len(tables))]
			what += " and flip " + path + " " + spoil(t, fs, path, "flip", rng)
			if st, err = Open(calm(busy(fs))); err != nil {
				if _, ok := errors.AsType[*Damaged](err); !ok {
					t.Errorf("%s: open: %v", what, err)
				}
				return "read error, then refused, " + repaired(t, killed(fs), p, what)
			}
		}
		if _, _, err := p.Damaged(t.Context(), st, false); err != nil {
			t.Errorf("%s%s: %v", what, again, err)
		}
		if err := st.Update(t.Context(), []store.RecordPut{{Table: store.Nodes, Key: []byte("n"), Value: []byte(again)}}); err != nil {
			t.Errorf("%s%s: write: %v", what, again, err)
		}
		awaitMender()
		mustClose(t, st)
		if st, err = Open(calm(busy(fs))); err != nil {
			t.Errorf("%s%s: open: %v", what, again, err)
			return "OPEN FAILED"
		}
	}
	mustClose(t, st)
	return "read error, " + repaired(t, fs, p, what)
}

// calm are options of a store in a bubble that meets damage. Pebble asks again and again,
// without a pause, for the statistics of a table that it cannot read, so that the time of
// the bubble would stand still.
func calm(o Options) Options {
	tune := o.tune
	o.tune = func(p *pebble.Options) {
		if tune != nil {
			tune(p)
		}
		p.DisableTableStats = true
	}
	return o
}

// awaitMender waits, in a bubble, until each damaged table was mended or cannot be.
func awaitMender() {
	time.Sleep(mendAgain)
	synctest.Wait()
}

// repaired repairs a damaged store. It must then hold some first commits and nothing
// else, or, with damage of a table, what the report does not name.
func repaired(t *testing.T, fs *vfs.MemFS, p storetest.Promise, what string) string {
	t.Helper()
	r, err := Repair(busy(fs))
	if d, ok := errors.AsType[*Damaged](err); ok && d.Rewound {
		r, err = Renew(busy(fs))
	}
	if err != nil {
		t.Logf("%s: repair: %v", what, err)
		return "cannot be repaired"
	}
	st, err := Open(busy(fs))
	if err != nil {
		t.Errorf("%s: open after repair: %v", what, err)
		return "REPAIR FAILED"
	}
	defer mustClose(t, st)
	if len(r.Lost) == 0 {
		found, err := p.Lossy().Check(t.Context(), st)
		if err != nil {
			t.Errorf("%s: after repair: %v", what, err)
			return "REPAIR FAILED"
		}
		if found.Steps >= p.Acked() {
			return "repaired without loss"
		}
		return "repaired with loss"
	}
	if _, _, err := p.Damaged(t.Context(), st, true); err != nil {
		t.Errorf("%s: after repair: %v\nlost: %s", what, err, strings.Join(r.Lost, "\n"))
		return "REPAIR FAILED"
	}
	return "salvaged"
}
