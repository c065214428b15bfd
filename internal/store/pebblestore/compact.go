package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Compact writes the memtables as tables and merges all tables, so that the store takes no more disk space than
// its rows need. It reads and writes the whole store, which may take minutes. Sends and reads go on.
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
