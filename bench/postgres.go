package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/petrel-im/petrel/internal/store/pgserver"
)

// OwnPostgres is the value of Params.Postgres with which the run starts a PostgreSQL server.
const OwnPostgres = "auto"

// postgres is the database of the run's servers. close deletes it.
type postgres struct {
	server *pgserver.Server // nil: the run did not start it
	admin  string           // URL of a running server: there the database is made, and dropped at the end
	name   string           // of the database
	dsn    string
	first  int // pid of the first process of the server; 0: on another machine
	epochs int64
}

// ownSettings are the settings of a PostgreSQL server that the run starts, beside the defaults. Commits wait for
// the disk.
var ownSettings = map[string]string{
	"fsync": "on", "synchronous_commit": "on", "shared_buffers": "'512MB'", "max_wal_size": "'4GB'",
	"max_connections": "300",
}

// openPostgres makes a database at a URL, or in a server of the run's own, whose data goes to a folder in dir.
func openPostgres(ctx context.Context, at, dir string) (p *postgres, err error) {
	p = &postgres{}
	if at == OwnPostgres {
		if p.server, err = pgserver.Start(pgserver.Options{Settings: ownSettings, Dir: dir}); err != nil {
			return nil, fmt.Errorf("start PostgreSQL: %w", err)
		}
		if p.dsn, err = p.server.Create(); err != nil {
			p.server.Remove()
			return nil, fmt.Errorf("make a database: %w", err)
		}
		p.first = p.server.PID()
		return p, nil
	}
	u, err := url.Parse(at)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") || strings.ContainsAny(at, "\"\\\n") {
		return nil, errors.New("the database is not named like postgres://user:password@host/database")
	}
	p.admin, p.name = at, fmt.Sprintf("petrel_bench_%06x", rand.Uint32()>>8)
	u.Path = "/" + p.name
	p.dsn = u.String()
	c, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer c.Close(ctx)
	p.first = pgserver.First(ctx, c)
	if _, err := c.Exec(ctx, "CREATE DATABASE "+p.name); err != nil {
		return nil, fmt.Errorf("make a database: %w", err)
	}
	return p, nil
}

// close deletes the database. The servers have ended.
func (p *postgres) close() {
	if p.server != nil {
		p.server.Remove()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if c, err := pgx.Connect(ctx, p.admin); err == nil {
		// a database that stays has a name that says what it is
		_, _ = c.Exec(ctx, "DROP DATABASE IF EXISTS "+p.name+" WITH (FORCE)")
		_ = c.Close(ctx) // nothing is under way
	}
}

// cpu returns the CPU time of the PostgreSQL server since its start, in seconds; 0 if it runs on another machine.
func (p *postgres) cpu() float64 {
	if p.first == 0 {
		return 0
	}
	return pgserver.CPU(p.first).Seconds()
}

// spread waits until as many nodes own feeds as nodes says, and no feed has changed its owner for a while.
func (p *postgres) spread(ctx context.Context, nodes int) error {
	c, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer c.Close(ctx)
	limit := time.Now().Add(spreadLimit)
	for since, before := time.Now(), int64(-1); ; {
		owners, epochs := 0, int64(0)
		err := c.QueryRow(ctx,
			"SELECT count(DISTINCT holder), coalesce(sum(epoch), 0) FROM petrel.part WHERE epoch > 0").Scan(&owners,
			&epochs)
		if err != nil {
			return fmt.Errorf("ask who owns the feeds: %w", err)
		}
		if epochs != before || owners != nodes {
			since, before = time.Now(), epochs
		}
		switch now := time.Now(); {
		case now.Sub(since) > settled:
			p.epochs = epochs
			return nil
		case now.After(limit):
			return fmt.Errorf("%s after the start, %d of %d nodes own feeds", spreadLimit, owners, nodes)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const spreadLimit = 30 * time.Second

// moves returns how often a feed has got another owner since spread returned.
func (p *postgres) moves(ctx context.Context) (n int64, err error) {
	c, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return 0, fmt.Errorf("connect to the database: %w", err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, "SELECT sum(epoch) FROM petrel.part").Scan(&n); err != nil {
		return 0, fmt.Errorf("ask who owns the feeds: %w", err)
	}
	return n - p.epochs, nil
}

const (
	probes      = 400
	probeSchema = `CREATE SCHEMA petrel_bench;
CREATE TABLE petrel_bench.part (id int PRIMARY KEY, pos bigint NOT NULL);
INSERT INTO petrel_bench.part VALUES (0, 0);
CREATE TABLE petrel_bench.feed (part int, pos bigint, entry bytea NOT NULL, PRIMARY KEY (part, pos));
CREATE TABLE petrel_bench.msg (part int, conv uuid, seq bigint, value bytea NOT NULL, PRIMARY KEY (part, conv, seq));
CREATE TABLE petrel_bench.dedupe (part int, conv uuid, hash bigint, seq bigint NOT NULL, PRIMARY KEY (part, conv, hash))`
	probe = `WITH f AS (UPDATE petrel_bench.part SET pos = pos + 1 WHERE id = 0 RETURNING id, pos),
e AS (INSERT INTO petrel_bench.feed SELECT id, pos, $1 FROM f),
m AS (INSERT INTO petrel_bench.msg SELECT id, $2, pos, $1 FROM f),
d AS (INSERT INTO petrel_bench.dedupe SELECT id, $2, $3, pos FROM f)
SELECT id FROM f`
)

// describe returns the version of the database, and its own time for a commit like that of one message: the
// update of a position and a row in each of three tables, in one statement, on one connection, one after the
// other.
func (p *postgres) describe(ctx context.Context) (*Postgres, error) {
	c, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	defer c.Close(ctx)
	d := &Postgres{}
	if err := c.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&d.Version); err != nil {
		return nil, fmt.Errorf("ask the database for its version: %w", err)
	}
	if _, err := c.Exec(ctx, probeSchema); err != nil {
		return nil, fmt.Errorf("measure the database: %w", err)
	}
	value, conv := []byte(strings.Repeat("petrel, ", 20)), "00000000-0000-4000-8000-000000000001"
	times := newTimes(3)
	for i := range probes {
		began := time.Now()
		var id int
		if err := c.QueryRow(ctx, probe, value, conv, int64(mix(uint64(i)))).Scan(&id); err != nil {
			return nil, fmt.Errorf("measure the database: %w", err)
		}
		if i >= probes/4 { // the first ones fetch plans and pages
			observe(times, int64(time.Since(began)))
		}
	}
	all := percentiles(times)
	d.Commit = SyncTime{P50: all.P50, P99: all.P99}
	if _, err := c.Exec(ctx, "DROP SCHEMA petrel_bench CASCADE"); err != nil {
		return nil, fmt.Errorf("measure the database: %w", err)
	}
	return d, nil
}
