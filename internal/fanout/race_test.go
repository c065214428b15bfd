package fanout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/im"
)

// commit does what the owner does after an entry is durable: it publishes the head,
// and then chooses recipients.
func (w *owned) commit(members ...im.User) {
	w.head++
	w.at.fan.Deliver(im.DefaultTenant, members, []Item{server(w.head)})
	w.at.fan.Flush()
}

// owned is a conversation at its owner.
type owned struct {
	at   *site
	head im.Seq
}

// headFor serves a request for the head, made for a session at another node: it
// waits until the frame at mark is applied.
func (w *owned) headFor(ctx context.Context, from *site, mark stream.Mark) (im.Seq, error) {
	err := w.at.streams.WaitApplied(ctx, from.id, mark)
	return w.head, err
}

// F2: a login at one node, a commit at another, and the announcement between them,
// in every order of their steps. The session reads the head with the entry, or gets
// the entry as an event.
func TestF2LoginAgainstCommitAcrossNodes(t *testing.T) {
	// The steps of the login stay in their order. The commit, and the arrival of what
	// is under way from the session's node, are put at every place among them.
	for _, early := range []bool{false, true} {
		holes := 0
		for commit := range 4 {
			for arrive := range 4 {
				if f2(t, early, commit, arrive) {
					holes++
				}
			}
		}
		switch {
		case !early && holes > 0:
			t.Errorf("%d of 16 orders have a session that does not know of an entry", holes)
		case early && holes == 0:
			t.Error("the head is read before the announcement, and no order shows it")
		}
	}
}

// f2 runs one order and returns whether the session misses the entry. With early it
// breaks the rule: it reads the head before it is announced.
func f2(t *testing.T, early bool, commit, arrive int) (hole bool) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		g, w := all[1], &owned{at: all[0], head: 10}
		g.bus.Cut(w.at.id, true)
		x := connect(t, "x", 1<<20)
		type answer struct {
			head im.Seq
			err  error
		}
		answers := make(chan answer, 1)
		ask := func() {
			mark := g.nodes.Mark(w.at.id)
			w.at.done.Go(func() {
				head, err := w.headFor(t.Context(), g, mark)
				answers <- answer{head, err}
			})
		}
		enter := func() { g.fan.Table.Enter(x.out.Account, x.out, -1) }
		steps := []func(){enter, ask}
		if early {
			steps = []func(){ask, enter}
		}
		for at := range 4 {
			if at == commit {
				w.commit("x")
			}
			if at == arrive {
				g.bus.Cut(w.at.id, false)
				pass(time.Second)
			}
			if at < len(steps) {
				steps[at]()
				synctest.Wait()
			}
		}
		pass(time.Second)
		a := <-answers
		if a.err != nil {
			t.Fatalf("commit at %d, arrival at %d: %v", commit, arrive, a.err)
		}
		hole = a.head < 11 && len(x.all()) == 0
	})
	return hole
}

// F2: an owner hears nothing for so long that the stream drops announcements. It does
// not know of a login. It learns of it with the whole table, and the session has to
// sync. Sessions that it knew before need not sync.
func TestF2OwnerThatMissedALoginHasItsSessionSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{Hints: 3})
		defer endAll(all)
		g, w := all[1], &owned{at: all[0], head: 9}
		y := g.online("y")
		settle()
		w.commit("x", "y")
		g.bus.Cut(w.at.id, true)
		x := g.online("x")
		for i := range 5 {
			g.online(im.User(fmt.Sprint("other", i))) // more than the stream keeps
		}
		mark := g.nodes.Mark(w.at.id)
		pass(4 * time.Second) // so long that the stream drops them
		w.at.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, _ bus.Subject, b []byte) bool {
			var p buspb.Packet
			return p.UnmarshalVT(b) != nil || len(p.Frames) > 0 // its question is late
		}})
		g.bus.Cut(w.at.id, false)
		pass(time.Second)
		head, err := w.headFor(t.Context(), g, mark)
		if err != nil || head != 10 {
			t.Fatalf("head %d: %v", head, err)
		}
		w.commit("x", "y")
		settle()
		w.at.bus.SetRules(bustest.Rules{})
		pass(2 * time.Second)
		x.wantAll("was not known when entry 11 was committed", "lagged")
		y.wantAll("was known", "10:by the server", "11:by the server")
		x.out.Resume()
		w.commit("x", "y")
		settle()
		x.wantAll("afterwards", "12:by the server")
	})
}

// F2: an announcement is late at a node that takes a feed over meanwhile. A former owner
// has answered the sync of that session, and the new one has pushed an entry without it: the
// session has to sync. Without another tenure the node that is asked knows the session, and
// a login after the takeover is in time: neither session syncs.
func TestLateAnnouncementHasItsUserSyncIfATenureBegan(t *testing.T) {
	for _, c := range []struct {
		what  string
		steps func(login, takeOver, commit func())
		want  []string
	}{
		{"login, takeover, entry", func(login, takeOver, commit func()) { login(); takeOver(); commit() }, []string{"lagged"}},
		{"takeover, entry, login", func(login, takeOver, commit func()) { takeOver(); commit(); login() }, nil},
		{"takeover, login, entry", func(login, takeOver, commit func()) { takeOver(); login(); commit() }, nil},
		{"login, entry", func(login, _, commit func()) { login(); commit() }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			all := sites(t, 2, stream.Options{})
			defer endAll(all)
			g, w := all[1], &owned{at: all[0], head: 9}
			w.at.nodes.BeginTenure()
			y := g.online("y")
			settle()
			w.commit("x", "y")
			settle()
			y.wantAll(c.what+": was known", "10:by the server")
			var x *screen
			c.steps(
				func() { g.bus.Cut(w.at.id, true); x = g.online("x") },
				func() { w.at.nodes.BeginTenure(); settle() },
				func() { w.commit("x", "y"); settle() },
			)
			if n := g.nodes.Missed.Load(); n != 0 {
				t.Errorf("%s: %d sessions sync before the announcement arrives", c.what, n)
			}
			g.bus.Cut(w.at.id, false)
			pass(2 * time.Second) // the frame is sent again; it has not become its hint
			x.wantAll(c.what, c.want...)
			y.wantAll(c.what+": was known", "11:by the server")
			x.out.Resume()
			w.commit("x")
			settle()
			x.wantAll(c.what+": afterwards", "12:by the server")
			if n := g.nodes.Missed.Load(); n != uint64(len(c.want)) {
				t.Errorf("%s: %d sessions were told to sync, want %d", c.what, n, len(c.want))
			}
		})
	}
}

// F2: each node learns the newest tenure of the others also if frames that tell it were
// lost, and that of a new process in place of the former one's. Else each login would
// have its user sync.
func TestNodesLearnTheNewestTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{Hints: 3})
		g, owner := all[1], all[0]
		known := func(when string) {
			t.Helper()
			if got, want := g.nodes.known(owner.id).tenure, owner.nodes.tenure.Load(); got != want {
				t.Errorf("%s: tenure %d is known, want %d", when, got, want)
			}
		}
		known("at the start")
		owner.nodes.BeginTenure()
		settle()
		known("a takeover")
		owner.bus.Cut(g.id, true)
		owner.nodes.BeginTenure()
		owner.nodes.BeginTenure()
		pass(4 * time.Second) // so long that the frames become their hint
		owner.bus.Cut(g.id, false)
		pass(time.Second)
		known("a hint")
		owner.bus.Cut(g.id, true)
		owner.nodes.BeginTenure()
		g.online("bob")
		settle()
		for i, id := range convs(9) {
			owner.fan.say("bob", entry(id, im.Seq(i+1), "x")) // more than there is room for hints
		}
		pass(4 * time.Second)
		owner.bus.Cut(g.id, false)
		pass(2 * time.Second)
		if g.lostOf(im.Key{}) == 0 {
			t.Error("the receiver was not reset")
		}
		known("a reset of the receiver")
		owner.nodes.tenure.Store(1 << 63) // more than a process begins with
		owner.nodes.BeginTenure()
		settle()
		known("a takeover")
		owner.end()
		owner = owner.restart()
		pass(2 * time.Second)
		known("another process")
		owner.nodes.BeginTenure()
		settle()
		known("a takeover by that")
		endAll([]*site{owner, g})
	})
}

// An owner does not hear of very many logins. For each of them it asks at most for
// one part of the table, and sessions that it knew need not sync.
func TestManyMissedLoginsAreAskedForByPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{Hints: 100, RingBytes: 20_000})
		defer endAll(all)
		g, w := all[1], &owned{at: all[0], head: 9}
		y, here := g.online("y"), w.at.online("here")
		settle()
		w.commit("x0", "y", "here")
		g.bus.Cut(w.at.id, true)
		var screens []*screen
		for i := range 1000 {
			screens = append(screens, g.online(im.User(fmt.Sprint("x", i))))
		}
		pass(4 * time.Second)
		g.bus.Cut(w.at.id, false)
		pass(10 * time.Second)
		(&world{t: t, sites: all}).checkTables()
		if n := g.streams.Resets.Load(); n != 0 {
			t.Errorf("%d resets", n)
		}
		for _, x := range screens {
			x.wantAll("was not known", "lagged")
		}
		y.wantAll("was known", "10:by the server")
		here.wantAll("is at the owner's node", "10:by the server")
	})
}

// A node that has chosen no recipients yet cannot have left anybody out. So nobody
// has to sync when it learns who is online.
func TestNodeThatChoseNoRecipientsHasNobodySync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		g := all[1]
		x := g.online("x")
		g.fan.say("nobody", server(1))
		pass(time.Second)
		all[0].end()
		all[0] = all[0].restart()
		pass(10 * time.Second)
		x.wantAll("another node was started")
		all[0].fan.say("x", server(2))
		settle()
		x.wantAll("from the new process", "2:by the server")
		endAll(all)
	})
}

// A call of Reaches that finds no recipient has chosen recipients all the same: a user who
// was online at a node that was not known yet has missed an entry.
func TestWhoeverReachesNobodyHasChosenRecipients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		x := all[1].online("x")
		pass(time.Second)
		all[0].end()
		all[1].bus.Cut(all[0].id, true) // or it may be told at once
		all[0] = all[0].restart()
		if all[0].fan.Reaches(im.DefaultTenant, []im.User{"x"}) {
			t.Error("a node that was just started knows who is online elsewhere")
		}
		all[1].bus.Cut(all[0].id, false)
		pass(10 * time.Second)
		x.wantAll("was not known", "lagged")
		endAll(all)
	})
}

func TestReachesWhoIsOnlineAtAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		all[0].online("here")
		all[1].online("there")
		settle()
		for _, u := range []im.User{"here", "there"} {
			if !all[0].fan.Reaches(im.DefaultTenant, []im.User{"nobody", u}) {
				t.Errorf("%s is online, and not reached", u)
			}
		}
		if all[0].fan.Reaches(im.DefaultTenant, []im.User{"nobody"}) || all[0].fan.Reaches(im.DefaultTenant+1, []im.User{"here", "there"}) {
			t.Error("somebody is reached who is not online")
		}
	})
}

// A request with the mark of a stream that has ended is refused. So it is made again
// with a new mark.
func TestMarkOfAnEndedStreamIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		g, w := all[1], &owned{at: all[0], head: 9}
		g.online("x")
		old := g.nodes.Mark(w.at.id)
		g.bus.Cut(w.at.id, true)
		w.at.bus.Cut(g.id, true)
		pass(40 * time.Second)
		g.bus.Cut(w.at.id, false)
		w.at.bus.Cut(g.id, false)
		pass(2 * time.Second)
		if _, err := w.headFor(t.Context(), g, old); err == nil {
			t.Error("a mark of an ended stream is as good as another one")
		}
		if _, err := w.headFor(t.Context(), g, g.nodes.Mark(w.at.id)); err != nil {
			t.Errorf("the mark of the new one: %v", err)
		}
	})
}

// Users come and go while whole tables are sent. In the end the other nodes know
// exactly who is online.
func TestTablesAgreeUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := sites(t, 2, stream.Options{})
		defer endAll(all)
		w := &world{t: t, sites: all}
		for round := range uint64(300) {
			var busy sync.WaitGroup
			for i, s := range all {
				busy.Go(func() { s.nodes.sendParts(s.nodes.node(all[1-i].id), allParts) })
			}
			for i := range uint64(2) {
				busy.Go(func() {
					dice := rand.New(rand.NewPCG(round, i))
					for range 200 {
						s := all[dice.IntN(2)]
						o := &Outbox{Account: im.Account{Tenant: 1, User: im.User(fmt.Sprint("u", dice.IntN(300)))}}
						s.fan.Table.Enter(o.Account, o, -1)
						if dice.IntN(8) > 0 {
							s.fan.Table.Leave(o.Account, o)
						}
					}
				})
			}
			busy.Wait()
			settle()
			w.checkTables()
		}
	})
}
