//go:build unix

// Package pgtest gives tests a PostgreSQL server (pgserver). A test that does not find the server's programs
// fails and says so.
//
// The tests of a run share one server, which `make test` starts with ./test/postgres and names in
// PETREL_TEST_POSTGRES. Without it each process starts a server for its tests. A test that kills or stops its
// server, or gives it settings, has a server of its own.
package pgtest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/store/pgserver"
)

// Options configure a server.
type Options = pgserver.Options

// Server is one PostgreSQL server.
type Server struct {
	*pgserver.Server
	run bool // it is the server of the run
}

// shared is the server that the tests of one process share.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Run returns the server that `make test` has started for the run; nil: there is none.
func Run() (*pgserver.Server, error) {
	// With os.Getenv the go command would take the port for an input of the tests, and would not reuse their
	// results in the next run.
	value, _ := syscall.Getenv("PETREL_TEST_POSTGRES")
	if value == "" {
		return nil, nil
	}
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read the port in PETREL_TEST_POSTGRES: %w", err)
	}
	return pgserver.At(int(port)), nil
}

func start(o Options) (*Server, error) {
	s, err := pgserver.Start(o)
	return &Server{Server: s}, err
}

// Main runs the tests of a package that uses Shared, and then calls the functions in after. It ends the server
// if this process has started it. Call Main from TestMain.
func Main(m *testing.M, after ...func()) {
	_ = os.Setenv("PGCONNECT_TIMEOUT", "20") // 20 s, unless a DSN says otherwise: the machine may be busy; never fails
	code := m.Run()
	for _, f := range after {
		f()
	}
	if s := shared.server; s != nil && shared.err == nil && !s.run {
		s.Remove()
	}
	os.Exit(code)
}

// Shared returns a server that tests use together, each with a database of its own. The package's TestMain
// calls Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		s, err := Run()
		if s != nil || err != nil {
			shared.server, shared.err = &Server{s, true}, err
			return
		}
		shared.server, shared.err = start(Options{Settings: Settings})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Settings are those of a server that several test processes share: each node takes some connections.
var Settings = map[string]string{"max_connections": "1000"}

// Own returns a server for this test alone, which may kill it.
func Own(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s
}

// New returns the DSN of a new database of s without a store. On the server of the run the database already has
// the tables of a store.
func (s *Server) New(t testing.TB) string {
	t.Helper()
	return s.make(t, s.Copy)
}

// Empty returns the DSN of a new database of s without any tables.
func (s *Server) Empty(t testing.TB) string {
	t.Helper()
	return s.make(t, s.Create)
}

func (s *Server) make(t testing.TB, create func() (string, error)) string {
	t.Helper()
	dsn, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if s.run {
		t.Cleanup(func() { _ = s.Drop(dsn) }) // a database that is left over is removed with the server
	}
	return dsn
}

// Role makes a user with these options of CREATE ROLE, unless the server has one of this name. Tests that share
// a server share its users.
func (s *Server) Role(t testing.TB, name, options string) {
	t.Helper()
	err := s.Exec("postgres", fmt.Sprintf("CREATE ROLE %s %s", name, options))
	e, ok := errors.AsType[*pgconn.PgError](err)
	// codes: the user exists; another test has made it meanwhile
	if err != nil && !(ok && (e.Code == "42710" || e.Code == "23505")) {
		t.Fatal(err)
	}
}
