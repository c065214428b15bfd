package api

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
)

// handler is a function that makes the HTTP handler of a method.
type handler func(s *Server, procedure string, m method, opts ...connect.HandlerOption) http.Handler

// unary makes the handler of a method from the function f that answers it. It applies two rules of the table: the
// pace, and the turn among expensive reads.
func unary[Q, A any](f func(*Server, context.Context, *Q) (*A, error)) handler {
	return func(s *Server, procedure string, m method, opts ...connect.HandlerOption) http.Handler {
		answer := func(ctx context.Context, q *Q) (*A, error) {
			if m.paced {
				if err := s.pace(identity(ctx).Account); err != nil {
					return nil, err
				}
			}
			if m.turn {
				return read(ctx, s, func() (*A, error) { return f(s, ctx, q) })
			}
			return f(s, ctx, q)
		}
		return connect.NewUnaryHandler(procedure, func(ctx context.Context,
			r *connect.Request[Q]) (*connect.Response[A], error) {
			a, err := answer(ctx, r.Msg)
			if err != nil {
				return nil, err
			}
			return connect.NewResponse(a), nil
		}, opts...)
	}
}

// request is a pointer to a request with a field tenant.
type request[Q any] interface {
	*Q
	GetTenant() string
}

// inTenant returns a function that calls f with the tenant that the request of an admin key names. Codes: invalid.
func inTenant[Q, A any, P request[Q]](f func(*Server, context.Context, im.Tenant, *Q) (*A,
	error)) func(*Server, context.Context, *Q) (*A, error) {
	return func(s *Server, ctx context.Context, q *Q) (*A, error) {
		t, err := s.users.Tenant(ctx, P(q).GetTenant())
		if err != nil {
			return nil, err
		}
		return f(s, ctx, t, q)
	}
}

// ofUser returns a function that calls f with the user whom the request of an admin key names. Codes: invalid,
// no_user.
func ofUser[Q, A any, P interface {
	request[Q]
	GetUser() string
}](f func(*Server, context.Context, im.Account, *Q) (*A, error)) func(*Server, context.Context, *Q) (*A, error) {
	return func(s *Server, ctx context.Context, q *Q) (*A, error) {
		a, err := s.account(ctx, P(q).GetTenant(), P(q).GetUser())
		if err != nil {
			return nil, err
		}
		return f(s, ctx, a, q)
	}
}

// ofConv returns a function that calls f with the conversation that the request of an admin key names.
// Codes: invalid, no_conversation.
func ofConv[Q, A any, P interface {
	request[Q]
	GetConv() string
}](f func(*Server, context.Context, im.Key, *Q) (*A, error)) func(*Server, context.Context, *Q) (*A, error) {
	return inTenant[Q, A, P](func(s *Server, ctx context.Context, t im.Tenant, q *Q) (*A, error) {
		id, err := im.ParseConvID(P(q).GetConv())
		if err != nil {
			return nil, err
		}
		return f(s, ctx, im.Key{Tenant: t, Conv: id}, q)
	})
}

// inConv returns a function that calls f with the conversation that the request of a user names.
// Codes: no_conversation.
func inConv[Q, A any, P interface {
	*Q
	GetConv() string
}](f func(*Server, context.Context, im.Account, im.Key, *Q) (*A, error)) func(*Server, context.Context, *Q) (*A,
	error) {
	return func(s *Server, ctx context.Context, q *Q) (*A, error) {
		a, key, err := keyOf(ctx, P(q).GetConv())
		if err != nil {
			return nil, err
		}
		return f(s, ctx, a, key, q)
	}
}
