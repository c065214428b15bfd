package route_test

import (
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routetest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The relations of a send go to its owner with it, at every node, and are the same there at
// the second attempt. Spec: P-4.4, P-5.10.
func TestRetriesWithRelAreTheSameMessageAtEveryOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key, source := one.Group("alice", "bob"), one.Group("alice", "bob")
		one.MustSend(convtest.Message(source, "bob", "s1", 1, "the source"))
		reply := func() *conv.Send {
			s := convtest.Message(key, "alice", "k1", 1, "an answer")
			s.Entry.Rel = &petrelv1.Relations{ReplyTo: 1, Silent: true}
			return s
		}
		forward := func(at *routetest.Node) *conv.Send {
			s := convtest.Message(key, "alice", "k2", 1, "")
			s.Entry.Body, s.Entry.Rel = nil, &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: source.Conv.String(), Seq: 2}}
			if err := at.Router.FetchSource(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		want := func(what string, r conv.Result, seq im.Seq, counted uint64) {
			t.Helper()
			if r.Err != nil || r.Seq != seq || r.Counted != counted {
				t.Errorf("%s: %+v, want seq %d and counted %d", what, r, seq, counted)
			}
		}
		want("the answer", two.Send(reply()), 2, 1)
		want("the forward", two.Send(forward(two)), 3, 2)
		one.MustSend(convtest.Kick(source, "kick", "alice")) // and she may read nothing newer there
		recall := convtest.Message(source, "", "recall", 3, "")
		recall.Entry.Body = &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: 2}}
		one.MustSend(recall)
		c.TakeOver(one, two)
		for _, at := range []*routetest.Node{one, two} {
			want("the answer again", at.Send(reply()), 2, 1)
			again := at.Send(forward(at))
			want("the forward again", again, 3, 2)
			if ack, err := again.Ack(""); err != nil || ack.Message.GetText() != "the source" || ack.Message.GetRel().GetForwarded().GetFrom() != "bob" {
				t.Errorf("ack %v, %v", ack, err)
			}
		}
		other := forward(two)
		other.Entry.ClientMsgId = "k3"
		convtest.WantCode(t, one.Send(other), im.CodeNoTarget)
	})
}

// A forward of a commit of unknown outcome is stored once, as what it was asked for.
func TestForwardOfACommitOfUnknownOutcome(t *testing.T) {
	for what, stored := range map[string]bool{"it is stored": true, "it is not": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := routetest.Start(t, "a")
				one := c.Owner()
				key := one.Group("alice", "bob")
				one.MustSend(convtest.Message(key, "bob", "k1", 1, "the source"))
				s := convtest.Message(key, "alice", "k2", 1, "")
				s.Entry.Body, s.Entry.Rel = nil, &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: key.Conv.String(), Seq: 2}}
				if err := one.Router.FetchSource(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				one.Gate.Doubt(stored)
				if r := one.Send(s); r.Err != nil || r.Seq != 3 {
					t.Fatalf("%+v, want seq 3", r)
				}
			})
		})
	}
}
