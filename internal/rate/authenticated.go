package rate

import "context"

// voucher is a connection of the gateway. The gateway imports the API, so the API calls it through the
// context of a request.
type voucher interface{ Vouched() }

type voucherKey struct{}

// WithVoucher returns a context for the requests of a connection v: Vouch calls v.Vouched.
func WithVoucher(ctx context.Context, v voucher) context.Context {
	return context.WithValue(ctx, voucherKey{}, v)
}

// Vouch notes that the token or key of a request is valid. From then on the
// gateway does not limit the request's connection as that of a stranger.
func Vouch(ctx context.Context) {
	if v, ok := ctx.Value(voucherKey{}).(voucher); ok {
		v.Vouched()
	}
}
