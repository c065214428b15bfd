package store

import "context"

type reserveKey struct{}

// ForOperators returns a context whose updates may use the reserve: the space below the limit at which
// everybody else gets ErrFull. So operators can log in while the disk is full, and free space.
func ForOperators(ctx context.Context) context.Context {
	return context.WithValue(ctx, reserveKey{}, true)
}

// IsForOperators tells whether ForOperators has marked ctx.
func IsForOperators(ctx context.Context) bool { return ctx.Value(reserveKey{}) != nil }
