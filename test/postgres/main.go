//go:build unix

// Command postgres starts a PostgreSQL server for tests in other languages. It prints the
// addresses of as many new databases as it is asked for, one on each line. The server ends with
// the standard input.
//
//	go run ./test/postgres 2
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/petrel-im/petrel/internal/store/pgserver"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: postgres DATABASES")
	}
	databases, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return fmt.Errorf("read how many databases: %w", err)
	}
	s, err := pgserver.Start(pgserver.Options{Cache: pgtest.Cache()})
	if err != nil {
		return err
	}
	defer s.Remove()
	for range databases {
		dsn, err := s.Create()
		if err != nil {
			return err
		}
		fmt.Println(dsn)
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until whoever started this closes it, or is gone
	return err
}
