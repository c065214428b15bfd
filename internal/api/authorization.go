package api

import (
	"context"
	"errors"
	"fmt"
	"github.com/petrel-im/petrel/internal/operator"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// caller is the caller of a method. The zero value has no credential.
type caller struct {
	identity   user.Identity // of a user with an access token or a session
	key        *operator.Key // with an admin key
	credential string        // the admin key or the token of an operator's session; it is never logged or sent
	expires    time.Time     // end of that session; the zero time: the credential is a key
}

func (c *caller) anonymous() bool { return c.key == nil && c.identity.Account == im.Account{} }

// name identifies the caller.
func (c *caller) name() string {
	if c.key != nil {
		return "key " + c.key.ID
	}
	return fmt.Sprintf("user %s device %s", c.identity.Account, c.identity.Device)
}

// procedure returns the name of a method in the table.
func procedure(spec connect.Spec) string { return strings.TrimPrefix(spec.Procedure, "/") }

// gate lets authorized callers pass, and makes them the callers of their calls, before anything of the request's
// body is read. A user who calls too fast waits. Codes: unauthenticated, user_disabled, forbidden, rate_limited.
// Spec: P-10.2, P-10.6, P-12.2.
func (s *Server) gate(ctx context.Context, spec connect.Spec, _ connect.Peer, h http.Header) (context.Context, error) {
	c := callOf(ctx)
	who, err := s.identify(ctx, procedure(spec), c.caller, h)
	if err != nil {
		c.refused = who
		return nil, s.fail(ctx, spec, nil, err)
	}
	c.caller = who
	if table[procedure(spec)].access != anybody {
		rate.Vouch(ctx)
	}
	if err := s.awaitPace(ctx, c, lengthOf(h)); err != nil { // before anything of the body is read
		return nil, s.fail(ctx, spec, nil, err)
	}
	if who.key != nil {
		c.stream.keep()
	}
	if who.key != nil && c.inside {
		ctx = store.ForOperators(ctx)
	}
	return ctx, nil
}

// identify returns the caller. If an admin key lacks the scope, it returns the caller with the error. before is
// the caller that was known before the request was read: the user of a session; nil: none.
func (s *Server) identify(ctx context.Context, name string, before *caller, h http.Header) (*caller, error) {
	m := table[name]
	credential := bearer(h)
	switch {
	case m.access == anybody:
		return &caller{}, nil
	case m.access == aUser && before != nil:
		return before, nil
	case m.access == aUser:
		id, err := s.users.Authenticate(ctx, credential)
		return &caller{identity: id}, err
	case m.access == aKey:
		key, expires, err := s.keyOf(ctx, credential)
		if err != nil {
			return nil, err
		}
		who := &caller{key: &key, credential: credential, expires: expires}
		if m.scope != scopeAny && !key.Covers(m.scope) {
			return who, im.Errorf(im.CodeForbidden, "this key does not have the scope %s", m.scope)
		}
		return who, nil
	}
	return nil, &im.Error{Code: im.CodeForbidden} // no line in the table
}

// keyOf checks an admin key, or, on listen.admin, the token of an operator's session. A session works on no other
// listener, so its thief has to reach that address. Codes: unauthenticated. Spec: P-10.10.
func (s *Server) keyOf(ctx context.Context, credential string) (operator.Key, time.Time, error) {
	if callOf(ctx).inside {
		return s.o.Operators.AuthenticateOperator(ctx, credential)
	}
	key, err := s.o.Operators.AuthenticateKey(ctx, credential)
	return key, time.Time{}, err
}

// guardTenant keeps a key that is bound to a tenant from acting on another one. Spec: P-10.6.
func (s *Server) guardTenant(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if key := callOf(ctx).caller.key; key != nil && key.Tenant != 0 &&
			table[procedure(req.Spec())].scope != scopeAny {
			msg, ok := req.Any().(proto.Message)
			im.Assert(ok, "request %T is no message", req.Any())
			if !withinTenant(msg, key.TenantName) {
				return nil, im.Errorf(im.CodeForbidden, "this key works for the tenant %s only", key.TenantName)
			}
		}
		return next(ctx, req)
	}
}

// withinTenant reports whether a request is about this tenant only. A request without a tenant field is about the
// whole server.
func withinTenant(msg proto.Message, tenant string) bool {
	if msg.ProtoReflect().Descriptor().Fields().ByName("tenant") == nil {
		return false
	}
	name := fieldOf(msg, "tenant")
	if _, forKey := msg.(*petrelv1.CreateKeyRequest); name == "" && !forKey { // such a key is for all tenants
		name = user.DefaultTenantName
	}
	return name == tenant
}

// conclude is the outermost interceptor of a call. It bounds the time of the call, unless the table calls the
// method slow. It gives errors their codes, turns a panic into an internal error, and counts the call.
func (s *Server) conclude(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (res connect.AnyResponse, err error) {
		begun := time.Now()
		callOf(ctx).reached = true
		within := ctx
		if !table[procedure(req.Spec())].slow {
			var cancel context.CancelFunc
			within, cancel = context.WithTimeout(ctx, requestTimeout)
			defer cancel()
		}
		defer func() {
			if p := recover(); p != nil {
				s.log.ErrorContext(ctx, "call panicked", "req", callOf(ctx).id, "err",
					fmt.Sprintf("%s: %v", req.Spec().Procedure, p), "stack", string(debug.Stack()))
				res, err = nil, &im.Error{Code: im.CodeInternal, Request: callOf(ctx).id}
			}
			outcome := outcomeOK
			if err != nil {
				res, err = nil, s.fail(within, req.Spec(), req, err)
				outcome = string(callOf(ctx).err.Code)
			}
			s.Calls[procedure(req.Spec())].Observe(time.Since(begun))
			s.Logins[table[procedure(req.Spec())].login].Add(outcome)
			s.log.DebugContext(ctx, "call", "method", procedure(req.Spec()), "req", callOf(ctx).id, "err", err, "took",
				time.Since(begun))
		}()
		return next(within, req)
	}
}

// fail counts and records a refusal, and converts err for the caller. req is nil if the request was not read.
func (s *Server) fail(ctx context.Context, spec connect.Spec, req connect.AnyRequest, err error) error {
	e := s.asCode(ctx, procedure(spec), err)
	callOf(ctx).err = e
	s.count(ctx, e)
	s.traceRefusal(ctx, spec, req, e)
	s.noteRefusal(ctx, spec, req, e)
	return asConnect(e)
}

// abandoned reports whether e only says that the caller has ended the call. Nothing that the call needed was
// missing then, so operators do not hear of it.
func abandoned(ctx context.Context, e *im.Error) bool {
	return e.Code == im.CodeStoreStalled && errors.Is(ctx.Err(), context.Canceled)
}

// count counts a refusal, unless the caller has ended the call.
func (s *Server) count(ctx context.Context, e *im.Error) {
	if !abandoned(ctx, e) {
		s.Refusals.Add(string(e.Code))
	}
}
