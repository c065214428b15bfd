package fanout

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// naming returns an entry that names users, "all" stands for everybody.
func naming(id im.ConvID, q im.Seq, text string, users ...string) Item {
	it := entry(id, q, text)
	it.Names = &Names{Seq: uint64(q), But: "eve"}
	for _, u := range users {
		if u == "all" {
			it.Names.All = true
		} else {
			it.Names.Users = append(it.Names.Users, u)
		}
	}
	return it
}

// mentioned returns a connection whose client has the capability mentions too, and nothing
// in focus.
func mentioned(t *testing.T, f *Fan, u im.User, limit int) *screen {
	s := connect(t, u, limit)
	s.out.Hints, s.out.Mentions = true, true
	s.out.Focus(1, map[im.ConvID]bool{})
	f.Table.Enter(s.out.Account, s.out, -1)
	return s
}

// lines takes what waits: entries, and then hints as "hint head/mention".
func (s *screen) lines() []string {
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	var all []string
	for _, f := range frames(s.t, p.Bytes) {
		for _, m := range f.GetEvents().GetMessages() {
			all = append(all, fmt.Sprintf("%d:%s", m.Seq, m.GetText()))
		}
		var hints []string // in any order
		for _, h := range f.GetEvents().GetHints() {
			hints = append(hints, fmt.Sprintf("hint %d/%d", h.Head, h.MentionSeq))
		}
		all = append(all, slices.Sorted(slices.Values(hints))...)
		if f.GetEvents() == nil {
			all = append(all, show(s.t, wire.AppendFrame(nil, protoTCP, f))...)
		}
	}
	return all
}

func (s *screen) wantLines(what string, lines ...string) {
	s.t.Helper()
	if d := cmp.Diff(lines, s.lines()); d != "" {
		s.t.Errorf("%s: %s (-want +got):\n%s", s.out.Account.User, what, d)
	}
}

// A user whom an entry names gets it whole, and a hint of the entries around it. Spec:
// P-5.13.
func TestWhoIsNamedGetsTheEntryWhateverTheFocus(t *testing.T) {
	f, id := New(NewTable()), convs(1)[0]
	bob, carol, eve := mentioned(t, f, "bob", 1<<20), mentioned(t, f, "carol", 1<<20), mentioned(t, f, "eve", 1<<20)
	old := listening(t, f, "bob", 1<<20) // without the capability
	old.out.Focus(1, map[im.ConvID]bool{})
	whole := listening(t, f, "bob", 1<<20)
	say := func(items ...Item) {
		f.Deliver(im.DefaultTenant, []im.User{"bob", "carol", "eve"}, items)
		f.Flush()
	}
	say(entry(id, 1, "a"), naming(id, 2, "b", "bob", "dave"), entry(id, 3, "c"))
	say(naming(id, 4, "d", "bob"))
	say(naming(id, 5, "e", "all"), entry(id, 6, "f"))
	bob.wantLines("three name bob", "2:b", "4:d", "5:e", "hint 6/0")
	carol.wantLines("one names carol", "5:e", "hint 6/0")
	eve.wantLines("eve sent it", "hint 6/0")
	old.wantLines("who does not know mentions", "hint 6/0")
	whole.wantLines("who has all in focus", "1:a", "2:b", "3:c", "4:d", "5:e", "6:f")
	say(naming(id, 7, "g", "bob"))
	bob.wantLines("it is the newest", "7:g")
	own := entry(id, 8, "own")
	bob.out.Window(1, -1, -1)
	own.Sender, own.Ack = Origin{Out: bob.out, ID: 7, Bytes: 1}, wire.Ack{Seq: 8}
	say(own, naming(id, 9, "h", "bob"), entry(id, 10, "i"))
	bob.wantLines("between own ones", "ack 8 of 7", "9:h", "hint 10/0")
	if f.Hinted.Load() == 0 {
		t.Error("no hint is counted")
	}
}

// An entry that names a user and does not fit becomes a hint that says so, and later hints
// do not take that back.
func TestOverflowLosesNoMention(t *testing.T) {
	f, ids := New(NewTable()), convs(2)
	bob, fresh := mentioned(t, f, "bob", 100), mentioned(t, f, "bob", 100)
	fresh.out.Focus(2, nil)
	f.say("bob", naming(ids[0], 1, "fits", "bob"))
	f.say("bob", naming(ids[0], 2, "does not fit any more", "bob"))
	f.say("bob", entry(ids[0], 3, "x"))
	f.say("bob", entry(ids[1], 1, "x"))
	bob.wantLines("out of focus", "1:fits", "hint 1/0", "hint 3/2")
	fresh.wantLines("in focus", "1:fits", "3:x")
	fresh.wantLines("in focus, when there is room", "hint 1/0", "hint 2/2")
	f.say("bob", entry(ids[0], 4, "x"))
	bob.wantLines("told once", "hint 4/0")
	bob.out.Focus(3, map[im.ConvID]bool{ids[0]: true})
	f.say("bob", naming(ids[0], 5, string(make([]byte, 200)), "bob"))
	bob.wantLines("too large, in focus", "hint 5/5")
}

// Sessions at other nodes get the same mentions as those at this node, also if a stream
// keeps no frames.
func TestMentionsReachOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b, id := all[0], all[1], convs(1)[0]
		bob, carol := mentioned(t, b.fan, "bob", 1<<20), mentioned(t, b.fan, "carol", 1<<20)
		settle()
		say := func(items ...Item) {
			a.fan.Deliver(im.DefaultTenant, []im.User{"bob", "carol"}, items)
			a.fan.Flush()
		}
		own := b.sent(a, bob, 1, entry(id, 2, "own"))
		own.Ack = wire.Ack{Seq: 2}
		own.Sender.Caller.Conv.Conv = id
		say(entry(id, 1, "a"), own, naming(id, 3, "b", "bob"), entry(id, 4, "c"))
		settle()
		bob.wantLines("named", "ack 2 of 101", "3:b", "hint 4/0")
		carol.wantLines("not named", "hint 4/0")
		a.bus.Cut(b.id, true)
		say(entry(id, 5, "x"), naming(id, 6, "x", "bob"))
		say(naming(id, 7, "x", "all"))
		for q := im.Seq(8); q < 20; q++ {
			say(entry(id, q, "x"))
		}
		pass(4 * time.Second)
		a.bus.Cut(b.id, false)
		pass(time.Second)
		bob.wantLines("cut off", "hint 19/7")
		carol.wantLines("cut off", "hint 19/7")
		say(naming(id, 20, "y", "carol"))
		settle()
		if got := carol.lines(); !slices.Contains(got, "20:y") {
			t.Errorf("afterwards carol gets %q", got)
		}
	})
}
