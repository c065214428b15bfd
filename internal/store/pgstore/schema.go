package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/store"
)

// version is the version of the schema. minReader is the oldest version of this package that works on the
// tables after the newest migration. A release first adds what it needs and keeps minReader. The next release
// removes unused parts and raises minReader. So neighbouring releases run together.
const (
	version   = 1
	minReader = 1
)

// children is the number of tables into which each large table is divided, by a hash of the partition. They are
// vacuumed at the same time, and their indexes are lower. Each child that an append touches costs some
// microseconds and one lock. 16 is the least that lets 8 vacuum workers find work.
const children = 16

// migrations[i] leads from version i to i+1. Never change one that was released.
var migrations = [version]func() []string{firstSchema}

// firstSchema returns the statements that make the tables. The key of everything that belongs to a Petrel
// partition begins with the partition. The row that fences a partition is in the same database as its data, and
// moves with it. No key has a time in it, so numbers are unique for ever. Old rows are removed below the
// first_seq of a conversation.
//
//	part       the fence and position of each partition that is or was here
//	feed       storepb.FeedEntry of each commit
//	msg        one row, as store.AppendRowHead and the wire message
//	dedupe     the send with that hash of its message id
//	convs, members, cursors   storepb records
//	marks      marks beside rows; a removed one has an empty value. MarksBy has an index
//	records    the tables of package store; in the first database
//	placement  which database holds a partition; in the first database
//	store      the identity of the store, the number of this database, and the proof
//	           that it is an earlier state
//	generations  storepb.Generation, and storepb.Positions: the positions of the feeds
//	           at its beginning
//
// A bigint holds the 64 bits of an unsigned number of Petrel. Users sort by their bytes. Every commit updates
// the row of its partition. The changed columns are in no index, so half of each page is left free for new
// versions of the row. Values over 2 KiB are stored outside the row and are not compressed: few are pure text,
// and the compression would take time from the committer. Each value ends with its checksum (checksum.go); in
// dedupe the checksum is a column.
func firstSchema() []string {
	all := []string{
		`CREATE TABLE petrel.store (
			id int PRIMARY KEY, store_id bigint NOT NULL, history_id bigint NOT NULL, secret bytea NOT NULL,
			partitions int NOT NULL, db int NOT NULL, refuted text NOT NULL DEFAULT '')`,
		`CREATE TABLE petrel.generations (
			number bigint PRIMARY KEY, token bigint NOT NULL, system bigint NOT NULL, timeline bigint NOT NULL, positions bytea NOT NULL)`,
		`CREATE TABLE petrel.placement (part int PRIMARY KEY, db int NOT NULL)`,
		`CREATE TABLE petrel.part (
			id int PRIMARY KEY, epoch bigint NOT NULL, holder bigint NOT NULL, pos bigint NOT NULL,
			trim bigint NOT NULL, state int NOT NULL) WITH (fillfactor = 50)`,
		`CREATE TABLE petrel.records (
			tenant int NOT NULL, tbl int NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
			PRIMARY KEY (tbl, tenant, key))`,
	}
	for _, t := range partTables {
		all = append(all, fmt.Sprintf("CREATE TABLE petrel.%s (%s, PRIMARY KEY (part, %s)) PARTITION BY HASH (part)",
			t.name, t.definition(), t.key))
		if t.value != "" {
			all = append(all, fmt.Sprintf("ALTER TABLE petrel.%s ALTER %s SET STORAGE EXTERNAL", t.name, t.value))
		}
		for i := range children {
			all = append(all, fmt.Sprintf(
				"CREATE TABLE petrel.%s_%02d PARTITION OF petrel.%s FOR VALUES WITH (MODULUS %d, REMAINDER %d)",
				t.name, i, t.name, children, i))
		}
	}
	return append(all, fmt.Sprintf(
		"CREATE INDEX marks_by_name ON petrel.marks (part, tenant, conv, name, seq) WHERE kind = %d",
		store.MarkMention))
}

// partTable is a table in which every row belongs to a partition: its columns and their types, its key after
// the partition, and the column whose values may be long.
type partTable struct{ name, columns, types, key, value string }

var partTables = []partTable{
	{"feed", "pos, part, entry", "bigint, int, bytea", "pos", "entry"},
	{"msg", "seq, tenant, part, conv, value", "bigint, int, int, uuid, bytea", "tenant, conv, seq", "value"},
	{"dedupe", "hash, seq, tenant, part, conv, slot, sum", "bigint, bigint, int, int, uuid, int, int",
		"tenant, conv, hash, slot", ""},
	{"convs", "tenant, part, conv, record", "int, int, uuid, bytea", "tenant, conv", "record"},
	{"members", "tenant, part, conv, member, record", "int, int, uuid, text, bytea", "tenant, conv, member", "record"},
	{"cursors", "tenant, part, conv, member, record", "int, int, uuid, text, bytea", "tenant, conv, member", "record"},
	{"marks", "seq, tenant, part, kind, conv, name, value", "bigint, int, int, int, uuid, text, bytea",
		"tenant, conv, kind, seq, name", "value"},
}

// definition returns the definition of the table's columns.
func (t partTable) definition() string {
	names, types := strings.Split(t.columns, ", "), strings.Split(t.types, ", ")
	for i := range names {
		collate := ""
		if types[i] == "text" {
			collate = ` COLLATE "C"`
		}
		names[i] += " " + types[i] + collate + " NOT NULL"
	}
	return strings.Join(names, ", ")
}

// lockRow returns the statements that make the row that a migration locks. So there is one migration at a time:
// other nodes wait for the row, and then find nothing to do.
func lockRow(level int) []string {
	return []string{
		`CREATE SCHEMA IF NOT EXISTS petrel`,
		`CREATE TABLE IF NOT EXISTS petrel.migrations (
			id int PRIMARY KEY, version int NOT NULL, min_reader int NOT NULL, level int NOT NULL, min_level int NOT NULL)`,
		fmt.Sprintf(`INSERT INTO petrel.migrations VALUES (1, 0, 0, %d, %d) ON CONFLICT DO NOTHING`, level, level),
	}
}

// migrate brings the schema of a database to version. In the same transaction, while no other node can change
// the schema, it also calls the function then with the format level of the stored data.
func (d *database) migrate(ctx context.Context, c *pgx.Conn, then func(tx pgx.Tx, level uint32) error) error {
	if err := makeLockRow(ctx, c, d.o.level); err != nil {
		return err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit there is nothing to undo
	is, level, err := d.readVersion(ctx, tx, " FOR UPDATE")
	if err != nil {
		return err
	}
	for ; is < version; is++ {
		for _, sql := range migrations[is]() {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("change the schema from version %d: %w", is, err)
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE petrel.migrations SET version = $1, min_reader = $2 WHERE id = 1`, is+1,
			minReader); err != nil {
			return err
		}
		d.log.Info("schema changed", "database", d.name, "version", is+1)
	}
	if err := then(tx, level); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// readVersion reads the version of the schema and the format level, and refuses those that this release
// cannot read. lock is appended to the statement.
func (d *database) readVersion(ctx context.Context, c rowReader, lock string) (is int, level uint32, err error) {
	var reader, l, minLevel int
	err = c.QueryRow(ctx,
		`SELECT version, min_reader, level, min_level FROM petrel.migrations WHERE id = 1`+lock).Scan(&is, &reader, &l,
		&minLevel)
	if err != nil {
		return 0, 0, err
	}
	return is, uint32(l), d.o.reads(is, reader, l, minLevel)
}

// makeLockRow makes the table of migrations if it does not exist. If two nodes make it at once, the second one
// gets an error because the table exists by then, and looks again.
func makeLockRow(ctx context.Context, c *pgx.Conn, level int) error {
	for try := 0; ; try++ {
		var there bool
		err := c.QueryRow(ctx, `SELECT to_regclass('petrel.migrations') IS NOT NULL`).Scan(&there)
		if err != nil {
			return err
		}
		if there {
			var n int
			if err := c.QueryRow(ctx, `SELECT count(*) FROM petrel.migrations`).Scan(&n); err != nil || n > 0 {
				return err
			}
		}
		for _, sql := range lockRow(level) {
			if _, err = c.Exec(ctx, sql); err != nil {
				break
			}
		}
		if e, ok := errors.AsType[*pgconn.PgError](err); err == nil || !ok || try == 10 ||
			!slices.Contains([]string{"23505", "42710", "42P06", "42P07", "XX000"}, e.Code) {
			return err
		}
	}
}
