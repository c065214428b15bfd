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

// seen holds the known position of each feed: the highest commit that this process knows to be durable, from
// itself or from other nodes.
type seen struct {
	pos [im.Partitions]atomic.Uint64
	at  *atomic.Pointer[placement] // which database holds a feed; it holds nil until that is known
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

// missingCommits names a feed whose position is below the known one.
type missingCommits struct {
	feed         store.Feed
	known, found im.Pos
}

// check compares the position that a read has found with the one that was known before the read. A lower one
// ends the store.
func (d *database) check(f store.Feed, before, found im.Pos) error {
	if found >= before {
		return nil
	}
	return d.lack([]missingCommits{{f, before, found}})
}

// refuteTime bounds how long a failing store waits until the databases have its note.
const refuteTime = 3 * time.Second

// lack ends the store because acked commits are missing, and records that in the database.
func (d *database) lack(feeds []missingCommits) error {
	proof := describe(feeds)
	if !d.out.halt(fmt.Errorf("%w: %w", store.ErrRewound, d.rewound(proof))) {
		return d.out.err()
	}
	defer d.out.end()
	ctx, cancel := context.WithTimeout(context.Background(), refuteTime)
	defer cancel()
	if err := d.refute(ctx, proof); err != nil {
		d.log.Error("could not record that commits are missing: the other nodes find out by themselves", "database", d.name,
			"err", err)
	}
	return d.out.err()
}

// refute records in the database that it is an earlier state of the store. From then on it takes no appends,
// and nodes refuse new connections to it, until Renew. The record waits for a transaction that holds a row of
// petrel.part; the next append of that writer is refused.
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
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // the result is known by then
	if r := c.ExecParams(ctx, `UPDATE petrel.store SET refuted = $1 WHERE id = 1 AND refuted = ''`,
		[][]byte{[]byte(proof)}, nil, nil, nil).Read(); r.Err != nil {
		return r.Err
	}
	_, err = c.Exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET state = %d, holder = 0 WHERE state < %d`, store.FeedLost,
		store.FeedSealed)).ReadAll()
	return err
}

// rewound returns the Problem of a database that is an earlier state.
func (d *database) rewound(proof string) *Problem {
	return &Problem{Code: "rewound", What: fmt.Sprintf("database %s has gone back to an earlier state: %s", d.name,
		proof),
		Fix: "if a server has the newest state still, make that one the primary again; else stop all nodes and run petrel repair, which draws a new history id"}
}

// isRefuted ends the store because refute has recorded that the database is an earlier state.
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
		for i, g := range s.generations() { // if none was raised meanwhile, no position is of a higher one
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

// Hear takes the positions and generations that another node knows, or that an earlier start knew. If its
// generation of a database is higher than ours, the connections to ours are given up. If it is lower, the
// commits that were acked in it must have been there when ours began; else the store ends.
func (s *Store) Hear(from string, m *storepb.Seen) {
	at := s.at.Load()
	if len(m.GetGenerations()) != len(s.dbs) || at == nil {
		return // the node has another configuration
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
			// adopt compares the positions that are known when that generation is used.
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
			s.log.Error("the database lacks commits that a node acked in an earlier generation", "node", from, "database",
				s.dbs[n].name, "feeds", len(list))
			_ = s.dbs[n].lack(list) // Failed reports it
		}
	}
}

// Behind returns the Problem of a database whose generation is lower than the known one, so that it is refused;
// nil: there is none.
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
