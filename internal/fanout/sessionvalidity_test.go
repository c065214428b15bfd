package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// tracked runs f in a bubble with a session that was valid at the start.
func tracked(t *testing.T, f func(fan *Fan, r *Revocations, s *screen)) {
	synctest.Test(t, func(t *testing.T) {
		fan, r := New(NewTable()), NewRevocations()
		s := connect(t, "bob", 1<<20)
		s.out.Hints, s.out.Receipts = true, true
		s.out.TrackValidity(r, r.Now())
		fan.Table.Enter(s.out.Account, s.out, -1)
		f(fan, r, s)
	})
}

func (s *screen) want(what string, lines ...string) {
	s.t.Helper()
	if d := cmp.Diff(lines, s.got()); d != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// F17: a session gets nothing if nobody has confirmed for 4 s that it is valid. It
// does not matter in which form an event would come. Then the client has to sync.
func TestF17NothingIsPushedToAnUnconfirmedSession(t *testing.T) {
	id := convs(1)[0]
	ways := map[string]func(f *Fan, s *screen){
		"event":        func(f *Fan, _ *screen) { f.say("bob", entry(id, 1, "one")) },
		"bare event":   func(f *Fan, s *screen) { s.out.Hints = false; f.say("bob", entry(id, 1, "one")) },
		"out of focus": func(f *Fan, s *screen) { s.out.Focus(1, map[im.ConvID]bool{}); f.say("bob", entry(id, 1, "one")) },
		"hint of a node": func(f *Fan, _ *screen) {
			f.hintHere(im.DefaultTenant, []im.User{"bob"}, hint{conv: id, head: 1, counted: 1}, &named{})
		},
		"receipt": func(f *Fan, _ *screen) {
			f.Receipts(im.Key{Tenant: im.DefaultTenant, Conv: id}, []im.User{"bob"}, []Receipt{receipt("eve", 1)})
		},
	}
	for what, tell := range ways {
		t.Run(what, func(t *testing.T) {
			tracked(t, func(f *Fan, _ *Revocations, s *screen) {
				pass(maxUnconfirmed)
				if s.out.Unconfirmed() {
					t.Error("held too early")
				}
				pass(1)
				if !s.out.Unconfirmed() {
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

// F17: a hint that was owed before is not written either.
func TestF17OwedHintIsNotWrittenToAnUnconfirmedSession(t *testing.T) {
	tracked(t, func(f *Fan, _ *Revocations, s *screen) {
		s.out.Focus(1, map[im.ConvID]bool{})
		f.say("bob", entry(convs(1)[0], 1, "one"))
		pass(maxUnconfirmed + 1)
		s.want("after 4 s", "lagged")
		if !s.out.Resume() {
			t.Error("the client need not sync")
		}
	})
}

// Answers are no events.
func TestAnswersNeedNoConfirmation(t *testing.T) {
	tracked(t, func(_ *Fan, _ *Revocations, s *screen) {
		pass(time.Hour)
		s.out.Answer(pong(7), &WakeUps{})
		s.want("answered", "pong 7")
	})
}

// A session counts as valid for 4 s after a moment up to which all revocations are
// known, or at which the store confirmed it. While it is in doubt, only a
// confirmation by the store after the doubt counts.
func TestValidityLastsFromTheLastConfirmation(t *testing.T) {
	tracked(t, func(_ *Fan, r *Revocations, s *screen) {
		held := func(what string, want bool) {
			t.Helper()
			if got := s.out.Unconfirmed(); got != want {
				t.Errorf("%s: held %v, want %v", what, got, want)
			}
		}
		pass(10 * time.Second)
		held("after 10 s", true)
		r.Advance(r.Now() - 3*time.Second)
		held("revocations known up to 3 s ago", false)
		r.Advance(time.Second)
		held("an earlier moment", false)
		pass(2 * time.Second)
		held("revocations known up to 5 s ago", true)
		s.out.Confirm(r.Now())
		held("confirmed", false)
		pass(3 * time.Second)
		s.out.Doubt(r.Now())
		held("in doubt", false)
		r.Advance(r.Now())
		pass(2 * time.Second)
		held("in doubt, confirmed 5 s ago", true)
		s.out.Confirm(r.Now() - 3*time.Second)
		held("confirmed at a moment before the doubt", false)
		r.Advance(r.Now())
		pass(2 * time.Second)
		held("still in doubt", true)
		at := r.Now()
		s.out.Confirm(at)
		s.out.Doubt(at - time.Second)
		held("confirmed after the doubt", false)
		pass(5 * time.Second)
		r.Advance(r.Now())
		held("revocations known again", false)
	})
}

// F17: events queued before are not written either, if the process stood still meanwhile.
// The client has to sync, and each of its requests has an answer: an ack stays, and what
// says something of a conversation becomes an error.
func TestF17WhatWaitsIsNotWrittenToAnUnconfirmedSession(t *testing.T) {
	id := convs(1)[0]
	tracked(t, func(f *Fan, r *Revocations, s *screen) {
		queue := func() {
			f.say("bob", entry(id, 1, "one"))
			s.out.Answer(pong(7), &WakeUps{})
			s.out.Answer(&petrelv1.ServerFrame{Id: 8, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: 2}}}, &WakeUps{})
			s.out.Answer(&petrelv1.ServerFrame{Id: 9, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: 3, Message: &petrelv1.Message{Seq: 3}}}}, &WakeUps{})
			s.out.Answer(&petrelv1.ServerFrame{Id: 10, Body: &petrelv1.ServerFrame_History{History: &petrelv1.HistoryPage{}}}, &WakeUps{})
		}
		queue()
		s.want("at once", "1:one", "pong 7", "ack 2 of 8", "ack 3 of 9", "history")
		queue()
		pass(maxUnconfirmed + 1)
		s.want("after 4 s", "pong 7", "ack 2 of 8", "store_stalled of 9", "store_stalled of 10", "lagged")
		if !s.out.Resume() {
			t.Error("the client need not sync")
		}
		r.Advance(r.Now())
		f.say("bob", entry(id, 2, "two")) // alone, in a piece that other sessions share
		pass(maxUnconfirmed + 1)
		s.want("an event alone", "lagged")
		r.Advance(r.Now())
		s.out.Resume()
		f.say("bob", entry(id, 3, "three"))
		s.out.End(&im.Error{Code: im.CodeRevoked}, &WakeUps{})
		pass(maxUnconfirmed + 1)
		s.want("ended", "kick revoked")
	})
}
