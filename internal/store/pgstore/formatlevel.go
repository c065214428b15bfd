package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Spread counts the partitions of each database, in the order of the databases. It reads the map of the
// partitions; if that fails, it uses the map that this process knows.
func (s *Store) Spread(ctx context.Context) []int {
	n := make([]int, len(s.dbs))
	at, err := collect(ctx, s.records(), scanInt, `SELECT db::bigint FROM petrel.placement`)
	if err != nil {
		at = nil
		for _, db := range s.at.Load() {
			at = append(at, int64(db))
		}
	}
	for _, db := range at {
		if int(db) < len(n) {
			n[db]++
		}
	}
	return n
}

// Level returns the lowest format level of all databases.
func (s *Store) Level(ctx context.Context) (uint32, error) {
	lowest := uint32(0)
	for n, d := range s.dbs {
		level, err := collectOne(ctx, d, scanInt, `SELECT level::bigint FROM petrel.migrations WHERE id = 1`)
		if err != nil {
			return 0, fmt.Errorf("read the level of database %s: %w", d.name, err)
		}
		if n == 0 || uint32(level) < lowest {
			lowest = uint32(level)
		}
	}
	return lowest, nil
}

// Readable checks that this program can still read the stored format. A joining node calls it again after its
// first heartbeat: a node that raised the level before may not have seen this one. One node at a time may call
// Raise, while any number of nodes join.
func (s *Store) Readable(ctx context.Context) error {
	for _, d := range s.dbs {
		err := d.alone(ctx, func(ctx context.Context, c *pgx.Conn) error {
			_, _, err := d.readVersion(ctx, c, "")
			return err
		})
		if err != nil {
			return fmt.Errorf("open database %s: %w", d.name, err)
		}
	}
	return nil
}

// Raise makes level the level that is written, and the lowest level of a program that may open the databases. A
// second call completes an interrupted one.
func (s *Store) Raise(ctx context.Context, level uint32) error {
	for _, d := range s.dbs {
		if _, err := d.exec(ctx, `UPDATE petrel.migrations SET level = $1, min_level = $1 WHERE id = 1 AND level < $1`,
			int32(level)); err != nil {
			return fmt.Errorf("raise the level of database %s to %d: %w", d.name, level, err)
		}
	}
	return nil
}

// reads refuses a format that only newer programs can read.
func (o *Options) reads(is, reader, level, minLevel int) error {
	const fix = "install the newer Petrel"
	switch {
	case reader > version:
		return &Problem{Code: "store_too_new", Fix: fix,
			What: fmt.Sprintf("its schema has version %d, which Petrel with schema %d or newer reads; this one has %d",
				is, reader, version)}
	case minLevel > o.level:
		return &Problem{Code: "store_too_new", Fix: fix,
			What: fmt.Sprintf("its data has level %d, which Petrel with level %d or newer reads; this one has %d",
				level, minLevel, o.level)}
	}
	return nil
}
