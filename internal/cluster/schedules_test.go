package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// F5: a database that has lost its newest commits counts epochs again. Nobody
// clings to what was heard of them.
func TestF5DatabaseThatWentBackIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		past := w.db.all()
		_, b, _ := w.three()
		b.kill() // many a feed is in its third epoch
		w.even(5 * time.Second)
		w.mu.Lock()
		clear(w.opened)
		w.mu.Unlock()
		w.db.set(func(d *database) {
			d.feeds = past
			for f := range past {
				if f%2 == 0 {
					d.feeds[f] = store.Holder{Epoch: 1, Holder: 77}
				}
			}
		})
		was := w.db.epochs()
		w.settled(10 * time.Second)
		if n := w.db.epochs() - was; n > 3*im.Partitions/2 {
			t.Errorf("%d takeovers of %d feeds", n, im.Partitions)
		}
		w.start("b", nil)
		w.even(10 * time.Second)
	})
}

// F28: unknown fields of a newer node are no reason to distrust it, and all see who runs
// what.
func TestF28NodesOfTwoReleasesRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.start("b", func(o *Options) { o.Release = "v2" })
		w.even(5 * time.Second)
		c := storepb.Node{Incarnation: 5, Version: 1, Release: "v3", Level: store.FormatLevel + 1}
		row, err := c.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		row = append(row, 0xf8, 0x07, 1) // field 127
		if err := a.conn.Update(t.Context(), []store.RecordPut{{Table: store.Nodes, Key: []byte("c"), Value: row}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		var got []string
		for _, n := range a.c.Status().Nodes {
			got = append(got, fmt.Sprintf("%s %s %d %v", n.Node, n.Release, n.Level, n.Alive))
		}
		if want := []string{"a v1 1 true", "b v2 1 true", "c v3 2 true"}; !slices.Equal(got, want) {
			t.Errorf("nodes %q, want %q", got, want)
		}
	})
}

func TestRowsOfNodesLongGoneAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		gone := b.c.Incarnation()
		b.kill()
		w.settled(5 * time.Second)
		for _, n := range []*node{a, c} {
			n.c.mu.Lock()
			n.c.peers[gone].silent = forgetAfter - 5*time.Second
			n.c.mu.Unlock()
		}
		time.Sleep(4 * time.Second)
		if s := a.c.Status(); len(s.Nodes) != 3 || s.Nodes[1].Alive || s.Nodes[1].Silent < forgetAfter-2*time.Second {
			t.Errorf("before an hour is over: %+v", s.Nodes)
		}
		time.Sleep(3 * time.Second)
		if s := a.c.Status(); len(s.Nodes) != 2 {
			t.Errorf("behind it: %+v", s.Nodes)
		}
	})
}

func TestFewFeedsMoveAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.planned.Store(true)
		a := w.start("a", nil)
		w.settled(time.Second)
		w.start("b", nil)
		most := 0
		for range 3000 {
			most = max(most, a.moving())
			time.Sleep(time.Millisecond)
		}
		w.even(time.Second)
		if most != maxMoving {
			t.Errorf("%d feeds of 128 moved at a time, want %d", most, maxMoving)
		}
	})
}

// Heartbeats that are late, of a node that the bus has, are no reason.
func TestNodeOnTheBusMayBeLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		b.set(func(n *node) { n.quiet = true })
		before := w.db.epochs()
		b.conn.set(func(c *connection) { c.cut = true })
		time.Sleep(3500 * time.Millisecond)
		b.conn.set(func(c *connection) { c.cut = false })
		time.Sleep(5 * time.Second)
		if n := w.db.epochs() - before; n != 0 {
			t.Errorf("%d takeovers\n%s", n, w.log)
		}
	})
}

func TestFeedOnItsWayHasNoRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		b.set(func(n *node) { n.flush = 300 * time.Millisecond })
		drained := make(chan error, 1)
		go func() { drained <- b.c.Drain(t.Context()) }()
		time.Sleep(100 * time.Millisecond)
		sealed := 0
		for _, f := range w.db.Feeds() {
			if n, _, ok := b.c.Route(f); n == "b" && !ok {
				sealed++
			}
		}
		if sealed != maxMoving {
			t.Errorf("%d feeds are on their way, want %d", sealed, maxMoving)
		}
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
	})
}

// A takeover of which nothing is heard names a holder that does not serve.
func TestFeedIsFreeThoughTheStoreNamesALiveHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := feedOf("b", "a", "b")
		a := w.make("a", nil)
		a.blind = func(g store.Feed) bool { return f == g }
		if err := a.c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.run()
		time.Sleep(time.Second)
		if h := w.db.all()[f]; h.Holder != a.c.Incarnation() || len(a.c.Status().Unowned) != 1 {
			t.Fatalf("feed %d is %+v", f, h)
		}
		w.start("b", nil)
		w.even(5 * time.Second)
	})
}

// An owner that throws a feed away, when another one should have it and cannot
// be told, says so by its row.
func TestLostFeedIsFoundByItsNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f := feedOf("b", "a", "b")
		a := w.start("a", nil)
		w.settled(time.Second)
		b := w.make("b", nil)
		if err := b.c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.cut(a, b, true)
		b.run()
		time.Sleep(5 * time.Second)
		if b.has() != 0 {
			t.Fatalf("b has %d feeds", b.has())
		}
		a.mu.Lock()
		e := a.open[f]
		delete(a.open, f)
		a.mu.Unlock()
		a.c.Lost(f, e)
		time.Sleep(3 * time.Second)
		if b.has() != 1 {
			t.Errorf("b has %d feeds, want the one that a lost", b.has())
		}
	})
}

// feedOf finds a feed that should be owner's among nodes.
func feedOf(owner im.Node, nodes ...im.Node) store.Feed {
	for f, n := range share(allFeeds(), nodes) {
		if n == owner {
			return f
		}
	}
	panic("no feed")
}

// An owner commits as soon as it is there, so it may be lost before the cluster knows that
// the feed is open. Nobody looked after such a feed any more.
func TestFeedThatIsLostBeforeItIsOpenIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.doomed = func(_ store.Feed, e im.Epoch) bool { return e == 1 }
		a := w.start("a", nil)
		w.settled(5 * time.Second)
		if n := a.c.Losses.Load(); n != im.Partitions {
			t.Errorf("%d feeds were lost, want %d", n, im.Partitions)
		}
	})
}

func TestTakeoverThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.make("a", nil)
		a.hang = func(f store.Feed) bool { return f == 3 }
		if err := a.c.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.run()
		time.Sleep(time.Second)
		a.set(func(n *node) { n.hang = nil })
		w.settled(6 * time.Second)
	})
}

// A cluster in which all nodes are draining still serves.
func TestNodesThatAllDrainKeepTheFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.start("a", nil), w.start("b", nil)
		w.even(5 * time.Second)
		if err := a.c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.c.Drain(t.Context()); !errors.Is(err, ErrNobody) {
			t.Errorf("drain of the last one: %v, want ErrNobody", err)
		}
		b.kill()
		w.settled(5 * time.Second)
		if a.has() != im.Partitions {
			t.Errorf("the node that drained has %d feeds", a.has())
		}
	})
}

// An owner that was away, and that nobody could succeed, is found again at once.
func TestRoutesReturnWithTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		edge := w.start("edge", func(o *Options) { o.Roles = Gateway })
		a := w.start("a", func(o *Options) { o.Roles = Conv })
		w.settled(5 * time.Second)
		a.set(func(n *node) { n.quiet = true })
		a.conn.gate.close()
		time.Sleep(5 * time.Second)
		if n := len(edge.c.Status().Unowned); n != im.Partitions {
			t.Errorf("%d feeds have no owner, want all", n)
		}
		a.conn.gate.open()
		if took := w.settled(5 * time.Second); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		// Its messages on the bus do not make up for its row.
		a.conn.set(func(c *connection) { c.cut = true })
		time.Sleep(10 * time.Second)
		if n := len(edge.c.Status().Unowned); n != im.Partitions {
			t.Errorf("%d feeds have no owner, want all", n)
		}
	})
}

// F19: an owner that has not noticed the takeover of its feed says that it owns it. This
// keeps no node from succeeding the new owner.
func TestF19ClaimsOfAnEarlierEpochDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		// With it no side has a majority, or a would find itself apart and give
		// its feeds up.
		edge := w.start("edge", func(o *Options) { o.Roles = Gateway })
		a.set(func(n *node) { n.quiet = true })
		for _, n := range []*node{b, c} {
			w.cut(a, n, true)
			w.cut(edge, n, true)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = a.c.Drain(ctx) }() // has nobody to hand anything to
		time.Sleep(2 * time.Second)
		f := feedOf("c", "b", "c")
		for g, n := range share(allFeeds(), []im.Node{"b", "c"}) {
			a.mu.Lock()
			if a.open[g] != 0 && n == "c" {
				f = g
			}
			a.mu.Unlock()
		}
		e, _, err := b.conn.Takeover(t.Context(), f, b.c.Incarnation())
		if err != nil {
			t.Fatal(err)
		}
		c.c.Learn(f, "b", e)
		b.kill()
		time.Sleep(5 * time.Second)
		if n, got, ok := c.c.Route(f); n != "c" || !ok || got <= e {
			t.Errorf("feed %d is at %q in epoch %d (%v), want c", f, n, got, ok)
		}
	})
}

// F14: a release that comes late, again, or to a node that is going opens
// nothing.
func TestF14StaleReleaseOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		f := feedOf("c", "a", "b", "c")
		if err := b.c.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := w.db.epochs()
		at, e, _ := a.c.Route(f)
		if at != "c" {
			t.Fatalf("feed %d is at %s", f, at)
		}
		for _, x := range []struct {
			to    im.Node
			epoch im.Epoch
		}{{"b", e}, {"a", e - 1}} {
			answer, err := releases.Ask(t.Context(), c.bus, x.to, &storepb.FeedEpoch{Feed: uint32(f), Epoch: uint64(x.epoch)})
			if err != nil || answer.Epoch != 0 {
				t.Errorf("%s answers %v, %v; want 0", x.to, answer, err)
			}
		}
		time.Sleep(time.Second)
		if n := w.db.epochs() - before; n != 0 {
			t.Errorf("%d takeovers", n)
		}
	})
}

// The next owner does not hear that a feed is free, and hears no beacon. It is told again
// every 300 ms, so it has the feed at the third try.
func TestALostHandOverIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		began := time.Now()
		b.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool {
			return s == beacon || s == release && time.Since(began) < 2*handOverTry
		}})
		w.planned.Store(true)
		drained := make(chan error, 1)
		go func() { drained <- b.c.Drain(t.Context()) }()
		gap := w.longestGap(4 * handOverTry)
		b.bus.SetRules(bustest.Rules{})
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
		if want := 2 * handOverTry; gap < want || gap > want+time.Millisecond { // the gap is measured by looks at each millisecond
			t.Errorf("a feed had no owner for %v, want %v", gap, want)
		}
		w.settled(0)
	})
}
