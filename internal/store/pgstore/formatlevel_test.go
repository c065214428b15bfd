package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

// TestF28NeighbouringLevelsRunTogetherUntilTheLevelIsRaised has programs of two
// levels on two databases.
func TestF28NeighbouringLevelsRunTogetherUntilTheLevelIsRaised(t *testing.T) {
	server := pgtest.Shared(t)
	o := Options{DSNs: []string{server.Empty(t), server.Empty(t)}, level: 1}
	newer := o
	newer.level = 2
	old := mustOpen(t, o)
	recent := mustOpen(t, newer)
	defer mustClose(t, recent)
	wantLevel := func(want uint32) {
		t.Helper()
		for _, st := range []*Store{old, recent} {
			if got, err := st.Level(t.Context()); err != nil || got != want {
				t.Errorf("level %d, %v; want %d", got, err, want)
			}
		}
	}
	wantLevel(1) // that of who made the databases
	// A rolling upgrade hands feeds over both ways.
	for f, nodes := range map[store.Feed][]*Store{1: {old, recent}, 2: {recent, old}} {
		first := newFeedWriter(t, nodes[0], f)
		first.add(t, nodes[0], 1)
		next := newFeedWriter(t, nodes[1], f)
		next.heads = first.heads
		next.add(t, nodes[1], 1)
	}
	if err := old.Readable(t.Context()); err != nil {
		t.Errorf("the older one, before: %v", err)
	}
	// A node of the older release that starts again while the level is lower.
	mustClose(t, mustOpen(t, o))

	if err := recent.Raise(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	wantLevel(2)
	err := old.Readable(t.Context()) // one that was about to join
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Code != "store_too_new" || !strings.Contains(err.Error(), "data has level 2") {
		t.Errorf("the older one, behind: %v", err)
	}
	if err := recent.Readable(t.Context()); err != nil {
		t.Errorf("the newer one, behind: %v", err)
	}
	mustClose(t, old)
	if st, err := Open(t.Context(), o); err == nil {
		mustClose(t, st)
		t.Error("the older one was opened behind it")
	}
	mustClose(t, mustOpen(t, newer))
	if err := recent.Raise(t.Context(), 1); err != nil { // never goes down
		t.Fatal(err)
	}
	if got, err := recent.Level(t.Context()); err != nil || got != 2 {
		t.Errorf("level %d, %v; want 2", got, err)
	}
}

// One that ends between two databases is done by the next.
func TestF28RaisedLevelOfOneDatabaseIsFollowedByTheOther(t *testing.T) {
	server := pgtest.Shared(t)
	st := mustOpen(t, Options{DSNs: []string{server.Empty(t), server.Empty(t)}, level: 2})
	defer mustClose(t, st)
	if level, err := st.Level(t.Context()); err != nil || level != 2 {
		t.Fatalf("a new store has level %d, %v; want that of its maker, 2", level, err)
	}
	newRaw(t, st.o.DSNs[1]).do(`UPDATE petrel.migrations SET level = 1, min_level = 1`)
	if level, err := st.Level(t.Context()); err != nil || level != 1 {
		t.Errorf("level %d, %v; want that of the lowest, 1", level, err)
	}
	if err := st.Raise(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if level, err := st.Level(t.Context()); err != nil || level != 2 {
		t.Errorf("level %d, %v; want 2", level, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Level(gone); err == nil {
		t.Error("a level was read behind the end of its context")
	}
}

func TestSpreadCountsThePartitionsOfEachDatabase(t *testing.T) {
	st := mustOpen(t, Options{DSNs: []string{blank(t), blank(t)}})
	defer mustClose(t, st)
	other := mustOpen(t, st.o) // does not hear of the move
	defer mustClose(t, other)
	if err := st.MovePartition(t.Context(), 3, 1); err != nil {
		t.Fatal(err)
	}
	if got := other.Spread(t.Context()); !slices.Equal(got, []int{129, 127}) {
		t.Errorf("got %v, want 129 and 127", got)
	}
}
