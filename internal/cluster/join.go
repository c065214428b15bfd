package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

const (
	joinWait = 5 * time.Second // how long Join looks for the others on the bus
	// slowStore is how long Join waits for a database that does not answer in time: on a busy machine it
	// answers late.
	slowStore = 30 * time.Second
)

// Join makes this node known, before any client is served and while the bus runs. Errors that the operator has
// to resolve: ErrTwin if another process with this id is alive; ErrUnreachable if there are nodes alive and
// none of them is on the bus; that of Databases.Behind. Other errors are those of the store and of ctx.
//
// It returns at once if the id is new, and another node is on the bus or there is no other node. Rows
// of dead processes cost 2 s, because these might be alive. First it asks the peers on the bus for
// their knowledge of the databases: this node may see a former primary, in which all nodes look dead.
func (c *Cluster) Join(ctx context.Context) error {
	if c.o.Alone {
		return nil
	}
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := map[im.Node]bool{}
	for {
		silent := c.askSeen(ctx, told)
		rows, err := c.rows(ctx)
		waited := time.Since(began)
		if behind := c.behind(); behind != nil {
			if waited >= joinWait && !c.o.Patient {
				return fmt.Errorf("join as %s: %w", c.self, behind)
			}
			if err := c.nextLook(ctx, tick); err != nil {
				return err
			}
			continue
		}
		if (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrStalled)) && ctx.Err() == nil &&
			waited < slowStore {
			c.log.Warn("the database does not answer in time; the node waits for it", "waited",
				waited.Round(time.Millisecond), "err", err)
			if err := c.nextLook(ctx, tick); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("join as %s: %w", c.self, err)
		}
		c.mu.Lock()
		c.absorbLocked(rows, time.Now(), true)
		twin, others, reachable := c.aroundLocked()
		c.mu.Unlock()
		switch {
		case twin != nil && twin.moved:
			return fmt.Errorf("join as %s: %w", c.self, c.twin(twin.rec))
		case twin == nil && (reachable || len(others) == 0) && (!silent || waited >= joinWait):
			return c.enter(ctx, rows[c.self], len(others) == 0)
		case twin == nil && waited >= joinWait && !c.o.Patient:
			return fmt.Errorf(
				"join as %s: %w: %s are alive in this database, and none of them answered on the bus for %s: check that this node uses the same bus and can reach them, or stop them if they belong to another cluster",
				c.self, ErrUnreachable, strings.Join(others, ", "), waited.Round(time.Second))
		}
		if err := c.nextLook(ctx, tick); err != nil {
			return err
		}
	}
}

// nextLook waits until Join looks again. It returns the error of ctx if that ends first.
func (c *Cluster) nextLook(ctx context.Context, tick *time.Ticker) error {
	select {
	case <-tick.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("join as %s: %w", c.self, context.Cause(ctx))
	}
}

// askTime bounds a peer's answer about the databases.
const askTime = time.Second

// askSeen asks the peers on the bus for their knowledge of the databases, except those
// in told, which have answered before. It tells whether one of them stayed silent.
func (c *Cluster) askSeen(ctx context.Context, told map[im.Node]bool) (silent bool) {
	if c.o.Databases == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	peers := slices.DeleteFunc(c.bus.Peers(), func(n im.Node) bool { return n == c.self || told[n] })
	answers := make([]*storepb.Seen, len(peers))
	var wg sync.WaitGroup
	for i, n := range peers {
		wg.Go(func() {
			var s storepb.Seen
			if b, err := c.bus.Request(ctx, n, seen, nil); err == nil && s.UnmarshalVT(b) == nil {
				answers[i] = &s
			}
		})
	}
	wg.Wait()
	for i, n := range peers {
		if answers[i] == nil {
			silent = true
			continue
		}
		told[n] = true
		c.hear(n, answers[i])
	}
	return silent
}

// seen returns this node's answer to askSeen.
func (c *Cluster) seen() []byte {
	if c.o.Databases == nil {
		return nil
	}
	b, err := c.o.Databases.Seen().MarshalVT()
	im.Assert(err == nil, "what is known of the databases does not encode")
	return b
}

// hear takes a peer's knowledge of the databases.
func (c *Cluster) hear(n im.Node, s *storepb.Seen) {
	if c.o.Databases != nil && s != nil {
		c.o.Databases.Hear(string(n), s)
	}
}

// behind returns the reason why the databases must not be used.
func (c *Cluster) behind() error {
	if c.o.Databases == nil {
		return nil
	}
	return c.o.Databases.Behind()
}

// aroundLocked returns the processes that are alive by their rows: the one with this node's id
// (nil: none) and the ids of the others. reachable says whether one of the others is on the bus.
func (c *Cluster) aroundLocked() (twin *peer, others []string, reachable bool) {
	peers := c.bus.Peers()
	for _, p := range c.peers {
		switch {
		case !p.alive():
		case p.node == c.self:
			twin = p
		default:
			others = append(others, string(p.node))
			reachable = reachable || !p.heard.IsZero() || slices.Contains(peers, p.node)
		}
	}
	slices.Sort(others)
	return twin, others, reachable
}

// enter writes the first row of this process in the place of was, the row that is there;
// nil: none. With alone, and if nobody has entered meanwhile, this node takes feeds at once.
func (c *Cluster) enter(ctx context.Context, was []byte, alone bool) error {
	c.row = was
	if err := c.beat(ctx); err != nil {
		return fmt.Errorf("join as %s: %w", c.self, err)
	}
	if !alone {
		return nil
	}
	// Of two nodes that enter at the same time, at least one sees the other's row.
	rows, err := c.rows(ctx)
	if err != nil {
		return fmt.Errorf("join as %s: %w", c.self, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absorbLocked(rows, time.Now(), true)
	_, others, _ := c.aroundLocked()
	c.taking = len(others) == 0 && c.o.Roles&Conv != 0
	return nil
}

// Leave deletes this node's row from the store, after Run, so that the others need not wait until it expires.
func (c *Cluster) Leave(ctx context.Context) error {
	if c.o.Alone || c.row == nil {
		return nil
	}
	err := c.store.Update(ctx, []store.RecordPut{{Table: store.Nodes, Key: []byte(c.self), Check: true, Was: c.row}})
	if err != nil {
		return fmt.Errorf("leave as %s: %w", c.self, err)
	}
	c.row = nil
	return nil
}
