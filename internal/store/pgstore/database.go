package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// database is one of the store's databases: a pool for all goroutines, and a committer with a connection of
// its own.
type database struct {
	o     Options
	log   *slog.Logger
	n     int    // its place among the DSNs, from 0
	name  string // without a password
	conf  *pgxpool.Config
	out   *outage
	known func() *store.Info // the identity of the store; nil: not known yet
	pool  *pgxpool.Pool

	unknowns atomic.Uint64 // commits of unknown outcome
	damaged  atomic.Uint64 // values that had a wrong checksum when they were read

	seen      *seen
	base      atomic.Pointer[base]               // the generation in use; nil: none yet
	need      atomic.Pointer[storepb.Generation] // the highest generation that is known; nil: none is
	adopting  chan struct{}                      // capacity 1; holds a token while adopt runs
	refused   atomic.Pointer[Problem]            // why the last connection's generation was refused; nil: it was not
	refusedAt atomic.Int64                       // Unix nanoseconds; when a refusal was last logged
	refusals  atomic.Uint64
	bare      bool // a new connection is not compared with the store
	committer
	lookups
}

// newDatabase makes a database from the n-th DSN, from 0, without connecting to it. Neither its name nor the error
// contains a password.
func newDatabase(o Options, n int, out *outage, known func() *store.Info, s *seen) (*database, error) {
	conf, err := pgxpool.ParseConfig(o.DSNs[n])
	if err != nil {
		// The cause may quote the DSN, and with it the password.
		return nil, fmt.Errorf(
			"database %d: its URL cannot be read: write postgres://user:password@host:5432/name, with %%40 for @ and %%2F for / in the password", n+1)
	}
	d := &database{o: o, log: o.Log, n: n, out: out, known: known, conf: conf, seen: s,
		adopting: make(chan struct{}, 1)}
	d.name = fmt.Sprintf("%d (%s@%s/%s)", n+1, conf.ConnConfig.User, strings.Join(d.hosts(), ","),
		conf.ConnConfig.Database)
	if !strings.Contains(o.DSNs[n], "pool_max_conns=") { // ParseConfig has read that
		conf.MaxConns = int32(o.Conns)
	}
	c := conf.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 5 * time.Second
	}
	c.ValidateConnect = d.validate
	c.OnNotice = noteWarning
	c.DialFunc = dialer(o.GoneAfter).DialContext
	for k, v := range map[string]string{
		"application_name": "petrel", "synchronous_commit": "on", "default_transaction_isolation": "read committed",
		"timezone": "UTC",
		// Without these, the session of a node that vanished keeps its locks for as long as the system is set
		// to, which may be two hours.
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "1", "tcp_user_timeout": "10000", // s, s, ms
		// With these settings a connection plans each statement once. By default PostgreSQL plans every
		// execution anew, for the one child table that has the partition, and a plan costs ten times as much as
		// an execution. A kept plan must not depend on how small a table was when it was planned. So scans
		// are off, and each table is read by its index. jit is off because PostgreSQL gives a scan that is off
		// a high cost, and would compile such a statement.
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off", "jit": "off",
	} {
		c.RuntimeParams[k] = v
	}
	d.committer.init()
	d.lookups.init(d)
	return d, nil
}

// warning is the key of a connection's last warning.
const warning = "warning"

// noteWarning keeps a warning with its connection. The important one says that a commit did not wait for the
// standby, which may lack it.
func noteWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized != "NOTICE" && n.SeverityUnlocalized != "INFO" && n.SeverityUnlocalized != "DEBUG" &&
		n.SeverityUnlocalized != "LOG" {
		c.CustomData()[warning] = n.Message
	}
}

// warned returns the warning since forgetWarning, as an error.
func warned(c *pgconn.PgConn) error {
	if w, ok := c.CustomData()[warning]; ok {
		return fmt.Errorf("%w: the server warns: %v", store.ErrUnknown, w)
	}
	return nil
}

func forgetWarning(c *pgconn.PgConn) { delete(c.CustomData(), warning) }

// dial makes a connection beside the pool.
func (d *database) dial(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.conf.ConnConfig.ConnectTimeout)
	defer cancel()
	return pgx.ConnectConfig(ctx, d.conf.ConnConfig.Copy())
}

// verdict is the outcome of a statement, judged by its error.
type verdict int

const (
	unknown verdict = iota // the statement may have been carried out
	away                   // not carried out; a retry may succeed when the server answers again
	full                   // not carried out, for lack of space
	again                  // not carried out; a retry may succeed at once
	damaged                // not carried out: the server has met damage
	broken                 // not carried out, and no retry will succeed
)

// judge derives the outcome of a statement from its error. An error of severity ERROR has rolled the
// transaction back; FATAL may come after the commit, during the wait for the standby.
func judge(err error) verdict {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok || pgconn.SafeToRetry(err) {
		return away
	}
	e, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, errUnfit):
		return broken
	case !answered, e.SeverityUnlocalized != "ERROR":
		return unknown
	case e.Code == "53100":
		return full
	case e.Code == "XX001", e.Code == "XX002":
		return damaged
	case e.Code == "25006": // the server is a standby now
		return away
	}
	switch e.Code[:2] {
	case "40":
		return again
	case "08", "53", "55", "57", "58":
		return away
	}
	return broken
}

// asError maps err to the errors of the contract. writes: the statement changes data, so its outcome may stay
// unknown.
func asError(err error, writes bool) error {
	if err == nil {
		return nil
	}
	switch judge(err) {
	case away, again:
		return fmt.Errorf("%w: %w", store.ErrStalled, err)
	case full:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case damaged:
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case unknown:
		if !writes {
			return fmt.Errorf("%w: %w", store.ErrStalled, err)
		}
	}
	return err
}

// collect reads rows with one statement. scan must not keep the row's memory. If the connection is lost during
// the read, collect tries once more.
func collect[T any](ctx context.Context, d *database, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	if err := d.out.err(); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		all, err := collectOnce(ctx, d, scan, sql, args...)
		switch {
		case err == nil:
			return all, nil
		case errors.Is(ctx.Err(), context.DeadlineExceeded): // the caller's time is over
			return nil, fmt.Errorf("%w: %w", store.ErrStalled, err)
		case ctx.Err() != nil:
			return nil, err
		}
		if errors.Is(err, store.ErrCorrupt) { // scan has met damage
			return nil, err
		}
		if v := judge(err); try == 1 || v != unknown && v != away || errors.Is(err, context.DeadlineExceeded) {
			return nil, asError(err, false)
		}
	}
}

// patience returns the time limit of a statement. It is short while the committer has no connection: the
// database may be out of reach, and other callers wait for the connections of the pool.
func (d *database) patience() time.Duration {
	if d.down.Load() {
		return min(d.o.StallAfter, d.o.Timeout)
	}
	return d.o.Timeout
}

func collectOnce[T any](ctx context.Context, d *database, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience())
	defer cancel()
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Release()
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, scan)
	if err == nil {
		err = d.stale(c.Conn().PgConn())
	}
	return all, err
}

// write calls f, which changes data, with a connection of the pool. A nil error means that the change is durable. If
// the server has rolled the change back and a retry may succeed at once, write calls f again, up to three times.
func (d *database) write(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	if err := d.out.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.patience())
	defer cancel()
	for try := 0; ; try++ {
		err := d.writeOnce(ctx, f)
		if err == nil || judge(err) != again || try == 3 || errors.Is(err, store.ErrUnknown) {
			return asError(err, true)
		}
	}
}

func (d *database) writeOnce(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	c, err := d.pool.Acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", store.ErrStalled, err)
	}
	defer c.Release()
	forgetWarning(c.Conn().PgConn())
	if err := f(ctx, c.Conn()); err != nil {
		return err
	}
	if err := d.stale(c.Conn().PgConn()); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	}
	return warned(c.Conn().PgConn())
}

// exec runs one statement that changes data, as write does, and returns the number of rows that it has changed.
func (d *database) exec(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = d.write(ctx, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, sql, args...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
