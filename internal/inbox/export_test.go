package inbox

import (
	"context"
	"time"
)

// Save saves the place of a consumer that does not run.
func (c *Consumer) Save(ctx context.Context) error { return c.save(ctx) }

// CatchUp carries what is published, and saves the place when tick says so.
func (c *Consumer) CatchUp(ctx context.Context, tick <-chan time.Time) error {
	return c.catchUp(ctx, tick)
}
