package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Compact writes everything that waits in memory into tables and merges the
// tables, so that what the store takes on disk is what its rows need. It may
// take minutes and reads and writes the whole store; sends and reads go on.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	err := caught(func() error {
		if err := s.db.Flush(); err != nil {
			return err
		}
		err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, true)
		if errors.Is(err, pebble.ErrClosed) {
			return errClosed
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("compact %s: %w", s.o.Dir, err)
	}
	return nil
}
