package session

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// closeSubject asks a node to end a user's sessions: tenant (4 bytes), length
// of the code (1 byte), code, user. The answer is how many there were.
const closeSubject bus.Subject = "session.close"

// Attach makes the hub reachable for the other nodes. It is called once,
// before the bus runs.
func (h *Hub) Attach(b bus.Bus) {
	h.bus = b
	b.Handle(closeSubject, func(_ im.Node, p []byte) []byte {
		if len(p) < 5 || len(p) < 5+int(p[4]) {
			return nil
		}
		code := im.Code(p[5 : 5+int(p[4])])
		a := im.Account{Tenant: im.Tenant(binary.BigEndian.Uint32(p)), User: im.User(p[5+int(p[4]):])}
		return binary.BigEndian.AppendUint32(nil, uint32(h.closeHere(a, code)))
	})
}

// CloseUser ends every session of a user, on every node, and returns how many
// there were. The caller has made the reason durable before: a login under way
// sees it, since it checks its token again once it is in the online table.
// Spec: P-3.5.
func (h *Hub) CloseUser(ctx context.Context, a im.Account, code im.Code) (int, error) {
	p := binary.BigEndian.AppendUint32(nil, uint32(a.Tenant))
	p = append(append(p, byte(len(code))), code...)
	p = append(p, a.User...)
	total := 0
	for _, n := range append(h.bus.Peers(), h.bus.Self()) {
		r, err := h.bus.Request(ctx, n, closeSubject, p)
		if err != nil {
			return total, fmt.Errorf("close sessions of %s: %w", a, err)
		}
		if len(r) == 4 {
			total += int(binary.BigEndian.Uint32(r))
		}
	}
	return total, nil
}

func (h *Hub) closeHere(a im.Account, code im.Code) int {
	var k fanout.Kicks
	list := h.table.Of(a)
	for _, o := range list {
		o.End(&im.Error{Code: code}, &k)
	}
	k.Flush()
	return len(list)
}
