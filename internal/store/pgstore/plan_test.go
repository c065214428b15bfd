package pgstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Every read is planned once for each connection, and keeps its plan while the tables
// grow: so it reads by the key, also where a table had one page when it was planned.
func TestPlansAreKeptAndReadByTheKey(t *testing.T) {
	st, r := one(t)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 3)
	r.do(`ANALYZE`)
	c, ctx := conv(1, 0), t.Context()
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	for range 8 { // PostgreSQL by itself would plan the first five anew
		_, err := st.LastRow(ctx, c)
		note(err)
		note(st.Rows(ctx, c, 1, 3, func(store.Row) bool { return true }))
		note(st.RowsDown(ctx, c, 1, 3, func(store.Row) bool { return true }))
		_, err = st.Dedupe(ctx, c, 1)
		note(err)
		_, err = st.Conversation(ctx, c)
		note(err)
		note(st.Members(ctx, c, func(im.User, *storepb.Member) bool { return true }))
		_, err = st.Member(ctx, c, "ann")
		note(err)
		note(st.Cursors(ctx, c, "", func(im.User, *storepb.Cursor) bool { return true }))
		_, err = st.Cursor(ctx, c, "ann")
		note(err)
		note(st.Marks(ctx, c, store.MarkReactions, 1, 3, "", func(im.Seq, string, []byte) bool { return true }))
		_, err = st.MarksOf(ctx, c, store.MarkReactions, "ann", []im.Seq{1, 2})
		note(err)
		note(st.MarksBy(ctx, c, store.MarkMention, "ann", 1, 3, func(im.Seq, []byte) bool { return true }))
		note(st.Sizes(ctx, func(im.Key, store.Size) bool { return true }))
		note(st.ScanFeed(ctx, 1, 0, 3, func(im.Pos, *storepb.FeedEntry) bool { return true }))
		_, err = st.Record(ctx, store.Users, 1, []byte("ann"))
		note(err)
		note(st.Records(ctx, store.Users, 1, []byte("a"), func(_, _ []byte) bool { return true }))
		note(st.RecordsDown(ctx, store.Users, 1, []byte("a"), nil, func(_, _ []byte) bool { return true }))
		_, err = st.dbs[0].readConversations(ctx, []im.Key{c, conv(1, 1)})
		note(err)
		_, err = st.dbs[0].readRecords(ctx, []recordKey{{store.Users, 1, "ann"}, {store.Users, 1, "bob"}})
		note(err)
	}
	for _, err := range errs {
		wantErr(t, "read", err, nil)
	}
	seen := map[string]bool{}
	for _, pooled := range st.dbs[0].pool.AcquireAllIdle(ctx) {
		defer pooled.Release()
		for _, s := range preparedOn(t, pooled.Conn()) {
			if s.custom > 0 {
				t.Errorf("planned %d times: %s", s.custom, s.sql)
			}
			plan := s.explain(t, pooled.Conn())
			if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Bitmap") || !strings.Contains(plan, "Index") {
				t.Errorf("%s\nis read so:\n%s", s.sql, plan)
			}
			seen[s.sql] = true
		}
	}
	if len(seen) != 19 {
		t.Errorf("%d statements were looked at, want 19", len(seen))
	}
}

// preparedStatement is one that a connection keeps.
type preparedStatement struct {
	name, sql string
	custom    int64    // how often it was planned for its arguments
	types     []string // of the arguments
}

// preparedOn lists the reads that a connection has prepared from the tables whose size
// grows.
func preparedOn(t *testing.T, c *pgx.Conn) []preparedStatement {
	t.Helper()
	rows, err := c.Query(t.Context(), `SELECT name, statement, custom_plans, parameter_types::text[] FROM pg_prepared_statements
		WHERE statement ~ 'FROM petrel\.(msg|dedupe|convs|members|cursors|marks|feed|records)' AND statement ~ '^SELECT'`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (s preparedStatement, err error) {
		return s, r.Scan(&s.name, &s.sql, &s.custom, &s.types)
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// explain is the plan that is kept.
func (s preparedStatement) explain(t *testing.T, c *pgx.Conn) string {
	t.Helper()
	args := make([]string, len(s.types))
	for i, typ := range s.types {
		args[i] = map[string]string{"text": "''", "bytea": "''", "uuid": "'00000000-0000-0000-0000-000000000000'"}[typ]
		if strings.HasSuffix(typ, "[]") {
			args[i] = "'{}'"
		} else if args[i] == "" {
			args[i] = "1"
		}
	}
	rows, err := c.Query(t.Context(), fmt.Sprintf(`EXPLAIN EXECUTE %s(%s)`, pgx.Identifier{s.name}.Sanitize(), strings.Join(args, ", ")), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("explain %s: %v", s.sql, err)
	}
	return strings.Join(lines, "\n")
}
