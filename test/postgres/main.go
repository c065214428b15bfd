//go:build unix

// Command postgres starts a PostgreSQL server for tests. It ends with the standard input,
// or when it is interrupted.
//
// Without an argument it prints the port of a server that all tests of a run share by
// PETREL_TEST_POSTGRES. With a number it prints the addresses of as many new databases, one
// on each line, for tests in other languages: of the server of the run if there is one.
//
//	go run ./test/postgres
//	go run ./test/postgres 2
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/petrel-im/petrel/internal/store/pgserver"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch len(os.Args) {
	case 1:
		return serve(ctx)
	case 2:
		n, err := strconv.Atoi(os.Args[1])
		if err != nil {
			return fmt.Errorf("read how many databases: %w", err)
		}
		return databases(ctx, n)
	}
	return fmt.Errorf("usage: postgres [DATABASES]")
}

// serve runs the server of a run, with a template for its databases.
func serve(ctx context.Context) error {
	s, err := pgserver.Start(pgserver.Options{Settings: pgtest.Settings})
	if err != nil {
		return err
	}
	defer s.Remove()
	if err := s.Template(makeTables); err != nil {
		return err
	}
	fmt.Println(s.Port)
	wait(ctx)
	return nil
}

// makeTables makes a store.
func makeTables(dsn string) error {
	st, err := pgstore.Open(context.Background(), pgstore.Options{DSNs: []string{dsn}})
	if err != nil {
		return err
	}
	return st.Close()
}

// databases makes n new databases.
func databases(ctx context.Context, n int) error {
	s, err := pgtest.Run()
	if s == nil && err == nil {
		if s, err = pgserver.Start(pgserver.Options{}); err == nil {
			defer s.Remove()
		}
	}
	if err != nil {
		return err
	}
	for range n {
		dsn, err := s.Copy()
		if err != nil {
			return err
		}
		fmt.Println(dsn)
	}
	wait(ctx)
	return nil
}

// wait returns when ctx or the standard input ends: its writer has closed it, or is gone.
func wait(ctx context.Context) {
	closed := make(chan struct{})
	go func() { // ends with the input, or with the process
		defer close(closed)
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
