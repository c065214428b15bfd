package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/markfile"
)

// Open opens the store in the databases, or makes one if they are empty. Nodes that do so at the same time make
// one store together. If the remedy is known, the error wraps a *Problem, which names it.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if len(o.DSNs) == 0 {
		return nil, errors.New("open the store: no database is named")
	}
	s := &Store{o: o, log: o.Log, out: &outage{ch: make(chan struct{}), log: o.Log}}
	s.stop, s.seen = func() {}, &seen{at: &s.at}
	for n := range o.DSNs {
		d, err := newDatabase(o, n, s.out, s.info.Load, s.seen)
		if err != nil {
			return nil, fmt.Errorf("open the store: %w", err)
		}
		s.dbs = append(s.dbs, d)
	}
	m, err := s.loadMark()
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	var first *identity
	for _, d := range s.dbs {
		id, err := d.prepare(ctx, first, len(s.dbs))
		if err != nil {
			return nil, fmt.Errorf("open database %s: %w", d.name, d.advice(err))
		}
		if first == nil {
			first = id
		}
	}
	if err := m.otherStore(o.Mark, first.info.StoreID); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.info.Store(&first.info)
	for i, d := range s.dbs {
		if err := d.open(ctx); err != nil {
			for _, other := range s.dbs[:i] {
				other.abandon()
			}
			return nil, fmt.Errorf("open database %s: %w", d.name, d.advice(err))
		}
	}
	if err = s.readPlacement(ctx); err == nil {
		err = s.compareMark(ctx, m)
	}
	if err != nil {
		for _, d := range s.dbs {
			d.abandon()
		}
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s.start()
	return s, nil
}

// start starts the goroutines; Close ends them.
func (s *Store) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.mark = stop, markfile.Keep(s.o.Mark, s.log, s.out.ch, s.currentMark)
	for _, d := range s.dbs {
		s.tasks.Go(func() { d.commitQueued(ctx) })
		s.tasks.Go(func() { d.mend(ctx) })
		s.tasks.Go(d.callBack)
	}
}

// open makes the pool and the connection of the committer.
func (d *database) open(ctx context.Context) error {
	pool, err := pgxpool.NewWithConfig(ctx, d.conf)
	if err != nil {
		return err
	}
	c, err := d.dial(ctx)
	if err != nil {
		pool.Close()
		return err
	}
	d.pool = pool
	d.use(c)
	return nil
}

// abandon closes the connections that open made.
func (d *database) abandon() {
	if d.pool != nil {
		d.drop()
		d.pool.Close()
	}
}

// rowReader is a connection or a transaction.
type rowReader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// identity is the recorded identity of a database.
type identity struct {
	info       store.Info
	partitions int
	db         int
}

func readIdentity(ctx context.Context, c rowReader) (*identity, error) {
	var id identity
	var storeID, historyID int64
	var secret []byte
	err := c.QueryRow(ctx, `SELECT store_id, history_id, secret, partitions, db FROM petrel.store WHERE id = 1`).
		Scan(&storeID, &historyID, &secret, &id.partitions, &id.db)
	if err != nil {
		return nil, err
	}
	id.info.StoreID, id.info.HistoryID = uint64(storeID), uint64(historyID)
	if copy(id.info.Secret[:], secret) != len(id.info.Secret) {
		return nil, fmt.Errorf("its secret has %d bytes: %w", len(secret), store.ErrCorrupt)
	}
	return &id, nil
}

// prepare checks the server, brings the schema up to date and makes or reads the identity. first is the
// identity of the first database; nil: this is the first.
func (d *database) prepare(ctx context.Context, first *identity, databases int) (*identity, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*d.o.Timeout) // another node may change the schema
	defer cancel()
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // the result is known by then
	if err := d.checkServer(ctx, c); err != nil {
		return nil, err
	}
	on, err := askServer(ctx, c.PgConn())
	if err != nil {
		return nil, err
	}
	id, err := d.readIfCurrent(ctx, c)
	if id == nil && err == nil {
		w := d.watchWaits(ctx, c)
		err = w.end(d.migrate(ctx, c, func(tx pgx.Tx, level uint32) error {
			id, err = readIdentity(ctx, tx)
			if errors.Is(err, pgx.ErrNoRows) {
				id = d.newIdentity(first)
				err = id.write(ctx, tx, databases, on)
			}
			if err == nil {
				id.info.Level, err = level, d.isStore(id)
			}
			return err
		}))
	}
	if err != nil {
		return nil, err
	}
	return id, id.check(first, d.n)
}

// readIfCurrent returns the identity of a database whose schema and identity are complete; nil: the start has something
// to change. So the start writes nothing to a server that holds another store.
func (d *database) readIfCurrent(ctx context.Context, c *pgx.Conn) (*identity, error) {
	var there bool
	if err := c.QueryRow(ctx,
		`SELECT to_regclass('petrel.migrations') IS NOT NULL AND to_regclass('petrel.store') IS NOT NULL`).Scan(
		&there); err != nil || !there {
		return nil, err
	}
	is, level, err := d.readVersion(ctx, c, "")
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // somebody makes it right now
	}
	if err != nil || is < version {
		return nil, err
	}
	id, err := readIdentity(ctx, c)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // the same
	}
	if err != nil {
		return nil, err
	}
	id.info.Level = level
	return id, d.isStore(id)
}

// isStore refuses another store than the one that the configuration names.
func (d *database) isStore(id *identity) error {
	if want := d.o.StoreID; want != 0 && id.info.StoreID != want {
		return &Problem{Code: "other_store",
			What: fmt.Sprintf("it does not hold store %016x, which the configuration names in store.id", want),
			Fix:  "name the databases of that store in store.postgres, or correct store.id"}
	}
	return nil
}

// checkServer refuses a server that cannot keep the promises of the store.
func (d *database) checkServer(ctx context.Context, c *pgx.Conn) error {
	var n int
	var name, standbys string
	if err := c.QueryRow(ctx,
		`SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('synchronous_standby_names')`).Scan(&n, &name, &standbys); err != nil {
		return err
	}
	switch {
	case n < d.o.oldest:
		return &Problem{Code: "database_unusable", What: fmt.Sprintf("PostgreSQL %s is too old", name),
			Fix: fmt.Sprintf("Petrel needs %d or newer", d.o.oldest/10000)}
	case d.o.RequireStandby && standbys == "":
		return &Problem{Code: "database_unusable",
			What: "it has no synchronous standby, and store.require_standby asks for one",
			Fix:  "set synchronous_standby_names on the server, or turn store.require_standby off"}
	}
	return nil
}

// newIdentity makes the identity of a database that has none: of the store of first or, if that is nil, of a new
// store.
func (d *database) newIdentity(first *identity) *identity {
	id := &identity{partitions: im.Partitions, db: d.n}
	if first != nil {
		id.info = first.info
		return id
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	id.info.StoreID, id.info.HistoryID = binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
	_, _ = rand.Read(id.info.Secret[:])
	return id
}

// write writes the identity. In the first database of a new store it also spreads the partitions over the
// databases. A database that is added later holds no partitions until some are moved there.
func (id *identity) write(ctx context.Context, tx pgx.Tx, databases int, on *serverState) error {
	i := &id.info
	_, err := tx.Exec(ctx, `INSERT INTO petrel.store VALUES (1, $1, $2, $3, $4, $5)`,
		int64(i.StoreID), int64(i.HistoryID), i.Secret[:], id.partitions, id.db)
	if err == nil {
		err = insertGeneration(ctx, tx.Conn().PgConn(), newGeneration(1, on), nil)
	}
	if err == nil && id.db == 0 {
		_, err = tx.Exec(ctx, `INSERT INTO petrel.placement SELECT p, p % $1 FROM generate_series(0, $2 - 1) AS p`,
			databases, id.partitions)
	}
	return err
}

// check refuses an identity that is not that of database n of the store of first. With a nil first, any store
// will do.
func (id *identity) check(first *identity, n int) error {
	switch {
	case id.partitions != im.Partitions:
		return &Problem{Code: "other_store", What: fmt.Sprintf("it has %d partitions, and this Petrel works with %d",
			id.partitions, im.Partitions), Fix: "use the Petrel release that made it"}
	case first != nil && id.info.StoreID != first.info.StoreID:
		return &Problem{Code: "other_store",
			What: fmt.Sprintf("it belongs to store %x, and the first database belongs to store %x", id.info.StoreID,
				first.info.StoreID), Fix: "two clusters cannot share a database; name an empty one"}
	case first != nil && id.info.HistoryID != first.info.HistoryID:
		return &Problem{Code: "other_store",
			What: fmt.Sprintf("it has history %x, and the first database has history %x", id.info.HistoryID,
				first.info.HistoryID), Fix: "restore all databases of a store together"}
	case id.db != n:
		return &Problem{Code: "other_store",
			What: fmt.Sprintf("it is database %d of its store, and store.postgres names it as database %d", id.db+1,
				n+1), Fix: "name the databases in the same order as before"}
	}
	return nil
}

// readPlacement reads the map of the partitions. The first call also makes the rows of the partitions that have
// none, which are those of a new store.
func (s *Store) readPlacement(ctx context.Context) error {
	rows, err := collect(ctx, s.records(), func(r pgx.CollectableRow) (p [2]int, err error) {
		return p, r.Scan(&p[0], &p[1])
	}, `SELECT part, db FROM petrel.placement ORDER BY part`)
	if err != nil {
		return fmt.Errorf("read the map of partitions: %w", err)
	}
	if len(rows) != im.Partitions {
		return fmt.Errorf("read the map of partitions: it has %d of %d: %w", len(rows), im.Partitions, store.ErrCorrupt)
	}
	var at placement
	for i, r := range rows {
		if r[0] != i || r[1] < 0 {
			return fmt.Errorf("read the map of partitions: %w", store.ErrCorrupt)
		}
		if r[1] >= len(s.dbs) {
			return &Problem{Code: "other_store",
				What: fmt.Sprintf("partition %d is in database %d, and store.postgres names %d databases", i, r[1]+1,
					len(s.dbs)), Fix: "name all databases of the store"}
		}
		at[i] = r[1]
	}
	if s.at.Swap(&at) != nil {
		return nil
	}
	for n, d := range s.dbs {
		var parts []int32
		for p, db := range at {
			if db == n {
				parts = append(parts, int32(p))
			}
		}
		_, err := d.exec(ctx,
			`INSERT INTO petrel.part SELECT p, 0, 0, 0, 0, 0 FROM unnest($1::int[]) AS p ON CONFLICT DO NOTHING`, parts)
		if err != nil {
			return fmt.Errorf("make the partitions of database %s: %w", d.name, err)
		}
	}
	return nil
}

// advice returns the *Problem with the remedy for an error of opening; if none is known, the error as it is.
func (d *database) advice(err error) error {
	if p, ok := errors.AsType[*Problem](err); ok { // validate may have refused one of several hosts
		return p
	}
	c := d.conf.ConnConfig
	address := strings.Join(d.hosts(), ", ")
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		p := &Problem{Code: "database_refused", Cause: errors.New(e.Message)}
		switch e.Code {
		case "28P01", "28000":
			p.What, p.Fix = fmt.Sprintf("the server refuses user %q", c.User),
				"correct user or password in the DSN, or pg_hba.conf"
			return p
		case "3D000":
			p.What, p.Fix = fmt.Sprintf("there is no database %q", c.Database),
				fmt.Sprintf("make it with createdb --owner %s %s", c.User, c.Database)
			return p
		case "42501":
			p.What, p.Fix = fmt.Sprintf("user %q may not do what it must", c.User),
				fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s, and make it the owner of the schema petrel", c.Database,
					c.User)
			return p
		case "53300":
			p.Code, p.What, p.Fix = "database_unusable", "the server has no connection left",
				fmt.Sprintf("raise max_connections above %d for each node", d.conf.MaxConns+1)
			return p
		case "57P03":
			p.Code, p.What, p.Fix = "database_unreachable", "the server does not take connections yet",
				"wait until it has started"
			return p
		}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return &Problem{Code: "database_unreachable", What: address + " does not answer",
			Fix: "check that PostgreSQL runs and listens there, and that the URL has the right host and port", Cause: e}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Problem{Code: "database_unreachable", What: address + " does not answer in time",
			Fix: "check that no firewall drops the packets, and that the URL has the right host and port"}
	}
	if strings.Contains(err.Error(), "read only connection") { // pgconn has no value for it
		return &Problem{Code: "database_unusable", What: "the server takes no writes",
			Fix: "name the primary in the URL, or all hosts"}
	}
	return err
}
