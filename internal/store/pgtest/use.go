//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared is the server of all tests of one process.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Main runs the tests of a package that uses Shared, and ends the server. Call
// it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		shared.server.Remove()
	}
	os.Exit(code)
}

// Shared is a server that the tests of a package use together, each with a
// database of its own. The package's TestMain calls Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.err = Start(Options{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Own is a server of this test alone, which may kill it.
func Own(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
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
