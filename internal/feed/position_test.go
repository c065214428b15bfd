package feed

import (
	"context"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

// untrimmed keeps its feeds, and notes what they were to forget.
type untrimmed struct {
	store.Store
	trimmed []im.Pos
}

func (u *untrimmed) TrimFeed(_ context.Context, _ store.Feed, upTo im.Pos) error {
	u.trimmed = append(u.trimmed, upTo)
	return nil
}

// A consumer that lost the feed to another node, and does not know yet, does not set the
// position back. Its own state is not stored beside the position of the other one.
func TestPositionOfANewerConsumerStays(t *testing.T) {
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: vfs.NewMem(), BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	u := &untrimmed{Store: st}
	state, puts := "", []store.RecordPut(nil)
	node := func(name string) *Consumer {
		c, err := New(t.Context(), Options{
			Name: "lists", Store: u, Keep: 256, Stored: func() {},
			State:     func() ([]byte, []store.RecordPut) { return []byte(name), puts },
			StateRead: func(b []byte) { state = string(b) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	save := func(c *Consumer, done, want im.Pos, by string) {
		t.Helper()
		c.done = done
		if err := c.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := node("").Pos(); got != want || state != by {
			t.Errorf("the position is %d of %q, want %d of %q", got, state, want, by)
		}
	}
	old := node("old")
	save(old, 1005, 1005, "old")
	next := node("next")
	save(next, 1009, 1009, "next")
	puts = []store.RecordPut{{Table: store.Settings, Key: []byte("made"), Value: []byte("of what was read")}}
	save(old, 1007, 1009, "next")
	if v, err := st.Record(t.Context(), store.Settings, 0, []byte("made")); v != nil || err != nil {
		t.Errorf("the older consumer has stored %q, %v", v, err)
	}
	save(next, 1012, 1012, "next")
	// A consumer that follows a dead owner finds the newest commits in the feed.
	if want := []im.Pos{1005 - 256, 1009 - 256, 1012 - 256}; !slices.Equal(u.trimmed, want) {
		t.Errorf("trimmed up to %v, want %v", u.trimmed, want)
	}
}
