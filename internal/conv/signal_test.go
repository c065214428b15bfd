package conv_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// want checks what has come since the last call, of what happened at once.
func (s *hears) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := s.look(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.got = nil
}

// signal signals, as a session that reads the frame does.
func (w *world) signal(key im.Key, from im.User, kind string) {
	w.T.Helper()
	if !w.owner().Signal(&conv.Signal{Key: key, Signal: &petrelv1.Signal{Conv: key.Conv.String(), From: string(from), Kind: kind}}) {
		w.T.Fatal("the feed is not here")
	}
}

// forget lets so much time pass that no conversation is in memory.
func (w *world) forget() {
	w.T.Helper()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	if n := w.Convs.Loaded(); n != 0 {
		w.T.Errorf("%d conversations stay in memory", n)
	}
}

// TestSignalsAreForMembersOnly: those of outsiders and of who was removed reach nobody,
// and an outsider has nothing loaded. Signals of a member reach the members there are now.
func TestSignalsAreForMembersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		w.MustSend(convtest.Kick(key, "kick", "carol"))
		bob, carol, eve := w.hears("bob"), w.hears("carol"), w.hears("eve")
		direct := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
		for range 2 { // in memory, and not in memory
			w.signal(direct, "alice", "pos")            // nobody has written there
			w.signal(convtest.NewGroup(), "eve", "pos") // no such group
			w.signal(key, "eve", "pos")
			w.signal(key, "carol", "pos")
			w.signal(key, "alice", "pos")
			bob.want(t, "alice pos 2")
			carol.want(t)
			eve.want(t)
			w.forget()
		}
		for range 2 {
			w.signal(key, "eve", "pos")
		}
		synctest.Wait()
		if n := w.Convs.Loaded(); n != 0 {
			t.Errorf("eve's signals have loaded %d conversations", n)
		}
	})
}

// TestTypingIsNeverAfterItsOwnMessage: a signal of a session that comes before its send has
// a head below the seq of the send, wherever the conversation is and however long the
// signal waits. So the receiver drops it if it comes after the message.
func TestTypingIsNeverAfterItsOwnMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var groups []im.Key
		for range 10 {
			groups = append(groups, w.Group("alice", "bob"))
		}
		bob := w.hears("bob")
		w.forget() // the signal waits until the conversation is loaded, and so does the send
		for i, key := range append(groups, groups...) {
			kind := fmt.Sprint("k", i)
			w.signal(key, "alice", kind)
			q := w.MustSend(convtest.Message(key, "alice", fmt.Sprint("m", i), 0, "hi"))
			synctest.Wait()
			got := slices.DeleteFunc(bob.look(), func(l string) bool { return l == fmt.Sprintf("%d:hi", q) })
			if want := []string{fmt.Sprintf("alice %s %d", kind, q-1)}; !slices.Equal(got, want) {
				t.Errorf("what alice signalled before her message %d came as %q, want %q", q, got, want)
			}
			bob.got = nil
		}
		// The other order: the head may lack a message that was sent before, never the reverse.
		open := w.Gate.Shut()
		done := w.Submit(convtest.Message(groups[0], "alice", "last", 0, "hi"))
		w.signal(groups[0], "alice", "while it is stored")
		bob.want(t, "alice while it is stored 3")
		open()
		w.Await(done[0])
	})
}

// TestAGroupTakesThreeTypingsInASecond, and twenty other signals.
func TestAGroupTakesThreeTypingsInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var users []im.User
		for i := range 30 {
			users = append(users, im.User(fmt.Sprint("u", i)))
		}
		key := w.Group(append(users, "bob")...)
		bob := w.hears("bob")
		for second := range 2 {
			for _, u := range users {
				w.signal(key, u, conv.Typing)
				w.signal(key, u, "pos")
			}
			synctest.Wait()
			var typing, others int
			for _, l := range bob.look() {
				if strings.Contains(l, " typing ") {
					typing++
				} else {
					others++
				}
			}
			if typing != 3 || others != 20 {
				t.Errorf("in second %d bob got %d of 30 typings and %d of 30 others, want 3 and 20", second, typing, others)
			}
			if n := w.Convs.SignalsDropped(); n != uint64(37*(second+1)) {
				t.Errorf("%d signals were counted as dropped by second %d, want 37 in each", n, second)
			}
			bob.got = nil
			time.Sleep(time.Second)
		}
	})
}

// TestSignalsWaitWithinBounds: there is one of a matter, and no more than fit.
func TestSignalsWaitWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestASignalOfAnOutsiderRefusesNoMessage: while somebody looks whether the sender of a
// signal is an outsider, the same user writes the first message of the conversation.
func TestASignalOfAnOutsiderRefusesNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
	})
}

// TestASignalOfAnOutsiderCostsOneLook, and has nothing loaded.
func TestASignalOfAnOutsiderCostsOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		exists := w.Group("alice", "bob")
		w.forget()
		for what, key := range map[string]im.Key{"a group": exists, "none": convtest.NewGroup()} {
			before := w.Gate.Reads()
			w.signal(key, "eve", "pos")
			synctest.Wait()
			if n := w.Convs.Loaded(); n != 0 {
				t.Errorf("a signal of an outsider to %s has loaded %d conversations", what, n)
			}
			if n := w.Gate.Reads() - before; n != 1 {
				t.Errorf("a signal of an outsider to %s cost %d reads of the store, want 1", what, n)
			}
		}
	})
}
