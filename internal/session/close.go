package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/session/sessionpb"
)

// What a node asks another one about a user's sessions. Messages are those of
// sessionpb.
const (
	closeSubject bus.Subject = "session.close" // Close, answered by Closed
	countSubject bus.Subject = "session.count" // Count, answered by Counts
)

// Attach makes the hub reachable for the other nodes. It is called once,
// before the bus runs.
func (h *Hub) Attach(b bus.Bus) {
	h.bus = b
	b.Handle(closeSubject, bus.Answering(func(_ im.Node, p []byte) []byte {
		var m sessionpb.Close
		if err := m.UnmarshalVT(p); err != nil {
			return nil
		}
		n := h.closeHere(accountOf(m.Account), im.Code(m.Code), func(o *fanout.Outbox) bool {
			return m.Device == nil || o.Device == m.Device.Id && (o.Device == "" || o.Login < m.Device.Below)
		})
		return encode(&sessionpb.Closed{Sessions: uint32(n)})
	}))
	b.Handle(countSubject, bus.Answering(func(_ im.Node, p []byte) []byte {
		var m sessionpb.Count
		if err := m.UnmarshalVT(p); err != nil {
			return nil
		}
		n := map[string]uint32{}
		for _, o := range h.table.Of(accountOf(m.Account)) {
			n[o.Device]++
		}
		var c sessionpb.Counts
		for device, n := range n {
			c.Devices = append(c.Devices, &sessionpb.Counts_Device{Id: device, Sessions: n})
		}
		return encode(&c)
	}))
}

func account(a im.Account) *sessionpb.Account {
	return &sessionpb.Account{Tenant: uint32(a.Tenant), User: string(a.User)}
}

func accountOf(a *sessionpb.Account) im.Account {
	return im.Account{Tenant: im.Tenant(a.GetTenant()), User: im.User(a.GetUser())}
}

func encode(m interface{ MarshalVT() ([]byte, error) }) []byte {
	b, err := m.MarshalVT()
	im.Assert(err == nil, "encode a message about sessions: %v", err)
	return b
}

// askTime is how long a node, or the store, may take to answer.
const askTime = 2 * time.Second

// everywhere asks all nodes at once, this one included, and hands each answer to
// f. It goes on without its caller: who has changed an account and gone away has
// changed it for every session.
func (h *Hub) everywhere(ctx context.Context, s bus.Subject, p []byte, f func(reply []byte)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	nodes := append(h.bus.Peers(), h.bus.Self())
	replies, errs := make([][]byte, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { replies[i], errs[i] = h.bus.Request(ctx, n, s, p) })
	}
	wg.Wait()
	for _, r := range replies {
		f(r)
	}
	return errors.Join(errs...)
}

// unanswered says what an answer that did not come means. Sessions on a node
// that did not answer end by themselves, see word.go, and are not counted.
func (h *Hub) unanswered(what string, a im.Account, err error) error {
	switch {
	case err == nil:
		return nil
	case h.nodes.streams == nil:
		return fmt.Errorf("%s of %s: %w", what, a, err)
	}
	h.o.Log.Warn("ask other nodes about sessions failed", "user", string(a.User), "err", err)
	return nil
}

// close asks all nodes to end sessions, and adds up how many there were.
func (h *Hub) close(ctx context.Context, m *sessionpb.Close) (total int, err error) {
	err = h.everywhere(ctx, closeSubject, encode(m), func(r []byte) {
		var c sessionpb.Closed
		if c.UnmarshalVT(r) == nil {
			total += int(c.Sessions)
		}
	})
	return total, h.unanswered("close sessions", accountOf(m.Account), err)
}

// CloseUser ends every session of a user, on every node that answers, and
// returns how many there were. The caller has made the reason durable before: a
// login under way sees it, since it checks its token again once it is in the
// online table; and so does, within 5 s, a node that does not answer.
// Spec: P-3.5.
func (h *Hub) CloseUser(ctx context.Context, a im.Account, code im.Code) (int, error) {
	return h.close(ctx, &sessionpb.Close{Account: account(a), Code: string(code)})
}

// CloseDevice ends the sessions of a device, as CloseUser does. What is durable
// before leaves valid stays: a device that has logged in again meanwhile keeps
// the sessions of that login, so it does not matter how late a call comes. Device
// "" stands for the sessions whose tokens are bound to none. Spec: P-11.4.
func (h *Hub) CloseDevice(ctx context.Context, a im.Account, device string, code im.Code) (int, error) {
	below := uint64(math.MaxUint64)
	if device != "" {
		// Who revokes may have gone away: the session ends all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
		defer cancel()
		var err error
		if below, err = h.users.VoidBelow(ctx, a, device); err != nil {
			return 0, err
		}
	}
	return h.close(ctx, &sessionpb.Close{Account: account(a), Code: string(code), Device: &sessionpb.Close_Device{Id: device, Below: below}})
}

// SessionsOf counts the sessions of a user by device, on every node that
// answers; those whose tokens are bound to no device stand under "".
func (h *Hub) SessionsOf(ctx context.Context, a im.Account) (map[string]int, error) {
	n := map[string]int{}
	err := h.everywhere(ctx, countSubject, encode(&sessionpb.Count{Account: account(a)}), func(r []byte) {
		var c sessionpb.Counts
		if c.UnmarshalVT(r) == nil {
			for _, d := range c.Devices {
				n[d.Id] += int(d.Sessions)
			}
		}
	})
	if err = h.unanswered("count sessions", a, err); err != nil {
		return nil, err
	}
	return n, nil
}

// closeHere ends the sessions of a user on this node that which says.
func (h *Hub) closeHere(a im.Account, code im.Code, which func(*fanout.Outbox) bool) int {
	var k fanout.Kicks
	n := 0
	for _, o := range h.table.Of(a) {
		if which(o) {
			o.End(&im.Error{Code: code}, &k)
			n++
		}
	}
	k.Flush()
	return n
}
