package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

var (
	seed  = flag.Uint64("seed", 0, "replay one random schedule")
	seeds = flag.Int("seeds", 1, "how many random schedules; `make long` runs 200")
)

// Random faults happen to four nodes for two minutes. Nobody opens a feed that is
// open there, and no epoch has two owners. 10 s after the last fault every feed has
// one owner, whom the store takes for its holder and all nodes know.
func TestRandomSchedules(t *testing.T) {
	first, n := uint64(1), *seeds
	if *seed != 0 {
		first, n = *seed, 1
	}
	for s := first; s < first+uint64(n); s++ {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				(&schedule{world: newWorld(t), joins: map[im.Node]chan struct{}{}, dice: rand.New(rand.NewPCG(s, s))}).run()
			})
		})
	}
}

// schedule is a world with bad luck.
type schedule struct {
	*world
	dice  *rand.Rand
	story []string
	joins map[im.Node]chan struct{} // closed when a node that starts has started, or not
}

var ids = []im.Node{"a", "b", "c", "d"}

func (s *schedule) run() {
	of := s.dice.IntN(50)
	s.doomed = func(f store.Feed, e im.Epoch) bool { return (int(f)+7*int(e))%50 == of }
	s.three()
	for range 40 {
		s.fault()
		time.Sleep(time.Duration(s.dice.IntN(6000)) * time.Millisecond)
	}
	s.heal()
	for _, j := range s.joins {
		<-j // those that began before fail, or not
	}
	for i, id := range ids {
		if i == 0 || s.dice.IntN(2) == 0 {
			s.launch(id)
		}
	}
	for _, j := range s.joins {
		<-j
	}
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if p := s.problem(); p != "" {
		s.t.Fatalf("10 s behind the last fault: %s\n%q\n%s", p, s.story, s.log)
	}
	s.even(time.Minute)
	s.t.Logf("%d nodes, %d takeovers", len(s.running()), s.db.epochs())
}

func (s *schedule) say(format string, args ...any) {
	s.story = append(s.story, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// fault does one thing to the world, or undoes one.
func (s *schedule) fault() {
	nodes := slices.DeleteFunc(s.running(), func(n *node) bool { return !n.started.Load() })
	id := ids[s.dice.IntN(len(ids))]
	if len(nodes) == 0 {
		s.launch(id)
		return
	}
	n, other := nodes[s.dice.IntN(len(nodes))], nodes[s.dice.IntN(len(nodes))]
	switch s.dice.IntN(15) {
	case 0:
		s.say("kill %s", n.id)
		n.kill()
	case 1, 2, 11, 12, 13:
		s.launch(id)
	case 3:
		s.say("stop %s", n.id)
		n.conn.gate.close()
	case 4, 5:
		for _, n := range nodes {
			n.conn.gate.open()
		}
		s.say("all go on")
	case 6:
		cut := s.dice.IntN(2) == 0
		s.say("cut %s %s: %v", n.id, other.id, cut)
		if s.dice.IntN(2) == 0 {
			n.bus.Cut(other.id, cut) // one way
		} else {
			s.cut(n, other, cut)
		}
	case 7:
		cut := s.dice.IntN(2) == 0
		s.say("%s loses the database: %v", n.id, cut)
		n.conn.set(func(c *connection) { c.cut = cut })
	case 8:
		down, frozen := s.dice.IntN(3) == 0, s.dice.IntN(3) == 0
		s.say("database down %v, frozen %v", down, frozen)
		s.db.set(func(d *database) { d.down, d.frozen = down, frozen })
	case 9:
		r := bustest.Rules{Seed: s.dice.Uint64(), Lose: s.dice.Float64() / 2, Duplicate: s.dice.Float64() / 4, Delay: s.dice.Float64() / 2, MaxDelay: 2 * time.Second}
		s.say("bad bus at %s", n.id)
		n.bus.SetRules(r)
	case 14:
		d := time.Duration(s.dice.IntN(2)*s.dice.IntN(1000)) * time.Millisecond
		s.say("the database is %v farther from %s", d, n.id)
		far(d, n)
	case 10:
		s.say("drain %s", n.id)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := n.c.Drain(ctx)
		cancel()
		if err == nil && s.dice.IntN(2) == 0 {
			n.c.Resume()
			s.say("resumed %s", n.id)
		} else if err == nil {
			n.kill()
			s.say("drained %s", n.id)
		}
	}
}

// launch starts a node, if it does not run.
func (s *schedule) launch(id im.Node) {
	s.mu.Lock()
	_, there := s.nodes[id]
	s.mu.Unlock()
	if there {
		return
	}
	s.say("start %s", id)
	n := s.make(id, func(o *Options) { o.Patient = true })
	joined := make(chan struct{})
	s.joins[id] = joined
	n.done.Go(func() {
		defer close(joined)
		err := n.c.Join(context.Background())
		switch {
		case err == nil:
			n.run()
		case errors.Is(err, ErrTwin):
			s.t.Errorf("join %s: %v", id, err)
		default:
			n.stop()
			<-n.left
			s.mu.Lock()
			delete(s.nodes, id)
			s.mu.Unlock()
		}
	})
}

// heal undoes everything.
func (s *schedule) heal() {
	s.say("heal")
	s.db.set(func(d *database) { d.down, d.frozen = false, false })
	nodes := s.running()
	for _, n := range nodes {
		n.conn.set(func(c *connection) { c.cut, c.far = false, 0 })
		n.conn.gate.open()
		n.bus.SetRules(bustest.Rules{})
		for _, id := range ids {
			n.bus.Cut(id, false)
			n.bus.hide(id, false)
		}
	}
}
