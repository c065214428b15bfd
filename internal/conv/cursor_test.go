package conv_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// moved is the answer to a move.
type moved struct {
	c   conv.Cursor
	err *im.Error
}

func (m moved) String() string {
	if m.err != nil {
		return string(m.err.Code)
	}
	return fmt.Sprintf("%d %d", m.c.Delivered, m.c.Read)
}

// move begins a move; from may be nil.
func (w *world) move(key im.Key, u im.User, delivered, read im.Seq, from *convtest.Screen) chan moved {
	w.T.Helper()
	ch := make(chan moved, 1)
	m := &conv.CursorMove{
		Conv: key, User: u, Delivered: delivered, Read: read,
		Done: func(c conv.Cursor, err *im.Error, _ *fanout.WakeUps) { ch <- moved{c, err} },
	}
	if from != nil {
		m.Origin = fanout.Asker{ID: from.Out.ID}
	}
	if err := w.owner().Move(context.Background(), m); err != nil {
		ch <- moved{err: &im.Error{Code: im.CodeOf(err)}}
	}
	return ch
}

func (w *world) wantMoved(what string, ch chan moved, want string) {
	w.T.Helper()
	if got := eventually.Receive(w.T, "the answer to "+what, ch).String(); got != want {
		w.T.Errorf("%s: %s, want %s", what, got, want)
	}
}

// receipts are what the members are told by ListReceipts.
func (w *world) receipts(key im.Key) []string {
	w.T.Helper()
	list, err := w.receiptsOf(key, "")
	if err != nil {
		w.T.Fatal(err)
	}
	return showReceipts(list)
}

func showReceipts(list []*petrelv1.Receipt) []string {
	var all []string
	for _, r := range list {
		all = append(all, fmt.Sprintf("%s %d %d", r.User, r.Delivered, r.Read))
	}
	return all
}

// upTo sends texts until the head of a group is q.
func (w *world) upTo(key im.Key, from im.User, q im.Seq) {
	w.T.Helper()
	for st, _ := w.look(key, from); st.Head < uint64(q); st.Head++ {
		w.MustSend(convtest.Message(key, from, fmt.Sprint("fill ", st.Head), int(st.Head), "x"))
	}
}

func (w *world) commits() im.Pos {
	return w.owner().Published()
}

// F13: the reads of n members within a second are one commit.
func TestF13MovesOfAllMembersAreOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var users []im.User
		for i := range 60 {
			users = append(users, im.User(fmt.Sprintf("u%02d", i)))
		}
		key := w.Group(users...)
		w.upTo(key, "u00", 9)
		begun := time.Now()
		w.wantMoved("the first", w.move(key, "u00", 1, 0, nil), "1 0")
		if took := time.Since(begun); took != 0 {
			t.Errorf("the first was written after %v, want at once", took)
		}
		before := w.commits()
		for q := im.Seq(2); q <= 4; q++ {
			var answers []chan moved
			for _, u := range users {
				answers = append(answers, w.move(key, u, q, q-1, nil))
			}
			if q < 4 {
				continue
			}
			for _, ch := range answers {
				w.wantMoved("one of many", ch, "4 3")
			}
		}
		if got := w.commits() - before; got != 1 {
			t.Errorf("%d commits for three moves each of %d members, want 1", got, len(users))
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("written again after %v, want 1 s", took)
		}
		if n := w.Convs.MovesWaiting(); n != 0 {
			t.Errorf("%d moves wait after all were answered", n)
		}
	})
}

// F13: an answered move is durable, and nobody sees a move that is not.
func TestF13MoveIsToldWhenItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.upTo(key, "alice", 5)
		alice := w.Online("alice", convtest.Receipts)
		open := w.Gate.Shut()
		defer open()
		first := w.move(key, "bob", 3, 2, nil)
		synctest.Wait()
		if c, err := w.Gate.Cursor(context.Background(), key, "bob"); err != nil || c.GetRead() != 2 { // readable, not durable
			t.Fatalf("the move did not come to the store: %v, %v", c, err)
		}
		same, lower := w.move(key, "bob", 3, 2, nil), w.move(key, "bob", 1, 0, nil)
		synctest.Wait()
		select {
		case m := <-first:
			t.Fatalf("answered %s before the sync", m)
		case m := <-same:
			t.Fatalf("a repeat was answered %s before the sync", m)
		case m := <-lower:
			t.Fatalf("a move below it was answered %s before the sync", m)
		default:
		}
		if got := w.receipts(key); len(got) != 0 {
			t.Errorf("receipts %v before the sync", got)
		}
		if c, err := w.owner().CursorOf(context.Background(), key, "bob"); err != nil || c.Read != 0 || c.Delivered != 0 {
			t.Errorf("cursor %+v, %v before the sync", c, err)
		}
		if got := alice.Frames(); len(got) != 0 {
			t.Errorf("alice was pushed %v before the sync", got)
		}
		open()
		for what, ch := range map[string]chan moved{"first": first, "same": same, "lower": lower} {
			w.wantMoved(what, ch, "3 2")
		}
		if d := cmp.Diff([]string{"bob 3 2"}, w.receipts(key)); d != "" {
			t.Errorf("receipts (-want +got):\n%s", d)
		}
	})
}

// F13: cursors move forward only, and survive a crash once they were answered.
func TestF13CursorsMoveForwardOnlyOverACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		w := newWorldOn(t, fs)
		key := w.Group("alice", "bob")
		w.upTo(key, "alice", 20)
		for i, c := range []struct {
			delivered, read im.Seq
			want            string
		}{
			{3, 0, "3 0"}, {2, 0, "3 0"}, {0, 5, "5 5"}, {4, 4, "5 5"}, {7, 3, "7 5"}, {1 << 60, 6, "20 6"}, {0, 1 << 60, "20 20"}, {0, 0, "20 20"},
		} {
			w.wantMoved(fmt.Sprint("move ", i), w.move(key, "bob", c.delivered, c.read, nil), c.want)
			if i%3 != 1 {
				continue
			}
			crashed := newWorldOn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			if d := cmp.Diff(w.receipts(key), crashed.receipts(key)); d != "" {
				t.Errorf("receipts after a crash behind move %d (-want +got):\n%s", i, d)
			}
			crashed.wantMoved("back, after a crash", crashed.move(key, "bob", 1, 0, nil), c.want)
		}
		w.restart()
		w.wantMoved("back, after a restart", w.move(key, "bob", 1, 1, nil), "20 20")
		if got, err := w.owner().CursorOf(context.Background(), key, "bob"); err != nil || got.Counted != 19 {
			t.Errorf("cursor %+v, %v; want 19 counted", got, err)
		}
	})
}

// Spec: P-8.3, P-8.6.
func TestCursorIsCutToWhatTheUserMayRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.upTo(key, "alice", 4)
		w.MustSend(convtest.Kick(key, "kick", "bob")) // 5
		w.upTo(key, "alice", 8)
		w.MustSend(convtest.Add(key, "late", "eve")) // 9
		w.MustSend(convtest.Add(key, "back", "bob")) // 10
		w.upTo(key, "alice", 12)
		w.wantMoved("between two stays", w.move(key, "bob", 8, 0, nil), "5 0")
		w.wantMoved("before the first", w.move(key, "eve", 8, 8, nil), "0 0")
		w.wantMoved("above the head", w.move(key, "eve", 99, 10, nil), "12 10")
		w.MustSend(convtest.Kick(key, "kick 2", "bob")) // 13
		w.upTo(key, "alice", 15)
		w.wantMoved("after the last", w.move(key, "bob", 15, 15, nil), "13 13")
		w.wantMoved("of an outsider", w.move(key, "mallory", 1, 1, nil), "no_conversation")
		none := im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, "none")}
		w.wantMoved("of nothing", w.move(none, "alice", 1, 1, nil), "no_conversation")
		if _, err := w.receiptsOf(key, "bob"); im.CodeOf(err) != im.CodeNotMember {
			t.Errorf("receipts for who has left: %v", err)
		}
		if d := cmp.Diff([]string{"eve 12 10"}, w.receipts(key)); d != "" {
			t.Errorf("receipts (-want +got):\n%s", d)
		}
	})
}

// Spec: P-8.7: unread is about the newest stay of the user.
func TestReadCountedBeginsWithTheNewestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob") // 1
		w.upTo(key, "alice", 4)        // 2 to 4 count
		w.MustSend(convtest.Add(key, "late", "eve"))
		w.upTo(key, "alice", 8) // 6 to 8
		w.MustSend(convtest.Kick(key, "kick", "bob"))
		w.upTo(key, "alice", 12) // 10 to 12
		w.MustSend(convtest.Add(key, "back", "bob"))
		w.upTo(key, "alice", 15) // 14, 15; counted is 11 in all
		for _, c := range []struct {
			u      im.User
			read   im.Seq
			unread uint64
		}{{"alice", 0, 11}, {"alice", 6, 7}, {"eve", 0, 8}, {"eve", 6, 7}, {"bob", 0, 2}, {"bob", 3, 2}, {"bob", 14, 1}, {"bob", 15, 0}} {
			if c.read > 0 {
				<-w.move(key, c.u, 0, c.read, nil)
			}
			at, err := w.owner().CursorOf(context.Background(), key, c.u)
			if err != nil {
				t.Fatal(err)
			}
			n, err := w.owner().ReadCounted(context.Background(), key, c.u, at)
			if err != nil || 11-n != c.unread {
				t.Errorf("%s with read %d: %d unread, %v; want %d", c.u, c.read, 11-n, err, c.unread)
			}
		}
	})
}

// Spec: P-8.6: up to 100 members everybody is told, above it only the user.
func TestReceiptsGoToTheOthersAndAboveAHundredToOneself(t *testing.T) {
	for _, n := range []int{3, conv.MaxReceipts, conv.MaxReceipts + 1} {
		t.Run(fmt.Sprint(n, " members"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				users := []im.User{"alice", "bob"}
				for i := range n - 2 {
					users = append(users, im.User(fmt.Sprint("u", i)))
				}
				key := w.Group(users...)
				w.upTo(key, "alice", 5)
				online := func(u im.User) *convtest.Screen { return w.Online(u, convtest.Receipts) }
				alice, deaf, phone, laptop, other := online("alice"), w.Online("alice"), online("bob"), online("bob"), online("mallory")
				answer, toAlice, toLaptop := "4 3", []string{"bob 4 3"}, []string{"bob 4 3"}
				if n > conv.MaxReceipts {
					answer, toAlice, toLaptop = "3 3", nil, []string{"bob 3 3"}
				}
				w.wantMoved("the phone's", w.move(key, "bob", 4, 3, phone), answer)
				for name, c := range map[string]struct {
					s    *convtest.Screen
					want []string
				}{"alice": {alice, toAlice}, "without the capability": {deaf, nil}, "the phone": {phone, nil}, "the laptop": {laptop, toLaptop}, "an outsider": {other, nil}} {
					var got []string
					for _, f := range c.s.Frames() {
						got = append(got, showReceipts(f.GetEvents().GetReceipts())...)
					}
					if d := cmp.Diff(c.want, got); d != "" {
						t.Errorf("%s (-want +got):\n%s", name, d)
					}
				}
				listed := []string{"bob 4 3"}
				if n > conv.MaxReceipts {
					listed = []string{"bob 0 3"}
				}
				if d := cmp.Diff(listed, w.receipts(key)); d != "" {
					t.Errorf("ListReceipts (-want +got):\n%s", d)
				}
			})
		})
	}
}

// cursorReads is a store that counts the cursors which Cursors reads.
type cursorReads struct {
	store.Store
	n atomic.Int64
}

func (r *cursorReads) Cursors(ctx context.Context, c im.Key, after im.User, fn func(im.User, *storepb.Cursor) bool) error {
	return r.Store.Cursors(ctx, c, after, func(u im.User, rec *storepb.Cursor) bool {
		r.n.Add(1)
		return fn(u, rec)
	})
}

// A page has at most limit members, and costs what it has: also where many have left.
func TestReceiptsAreReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{fs: vfs.NewMem(), cursorReads: &cursorReads{}}
		w.start(t)
		t.Cleanup(func() { w.stop() })
		var users []im.User
		for i := range 40 {
			users = append(users, im.User(fmt.Sprintf("u%02d", i)))
		}
		key := w.Group(users...)
		w.upTo(key, "u04", 5)
		var want []string
		for i, u := range users {
			if i != 7 && i != 8 { // these two have never moved
				<-w.move(key, u, 0, im.Seq(2+i%3), nil)
			}
			switch {
			case i < 3 || i >= 20 && i < 30 || i == 39:
				w.MustSend(convtest.Kick(key, fmt.Sprint("kick ", i), u))
			case i != 7 && i != 8:
				want = append(want, fmt.Sprintf("%s %d %d", u, 2+i%3, 2+i%3))
			}
		}
		for _, from := range []string{"memory", "the store"} {
			for _, limit := range []int{1, 2, 7, 26, 0, conv.MaxReceiptPage + 1} {
				var got []string
				pages := 0
				for q := (&convpb.ListReceipts{Limit: uint32(limit)}); pages == 0 || q.After != ""; pages++ {
					before := w.cursorReads.n.Load()
					p, err := w.owner().Receipts(t.Context(), conv.Query{Conv: key, User: "u05"}, q)
					if err != nil {
						t.Fatal(err)
					}
					if read := w.cursorReads.n.Load() - before; limit > 0 && (len(p.Receipts) > limit || int(read) > limit) {
						t.Errorf("from %s, limit %d, after %q: %d receipts, %d cursors read", from, limit, q.After, len(p.Receipts), read)
					}
					got = append(got, showReceipts(p.Receipts)...)
					q.After = p.Next
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("from %s, limit %d (-want +got):\n%s", from, limit, d)
				}
				if limit == 0 && pages != 1 {
					t.Errorf("from %s: %d pages without a limit", from, pages)
				}
			}
			if p, err := w.owner().Receipts(t.Context(), conv.Query{Conv: key, User: "u05"}, &convpb.ListReceipts{After: "u38"}); err != nil || len(p.Receipts) > 0 || p.Next != "" {
				t.Errorf("after the last member: %v, %v", p, err)
			}
			w.restart()
		}
	})
}

// Moves of a user who has neither written nor read anything are told to their own devices
// alone: the message of a stranger shows nobody when a device is online. Spec: P-8.6.
func TestDeliveredAloneTellsStrangersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		stranger, phone, laptop := w.Online("alice", convtest.Receipts), w.Online("bob", convtest.Receipts), w.Online("bob", convtest.Receipts)
		pushed := func(s *convtest.Screen) (all []string) {
			for _, f := range s.Frames() {
				all = append(all, showReceipts(f.GetEvents().GetReceipts())...)
			}
			return all
		}
		synced := func(since im.Pos) (all []string) {
			ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_DIRECT, Peer: "bob", Since: uint64(since)}
			st, err := w.owner().Changed(t.Context(), im.Account{Tenant: key.Tenant, User: "alice"}, ask, conv.Newest{})
			if err != nil {
				t.Error(err)
			}
			if r := st.GetPeerReceipt(); r != nil {
				return append(all, showReceipts([]*petrelv1.Receipt{r})...)
			}
			if st != nil {
				all = append(all, "changed")
			}
			return all
		}
		check := func(when string, wantTold ...string) {
			t.Helper()
			want(t, when+" alice is told", wantTold, pushed(stranger))
			listed, err := w.receiptsOf(key, "alice")
			want(t, when+" alice lists", fmt.Sprint(wantTold, nil), fmt.Sprint(showReceipts(listed), err))
		}
		w.MustSend(w.text("alice", "bob", "1", "hi"))
		w.MustSend(w.text("alice", "bob", "2", "hi?"))
		pushed(stranger)
		for round := range 2 {
			since := w.owner().Published()
			w.wantMoved("delivered", w.move(key, "bob", im.Seq(round+1), 0, phone), fmt.Sprint(round+1, " 0"))
			want(t, "the laptop is told", []string{fmt.Sprint("bob ", round+1, " 0")}, pushed(laptop))
			check("delivered")
			want(t, "alice syncs", []string(nil), synced(since))
			want(t, "alice syncs anew", []string{"changed"}, synced(0))
		}
		since := w.owner().Published()
		w.wantMoved("read", w.move(key, "bob", 2, 1, phone), "2 1")
		check("read", "bob 2 1")
		want(t, "alice syncs", []string{"bob 2 1"}, synced(since))

		key = w.pair("alice", "carol")
		w.MustSend(w.text("alice", "carol", "1", "hi"))
		w.wantMoved("delivered to carol", w.move(key, "carol", 1, 0, nil), "1 0")
		w.MustSend(w.text("carol", "alice", "1", "who is it?"))
		pushed(stranger)
		w.wantMoved("carol has written", w.move(key, "carol", 2, 0, nil), "2 0")
		want(t, "alice is told", []string{"carol 2 0"}, pushed(stranger))

		key = w.Group("alice", "bob")
		w.upTo(key, "alice", 3)
		pushed(stranger)
		pushed(laptop)
		w.wantMoved("delivered in a group", w.move(key, "bob", 2, 0, phone), "2 0")
		want(t, "the laptop is told", []string{"bob 2 0"}, pushed(laptop))
		check("delivered in a group")
		w.wantMoved("read in a group", w.move(key, "bob", 3, 1, phone), "3 1")
		check("read in a group", "bob 3 1")
	})
}

// A store that refuses has written nothing: the movers hear it, the cursor is
// where it was, and later moves are taken.
func TestRefusedMoveLeavesTheCursorWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.upTo(key, "alice", 5)
		w.wantMoved("before", w.move(key, "bob", 2, 2, nil), "2 2")
		w.Gate.Refuse(true)
		w.wantMoved("refused", w.move(key, "bob", 4, 4, nil), "disk_full")
		w.Gate.Refuse(false)
		if d := cmp.Diff([]string{"bob 2 2"}, w.receipts(key)); d != "" {
			t.Errorf("receipts (-want +got):\n%s", d)
		}
		w.wantMoved("behind it", w.move(key, "bob", 3, 3, nil), "3 3")
		w.MustSend(convtest.Message(key, "alice", "k", 5, "goes on"))
	})
}

func TestTooManyWaitingMovesAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := convtest.OpenStore(t, vfs.NewMem())
		w := &world{Node: convtest.NewNode(t, st)}
		w.Open(conv.Options{WaitingMoves: 2})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- w.Convs.Run(ctx) }()
		key := w.Group("alice", "bob")
		w.upTo(key, "alice", 5)
		open := w.Gate.Shut()
		one, two := w.move(key, "bob", 1, 1, nil), w.move(key, "alice", 2, 2, nil)
		w.wantMoved("the third", w.move(key, "bob", 3, 3, nil), "overloaded")
		open()
		w.wantMoved("the first", one, "1 1")
		stop() // waiting moves are written at the end, and at once
		w.wantMoved("the second", two, "2 2")
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A conversation whose cursors rest leaves memory like any other, and comes
// back with them.
func TestIdleConversationWithCursorsLeavesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.upTo(key, "alice", 5)
		w.wantMoved("at once", w.move(key, "bob", 2, 2, nil), "2 2")
		w.wantMoved("a second later", w.move(key, "bob", 3, 3, nil), "3 3")
		w.forget()
		w.wantMoved("back", w.move(key, "bob", 1, 1, nil), "3 3")
	})
}

// More cursors than one commit takes, and than stay in memory.
func TestMovesOfThousandsOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var users []im.User
		for i := range 5000 {
			users = append(users, im.User(fmt.Sprintf("u%04d", i)))
		}
		key := w.Group(users...)
		w.upTo(key, "u0000", 5)
		for q := im.Seq(2); q <= 3; q++ {
			var answers []chan moved
			for _, u := range users {
				answers = append(answers, w.move(key, u, 0, q, nil))
			}
			for i, ch := range answers {
				w.wantMoved(string(users[i]), ch, fmt.Sprint(q, q))
			}
		}
		if got := w.receipts(key); len(got) != len(users) || got[4999] != "u4999 0 3" {
			t.Errorf("%d receipts", len(got))
		}
	})
}
