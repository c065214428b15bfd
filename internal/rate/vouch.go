package rate

import "context"

// voucher is told that somebody who is known has sent a request. The gateway, which is
// told, stands above the API, which tells.
type voucher interface{ Vouched() }

type voucherKey struct{}

// WithVoucher returns a context of requests. v is told when a known caller has sent one of
// them.
func WithVoucher(ctx context.Context, v voucher) context.Context {
	return context.WithValue(ctx, voucherKey{}, v)
}

// Vouch says that whoever sent the request of ctx is known: what they send later is no
// longer counted as that of a stranger.
func Vouch(ctx context.Context) {
	if v, ok := ctx.Value(voucherKey{}).(voucher); ok {
		v.Vouched()
	}
}
