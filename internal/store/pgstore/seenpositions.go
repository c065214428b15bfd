package pgstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// seen holds the known position of each feed: its highest durable commit, of this process or from other
// nodes.
type seen struct {
	pos [im.Partitions]atomic.Uint64
	at  *atomic.Pointer[placement] // which database a feed is in; nil in it: not known yet
}

// raise notes that a commit is durable.
func (s *seen) raise(f store.Feed, pos im.Pos) {
	for p := &s.pos[f]; ; {
		old := p.Load()
		if uint64(pos) <= old || p.CompareAndSwap(old, uint64(pos)) {
			return
		}
	}
}

func (s *seen) of(f store.Feed) im.Pos { return im.Pos(s.pos[f].Load()) }

func (s *seen) all() []im.Pos {
	all := make([]im.Pos, im.Partitions)
	for f := range all {
		all[f] = s.of(store.Feed(f))
	}
	return all
}

// missingCommits is a feed that is behind its known position.
type missingCommits struct {
	feed         store.Feed
	known, found im.Pos
}

// check compares the position found by a read with the one known before it began.
func (d *database) check(f store.Feed, before, found im.Pos) error {
	if found >= before {
		return nil
	}
	return d.lack([]missingCommits{{f, before, found}})
}

// refuteTime bounds the wait for the note in the databases at the end of a store.
const refuteTime = 3 * time.Second

// lack ends the store: commits that were acked are missing.
func (d *database) lack(feeds []missingCommits) error {
	proof := describe(feeds)
	if !d.out.halt(fmt.Errorf("%w: %w", store.ErrRewound, d.rewound(proof))) {
		return d.out.err()
	}
	defer d.out.end()
	ctx, cancel := context.WithTimeout(context.Background(), refuteTime)
	defer cancel()
	if err := d.refute(ctx, proof); err != nil {
		d.log.Error("note that commits are missing failed: the other nodes find out by themselves", "database", d.name,
			"err", err)
	}
	return d.out.err()
}

// refute records in the database that it is an earlier state of the store. From then on it takes no writes,
// until the history has another id. It waits for a transaction that holds a row of petrel.part; the next
// append of that writer is refused.
func (d *database) refute(ctx context.Context, proof string) error {
	conf := d.conf.ConnConfig.Config.Copy()
	conf.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c); err != nil {
			return err
		}
		s, err := readServerState(ctx, c)
		if err == nil && (s == nil || order(s.generation, d.need.Load()) < 0) {
			err = errBehind
		}
		return err
	}
	c, err := pgconn.ConnectConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // all is decided by then
	if r := c.ExecParams(ctx, `UPDATE petrel.store SET refuted = $1 WHERE id = 1 AND refuted = ''`,
		[][]byte{[]byte(proof)}, nil, nil, nil).Read(); r.Err != nil {
		return r.Err
	}
	_, err = c.Exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET state = %d, holder = 0 WHERE state < %d`, store.FeedLost,
		store.FeedSealed)).ReadAll()
	return err
}

// rewound is the problem of a database that is an earlier state.
func (d *database) rewound(proof string) *Problem {
	return &Problem{Code: "rewound", What: fmt.Sprintf("database %s has gone back to an earlier state: %s", d.name,
		proof),
		Fix: "if a server has the newest state still, make that one the primary again; else stop all nodes and run petrel repair, which draws a new history id"}
}

// isRefuted ends the store because the database has the record that it is an earlier state.
func (d *database) isRefuted(ctx context.Context) error {
	proof, err := collectOne(ctx, d, pgx.RowTo[string], `SELECT refuted FROM petrel.store WHERE id = 1`)
	if err != nil {
		return err
	}
	d.out.fail(fmt.Errorf("%w: %w", store.ErrRewound, d.rewound(proof)))
	return d.out.err()
}

// Seen returns the positions and generations that this process knows, for the other nodes.
func (s *Store) Seen() *storepb.Seen {
	for {
		m := &storepb.Seen{Generations: s.generations(), Positions: make([]uint64, im.Partitions)}
		for f := range m.Positions {
			m.Positions[f] = s.seen.pos[f].Load()
		}
		same := true
		for i, g := range s.generations() { // the positions are of these, or of lower ones
			same = same && order(g, m.Generations[i]) == 0
		}
		if same {
			return m
		}
	}
}

// generations returns the generations that this process uses.
func (s *Store) generations() []*storepb.Generation {
	list := make([]*storepb.Generation, len(s.dbs))
	for i, d := range s.dbs {
		list[i] = &storepb.Generation{}
		if b := d.base.Load(); b != nil {
			list[i] = b.Generation
		}
	}
	return list
}

// Hear takes the positions and generations of another node, or of an earlier start. A generation above the
// own one ends the connections to the own. Commits that a node of a lower one has acked must have been there
// when this one began.
func (s *Store) Hear(from string, m *storepb.Seen) {
	at := s.at.Load()
	if len(m.GetGenerations()) != len(s.dbs) || at == nil {
		return // of another configuration
	}
	lost := make([][]missingCommits, len(s.dbs))
	for n, d := range s.dbs {
		g := m.Generations[n]
		if g.GetNumber() > 0 && order(d.need.Load(), g) < 0 {
			d.log.Warn("a node knows a higher generation of a database: the one in use is given up", "node", from,
				"database", d.name,
				"generation", g.GetNumber(), "timeline", g.GetTimeline())
			d.require(g)
		}
	}
	for f, pos := range m.GetPositions() {
		if f >= len(at) {
			break
		}
		d := s.dbs[at[f]]
		b, g := d.base.Load(), m.Generations[at[f]]
		switch {
		case b == nil || g.GetNumber() == 0 || order(b.Generation, g) < 0:
			// When that one is used, what is known by then is compared.
		case order(b.Generation, g) == 0:
			s.seen.raise(store.Feed(f), im.Pos(pos))
		default:
			if had, ok := b.stands(f); ok && had < im.Pos(pos) {
				lost[at[f]] = append(lost[at[f]], missingCommits{store.Feed(f), im.Pos(pos), had})
			}
		}
	}
	for n, list := range lost {
		if len(list) > 0 {
			s.log.Error("a node has acked commits in a former generation that this one lacks", "node", from, "database",
				s.dbs[n].name, "feeds", len(list))
			_ = s.dbs[n].lack(list) // Failed tells
		}
	}
}

// Behind returns why a database of a lower generation than is known is refused; nil: none is.
func (s *Store) Behind() error {
	for _, d := range s.dbs {
		p, behind := d.refused.Load(), order(d.base.Load().generation(), d.need.Load()) < 0
		switch {
		case p != nil && (behind || d.down.Load()):
			return p
		case behind:
			return &Problem{Code: "database_behind", Cause: errBehind,
				What: fmt.Sprintf("database %s: generation %d is known, and no server of it is reached", d.name,
					d.need.Load().GetNumber()),
				Fix: "name the new primary in store.postgres"}
		}
	}
	return nil
}
