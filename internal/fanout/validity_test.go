package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
)

// watched runs f in a bubble with a session that is known to be valid at its
// start.
func watched(t *testing.T, f func(fan *Fan, trust *Trust, s *screen)) {
	synctest.Test(t, func(t *testing.T) {
		fan, trust := New(NewTable()), NewTrust()
		s := connect(t, "bob", 1<<20)
		s.out.Hints, s.out.Receipts = true, true
		s.out.Watch(trust, trust.Now())
		fan.Table.Enter(s.out.Account, s.out, -1)
		f(fan, trust, s)
	})
}

func (s *screen) want(what string, lines ...string) {
	s.t.Helper()
	if d := cmp.Diff(lines, s.got()); d != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// F17: a session of which nobody has said for 4 s that it is valid gets nothing,
// in whichever way it is told of things, and has to sync behind it.
func TestF17NothingIsPushedWithoutTrust(t *testing.T) {
	id := convs(1)[0]
	ways := map[string]func(f *Fan, s *screen){
		"event":          func(f *Fan, _ *screen) { f.say("bob", entry(id, 1, "one")) },
		"bare event":     func(f *Fan, s *screen) { s.out.Hints = false; f.say("bob", entry(id, 1, "one")) },
		"out of focus":   func(f *Fan, s *screen) { s.out.Focus(1, map[im.ConvID]bool{}); f.say("bob", entry(id, 1, "one")) },
		"hint of a node": func(f *Fan, _ *screen) { f.hintTo(im.DefaultTenant, []im.User{"bob"}, hint{id, 1, 1}) },
		"receipt": func(f *Fan, _ *screen) {
			f.Receipts(im.Key{Tenant: im.DefaultTenant, Conv: id}, []im.User{"bob"}, []Receipt{receipt("eve", 1)})
		},
	}
	for what, tell := range ways {
		t.Run(what, func(t *testing.T) {
			watched(t, func(f *Fan, _ *Trust, s *screen) {
				pass(maxTrust)
				if s.out.Held() {
					t.Error("held too early")
				}
				pass(1)
				if !s.out.Held() {
					t.Error("not held")
				}
				tell(f, s)
				s.want("told", "lagged")
				tell(f, s)
				s.want("told again")
			})
		})
	}
}

// F17: a hint that is owed since before is not written either.
func TestF17OwedHintIsNotWrittenWithoutTrust(t *testing.T) {
	watched(t, func(f *Fan, _ *Trust, s *screen) {
		s.out.Focus(1, map[im.ConvID]bool{})
		f.say("bob", entry(convs(1)[0], 1, "one"))
		pass(maxTrust + 1)
		s.want("behind 4 s", "lagged")
		if !s.out.Resume() {
			t.Error("the client need not sync")
		}
	})
}

// What is answered is no event.
func TestAnswersNeedNoTrust(t *testing.T) {
	watched(t, func(_ *Fan, _ *Trust, s *screen) {
		pass(time.Hour)
		s.out.Answer(pong(7), &Kicks{})
		s.want("answered", "pong 7")
	})
}

// The word of all nodes, or of the store, is trusted for 4 s; in doubt only that
// of the store behind the doubt.
func TestTrustLastsFromTheLastWord(t *testing.T) {
	watched(t, func(_ *Fan, trust *Trust, s *screen) {
		held := func(what string, want bool) {
			t.Helper()
			if got := s.out.Held(); got != want {
				t.Errorf("%s: held %v, want %v", what, got, want)
			}
		}
		pass(10 * time.Second)
		held("after 10 s", true)
		trust.Tell(trust.Now() - 3*time.Second)
		held("told up to 3 s ago", false)
		trust.Tell(time.Second)
		held("told of what was before", false)
		pass(2 * time.Second)
		held("told up to 5 s ago", true)
		s.out.Confirm(trust.Now())
		held("confirmed", false)
		pass(3 * time.Second)
		s.out.Doubt(trust.Now())
		held("in doubt", false)
		trust.Tell(trust.Now())
		pass(2 * time.Second)
		held("in doubt, confirmed 5 s ago", true)
		s.out.Confirm(trust.Now() - 3*time.Second)
		held("confirmed as it was before the doubt", false)
		trust.Tell(trust.Now())
		pass(2 * time.Second)
		held("in doubt still", true)
		at := trust.Now()
		s.out.Confirm(at)
		s.out.Doubt(at - time.Second)
		held("confirmed behind the doubt", false)
		pass(5 * time.Second)
		trust.Tell(trust.Now())
		held("told again", false)
	})
}
