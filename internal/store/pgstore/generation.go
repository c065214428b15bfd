package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
)

// A database has a generation, which begins when a standby is promoted: the first node that finds another
// timeline, or another system identifier, than the database has recorded raises the number. Two rules follow.
//
// A node that knows a generation uses no lower one. An old primary that comes back has the lower number, so
// each new connection to it is refused, and answers over older connections are not believed.
//
// A node that comes to a higher generation compares the positions that it knows with the positions of the feeds
// at the beginning of that generation. A standby that lagged when it was promoted had lower ones. The present
// positions prove nothing: other commits may have raised them since.

// errBehind is the error of a connection to a database whose generation is lower than the highest known one.
var errBehind = errors.New("the database is of a lower generation than is known")

// order compares generations: the higher number is the newer one. Two standbys that were promoted at once may
// have the same number; then the token decides, so that all nodes prefer the same one.
func order(a, b *storepb.Generation) int {
	return cmp.Or(cmp.Compare(a.GetNumber(), b.GetNumber()), cmp.Compare(a.GetToken(), b.GetToken()))
}

// base is a generation of a database that this process uses, with the positions of the feeds at its beginning.
type base struct {
	*storepb.Generation
	next []uint64 // as in storepb.Positions; empty: they are not known
}

// stands returns the position of a feed at the beginning of the generation; false: it is not known, or the
// database did not hold the feed.
func (b *base) stands(f int) (im.Pos, bool) {
	if f >= len(b.next) || b.next[f] == 0 {
		return 0, false
	}
	return im.Pos(b.next[f] - 1), true
}

// generationKey is the key under which a connection keeps its generation.
const generationKey = "generation"

// stale returns errBehind if a connection leads to a lower generation than is known now: its answers may be of
// a history that the other nodes do not share.
func (d *database) stale(c *pgconn.PgConn) error {
	g, _ := c.CustomData()[generationKey].(*storepb.Generation)
	if need := d.need.Load(); need != nil && order(g, need) < 0 {
		return errBehind
	}
	return nil
}

// require makes g the least generation that may be used, unless a higher one is required already. Connections to a
// lower one are given up.
func (d *database) require(g *storepb.Generation) {
	for {
		old := d.need.Load()
		if order(old, g) >= 0 {
			return
		}
		if d.need.CompareAndSwap(old, g) {
			break
		}
	}
	if d.pool != nil {
		d.pool.Reset()
	}
	wake.Set(d.raised)
}

// identitySQL reads the state of a database, and serverSQL that of its server. Not every substitute for
// PostgreSQL answers serverSQL.
const (
	identitySQL = `SELECT s.store_id, s.history_id, s.db, g.number, g.token, g.system, g.timeline, s.refuted
	FROM petrel.store AS s CROSS JOIN petrel.generations AS g WHERE s.id = 1 ORDER BY g.number DESC LIMIT 1`
	serverSQL = `SELECT system_identifier, pg_walfile_name(pg_current_wal_insert_lsn()) FROM pg_control_system()`
)

// sayAgain is the least time between two log lines about a refused database.
const sayAgain = time.Minute

// serverState is the state of a database and its server.
type serverState struct {
	address        string // of the server
	store, history uint64
	db             int
	refuted        string // what proved that the store is an earlier state; empty: nothing
	generation     *storepb.Generation
	system         uint64
	timeline       uint32
}

// readServerState reads the state of the database at the other end of a connection; nil: it holds no store.
func readServerState(ctx context.Context, c *pgconn.PgConn) (*serverState, error) {
	results, err := c.Exec(ctx, identitySQL+";"+serverSQL).ReadAll()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case e.Code == "42P01" || e.Code == "3F000":
			return nil, nil
		case len(results) > 0 && isUnsupported(e):
			err = nil
		}
	}
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return nil, err
	}
	var p numbers
	r := results[0].Rows[0]
	s := &serverState{address: c.Conn().RemoteAddr().String(), store: p.signed(r[0]), history: p.signed(r[1]),
		db: int(p.signed(r[2])), refuted: string(r[7]), generation: &storepb.Generation{
			Number: p.signed(r[3]), Token: p.signed(r[4]), System: p.signed(r[5]), Timeline: uint32(p.signed(r[6])),
		}}
	if len(results) > 1 {
		s.server(&p, results[1])
	}
	return s, p.err
}

// isUnsupported tells whether the error is that of a server which cannot answer serverSQL.
func isUnsupported(e *pgconn.PgError) bool {
	return e.Code == "42883" || e.Code == "42501" || e.Code == "0A000"
}

// server reads the answer to serverSQL.
func (s *serverState) server(p *numbers, r *pgconn.Result) {
	if len(r.Rows) == 1 && len(r.Rows[0][1]) == 24 {
		s.system, s.timeline = p.signed(r.Rows[0][0]), p.timeline(r.Rows[0][1])
	}
}

// askServer reads the system identifier and timeline of a server; both are 0 if it does not tell them.
func askServer(ctx context.Context, c *pgconn.PgConn) (*serverState, error) {
	var s serverState
	var p numbers
	results, err := c.Exec(ctx, serverSQL).ReadAll()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && isUnsupported(e) {
		return &s, nil
	}
	if err == nil {
		s.server(&p, results[0])
	}
	return &s, errors.Join(err, p.err)
}

// numbers parses numbers in the answers of a server, and keeps the errors.
type numbers struct{ err error }

// signed reads the 64 bits of an unsigned number that is stored as a signed one.
func (p *numbers) signed(b []byte) uint64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	p.err = errors.Join(p.err, err)
	return uint64(n)
}

// timeline reads the first 8 hexadecimal digits of the name of a WAL file.
func (p *numbers) timeline(b []byte) uint32 {
	n, err := strconv.ParseUint(string(b[:8]), 16, 32)
	p.err = errors.Join(p.err, err)
	return uint32(n)
}

// validate checks each new connection before its use. If a DSN names several hosts, a refusal leads to the next
// one.
func (d *database) validate(ctx context.Context, c *pgconn.PgConn) error {
	if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c); err != nil || d.bare {
		return err
	}
	s, err := readServerState(ctx, c)
	for err == nil && s != nil {
		if err = d.checkServerState(s); err != nil {
			break
		}
		if b := d.base.Load(); d.known() == nil || b != nil && order(b.Generation, s.generation) == 0 && s.same() {
			c.CustomData()[generationKey] = s.generation
			d.refused.Store(nil)
			return nil
		}
		if err = d.adopt(ctx, c, s); err == nil {
			s, err = readServerState(ctx, c)
		}
	}
	if err == nil && d.known() != nil {
		err = fmt.Errorf("database %s holds no store: %w", d.name, store.ErrCorrupt)
	}
	return err
}

// same tells whether the server is the one with which the generation began.
func (s *serverState) same() bool {
	return s.system == s.generation.System && s.timeline == s.generation.Timeline
}

// checkServerState refuses a server that must not be used. A server of a lower generation is only refused: it
// may be the wrong host, even if it has the history from before a repair. A server with another store, history
// or database number ends the store, and so does one that is noted as an earlier state: the memory of this
// process comes from another past.
func (d *database) checkServerState(s *serverState) error {
	info := d.known()
	if info != nil && s.store != info.StoreID {
		return d.isOther(s, info)
	}
	if err := d.judgeGeneration(s); err != nil {
		return err
	}
	if info != nil && (s.history != info.HistoryID || s.db != d.n) {
		return d.isOther(s, info)
	}
	if s.refuted != "" {
		p := d.rewound(s.refuted)
		if info != nil {
			d.out.fail(fmt.Errorf("%w: %w", store.ErrRewound, p))
			return d.out.err()
		}
		return p
	}
	return nil
}

// isOther ends the store because a server holds another store than this process has opened.
func (d *database) isOther(s *serverState, info *store.Info) error {
	p := &Problem{Code: "other_store",
		What: fmt.Sprintf(
			"%s, of database %s, holds database %d of store %x, history %x, and this node has opened database %d of store %x, history %x",
			s.address, d.name, s.db+1, s.store, s.history, d.n+1, info.StoreID, info.HistoryID),
		Fix: "if the store was repaired or restored, start the node again; else take the server that does not belong to the store out of store.postgres"}
	d.out.fail(p)
	return p
}

// judgeGeneration refuses a generation below the one that is known.
func (d *database) judgeGeneration(s *serverState) error {
	need := d.need.Load()
	if order(s.generation, need) >= 0 {
		return nil
	}
	p := &Problem{Code: "database_behind", Cause: errBehind,
		What: fmt.Sprintf(
			"%s, of database %s, is of generation %d, timeline %d, and generation %d, timeline %d, is known: it is the primary from before a failover", s.address, d.name,
			s.generation.GetNumber(), s.timeline, need.GetNumber(), need.GetTimeline()),
		Fix: "stop that server, or make it a standby of the new primary with pg_rewind, and name the new primary in store.postgres"}
	d.refusals.Add(1)
	d.refused.Store(p)
	if last := d.refusedAt.Load(); time.Since(time.Unix(0, last)) > sayAgain &&
		d.refusedAt.CompareAndSwap(last, time.Now().UnixNano()) {
		d.log.Error("database is refused: it is the primary from before a failover", "database", d.name, "address",
			s.address, "generation", s.generation.GetNumber(), "timeline", s.timeline,
			"known_generation", need.GetNumber(), "known_timeline", need.GetTimeline(), "fix", p.Fix)
	}
	return p
}

// adopt makes the generation of a connection the one in use, before anything is read over the connection. It
// compares the positions there with the known ones. If the server is not the one that the database has
// recorded, it begins a new generation, and the next call adopts that.
func (d *database) adopt(ctx context.Context, c *pgconn.PgConn, s *serverState) error {
	select {
	case d.adopting <- struct{}{}:
		defer func() { <-d.adopting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b := d.base.Load()
	if b != nil && order(b.Generation, s.generation) == 0 && s.same() {
		return nil // another connection has done it
	}
	// From here on no answer of the former generation is passed on, so the known positions cover all its
	// answers.
	d.require(s.generation)
	known := d.seen.all()
	now, err := d.positions(ctx, c)
	if err != nil {
		return err
	}
	if b != nil {
		if err := d.compareSince(ctx, c, b.Generation, s.generation, known); err != nil {
			return err
		}
	}
	if err := d.compare(known, now); err != nil {
		return err
	}
	if !s.same() {
		return d.begin(ctx, c, s, now)
	}
	begun, err := d.began(ctx, c, s.generation.Number)
	if err != nil {
		return err
	}
	d.base.Store(&base{s.generation, begun})
	if b != nil {
		d.log.Warn("database was failed over: nothing that is known is missing", "database", d.name, "generation",
			s.generation.Number, "timeline", s.timeline)
	}
	return nil
}

// generation returns the generation of b; nil: none is known.
func (b *base) generation() *storepb.Generation {
	if b == nil {
		return nil
	}
	return b.Generation
}

// positions reads the positions of the feeds that the database holds. Each is returned plus 1; 0 stands for a
// feed that it does not hold.
func (d *database) positions(ctx context.Context, c *pgconn.PgConn) ([]uint64, error) {
	r := c.ExecParams(ctx, fmt.Sprintf(`SELECT id, pos FROM petrel.part WHERE state <> %d`, store.FeedSealed), nil, nil,
		nil, nil).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	var p numbers
	next := make([]uint64, im.Partitions)
	for _, row := range r.Rows {
		id, pos := p.signed(row[0]), p.signed(row[1])
		if id >= im.Partitions {
			return nil, fmt.Errorf("database %s has a partition %d: %w", d.name, id, store.ErrCorrupt)
		}
		next[id] = pos + 1
	}
	return next, p.err
}

// began reads the positions of the feeds at the beginning of a generation, as positions returns them; nil: there is no
// such generation.
func (d *database) began(ctx context.Context, c *pgconn.PgConn, number uint64) ([]uint64, error) {
	r := c.ExecParams(ctx, `SELECT positions FROM petrel.generations WHERE number = $1`,
		[][]byte{[]byte(strconv.FormatUint(number, 10))}, nil, nil, []int16{pgx.BinaryFormatCode}).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		return nil, r.Err
	}
	var p storepb.Positions
	if err := p.UnmarshalVT(r.Rows[0][0]); err != nil {
		return nil, fmt.Errorf("read generation %d of database %s: %w: %w", number, d.name, store.ErrCorrupt, err)
	}
	return p.Next, nil
}

// begin records the generation that a failover has begun. If several nodes do so at once, one succeeds, and the
// others find its record.
func (d *database) begin(ctx context.Context, c *pgconn.PgConn, s *serverState, now []uint64) error {
	g := newGeneration(s.generation.Number+1, s)
	forgetWarning(c)
	if err := insertGeneration(ctx, c, g, now); err != nil {
		return err
	}
	if err := warned(c); err != nil {
		return err
	}
	d.log.Warn("database was failed over: a new generation begins", "database", d.name, "generation", g.Number,
		"timeline", g.Timeline,
		"former_timeline", s.generation.Timeline)
	return nil
}

// newGeneration returns a generation that begins on a server.
func newGeneration(number uint64, on *serverState) *storepb.Generation {
	return &storepb.Generation{Number: number, Token: rand.Uint64(), System: on.system, Timeline: on.timeline}
}

// insertGeneration writes a generation, if it is not there, and the positions of the feeds.
func insertGeneration(ctx context.Context, c *pgconn.PgConn, g *storepb.Generation, next []uint64) error {
	b, err := (&storepb.Positions{Next: next}).MarshalVT()
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, fmt.Sprintf(
		`INSERT INTO petrel.generations VALUES (%d, %d, %d, %d, '\x%x') ON CONFLICT DO NOTHING`,
		g.Number, int64(g.Token), int64(g.System), g.Timeline, b)).ReadAll()
	return err
}

// compare compares the known positions of the feeds of this database with those in next. Missing commits end
// the store.
func (d *database) compare(known []im.Pos, next []uint64) error {
	if lost := d.lower(known, next); len(lost) > 0 {
		return d.lack(lost)
	}
	return nil
}

// compareSince compares positions that were known in a former generation with those at the beginning of the
// generation after it. If there is no newer one, it compares nothing. Later positions would hide missing
// commits, because other nodes may have raised them.
func (d *database) compareSince(ctx context.Context, c *pgconn.PgConn, was, is *storepb.Generation,
	known []im.Pos) error {
	if order(was, is) >= 0 {
		return nil
	}
	then, err := d.began(ctx, c, min(was.Number+1, is.GetNumber()))
	if err == nil {
		err = d.compare(known, then)
	}
	return err
}

// lower returns the feeds of this database whose positions are below the known ones.
func (d *database) lower(known []im.Pos, next []uint64) (list []missingCommits) {
	at := d.seen.at.Load()
	for f, n := range next {
		if at != nil && f < len(at) && at[f] == d.n && n > 0 && uint64(known[f]) > n-1 {
			list = append(list, missingCommits{store.Feed(f), known[f], im.Pos(n - 1)})
		}
	}
	return list
}

// describe returns a text for operators: how many commits are missing in all feeds together, and the positions of the
// first eight feeds.
func describe(feeds []missingCommits) string {
	const most = 8
	missing := im.Pos(0)
	list := make([]string, 0, most+1)
	for i, f := range feeds {
		missing += f.known - min(f.known, f.found)
		if i < most {
			list = append(list, fmt.Sprintf("feed %d has %d of %d", f.feed, f.found, f.known))
		} else if i == most {
			list = append(list, "…")
		}
	}
	return fmt.Sprintf("at least %d commits that were acked are missing in %d feeds (%s)", missing, len(feeds),
		strings.Join(list, ", "))
}
