package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgserver"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/store/storetest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patient are options of a store on a machine that may stand still for seconds: only a test
// that stops a server meets their limits.
func patient(o Options) Options {
	if o.Timeout == 0 {
		o.Timeout = eventually.Limit
	}
	if o.StallAfter == 0 {
		o.StallAfter = eventually.Limit
	}
	o.DSNs = slices.Clone(o.DSNs)
	for i, dsn := range o.DSNs {
		if !strings.Contains(dsn, "connect_timeout=") {
			o.DSNs[i] = fmt.Sprintf("%s&connect_timeout=%d", dsn, eventually.Limit/time.Second) // each has ?sslmode=disable
		}
	}
	return o
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), patient(o))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// left are the databases of tests that are over.
var left []string

// blank is a database without a store. To make one and its tables takes a fifth of a
// second of CPU, so it may be that of an earlier test, emptied. A test of the tables
// themselves, or one that changes more than rows of a store, makes its own.
func blank(t testing.TB) string {
	t.Helper()
	var dsn string
	if n := len(left); n > 0 {
		dsn, left = left[n-1], left[:n-1]
		empty(t, dsn)
	} else {
		var err error
		if dsn, err = pgtest.Shared(t).Copy(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { left = append(left, dsn) })
	return dsn
}

// empty ends all connections to a database and deletes the rows of its store.
func empty(t testing.TB, dsn string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }() // all is decided by then
	eventually.True(t, "nobody else uses "+dsn, func() bool {
		var n int
		if err := c.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	if _, err := c.PgConn().Exec(ctx, pgserver.Empty).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

// one is a store in one database of its own.
func one(t *testing.T) (*Store, *raw) {
	t.Helper()
	dsn := blank(t)
	st := mustOpen(t, Options{DSNs: []string{dsn}, CheckEvery: 50 * time.Millisecond})
	t.Cleanup(func() { mustClose(t, st) })
	return st, newRaw(t, dsn)
}

// raw is a connection beside the store.
type raw struct {
	*testing.T
	*pgx.Conn
}

func newRaw(t *testing.T, dsn string) *raw {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // the test is over
	return &raw{t, c}
}

func (r *raw) do(sql string, args ...any) {
	r.Helper()
	if _, err := r.Exec(context.Background(), sql, args...); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
}

func (r *raw) number(sql string, args ...any) (n int64) {
	r.Helper()
	if err := r.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		r.Fatalf("%s: %v", sql, err)
	}
	return n
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

// next is the batch of the next row of a feed's first conversation.
func (w *feedWriter) next() *store.Batch {
	w.heads[0]++
	return &store.Batch{
		Feed: w.feed, Epoch: w.epoch, Holder: holder, From: w.pos, Entry: &storepb.FeedEntry{TimeMs: uint64(w.pos) + 1},
		Rows: []store.RowPut{{Conv: conv(w.feed, 0), Seq: w.heads[0], Value: fmt.Appendf(nil, "row %d", w.heads[0])}},
	}
}

func (w *feedWriter) add(t testing.TB, st *Store, n int) {
	t.Helper()
	for range n {
		if err := appendOne(st, w.next()); err != nil {
			t.Fatal(err)
		}
		w.pos++
	}
}

// start appends without waiting.
func start(st *Store, b *store.Batch) <-chan error {
	done := make(chan error, 1)
	st.Append(b, func(err error) { done <- err })
	return done
}

// head is the newest row of a feed's first conversation, 0 if there is none.
func head(t testing.TB, st *Store, f store.Feed) im.Seq {
	t.Helper()
	row, err := st.LastRow(context.Background(), conv(f, 0))
	if err != nil {
		t.Fatal(err)
	}
	if row == nil {
		return 0
	}
	return row.Seq
}

func TestStoreOnPostgreSQLIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		o := Options{DSNs: []string{blank(t)}}
		return func() store.Store { return mustOpen(t, o) }
	})
}

func TestStoreOnTwoDatabasesIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() store.Store {
		o := Options{DSNs: []string{blank(t), blank(t)}}
		return func() store.Store { return mustOpen(t, o) }
	})
}
