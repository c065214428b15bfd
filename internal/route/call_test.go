package route_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routetest"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// F2: a session is announced, and reads a head behind that. Every entry that is committed
// before the announcement arrives, and so is not pushed, is up to the head.
func TestF2AHeadIsReadBehindTheAnnouncementOfItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		two.Bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool { return s == stream.Subject }})
		two.Online("bob")
		heads := make(chan uint64, 1)
		go func() { // ends with the answer
			st, err := two.State(t.Context(), key, "bob")
			if err != nil {
				t.Error(err)
			}
			heads <- st.Head
		}()
		time.Sleep(time.Second) // a call that waits for no announcement is answered by then
		one.MustSend(convtest.Message(key, "alice", "k1", 1, "not pushed"))
		two.Bus.SetRules(bustest.Rules{})
		if q := <-heads; q != 2 {
			t.Errorf("head %d is read, and entry 2 was committed when the owner knew of no session", q)
		}
	})
}

// One node counts the look-ups of a user, whichever node is asked. Spec: P-14.4.
func TestOneNodeCountsLookUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		for _, n := range []*routetest.Node{one, two} {
			got, wait, err := n.Router.TakeLookUps(t.Context(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, []im.User{"bob", "carol"})
			if err != nil || !slices.Equal(got, []int{1}) || wait != time.Second {
				t.Errorf("node %s: %v, %s, %v; want what the counter says: [1], 1s", n.ID, got, wait, err)
			}
		}
		if one.LookUps != 4 || two.LookUps != 0 {
			t.Errorf("the owner has counted %d look-ups, the other node %d; want 4 and 0", one.LookUps, two.LookUps)
		}
	})
}

// F19: an owner that does not know that it is one no more answers no read from
// its memory.
func TestF19AFormerOwnerReadsNothingFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		c.TakeOver(one, two)
		if r := two.Send(convtest.Message(key, "alice", "k1", 1, "new")); r.Err != nil || r.Seq != 2 {
			t.Fatalf("send to the new owner: %+v", r)
		}
		st, err := one.State(t.Context(), key, "bob")
		if err != nil || st.Head != 2 {
			t.Errorf("the former owner says head %d, %v; 2 was acked before the question", st.Head, err)
		}
		if r := one.Send(convtest.Message(key, "alice", "k2", 2, "by the former owner")); r.Err != nil || r.Seq != 3 {
			t.Errorf("send to the former owner: %+v, want seq 3 by whoever has the feed", r)
		}
	})
}

// F19: nor does it answer another node so.
func TestF19AFormerOwnerTellsOtherNodesNothingFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		gateway := c.Join("c", cluster.Gateway)
		key := one.Group("alice", "bob")
		c.TakeOver(one, two)
		if r := two.Send(convtest.Message(key, "alice", "k1", 1, "new")); r.Err != nil || r.Seq != 2 {
			t.Fatalf("send to the new owner: %+v", r)
		}
		st, err := gateway.State(t.Context(), key, "bob")
		if err != nil || st.Head != 2 {
			t.Errorf("the former owner tells another node head %d, %v; 2 was acked before the question", st.Head, err)
		}
	})
}

// F12 with F19: that nothing is new since a token is said by an owner only.
func TestF19AFormerOwnerTellsNoNewsFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		bob := im.Account{Tenant: im.DefaultTenant, User: "bob"}
		ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_GROUP}
		news, places, err := one.Router.Changes(t.Context(), bob, []*convpb.Ask{ask}, conv.Newest{})
		if err != nil || news[0].GetHead() != 1 {
			t.Fatalf("before: %v, %v", news, err)
		}
		c.TakeOver(one, two)
		if r := two.Send(convtest.Message(key, "alice", "k1", 1, "new")); r.Err != nil || r.Seq != 2 {
			t.Fatalf("send to the new owner: %+v", r)
		}
		ask.Since = uint64(places[0])
		news, after, err := one.Router.Changes(t.Context(), bob, []*convpb.Ask{ask}, conv.Newest{})
		if err != nil || news[0].GetHead() != 2 || after[0] <= places[0] {
			t.Errorf("the former owner says %v at %v, was at %v, %v; 2 was acked before the question", news, after, places, err)
		}
	})
}

// F19: a refusal is as good as the memory it comes from.
func TestF19AFormerOwnerRefusesNothingFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice")
		c.TakeOver(one, two)
		two.MustSend(convtest.Add(key, "add", "bob"))
		if r := two.Send(convtest.Message(key, "bob", "k1", 1, "stored")); r.Err != nil || r.Seq != 3 {
			t.Fatalf("send to the new owner: %+v", r)
		}
		if r := one.Send(convtest.Message(key, "bob", "k1", 1, "stored")); r.Err != nil || !r.Repeat {
			t.Errorf("sent again to the former owner, who knows no bob: %+v, want a repeat", r)
		}
	})
}

// Every owner is asked, on whichever node it is, and one that does not answer rules
// nothing out.
func TestCandidatesComeFromTheOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		bob := im.Account{Tenant: im.DefaultTenant, User: "bob"}
		quiet, busy := one.Group("alice", "bob"), one.Group("alice", "bob")
		convs := []im.ConvID{quiet.Conv, busy.Conv}
		_, places, err := one.Router.Candidates(t.Context(), bob, convs, func(store.Feed) im.Pos { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		before := places[0]
		since := func(store.Feed) im.Pos { return before }
		check := func(n *routetest.Node, want ...int) {
			t.Helper()
			left, places, err := n.Router.Candidates(t.Context(), bob, convs, since)
			if err != nil || !slices.Equal(left, want) || places[0] < before {
				t.Errorf("%v may have changed, at %v, %v; want %v", left, places, err, want)
			}
		}
		check(one)
		check(two)
		one.MustSend(convtest.Message(busy, "alice", "k1", 1, "news"))
		check(one, 1)
		check(two, 1)
		if _, err := two.Convs.Open(t.Context(), 0); err != nil { // the former owner is not told, and so asks no other
			t.Fatal(err)
		}
		left, places, err := one.Router.Candidates(t.Context(), bob, convs, since)
		if err != nil || !slices.Equal(left, []int{0, 1}) || len(places) != 0 {
			t.Errorf("the former owner says %v at %v, %v; it knows nothing", left, places, err)
		}
		check(two, 0, 1) // it has the feed, and nothing of what was before
	})
}
