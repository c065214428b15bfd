package rate

import "context"

// Voucher is told that somebody who is known has sent a request.
type Voucher interface{ Vouched() }

type voucher struct{}

// WithVoucher returns a context of requests of which v is to be told who sent them.
func WithVoucher(ctx context.Context, v Voucher) context.Context {
	return context.WithValue(ctx, voucher{}, v)
}

// Vouch says that whoever sent the request of ctx is known: what they send later is no
// longer counted as that of a stranger.
func Vouch(ctx context.Context) {
	if v, ok := ctx.Value(voucher{}).(Voucher); ok {
		v.Vouched()
	}
}
