package route_test

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/conv/convtest"
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
	t.Parallel() // it mostly waits
	c, one, two := startPair(t)
	key := one.Group("alice", "bob", "carol")
	carol, bob := one.Online("carol", convtest.Signals), one.Online("bob", convtest.Signals)
	c.takeOver(one, two)
	two.MustSend(convtest.Kick(key, "kick", "carol"))
	one.router.Signal(key, &petrelv1.Signal{From: "alice", Kind: "call"}, 0)
	for end := time.Now().Add(convtest.Deadline); time.Now().Before(end); pause() {
		// It reaches bob if the former owner has heard of the new one by now.
		over := one.Convs.SignalsDropped() > 0 || len(signalsOf(bob)) > 0
		if over {
			pause() // who tells both does not do so in the same moment
		}
		if got := signalsOf(carol); len(got) > 0 {
			t.Fatalf("carol, who was removed, was told %v", got)
		}
		if over {
			return
		}
	}
	t.Error("the signal was neither dropped nor delivered")
}

// A signal has the time at which the node of its sender has read it, wherever the owner is
// and however long it stands still.
func TestASignalKeepsItsTimeOnTheWayToTheOwner(t *testing.T) {
	t.Parallel() // it mostly waits
	c, one, two := startPair(t)
	key := one.Group("alice", "bob")
	bob := two.Online("bob", convtest.Signals)
	waitOnline(t, c)
	times := map[string]uint64{"by the owner": 7, "by another node": 8}
	one.router.Signal(key, &petrelv1.Signal{From: "alice", Kind: "by the owner", TimeMs: 7}, 0)
	two.router.Signal(key, &petrelv1.Signal{From: "alice", Kind: "by another node", TimeMs: 8}, 0)
	for end := time.Now().Add(convtest.Deadline); time.Now().Before(end) && len(times) > 0; pause() {
		for _, s := range signalsOf(bob) {
			if s.TimeMs != times[s.Kind] {
				t.Errorf("bob was told %v, want the time %d", s, times[s.Kind])
			}
			delete(times, s.Kind)
		}
	}
	if len(times) > 0 {
		t.Errorf("bob was not told what was signalled %v", times)
	}
}
