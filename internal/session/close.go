package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// What a node asks another one about a user's sessions. The request begins with
// tenant (4 bytes), length of the user (1 byte) and user.
const (
	// closeSubject asks to end all of them. The code follows; the answer is how
	// many there were (4 bytes).
	closeSubject bus.Subject = "session.close"

	// closeDeviceSubject asks to end those of a device whose login has a number
	// below a bound: bound (8 bytes), length of the code (1 byte), code, device.
	// The answer is as above.
	closeDeviceSubject bus.Subject = "session.close_device"

	// countSubject asks how many each device has. The answer is, for each:
	// number (4 bytes), length of the device (1 byte), device.
	countSubject bus.Subject = "session.count"
)

// Attach makes the hub reachable for the other nodes. It is called once,
// before the bus runs.
func (h *Hub) Attach(b bus.Bus) {
	h.bus = b
	b.Handle(closeSubject, bus.Answering(func(_ im.Node, p []byte) []byte {
		a, code, ok := cutAccount(p)
		if !ok {
			return nil
		}
		return binary.BigEndian.AppendUint32(nil, uint32(h.closeHere(a, im.Code(code), func(*fanout.Outbox) bool { return true })))
	}))
	b.Handle(closeDeviceSubject, bus.Answering(func(_ im.Node, p []byte) []byte {
		a, p, ok := cutAccount(p)
		if !ok || len(p) < 9 || len(p) < 9+int(p[8]) {
			return nil
		}
		below, code, device := binary.BigEndian.Uint64(p), im.Code(p[9:9+int(p[8])]), string(p[9+int(p[8]):])
		return binary.BigEndian.AppendUint32(nil, uint32(h.closeHere(a, code, func(o *fanout.Outbox) bool { return o.Device == device && o.Login < below })))
	}))
	b.Handle(countSubject, bus.Answering(func(_ im.Node, p []byte) (reply []byte) {
		a, _, ok := cutAccount(p)
		if !ok {
			return nil
		}
		n := map[string]uint32{}
		for _, o := range h.table.Of(a) {
			n[o.Device]++
		}
		for device, n := range n {
			reply = append(append(binary.BigEndian.AppendUint32(reply, n), byte(len(device))), device...)
		}
		return reply
	}))
}

func appendAccount(a im.Account) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(a.Tenant))
	return append(append(p, byte(len(a.User))), a.User...)
}

func cutAccount(p []byte) (a im.Account, rest []byte, ok bool) {
	if len(p) < 5 || len(p) < 5+int(p[4]) {
		return im.Account{}, nil, false
	}
	n := 5 + int(p[4])
	return im.Account{Tenant: im.Tenant(binary.BigEndian.Uint32(p)), User: im.User(p[5:n])}, p[n:], true
}

// askTime is how long a node may take to answer.
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

// sum adds up answers that are numbers.
func sum(total *int) func([]byte) {
	return func(r []byte) {
		if len(r) == 4 {
			*total += int(binary.BigEndian.Uint32(r))
		}
	}
}

// CloseUser ends every session of a user, on every node, and returns how many
// there were; with an error, on the nodes that answered. The caller has made the reason durable before: a login under way
// sees it, since it checks its token again once it is in the online table.
// Spec: P-3.5.
func (h *Hub) CloseUser(ctx context.Context, a im.Account, code im.Code) (int, error) {
	ctx = context.WithoutCancel(ctx) // see CloseDevice
	total := 0
	if err := h.everywhere(ctx, closeSubject, append(appendAccount(a), code...), sum(&total)); err != nil {
		return total, fmt.Errorf("close sessions of %s: %w", a, err)
	}
	return total, nil
}

// CloseDevice ends the sessions of a device, on every node, and returns how many
// there were; with an error, on the nodes that answered. As with CloseUser the reason is durable before; what it leaves
// valid stays: a device that has logged in again meanwhile keeps the sessions of
// that login, so it does not matter how late a call comes. Device "" stands for
// the sessions whose tokens are bound to none. Spec: P-11.4.
func (h *Hub) CloseDevice(ctx context.Context, a im.Account, device string, code im.Code) (int, error) {
	// Who revokes may have gone away: the session ends all the same. Nodes are
	// waited for only so long.
	ctx = context.WithoutCancel(ctx)
	below := uint64(math.MaxUint64)
	if device != "" {
		var err error
		if below, err = h.users.VoidBelow(ctx, a, device); err != nil {
			return 0, err
		}
	}
	p := binary.BigEndian.AppendUint64(appendAccount(a), below)
	p = append(append(append(p, byte(len(code))), code...), device...)
	total := 0
	if err := h.everywhere(ctx, closeDeviceSubject, p, sum(&total)); err != nil {
		return total, fmt.Errorf("close sessions of device %s of %s: %w", device, a, err)
	}
	return total, nil
}

// SessionsOf counts the sessions of a user by device, on every node; those whose
// tokens are bound to no device stand under "".
func (h *Hub) SessionsOf(ctx context.Context, a im.Account) (map[string]int, error) {
	n := map[string]int{}
	err := h.everywhere(ctx, countSubject, appendAccount(a), func(r []byte) {
		for len(r) >= 5 && len(r) >= 5+int(r[4]) {
			end := 5 + int(r[4])
			n[string(r[5:end])] += int(binary.BigEndian.Uint32(r))
			r = r[end:]
		}
	})
	if err != nil {
		return nil, fmt.Errorf("count sessions of %s: %w", a, err)
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
