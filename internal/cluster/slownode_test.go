package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// far moves nodes away from the database, or back.
func far(d time.Duration, nodes ...*node) {
	for _, n := range nodes {
		n.conn.set(func(c *connection) { c.far = d })
	}
}

func TestSlowNodeGivesItsFeedsUp(t *testing.T) {
	for _, delay := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a, b, c := w.three()
			far(delay, b)
			began := time.Now()
			giveUp(b)
			w.settled(5 * time.Second)
			took := time.Since(began)
			t.Logf("%v: all feeds are with the others after %v", delay, took)
			if limit := slowAfter + lookEvery + 2*delay + 100*time.Millisecond; took > limit {
				t.Errorf("%v: it gave them up after %v, want %v", delay, took, limit)
			}
			time.Sleep(time.Second)
			if !isSlow(b) || isSlow(a) || isSlow(c) {
				t.Error("the wrong one knows that it is slow")
			}
			for _, n := range []*node{a, b, c} {
				if last := n.c.Gateways(im.Account{User: "eve"})[2]; last.Node != b.id {
					t.Errorf("%s sends clients to %s last, want %s", n.id, last.Node, b.id)
				}
			}
			before := w.db.epochs()
			time.Sleep(20 * time.Second)
			if n := w.db.epochs() - before; n != 0 {
				t.Errorf("%d takeovers while it stays slow", n)
			}
			far(0, b)
			time.Sleep(2 * lookEvery)
			w.even(5 * time.Second)
			if isSlow(b) {
				t.Error("it is slow still")
			}
		})
	}
}

// One read of another that is late does not keep a slow node from giving its feeds up.
func TestReadOfAnotherThatIsLateOnceDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		far(300*time.Millisecond, b)
		began := time.Now()
		for _, n := range []*node{a, c} {
			far(100*time.Millisecond, n)
			time.Sleep(lookEvery)
			far(0, n)
		}
		giveUp(b)
		if took, limit := time.Since(began), slowAfter+2*lookEvery; took > limit {
			t.Errorf("it gave its feeds up after %v, want %v", took, limit)
		}
	})
}

// The commits that a slow node has begun keep its feeds for no longer than slowClose.
func TestSlowNodeWaitsForItsCommitsForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		b.mu.Lock()
		b.flush = callWait
		b.mu.Unlock()
		far(300*time.Millisecond, b)
		began := time.Now()
		giveUp(b)
		if took, limit := time.Since(began), slowAfter+2*lookEvery+slowClose; took > limit {
			t.Errorf("it gave its feeds up after %v, want %v", took, limit)
		}
		w.settled(5 * time.Second)
	})
}

func TestNobodyIsSlowBesideOthersThatAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.three()
		before := w.db.epochs()
		far(300*time.Millisecond, a, b, c)
		time.Sleep(20 * time.Second)
		far(0, c)
		time.Sleep(20 * time.Second)
		if n := w.db.epochs() - before; n != 0 {
			t.Errorf("%d takeovers while the database is late for two of three", n)
		}
		b.c.mu.Lock()
		b.c.draining = true // and so is no help
		b.c.mu.Unlock()
		far(0, b)
		time.Sleep(5 * time.Second)
		if !isSlow(a) {
			t.Error("a is not slow beside c, which alone takes feeds")
		}
	})
}

func TestSlowReadNowAndThenMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		_, b, _ := w.three()
		before := w.db.epochs()
		for range 20 {
			far(700*time.Millisecond, b)
			time.Sleep(lookEvery)
			far(0, b)
			time.Sleep(2 * lookEvery)
		}
		if n := w.db.epochs() - before; n != 0 {
			t.Errorf("%d takeovers because of reads that were slow now and then", n)
		}
	})
}

// giveUp waits until a node is slow and owns nothing, for a minute of the bubble at most.
func giveUp(n *node) {
	for began := time.Now(); (!isSlow(n) || n.has() > 0) && time.Since(began) < time.Minute; {
		time.Sleep(5 * time.Millisecond)
	}
}

// isSlow tells whether n says of itself that it is slow.
func isSlow(n *node) bool {
	return slices.ContainsFunc(n.c.Status().Nodes, func(s NodeStatus) bool { return s.Node == n.id && s.Slow })
}
