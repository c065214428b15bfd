// Package api serves the protobuf services on HTTP: one handler for curl with
// JSON, gRPC and gRPC-Web.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// Server is what the services rest on. app fills it.
type Server struct {
	petrelv1connect.UnimplementedAdminServiceHandler

	Log   *slog.Logger // nil: nowhere
	Users *user.Users
	Convs *conv.Convs

	CloseUser    func(context.Context, im.Account, im.Code) (int, error) // ends a user's sessions
	Settle       func(context.Context) error                             // waits until the members' lists have what was changed
	Limits       func() *petrelv1.ServerLimits
	ChangeLimits func(*petrelv1.ServerLimits) *petrelv1.ServerLimits
	Stats        func() *petrelv1.Stats
	CompactStore func(context.Context) error
	Redeemed     func() // the setup code was used
	BodyBytes    func() int
}

// maxRequestBytes bounds a call's message.
const maxRequestBytes = 1 << 20

// Register adds the services to a mux.
func (s *Server) Register(mux *http.ServeMux) {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	opts := []connect.HandlerOption{connect.WithReadMaxBytes(maxRequestBytes), connect.WithInterceptors(connect.UnaryInterceptorFunc(s.intercept))}
	mux.Handle(petrelv1connect.NewSetupServiceHandler(s, opts...))
	mux.Handle(petrelv1connect.NewAdminServiceHandler(s, append(opts, connect.WithRequestGate(s.gate))...))
}

// gate lets only admin keys past, before anything of the request is read.
// Spec: P-10.2.
func (s *Server) gate(ctx context.Context, spec connect.Spec, _ connect.Peer, h http.Header) (context.Context, error) {
	key, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	ok, err := s.Users.IsAdmin(ctx, key)
	if err == nil && !ok {
		err = im.Errorf(im.CodeUnauthenticated, "this call needs an admin key")
	}
	if err != nil {
		return nil, s.fail(ctx, spec, err)
	}
	return ctx, nil
}

// intercept gives errors their codes.
func (s *Server) intercept(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, s.fail(ctx, req.Spec(), err)
		}
		return res, nil
	}
}

// fail is err as the caller sees it. What is not meant for callers goes to the
// log under a request id. Spec: P-9.4.
func (s *Server) fail(ctx context.Context, spec connect.Spec, err error) error {
	e, ok := errors.AsType[*im.Error](err)
	switch {
	case !ok && ctx.Err() != nil:
		e = &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	case !ok || e.Code == im.CodeInternal && e.Request == "":
		e = &im.Error{Code: im.CodeInternal, Request: randomID()}
		s.Log.ErrorContext(ctx, "call failed", "req", e.Request, "err", fmt.Errorf("%s: %w", spec.Procedure, err))
	}
	return asConnect(e)
}

// asConnect keeps the catalogue's code: as the detail petrel.v1.Error and as
// the header Petrel-Error.
func asConnect(e *im.Error) error {
	codes := map[int]connect.Code{
		400: connect.CodeInvalidArgument, 401: connect.CodeUnauthenticated, 403: connect.CodePermissionDenied, 404: connect.CodeNotFound,
		409: connect.CodeAborted, 410: connect.CodeOutOfRange, 413: connect.CodeInvalidArgument, 429: connect.CodeResourceExhausted,
		501: connect.CodeUnimplemented, 503: connect.CodeUnavailable, 507: connect.CodeResourceExhausted,
	}
	code, ok := codes[e.Code.Info().HTTP]
	if !ok {
		code = connect.CodeInternal
	}
	c := connect.NewError(code, errors.New(e.Error()))
	c.Meta().Set("Petrel-Error", string(e.Code))
	if d, err := connect.NewErrorDetail(wire.ErrorFrame(e)); err == nil {
		c.AddDetail(d)
	}
	return c
}

// Redeem makes the first admin key.
func (s *Server) Redeem(ctx context.Context, r *connect.Request[petrelv1.RedeemRequest]) (*connect.Response[petrelv1.RedeemResponse], error) {
	key, err := s.Users.Redeem(ctx, r.Msg.Code)
	if err != nil {
		return nil, err
	}
	s.Redeemed()
	return connect.NewResponse(&petrelv1.RedeemResponse{AdminKey: key}), nil
}

// maxUsers is how many users one call may make.
const maxUsers = 1000

// CreateUsers makes users and tokens.
func (s *Server) CreateUsers(ctx context.Context, r *connect.Request[petrelv1.CreateUsersRequest]) (*connect.Response[petrelv1.CreateUsersResponse], error) {
	if n := len(r.Msg.Users); n == 0 || n > maxUsers {
		return nil, im.Errorf(im.CodeInvalid, "users has 1 to %d entries", maxUsers)
	}
	list := make([]im.User, len(r.Msg.Users))
	for i, u := range r.Msg.Users {
		list[i] = im.User(u)
	}
	issued, err := s.Users.Create(ctx, r.Msg.Tenant, list)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.CreateUsersResponse{}
	for _, i := range issued {
		res.Tokens = append(res.Tokens, &petrelv1.UserToken{User: string(i.User), Token: i.Token, Created: i.Created})
	}
	return connect.NewResponse(res), nil
}

// RevokeTokens ends a user's tokens, then their sessions.
func (s *Server) RevokeTokens(ctx context.Context, r *connect.Request[petrelv1.RevokeTokensRequest]) (*connect.Response[petrelv1.RevokeTokensResponse], error) {
	t, err := s.Users.Tenant(r.Msg.Tenant)
	if err != nil {
		return nil, err
	}
	a := im.Account{Tenant: t, User: im.User(r.Msg.User)}
	if err := s.Users.Revoke(ctx, a); err != nil {
		return nil, err
	}
	n, err := s.CloseUser(ctx, a, im.CodeRevoked)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&petrelv1.RevokeTokensResponse{Sessions: uint32(n)}), nil
}

// settleTime bounds how long a change of members waits for the members' lists;
// what is later reaches their sessions by itself.
const settleTime = 5 * time.Second

func (s *Server) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	_ = s.Settle(ctx) // only late
}

// submit appends one entry and waits for its answer.
func (s *Server) submit(ctx context.Context, send *conv.Send) (conv.Result, error) {
	done := make(chan conv.Result, 1)
	send.Done = func(r conv.Result) { done <- r }
	var k fanout.Kicks
	s.Convs.Submit([]*conv.Send{send}, &k)
	k.Flush()
	select {
	case r := <-done:
		if r.Err != nil {
			return r, r.Err
		}
		return r, nil
	case <-ctx.Done():
		return conv.Result{}, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}

// checkMembers checks the users and roles of a change. Codes: invalid, no_user.
func (s *Server) checkMembers(ctx context.Context, t im.Tenant, ch *petrelv1.MemberChange) error {
	if len(ch.Added)+len(ch.Removed)+len(ch.Left)+len(ch.Roles) == 0 {
		return im.Errorf(im.CodeInvalid, "the change is empty")
	}
	if len(ch.Added) > conv.MaxMembers {
		return im.Errorf(im.CodeInvalid, "a group has at most %d members", conv.MaxMembers)
	}
	users := slices.Concat(ch.Removed, ch.Left)
	for _, m := range ch.Added {
		if m.Role < petrelv1.Role_ROLE_UNSPECIFIED || m.Role > petrelv1.Role_ROLE_OWNER {
			return im.Errorf(im.CodeInvalid, "there is no role %d", m.Role)
		}
		users = append(users, m.User)
	}
	for _, m := range ch.Roles {
		if m.Role < petrelv1.Role_ROLE_MEMBER || m.Role > petrelv1.Role_ROLE_OWNER {
			return im.Errorf(im.CodeInvalid, "there is no role %d", m.Role)
		}
		users = append(users, m.User)
	}
	for _, u := range users {
		ok, err := s.Users.Exists(ctx, im.Account{Tenant: t, User: im.User(u)})
		if err != nil {
			return err
		}
		if !ok {
			return im.Errorf(im.CodeNoUser, "there is no user %.64s", u)
		}
	}
	return nil
}

// checkStanding refuses a change that takes from somebody, or gives them a role,
// who never was a member. Whether they are one now is the conversation's to say:
// a repeated call is answered as before. Codes: not_member, no_conversation.
func (s *Server) checkStanding(ctx context.Context, key im.Key, ch *petrelv1.MemberChange) error {
	users := slices.Concat(ch.Removed, ch.Left)
	for _, m := range ch.Roles {
		users = append(users, m.User)
	}
	for _, u := range users {
		if slices.ContainsFunc(ch.Added, func(m *petrelv1.MemberRef) bool { return m.User == u }) {
			continue
		}
		_, err := s.Convs.Look(ctx, key, im.User(u))
		if err != nil && im.CodeOf(err) == im.CodeNotMember {
			return im.Errorf(im.CodeNotMember, "%s never was a member of the conversation", u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func record(title, key string) *storepb.Conversation {
	return &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: title, Key: key}
}
