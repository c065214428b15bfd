//go:build unix

// Package pgtest gives tests a PostgreSQL of their own (pgserver). A test that
// does not find the server's programs fails and says so.
package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/petrel-im/petrel/internal/store/pgserver"
)

// Options of a server.
type Options = pgserver.Options

// Server is one PostgreSQL.
type Server struct{ *pgserver.Server }

// shared is the server of all tests of one process.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

func start(o Options) (*Server, error) {
	o.Cache = Cache()
	s, err := pgserver.Start(o)
	return &Server{s}, err
}

// Cache is where tests keep the data of a new server (Options.Cache): beside what
// go keeps of the tests that it has built.
func Cache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "" // each server makes its data
	}
	return filepath.Join(dir, "petrel-tests")
}

// Main runs the tests of a package that uses Shared, and ends the server. Call
// it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil && shared.err == nil {
		shared.server.Remove()
	}
	os.Exit(code)
}

// Shared is a server that the tests of a package use together, each with a
// database of its own. The package's TestMain calls Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = start(Options{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Own is a server of this test alone, which may kill it.
func Own(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s
}

// New is the DSN of a new database of s.
func (s *Server) New(t testing.TB) string {
	t.Helper()
	dsn, err := s.Create()
	if err != nil {
		t.Fatal(fmt.Errorf("create a database: %w", err))
	}
	return dsn
}
