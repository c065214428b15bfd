package api

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Console has the questions of operators to all nodes. An answer names the nodes that did not answer; they are no
// error. No field is nil when a call comes.
type Console struct {
	Overview  func(context.Context, *petrelv1.GetOverviewRequest) *petrelv1.Overview
	Refusals  func(context.Context, *petrelv1.ListRefusalsRequest) *petrelv1.ListRefusalsResponse
	Log       func(context.Context, *petrelv1.ReadLogRequest) (*petrelv1.ReadLogResponse, error)
	Sessions  func(context.Context, *petrelv1.ListSessionsRequest) *petrelv1.ListSessionsResponse
	Limits    func(context.Context) *petrelv1.ClusterLimits
	Preview   func(context.Context, *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse
	SetLimits func(context.Context, *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse // what it has changed
	Online    func(im.Account) bool                                                         // as far as this node knows
	// other nodes at which a user is online, as far as this node knows
	OnlineAt func(im.Account) []im.Node
	// when a user was online last, in Unix milliseconds; 0: not known
	LastSeen func(context.Context, im.Account) (uint64, error)
	Owner    func(im.ConvID) (p im.Partition, node im.Node) // "": none is known
	Kind     string                                         // of the store
}

// Refusal is a call that was refused.
type Refusal struct {
	Who     user.Identity // the zero value: nobody; of a login the user whom it named, if that user exists
	Named   bool          // Who is the user whom a login named
	Address netip.Addr
	What    string
	Code    im.Code
	Text    string
	Send    *petrelv1.Send // of a send; else nil
}

// noteRefusal passes a refused call to Options.Refused, unless the caller has ended it.
func (s *Server) noteRefusal(ctx context.Context, spec connect.Spec, req connect.AnyRequest, e *im.Error) {
	if s.o.Refused == nil || abandoned(ctx, e) {
		return
	}
	c := callOf(ctx)
	r := Refusal{Address: c.remote, What: procedure(spec), Code: e.Code, Text: e.Message}
	switch {
	case c.caller != nil:
		r.Who = c.caller.identity
	case c.refused != nil:
		r.Who = c.refused.identity
	}
	if req != nil {
		switch m := req.Any().(type) {
		case *petrelv1.Send:
			r.Send = m
		case proto.Message:
			if table[procedure(spec)].login != "" {
				r.Who.Account, r.Named = s.namedUser(ctx, m), true
			}
		}
	}
	s.o.Refused(r)
}

// namedUser returns the user that a request names, if the user exists; else the zero account. It does the same work
// for every valid name.
func (s *Server) namedUser(ctx context.Context, m proto.Message) im.Account {
	t, err := s.users.Tenant(ctx, fieldOf(m, "tenant"))
	a := im.Account{Tenant: t, User: im.User(fieldOf(m, "user"))}
	if err != nil || a.User.Check() != nil {
		return im.Account{}
	}
	if known, err := s.users.Exists(ctx, a); err != nil || !known {
		return im.Account{}
	}
	return a
}

// GetOverview describes the state of all nodes.
func (s *Server) GetOverview(ctx context.Context, r *petrelv1.GetOverviewRequest) (*petrelv1.Overview, error) {
	return s.o.Console.Overview(ctx, r), nil
}

// ListRefusals lists recent refusals.
func (s *Server) ListRefusals(ctx context.Context,
	r *petrelv1.ListRefusalsRequest) (*petrelv1.ListRefusalsResponse, error) {
	q := proto.CloneOf(r)
	if key := callOf(ctx).caller.key; key.Tenant != 0 { // an empty name would mean all tenants
		q.Tenant = key.TenantName
	}
	return s.o.Console.Refusals(ctx, q), nil
}

// ReadLog reads the last lines of the log.
func (s *Server) ReadLog(ctx context.Context, r *petrelv1.ReadLogRequest) (*petrelv1.ReadLogResponse, error) {
	return s.o.Console.Log(ctx, r)
}

// PreviewLimits returns the changes that SetLimits would make.
func (s *Server) PreviewLimits(ctx context.Context, r *petrelv1.ServerLimits) (*petrelv1.PreviewLimitsResponse, error) {
	if err := checkLimits(r); err != nil {
		return nil, err
	}
	return s.o.Console.Preview(ctx, r), nil
}

// ListTenants lists the tenants by name.
func (s *Server) ListTenants(ctx context.Context,
	_ *petrelv1.ListTenantsRequest) (*petrelv1.ListTenantsResponse, error) {
	list, err := s.users.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	res := &petrelv1.ListTenantsResponse{}
	for _, t := range list {
		res.Tenants = append(res.Tenants, &petrelv1.TenantSummary{Tenant: t.Name, Registration: uint32(t.Set),
			Effective: uint32(t.Effective), StrictIds: t.StrictIDs})
	}
	return res, nil
}

// ListSessions lists the sessions of a user.
func (s *Server) ListSessions(ctx context.Context, a im.Account,
	r *petrelv1.ListSessionsRequest) (*petrelv1.ListSessionsResponse, error) {
	if _, err := s.users.Get(ctx, a); err != nil {
		return nil, err
	}
	return s.o.Console.Sessions(ctx, r), nil
}

// maxTracedRefusals is how many refusals one answer about a user has.
const maxTracedRefusals = 100

// TraceUser returns whether a user is connected, and if not, why.
func (s *Server) TraceUser(ctx context.Context, r *petrelv1.TraceUserRequest) (*petrelv1.TraceUserResponse, error) {
	tenant, err := s.users.Tenant(ctx, r.Tenant)
	if err != nil {
		return nil, err
	}
	a := im.Account{Tenant: tenant, User: im.User(r.User)}
	if err := a.User.Check(); err != nil {
		return nil, err
	}
	refused := s.o.Console.Refusals(ctx, &petrelv1.ListRefusalsRequest{Tenant: cmp.Or(r.Tenant, user.DefaultTenantName),
		User: r.User, Limit: maxTracedRefusals})
	t := &petrelv1.TraceUserResponse{Refusals: refused.Refusals, Silent: refused.Silent,
		ConnectionsLimit: s.o.Limits().ConnectionsPerUser}
	i, err := s.users.Get(ctx, a)
	if im.CodeOf(err) == im.CodeNoUser {
		t.Outcome, t.Text = petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_NO_USER, "there is no such user"
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	devices, err := s.users.Devices(ctx, a)
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		if t.Devices++; d.Revoked {
			t.Devices--
			t.RevokedDevices++
		}
	}
	if t.LastSeenMs, err = s.o.Console.LastSeen(ctx, a); err != nil {
		return nil, err
	}
	connected := s.o.Console.Sessions(ctx, &petrelv1.ListSessionsRequest{Tenant: r.Tenant, User: r.User})
	t.Sessions, t.Disabled = connected.Sessions, i.Disabled
	for _, n := range connected.Silent {
		if !slices.Contains(t.Silent, n) {
			t.Silent = append(t.Silent, n)
		}
	}
	s.judgeUser(t, i.HasPassword || len(devices) > 0)
	return t, nil
}

// when formats a time for people.
func when(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02 15:04:05 UTC") }

// judgeUser sets whether a user is connected, and if not, why. loggedIn: the user has a password, or a device has
// logged in.
func (s *Server) judgeUser(t *petrelv1.TraceUserResponse, loggedIn bool) {
	say := func(o petrelv1.TraceUserOutcome, text string) { t.Outcome, t.Text = o, text }
	switch {
	case len(t.Sessions) > 0:
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_CONNECTED, "is connected")
	case t.Disabled:
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_DISABLED, "an operator has disabled the user")
	case len(t.Silent) > 0:
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_SILENT_NODE,
			"a node does not answer, and the user may be connected there")
	case s.triedLast(t) != nil:
		x := s.triedLast(t)
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_REFUSED,
			"the last try, "+when(x.TimeMs)+", was refused with "+x.Code+" ("+x.What+")")
	case t.Devices == 0 && t.RevokedDevices > 0:
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_LOGGED_OUT, "all devices are logged out")
	case !loggedIn:
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_NEVER_LOGGED_IN,
			"has no password, and no device has logged in; tokens that belong to no device are not seen here")
	default:
		say(petrelv1.TraceUserOutcome_TRACE_USER_OUTCOME_AWAY,
			"nothing is in the way: the app is closed, or does not reach the server")
	}
}

// triedLast returns the newest refusal of a login or a hello, unless the user was online later.
func (s *Server) triedLast(t *petrelv1.TraceUserResponse) *petrelv1.Refusal {
	for _, x := range t.Refusals {
		if x.TimeMs <= t.LastSeenMs {
			return nil
		}
		if x.What == "hello" || s.table[x.What].login != "" {
			return x
		}
	}
	return nil
}
