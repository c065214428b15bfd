package conv_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// An outsider is told the same of a conversation that exists as of one that does not,
// whatever number the send names: also nothing of the head.
func TestAnOutsidersSendTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		exists := w.Group("alice", "bob")
		w.upTo(exists, "alice", 5)
		for _, warm := range []bool{true, false} {
			if !warm {
				w.restart()
			}
			for after := -1; after < 8; after++ {
				for what, key := range map[string]im.Key{"a group": exists, "none": convtest.NewGroup()} {
					r := w.Send(convtest.Message(key, "eve", "k", after, "x"))
					if r.Err == nil || r.Err.Code != im.CodeNoConversation || r.Err.Head != 0 {
						t.Errorf("send to %s after %d, in memory %v: %+v", what, after, warm, r)
					}
				}
			}
		}
		synctest.Wait()
		if bytes, _ := w.Convs.MemoryBytes(); w.Convs.Loaded() != 0 || bytes != 0 {
			t.Errorf("outsiders have loaded %d conversations, and %d bytes are counted", w.Convs.Loaded(), bytes)
		}
	})
}

// Each request and each send of an outsider costs one look-up of their record, whether the
// conversation is in memory, is not, or does not exist.
func TestAnOutsiderCostsOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		exists := w.Group("alice", "bob")
		read := func(key im.Key) {
			_, err := w.Convs.Owner(0).History(t.Context(), conv.Query{Conv: key, User: "eve"}, &convpb.GetHistory{})
			if im.CodeOf(err) != im.CodeNoConversation {
				t.Errorf("history: %v", err)
			}
		}
		send := func(key im.Key) {
			convtest.WantCode(t, w.Send(convtest.Message(key, "eve", "k", 0, "x")), im.CodeNoConversation)
		}
		for _, warm := range []bool{true, false} {
			if !warm {
				w.restart()
			}
			for what, key := range map[string]im.Key{"a group": exists, "none": convtest.NewGroup()} {
				for how, try := range map[string]func(im.Key){"history": read, "send": send} {
					before := w.Gate.Reads()
					try(key)
					if n := w.Gate.Reads() - before; n != 1 {
						t.Errorf("%s of %s, in memory %v: %d reads of the store, want 1", how, what, warm, n)
					}
				}
			}
		}
	})
}

// While an outsider's send is examined, nothing is made for a conversation that does not
// exist: to make it takes time, and an answer that comes later tells that there is none.
func TestNothingIsMadeForAnOutsider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Group("alice")
		looked := make(chan int, 1)
		w.Gate.OnMember(func(im.User) { looked <- w.Convs.Loaded() })
		convtest.WantCode(t, w.Send(convtest.Message(convtest.NewGroup(), "eve", "k", 0, "x")), im.CodeNoConversation)
		if n := <-looked; n != 1 {
			t.Errorf("%d conversations are in memory while the send is examined, want 1", n)
		}
	})
}

// Sends of one user to one conversation keep their order, also if the user is added
// while they are examined.
func TestExaminedSendsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		looks, goOn := make(chan struct{}), make(chan struct{})
		w.Gate.OnMember(func(u im.User) {
			if u == "bob" {
				looks <- struct{}{}
				<-goOn
			}
		})
		first := w.Submit(convtest.Message(key, "bob", "k1", 1, "one"))
		<-looks
		w.Gate.OnMember(nil)
		w.MustSend(convtest.Add(key, "add", "bob"))
		second := w.Submit(convtest.Message(key, "bob", "k2", 1, "two"))
		close(goOn) // the look finds bob
		one, two := w.Await(first[0]), w.Await(second[0])
		if one.Err != nil || two.Err != nil || one.Seq != 3 || two.Seq != 4 {
			t.Errorf("got %+v and %+v, want seqs 3 and 4", one, two)
		}
	})
}

// holdLooks keeps all loaders busy with looks for outsiders until release is called.
func holdLooks(w *world) (release func()) {
	const loaders = 4
	looks, goOn := make(chan struct{}), make(chan struct{})
	w.Gate.OnMember(func(im.User) {
		looks <- struct{}{}
		<-goOn
	})
	for range loaders {
		w.Submit(convtest.Message(convtest.NewGroup(), "mallory", "k", 0, ""))
		<-looks
	}
	w.Gate.OnMember(nil)
	return func() { close(goOn) }
}

// A send to a user does not pass an earlier one to their conversation, which is examined.
func TestASendToAUserPassesNoExaminedOne(t *testing.T) {
	w := newWorld(t)
	key := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
	toBob := func(k string) *conv.Send {
		s := convtest.Message(key, "alice", k, 0, k)
		s.Peer = "bob"
		return s
	}
	w.MustSend(toBob("begin"))
	w.restart() // nothing is in memory
	release := holdLooks(w)
	first := w.Submit(convtest.Message(key, "alice", "one", 0, "one"))
	second := w.Submit(toBob("two"))
	release()
	one, two := w.Await(first[0]), w.Await(second[0])
	if one.Err != nil || two.Err != nil || one.Seq != 2 || two.Seq != 3 {
		t.Errorf("got %+v and %+v, want seqs 2 and 3", one, two)
	}
}

// Of the examined sends of an outsider, those that begin a conversation are not refused.
func TestAnOutsiderWhoIsExaminedMayBeginAConversation(t *testing.T) {
	w := newWorld(t)
	key := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
	release := holdLooks(w)
	first := w.Submit(convtest.Message(key, "alice", "k1", 0, "to the conversation"))
	s := convtest.Message(key, "alice", "k2", 0, "to bob")
	s.Peer = "bob"
	second := w.Submit(s)
	release()
	convtest.WantCode(t, w.Await(first[0]), im.CodeNoConversation)
	if r := w.Await(second[0]); r.Err != nil || r.Seq != 1 {
		t.Errorf("the send that begins the conversation: %+v, want seq 1", r)
	}
}

// A look that fails decides nothing.
func TestALookThatFailsDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		w.Gate.BreakMembers(errors.New("broken"))
		for what, key := range map[string]im.Key{"a group": key, "none": convtest.NewGroup()} {
			if r := w.Send(convtest.Message(key, "bob", "k1", 1, "one")); r.Err == nil || r.Err.Code.Info().Settled {
				t.Errorf("send to %s: %+v", what, r)
			}
		}
		w.Gate.BreakMembers(nil)
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "two"))
	})
}

// A send that makes a conversation is nobody's secret: it needs no look.
func TestMakingAConversationNeedsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Gate.BreakMembers(errors.New("broken"))
		s := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}, "alice", "k", 0, "hi")
		s.Peer = "bob"
		w.MustSend(s)
		g := convtest.Entry(convtest.NewGroup(), "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "alice", Role: petrelv1.Role_ROLE_OWNER}}})
		g.Entry.From, g.Create = "alice", &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		w.MustSend(g)
	})
}
