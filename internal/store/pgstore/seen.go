package pgstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// seen is how far each feed is known to have come: the highest commit that is
// durable, of this process and of what others told.
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

// check compares what a read found with what was known before it began.
func (d *database) check(f store.Feed, before, found im.Pos) error {
	if found >= before {
		return nil
	}
	return d.lack([]*storepb.LostFeed{{Feed: uint32(f), Known: uint64(before), Found: uint64(found)}})
}

// lackTime bounds how long the end of a store waits for its database.
const lackTime = 3 * time.Second

// lack ends the store: commits that were acked are missing. The database says so
// from then on, and takes nothing from anybody, until the history has another id.
func (d *database) lack(feeds []*storepb.LostFeed) error {
	p := lossProblem(d.name, feeds)
	if !d.out.halt(fmt.Errorf("%w: %w", store.ErrRewound, p)) {
		return d.out.err()
	}
	defer d.out.end()
	ctx, cancel := context.WithTimeout(context.Background(), lackTime)
	defer cancel()
	if err := d.writeLoss(ctx, feeds); err != nil {
		d.log.Error("write down that commits are missing failed: the other nodes find out by themselves", "database", d.name, "err", err)
	}
	return d.out.err()
}

// writeLoss has everybody find that the database lacks commits. Whoever holds a
// row of petrel.part meanwhile is waited for, and refused afterwards.
func (d *database) writeLoss(ctx context.Context, feeds []*storepb.LostFeed) error {
	conf := d.conf.ConnConfig.Config.Copy()
	conf.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c); err != nil {
			return err
		}
		s, err := asked(ctx, c)
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
	next, err := d.positions(ctx, c)
	if err != nil {
		return err
	}
	b, err := (&storepb.Lost{TimeMs: uint64(time.Now().UnixMilli()), Feeds: d.missing(feeds, next)}).MarshalVT()
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, fmt.Sprintf(`UPDATE petrel.store SET lost = '\x%x' WHERE id = 1 AND lost IS NULL;
		UPDATE petrel.part SET state = %d, holder = 0 WHERE state < %d`, b, store.FeedLost, store.FeedSealed)).ReadAll()
	return err
}

// lossProblem is what the operator is told of commits that are missing.
func lossProblem(database string, feeds []*storepb.LostFeed) *Problem {
	return &Problem{Code: "rewound", What: fmt.Sprintf("database %s lacks what was acked: %s", database, describe(feeds)),
		Fix: "if a server has it still, make that one the primary again; else stop all nodes and run petrel repair, which draws a new history id"}
}

// lossTold is what the operator is told of what somebody has written down.
func (d *database) lossTold(digits string) *Problem { return lossProblem(d.name, readLost(digits)) }

// readLost are the feeds of a storepb.Lost in hexadecimal digits, by number; none
// if it cannot be read, which still says that commits are missing.
func readLost(digits string) []*storepb.LostFeed {
	var l storepb.Lost
	if b, err := hex.DecodeString(digits); err != nil || l.UnmarshalVT(b) != nil {
		return nil
	}
	slices.SortFunc(l.Feeds, func(a, b *storepb.LostFeed) int { return cmp.Compare(a.GetFeed(), b.GetFeed()) })
	return l.Feeds
}

// lossNow ends the store because somebody has found that the database lacks
// commits.
func (d *database) lossNow(ctx context.Context) error {
	digits, err := collectOne(ctx, d, pgx.RowTo[string], `SELECT coalesce(encode(lost, 'hex'), '') FROM petrel.store WHERE id = 1`)
	if err != nil {
		return err
	}
	d.out.fail(fmt.Errorf("%w: %w", store.ErrRewound, d.lossTold(digits)))
	return d.out.err()
}

// Seen is what this process knows of the databases, for the other nodes.
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

// generations are those that this process uses.
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

// Hear takes what another node knows, or what was known before. A generation that
// is higher than the own one ends what is connected to the own. Commits that a
// node of a lower one has acked must have been there when this one began.
func (s *Store) Hear(from string, m *storepb.Seen) {
	at := s.at.Load()
	if len(m.GetGenerations()) != len(s.dbs) || at == nil {
		return // of another configuration
	}
	lost := make([][]*storepb.LostFeed, len(s.dbs))
	for n, d := range s.dbs {
		g := m.Generations[n]
		if g.GetNumber() > 0 && order(d.need.Load(), g) < 0 {
			d.log.Warn("a node knows a higher generation of a database: the one in use is given up", "node", from, "database", d.name,
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
		case b == nil || g.GetNumber() == 0 || order(b.Generation, g) < 0: // when that one is used, what is known by then is compared
		case order(b.Generation, g) == 0:
			s.seen.raise(store.Feed(f), im.Pos(pos))
		default:
			if had, ok := b.stands(f); ok && had < im.Pos(pos) {
				lost[at[f]] = append(lost[at[f]], &storepb.LostFeed{Feed: uint32(f), Known: pos, Found: uint64(had)})
			}
		}
	}
	for n, list := range lost {
		if len(list) > 0 {
			s.log.Error("a node has acked commits in a former generation that this one lacks", "node", from, "database", s.dbs[n].name, "feeds", len(list))
			_ = s.dbs[n].lack(list) // Failed tells
		}
	}
}

// Behind is why a database is refused that is of a lower generation than is
// known; nil: none is.
func (s *Store) Behind() error {
	for _, d := range s.dbs {
		p, behind := d.refused.Load(), order(d.base.Load().generation(), d.need.Load()) < 0
		switch {
		case p != nil && (behind || d.down.Load()):
			return p
		case behind:
			return &Problem{Code: "database_behind", Cause: errBehind, What: fmt.Sprintf("database %s: generation %d is known, and no server of it is reached", d.name, d.need.Load().GetNumber()),
				Fix: "name the new primary in store.postgres"}
		}
	}
	return nil
}
