package pgtest

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

// count reads a number.
func count(t *testing.T, dsn, sql string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }() // the result is known
	if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestServerKeepsWhatItCommittedThroughKill(t *testing.T) {
	s := Own(t, Options{})
	dsn := s.New(t)
	if err := s.Exec("petrel1", "CREATE TABLE a (n int); INSERT INTO a VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, dsn, "SELECT n FROM a"); n != 7 {
		t.Errorf("got %d, want 7", n)
	}
}

func TestStandbyHasWhatThePrimaryCommitted(t *testing.T) {
	s := Own(t, Options{})
	dsn := s.New(t)
	other, err := s.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Remove)
	if err := s.Exec("petrel1", "CREATE TABLE a (n int); INSERT INTO a VALUES (7)"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, dsn, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"); n != 1 {
		t.Errorf("%d standbys are synchronous, want 1", n)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := other.Promote(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, other.DSN("petrel1"), "SELECT n FROM a"); n != 7 {
		t.Errorf("got %d, want 7", n)
	}
	if err := other.Exec("petrel1", "INSERT INTO a VALUES (8)"); err != nil {
		t.Error(err)
	}
}

func TestDatabasesOnTheServerOfTheRunGoWithTheirTests(t *testing.T) {
	own := Own(t, Options{})
	if err := own.Template(func(dsn string) error {
		return own.Exec("petrel_template", "CREATE SCHEMA petrel; CREATE TABLE petrel.migrations AS SELECT 1; CREATE TABLE petrel.store AS SELECT 1")
	}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PETREL_TEST_POSTGRES", strconv.Itoa(own.Port))
	run, err := Run()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Server: run, run: true}
	const made = "SELECT count(*) FROM pg_database WHERE datname LIKE 'petrel\\_%' AND datname <> 'petrel_template'"
	t.Run("a test", func(t *testing.T) {
		dsn := s.New(t)
		if n := count(t, dsn, "SELECT count(*) FROM petrel.migrations"); n != 1 {
			t.Errorf("a copy has %d rows that say the version of its tables, want 1", n)
		}
		if n := count(t, dsn, "SELECT count(*) FROM petrel.store"); n != 0 {
			t.Errorf("a copy holds %d stores, want none", n)
		}
		if n := count(t, s.Empty(t), "SELECT count(*) FROM pg_namespace WHERE nspname = 'petrel'"); n != 0 {
			t.Error("an empty database has tables")
		}
		if n := count(t, dsn, made); n != 2 {
			t.Errorf("%d databases, want 2", n)
		}
	})
	if n := count(t, own.DSN("postgres"), made); n != 0 {
		t.Errorf("%d databases outlive their test", n)
	}
}
