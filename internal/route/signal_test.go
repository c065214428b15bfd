package route_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/route/routetest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// signalsOf are the signals that a screen was told since the last look.
func signalsOf(s *convtest.Screen) (list []*petrelv1.Signal) {
	for _, f := range s.Frames() {
		list = append(list, f.GetEvents().GetSignals()...)
	}
	return list
}

// F19: an owner that does not know that it is one no more tells no signal to those whom it
// remembers as members: carol was removed by the new owner.
func TestF19AFormerOwnerTellsNobodyASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob", "carol")
		carol, bob := one.Online("carol", convtest.Signals), one.Online("bob", convtest.Signals)
		c.TakeOver(one, two)
		two.MustSend(convtest.Kick(key, "kick", "carol"))
		one.Router.Signal(key, &petrelv1.Signal{From: "alice", Kind: "call"}, 0)
		synctest.Wait()
		if n := one.Convs.SignalsDropped(); n != 1 {
			t.Errorf("the former owner dropped %d signals, want 1", n)
		}
		time.Sleep(time.Minute)
		for name, screen := range map[string]*convtest.Screen{"bob": bob, "carol, who was removed,": carol} {
			if got := signalsOf(screen); len(got) > 0 {
				t.Errorf("%s was told %v", name, got)
			}
		}
	})
}

// A signal has the time at which the node of its sender has read it, wherever the owner is
// and however long it stands still.
func TestASignalKeepsItsTimeOnTheWayToTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		bob := two.Online("bob", convtest.Signals)
		c.WaitOnline()
		times := map[string]uint64{"by the owner": 7, "by another node": 8}
		one.Router.Signal(key, &petrelv1.Signal{From: "alice", Kind: "by the owner", TimeMs: 7}, 0)
		two.Router.Signal(key, &petrelv1.Signal{From: "alice", Kind: "by another node", TimeMs: 8}, 0)
		time.Sleep(time.Second)
		got := map[string]uint64{}
		for _, s := range signalsOf(bob) {
			got[s.Kind] = s.TimeMs
		}
		if !maps.Equal(got, times) {
			t.Errorf("bob was told signals with the times %v, want %v", got, times)
		}
	})
}
