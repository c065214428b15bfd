package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Takeover implements store.Store. It changes one row in one transaction, so it waits only for a commit that
// holds this row.
func (s *Store) Takeover(ctx context.Context, f store.Feed, holder uint64) (im.Epoch, im.Pos, error) {
	h, err := s.takeOver(ctx, f, holder)
	return h.Epoch, h.Pos, failed(err, "take over feed %d", f)
}

func (s *Store) takeOver(ctx context.Context, f store.Feed, holder uint64) (store.Holder, error) {
	for try := 0; ; try++ {
		d, err := s.of(f)
		if err != nil {
			return store.Holder{}, err
		}
		var rows []store.Holder
		before := s.seen.of(f)
		err = d.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
			r, err := c.Query(ctx, fmt.Sprintf(`UPDATE petrel.part SET epoch = epoch + 1, holder = $2 WHERE id = $1 AND state < %d
				RETURNING id, epoch, holder, pos, state`, store.FeedSealed), int32(f), int64(holder))
			if err != nil {
				return err
			}
			rows, err = pgx.CollectRows(r, func(r pgx.CollectableRow) (store.Holder, error) {
				_, h, err := scanHolder(r)
				return h, err
			})
			return err
		})
		if err != nil {
			return store.Holder{}, err
		}
		if len(rows) == 1 {
			if err := d.check(f, before, rows[0].Pos); err != nil {
				return store.Holder{}, err
			}
			s.seen.raise(f, rows[0].Pos)
			d.poisoned[f].Store(false)
			return rows[0], nil
		}
		if _, err := s.holders(ctx, []store.Feed{f}); err != nil { // an error if it lacks acked commits
			return store.Holder{}, err
		}
		if try == 1 {
			return store.Holder{}, fmt.Errorf("the feed is on its way to another database: %w", store.ErrStalled)
		}
		if err := s.readPlacement(ctx); err != nil {
			return store.Holder{}, err
		}
	}
}

func scanHolder(r pgx.CollectableRow) (store.Feed, store.Holder, error) {
	var id, state int32
	var epoch, holder, pos int64
	err := r.Scan(&id, &epoch, &holder, &pos, &state)
	return store.Feed(id), store.Holder{Epoch: im.Epoch(epoch), Holder: uint64(holder), Pos: im.Pos(pos),
		State: store.FeedState(state)}, err
}

// Holders implements store.Store, with one statement for each database.
func (s *Store) Holders(ctx context.Context, feeds []store.Feed) ([]store.Holder, error) {
	all, err := s.holders(ctx, feeds)
	if err == nil && slices.ContainsFunc(all, func(h store.Holder) bool { return h.State == store.FeedSealed }) {
		// It may have moved: ask where it is now.
		if err = s.readPlacement(ctx); err == nil {
			all, err = s.holders(ctx, feeds)
		}
	}
	return all, failed(err, "ask who holds %d feeds", len(feeds))
}

func (s *Store) holders(ctx context.Context, feeds []store.Feed) ([]store.Holder, error) {
	ids := make([][]int32, len(s.dbs))
	at, before := s.at.Load(), make([]im.Pos, len(feeds))
	for i, f := range feeds {
		if int(f) < im.Partitions {
			before[i] = s.seen.of(f)
		}
	}
	for _, f := range feeds {
		if int(f) >= im.Partitions {
			return nil, fmt.Errorf("there is no feed %d", f)
		}
		ids[at[f]] = append(ids[at[f]], int32(f))
	}
	var found [im.Partitions]*store.Holder // each database writes other elements
	var g errgroup.Group
	for n, d := range s.dbs {
		if len(ids[n]) == 0 {
			continue
		}
		g.Go(func() error {
			_, err := collect(ctx, d, func(r pgx.CollectableRow) (struct{}, error) {
				f, h, err := scanHolder(r)
				if err == nil {
					found[f] = &h
				}
				return struct{}{}, err
			}, `SELECT id, epoch, holder, pos, state FROM petrel.part WHERE id = ANY($1)`, ids[n])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := make([]store.Holder, len(feeds))
	for i, f := range feeds {
		if found[f] == nil {
			return nil, fmt.Errorf("feed %d has no row: %w", f, store.ErrCorrupt)
		}
		d, h := s.dbs[at[f]], found[f]
		if h.State == store.FeedLost {
			return nil, d.isRefuted(ctx)
		}
		if h.State.Takes() {
			if err := d.check(f, before[i], h.Pos); err != nil {
				return nil, err
			}
		}
		all[i] = *found[f]
	}
	return all, nil
}

// Update implements store.Store.
func (s *Store) Update(ctx context.Context, puts []store.RecordPut) error {
	err := s.records().write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		if len(puts) == 1 {
			return putOne(ctx, c, &puts[0])
		}
		return putAll(ctx, c, puts)
	})
	return failed(err, "update %d records", len(puts))
}

// put returns the statement for one record, and the number of rows that it changes if the record has the
// expected value; -1: any number.
func put(p *store.RecordPut) (sql string, args []any, want int64) {
	args = []any{int32(p.Table), int32(p.Tenant), notNil(p.Key)}
	at := recordAddress(p.Table, p.Tenant, p.Key)
	const where = ` WHERE tbl = $1 AND tenant = $2 AND key = $3`
	switch {
	case p.Check && p.Was == nil && p.Value == nil:
		return `SELECT 1 FROM petrel.records` + where, args, 0
	case p.Check && p.Was == nil:
		return `INSERT INTO petrel.records (tbl, tenant, key, value) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			append(args, seal(at, p.Value)), 1
	case p.Check && p.Value == nil:
		return `DELETE FROM petrel.records` + where + ` AND value = $4`, append(args, seal(at, p.Was)), 1
	case p.Check:
		return `UPDATE petrel.records SET value = $4` + where + ` AND value = $5`,
			append(args, seal(at, p.Value), seal(at, p.Was)), 1
	case p.Value == nil:
		return `DELETE FROM petrel.records` + where, args, -1
	}
	return `INSERT INTO petrel.records (tbl, tenant, key, value) VALUES ($1, $2, $3, $4)
		ON CONFLICT (tbl, tenant, key) DO UPDATE SET value = excluded.value`, append(args, seal(at, p.Value)), -1
}

func changed(p *store.RecordPut) error {
	return fmt.Errorf("table %d key %q: %w", p.Table, p.Key, store.ErrChanged)
}

func putOne(ctx context.Context, c *pgx.Conn, p *store.RecordPut) error {
	sql, args, want := put(p)
	tag, err := c.Exec(ctx, sql, args...)
	if err == nil && want >= 0 && tag.RowsAffected() != want {
		err = changed(p)
	}
	return err
}

// putAll writes several records in the order of their keys, so that two writers of the same records wait for
// each other and cannot deadlock. With Check in a record it takes a transaction of two round trips, else one
// round trip.
func putAll(ctx context.Context, c *pgx.Conn, puts []store.RecordPut) error {
	sorted := make([]*store.RecordPut, len(puts))
	checks := false
	for i := range puts {
		sorted[i] = &puts[i]
		checks = checks || puts[i].Check
	}
	slices.SortStableFunc(sorted, func(a, b *store.RecordPut) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Tenant, b.Tenant), bytes.Compare(a.Key, b.Key))
	})
	var b pgx.Batch
	if checks {
		b.Queue(`BEGIN`)
	}
	var refused error
	for _, p := range sorted {
		sql, args, want := put(p)
		b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
			if want >= 0 && tag.RowsAffected() != want && refused == nil {
				refused = changed(p)
			}
			return nil
		})
	}
	err := c.SendBatch(ctx, &b).Close()
	if !checks {
		return err
	}
	if err == nil && refused == nil {
		_, err = c.Exec(ctx, `COMMIT`)
		return err
	}
	if _, e := c.Exec(ctx, `ROLLBACK`); e != nil {
		_ = c.Close(ctx) // that rolls back as well
	}
	return errors.Join(err, refused)
}

// dropChunk is how many rows of a conversation, or entries of a feed, one transaction deletes at most: few enough
// that nobody waits long for it. Of the dedupe table one transaction deletes ten times as many hashes.
const dropChunk = 1000

// ofOpen is the beginning of a statement that deletes from a partition. It selects nothing while the partition
// moves to another database, because the copy would keep deleted rows. Its lock delays the beginning of a move,
// and no append.
var ofOpen = fmt.Sprintf(`WITH o AS (SELECT id FROM petrel.part WHERE id = $1 AND state <= %d FOR KEY SHARE) `,
	store.FeedOpen)

// isOpen returns ErrStalled if a feed is not open, because it moves or has moved.
func (s *Store) isOpen(ctx context.Context, f store.Feed) error {
	h, err := s.holders(ctx, []store.Feed{f})
	if err == nil && h[0].State != store.FeedOpen {
		err = fmt.Errorf("the feed is on its way to another database: %w", store.ErrStalled)
	}
	return err
}

// DropRows implements store.Store. It deletes from the oldest row up, in small transactions. If it ends early,
// the remaining rows have no hole, and are below first_seq, where nobody reads. While the partition moves it
// returns ErrStalled.
func (s *Store) DropRows(ctx context.Context, c im.Key, below im.Seq) error {
	d := s.holding(c)
	part, tenant, conv := key(c)
	kinds := []int32{}
	for _, k := range store.MarkKinds() {
		kinds = append(kinds, int32(k))
	}
	err := func() error {
		low, err := collectOne(ctx, d, scanInt,
			`SELECT COALESCE((SELECT seq FROM petrel.msg WHERE part = $1 AND tenant = $2 AND conv = $3 ORDER BY seq LIMIT 1), 0)`, part, tenant, conv)
		for low := im.Seq(low); err == nil && low < below; low += dropChunk {
			_, err = d.exec(ctx, ofOpen+`, k AS (DELETE FROM petrel.marks AS m USING o
					WHERE m.part = o.id AND m.part = $1 AND m.tenant = $2 AND m.conv = $3 AND m.kind = ANY($5) AND m.seq < $4)
				DELETE FROM petrel.msg AS m USING o WHERE m.part = o.id AND m.part = $1 AND m.tenant = $2 AND m.conv = $3 AND m.seq < $4`,
				part, tenant, conv, int64(min(low+dropChunk, below)), kinds)
		}
		for n := int64(1); err == nil && n > 0; {
			n, err = d.exec(ctx, ofOpen+`DELETE FROM petrel.dedupe AS x USING o, (
				SELECT hash FROM petrel.dedupe WHERE part = $1 AND tenant = $2 AND conv = $3 GROUP BY hash HAVING max(seq) < $4 LIMIT $5) AS g
				WHERE x.part = o.id AND x.part = $1 AND x.tenant = $2 AND x.conv = $3 AND x.hash = g.hash`, part, tenant, conv, int64(below), 10*dropChunk)
		}
		if err == nil {
			err = s.isOpen(ctx, store.Feed(part))
		}
		return err
	}()
	return failed(err, "drop rows of %s below %d", c, below)
}

// TrimFeed implements store.Store. The new trim is durable before anything below it is deleted. While the partition
// moves it returns ErrStalled.
func (s *Store) TrimFeed(ctx context.Context, f store.Feed, upTo im.Pos) error {
	return failed(s.trimFeed(ctx, f, upTo), "trim feed %d up to %d", f, upTo)
}

func (s *Store) trimFeed(ctx context.Context, f store.Feed, upTo im.Pos) error {
	d, err := s.of(f)
	if err != nil {
		return err
	}
	h, err := s.holders(ctx, []store.Feed{f})
	if err != nil {
		return err
	}
	if h[0].Pos < upTo {
		return fmt.Errorf("the feed is at commit %d", h[0].Pos)
	}
	_, err = d.exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET trim = $2 WHERE id = $1 AND trim < $2 AND state = %d`,
		store.FeedOpen), int32(f), int64(upTo))
	if err != nil {
		return err
	}
	low, err := collectOne(ctx, d, scanInt,
		`SELECT COALESCE((SELECT pos FROM petrel.feed WHERE part = $1 ORDER BY pos LIMIT 1), 0)`, int32(f))
	for low := im.Pos(low); err == nil && low <= upTo; low += dropChunk {
		_, err = d.exec(
			ctx, ofOpen+`DELETE FROM petrel.feed AS e USING o WHERE e.part = o.id AND e.part = $1 AND e.pos <= $2`,
			int32(f), int64(min(low+dropChunk-1, upTo)))
	}
	if err == nil {
		err = s.isOpen(ctx, f)
	}
	return err
}
