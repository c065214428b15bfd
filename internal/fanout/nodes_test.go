package fanout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// F14: a session gets the same events, answers and refusals, in the same order and
// each once, wherever the owner of the conversation is.
func TestF14SessionsSeeTheSameWhereverTheOwnerIs(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			all := sites(t, 3, stream.Options{})
			defer endAll(all)
			owner := all[0]
			owner.bus.SetRules(bustest.Rules{Seed: seed, Lose: 0.1, Duplicate: 0.1, Delay: 0.2})
			alone := New(NewTable())
			users := []im.User{"alice", "bob", "carol", "dave", "eve"}
			type pair struct {
				at        *site
				here, one *screen // the same session in a cluster, and on a single node
			}
			var pairs []pair
			for range 9 {
				u, at := users[r.IntN(len(users))], all[r.IntN(3)]
				pairs = append(pairs, pair{at, at.online(u), online(t, alone, u)})
			}
			settle()
			q, ticket := im.Seq(0), uint64(0)
			for range 12 {
				members := users[:2+r.IntN(3)]
				var spread, one []Item
				for range 1 + r.IntN(9) {
					ticket++
					p := pairs[r.IntN(len(pairs))]
					it := Item{Err: &im.Error{Code: im.CodeConflict}}
					if r.IntN(4) > 0 {
						q++
						it = ack(q, row(q, p.here.out.Account.User, "x"))
						if r.IntN(6) == 0 {
							it.Row = nil // a repeat
						}
					}
					a, b := it, it
					switch {
					case r.IntN(5) == 0 && it.Row != nil: // nobody waits on a connection
					case p.at == owner:
						p.here.out.Window(1, -1, -1)
						a.Sender = Origin{Out: p.here.out, ID: 100 + ticket, Bytes: 1}
						fallthrough
					default:
						if p.at != owner {
							a = p.at.sent(owner, p.here, ticket, it)
						}
						p.one.out.Window(1, -1, -1)
						b.Sender = Origin{Out: p.one.out, ID: 100 + ticket, Bytes: 1}
					}
					spread, one = append(spread, a), append(one, b)
				}
				owner.fan.Deliver(im.DefaultTenant, members, spread)
				owner.fan.Flush()
				alone.Deliver(im.DefaultTenant, members, one)
				alone.Flush()
			}
			pass(5 * time.Second)
			for i, p := range pairs {
				if d := cmp.Diff(p.one.all(), p.here.all()); d != "" {
					t.Fatalf("seed %d: session %d of %s at %s (-on one node +here):\n%s", seed, i, p.here.out.Account.User, p.at.id, d)
				}
				if p.here.out.unansweredSends != 0 || p.here.out.unansweredBytes != 0 {
					t.Errorf("seed %d: %d sends have no answer", seed, p.here.out.unansweredSends)
				}
			}
		})
	}
}

// Every field of an answer reaches the other node. If no connection waits for the
// answer, the sender's sessions get the entry as an event.
func TestAnswersComeWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		bob := b.online("bob")
		settle()
		var got []Answer
		b.nodes.Answered = func(from im.Node, ticket uint64, x *Answer) (Origin, bool) {
			if from != "a" || ticket != uint64(len(got)+1) {
				t.Errorf("ticket %d of %s", ticket, from)
			}
			got = append(got, *x)
			return Origin{}, false
		}
		e := &im.Error{Code: im.CodeBehind, Message: "far behind", RetryAfter: 1500 * time.Millisecond, Head: 77, Request: "r1"}
		items := []Item{
			{Row: row(7, "bob", "x"), Sender: b.caller(a, "bob", 1), Ack: wire.Ack{Seq: 7, TimeMs: 123, Conv: team}},
			{Sender: b.caller(a, "bob", 2), Ack: wire.Ack{Seq: 3, TimeMs: 9}, Repeat: true},
			{Sender: b.caller(a, "bob", 3), Err: e},
		}
		a.fan.Deliver(im.DefaultTenant, []im.User{"bob"}, items)
		a.fan.Flush()
		items[2].Sender.Caller.Ticket = 4
		items[2].Sender.Reply(wire.Ack{}, &im.Error{Code: im.CodeOverloaded}, &WakeUps{}) // not part of a delivery
		settle()
		want := []Answer{
			{Ack: wire.Ack{Seq: 7, TimeMs: 123, Conv: team}},
			{Ack: wire.Ack{Seq: 3, TimeMs: 9}, Repeat: true},
			{Err: e},
			{Err: &im.Error{Code: im.CodeOverloaded}},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("answers (-want +got):\n%s", d)
		}
		bob.wantAll("an entry that a call of the API sent", "7:x")
	})
}

// F17: a user who is removed in the middle of a batch gets the entries up to the
// removal, and none after it. That holds at other nodes as well.
func TestF17RecipientsAreChosenRowByRowAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 3, stream.Options{})
		defer endAll(all)
		a := all[0]
		bob, eve, other := all[1].online("bob"), all[1].online("eve"), all[2].online("eve")
		settle()
		with, without := []im.User{"bob", "eve"}, []im.User{"bob"}
		a.fan.Deliver(im.DefaultTenant, with, []Item{server(10)})
		a.fan.Deliver(im.DefaultTenant, with, []Item{server(11)}) // removes eve
		a.fan.Deliver(im.DefaultTenant, without, []Item{server(12), all[1].sent(a, eve, 1, Item{Err: &im.Error{Code: im.CodeNotMember}}), server(13)})
		a.fan.Flush()
		settle()
		const said = ":by the server"
		bob.wantAll("a member", "10"+said, "11"+said, "12"+said, "13"+said)
		eve.wantAll("kicked", "10"+said, "11"+said, "not_member of 101")
		other.wantAll("kicked", "10"+said, "11"+said)
	})
}

// F9: the last delivery is lost and silence follows. The stream repairs it, although
// nothing more is sent.
func TestF9TheLastDeliveryIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, bob := all[0], all[1].online("bob")
		settle()
		a.bus.SetRules(bustest.Rules{Drop: func(im.Node, bus.Subject, []byte) bool { return true }})
		a.fan.say("bob", server(1))
		settle()
		bob.wantAll("while it is lost")
		a.bus.SetRules(bustest.Rules{})
		pass(1500 * time.Millisecond)
		bob.wantAll("repaired", "1:by the server")
	})
}

// F9: deliveries that cannot be sent for too long become hints, one for each
// conversation, for the users who should have got its entries. Lost is called, so
// that those who wait for answers ask again.
func TestF9OverflowBecomesHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		ids := convs(2)
		bob, carol, dave, eve := listening(t, b.fan, "bob", 1<<20), b.online("carol"), b.online("dave"), listening(t, b.fan, "eve", 1<<20)
		settle()
		a.bus.Cut(b.id, true)
		deliver := func(id im.ConvID, q im.Seq, users ...im.User) {
			a.fan.Deliver(im.DefaultTenant, users, []Item{entry(id, q, "x")})
			a.fan.Flush()
		}
		for q := range im.Seq(9) {
			deliver(ids[0], q+1, "bob", "carol", "eve")
			deliver(ids[1], q+1, "bob")
		}
		deliver(ids[0], 10, "bob", "carol") // eve was removed with 9
		pass(4 * time.Second)
		a.bus.Cut(b.id, false)
		pass(time.Second)
		bob.wantHints("understands them", map[string]uint64{ids[0].String(): 10, ids[1].String(): 9})
		eve.wantHints("kicked meanwhile", map[string]uint64{ids[0].String(): 9})
		carol.wantAll("does not", "lagged")
		dave.wantAll("is no member")
		for _, id := range ids {
			if b.lostOf(im.Key{Tenant: im.DefaultTenant, Conv: id}) == 0 {
				t.Errorf("Lost was not called for %s", id)
			}
		}
		if n := b.lostOf(im.Key{}); n != 0 {
			t.Errorf("everything was lost, %d times", n)
		}
		a.fan.say("bob", entry(ids[0], 11, "whole"))
		settle()
		bob.wantHints("afterwards", map[string]uint64{}, "11:whole")
	})
}

// F9: if there is no room for hints, every session of the node has to sync. They are
// told over a few seconds, so that not all sync at once.
func TestF9TooManyHintsHaveEverybodySync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{Hints: 3})
		defer endAll(all)
		a, b := all[0], all[1]
		var screens []*screen
		for i := range 400 {
			screens = append(screens, b.online(im.User(fmt.Sprint("u", i))))
		}
		own := a.online("own")
		pass(time.Second)
		a.bus.Cut(b.id, true)
		for i, id := range convs(9) {
			a.fan.say(im.User(fmt.Sprint("u", i)), entry(id, 1, "x"))
		}
		pass(4 * time.Second)
		a.bus.Cut(b.id, false)
		began := time.Now()
		lagged := map[int]time.Duration{}
		for time.Since(began) < 8*time.Second {
			for i, s := range screens {
				if slices.Equal(s.all(), []string{"lagged"}) {
					lagged[i] = time.Since(began)
				}
			}
			pass(100 * time.Millisecond)
		}
		soon := 0
		for _, d := range lagged {
			if d < 2500*time.Millisecond {
				soon++
			}
		}
		if len(lagged) != 400 || soon > 300 || soon < 100 {
			t.Errorf("%d of 400 were told, %d of them in the first half", len(lagged), soon)
		}
		if b.lostOf(im.Key{}) == 0 {
			t.Error("Lost was not called for all answers")
		}
		own.wantAll("is at the node that sent")
	})
}

// A restarted node does not know who is online at the others, and they do not know
// who is online there, until they have told each other.
func TestRestartedNodeAndTheOthersLearnWhoIsOnline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 3, stream.Options{})
		a, b, c := all[0], all[1], all[2]
		alice, carol := a.online("alice"), c.online("carol")
		bob := b.online("bob")
		settle()
		hash := func(s *screen) uint64 { return a.fan.Table.hash(s.out.Account) }
		a.fan.say("carol", server(1))
		b.end()
		pass(time.Second)
		if at := a.nodes.online.nodesOf(hash(bob)); at != 0 {
			t.Errorf("b has ended and bob is at %b", at)
		}
		b = b.restart()
		b.fan.Remote = b.nodes
		pass(2 * time.Second)
		bob, dave := b.online("bob"), b.online("dave")
		settle()
		for _, from := range []*site{a, c} {
			from.fan.Deliver(im.DefaultTenant, []im.User{"bob", "carol"}, []Item{server(2)})
			from.fan.Flush()
		}
		settle()
		b.fan.Deliver(im.DefaultTenant, []im.User{"alice", "carol", "bob"}, []Item{server(3)})
		b.fan.Flush()
		settle()
		const said = ":by the server"
		bob.wantAll("back", "2"+said, "2"+said, "3"+said)
		alice.wantAll("of another node", "3"+said)
		carol.wantAll("of another node", "1"+said, "2"+said, "2"+said, "3"+said)
		dave.wantAll("is no member")
		for _, s := range []*site{a, b, c} {
			if n := s.nodes.joined.Load(); n != 2 {
				t.Errorf("%s knows %d nodes", s.id, n)
			}
		}
		b.fan.Table.Leave(bob.out.Account, bob.out)
		b.fan.Table.Leave(dave.out.Account, dave.out)
		settle()
		for _, x := range []*screen{bob, dave} {
			if at := a.nodes.online.nodesOf(hash(x)); at != 0 {
				t.Errorf("%s has left and is at %b", x.out.Account.User, at)
			}
		}
		endAll([]*site{a, b, c})
	})
}

// The streams of two processes end when neither hears the other for long. Nobody
// sends again what was under way, so the sessions of both have to sync.
func TestLongCutHasEverybodySync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 3, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		bob, carol := b.online("bob"), all[2].online("carol")
		settle()
		a.bus.Cut(b.id, true)
		b.bus.Cut(a.id, true)
		a.fan.say("bob", server(1))
		pass(40 * time.Second)
		a.fan.say("bob", server(2))
		a.bus.Cut(b.id, false)
		b.bus.Cut(a.id, false)
		pass(10 * time.Second)
		bob.wantAll("was cut off", "lagged")
		carol.wantAll("was not")
		bob.out.Resume()
		a.fan.say("bob", server(3))
		settle()
		bob.wantAll("afterwards", "3:by the server")
		if b.lostOf(im.Key{}) == 0 {
			t.Error("Lost was not called for all answers")
		}
	})
}

// A delivery of which only the hint is left reaches members on every node.
func TestHintReachesMembersEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		here, there, old := listening(t, a.fan, "bob", 1<<20), listening(t, b.fan, "bob", 1<<20), b.online("bob")
		other := listening(t, b.fan, "eve", 1<<20)
		settle()
		a.hint(teamKey, []im.User{"bob"}, 7, 7)
		a.fan.Flush()
		settle()
		here.wantHints("here", map[string]uint64{team: 7})
		there.wantHints("there", map[string]uint64{team: 7})
		old.wantAll("without the capability", "lagged")
		other.wantHints("no member", map[string]uint64{})
	})
}

// Spec: P-8.6.
func TestReceiptsReachOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		here, there, old := listening(t, a.fan, "bob", 1<<20), listening(t, b.fan, "bob", 1<<20), b.online("bob")
		settle()
		a.fan.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{server(1)})
		a.fan.Receipts(teamKey, []im.User{"bob"}, []Receipt{receipt("alice", 1), receipt("carol", 1)})
		a.fan.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{server(2)})
		a.fan.Flush()
		settle()
		lines := []string{"1:by the server", "receipt alice 1", "receipt carol 1", "2:by the server"}
		here.wantAll("here", lines...)
		there.wantAll("there", lines...)
		old.wantAll("without the capability", "1:by the server", "2:by the server")

		a.bus.Cut(b.id, true) // a receipt that is not sent in time is dropped
		a.fan.Receipts(teamKey, []im.User{"bob"}, []Receipt{receipt("alice", 2)})
		a.fan.Flush()
		pass(4 * time.Second)
		a.bus.Cut(b.id, false)
		pass(6 * time.Second)
		there.wantAll("nothing")
		old.wantAll("nothing")
	})
}

// The ids of very many members need several frames. The sender is in the frame with
// the answers, and every member is in exactly one.
func TestManyMembersNeedSeveralFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		largest := 0
		a.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, _ bus.Subject, p []byte) bool {
			largest = max(largest, len(p))
			return false
		}})
		var users []im.User
		var screens []*screen
		for i := range 10_000 {
			users = append(users, im.User(fmt.Sprintf("%064d", i)))
			screens = append(screens, b.online(users[i]))
		}
		pass(time.Second)
		answers, answered := 0, b.nodes.Answered
		b.nodes.Answered = func(from im.Node, ticket uint64, x *Answer) (Origin, bool) {
			answers++
			return answered(from, ticket, x)
		}
		sender := screens[9_999] // would be in the last frame, if the frames kept the order of the members
		a.fan.Deliver(im.DefaultTenant, users, []Item{
			server(1), b.sent(a, sender, 1, ack(2, row(2, users[9_999], "own"))), server(3),
		})
		a.fan.Flush()
		settle()
		sender.wantAll("who sent", "1:by the server", "ack 2 of 101", "3:by the server")
		for _, s := range screens[:9_999] {
			s.wantAll("a member", "1:by the server", "2:own", "3:by the server")
		}
		if answers != 1 {
			t.Errorf("the answer came %d times", answers)
		}
		if n := b.nodes.Frames.Load(); n < 5 || n > 8 {
			t.Errorf("%d frames for 660,000 bytes of names", n)
		}
		if largest > 300<<10 {
			t.Errorf("a packet has %d bytes", largest)
		}
	})
}

// If an entry is too large for a frame, its hint is sent.
func TestWhatFitsNoFrameIsHinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		bob, id := listening(t, b.fan, "bob", -1), convs(1)[0]
		settle()
		big := entry(id, 5, string(make([]byte, stream.MaxFrame)))
		a.fan.say("bob", big)
		settle()
		bob.wantHints("", map[string]uint64{id.String(): 5})
		if a.nodes.TooLarge.Load() != 1 || b.lostOf(im.Key{Tenant: im.DefaultTenant, Conv: id}) != 1 {
			t.Error("it was not counted, or Lost was not called")
		}
	})
}

// Frames that come together wake each writer once, not once for each frame.
func TestOneWakeUpForWhatComesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, bob := all[0], all[1].online("bob")
		settle()
		woken, entries := 0, 0
		bob.out.flusher.Take(nil)
		bob.out.flusher.wake = func() { // a writer that always writes at once
			woken++
			bob.out.flusher.Take(nil)
			entries += len(bob.all())
		}
		for q := range im.Seq(500) {
			a.fan.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{server(q + 1)})
		}
		a.fan.Flush()
		settle()
		if entries != 500 || woken > 50 {
			t.Errorf("%d entries, and their writer was woken %d times", entries, woken)
		}
	})
}

// Two users can have one hash. Each gets only their own outboxes.
func TestUsersWithOneHashAreDistinguished(t *testing.T) {
	bob, eve := im.Account{Tenant: 1, User: "bob"}, im.Account{Tenant: 1, User: "eve"}
	list := []*Outbox{{Account: bob}, {Account: eve}, {Account: bob}}
	if got := ofAccount(bob, list); !slices.Equal(got, []*Outbox{list[0], list[2]}) {
		t.Errorf("bob has %v", got)
	}
	if got := ofAccount(eve, list); !slices.Equal(got, list[1:2]) {
		t.Errorf("eve has %v", got)
	}
	if got := ofAccount(bob, list[:1]); len(got) != 1 {
		t.Errorf("bob alone has %v", got)
	}
}

// A frame that cannot be decoded changes nothing.
func TestGarbledFramesChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		a, b := all[0], all[1]
		bob := b.online("bob")
		settle()
		b.nodes.handleDelivery("a", []byte{0xff})
		b.nodes.handleReceipts("a", nil)
		b.nodes.handleOnline("a", []byte{0x1a, 2, 8, 64}) // part 64 of 64
		if n := b.nodes.Garbled.Load(); n != 3 {
			t.Errorf("%d frames are garbled, want 3", n)
		}
		for range 20_000 {
			p := make([]byte, r.IntN(40))
			for i := range p {
				p[i] = byte(r.IntN(256)) >> r.IntN(6)
			}
			for _, h := range []func(im.Node, []byte){b.nodes.handleDelivery, b.nodes.handleReceipts, b.nodes.handleNotes, b.nodes.handleOnline} {
				h("a", slices.Clone(p))
			}
		}
		settle()
		a.fan.say("bob", server(1))
		pass(time.Second)
		if got := bob.all(); len(got) == 0 || got[len(got)-1] != "1:by the server" {
			t.Errorf("afterwards bob got %v", got)
		}
	})
}
