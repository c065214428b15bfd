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

// The requests of a node to all nodes about the sessions of a user.
const (
	closeSubject bus.Subject = "session.close" // sessionpb.Close, answered by Closed
	countSubject bus.Subject = "session.count" // sessionpb.Count, answered by Counts
)

// Attach lets the other nodes reach the hub. It is called once, before the bus runs.
func (h *Hub) Attach(b bus.Bus) {
	h.bus = b
	b.Handle(closeSubject, bus.Answering(func(_ im.Node, p []byte) []byte {
		var m sessionpb.Close
		if err := m.UnmarshalVT(p); err != nil {
			return nil
		}
		n := h.closeHere(decodeAccount(m.Account), im.Code(m.Code), func(o *fanout.Outbox) bool {
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
		for _, o := range h.table.Of(decodeAccount(m.Account)) {
			n[o.Device]++
		}
		var c sessionpb.Counts
		for device, n := range n {
			c.Devices = append(c.Devices, &sessionpb.Counts_Device{Id: device, Sessions: n})
		}
		return encode(&c)
	}))
}

// answerTimeout is how long a node, or the store, may take to answer.
const answerTimeout = 2 * time.Second

// askAllNodes sends a request to all nodes at once, this one included, and gives each
// answer to f. It does not stop when ctx is cancelled: if a caller revokes a token and
// hangs up, the sessions must end all the same.
func (h *Hub) askAllNodes(ctx context.Context, s bus.Subject, p []byte, f func(reply []byte)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
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

// checkAnswers is given the errors of the nodes that did not answer. If there are other
// nodes, it only logs them: a node that did not answer ends the sessions by itself, see
// revocations.go. But its sessions are not counted.
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
	err = h.askAllNodes(ctx, closeSubject, encode(m), func(r []byte) {
		var c sessionpb.Closed
		if c.UnmarshalVT(r) == nil {
			total += int(c.Sessions)
		}
	})
	return total, h.checkAnswers("close sessions", decodeAccount(m.Account), err)
}

// CloseUser ends every session of a user, on every node that answers, and returns how
// many there were.
//
// The caller must have made the reason durable before. A hello that is under way enters
// the online table and then checks its token again, so it sees the reason. A node that
// does not answer sees it within 5 s. Spec: P-3.5.
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
	return h.close(ctx, &sessionpb.Close{Account: encodeAccount(a), Code: string(code), Device: &sessionpb.Close_Device{Id: device, Below: below}})
}

// SessionsOf counts the sessions of a user by device, on every node that answers. Those
// whose tokens are bound to no device are counted under "".
func (h *Hub) SessionsOf(ctx context.Context, a im.Account) (map[string]int, error) {
	n := map[string]int{}
	err := h.askAllNodes(ctx, countSubject, encode(&sessionpb.Count{Account: encodeAccount(a)}), func(r []byte) {
		var c sessionpb.Counts
		if c.UnmarshalVT(r) == nil {
			for _, d := range c.Devices {
				n[d.Id] += int(d.Sessions)
			}
		}
	})
	if err = h.checkAnswers("count sessions", a, err); err != nil {
		return nil, err
	}
	return n, nil
}

// closeHere ends the sessions of a user on this node for which match returns true, and
// returns how many these are.
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
