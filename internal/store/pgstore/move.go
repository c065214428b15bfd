package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

const (
	moveChunk = 2000 // rows copied at once
	moveTail  = 64   // commits that may be left to copy when the partition is sealed
)

// Bits of FeedItem.kinds that tell what a commit changed beside its rows.
const (
	feedMembership = 2
	feedRewrites   = 4
	feedCursors    = 16
	feedMarks      = 32
)

// MovePartition takes a partition to another database, counted from 1 as the
// DSNs are, while it is written. It copies what is there, then what the feed
// says has come meanwhile, seals the partition, copies the rest, opens it over
// there in a new epoch and changes the map. It is sealed for the time of
// about moveTail commits; its owner is refused then, and takes it over where it
// is now. What stays behind is sealed for ever and may be deleted.
//
// A move that ends early leaves the partition where it was, or sealed. The next
// move, to whichever database, first finishes what the last one left. All nodes
// must name both databases before. An error says where the partition stands.
func (s *Store) MovePartition(ctx context.Context, p im.Partition, to int) error {
	if int(p) >= im.Partitions || to < 1 || to > len(s.dbs) {
		return fmt.Errorf("move partition %d to database %d: there are %d partitions and %d databases", p, to, im.Partitions, len(s.dbs))
	}
	m := &move{s: s, part: p, dst: s.dbs[to-1], token: rand.Uint64(), began: time.Now()}
	if err := m.run(ctx); err != nil {
		return fmt.Errorf("move partition %d to database %s: %w", p, m.dst.name, err)
	}
	return nil
}

// move is one move under way. It holds the partition's row in the map, so that
// there is one at a time; its token fences one that has lost that lock.
type move struct {
	s        *Store
	part     im.Partition
	src, dst *database
	token    uint64
	pos      im.Pos // copied up to here
	began    time.Time
}

func (m *move) run(ctx context.Context) error {
	c, err := m.s.records().dial(ctx)
	if err != nil {
		return asError(err, true)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // gives the lock back, if it has it still
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

// lock takes the partition's row in the map, which says where to move it from.
func (m *move) lock(ctx context.Context, c *pgx.Conn) error {
	var from int
	err := func() error {
		if _, err := c.Exec(ctx, `BEGIN`); err != nil {
			return err
		}
		if _, err := c.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return err
		}
		return c.QueryRow(ctx, `SELECT db FROM petrel.placement WHERE part = $1 FOR UPDATE NOWAIT`, int32(m.part)).Scan(&from)
	}()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "55P03" {
		return errors.New("another process moves the partition")
	} else if err != nil {
		return asError(err, true)
	}
	m.src = m.s.dbs[from]
	return m.s.readPlacement(ctx) // another node may have moved it: what has changed is read by this store's map
}

// record writes into the map where the partition is now.
func (m *move) record(ctx context.Context, c *pgx.Conn, at *database) error {
	forgetWarning(c.PgConn())
	_, err := c.Exec(ctx, `UPDATE petrel.placement SET db = $2 WHERE part = $1`, int32(m.part), at.n)
	if err == nil {
		_, err = c.Exec(ctx, `COMMIT`)
	}
	if err = errors.Join(err, warned(c.PgConn())); err != nil {
		return fmt.Errorf("the partition is copied, but the map is not changed: move it again: %w", asError(err, true))
	}
	m.s.log.Info("partition moved", "partition", m.part, "from", m.src.name, "to", at.name, "pos", m.pos, "took", time.Since(m.began))
	return m.s.readPlacement(ctx)
}

// settle finds out where the partition is if an earlier move was cut after it
// had sealed its source. The copy may be open then, although the map does not
// say so yet; if no copy is open, the source is opened again. Copies that are
// sealed get this move's token first, so that a move which has lost its lock
// opens none of them afterwards.
func (m *move) settle(ctx context.Context) (at *database, reopened bool, err error) {
	open, err := m.openAt(ctx, m.src)
	if err != nil || open {
		return m.src, false, err
	}
	for _, d := range m.s.dbs {
		if d == m.src {
			continue
		}
		if _, err := d.exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET holder = $2 WHERE id = $1 AND state = %d`, store.FeedSealed), int32(m.part), int64(m.token)); err != nil {
			return nil, false, err
		}
		open, err := m.openAt(ctx, d)
		switch {
		case err != nil:
			return nil, false, err
		case open && at != nil:
			return nil, false, fmt.Errorf("the partition is open in the databases %s and %s: %w", at.name, d.name, store.ErrCorrupt)
		case open:
			at = d
		}
	}
	if at != nil {
		return at, false, nil
	}
	_, err = m.src.exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET state = %d, holder = 0 WHERE id = $1 AND state = %d`, store.FeedOpen, store.FeedSealed), int32(m.part))
	return m.src, true, err
}

// openAt tells whether a database has the partition and takes batches for it.
func (m *move) openAt(ctx context.Context, d *database) (bool, error) {
	n, err := collectOne(ctx, d, scanInt, fmt.Sprintf(`SELECT count(*) FROM petrel.part WHERE id = $1 AND state <> %d`, store.FeedSealed), int32(m.part))
	return n == 1, err
}

// claim makes the destination's row this move's own.
func (m *move) claim(ctx context.Context) error {
	n, err := m.dst.exec(ctx, fmt.Sprintf(`INSERT INTO petrel.part AS p (id, epoch, holder, pos, trim, state) VALUES ($1, 0, $2, 0, 0, %d)
		ON CONFLICT (id) DO UPDATE SET holder = excluded.holder WHERE p.state = excluded.state`, store.FeedSealed), int32(m.part), int64(m.token))
	if err == nil && n != 1 {
		err = fmt.Errorf("the partition is open in both databases: %w", store.ErrCorrupt)
	}
	return err
}

// carry copies the partition and opens the copy. If that fails before, the
// partition is open where it was.
func (m *move) carry(ctx context.Context) (err error) {
	if err := m.wipe(ctx); err != nil {
		return fmt.Errorf("clear the destination: %w", err)
	}
	back := true
	defer func() {
		if err == nil || !back {
			return
		}
		_, e := m.src.exec(context.WithoutCancel(ctx), fmt.Sprintf(`UPDATE petrel.part SET state = %d WHERE id = $1 AND (state = %d OR state = %d AND holder = $2)`,
			store.FeedOpen, store.FeedMoving, store.FeedSealed), int32(m.part), int64(m.token))
		if e != nil {
			err = errors.Join(err, fmt.Errorf("the partition may be sealed: move it again: %w", e))
		}
	}()
	if err := m.begin(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, t := range partTables {
		if err := m.copy(ctx, t, ""); err != nil {
			return err
		}
	}
	for left := im.Pos(math.MaxUint64); ; {
		h, err := m.s.holders(ctx, []store.Feed{store.Feed(m.part)})
		if err != nil {
			return err
		}
		now := h[0].Pos - m.pos
		if now <= moveTail || now >= left { // it is written as fast as it is copied
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
	n, err := m.dst.exec(ctx, fmt.Sprintf(`UPDATE petrel.part SET epoch = $3, pos = $4, trim = $5, holder = 0, state = %d WHERE id = $1 AND holder = $2 AND state = %d`,
		store.FeedOpen, store.FeedSealed), int32(m.part), int64(m.token), epoch+1, pos, trim)
	switch {
	case err != nil:
		return fmt.Errorf("the partition is sealed, and its copy may be open: move it again: %w", err)
	case n != 1:
		back = true
		return errors.New("another process moves the partition")
	}
	return nil
}

// begin marks the source. It waits for deletions under way; none begins after.
func (m *move) begin(ctx context.Context) error {
	return m.src.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit there is nothing to undo
		var pos int64
		if err := tx.QueryRow(ctx, `SELECT pos FROM petrel.part WHERE id = $1 FOR UPDATE`, int32(m.part)).Scan(&pos); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE petrel.part SET state = $2 WHERE id = $1`, int32(m.part), int32(store.FeedMoving)); err != nil {
			return err
		}
		m.pos = im.Pos(pos)
		return tx.Commit(ctx)
	})
}

// seal ends the source's writer. Only this move opens it again.
func (m *move) seal(ctx context.Context) (epoch, pos, trim int64, err error) {
	err = m.src.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, fmt.Sprintf(`UPDATE petrel.part SET state = %d, holder = $2, epoch = epoch + 1 WHERE id = $1 AND state = %d RETURNING epoch, pos, trim`,
			store.FeedSealed, store.FeedMoving), int32(m.part), int64(m.token)).Scan(&epoch, &pos, &trim)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("another process moves the partition")
	}
	return epoch, pos, trim, err
}

// wipe deletes what an earlier copy left at the destination.
func (m *move) wipe(ctx context.Context) error {
	for _, t := range partTables {
		for {
			n, err := m.dst.exec(ctx, fmt.Sprintf(`DELETE FROM petrel.%s WHERE part = $1 AND (%s) IN (SELECT %s FROM petrel.%s WHERE part = $1 LIMIT %d)`,
				t.name, t.key, t.key, t.name, 5*moveChunk), int32(m.part))
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// changes is what commits have done to a conversation.
type changes struct {
	from  uint64 // its first new row; 0: none
	kinds uint32
}

// tail copies what the commits up to upTo have changed.
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
	byName := map[string]partTable{}
	for _, t := range partTables {
		byName[t.name] = t
	}
	if err := m.copy(ctx, byName["feed"], `pos > $2 AND pos <= $3`, int64(m.pos), int64(upTo)); err != nil {
		return err
	}
	for k, c := range changed {
		const of = `tenant = $2 AND conv = $3`
		steps := map[string]string{"convs": of}
		if c.from > 0 {
			steps["msg"], steps["dedupe"] = of+fmt.Sprintf(` AND seq >= %d`, c.from), of+fmt.Sprintf(` AND seq >= %d`, c.from)
		}
		if c.kinds&feedRewrites != 0 { // of what was there before, what has the flag in its head
			steps["msg"] = of + fmt.Sprintf(` AND (seq >= %d OR length(value) > 1 AND get_byte(value, 1) & %d <> 0)`, c.from, store.RowRewritten)
		}
		if c.kinds&feedMembership != 0 {
			steps["members"] = of
		}
		if c.kinds&feedCursors != 0 {
			steps["cursors"] = of
		}
		if c.kinds&feedMarks != 0 {
			steps["marks"] = of
		}
		for name, where := range steps {
			if err := m.copy(ctx, byName[name], where, int32(k.Tenant), [16]byte(k.Conv)); err != nil {
				return err
			}
		}
	}
	m.pos = upTo
	return nil
}

// copy copies the rows of the partition that where chooses, whose parameters
// begin with $2, and compares each chunk with what the destination has then.
func (m *move) copy(ctx context.Context, t partTable, where string, args ...any) error {
	if where == "" {
		where = "true"
	}
	args = append([]any{int32(m.part)}, args...)
	keys := strings.Split(t.key, ", ")
	var last []any // the key of the last row copied
	for {
		rows, err := m.read(ctx, m.src, t, where, args, last, nil)
		if err != nil || len(rows) == 0 {
			return err
		}
		before := last
		last = nil
		for _, k := range keys {
			last = append(last, rows[len(rows)-1][t.index(k)])
		}
		if err := m.insert(ctx, t, rows); err != nil {
			return err
		}
		got, err := m.read(ctx, m.dst, t, where, args, before, last)
		if err != nil {
			return err
		}
		if want := t.encode(rows); !slicesEqual(want, t.encode(got)) {
			return fmt.Errorf("a copy of %d rows of %s has %d, or others: %w", len(rows), t.name, len(got), store.ErrCorrupt)
		}
		if len(rows) < moveChunk {
			return nil
		}
	}
}

// read reads at most moveChunk rows behind the key after, up to the key upTo;
// nil: no bound.
func (m *move) read(ctx context.Context, d *database, t partTable, where string, args, after, upTo []any) ([][]any, error) {
	args = args[:len(args):len(args)]
	bound := func(op string, key []any) string {
		if key == nil {
			return ""
		}
		params := make([]string, len(key))
		for i, v := range key {
			args = append(args, v)
			params[i] = fmt.Sprintf("$%d", len(args))
		}
		return fmt.Sprintf(" AND (%s) %s (%s)", t.key, op, strings.Join(params, ", "))
	}
	sql := fmt.Sprintf(`SELECT %s FROM petrel.%s WHERE part = $1 AND %s`, t.columns, t.name, where) + bound(">", after) + bound("<=", upTo)
	return collect(ctx, d, func(r pgx.CollectableRow) ([]any, error) { return r.Values() }, sql+fmt.Sprintf(` ORDER BY %s LIMIT %d`, t.key, moveChunk), args...)
}

// insert writes rows to the destination.
func (m *move) insert(ctx context.Context, t partTable, rows [][]any) error {
	names, types := strings.Split(t.columns, ", "), strings.Split(t.types, ", ")
	var params, set []string
	for i, n := range names {
		params = append(params, fmt.Sprintf("$%d::%s[]", i+1, types[i]))
		set = append(set, fmt.Sprintf("%s = excluded.%s", n, n))
	}
	sql := fmt.Sprintf(`INSERT INTO petrel.%s (%s) SELECT * FROM unnest(%s) ON CONFLICT (part, %s) DO UPDATE SET %s`,
		t.name, t.columns, strings.Join(params, ", "), t.key, strings.Join(set, ", "))
	values := t.encode(rows)
	return m.dst.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.PgConn().ExecParams(ctx, sql, values, nil, []int16{pgx.BinaryFormatCode}, nil).Read().Err
	})
}

// index is the place of a column.
func (t partTable) index(column string) int {
	for i, c := range strings.Split(t.columns, ", ") {
		if c == column {
			return i
		}
	}
	return -1
}

// encode makes an array of each column.
func (t partTable) encode(rows [][]any) [][]byte {
	var all [][]byte
	for i, name := range strings.Split(t.types, ", ") {
		a := array{oid: columnTypes[name]}
		a.reset()
		for _, r := range rows {
			switch v := r[i].(type) {
			case int32:
				a.int4(int(v))
			case int64:
				a.int8(uint64(v))
			case [16]byte:
				a.uuid(v)
			case string:
				a.text(v)
			case []byte:
				a.bytes(v)
			default:
				im.Assert(false, "column %d of %s is a %T", i, t.name, v)
			}
		}
		all = append(all, a.encode())
	}
	return all
}

func slicesEqual(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
