package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/session/sessionpb"
)

// answerTimeout bounds the answer of a node, or of the store.
const answerTimeout = 2 * time.Second

// The requests of a node to all nodes about the sessions of a user.
var (
	closeSessions = bus.Request[*sessionpb.Close, *sessionpb.Closed]{Subject: "session.close", Timeout: answerTimeout}
	tellStanding  = bus.Request[*sessionpb.Standing, *sessionpb.Closed]{
		Subject: "session.standing", Timeout: answerTimeout}
	countSessions = bus.Request[*sessionpb.Count, *sessionpb.Counts]{Subject: "session.count", Timeout: answerTimeout}
)

// Attach lets the other nodes reach the hub. It is called once, before the bus runs.
func (h *Hub) Attach(b bus.Bus) {
	h.bus = b
	closeSessions.Serve(b, func(_ im.Node, m *sessionpb.Close) (*sessionpb.Closed, error) {
		n := h.closeHere(decodeAccount(m.Account), im.Code(m.Code), func(o *fanout.Outbox) bool {
			return m.Device == nil || o.Device == m.Device.Id && (o.Device == "" || o.Login < m.Device.Below)
		})
		return &sessionpb.Closed{Sessions: uint32(n)}, nil
	})
	tellStanding.Serve(b, func(_ im.Node, m *sessionpb.Standing) (*sessionpb.Closed, error) {
		is := im.Standing{MutedMs: m.MutedMs, PrivateReading: m.PrivateReading}
		a := decodeAccount(m.Account)
		n := h.table.Announce(a, is)
		h.rechecks.announced(a, n)
		return &sessionpb.Closed{Sessions: uint32(n)}, nil
	})
	countSessions.Serve(b, func(_ im.Node, m *sessionpb.Count) (*sessionpb.Counts, error) {
		n := map[string]uint32{}
		for _, o := range h.table.Of(decodeAccount(m.Account)) {
			n[o.Device]++
		}
		c := &sessionpb.Counts{}
		for device, n := range n {
			c.Devices = append(c.Devices, &sessionpb.Counts_Device{Id: device, Sessions: n})
		}
		return c, nil
	})
}

// askAll asks all nodes, this one included, and gives each answer to f. It does not stop when ctx
// is cancelled: if a caller revokes a token and hangs up, the sessions must end all the same.
func askAll[Q, A proto.Message](ctx context.Context, h *Hub, r bus.Request[Q, A], what string, a im.Account, q Q,
	f func(A)) error {
	var failed error
	for _, reply := range r.AskAll(context.WithoutCancel(ctx), h.bus, bus.Nodes(h.bus), q) {
		if failed = errors.Join(failed, reply.Err); reply.Err == nil {
			f(reply.Answer)
		}
	}
	return h.checkAnswers(what, a, failed)
}

// checkAnswers handles the errors of the nodes that did not answer. In a cluster it only logs them: a node that
// does not answer ends the sessions by itself (revocationbarrier.go), and its sessions are not counted. Without a
// cluster it returns them.
func (h *Hub) checkAnswers(what string, a im.Account, err error) error {
	switch {
	case err == nil:
		return nil
	case h.barrier == nil:
		return fmt.Errorf("%s of %s: %w", what, a, err)
	}
	h.o.Log.Warn("ask other nodes about sessions failed", "user", string(a.User), "err", err)
	return nil
}

// close asks all nodes to end sessions, and returns how many there were.
func (h *Hub) close(ctx context.Context, m *sessionpb.Close) (total int, err error) {
	err = askAll(ctx, h, closeSessions, "close sessions", decodeAccount(m.Account), m,
		func(c *sessionpb.Closed) { total += int(c.Sessions) })
	return total, err
}

// CloseUser ends every session of a user, on every node that answers, and returns how many there were.
//
// The caller must have made the reason durable before. A hello that is under way enters the online table
// and then checks its token again, so it sees the reason. A node that does not answer sees the reason
// within 5 s. Spec: P-3.5.
func (h *Hub) CloseUser(ctx context.Context, a im.Account, code im.Code) (int, error) {
	return h.close(ctx, &sessionpb.Close{Account: encodeAccount(a), Code: string(code)})
}

// CloseDevice ends the sessions of a device, as CloseUser does for a user. It ends only
// sessions whose login is void in the store. So a late call does no harm: if the device
// has logged in again, the sessions of the new login stay. Device "" means the sessions
// whose tokens are bound to no device. Spec: P-11.4.
func (h *Hub) CloseDevice(ctx context.Context, a im.Account, device string, code im.Code) (int, error) {
	below := uint64(math.MaxUint64)
	if device != "" {
		// The caller may have hung up: the sessions must end all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
		defer cancel()
		var err error
		if below, err = h.users.VoidBelow(ctx, a, device); err != nil {
			return 0, err
		}
	}
	return h.close(ctx, &sessionpb.Close{Account: encodeAccount(a), Code: string(code),
		Device: &sessionpb.Close_Device{Id: device, Below: below}})
}

// Announce tells every node that answers what holds for the sessions of a user. The caller has made it durable; so
// a node that does not answer learns it by a recheck. Spec: P-14.14, P-14.24.
func (h *Hub) Announce(ctx context.Context, a im.Account, is im.Standing) error {
	m := &sessionpb.Standing{Account: encodeAccount(a), MutedMs: is.MutedMs, PrivateReading: is.PrivateReading}
	return askAll(ctx, h, tellStanding, "tell sessions", a, m, func(*sessionpb.Closed) {})
}

// SessionsOf counts the sessions of a user by device, on every node that answers. Those
// whose tokens are bound to no device are counted under "".
func (h *Hub) SessionsOf(ctx context.Context, a im.Account) (map[string]int, error) {
	n := map[string]int{}
	err := askAll(ctx, h, countSessions, "count sessions", a, &sessionpb.Count{Account: encodeAccount(a)},
		func(c *sessionpb.Counts) {
			for _, d := range c.Devices {
				n[d.Id] += int(d.Sessions)
			}
		})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// closeHere ends the sessions of a user on this node for which match returns true. It returns their number,
// together with those that a recheck has ended shortly before.
func (h *Hub) closeHere(a im.Account, code im.Code, match func(*fanout.Outbox) bool) int {
	var k fanout.WakeUps
	n := 0
	for _, o := range h.table.Of(a) {
		if match(o) && o.End(&im.Error{Code: code}, &k) {
			n++
		}
	}
	k.Flush()
	return n + h.rechecks.endedBefore(a, match)
}

// encode encodes a message of sessionpb for another node.
func encode(m interface{ MarshalVT() ([]byte, error) }) []byte {
	b, err := m.MarshalVT()
	im.Assert(err == nil, "encode a message about sessions: %v", err)
	return b
}

func encodeAccount(a im.Account) *sessionpb.Account {
	return &sessionpb.Account{Tenant: uint32(a.Tenant), User: string(a.User)}
}

func decodeAccount(a *sessionpb.Account) im.Account {
	return im.Account{Tenant: im.Tenant(a.GetTenant()), User: im.User(a.GetUser())}
}
