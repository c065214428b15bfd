package inbox

import "context"

// Save saves the place of a consumer that does not run.
func (c *Consumer) Save(ctx context.Context) error { return c.save(ctx) }
