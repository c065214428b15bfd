package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// mute mutes alice at a node for a time; 0 ends that.
func (s *site) mute(d time.Duration) {
	s.f.t.Helper()
	until := uint64(0)
	if d > 0 {
		until = uint64(time.Now().Add(d).UnixMilli())
	}
	_, err := s.users.Mute(context.Background(), account("alice"), until)
	s.f.must(err)
}

// wantMuted checks whether the sessions of alice are refused as muted, and that those of bob are not.
func (p *people) wantMuted(what string, want bool) {
	for i, conns := range [][]*conn{p.phone, p.laptop, p.unbound, p.bob} {
		for _, c := range conns {
			c.t.Helper()
			got := c.answered(signalFrame(9, &petrelv1.SendSignal{User: "carol", Kind: "typing"})) == string(im.CodeMuted)
			if got != (want && i < 3) {
				c.t.Errorf("%s: the session of %s at %s is muted: %t", what, c.user, c.at.id, got)
			}
		}
	}
}

// Within two seconds the sessions of a muted user are refused on all nodes, also those that begin then, until the time
// is over or an operator ends the mute. Spec: P-14.24.
func TestAMuteReachesTheSessionsOfAllNodes(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all)
		p.wantMuted("before", false)
		all[2].mute(time.Hour)
		pass(2 * time.Second)
		p.wantMuted("muted", true)
		p.phone = append(p.phone, all[1].welcomed("alice", all[1].logIn("alice", phoneRef(2)).Access))
		p.phone = p.phone[len(p.phone)-1:] // the others are replaced
		p.wantMuted("after another login", true)
		all[0].mute(0)
		pass(2 * time.Second)
		p.wantMuted("ended", false)
		all[0].mute(time.Minute)
		pass(2 * time.Second)
		p.wantMuted("again", true)
		pass(time.Minute)
		p.wantMuted("over", false)
	})
}

// The announcement is lost, and silence follows: a node asks the store about all sessions.
func TestALostMuteIsRepaired(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p := f.people(all)
		lost := 0
		all[0].bus.SetRules(lossOf(func(to im.Node, sub bus.Subject) bool {
			if sub == stream.Subject && to == "b" && lost < 3 {
				lost++
				return true
			}
			return false
		}))
		all[0].mute(time.Hour)
		pass(promised)
		if lost != 3 {
			t.Errorf("lost %d packets, want 3", lost)
		}
		p.wantMuted("muted", true)
	})
}

// A node stands still between a change and its announcement, and another node changes the standing meanwhile. The late
// announcement does not stay: the store says what holds. Spec: P-14.14, P-14.24.
func TestALateAnnouncementDoesNotStay(t *testing.T) {
	fleetOf(t, 3, func(f *fleet, all []*site) {
		p, ctx := f.people(all), context.Background()
		slow, err := all[0].users.Mute(ctx, account("alice"), uint64(time.Now().Add(time.Hour).UnixMilli()))
		f.must(err)
		newer, err := all[1].users.Mute(ctx, account("alice"), 0)
		f.must(err)
		f.must(all[1].hub.Announce(ctx, account("alice"), newer.Standing))
		pass(2 * time.Second)
		p.wantMuted("ended", false)
		f.must(all[0].hub.Announce(ctx, account("alice"), slow.Standing))
		pass(2 * time.Second)
		p.wantMuted("announced late", false)
	})
}
