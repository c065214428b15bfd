package conv_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

var changesSeed = flag.Uint64("changes-seed", 0, "seed of the tests of the index of changes; 0: any")

// touched is an index with what must be in it.
type touched struct {
	t      *testing.T
	r      *rand.Rand
	index  *conv.ChangeIndex
	keys   []im.Key
	newest []im.Pos // by key
	pos    im.Pos
}

// newTouched makes the index of one of so many feeds: with 4,096 it has 64 lines.
func newTouched(t *testing.T, convs, feeds int) *touched {
	seed := *changesSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	w := &touched{t: t, r: rand.New(rand.NewPCG(seed, 0)), index: conv.NewChangeIndex(feeds, 0)}
	for range convs {
		k := im.Key{Tenant: im.Tenant(w.r.IntN(3)), Conv: im.ConvID{0: byte(im.Group)}}
		binary.LittleEndian.PutUint64(k.Conv[8:], w.r.Uint64())
		w.keys = append(w.keys, k)
	}
	w.newest = make([]im.Pos, convs)
	return w
}

// change changes some conversations, one in each commit.
func (w *touched) change(n int) {
	for range n {
		w.pos++
		i := w.r.IntN(len(w.keys))
		w.newest[i] = w.pos
		w.index.Touch(w.keys[i], w.pos)
	}
}

// check fails if an index leaves out what has changed since a position. It returns
// how many it names that have not.
func (w *touched) check(x *conv.ChangeIndex, since im.Pos) (wrong int) {
	w.t.Helper()
	for i, k := range w.keys {
		switch maybe := x.MayHaveChanged(k, since); {
		case w.newest[i] > since && !maybe:
			w.t.Fatalf("%s changed at %d, and the index does not name it for %d", k, w.newest[i], since)
		case w.newest[i] <= since && maybe:
			wrong++
		}
	}
	return wrong
}

func TestIndexOfChangesLeavesNothingOut(t *testing.T) {
	for _, convs := range []int{100, 400, 5000} {
		w := newTouched(t, convs, 4096)
		for range 50 {
			w.change(w.r.IntN(200))
			w.check(w.index, w.pos)
			w.check(w.index, im.Pos(w.r.Uint64N(uint64(w.pos)+1)))
		}
		since := w.pos
		w.change(20)
		if wrong := w.check(w.index, since); wrong > convs/10 {
			t.Errorf("of %d conversations the index names %d that have not changed", convs, wrong)
		}
	}
}

// An index that is saved in turns, and loaded again, leaves out no conversation that
// changed up to the last save.
func TestSavedIndexOfChangesLeavesNothingOut(t *testing.T) {
	w := newTouched(t, 6000, 512)
	news, ranges := map[int][]byte{}, map[int][]byte{}
	saved := im.Pos(0)
	for step := 1; step < 300; step++ {
		w.change(w.r.IntN(200))
		all := w.index.Ranges()
		news[step], ranges[step%all] = w.index.News(saved), w.index.Range(step%all)
		delete(news, step-all)
		if saved = w.pos; step%20 != 0 {
			continue
		}
		again := conv.NewChangeIndex(512, w.pos)
		if k := w.keys[0]; !again.MayHaveChanged(k, w.pos-1) || again.MayHaveChanged(k, w.pos) {
			t.Fatal("an index that is not loaded knows what it cannot know")
		}
		for _, b := range news {
			if err := again.Load(b); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range ranges {
			if err := again.Load(b); err != nil {
				t.Fatal(err)
			}
		}
		again.SetKnownAfter(0)
		for range 5 {
			w.check(again, im.Pos(w.r.Uint64N(uint64(w.pos)+1)))
		}
		if got, want := w.check(again, w.pos), 0; got != want {
			t.Errorf("%d conversations are named after the last change", got)
		}
	}
}

func TestDamagedIndexOfChangesIsRefused(t *testing.T) {
	w := newTouched(t, 50, 4096)
	w.change(100)
	whole := w.index.Range(0)
	for n := range whole {
		x := conv.NewChangeIndex(4096, 0)
		if err := x.Load(whole[:n]); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	for _, b := range []string{"\xff", "\xff\xff\x7f\x01\x00", "\x01\x01\x08", "\x01\x00\x01\x00\x00\x01"} {
		if err := conv.NewChangeIndex(4096, 0).Load([]byte(b)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
	}
}
