package conv_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// sweepEvery is the time between two looks of the committer for conversations that may leave
// memory.
const sweepEvery = time.Second

// newNarrowWorld is a node with room for about 80 direct conversations.
func newNarrowWorld(t *testing.T) *world {
	w := &world{fs: vfs.NewMem(), bytes: 100_000}
	w.start(t)
	t.Cleanup(func() { w.stop() })
	return w
}

// direct is the n-th message to the i-th partner of alice.
func (w *world) direct(i, n int) *conv.Send {
	peer := im.User(fmt.Sprintf("peer-%d", i))
	s := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", peer)}, "alice", fmt.Sprintf("k%d", n), n-1, "hi")
	s.Peer = peer
	return s
}

// withinBudget checks that the conversations in memory fit into the budget after the next
// sweep.
func (w *world) withinBudget() {
	w.T.Helper()
	time.Sleep(sweepEvery)
	synctest.Wait()
	if n, budget := w.Convs.MemoryBytes(); n > budget {
		w.T.Errorf("the conversations in memory take %d bytes of %d", n, budget)
	}
}

func TestConversationsInMemoryKeepToTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNarrowWorld(t)
		const convs = 1000
		for n := 1; n <= 2; n++ {
			for i := range convs {
				if q := w.MustSend(w.direct(i, n)); q != im.Seq(n) {
					t.Fatalf("message %d to partner %d has seq %d", n, i, q)
				}
			}
			w.withinBudget()
			if got := w.Convs.Loaded(); got == 0 || got > convs/5 {
				t.Errorf("%d of %d conversations are in memory", got, convs)
			}
		}
		if w.Convs.Evicted() < convs {
			t.Errorf("%d conversations left memory to make room", w.Convs.Evicted())
		}
		for _, i := range []int{0, convs / 2, convs - 1} {
			if r := w.Send(w.direct(i, 1)); r.Err != nil || !r.Repeat || r.Seq != 1 {
				t.Errorf("a repeat to partner %d, which has left memory: %+v", i, r)
			}
		}
	})
}

// A conversation is not in use after any of its uses.
func TestConversationLeavesMemoryAfterEachUse(t *testing.T) {
	for what, use := range map[string]func(w *world, key im.Key, peer im.User){
		"a reaction": func(w *world, key im.Key, _ im.User) { w.react(key, "alice", 1, "👍") },
		"a pin":      func(w *world, key im.Key, _ im.User) { w.pin(key, "alice", 1, false) },
		"a cursor": func(w *world, key im.Key, peer im.User) {
			eventually.Receive(w.T, "a moved cursor", w.move(key, peer, 1, 1, nil))
		},
		"a read": func(w *world, key im.Key, peer im.User) { w.history(key, peer) },
		"all of them": func(w *world, key im.Key, peer im.User) {
			w.react(key, "alice", 1, "👍")
			eventually.Receive(w.T, "a moved cursor", w.move(key, peer, 1, 1, nil))
			w.pin(key, peer, 1, false)
			w.react(key, peer, 1, "👍")
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newNarrowWorld(t)
				for i := range 20 {
					s := w.direct(i, 1)
					w.MustSend(s)
					use(w, s.Conv, s.Peer)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if n := w.Convs.Loaded(); n != 0 {
					t.Errorf("%d conversations are in memory after five minutes", n)
				}
			})
		})
	}
}

func TestALongTailIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNarrowWorld(t)
		key := w.Group("alice")
		before, _ := w.Convs.MemoryBytes()
		for n := range 1000 {
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint(n), n, "hi"))
		}
		if after, _ := w.Convs.MemoryBytes(); after-before < 8*1000 {
			t.Errorf("1000 hashes are counted as %d bytes", after-before)
		}
	})
}

// Those in use stay. When there is no room beside them, nothing else is loaded.
func TestConversationsInUseStayInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNarrowWorld(t)
		w.MustSend(w.direct(100_000, 1))
		w.restart() // it is not in memory now
		open := w.Gate.Shut()
		defer open()
		var under []chan conv.Result // way
		var refused conv.Result
		for refused.Err == nil {
			ch := w.Submit(w.direct(len(under), 1))[0]
			synctest.Wait()
			select {
			case refused = <-ch:
			default:
				under = append(under, ch)
			}
			if len(under) > 1000 {
				t.Fatalf("%d conversations are in use, and none was refused", len(under))
			}
		}
		convtest.WantCode(t, refused, im.CodeOverloaded)
		if n, budget := w.Convs.MemoryBytes(); n <= 2*budget {
			t.Errorf("refused at %d bytes of %d", n, budget)
		}
		if _, err := w.look(w.direct(100_000, 1).Conv, "alice"); im.CodeOf(err) != im.CodeOverloaded {
			t.Errorf("reading another conversation: %v", err)
		}
		if w.Convs.Evicted() > 0 {
			t.Errorf("%d conversations in use were evicted", w.Convs.Evicted())
		}
		open()
		for i, ch := range under {
			if r := w.Await(ch); r.Err != nil || r.Seq != 1 {
				t.Errorf("message to partner %d: %+v", i, r)
			}
		}
		w.withinBudget()
		w.MustSend(w.direct(len(under), 1))
	})
}

// A conversation in memory must not keep the frame of its first message: the frame has
// the message in it.
func TestConversationKeepsNothingOfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		// view copies texts into one buffer, as they stand in a frame.
		view := func(texts ...*string) weak.Pointer[[40 << 10]byte] {
			buf, n := new([40 << 10]byte), 0
			for _, s := range texts {
				to := n + copy(buf[n:], *s)
				*s = unsafe.String(&buf[n], to-n)
				n = to
			}
			return weak.Make(buf)
		}
		var frames []weak.Pointer[[40 << 10]byte]
		first := func() {
			s := w.direct(1, 1)
			peer, from := string(s.Peer), s.Entry.From
			frames = append(frames, view(&peer, &from, &s.Entry.ClientMsgId))
			s.Peer, s.Entry.From = im.User(peer), from
			w.MustSend(s)
		}
		group := func() {
			user, title := "carol", "a title"
			frames = append(frames, view(&user, &title))
			key := w.Group("alice")
			w.MustSend(convtest.Entry(key, "add", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: user}}}))
			s := convtest.Entry(key, "title", nil)
			s.Entry.Body = &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: title}}
			w.MustSend(s)
		}
		first()
		group()
		for i, f := range frames {
			for n := 0; f.Value() != nil; n++ {
				if n == 500 { // a few collections are enough, when nothing holds it
					t.Fatalf("frame %d is still in memory", i)
				}
				runtime.GC()
			}
		}
		if w.Convs.Loaded() != 2 {
			t.Errorf("%d conversations are in memory, want 2: what does this prove?", w.Convs.Loaded())
		}
	})
}

func TestNoConversationBeginsWhileTheInboxesAreFarBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(w.direct(1, 1))
		w.owner().SetInboxBacklog(uint64(time.Now().UnixMilli()))
		const limit = 30 * time.Second
		time.Sleep(limit)
		w.MustSend(w.direct(2, 1)) // they are behind, but not far
		time.Sleep(time.Millisecond)
		if lag, most := w.Convs.InboxLag(); lag != limit+time.Millisecond || most != limit {
			t.Errorf("behind by %v, with a limit of %v; want %v, and %v", lag, most, limit+time.Millisecond, limit)
		}
		convtest.WantCode(t, w.Send(w.direct(3, 1)), im.CodeOverloaded)
		convtest.WantCode(t, w.Send(convtest.Add(key, "add", "carol")), im.CodeOverloaded)
		s := convtest.Entry(convtest.NewGroup(), "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "alice"}}})
		s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		convtest.WantCode(t, w.Send(s), im.CodeOverloaded)

		w.MustSend(w.direct(1, 2)) // a conversation that is there goes on
		w.MustSend(convtest.Message(key, "alice", "k", 1, "hi"))
		if r := w.Send(w.direct(2, 1)); r.Err != nil || !r.Repeat {
			t.Errorf("a repeat of a first message: %+v", r)
		}
		inbox := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Inbox(im.DefaultTenant, "alice")}, Peer: "alice", Keyed: true}
		inbox.Entry.ClientMsgId, inbox.Entry.Body = "k", &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{}}
		w.MustSend(inbox) // or they would never catch up

		w.owner().SetInboxBacklog(0)
		w.MustSend(w.direct(3, 1))
		w.MustSend(convtest.Add(key, "add", "carol"))
	})
}
