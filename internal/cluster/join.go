package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/store"
)

// joinWait is how long Join looks for the others on the bus.
const joinWait = 5 * time.Second

// Join makes this node known, before any client is served and while the bus
// runs. Errors that the operator has to resolve: ErrTwin when another process
// with this id is alive, ErrUnreachable when there are nodes alive and none of
// them is on the bus. Others are the store's, and ctx's.
//
// It takes no time when the id is new and a peer is there, or nobody. Rows of
// processes that died cost 2 s: so long they might be alive.
func (c *Cluster) Join(ctx context.Context) error {
	if c.o.Alone {
		return nil
	}
	began := time.Now()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		rows, err := c.rows(ctx)
		if err != nil {
			return fmt.Errorf("join as %s: %w", c.self, err)
		}
		c.mu.Lock()
		c.absorbLocked(rows, time.Now(), true)
		twin, others, reachable := c.aroundLocked()
		c.mu.Unlock()
		waited := time.Since(began)
		switch {
		case twin != nil && twin.moved:
			return fmt.Errorf("join as %s: %w", c.self, c.twin(twin.rec))
		case twin == nil && (reachable || len(others) == 0):
			return c.enter(ctx, rows[c.self], len(others) == 0)
		case twin == nil && waited >= joinWait && !c.o.Patient:
			return fmt.Errorf("join as %s: %w: %s are alive in this database, and none of them answered on the bus for %s: check that this node uses the same bus and can reach them, or stop them if they belong to another cluster",
				c.self, ErrUnreachable, strings.Join(others, ", "), waited.Round(time.Second))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("join as %s: %w", c.self, context.Cause(ctx))
		}
	}
}

// aroundLocked tells who else is alive by their rows: a process with this
// node's id, and others, and whether any of those is on the bus.
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

// enter writes the first row of this process in the place of was. If nobody
// else is there, feeds are taken at once.
func (c *Cluster) enter(ctx context.Context, was []byte, alone bool) error {
	c.row = was
	if err := c.beat(ctx); err != nil {
		return fmt.Errorf("join as %s: %w", c.self, err)
	}
	if !alone {
		return nil
	}
	// Another one that entered at the same time sees this row, or is seen.
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

// Leave takes this node's row out of the store, behind Run: the others need not
// find out that it is gone.
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
