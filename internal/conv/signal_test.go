package conv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// hears is a connection of u that understands signals, and what it has got of them.
type hears struct {
	*convtest.Screen
	got []string
}

func (w *world) hears(u im.User) *hears {
	return &hears{Screen: w.Online(u, convtest.Signals)}
}

// look takes what waits: signals as "from kind head", and entries as "seq:body".
func (s *hears) look() []string {
	for _, f := range s.Frames() {
		for _, m := range f.GetEvents().GetMessages() {
			s.got = append(s.got, fmt.Sprintf("%d:%s", m.Seq, m.GetText()))
		}
		for _, x := range f.GetEvents().GetSignals() {
			s.got = append(s.got, fmt.Sprintf("%s %s %d", x.From, x.Kind, x.Head))
		}
	}
	return s.got
}

func (s *hears) await(t *testing.T, want string) {
	t.Helper()
	await(t, want, func() bool { return slices.Contains(s.look(), want) })
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(convtest.Deadline); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// signal signals, as a session that reads the frame does.
func (w *world) signal(key im.Key, from im.User, kind string) {
	w.T.Helper()
	if !w.owner().Signal(&conv.Signal{Key: key, Signal: &petrelv1.Signal{Conv: key.Conv.String(), From: string(from), Kind: kind}}) {
		w.T.Fatal("the feed is not here")
	}
}

// forget waits until no conversation is in memory.
func (w *world) forget(t *testing.T) {
	w.later.Add(int64(2 * time.Minute))
	await(t, "an empty memory", func() bool { return w.Convs.Loaded() == 0 })
}

// TestSignalsAreForMembersOnly: those of outsiders and of who was removed reach nobody,
// and an outsider has nothing loaded. Signals of a member reach the members there are now.
func TestSignalsAreForMembersOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.Group("alice", "bob", "carol")
	w.MustSend(convtest.Kick(key, "kick", "carol"))
	bob, carol, eve := w.hears("bob"), w.hears("carol"), w.hears("eve")
	direct := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
	for range 2 { // in memory, and not in memory
		bob.got = nil
		w.signal(direct, "alice", "pos")            // nobody has written there
		w.signal(convtest.NewGroup(), "eve", "pos") // no such group
		w.signal(key, "eve", "pos")
		w.signal(key, "carol", "pos")
		w.signal(key, "alice", "pos")
		bob.await(t, "alice pos 2")
		if got := append(bob.look(), append(carol.look(), eve.look()...)...); len(got) != 1 {
			t.Errorf("bob, carol and eve got %q, want the signal of alice to bob alone", got)
		}
		w.forget(t)
	}
	for range 2 {
		w.signal(key, "eve", "pos")
	}
	await(t, "eve's signals to be looked at", func() bool { return w.Convs.Loaded() == 0 })
}

// TestTypingIsNeverAfterItsOwnMessage: what a session signals before it sends has a head
// below the seq of what it sends, wherever the conversation is and however long the
// signal waits. So the receiver drops it if it comes after the message.
func TestTypingIsNeverAfterItsOwnMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var groups []im.Key
	for range 10 {
		groups = append(groups, w.Group("alice", "bob"))
	}
	bob := w.hears("bob")
	w.forget(t) // the signal waits until the conversation is loaded, and so does the send
	for i, key := range append(groups, groups...) {
		bob.got = nil
		kind := fmt.Sprint("k", i)
		w.signal(key, "alice", kind)
		q := w.MustSend(convtest.Message(key, "alice", fmt.Sprint("m", i), 0, "hi"))
		var got string
		await(t, "the signal", func() bool {
			for _, l := range bob.look() {
				if strings.HasPrefix(l, "alice "+kind+" ") {
					got = l
				}
			}
			return got != ""
		})
		if want := fmt.Sprintf("alice %s %d", kind, q-1); got != want {
			t.Errorf("what alice signalled before her message %d came as %q, want %q", q, got, want)
		}
	}
	// The other order: the head may lack a message that was sent before, never the reverse.
	open := w.Gate.Shut()
	done := w.Submit(convtest.Message(groups[0], "alice", "last", 0, "hi"))
	w.signal(groups[0], "alice", "while it is stored")
	bob.await(t, "alice while it is stored 3")
	open()
	w.Await(done[0])
}

// TestAGroupTakesThreeTypingsInASecond, and twenty other signals.
func TestAGroupTakesThreeTypingsInASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var users []im.User
	for i := range 30 {
		users = append(users, im.User(fmt.Sprint("u", i)))
	}
	key := w.Group(append(users, "bob")...)
	bob := w.hears("bob")
	now := time.Now()
	w.later.Store(int64(time.Hour)) // far from the time of what came before
	for _, u := range users {
		w.signal(key, u, conv.Typing)
		w.signal(key, u, "pos")
	}
	count := func(kind string) (n int) {
		for _, u := range users {
			if slices.Contains(bob.look(), fmt.Sprintf("%s %s 1", u, kind)) {
				n++
			}
		}
		return n
	}
	await(t, "what the group takes", func() bool { return count(conv.Typing) >= 3 && count("pos") >= 20 })
	took := int(time.Since(now)/time.Second) + 1 // on a slow machine a second passes, and more is taken
	if typing, others := count(conv.Typing), count("pos"); typing > 3+3*took || others > 20+20*took || typing+others == 60 {
		t.Errorf("bob got %d of 30 typings and %d of 30 others", typing, others)
	}
	if w.Convs.SignalsDropped() == 0 {
		t.Error("nothing was counted as dropped")
	}
}

// TestSignalsWaitWithinBounds: there is one of a matter, and no more than fit.
func TestSignalsWaitWithinBounds(t *testing.T) {
	t.Parallel()
	st := convtest.OpenStore(t, vfs.NewMem())
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	n := convtest.NewNode(t, st)
	n.Open(conv.Options{})
	// Convs do not run: nothing is loaded, and nothing is delivered.
	key := convtest.NewGroup()
	for i := range 40 {
		n.Convs.Owner(0).Signal(&conv.Signal{Key: key, Signal: &petrelv1.Signal{From: "alice", Kind: fmt.Sprint("k", i%20)}, Sender: fanout.Asker{ID: 1}})
	}
	if got := n.Convs.SignalsDropped(); got != 8 {
		t.Errorf("of 40 signals of 20 kinds to a conversation that is not loaded %d were dropped, want 8: it keeps 16 kinds", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Convs.Run(ctx); err != nil {
		t.Error(err)
	}
}

// TestASignalOfAnOutsiderRefusesNoMessage: while somebody looks whether the sender of a
// signal is an outsider, the same user writes the first message of the conversation.
func TestASignalOfAnOutsiderRefusesNoMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
	looking, look := make(chan struct{}), make(chan struct{})
	w.Gate.OnMember(func(im.User) {
		w.Gate.OnMember(nil)
		close(looking)
		<-look
	})
	w.signal(key, "alice", "pos")
	<-looking
	first := convtest.Message(key, "alice", "k", 0, "hi")
	first.Peer = "bob"
	done := w.Submit(first)
	close(look)
	if r := w.Await(done[0]); r.Err != nil || r.Seq != 1 {
		t.Errorf("the first message got %+v, want seq 1", r)
	}
}

// TestASignalOfAnOutsiderCostsOneLook, and has nothing loaded.
func TestASignalOfAnOutsiderCostsOneLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	exists := w.Group("alice", "bob")
	w.forget(t)
	for what, key := range map[string]im.Key{"a group": exists, "none": convtest.NewGroup()} {
		before := w.Gate.Reads()
		w.signal(key, "eve", "pos")
		await(t, "the look", func() bool { return w.Convs.Loaded() == 0 && w.Gate.Reads() > before })
		if n := w.Gate.Reads() - before; n != 1 {
			t.Errorf("a signal of an outsider to %s cost %d reads of the store, want 1", what, n)
		}
	}
}
