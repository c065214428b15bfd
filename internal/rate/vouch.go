package rate

import "context"

type voucher struct{}

// WithVoucher returns a context of a request for which vouched is to be called when it is
// known who asks.
func WithVoucher(ctx context.Context, vouched func()) context.Context {
	return context.WithValue(ctx, voucher{}, vouched)
}

// Vouch says that whoever sent the request of ctx is known: what they send later is no
// longer counted as that of a stranger.
func Vouch(ctx context.Context) {
	if vouched, ok := ctx.Value(voucher{}).(func()); ok {
		vouched()
	}
}
