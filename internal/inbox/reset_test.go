package inbox_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func (w *world) trim() im.Pos {
	w.t.Helper()
	feed, pos := w.convs.Owners()[0].Feed(), w.convs.Owners()[0].Published()
	if err := w.store.TrimFeed(context.Background(), feed, pos); err != nil {
		w.t.Fatal(err)
	}
	return pos
}

// A feed that was trimmed too early is made good from the conversations that
// are still used, each user's last joining or leaving; and it is counted.
func TestTrimmedFeedIsMadeGoodFromTheConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.group("before", "alice", "bob")
		w.settle()
		w.kill()
		// Its place was not saved: the next one begins with the first commit.
		idle, team, gone := w.group("idle", "alice", "bob"), w.group("team", "alice", "bob"), w.group("gone", "alice", "bob")
		direct := w.direct("bob", "alice", "hi")
		w.change(gone, &petrelv1.MemberChange{Removed: []string{"alice"}})
		w.change(before, &petrelv1.MemberChange{Removed: []string{"alice"}})
		w.change(before, &petrelv1.MemberChange{Added: refs(0, "alice")})
		w.trim()
		for _, k := range []im.Key{team, gone, direct, before} {
			w.say(k, "bob", "in what is left of the feed")
			w.say(k, "bob", "twice")
		}
		late := w.group("late", "alice")
		w.allowed = "feed was trimmed"
		w.consume()
		w.settle()
		if n := w.consumer.Resets(); n != 1 {
			t.Errorf("%d resets", n)
		}
		states, token := w.all("alice", nil)
		w.wantConvs("alice's list", states, team, gone, direct, before, late)
		if got := states[gone.Conv.String()]; !got.GetLeft() || got.GetHead() != 2 {
			t.Errorf("what alice has left: %v", got)
		}
		for _, e := range w.inbox("bob") {
			if e == fmt.Sprintf("joined %s@1 GROUP peer= title=idle", idle.Conv) {
				t.Error("nothing names the idle one: this test shows nothing")
			}
		}
		// Everything goes on, and nothing is entered twice.
		w.allowed = ""
		had := len(w.inbox("alice"))
		w.kill()
		w.consume()
		w.change(team, &petrelv1.MemberChange{Removed: []string{"alice"}})
		w.change(idle, &petrelv1.MemberChange{Removed: []string{"alice"}})
		w.settle()
		if n := len(w.inbox("alice")); n != had+2 {
			t.Errorf("alice's inbox has %d entries, had %d: %v", n, had, w.inbox("alice"))
		}
		states, _ = w.all("alice", token)
		w.wantConvs("what changed", states, team, idle)
	})
}

// Another node carried it, saved its place and trimmed the feed: nothing is
// lost, and nobody is told that it was.
func TestTrimmedByAnotherNodeIsNoReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
		late, err := inbox.NewConsumer(context.Background(), log, w.convs, w.convs.Owners()[0], w.store) // reads the place, and is slow
		if err != nil {
			t.Fatal(err)
		}
		team := w.group("team", "alice", "bob")
		w.settle()
		w.kill()
		feed := w.convs.Owners()[0].Feed()
		place := binary.BigEndian.AppendUint64(nil, uint64(w.trim()))
		place = append(place, make([]byte, 16)...) // it knows everything, and has stored it once
		if err := w.store.Update(context.Background(), []store.RecordPut{{Table: store.Consumers, Key: fmt.Appendf(nil, "at/%d/inbox", feed), Value: place}}); err != nil {
			t.Fatal(err)
		}
		more := w.group("more", "alice")
		w.consumer = late
		w.stopFeed = w.run("inboxes", late.Run)
		w.settle()
		states, _ := w.all("alice", nil)
		w.wantConvs("alice's list", states, team, more)
		if n := late.Resets(); n != 0 {
			t.Errorf("%d resets", n)
		}
	})
}

// Conversations may begin for long as quickly as a consumer carries them. One that is killed
// then does not carry all of them again.
func TestPlaceIsSavedWhileItCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.kill()
		w.group("team", "alice", "bob")
		upTo := w.convs.Owners()[0].Published()
		tick := make(chan time.Time, 1)
		tick <- time.Time{}
		late, err := inbox.NewConsumer(context.Background(), slog.New(slog.NewTextHandler(w, nil)), w.convs, w.convs.Owners()[0], w.store)
		if err != nil {
			t.Fatal(err)
		}
		if err := late.CatchUp(context.Background(), tick); err != nil {
			t.Fatal(err)
		}
		place, err := w.store.Record(context.Background(), store.Consumers, 0, fmt.Appendf(nil, "at/%d/inbox", w.convs.Owners()[0].Feed()))
		if err != nil || len(place) < 8 || binary.BigEndian.Uint64(place) < uint64(upTo) {
			t.Errorf("the place is %x, %v; want one at %d or later", place, err, upTo)
		}
	})
}
