package console

import (
	"cmp"
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// refusalsHere lists the refusals of this node.
func (c *Console) refusalsHere(q *petrelv1.ListRefusalsRequest) *petrelv1.ListRefusalsResponse {
	limit := refusalLimit(q)
	var tenant im.Tenant // 0: all
	if q.Tenant != "" {
		var err error
		if tenant, err = c.o.Users.Tenant(context.Background(), q.Tenant); err != nil {
			return &petrelv1.ListRefusalsResponse{}
		}
	}
	most := limit
	if q.Grouped {
		most = math.MaxInt
	}
	list := c.Refusals.List(time.Now(), most, func(x *Refusal) bool {
		return (q.User == "" || string(x.Account.User) == q.User) && (q.Code == "" || string(x.Code) == q.Code) &&
			(q.ClientMsgId == "" || x.ClientMsgID == q.ClientMsgId) &&
			uint64(x.At.UnixMilli()) > q.SinceMs && (tenant == 0 || x.Account.Tenant == tenant)
	})
	if q.Grouped {
		list = Groups(list)
		list = list[:min(len(list), limit)]
	}
	r := &petrelv1.ListRefusalsResponse{}
	for i := range list {
		x := &list[i]
		m := &petrelv1.Refusal{
			Node: string(c.o.Bus.Self()), TimeMs: uint64(x.At.UnixMilli()), What: x.What, Code: string(x.Code),
			Text: x.Text, Tenant: c.tenantName(x.Account.Tenant),
			User: string(x.Account.User), Device: x.Device, Address: address(x.Address), Conv: x.Conv,
			ClientMsgId: x.ClientMsgID, Count: x.Count,
		}
		if q.Grouped {
			m.FirstMs = uint64(x.First.UnixMilli())
		}
		r.Refusals = append(r.Refusals, m)
	}
	return r
}

func refusalLimit(q *petrelv1.ListRefusalsRequest) int {
	if q.Limit == 0 {
		return 200
	}
	return int(min(q.Limit, 1000))
}

// ListRefusals lists the refusals of all nodes, newest first.
func (c *Console) ListRefusals(ctx context.Context, q *petrelv1.ListRefusalsRequest) *petrelv1.ListRefusalsResponse {
	answers, silent := askNodes(ctx, c, refused, q)
	r := &petrelv1.ListRefusalsResponse{Silent: silent}
	for _, x := range answers {
		r.Refusals = append(r.Refusals, x.Answer.Refusals...)
	}
	slices.SortStableFunc(r.Refusals, func(x, y *petrelv1.Refusal) int {
		if q.Grouped { // groups are not merged across nodes
			return cmp.Compare(y.Count, x.Count)
		}
		return cmp.Compare(y.TimeMs, x.TimeMs)
	})
	r.Refusals = r.Refusals[:min(len(r.Refusals), refusalLimit(q))]
	return r
}

// linesHere returns the last lines of this node's log.
func (c *Console) linesHere(q *petrelv1.ReadLogRequest) *petrelv1.ReadLogResponse {
	var least slog.Level
	if q.Level == "" || least.UnmarshalText([]byte(q.Level)) != nil {
		least = slog.LevelDebug
	}
	list := c.o.Lines.List(lineLimit(q), func(x *Line) bool {
		return x.Level >= least && uint64(x.At.UnixMilli()) > q.AfterMs &&
			(q.Contains == "" || strings.Contains(x.Text, q.Contains) || strings.Contains(x.Attrs, q.Contains))
	})
	r := &petrelv1.ReadLogResponse{}
	for i := range list {
		x := &list[i]
		r.Lines = append(r.Lines, &petrelv1.LogLine{
			Node: string(c.o.Bus.Self()), TimeMs: uint64(x.At.UnixMilli()), Level: x.Level.String(),
			Text: strings.ToValidUTF8(x.Text, "?"), Attrs: strings.ToValidUTF8(x.Attrs, "?"),
		})
	}
	return r
}

// lineLimit returns how many lines an answer has at most. So many stay below the bus's limit.
func lineLimit(q *petrelv1.ReadLogRequest) int {
	if q.Limit == 0 {
		return 500
	}
	return int(min(q.Limit, 900))
}

// ReadLog returns the last lines of the log of all nodes, or of one, oldest first. Codes: no_node, invalid.
func (c *Console) ReadLog(ctx context.Context, q *petrelv1.ReadLogRequest) (*petrelv1.ReadLogResponse, error) {
	var level slog.Level
	if q.Level != "" && level.UnmarshalText([]byte(q.Level)) != nil {
		return nil, im.Errorf(im.CodeInvalid, "level is DEBUG, INFO, WARN or ERROR")
	}
	if q.Node != "" && !slices.Contains(c.expected(), im.Node(q.Node)) {
		return nil, im.Errorf(im.CodeNoNode, "there is no node %.64q that should answer", q.Node)
	}
	answers, silent := askNodes(ctx, c, logLines, q)
	r := &petrelv1.ReadLogResponse{Silent: silent}
	for _, x := range answers {
		if q.Node == "" || q.Node == string(x.Node) {
			r.Lines = append(r.Lines, x.Answer.Lines...)
		}
	}
	slices.SortStableFunc(r.Lines, func(x, y *petrelv1.LogLine) int { return int(int64(x.TimeMs) - int64(y.TimeMs)) })
	r.Lines = r.Lines[max(0, len(r.Lines)-lineLimit(q)):]
	return r, nil
}

// sessionsHere returns the sessions that a user has at this node.
func (c *Console) sessionsHere(q *petrelv1.ListSessionsRequest) *petrelv1.ListSessionsResponse {
	r := &petrelv1.ListSessionsResponse{}
	t, err := c.o.Users.Tenant(context.Background(), q.Tenant)
	if err != nil {
		return r
	}
	id, _ := im.ParseConvID(q.Conv) // an invalid id is in no focus
	for _, o := range c.o.Table.Of(im.Account{Tenant: t, User: im.User(q.User)}) {
		l := o.Look(id)
		x := &petrelv1.SessionInfo{Node: string(c.o.Bus.Self()), Device: o.Device, PendingBytes: uint64(l.Pending),
			Lagged: l.Lagged, Held: l.Held, Focused: l.Focused, InFocus: q.Conv != "" && l.InFocus,
			Address: address(o.Conn.ClientAddr())}
		r.Sessions = append(r.Sessions, x)
	}
	return r
}

// ListSessions lists the sessions of a user at all nodes.
func (c *Console) ListSessions(ctx context.Context, q *petrelv1.ListSessionsRequest) *petrelv1.ListSessionsResponse {
	answers, silent := askNodes(ctx, c, sessions, q)
	r := &petrelv1.ListSessionsResponse{Silent: silent}
	for _, x := range answers {
		r.Sessions = append(r.Sessions, x.Answer.Sessions...)
	}
	slices.SortFunc(r.Sessions, func(x, y *petrelv1.SessionInfo) int {
		return strings.Compare(x.Node+" "+x.Device+" "+x.Address, y.Node+" "+y.Device+" "+y.Address)
	})
	return r
}

// GetLimits returns the limits of all nodes.
func (c *Console) GetLimits(ctx context.Context) *petrelv1.ClusterLimits {
	answers, silent := askNodes(ctx, c, limits, &petrelv1.GetLimitsRequest{})
	r := &petrelv1.ClusterLimits{Silent: silent}
	for _, x := range answers {
		r.Nodes = append(r.Nodes, &petrelv1.NodeLimits{Node: string(x.Node), Limits: x.Answer})
	}
	return r
}

// PreviewLimits returns the changes that SetLimits would make.
func (c *Console) PreviewLimits(ctx context.Context, m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	return oneAnswer(askNodes(ctx, c, previewLimits, m))
}

// SetLimits sets, on all nodes, each limit that is not 0 in m, and returns the changes.
func (c *Console) SetLimits(ctx context.Context, m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	return oneAnswer(askNodes(ctx, c, setLimits, m))
}

// oneAnswer joins the changes of all nodes. A change that several nodes have made is listed once, with these nodes;
// without nodes if all that answered have made it.
func oneAnswer(answers []bus.Reply[*petrelv1.PreviewLimitsResponse], silent []string) *petrelv1.PreviewLimitsResponse {
	r := &petrelv1.PreviewLimitsResponse{Silent: silent}
	for _, reply := range answers {
		for _, c := range reply.Answer.Changes {
			i := slices.IndexFunc(r.Changes, func(x *petrelv1.LimitChange) bool {
				return x.Name == c.Name && x.From == c.From && x.To == c.To && x.Text == c.Text
			})
			if i < 0 {
				i, r.Changes = len(r.Changes), append(r.Changes, c)
			}
			r.Changes[i].Nodes = append(r.Changes[i].Nodes, string(reply.Node))
		}
	}
	for _, c := range r.Changes {
		if len(c.Nodes) == len(answers) {
			c.Nodes = nil
		}
	}
	slices.SortStableFunc(r.Changes, func(x, y *petrelv1.LimitChange) int { return strings.Compare(x.Name, y.Name) })
	return r
}

// LastSeen returns when a user was last online, in Unix milliseconds; 0: not known.
func (c *Console) LastSeen(ctx context.Context, who im.Account) (uint64, error) {
	b, err := c.o.Store.Record(ctx, store.LastSeen, who.Tenant, []byte(who.User))
	if err != nil || len(b) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}
