package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// moveTail is the most commits that may be left to copy when the partition is sealed, unless it is written as
// fast as it is copied.
const moveTail = 64

// Bits of FeedItem.kinds that name the changes of a commit beside its new rows. They are FeedMembership,
// FeedRewrites, FeedCursors and FeedMarks of package conv.
const (
	feedMembership = 2
	feedRewrites   = 4
	feedCursors    = 16
	feedMarks      = 32
)

var errOtherMove = errors.New("another process moves the partition")

// MovePartition moves a partition to another database while nodes write to it. to is the number of that
// database: 1 is the first DSN. The move copies the present rows, then the changes that the feed names, seals
// the partition, copies the rest, opens the copy in a new epoch and changes the map. The partition is sealed
// for as long as the copy of about moveTail commits takes. Meanwhile its owner's writes are refused; then the
// owner takes it over at its new place. The source stays sealed for ever and its rows may be deleted.
//
// An interrupted move leaves the partition open where it was, or sealed. The next move of the partition, to
// whichever database, first ends the interrupted one: it keeps an open copy, or else opens the source again.
// Before a move, the configuration of every node must name both databases. If the partition may be left sealed, or
// its copy is open and the map is not changed, the error says so.
func (s *Store) MovePartition(ctx context.Context, p im.Partition, to int) error {
	if int(p) >= im.Partitions || to < 1 || to > len(s.dbs) {
		return fmt.Errorf("move partition %d to database %d: there are %d partitions and %d databases", p, to,
			im.Partitions, len(s.dbs))
	}
	m := &move{s: s, part: p, dst: s.dbs[to-1], token: rand.Uint64(), began: time.Now()}
	if err := m.run(ctx); err != nil {
		return fmt.Errorf("move partition %d to database %s: %w", p, m.dst.name, err)
	}
	return nil
}

// move is one move under way. It locks the partition's row in the map, so that there is one move at a time. Its
// token fences off a move that has lost this lock.
type move struct {
	s        *Store
	part     im.Partition
	src, dst *database
	from, to *pgx.Conn // connections to src and dst for the copies
	token    uint64
	pos      im.Pos // copied up to here
	began    time.Time
}

func (m *move) run(ctx context.Context) error {
	c, err := m.s.records().dial(ctx)
	if err != nil {
		return asError(err, true)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // releases the lock, if it is still held
	if err := m.lock(ctx, c); err != nil {
		return err
	}
	at, reopened, err := m.settle(ctx)
	switch {
	case err != nil:
		return err
	case at != m.src:
		if err := m.record(ctx, c, at); err != nil || at == m.dst {
			return err
		}
		if err := m.lock(ctx, c); err != nil {
			return err
		}
	case at == m.dst && reopened:
		return nil
	}
	if m.src == m.dst {
		return errors.New("the partition is there already")
	}
	if err := m.claim(ctx); err != nil {
		return err
	}
	if err := m.carry(ctx); err != nil {
		return err
	}
	return m.record(ctx, c, m.dst)
}

// lock locks the partition's row in the map, and sets src to the database in it.
func (m *move) lock(ctx context.Context, c *pgx.Conn) error {
	var from int
	err := func() error {
		if _, err := c.Exec(ctx, `BEGIN`); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return err
		}
		return c.QueryRow(ctx, `SELECT db FROM petrel.placement WHERE part = $1 FOR UPDATE NOWAIT`,
			int32(m.part)).Scan(&from)
	}()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "55P03" {
		return errOtherMove
	} else if err != nil {
		return asError(err, true)
	}
	m.src = m.s.dbs[from]
	return m.s.readPlacement(ctx) // another node may have moved it, so the map in memory is renewed
}

// record writes the new place of the partition into the map and releases the lock.
func (m *move) record(ctx context.Context, c *pgx.Conn, at *database) error {
	forgetWarning(c.PgConn())
	_, err := c.Exec(ctx, `UPDATE petrel.placement SET db = $2 WHERE part = $1`, int32(m.part), at.n)
	if err == nil {
		_, err = c.Exec(ctx, `COMMIT`)
	}
	if err = errors.Join(err, warned(c.PgConn())); err != nil {
		return fmt.Errorf("the partition is copied, but the map is not changed: move it again: %w", asError(err, true))
	}
	m.s.log.Info("partition moved", "partition", m.part, "from", m.src.name, "to", at.name, "pos", m.pos, "took",
		time.Since(m.began))
	return m.s.readPlacement(ctx)
}

// settle ends an earlier move that was interrupted after it had sealed the source; if the source is open, it
// does nothing. If the copy in another database is open, settle returns that database, although the map does
// not name it yet. If no copy is open, it opens the source again (reopened). It first puts this move's token
// into each sealed copy, so that a move which has lost its lock cannot open one later.
func (m *move) settle(ctx context.Context) (at *database, reopened bool, err error) {
	open, err := m.openAt(ctx, m.src)
	if err != nil || open {
		return m.src, false, err
	}
	for _, d := range m.s.dbs {
		if d == m.src {
			continue
		}
		if _, err := d.exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET holder = $2 WHERE id = $1 AND state = %d`,
			store.FeedSealed), int32(m.part), int64(m.token)); err != nil {
			return nil, false, err
		}
		open, err := m.openAt(ctx, d)
		switch {
		case err != nil:
			return nil, false, err
		case open && at != nil:
			return nil, false, fmt.Errorf("the partition is open in the databases %s and %s: %w", at.name, d.name,
				store.ErrCorrupt)
		case open:
			at = d
		}
	}
	if at != nil {
		return at, false, nil
	}
	_, err = m.src.exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET state = %d, holder = 0 WHERE id = $1 AND state = %d`,
		store.FeedOpen, store.FeedSealed), int32(m.part))
	return m.src, true, err
}

// openAt tells whether a database has the partition and takes batches of it.
func (m *move) openAt(ctx context.Context, d *database) (bool, error) {
	n, err := collectOne(ctx, d, scanInt, fmt.Sprintf(`SELECT count(*) FROM petrel.part WHERE id = $1 AND state <> %d`,
		store.FeedSealed), int32(m.part))
	return n == 1, err
}

// claim puts this move's token into the partition's sealed row at the destination, and makes the row if it is
// missing.
func (m *move) claim(ctx context.Context) error {
	n, err := m.dst.exec(ctx, fmt.Sprintf(`INSERT INTO petrel.part AS p (id, epoch, holder, pos, trim, state) VALUES ($1, 0, $2, 0, 0, %d)
		ON CONFLICT (id) DO UPDATE SET holder = excluded.holder WHERE p.state = excluded.state`, store.FeedSealed), int32(m.part), int64(m.token))
	if err == nil && n != 1 {
		err = fmt.Errorf("the partition is open in both databases: %w", store.ErrCorrupt)
	}
	return err
}

// carry copies the partition and opens the copy. If it fails before that, it opens the source again.
func (m *move) carry(ctx context.Context) (err error) {
	for d, c := range map[*database]**pgx.Conn{m.src: &m.from, m.dst: &m.to} {
		if *c, err = d.dial(ctx); err != nil {
			return asError(err, true)
		}
		defer func() { _ = (*c).Close(context.WithoutCancel(ctx)) }() // an open transaction is given up
	}
	back := true
	defer func() {
		if err == nil || !back {
			return
		}
		_, e := m.src.exec(context.WithoutCancel(ctx),
			fmt.Sprintf(
				`UPDATE petrel.part SET state = %d WHERE id = $1 AND (state = %d OR state = %d AND holder = $2)`,
				store.FeedOpen, store.FeedMoving, store.FeedSealed), int32(m.part), int64(m.token))
		if e != nil {
			err = errors.Join(err, fmt.Errorf("the partition may be sealed: move it again: %w", e))
		}
	}()
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, t := range partTables {
		if err := m.copy(ctx, t.name, "true"); err != nil {
			return err
		}
	}
	for left := im.Pos(math.MaxUint64); ; {
		h, err := m.s.holders(ctx, []store.Feed{store.Feed(m.part)})
		if err != nil {
			return err
		}
		now := h[0].Pos - m.pos
		if now <= moveTail || now >= left { // the partition is written as fast as it is copied
			break
		}
		left = now
		if err := m.tail(ctx, h[0].Pos); err != nil {
			return err
		}
	}
	epoch, pos, trim, err := m.seal(ctx)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if err := m.tail(ctx, im.Pos(pos)); err != nil {
		return err
	}
	back = false // from here on the destination may be open
	n, err := m.dst.exec(ctx,
		fmt.Sprintf(
			`UPDATE petrel.part SET epoch = $3, pos = $4, trim = $5, holder = 0, state = %d WHERE id = $1 AND holder = $2 AND state = %d`,
			store.FeedOpen, store.FeedSealed), int32(m.part), int64(m.token), epoch+1, pos, trim)
	switch {
	case err != nil:
		return fmt.Errorf("the partition is sealed, and its copy may be open: move it again: %w", err)
	case n != 1:
		back = true
		return errOtherMove
	}
	return nil
}

// begin sets the state of the source to FeedMoving. It waits for deletions under way; no deletion begins
// afterwards.
func (m *move) begin(ctx context.Context) error {
	return m.src.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit there is nothing to undo
		var pos int64
		if err := tx.QueryRow(ctx, `SELECT pos FROM petrel.part WHERE id = $1 FOR UPDATE`,
			int32(m.part)).Scan(&pos); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE petrel.part SET state = $2 WHERE id = $1`, int32(m.part),
			int32(store.FeedMoving)); err != nil {
			return err
		}
		m.pos = im.Pos(pos)
		return tx.Commit(ctx)
	})
}

// seal seals the source, in a new epoch, so that its writer is refused. The source gets this move's token, so
// of all moves under way only this one opens it again.
func (m *move) seal(ctx context.Context) (epoch, pos, trim int64, err error) {
	err = m.src.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx,
			fmt.Sprintf(
				`UPDATE petrel.part SET state = %d, holder = $2, epoch = epoch + 1 WHERE id = $1 AND state = %d RETURNING epoch, pos, trim`,
				store.FeedSealed, store.FeedMoving), int32(m.part), int64(m.token)).Scan(&epoch, &pos, &trim)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = errOtherMove
	}
	return epoch, pos, trim, err
}

// changes are the changes of one conversation in the commits that tail copies.
type changes struct {
	from  uint64 // its first new row; 0: none
	kinds uint32
}

// tail copies the changes of the commits after m.pos, up to upTo.
func (m *move) tail(ctx context.Context, upTo im.Pos) error {
	changed := map[im.Key]changes{}
	err := m.s.ScanFeed(ctx, store.Feed(m.part), m.pos, upTo, func(_ im.Pos, e *storepb.FeedEntry) bool {
		for _, it := range e.GetItems() {
			k := im.Key{Tenant: im.Tenant(it.GetTenant()), Conv: im.ConvID(it.GetConv())}
			c := changed[k]
			if it.GetCount() > 0 && (c.from == 0 || it.GetFrom() < c.from) {
				c.from = it.GetFrom()
			}
			c.kinds |= it.GetKinds()
			changed[k] = c
		}
		return true
	})
	if err != nil {
		return err
	}
	if err := m.copy(ctx, "feed", fmt.Sprintf("pos > %d AND pos <= %d", m.pos, upTo)); err != nil {
		return err
	}
	for k, c := range changed {
		if err := m.copyConversation(ctx, k, c); err != nil {
			return err
		}
	}
	m.pos = upTo
	return nil
}

// copyConversation copies the changes of a conversation.
func (m *move) copyConversation(ctx context.Context, k im.Key, c changes) error {
	of := fmt.Sprintf("tenant = %d AND conv = '%x'", k.Tenant, k.Conv[:])
	steps := map[string]string{"convs": of}
	var rows []string
	if c.from > 0 {
		steps["dedupe"] = fmt.Sprintf("%s AND seq >= %d", of, c.from)
		rows = append(rows, fmt.Sprintf("seq >= %d", c.from))
	}
	if c.kinds&feedRewrites != 0 { // these are all rows with the flag in their head
		seqs, err := collect(ctx, m.src, scanInt,
			fmt.Sprintf(
				`SELECT seq FROM petrel.msg WHERE part = $1 AND %s AND length(value) > 1 AND get_byte(value, 1) & %d <> 0`,
				of, store.RowRewritten), int32(m.part))
		if err != nil {
			return err
		}
		rows = append(rows, fmt.Sprintf("seq = ANY ('{%s}')",
			strings.Trim(strings.ReplaceAll(fmt.Sprint(seqs), " ", ","), "[]")))
	}
	if len(rows) > 0 {
		steps["msg"] = fmt.Sprintf("%s AND (%s)", of, strings.Join(rows, " OR "))
	}
	for kind, table := range map[uint32]string{feedMembership: "members", feedCursors: "cursors", feedMarks: "marks"} {
		if c.kinds&kind != 0 {
			steps[table] = of
		}
	}
	for table, where := range steps {
		if err := m.copy(ctx, table, where); err != nil {
			return err
		}
	}
	return nil
}

// copy replaces the rows of a table that match where: it deletes them at the destination, copies those of the
// source, and compares the copy with the source.
func (m *move) copy(ctx context.Context, table, where string) error {
	t := partTables[slices.IndexFunc(partTables, func(t partTable) bool { return t.name == table })]
	where = fmt.Sprintf(" FROM petrel.%s WHERE part = %d AND %s", t.name, m.part, where)
	read := fmt.Sprintf("COPY (SELECT %s%s ORDER BY %s) TO STDOUT (FORMAT binary)", t.columns, where, t.key)
	err := func() error {
		forgetWarning(m.to.PgConn())
		tx, err := m.to.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit there is nothing to undo
		own, err := tx.Exec(ctx,
			fmt.Sprintf(`SELECT FROM petrel.part WHERE id = %d AND holder = %d AND state = %d FOR SHARE`, m.part,
				int64(m.token), store.FeedSealed))
		if err == nil && own.RowsAffected() != 1 {
			err = errOtherMove
		}
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE"+where)
		}
		if err != nil {
			return err
		}
		sent, got := sha256.New(), sha256.New()
		r, w := io.Pipe()
		var reader errgroup.Group
		reader.Go(func() error {
			_, err := m.from.PgConn().CopyTo(ctx, io.MultiWriter(w, sent), read)
			_ = w.CloseWithError(err) // never fails
			return err
		})
		_, err = m.to.PgConn().CopyFrom(ctx, r, fmt.Sprintf("COPY petrel.%s (%s) FROM STDIN (FORMAT binary)", t.name,
			t.columns))
		_ = r.CloseWithError(err) // never fails
		if err = errors.Join(reader.Wait(), err); err == nil {
			_, err = m.to.PgConn().CopyTo(ctx, got, read)
		}
		if err == nil && !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			err = fmt.Errorf("the copy of %s differs from its source: %w", t.name, store.ErrCorrupt)
		}
		if err != nil {
			return err
		}
		return tx.Commit(ctx)
	}()
	return asError(errors.Join(err, m.src.stale(m.from.PgConn()), m.dst.stale(m.to.PgConn()), warned(m.to.PgConn())),
		true)
}
