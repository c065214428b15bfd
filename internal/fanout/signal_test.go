package fanout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// hearing returns a connection whose client has the capabilities focus and signal.
func hearing(t testing.TB, table *Table, u im.User, limit int) *screen {
	s := connect(t, u, limit)
	s.out.Hints, s.out.Signals = true, true
	table.Enter(s.out.Account, s.out, -1)
	return s
}

// signals takes what waits: the signals, as "from kind data", sorted.
func (s *screen) signals() string {
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	var all []string
	for _, f := range frames(s.t, p.Bytes) {
		for _, x := range f.GetEvents().GetSignals() {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", x.From, x.Kind, x.Data)))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// told is a signal to the team.
func told(from im.User, kind, data string, hold time.Duration) *Signal {
	return &Signal{Key: teamKey, Signal: &petrelv1.Signal{Conv: team, From: string(from), Kind: kind, Data: []byte(data), HoldMs: uint32(hold.Milliseconds())}}
}

// called is a signal in a direct conversation, where signals may be held.
func called(from im.User, kind, data string, hold time.Duration) *Signal {
	s := told(from, kind, data, hold)
	s.Key.Conv = someStore.Direct(im.DefaultTenant, "x", "y")
	s.Signal.Conv = s.Key.Conv.String()
	return s
}

// focusOn makes the team, or nothing, the focus.
func (s *screen) focusOn(convs ...im.ConvID) {
	m := map[im.ConvID]bool{}
	for _, id := range convs {
		m[id] = true
	}
	s.out.Focus(1, m)
}

// TestSignalsReachThoseWhoAreThereNow: other sessions than the sender's, of clients that
// understand signals; and only those in focus, if the signal is for them.
func TestSignalsReachThoseWhoAreThereNow(t *testing.T) {
	f := New(NewTable())
	g := NewSignals(f.Table, nil)
	alice, tablet := hearing(t, f.Table, "alice", 1<<20), hearing(t, f.Table, "alice", 1<<20)
	bob, carol := hearing(t, f.Table, "bob", 1<<20), hearing(t, f.Table, "carol", 1<<20)
	old := online(t, f, "bob") // does not understand signals
	carol.focusOn()
	call := told("alice", "call", "x", 0)
	call.Sender = Asker{ID: alice.out.ID}
	g.Deliver(call, []im.User{"alice", "bob", "carol", "dave"})
	typing := told("alice", "typing", "", 0)
	typing.Focused = true
	g.Deliver(typing, []im.User{"bob", "carol"})
	got := []string{alice.signals(), tablet.signals(), bob.signals(), carol.signals(), old.signals()}
	if want := []string{"", "alice call x", "alice call x, alice typing", "alice call x", ""}; !cmp.Equal(got, want) {
		t.Errorf("alice, her tablet, bob, carol and an old client of bob got %q, want %q", got, want)
	}
}

// TestOneTypingReachesAtMostAHundred of a thousand who look at the group, and not always
// the same ones.
func TestOneTypingReachesAtMostAHundred(t *testing.T) {
	f := New(NewTable())
	g := NewSignals(f.Table, nil)
	var users []im.User
	var all []*screen
	for i := range 1000 {
		users = append(users, im.User(fmt.Sprint("u", i)))
		all = append(all, hearing(t, f.Table, users[i], 1<<20))
	}
	heard := map[int]bool{}
	for round := range 3 {
		s := told("eve", "typing", "", 0)
		s.Focused = true
		g.Deliver(s, users)
		n := 0
		for i, x := range all {
			if x.signals() != "" {
				n, heard[i] = n+1, true
			}
		}
		if n != MaxFocused {
			t.Errorf("round %d: %d sessions heard that eve is typing, want %d", round, n, MaxFocused)
		}
	}
	if len(heard) != 3*MaxFocused {
		t.Errorf("%d sessions heard anything in 3 rounds, want %d", len(heard), 3*MaxFocused)
	}
}

// TestTheNewestSignalOfAKindCounts at a client that reads slowly. A client that is far
// behind, or lags, gets none: signals are dropped first.
func TestTheNewestSignalOfAKindCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(NewTable())
		g := NewSignals(f.Table, nil)
		bob := hearing(t, f.Table, "bob", 10_000)
		tell := func(from im.User, kind, data string) { g.Deliver(told(from, kind, data, 0), []im.User{"bob"}) }
		tell("alice", "pos", "1")
		tell("carol", "pos", "2")
		tell("alice", "pos", "3")
		tell("alice", "call", "4")
		if got, want := bob.signals(), "alice call 4, alice pos 3, carol pos 2"; got != want {
			t.Errorf("bob got %s, want %s", got, want)
		}
		tell("alice", "pos", "here")
		g.Deliver(called("alice", "pos", "there", 0), []im.User{"bob"}) // in another conversation
		if got, want := bob.signals(), "alice pos here, alice pos there"; got != want {
			t.Errorf("of two conversations bob got %s, want %s", got, want)
		}
		bob.out.Backlog(6000) // the socket takes nothing
		tell("alice", "pos", "5")
		if got := bob.signals(); got != "" {
			t.Errorf("while more than half of the limit waits bob got %s", got)
		}
		tell("alice", "pos", "6")
		bob.out.Backlog(0)
		if got, want := bob.signals(), "alice pos 6"; got != want {
			t.Errorf("afterwards bob got %q, want %q", got, want)
		}
		bob.out.Backlog(6000)
		tell("alice", "pos", "7")
		pass(maxSignalAge + time.Second)
		bob.out.Backlog(0)
		if got := bob.signals(); got != "" {
			t.Errorf("bob got %s, which has waited for more than %v", got, maxSignalAge)
		}
		for i := range 2 * maxOwedSignals {
			tell(im.User(fmt.Sprint("u", i)), "pos", "")
		}
		if got := strings.Count(bob.signals(), "pos"); got != maxOwedSignals {
			t.Errorf("of %d signals %d waited, want %d", 2*maxOwedSignals, got, maxOwedSignals)
		}
		var k WakeUps
		bob.out.Lag(&k)
		_ = bob.got()
		tell("alice", "pos", "8")
		bob.out.Resume()
		if got := bob.signals(); got != "" {
			t.Errorf("bob, who had to sync, got %s", got)
		}
	})
}

// TestHeldSignalsWaitForADevice that connects in time; the newest of a kind is held, and
// one that is not to be held ends what was.
func TestHeldSignalsWaitForADevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(NewTable())
		g := NewSignals(f.Table, nil)
		both := []im.User{"alice", "bob"}
		wake := func(u im.User) string {
			s := hearing(t, f.Table, u, 1<<20)
			defer f.Table.Leave(s.out.Account, s.out)
			var k WakeUps
			f.Table.Wake(s.out, &k)
			return s.signals()
		}
		check := func(when string, u im.User, want string) {
			t.Helper()
			if got := wake(u); got != want {
				t.Errorf("%s %s got %q, want %q", when, u, got, want)
			}
		}
		g.Deliver(called("alice", "call", "first", 30*time.Second), both)
		g.Deliver(called("alice", "call", "second", 30*time.Second), both)
		g.Deliver(called("alice", "other", "", 10*time.Second), both)
		g.Deliver(called("alice", "pos", "", 0), both)
		g.Deliver(told("alice", "group", "", 30*time.Second), both) // who may be removed meanwhile
		check("at once", "bob", "alice call second, alice other")
		check("the sender", "alice", "")
		pass(10 * time.Second)
		check("10 s later", "bob", "alice call second")
		g.Deliver(called("alice", "call", "over", 0), both)
		check("after the call", "bob", "")
	})
}

// TestHeldSignalsAreBounded: of a node, for a user, and of a sender, who ends no call of
// others by theirs.
func TestHeldSignalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(NewTable())
		g := NewSignals(f.Table, nil)
		call := func(from, kind, to string, hold time.Duration) {
			g.Deliver(called(im.User(from), kind, "", hold), []im.User{im.User(from), im.User(to)})
		}
		kinds := func(u im.User) string {
			var all []string
			for _, s := range f.Table.held.forUser(im.Account{Tenant: im.DefaultTenant, User: u}, time.Now()) {
				all = append(all, s.From+" "+s.Kind)
			}
			return strings.Join(all, ", ")
		}
		call("carol", "call", "bob", time.Minute)
		for i := range maxHeldPair + 2 {
			call("alice", fmt.Sprint("k", i), "bob", time.Minute)
		}
		if got, want := kinds("bob"), "carol call, alice k2, alice k3, alice k4, alice k5"; got != want {
			t.Errorf("held for bob: %s, want %s", got, want)
		}
		for i := range maxHeldUser {
			call(fmt.Sprint("v", i), "call", "bob", time.Minute)
		}
		if got := strings.Count(kinds("bob"), "v"); got != maxHeldUser {
			t.Errorf("%d signals are held for one user, want %d", got, maxHeldUser)
		}
		pass(time.Minute)
		for round := range 2 { // the second one comes when the first one has ended
			for i := range maxHeldFrom + 10 {
				call("alice", "call", fmt.Sprint("u", round, i), time.Second)
			}
			if n := f.Table.held.n; n != maxHeldFrom {
				t.Errorf("%d signals of one sender are held, want %d", n, maxHeldFrom)
			}
			pass(time.Second)
		}
		for i := range maxHeld + 10 {
			call(fmt.Sprint("w", i), "call", fmt.Sprint("u", i), time.Second)
		}
		if n := f.Table.held.n; n != maxHeld {
			t.Errorf("%d signals are held on the node, want %d", n, maxHeld)
		}
		pass(time.Second)
		call("alice", "call", "bob", 0)
		f.Table.held.sweepLocked(time.Now())
		if h := &f.Table.held; h.n != 0 || len(h.of)+len(h.from) != 0 {
			t.Errorf("%d signals for %d users of %d senders are held at the end", h.n, len(h.of), len(h.from))
		}
	})
}

// TestSignalsReachOtherNodes: those in focus there, no more than may get it, and not the
// session that sent it. A held signal is held on every node.
func TestSignalsReachOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 3, stream.Options{})
		defer endAll(all)
		a, b, c := all[0], all[1], all[2]
		g := NewSignals(a.fan.Table, a.nodes)
		alice, bob := hearing(t, b.fan.Table, "alice", 1<<20), hearing(t, b.fan.Table, "bob", 1<<20)
		tablet, carol := hearing(t, c.fan.Table, "alice", 1<<20), hearing(t, c.fan.Table, "carol", 1<<20)
		carol.focusOn()
		pass(time.Second)
		call := told("alice", "call", "x", 0)
		call.Sender = Asker{Node: b.id, ID: alice.out.ID}
		g.Deliver(call, []im.User{"alice", "bob", "carol", "dave"})
		typing := told("alice", "typing", "", 0)
		typing.Focused = true
		g.Deliver(typing, []im.User{"bob", "carol"})
		pass(time.Second)
		got := []string{alice.signals(), bob.signals(), tablet.signals(), carol.signals()}
		if want := []string{"", "alice call x, alice typing", "alice call x", "alice call x"}; !cmp.Equal(got, want) {
			t.Errorf("alice, bob, alice's tablet and carol got %q, want %q", got, want)
		}
		g.Deliver(called("carol", "call", "", 30*time.Second), []im.User{"carol", "dave"})
		pass(time.Second)
		for _, s := range all {
			dave := hearing(t, s.fan.Table, "dave", 1<<20)
			var k WakeUps
			s.fan.Table.Wake(dave.out, &k)
			if got := dave.signals(); got != "carol call" {
				t.Errorf("dave woke up on node %s and got %q, want the call", s.id, got)
			}
			s.fan.Table.Leave(dave.out.Account, dave.out)
		}
		pass(time.Second)
		g.Deliver(called("carol", "call", "", 0), []im.User{"carol", "dave"})
		pass(time.Second)
		for _, s := range all {
			if n := s.fan.Table.held.n; n != 0 {
				t.Errorf("after the call %d signals are held on node %s", n, s.id)
			}
		}
	})
}
