package bench

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"

	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// operator is a client of the admin API of one server.
type operator struct {
	api  petrelv1connect.AdminServiceClient
	http *http.Client
	url  string
}

// close ends the connections that are kept for the next call.
func (o *operator) close() { o.http.CloseIdleConnections() }

// newOperator makes the client of a server's API at url.
func newOperator(n *sockets, url, adminKey string) *operator {
	client := &http.Client{Timeout: time.Minute,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return n.dial(ctx, &net.Dialer{}, addr)
		}}}
	return &operator{api: petrelv1connect.NewAdminServiceClient(client, url,
		sdk.Credentials(sdk.StaticToken(adminKey))), http: client, url: url}
}

// redeem exchanges the one-time setup code of a server for its first admin key.
func redeem(ctx context.Context, url, code string) (adminKey string, err error) {
	setup := petrelv1connect.NewSetupServiceClient(&http.Client{Timeout: time.Minute,
		Transport: &http.Transport{DisableKeepAlives: true}}, url)
	r, err := setup.Redeem(ctx, connect.NewRequest(&petrelv1.RedeemRequest{Code: code}))
	if err != nil {
		return "", fmt.Errorf("redeem the setup code: %w", err)
	}
	return r.Msg.AdminKey, nil
}

// usersPerCall is the most users that one call of CreateUsers makes.
const usersPerCall = 1000

// createUsers makes users and returns a token for each.
func (o *operator) createUsers(ctx context.Context, users []string) ([]string, error) {
	tokens := make([]string, 0, len(users))
	for len(users) > 0 {
		n := min(len(users), usersPerCall)
		r, err := o.api.CreateUsers(ctx, connect.NewRequest(&petrelv1.CreateUsersRequest{Users: users[:n]}))
		if err != nil {
			return nil, fmt.Errorf("create users: %w", err)
		}
		if len(r.Msg.Tokens) != n {
			return nil, fmt.Errorf("create users: %d tokens for %d users", len(r.Msg.Tokens), n)
		}
		for _, t := range r.Msg.Tokens {
			tokens = append(tokens, t.Token)
		}
		users = users[n:]
	}
	return tokens, nil
}

func (o *operator) createGroup(ctx context.Context, title string, users []string) (conv string, err error) {
	members := make([]*petrelv1.MemberRef, len(users))
	for i, u := range users {
		members[i] = &petrelv1.MemberRef{User: u, Role: petrelv1.Role_ROLE_MEMBER}
	}
	members[0].Role = petrelv1.Role_ROLE_OWNER
	r, err := o.api.CreateGroup(ctx,
		connect.NewRequest(&petrelv1.AdminCreateGroupRequest{Title: title, Members: members}))
	if err != nil {
		return "", fmt.Errorf("create a group: %w", err)
	}
	return r.Msg.Conv, nil
}

func (o *operator) stats(ctx context.Context) (*petrelv1.Stats, error) {
	r, err := o.api.GetStats(ctx, connect.NewRequest(&petrelv1.GetStatsRequest{}))
	if err != nil {
		return nil, fmt.Errorf("get stats: %w", err)
	}
	return r.Msg, nil
}

// compact makes the store release unneeded space and returns the size of its tables.
func (o *operator) compact(ctx context.Context) (uint64, error) {
	r, err := o.api.Compact(ctx, connect.NewRequest(&petrelv1.CompactRequest{}))
	if err != nil {
		return 0, fmt.Errorf("compact the store: %w", err)
	}
	return r.Msg.TableBytes, nil
}

// history reads a page of a conversation, upwards from after.
func (o *operator) history(ctx context.Context, conv string, after uint64) (*petrelv1.HistoryPage, error) {
	r, err := o.api.GetHistory(ctx,
		connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: conv, After: after}}))
	if err != nil {
		return nil, fmt.Errorf("read history of %s: %w", conv, err)
	}
	return r.Msg, nil
}

// limit is one limit that a run may have to raise.
type limit struct {
	name string
	of   func(*petrelv1.ServerLimits) *int64
	need int64 // -1: no limit; 0: any will do
}

// needs returns the limits that the run requires.
func (p *Params) needs() []limit {
	connections := int64(p.connections())
	l := []limit{
		{"connections", func(l *petrelv1.ServerLimits) *int64 { return &l.Connections }, connections},
		{"connections_per_ip", func(l *petrelv1.ServerLimits) *int64 { return &l.ConnectionsPerIp }, connections},
		{"new_connections_per_ip_per_s", func(l *petrelv1.ServerLimits) *int64 { return &l.NewConnectionsPerIpPerS },
			-1},
		{"unauthenticated", func(l *petrelv1.ServerLimits) *int64 { return &l.Unauthenticated }, p.dialing()},
		{"unauthenticated_per_ip", func(l *petrelv1.ServerLimits) *int64 { return &l.UnauthenticatedPerIp },
			p.dialing()},
	}
	if p.senders() == 0 {
		return l
	}
	window := int64(p.Window)
	if p.open() {
		window = 0
	}
	return append(l,
		limit{"sends_per_s", func(l *petrelv1.ServerLimits) *int64 { return &l.SendsPerS }, -1},
		limit{"send_burst", func(l *petrelv1.ServerLimits) *int64 { return &l.SendBurst }, -1},
		limit{"window_sends", func(l *petrelv1.ServerLimits) *int64 { return &l.WindowSends }, window},
		limit{"window_bytes", func(l *petrelv1.ServerLimits) *int64 { return &l.WindowBytes },
			window * int64(p.Size+sendOverhead)},
	)
}

// dialing returns how many connections the server has to allow that have not sent their hello.
func (p *Params) dialing() int64 {
	if p.Scenario == Storm || p.KillS > 0 {
		return int64(p.connections())
	}
	return 2 * int64(max(dialers, p.AtOnce))
}

// sendOverhead is the approximate size of a send frame beside the body, in either codec.
const sendOverhead = 192 // bytes

// Raised is a limit that a run has raised.
type Raised struct {
	Limit string `json:"limit"`
	From  int64  `json:"from"`
	To    int64  `json:"to"` // -1: none
}

// raise raises, on all nodes, the limits that are too low on some node. restore sets them, on all nodes, to the values
// of the first node on which they were too low. A node that does not answer is an error.
func (o *operator) raise(ctx context.Context,
	needs []limit) (raised []Raised, restore func(context.Context) error, err error) {
	now, err := o.api.GetLimits(ctx, connect.NewRequest(&petrelv1.GetLimitsRequest{}))
	if err != nil {
		return nil, nil, fmt.Errorf("get limits: %w", err)
	}
	higher, before := &petrelv1.ServerLimits{}, &petrelv1.ServerLimits{}
	for _, l := range needs {
		for _, n := range now.Msg.Nodes {
			is := *l.of(n.Limits)
			if is < 0 || l.need >= 0 && is >= l.need {
				continue
			}
			*l.of(higher), *l.of(before) = l.need, is
			raised = append(raised, Raised{l.name, is, l.need})
			break
		}
	}
	if len(raised) == 0 {
		return nil, func(context.Context) error { return nil }, nil
	}
	set := func(ctx context.Context, l *petrelv1.ServerLimits) (silent []string, err error) {
		r, err := o.api.SetLimits(ctx, connect.NewRequest(l))
		if err != nil {
			return nil, fmt.Errorf("set limits: %w", err)
		}
		return r.Msg.Silent, nil
	}
	silent, err := set(ctx, higher)
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("set limits: %s did not answer", strings.Join(silent, ", "))
	}
	return raised, func(ctx context.Context) error {
		// a node that was started again has the limits of its configuration already
		_, err := set(ctx, before)
		return err
	}, err
}

// logInDevices logs a device of each user in, and returns its access token.
func (o *operator) logInDevices(ctx context.Context, users []string) ([]string, error) {
	tokens := make([]string, len(users))
	for i, u := range users {
		r, err := o.api.MintToken(ctx, connect.NewRequest(&petrelv1.MintTokenRequest{
			User: u, Device: &petrelv1.DeviceRef{Id: "phone-1", Kind: "phone", Name: "bench"}}))
		if err != nil {
			return nil, fmt.Errorf("log a device in: %w", err)
		}
		tokens[i] = r.Msg.AccessToken
	}
	return tokens, nil
}

// groupSize is how many members the groups of a list of conversations have at most.
const groupSize = 1000

// fillLists makes every user a member of n groups.
func (o *operator) fillLists(ctx context.Context, name string, users []string, n int) error {
	for i := range n {
		for from := 0; from < len(users); from += groupSize {
			if _, err := o.createGroup(ctx, fmt.Sprintf("%s-%d-%d", name, i, from),
				users[from:min(from+groupSize, len(users))]); err != nil {
				return err
			}
		}
	}
	return nil
}
