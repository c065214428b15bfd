package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

func TestOneNodeTakesAllFeedsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("a", nil)
		if took := w.settled(time.Second); took > 200*time.Millisecond {
			t.Errorf("256 feeds took %v", took)
		}
		if got := w.db.epochs(); got != im.Partitions {
			t.Errorf("%d takeovers of %d feeds", got, im.Partitions)
		}
	})
}

// A node whose store nobody else can open has no heartbeats, no timers and no
// deciding reads.
func TestNodeAloneCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db = newDatabase(1)
		n := w.make("a", func(o *Options) { o.Alone = true })
		if err := n.c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.c.Run(ctx, Owners{Open: n.takeover, Close: n.close}) }()
		if _, e, err := n.c.Wait(t.Context(), 0, 0); err != nil || e != 1 {
			t.Fatalf("epoch %d, %v; want 1", e, err)
		}
		time.Sleep(time.Hour)
		if e, err := n.c.Mine(t.Context(), []store.Feed{0}); err != nil || e[0] != 1 {
			t.Errorf("mine: epoch %d, %v; want 1", e, err)
		}
		if want := map[string]int{"takeover": 1}; !maps.Equal(w.db.calls, want) {
			t.Errorf("calls of the store: %v, want %v", w.db.calls, want)
		}
		if s := n.c.Status(); len(s.Nodes) != 1 || len(s.Nodes[0].Feeds) != 1 || len(s.Unowned) != 0 {
			t.Errorf("status: %+v", s)
		}
		if err := n.c.Drain(t.Context()); !errors.Is(err, ErrNobody) {
			t.Errorf("drain: %v, want ErrNobody", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNodeAloneEndsWhenItsFeedDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.make("a", func(o *Options) { o.Alone = true })
		err := n.c.Run(t.Context(), Owners{Open: func(context.Context, store.Feed) (im.Epoch, error) { return 0, errRefused }})
		if !errors.Is(err, errRefused) {
			t.Errorf("run ended with %v, want %v", err, errRefused)
		}
	})
}

func TestKilledNodeIsSucceeded(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			_, b, _ := w.three()
			time.Sleep(time.Duration(phase) * 100 * time.Millisecond)
			before := w.db.epochs()
			lost := b.has()
			b.kill()
			took := w.settled(5 * time.Second)
			t.Logf("killed at %d ms: %d feeds are elsewhere after %v", phase*100, lost, took)
			if took > 3500*time.Millisecond {
				t.Errorf("took %v, want 3.5s at most", took)
			}
			// Some feeds move only to keep the parts even.
			if moved := w.db.epochs() - before; moved > lost+12 {
				t.Errorf("%d takeovers for %d feeds", moved, lost)
			}
		})
	}
}

// A node that is gone cannot be handed a feed, and nobody waits for it.
func TestDrainDoesNotWaitForANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		b.kill()
		w.settled(5 * time.Second)
		began := time.Now()
		if err := a.c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 500*time.Millisecond || c.has() != im.Partitions {
			t.Errorf("drained in %v, and the node that is left has %d feeds, want all", took, c.has())
		}
	})
}

// A killed node that returns at once, under the same id, has its part again
// soon, and nobody else's moves.
func TestRestartedNodeGetsItsPartAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		b.kill()
		began := time.Now()
		w.start("b", nil)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("join took %v", took)
		}
		w.even(15 * time.Second)
	})
}

// F19: a process that was stopped for 30 s goes on as if nothing had happened.
func TestF19StoppedNodeIsSucceededAndFindsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		feed := store.Feed(0)
		for b.open[feed] == 0 {
			feed++
		}
		old := b.open[feed]
		b.conn.gate.close()
		time.Sleep(5 * time.Second)
		for _, n := range []*node{a, c} {
			at, e, ok := n.c.Route(feed)
			if !ok || at == "b" || e <= old {
				t.Errorf("%s looks for feed %d at %q in epoch %d (%v)", n.id, feed, at, e, ok)
			}
		}
		time.Sleep(25 * time.Second)
		// It still believes that it owns the feed; the store decides.
		if at, _, ok := b.c.Route(feed); at != "b" || !ok {
			t.Fatalf("the stopped node has heard that %q owns the feed", at)
		}
		before := w.db.epochs()
		b.conn.gate.open()
		if e, err := b.c.Mine(t.Context(), []store.Feed{feed}); err != nil || e[0] != 0 {
			t.Errorf("mine: epoch %d, %v; want none", e, err)
		}
		w.settled(5 * time.Second)
		if moved := w.db.epochs() - before; moved > im.Partitions/3+12 {
			t.Errorf("%d takeovers behind the pause", moved)
		}
		w.even(20 * time.Second)
	})
}

// F19: no answer from the database for 20 s says nothing about the others.
func TestF19OutageOfTheDatabaseMovesNothing(t *testing.T) {
	outages := map[string]func(d *database, on bool){
		"no answers": func(d *database, on bool) { d.down = on },
		"no writes":  func(d *database, on bool) { d.frozen = on },
	}
	for name, outage := range outages {
		for _, busToo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, bus cut %v", name, busToo), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					a, b, c := w.three()
					for _, n := range w.running() {
						n.mu.Lock()
						n.quiet = true // without commits: those of unknown outcome end in takeovers, each at its owner
						n.mu.Unlock()
					}
					before := w.db.all()
					w.db.set(func(d *database) { outage(d, true) })
					if busToo {
						w.cut(a, b, true)
						w.cut(b, c, true)
						w.cut(a, c, true)
					}
					time.Sleep(20 * time.Second)
					w.db.set(func(d *database) { outage(d, false) })
					time.Sleep(time.Second) // the bus is back later than the database
					w.cut(a, b, false)
					w.cut(b, c, false)
					w.cut(a, c, false)
					time.Sleep(10 * time.Second)
					if after := w.db.all(); !maps.Equal(before, after) {
						t.Errorf("%d takeovers\n%s", w.db.epochs()-len(before), w.log)
					}
					if n := w.log.count("heartbeats cannot be read or written"); n != 3 {
						t.Errorf("said %d times that heartbeats stop, want once for each node", n)
					}
					w.settled(time.Second)
				})
			})
		}
	}
}

// F6: behind an outage every owner takes its own feeds over again, nobody the
// feeds of others.
func TestF19OwnersOpenTheirFeedsAgainBehindAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.three()
		before := w.db.all()
		w.db.set(func(d *database) { d.down = true })
		time.Sleep(20 * time.Second)
		w.db.set(func(d *database) { d.down = false })
		if took := w.settled(5 * time.Second); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
		for f, h := range w.db.all() {
			if h.Holder != before[f].Holder {
				t.Errorf("feed %d has changed hands", f)
			}
		}
	})
}

// A node that has lost the database cannot serve; that it is on the bus does
// not keep its feeds.
func TestNodeWithoutDatabaseIsSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		b.conn.set(func(c *connection) { c.cut = true })
		time.Sleep(8 * time.Second)
		if got := a.has() + c.has(); got != im.Partitions {
			t.Errorf("the others have %d feeds", got)
		}
		b.conn.set(func(c *connection) { c.cut = false })
		w.even(20 * time.Second)
	})
}

// While nobody hears anybody, as without NATS, nothing moves: every owner is
// alive, and there is no majority that could serve what is elsewhere.
func TestCutBusMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		before := w.db.all()
		for _, cut := range []bool{true, false} {
			w.cut(a, b, cut)
			w.cut(c, b, cut)
			w.cut(a, c, cut)
			time.Sleep(30 * time.Second)
			if after := w.db.all(); !maps.Equal(before, after) {
				t.Errorf("%d takeovers", w.db.epochs()-len(before))
			}
		}
		b.kill()
		w.settled(5 * time.Second)
		before = w.db.all()
		w.cut(a, c, true)
		time.Sleep(30 * time.Second)
		if after := w.db.all(); !maps.Equal(before, after) {
			t.Error("of two nodes that do not hear each other one took the other's feeds")
		}
	})
}

// A node that hears fewer than the others do serves nobody but its own clients,
// and nobody else serves what it owns. So it gives its feeds up.
func TestNodeThatIsApartGivesItsFeedsUp(t *testing.T) {
	for _, test := range []struct {
		name  string
		lone  im.Node
		other func(w *world, a, b, c *node, cut bool)
	}{
		{"one hears nobody", "b", func(w *world, a, b, c *node, cut bool) { w.cut(a, b, cut); w.cut(c, b, cut) }},
		{"one is not heard", "b", func(_ *world, a, b, c *node, cut bool) { b.bus.Cut(a.id, cut); b.bus.Cut(c.id, cut) }},
		{"two do not hear each other", "c", func(w *world, _, b, c *node, cut bool) { w.cut(b, c, cut) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b, c := w.three()
				lone := b
				if test.lone == "c" {
					lone = c
				}
				test.other(w, a, b, c, true)
				began := time.Now()
				for lone.has() > 0 && time.Since(began) < 10*time.Second {
					time.Sleep(5 * time.Millisecond)
				}
				w.settled(5 * time.Second)
				took := time.Since(began)
				t.Logf("all feeds are with the others after %v", took)
				if took > 6*time.Second || lone.has() > 0 {
					t.Errorf("%s has %d feeds after %v", lone.id, lone.has(), took)
				}
				if !lone.c.Status().Apart || a.c.Status().Apart {
					t.Error("the wrong one knows that it is apart")
				}
				var says storepb.Node // what a release that knows nothing of this goes by
				if err := says.UnmarshalVT(lone.c.record(false)); err != nil || says.Taking {
					t.Errorf("it says that it takes feeds: %v", err)
				}
				for _, n := range []*node{a, b, c} {
					if last := n.c.Gateways(im.Account{User: "eve"})[2]; last.Node != lone.id {
						t.Errorf("%s sends clients to %s last, want %s", n.id, last.Node, lone.id)
					}
				}
				before := w.db.epochs()
				time.Sleep(20 * time.Second)
				if n := w.db.epochs() - before; n != 0 {
					t.Errorf("%d takeovers in a cut that stays", n)
				}
				test.other(w, a, b, c, false)
				w.even(5 * time.Second)
				if lone.c.Status().Apart {
					t.Error("it is apart still")
				}
			})
		})
	}
}

// A node that is apart is seen, and gets nothing of those who come.
func TestNodeThatIsApartIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		w.cut(a, b, true)
		w.cut(c, b, true)
		time.Sleep(30 * time.Second)
		if got := a.c.Status().Unreachable; !slices.Equal(got, []im.Node{"b"}) {
			t.Errorf("a finds %v unreachable, want b", got)
		}
		if n := w.log.count("cannot be reached on the bus"); n != 4 {
			t.Errorf("said %d times who is not reachable, want 4\n%s", n, w.log)
		}
		d := w.start("d", nil)
		w.cut(d, b, true)
		time.Sleep(5 * time.Second)
		if b.has() != 0 || d.has() == 0 {
			t.Errorf("b has %d feeds, d %d", b.has(), d.has())
		}
		w.cut(a, b, false)
		w.cut(c, b, false)
		w.cut(d, b, false)
		w.even(5 * time.Second)
		if got := a.c.Status().Unreachable; len(got) != 0 {
			t.Errorf("a finds %v unreachable behind the cut", got)
		}
	})
}

func TestF14DrainHandsOver(t *testing.T) {
	drop := map[string]func(im.Node, bus.Subject, []byte) bool{
		"told":          nil,
		"words lost":    func(_ im.Node, s bus.Subject, _ []byte) bool { return s == release },
		"one beacon":    func() func(im.Node, bus.Subject, []byte) bool { return dropFirst(beacon, 2, release) }(),
		"answers stray": nil,
	}
	for name, drop := range drop {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				_, b, c := w.three()
				b.bus.SetRules(bustest.Rules{Drop: drop})
				if name == "answers stray" {
					c.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool { return s == release }})
				}
				before := w.db.epochs()
				had := b.has()
				w.planned.Store(true)
				took := time.Duration(0)
				drained := make(chan error, 1)
				go func() {
					began := time.Now()
					err := b.c.Drain(t.Context())
					took = time.Since(began)
					drained <- err
				}()
				gap := w.longestGap(2 * time.Second)
				if err := <-drained; err != nil {
					t.Fatal(err)
				}
				w.settled(0)
				t.Logf("%d feeds in %v; without an owner for %v at most", had, took, gap)
				if gap > 500*time.Millisecond || took > 500*time.Millisecond {
					t.Errorf("a feed had no owner for %v; the drain took %v", gap, took)
				}
				if moved := w.db.epochs() - before; moved > had+12 || b.has() != 0 {
					t.Errorf("%d takeovers for %d feeds; %d are left", moved, had, b.has())
				}
				if s := c.c.Status(); !s.Nodes[1].Draining || len(s.Nodes[1].Feeds) != 0 {
					t.Errorf("c sees %+v", s.Nodes[1])
				}
			})
		})
	}
}

// dropFirst loses the first n messages of a subject, and all of others.
func dropFirst(s bus.Subject, n int, others ...bus.Subject) func(im.Node, bus.Subject, []byte) bool {
	return func(_ im.Node, got bus.Subject, _ []byte) bool {
		if got == s && n > 0 {
			n--
			return true
		}
		return slices.Contains(others, got)
	}
}

// longestGap watches for a while and tells how long a feed had no owner at most.
func (w *world) longestGap(watch time.Duration) time.Duration {
	var since [im.Partitions]time.Time // zero: it has an owner
	longest := time.Duration(0)
	for end := time.Now().Add(watch); time.Now().Before(end); time.Sleep(time.Millisecond) {
		synctest.Wait()
		var served [im.Partitions]bool
		for _, n := range w.running() {
			n.mu.Lock()
			for f := range n.open {
				served[f] = true
			}
			n.mu.Unlock()
		}
		for _, f := range w.db.Feeds() {
			if served[f] {
				since[f] = time.Time{}
			} else if since[f].IsZero() {
				since[f] = time.Now()
			} else {
				longest = max(longest, time.Since(since[f]))
			}
		}
	}
	return longest
}

func TestDrainOfTheLastNodeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.settled(time.Second)
		if err := a.c.Drain(t.Context()); !errors.Is(err, ErrNobody) {
			t.Errorf("drain: %v, want ErrNobody", err)
		}
		if s := a.c.Status(); s.Nodes[0].Draining || a.has() != im.Partitions {
			t.Errorf("%d feeds, %+v", a.has(), s.Nodes[0])
		}
	})
}

// A node that leaves is not waited for, and may return at once.
func TestNodeThatLeavesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		b.end()
		if err := b.c.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.kill()
		if took := w.settled(2 * time.Second); took > lookEvery+gather {
			t.Errorf("succeeded after %v", took)
		}
		began := time.Now()
		w.start("b", nil)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("join took %v", took)
		}
		w.even(5 * time.Second)
	})
}

func TestJoinMovesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.three()
		before := w.db.all()
		most := 0
		w.planned.Store(true)
		d := w.start("d", nil)
		for range 4000 {
			for _, n := range w.running() {
				most = max(most, n.moving())
			}
			if n := d.has(); n > 0 && time.Since(d.c.began) < settleTime {
				t.Fatalf("%d feeds before the joiner has settled", n)
			}
			time.Sleep(time.Millisecond)
		}
		w.even(time.Second)
		moved := 0
		for f, h := range w.db.all() {
			moved += int(h.Epoch - before[f].Epoch)
		}
		t.Logf("%d feeds moved, %d to the joiner; at most %d at a time", moved, d.has(), most)
		if moved > d.has()+12 || most > maxMoving || most == 0 {
			t.Errorf("%d feeds moved, %d to the joiner; at most %d at a time", moved, d.has(), most)
		}
	})
}

// A node that dies again and again carries its part along less and less often.
func TestFlappingNodeCausesNoThrashing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.three()
		before := w.db.epochs()
		w.nodes["b"].kill()
		var moved []int
		for range 10 {
			time.Sleep(4 * time.Second)
			moved = append(moved, w.db.epochs()-before)
			before += moved[len(moved)-1]
			b := w.start("b", nil)
			time.Sleep(5 * time.Second)
			b.kill()
		}
		w.settled(5 * time.Second)
		t.Logf("takeovers of each of 10 restarts in 2 minutes: %v", moved)
		if rest := moved[4:]; slices.Max(rest) > 0 {
			t.Errorf("takeovers of each restart: %v; none wanted from the fifth on", moved)
		}
		w.start("b", nil)
		w.even(time.Minute)
	})
}

func TestSameIDTwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("a", nil)
		w.settled(time.Second)
		w.net = localbus.New() // another machine
		twin := w.make("a", nil)
		err := twin.c.Join(t.Context())
		if !errors.Is(err, ErrTwin) || !strings.Contains(err.Error(), "ws://a") {
			t.Errorf("join: %v, want ErrTwin and where it runs", err)
		}
	})
}

// Two processes that start with one id at the same moment: one of them is it.
func TestSameIDTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.make("a", nil)
		w.net = localbus.New()
		b := w.make("a", nil)
		errs := make(chan error, 2)
		go func() { errs <- a.c.Join(t.Context()) }()
		go func() { errs <- b.c.Join(t.Context()) }()
		one, two := <-errs, <-errs
		if (one == nil) == (two == nil) || !errors.Is(errors.Join(one, two), ErrTwin) {
			t.Errorf("joined with %v and %v; want one ErrTwin", one, two)
		}
		a.kill()
	})
}

// A process that was stopped, and whose id another one has taken, ends.
func TestStoppedNodeEndsWhenItsIDIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := w.start("a", nil)
		w.settled(time.Second)
		old.conn.gate.close()
		w.net = localbus.New()
		w.start("a", nil)
		w.settled(time.Second)
		old.conn.gate.open()
		time.Sleep(3 * time.Second)
		select {
		case err := <-old.ended:
			if !errors.Is(err, ErrTwin) {
				t.Errorf("ended with %v, want ErrTwin", err)
			}
		default:
			t.Error("goes on")
		}
		w.settled(time.Second)
		old.kill()
	})
}

// Two clusters with one database, or one whose bus is cut in two: a node that
// comes is refused before it serves anybody.
func TestJoinWithoutPeersOnTheBusIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("a", nil)
		w.settled(time.Second)
		net := w.net
		w.net = localbus.New()
		b := w.make("b", nil)
		began := time.Now()
		err := b.c.Join(t.Context())
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), ": a are alive") {
			t.Errorf("join: %v, want ErrUnreachable and who", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("refused after %v", took)
		}
		b.kill()

		// One that may wait does, until the bus is whole.
		w.net = net
		b = w.make("b", func(o *Options) { o.Patient = true })
		a := w.nodes["a"]
		w.cut(a, b, true)
		joined := make(chan error, 1)
		go func() { joined <- b.c.Join(t.Context()) }()
		time.Sleep(20 * time.Second)
		select {
		case err := <-joined:
			t.Fatalf("joined without a peer: %v", err)
		default:
		}
		w.cut(a, b, false)
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		b.run()
		w.even(5 * time.Second)
	})
}

// Rows of processes that died with nobody to see it hold nobody up for long.
func TestStartBehindACrashOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, n := range []*node{w.start("a", nil), w.start("b", nil)} {
			defer n.kill()
		}
		w.even(5 * time.Second)
		w.nodes["a"].kill()
		w.nodes["b"].kill()
		began := time.Now()
		w.start("c", nil)
		w.settled(time.Second)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestJoinSaysThatTheDatabaseIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.down = true
		n := w.make("a", nil)
		began := time.Now()
		err := n.c.Join(t.Context())
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != slowStore {
			t.Errorf("join: %v after %v, want the end of a deadline after %v", err, took, slowStore)
		}
	})
}

func TestJoinWaitsForADatabaseThatAnswersLate(t *testing.T) {
	for _, away := range []func(d *database, away bool){
		func(d *database, away bool) { d.down = away },
		func(d *database, away bool) { d.stalled = away },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.db.set(func(d *database) { away(d, true) })
			n := w.make("a", nil)
			time.AfterFunc(slowStore-5*time.Second, func() { w.db.set(func(d *database) { away(d, false) }) })
			if err := n.c.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tries, most := w.log.count("the database does not answer in time"), int(slowStore/lookEvery); tries == 0 || tries > most {
				t.Errorf("the log says %d times what the node waits for, want at most %d", tries, most)
			}
			n.run()
			w.even(5 * time.Second)
		})
	}
}

func TestClockThatDiffersIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start("a", nil)
		w.start("b", func(o *Options) { o.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
		w.even(5 * time.Second)
		time.Sleep(time.Minute)
		if n := w.log.count("clocks differ"); n != 2 {
			t.Errorf("said %d times, want once at each\n%s", n, w.log)
		}
		if got := w.nodes["a"].c.Status().Nodes[1].Skew; got > -59*time.Minute || got < -61*time.Minute {
			t.Errorf("skew of b is %v", got)
		}
		if got := w.db.epochs(); got > im.Partitions*3/2+12 {
			t.Errorf("%d takeovers", got)
		}
	})
}

func TestRolesDecideWhoOwnsAndWhoIsConnectedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		edge := w.start("edge", func(o *Options) { o.Roles = Gateway })
		time.Sleep(3 * time.Second)
		if edge.has() != 0 {
			t.Fatalf("a gateway has %d feeds", edge.has())
		}
		w.start("a", func(o *Options) { o.Roles = Conv | API })
		w.settled(3 * time.Second)
		if edge.has() != 0 {
			t.Errorf("a gateway has %d feeds", edge.has())
		}
		w.start("edge2", func(o *Options) { o.Roles = Gateway })
		time.Sleep(2 * time.Second)
		first := map[im.Node]int{}
		for i := range 1000 {
			u := im.Account{Tenant: 1, User: im.User(fmt.Sprintf("u%d", i))}
			list := edge.c.Gateways(u)
			if len(list) != 2 || list[0].Addresses[0] != "ws://"+string(list[0].Node) {
				t.Fatalf("gateways for %s: %+v", u, list)
			}
			if other := w.nodes["a"].c.Gateways(u); !slices.EqualFunc(list, other, func(a, b Place) bool { return a.Node == b.Node }) {
				t.Fatalf("for %s: %v at one node, %v at another", u, list, other)
			}
			first[list[0].Node]++
		}
		if first["edge"] < 400 || first["edge2"] < 400 {
			t.Errorf("first choices: %v", first)
		}
		if err := edge.c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for i := range 100 {
			list := w.nodes["a"].c.Gateways(im.Account{Tenant: 1, User: im.User(fmt.Sprintf("u%d", i))})
			if len(list) != 2 || list[0].Node != "edge2" || !list[1].Draining {
				t.Fatalf("gateways with one draining: %+v", list)
			}
		}
	})
}

func TestRolesAreReadAsTheyAreWritten(t *testing.T) {
	for r := Roles(1); r <= AllRoles; r++ {
		if got, err := ParseRoles(r.String()); got != r || err != nil {
			t.Errorf("%d is %q, which reads as %d, %v", r, r, got, err)
		}
	}
	for _, s := range []string{"", "conv,", "owner"} {
		if r, err := ParseRoles(s); err == nil {
			t.Errorf("%q reads as %v", s, r)
		}
	}
}

func TestLostFeedIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.three()
		before := w.db.all()
		// Somebody takes a feed over and does not serve it: its owner finds out
		// by a commit.
		if _, _, err := w.nodes["a"].conn.Takeover(t.Context(), 7, 12345); err != nil {
			t.Fatal(err)
		}
		w.settled(2 * time.Second)
		if h := w.db.all()[7]; h.Holder != before[7].Holder || h.Epoch != before[7].Epoch+2 {
			t.Errorf("feed 7 was %+v, is %+v", before[7], h)
		}
	})
}

func TestFeedThatDoesNotOpenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.frozen = false
		a := w.start("a", nil)
		w.settled(time.Second)
		var tries atomic.Int32
		a.mu.Lock()
		a.refuse = func(f store.Feed) bool {
			if f == 3 {
				tries.Add(1)
			}
			return f == 3
		}
		a.mu.Unlock()
		a.mu.Lock()
		e := a.open[3]
		delete(a.open, 3)
		a.mu.Unlock()
		a.c.Lost(3, e)
		time.Sleep(10 * time.Second)
		if n := tries.Load(); n < 5 || n > 25 {
			t.Errorf("%d tries in 10 s", n)
		}
		if s := a.c.Status(); !slices.Equal(s.Unowned, []store.Feed{3}) {
			t.Errorf("without an owner: %v", s.Unowned)
		}
		a.mu.Lock()
		a.refuse = nil
		a.mu.Unlock()
		w.settled(2 * time.Second)
	})
}

// The store may answer a look only when the node has been told to stop.
func TestLookThatOutlivesRunOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.db.frozen = false
		a := w.start("a", nil)
		w.settled(time.Second)
		a.mu.Lock()
		a.refuse = func(f store.Feed) bool { return f == 3 }
		e := a.open[3]
		delete(a.open, 3)
		a.mu.Unlock()
		a.c.Lost(3, e)
		time.Sleep(reopenWait)
		a.conn.gate.close()
		time.Sleep(2 * reopenWait) // and 3 may be tried again
		var under sync.WaitGroup
		under.Go(func() { a.c.look(context.Background()) })
		synctest.Wait()
		under.Go(a.end)
		synctest.Wait()
		a.conn.gate.open()
		under.Wait()
		if p := a.c.own[3].phase; p != none {
			t.Errorf("feed 3 is in phase %d", p)
		}
	})
}

func TestF27SealedFeedIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := store.Holder{State: store.FeedSealed}
		w.db.feeds[9] = h
		a := w.start("a", nil)
		time.Sleep(3 * time.Second)
		if got := w.db.all()[9]; got != h {
			t.Errorf("the sealed feed was taken over: %+v", got)
		}
		w.db.set(func(d *database) {
			d.feeds[8] = store.Holder{Epoch: d.feeds[8].Epoch, Holder: d.feeds[8].Holder, State: store.FeedSealed}
		})
		e, err := a.c.Mine(t.Context(), []store.Feed{7, 8, 9})
		if err != nil || e[0] == 0 || e[1] != 0 || e[2] != 0 {
			t.Errorf("mine: %v, %v; want the first only", e, err)
		}
		w.db.set(func(d *database) { d.feeds[9] = store.Holder{} })
		if _, _, err := a.c.Wait(t.Context(), 9, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// All who ask while a read is under way share one that begins afterwards.
func TestF19DecidingReadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.settled(time.Second)
		a.mu.Lock()
		a.quiet = true
		a.mu.Unlock()
		time.Sleep(time.Second)
		before := w.db.called("holders")
		answers := make(chan error, 1000)
		for i := range cap(answers) {
			go func() {
				time.Sleep(time.Duration(i%4) * 500 * time.Microsecond)
				e, err := a.c.Mine(t.Context(), []store.Feed{store.Feed(i % 256), 5})
				if err == nil && (e[0] != 1 || e[1] != 1) {
					err = fmt.Errorf("epochs %v", e)
				}
				answers <- err
			}()
		}
		for range cap(answers) {
			if err := <-answers; err != nil {
				t.Fatal(err)
			}
		}
		if n := w.db.called("holders") - before; n != 2 {
			t.Errorf("%d reads, want one for the first to come and one for the rest", n)
		}
		// One that is asked while another process takes over does not get the
		// answer of the read before.
		first, second := make(chan im.Epoch, 1), make(chan im.Epoch, 1)
		mine := func(ch chan im.Epoch) {
			e, err := a.c.Mine(t.Context(), []store.Feed{5})
			if err != nil {
				t.Error(err)
			}
			ch <- e[0]
		}
		go mine(first)
		time.Sleep(1900 * time.Microsecond)
		w.db.set(func(d *database) {
			d.answered = func() { // the answer to the first is on its way
				h := d.feeds[5]
				h.Holder, h.Epoch = 99, h.Epoch+1
				d.feeds[5], d.answered = h, nil
				go mine(second)
			}
		})
		if e := <-first; e != 1 {
			t.Errorf("epoch %d, want 1", e)
		}
		if e := <-second; e != 0 {
			t.Errorf("epoch %d, want none", e)
		}
	})
}

func TestWaitReturnsWhenTheFeedIsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, _, _ := w.three()
		feed := store.Feed(0)
		for a.open[feed] == 0 {
			feed++
		}
		_, e, _ := a.c.Route(feed)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := a.c.Wait(ctx, feed, e); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		moved := make(chan im.Node, 1)
		go func() { n, _, _ := a.c.Wait(t.Context(), feed, e); moved <- n }()
		a.c.Learn(feed, "x", e) // not news
		if n, _, _ := a.c.Route(feed); n != "a" {
			t.Errorf("%s is believed in the same epoch", n)
		}
		if err := a.c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := <-moved; n == "a" {
			t.Error("the feed has not moved")
		}
		a.c.Learn(feed, "x", e+100)
		if n, got, ok := a.c.Route(feed); n != "x" || got != e+100 || !ok {
			t.Errorf("route %s %d %v", n, got, ok)
		}
	})
}

// An owner that hears of a higher epoch closes the feed.
func TestOwnerThatIsToldOfAHigherEpochCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, _ := w.three()
		a.mu.Lock()
		a.quiet = true
		a.mu.Unlock()
		feed := store.Feed(0)
		for a.open[feed] == 0 {
			feed++
		}
		if _, err := b.takeover(t.Context(), feed); err != nil {
			t.Fatal(err)
		}
		_, e, _ := a.c.Route(feed)
		a.c.Learn(feed, "b", e+1)
		time.Sleep(10 * time.Millisecond)
		a.mu.Lock()
		defer a.mu.Unlock()
		if _, ok := a.open[feed]; ok {
			t.Error("the feed is open still")
		}
		b.mu.Lock()
		delete(b.open, feed)
		b.mu.Unlock()
	})
}
