package pgstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/petrel-im/petrel/internal/store"
)

// Check returns an error unless each server answers, lets the user in, is new enough, takes writes and, with
// RequireStandby, has a standby. It does not look at the store in the databases, and changes nothing. If the remedy is
// known, the error wraps a *Problem.
func Check(ctx context.Context, o Options) error {
	o.Log = slog.New(slog.DiscardHandler)
	o = o.withDefaults()
	for n := range o.DSNs {
		d, err := newDatabase(o, n, nil, func() *store.Info { return nil }, nil)
		if err != nil {
			return fmt.Errorf("check the databases: %w", err)
		}
		d.bare = true
		if err := d.alone(ctx, d.checkServer); err != nil {
			return fmt.Errorf("check database %s: %w", d.name, d.advice(err))
		}
	}
	return nil
}
