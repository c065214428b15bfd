package feed

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A feed forgets what the slowest of its consumers has read, and waits for none that has
// read nothing for too long.
func TestFeedIsTrimmedByItsSlowestConsumer(t *testing.T) {
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: vfs.NewMem(), BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	epoch, pos, err := st.Takeover(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	began := time.UnixMilli(1_000_000_000_000)
	for ; pos < 50; pos++ { // one commit an hour
		done := make(chan error, 1)
		at := uint64(began.Add(time.Duration(pos) * time.Hour).UnixMilli())
		st.Append(&store.Batch{Epoch: epoch, Holder: 1, From: pos, Entry: &storepb.FeedEntry{TimeMs: at}}, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	oldest := func() im.Pos {
		for at := im.Pos(0); ; at++ {
			err := st.ScanFeed(t.Context(), 0, at, at+1, func(im.Pos, *storepb.FeedEntry) bool { return true })
			if err == nil {
				return at + 1
			}
			if !errors.Is(err, store.ErrTrimmed) {
				t.Fatal(err)
			}
		}
	}
	at := func(f store.Feed, name string, pos im.Pos) store.RecordPut {
		return store.RecordPut{Table: store.Consumers, Key: key(f, name), Value: encode(pos, []byte("state"))}
	}
	gone := func(f store.Feed, name string) store.RecordPut {
		return store.RecordPut{Table: store.Consumers, Key: key(f, name)}
	}
	for _, step := range []struct {
		what string
		puts []store.RecordPut
		now  time.Duration // after the first commit
		want im.Pos        // the oldest commit that is kept
	}{
		{"no consumer", nil, 50 * time.Hour, 1},
		{"one", []store.RecordPut{at(0, "inbox", 10)}, 50 * time.Hour, 7},
		{"a slower one", []store.RecordPut{at(0, "push", 8), at(0, "inbox", 30), at(1, "inbox", 3)}, 50 * time.Hour, 7},
		{"it has read on", []store.RecordPut{at(0, "push", 20)}, 50 * time.Hour, 17},
		{"it reads nothing for a week", nil, MaxBehind + 20*time.Hour, 17},
		{"and for longer", nil, MaxBehind + 21*time.Hour, 27},
		{"it is gone", []store.RecordPut{at(0, "inbox", 40), at(0, "webhook", 35), gone(0, "push")}, 50 * time.Hour, 32},
		{"they are all forgotten", []store.RecordPut{gone(0, "inbox"), gone(0, "webhook")}, 50 * time.Hour, 32},
	} {
		if len(step.puts) > 0 {
			if err := st.Update(t.Context(), step.puts); err != nil {
				t.Fatal(err)
			}
		}
		if err := Trim(t.Context(), st, 0, began.Add(step.now), 4); err != nil {
			t.Fatal(err)
		}
		if got := oldest(); got != step.want {
			t.Errorf("%s: the oldest commit is %d, want %d", step.what, got, step.want)
		}
	}
}
