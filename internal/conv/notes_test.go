package conv_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// react adds a reaction, or with a "-" before it takes it away, and returns the answer as
// "v2 👍2* pinned", with "=" before it if it was so already, or as a code.
func (w *world) react(key im.Key, u im.User, q im.Seq, emoji string) string {
	emoji, removed := strings.CutPrefix(emoji, "-")
	r, err := w.owner().React(context.Background(), conv.Query{Conv: key, User: u}, &convpb.React{Seq: uint64(q), Emoji: emoji, Removed: removed})
	return noteAnswer(r, err)
}

func (w *world) pin(key im.Key, u im.User, q im.Seq, removed bool) string {
	r, err := w.owner().PinEntry(context.Background(), conv.Query{Conv: key, User: u}, &convpb.PinEntry{Seq: uint64(q), Removed: removed})
	return noteAnswer(r, err)
}

func noteAnswer(r *petrelv1.NoteResponse, err error) string {
	if err != nil {
		return string(im.CodeOf(err))
	}
	if r.Unchanged {
		return "=" + noteText(r.Note)
	}
	return noteText(r.Note)
}

func noteText(n *petrelv1.Note) string {
	s := fmt.Sprint("v", n.Version)
	for _, r := range n.Reactions {
		s += fmt.Sprint(" ", r.Emoji, r.Count)
		if r.Mine {
			s += "*"
		}
	}
	if n.Pinned {
		s += " pinned"
	}
	if n.ForAll {
		s += " for all"
	}
	return s
}

// notes are those of all that a user may read, as "3 v2 👍2*".
func (w *world) notes(key im.Key, u im.User) []string {
	w.T.Helper()
	p, err := w.page(key, u, &convpb.GetHistory{Notes: true})
	if err != nil || p.NotesMissing {
		w.T.Fatalf("read notes: %v, missing %v", err, p.GetNotesMissing())
	}
	return noteTexts(p.Notes)
}

func noteTexts(notes []*petrelv1.Note) []string {
	var all []string
	for _, n := range notes {
		all = append(all, fmt.Sprint(n.Seq, " ", noteText(n)))
	}
	return all
}

func (w *world) want(what string, got, want any) {
	w.T.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.T.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// who lists who reacted, as "bob 👍🐦".
func (w *world) who(key im.Key, u im.User, q im.Seq, emoji string) []string {
	w.T.Helper()
	var all []string
	for after := ""; ; {
		r, err := w.owner().Reactions(context.Background(), conv.Query{Conv: key, User: u}, &convpb.ListReactions{Seq: uint64(q), Emoji: emoji, After: after, Limit: 2})
		if err != nil {
			return append(all, string(im.CodeOf(err)))
		}
		for _, x := range r.Users {
			all = append(all, x.User+" "+strings.Join(x.Emojis, ""))
		}
		if !r.More {
			return all
		}
		after = r.Next
	}
}

// Spec: P-5.11.
func TestReactionsAreCountedOnceForAUserAndAnEmoji(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		head := len(w.history(key, ""))
		for i, x := range []struct {
			user  im.User
			emoji string
			want  string
		}{
			{"bob", "👍", "v1 👍1*"}, {"bob", "👍", "=v1 👍1*"}, {"carol", "👍", "v2 👍2*"}, {"bob", "🐦", "v3 👍2* 🐦1*"}, {"carol", "-🐦", "=v3 👍2* 🐦1"},
			{"bob", "-👍", "v4 👍1 🐦1*"}, {"bob", "-👍", "=v4 👍1 🐦1*"}, {"carol", "-👍", "v5 🐦1"}, {"bob", "a", "v6 🐦1* a1*"}, {"bob", "b", "v7 🐦1* a1* b1*"},
			{"bob", "c", "forbidden"}, {"bob", "a", "=v7 🐦1* a1* b1*"}, {"bob", "", "invalid"}, {"bob", strings.Repeat("x", 33), "invalid"},
		} {
			w.want(fmt.Sprint(i, " ", x.user, " ", x.emoji), w.react(key, x.user, q, x.emoji), x.want)
		}
		for i := range 17 {
			w.react(key, []im.User{"alice", "carol"}[i/3%2], q, fmt.Sprint("e", i)) // three of each take
		}
		for range 2 {
			w.want("notes for bob", w.notes(key, "bob"), []string{"2 v13 🐦1* a1* b1* e01 e11 e21 e31 e41 e51"})
			w.want("notes for alice", w.notes(key, "alice"), []string{"2 v13 🐦1 a1 b1 e01* e11* e21* e31 e41 e51"})
			w.want("notes for the operator", w.notes(key, ""), []string{"2 v13 🐦1 a1 b1 e01 e11 e21 e31 e41 e51 for all"})
			w.want("who", w.who(key, "alice", q, ""), []string{"alice e0e1e2", "bob 🐦ab", "carol e3e4e5"})
			w.want("who reacted with e4", w.who(key, "alice", q, "e4"), []string{"carol e3e4e5"})
			w.restart()
		}
		w.want("entries", len(w.history(key, "")), head)
	})
}

// Spec: P-5.11.
func TestAMessageHasAtMostTwentyDifferentReactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		users := []im.User{"alice"}
		for i := range 8 {
			users = append(users, im.User(fmt.Sprint("u", i)))
		}
		key := w.Group(users...)
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		for i := range 24 {
			want := "forbidden"
			if i < note.MaxReactions {
				want = "v"
			}
			if got := w.react(key, users[1+i/3], q, fmt.Sprint("e", i)); !strings.HasPrefix(got, want) {
				t.Errorf("reaction %d: %s, want %s", i, got, want)
			}
		}
		if got := w.react(key, "alice", q, "e0"); !strings.Contains(got, "e02*") {
			t.Errorf("one that is there already: %s", got)
		}
	})
}

// Spec: P-5.11, P-8.3.
func TestWhoMayReactAndPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()                                                 // 1 and 2
		early := w.MustSend(convtest.Message(key, "mia", "early", 1, "")) // 3
		w.MustSend(convtest.Add(key, "ann", "ann"))
		q := w.MustSend(convtest.Message(key, "mia", "m", 1, "hello"))
		gone := w.MustSend(convtest.Message(key, "mia", "gone", 1, "to be recalled"))
		w.react(key, "mia", gone, "x")
		w.want("pin", w.pin(key, "adam", gone, false), "v2 x1 pinned")
		recalled := w.MustSend(recall(key, "mia", "recall", gone))
		for _, x := range []struct {
			what      string
			got, want string
		}{
			{"before her time", w.react(key, "ann", early, "x"), "no_target"}, {"a change of members", w.react(key, "mia", 1, "x"), "no_target"},
			{"recalled", w.react(key, "max", gone, "x"), "no_target"}, {"taken from what was recalled", w.react(key, "mia", gone, "-x"), "v3 pinned"},
			{"a recall", w.react(key, "mia", recalled, "x"), "no_target"}, {"not there", w.react(key, "mia", 99, "x"), "no_target"}, {"0", w.react(key, "mia", 0, "x"), "no_target"},
			{"a stranger", w.react(key, "zoe", q, "x"), "no_conversation"}, {"one who left", w.react(key, "ex", early, "x"), "not_member"},
			{"a member pins", w.pin(key, "mia", q, false), "forbidden"}, {"an admin pins", w.pin(key, "adam", q, false), "v1 pinned"},
			{"again", w.pin(key, "olga", q, false), "=v1 pinned"}, {"the owner unpins", w.pin(key, "olga", q, true), "v2"}, {"again", w.pin(key, "olga", q, true), "=v2"},
			{"the owner pins", w.pin(key, "olga", early, false), "v1 pinned"},
		} {
			w.want(x.what, x.got, x.want)
		}
		w.want("notes: none of what was recalled", w.notes(key, "mia"), []string{"3 v1 pinned", "5 v2"})
		pins := func(u im.User) string {
			r, err := w.owner().Pins(t.Context(), conv.Query{Conv: key, User: u}, &convpb.ListPins{})
			if err != nil {
				return string(im.CodeOf(err))
			}
			s := ""
			for _, p := range r.Pins {
				s += fmt.Sprintf("%d by %s, ", p.Message.Seq, p.By)
			}
			return s
		}
		w.want("pins", pins("mia"), "6 by adam, 3 by olga, ")
		w.want("pins of her time", pins("ann"), "6 by adam, ")
		w.want("pins for one who left", pins("ex"), "not_member")
		w.want("reactions for one who left", w.who(key, "ex", early, ""), []string{"not_member"})
		hello := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "mia", "olga")}, "mia", "k", -1, "hi")
		hello.Peer = "olga"
		w.MustSend(hello)
		w.want("pin in a direct conversation", w.pin(hello.Conv, "olga", 1, false), "v1 pinned")
	})
}

// ListPins reads a page at a time: the pinned messages may take megabytes. Spec: P-5.11.
func TestPinsAreReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		var want, got []uint64
		for i, size := range []int{10, conv.MaxPageBytes, 20, conv.MaxPageBytes / 2, conv.MaxPageBytes, 30, 40} {
			q := w.MustSend(convtest.Message(key, "mia", fmt.Sprint("m", i), 1, strings.Repeat("x", size)))
			w.want("pin", w.pin(key, "olga", q, false), "v1 pinned")
			want = append([]uint64{uint64(q)}, want...)
		}
		pages := 0
		for q := (&convpb.ListPins{}); pages == 0 || q.Before != 0; pages++ {
			r, err := w.owner().Pins(t.Context(), conv.Query{Conv: key, User: "mia"}, q)
			if err != nil || len(r.Pins) == 0 {
				t.Fatalf("page below %d: %d pins, %v", q.Before, len(r.GetPins()), err)
			}
			if n := proto.Size(r); n > 2*conv.MaxPageBytes {
				t.Errorf("page below %d has %d bytes", q.Before, n)
			}
			for _, p := range r.Pins {
				got = append(got, p.Message.Seq)
			}
			q = &convpb.ListPins{Before: r.Next}
		}
		w.want("pins of all pages", got, want)
		if pages != 5 {
			t.Errorf("%d pages, want 5", pages)
		}
		last, err := w.owner().Pins(t.Context(), conv.Query{Conv: key, User: "mia"}, &convpb.ListPins{Before: want[len(want)-1]})
		if err != nil || len(last.Pins) > 0 || last.Next != 0 {
			t.Errorf("below the oldest pin: %v, %v", last, err)
		}
	})
}

// F5 for notes: the store shows them before they are durable, and nobody is told.
func TestUnsyncedNotesAreNeverRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		w.want("before", w.react(key, "alice", q, "x"), "v1 x1*")
		bob := w.Online("bob", convtest.Notes)
		open := w.Gate.Shut()
		defer open()
		first, again := make(chan string, 1), make(chan string, 1)
		go func() { first <- w.react(key, "bob", q, "x") }()
		w.wantMark(key, store.MarkReactions, q, "bob") // readable, not durable
		go func() { again <- w.react(key, "bob", q, "x") }()
		synctest.Wait()
		if n := w.owner().NotesWaiting(); n != 2 {
			t.Errorf("%d changes of notes wait, want 2", n)
		}
		w.want("notes before the sync", w.notes(key, "bob"), []string{"2 v1 x1"})
		w.want("who reacted before the sync", w.who(key, "alice", q, ""), []string{"alice x"})
		if len(first)+len(again) > 0 {
			t.Error("a reaction was answered before the sync")
		}
		for _, f := range bob.Frames() { // of alice's message and reaction, if any
			for _, n := range f.GetEvents().GetNotes() {
				n.ForAll = false // whether he was online early enough to be one of all does not matter
				w.want("told before the sync", noteText(n), "v1 x1")
			}
		}
		open()
		w.want("the answer", <-first, "v2 x2*")
		w.want("the answer to the repeat", <-again, "=v2 x2*")
		w.want("notes after the sync", w.notes(key, "bob"), []string{"2 v2 x2*"})
		w.want("who reacted after the sync", w.who(key, "alice", q, ""), []string{"alice x", "bob x"})

		d := w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")
		hello := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: d}, "alice", "k", -1, "hi")
		hello.Peer = "bob"
		w.MustSend(hello)
		open = w.Gate.Shut()
		defer open()
		go func() { first <- w.pin(hello.Conv, "bob", 1, false) }()
		w.wantMark(hello.Conv, store.MarkPin, 1, "")
		pins, err := w.owner().Pins(t.Context(), conv.Query{Conv: hello.Conv, User: "bob"}, &convpb.ListPins{})
		if err != nil || len(pins.Pins) > 0 {
			t.Errorf("pins before the sync: %v, %v", pins, err)
		}
		open()
		w.want("the answer to the pin", <-first, "v1 pinned")
		if pins, err = w.owner().Pins(t.Context(), conv.Query{Conv: hello.Conv, User: "bob"}, &convpb.ListPins{}); err != nil || len(pins.Pins) != 1 {
			t.Errorf("pins after the sync: %v, %v", pins, err)
		}
	})
}

// wantMark checks that the store shows a mark, durable or not.
func (w *world) wantMark(key im.Key, k store.MarkKind, q im.Seq, name string) {
	w.T.Helper()
	synctest.Wait()
	if of, err := w.Gate.MarksOf(context.Background(), key, k, name, []im.Seq{q}); err != nil || of[0] == nil {
		w.T.Fatalf("the mark of %s did not come to the store: %v", name, err)
	}
}

// wantNotes checks which notes a connection was told since the last look, in this order.
func (w *world) wantNotes(what string, s *convtest.Screen, want ...string) {
	w.T.Helper()
	synctest.Wait()
	var got []string
	for _, f := range s.Frames() {
		got = append(got, noteTexts(f.GetEvents().GetNotes())...)
	}
	w.want(what, got, want)
}

// A refused commit leaves nothing of its reactions, and those that came on top of it.
func TestRefusedReactionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		w.react(key, "alice", q, "x")
		w.Gate.Refuse(true)
		w.want("on a full disk", w.react(key, "bob", q, "x"), "disk_full")
		w.want("pin on a full disk", w.react(key, "bob", q, "y"), "disk_full")
		w.want("notes", w.notes(key, "bob"), []string{"2 v1 x1"})
		w.Gate.Refuse(false)
		w.want("after that", w.react(key, "bob", q, "z"), "v2 x1 z1*")
		w.MustSend(convtest.Message(key, "bob", "m2", 1, "the position is right"))
		w.restart()
		w.want("notes after a restart", w.notes(key, "bob"), []string{"2 v2 x1 z1*"})
	})
}

// A reaction or pin that was answered survives a crash.
func TestReactionsThatWereAnsweredSurviveACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		w := newWorldOn(t, fs)
		key := w.Group("alice", "bob")
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		for range 3 {
			w.react(key, "bob", q, "x")
			w.react(key, "bob", q, "-x")
		}
		w.react(key, "bob", q, "y")
		w.pin(key, "bob", q, false)
		want := w.notes(key, "bob")
		w.fs = fs.CrashClone(vfs.CrashCloneCfg{})
		w.restart()
		w.want("notes after a crash", w.notes(key, "bob"), want)
		w.want("who", w.who(key, "bob", q, ""), []string{"bob y"})
	})
}

// A user who has left learns of no later reaction or pin. Spec: P-5.11, P-8.3.
func TestLeaversSeeNoLaterNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		one := w.MustSend(convtest.Message(key, "alice", "1", 1, "one"))
		two := w.MustSend(convtest.Message(key, "alice", "2", 1, "two"))
		w.react(key, "carol", one, "x")
		w.react(key, "carol", two, "x")
		w.MustSend(convtest.Kick(key, "kick", "bob"))
		w.want("what was before", w.notes(key, "bob"), []string{"2 v1 x1", "3 v1 x1"})
		bob := w.Online("bob", convtest.Notes)
		w.react(key, "alice", two, "y")
		w.want("what came later", w.notes(key, "bob"), []string{"2 v1 x1"})
		w.restart()
		w.want("what came later, after a restart", w.notes(key, "bob"), []string{"2 v1 x1"})
		w.MustSend(convtest.Add(key, "back", "bob"))
		w.want("as a member again", w.notes(key, "bob"), []string{"2 v1 x1", "3 v2 x1 y1"})
		if got := bob.Frames(); len(got) != 0 {
			t.Errorf("somebody who has left was told %v", got)
		}
	})
}

// Spec: P-5.11, P-6.5.
func TestNotesAreToldToThoseInFocusOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol", "dora")
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		w.MustSend(convtest.Add(key, "late", "late"))
		later := w.MustSend(convtest.Message(key, "alice", "m2", 1, "hello, late"))
		screens := map[im.User]*convtest.Screen{}
		for _, u := range []im.User{"alice", "bob", "carol", "dora", "late"} {
			screens[u] = w.Online(u, func(o *fanout.Outbox) { o.Notes = u != "carol" }) // carol's client does not know notes
		}
		screens["dora"].Out.Focus(1, map[im.ConvID]bool{})
		w.react(key, "bob", q, "x")
		w.wantNotes("alice was told at once", screens["alice"], "2 v1 x1 for all")
		w.wantNotes("bob was told at once", screens["bob"], "2 v1 x1*")
		for i := range 3 {
			w.react(key, "bob", q, []string{"-x", "x", "y"}[i])
		}
		w.react(key, "carol", later, "z")
		time.Sleep(time.Second - 1)
		w.wantNotes("alice was told within the second", screens["alice"])
		time.Sleep(time.Nanosecond)
		w.wantNotes("alice was told after a second", screens["alice"], "2 v4 x1 y1 for all", "4 v1 z1 for all")
		w.wantNotes("bob was told after a second", screens["bob"], "2 v4 x1* y1*", "4 v1 z1 for all")
		w.wantNotes("who came late was told", screens["late"], "4 v1 z1 for all") // the other message is from before their time
		for _, u := range []im.User{"carol", "dora"} {
			if got := screens[u].Frames(); len(got) != 0 {
				t.Errorf("%s was told %v", u, got)
			}
		}
	})
}

// A page goes on being one where only notes are damaged. Spec: P-9.5.
func TestPagesSayThatNotesAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		w.Gate.Damage(func(_ im.Key, from, _ im.Seq) bool { return from == 0 })
		p, err := w.page(key, "alice", &convpb.GetHistory{Notes: true})
		if err != nil || len(p.Rows) != 2 || !p.NotesMissing {
			t.Errorf("%d rows, missing %v, %v", len(p.GetRows()), p.GetNotesMissing(), err)
		}
	})
}

// Spec: P-5.2.
func TestPagesAroundAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, skip := newWorldAhead(t)
		start := time.Now().Truncate(time.Second)
		key := w.Group("alice", "bob") // 1
		hour := 0
		add := func(from, to int) {
			for i := from; i <= to; i++ {
				skip(time.Duration(i-hour) * time.Hour)
				hour = i
				w.MustSend(convtest.Message(key, "alice", fmt.Sprint(i), 1, fmt.Sprint("text ", i)))
			}
		}
		add(2, 20)
		w.MustSend(convtest.Kick(key, "kick", "bob")) // 21
		add(22, 30)
		w.MustSend(convtest.Add(key, "back", "bob")) // 31
		add(32, 40)
		at := func(h int) uint64 { return uint64(start.Add(time.Duration(h) * time.Hour).UnixMilli()) }
		for _, x := range []struct {
			user im.User
			q    *convpb.GetHistory
			want string // first row, last row, rows; what is covered; more
		}{
			{"alice", &convpb.GetHistory{Around: 15, Limit: 10}, "10 to 19, 10 rows, covers 10 to 19, more"},
			{"alice", &convpb.GetHistory{Around: 15, Limit: 1}, "15 to 15, 1 rows, covers 15 to 15, more"},
			{"alice", &convpb.GetHistory{Around: 2, Limit: 10}, "1 to 10, 10 rows, covers 1 to 10, more"},
			{"alice", &convpb.GetHistory{Around: 39, Limit: 10}, "34 to 40, 7 rows, covers 34 to 40"},
			{"alice", &convpb.GetHistory{Around: 99, Limit: 4}, "38 to 40, 3 rows, covers 38 to 40"},
			{"bob", &convpb.GetHistory{Around: 25, Limit: 6}, "19 to 33, 6 rows, covers 19 to 33, more"},
			{"alice", &convpb.GetHistory{AtMs: at(15), Limit: 4}, "13 to 16, 4 rows, covers 13 to 16, more"},
			{"alice", &convpb.GetHistory{AtMs: at(99), Limit: 4}, "38 to 40, 3 rows, covers 38 to 40"},
			{"alice", &convpb.GetHistory{AtMs: 1, Limit: 4}, "1 to 4, 4 rows, covers 1 to 4, more"},
			{"bob", &convpb.GetHistory{AtMs: at(25), Limit: 2}, "21 to 31, 2 rows, covers 21 to 31, more"},
			{"alice", &convpb.GetHistory{After: 10, Limit: 5}, "11 to 15, 5 rows, covers 11 to 15, more"},
			{"alice", &convpb.GetHistory{Before: 10, Limit: 5}, "5 to 9, 5 rows, covers 5 to 9, more"},
			{"bob", &convpb.GetHistory{After: 18, Before: 33}, "19 to 32, 5 rows, covers 19 to 32"},
			{"alice", &convpb.GetHistory{After: 40}, "nothing"},
			{"alice", &convpb.GetHistory{Before: math.MaxUint64, Limit: 3}, "38 to 40, 3 rows, covers 38 to 40, more"},
		} {
			p, err := w.page(key, x.user, x.q)
			if err != nil {
				t.Fatal(err)
			}
			got := "nothing"
			if n := len(p.Rows); n > 0 {
				seqs := convtest.SeqsOf(t, p.Rows)
				got = fmt.Sprintf("%d to %d, %d rows, covers %d to %d", seqs[0], seqs[n-1], n, p.CoveredFrom, p.CoveredTo)
				if !slices.IsSorted(seqs) {
					t.Errorf("%v: seqs %v", x.q, seqs)
				}
			}
			if p.More {
				got += ", more"
			}
			w.want(fmt.Sprint(x.user, " ", x.q), got, x.want)
		}
	})
}

// Spec: P-5.2, P-9.5.
func TestPagesAroundDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		w.upTo(key, "alice", 20)
		w.Gate.Damage(func(_ im.Key, from, to im.Seq) bool { return from <= 12 && to >= 10 && from > 0 })
		for around, want := range map[uint64]string{
			9: "[7 8 9] 7 9 true <nil>", 10: "[8 9] 8 9 true <nil>", 11: "[] 0 0 false damaged", 13: "[13 14 15 16] 13 16 true <nil>", 14: "[13 14 15 16] 13 16 true <nil>",
		} {
			p, err := w.page(key, "alice", &convpb.GetHistory{Around: around, Limit: 4})
			code := "<nil>"
			if err != nil {
				code = string(im.CodeOf(err))
			}
			w.want(fmt.Sprint("around ", around), fmt.Sprint(convtest.SeqsOf(t, p.GetRows()), " ", p.GetCoveredFrom(), " ", p.GetCoveredTo(), " ", p.GetMore(), " ", code), want)
		}
	})
}

// A lost feed ends changes of notes with an error that settles nothing.
func TestReactionsEndWithTheirFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		q := w.MustSend(convtest.Message(key, "alice", "m", 1, "hello"))
		ow := w.owner()
		open := w.Gate.ShutStore()
		defer open()
		answer := make(chan error, 1)
		go func() {
			_, err := ow.React(context.Background(), conv.Query{Conv: key, User: "alice"}, &convpb.React{Seq: uint64(q), Emoji: "x"})
			answer <- err
		}()
		synctest.Wait()
		if n := w.Gate.Stopped(); n != 1 {
			t.Fatalf("%d commits wait before the store, want 1", n)
		}
		ow.Lose(errors.New("another node has it"))
		open()
		if err := <-answer; err != nil && im.CodeOf(err).Info().Settled {
			t.Errorf("answer %v", err)
		}
	})
}
