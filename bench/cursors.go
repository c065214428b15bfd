package bench

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// What people's clients do beside sending and receiving: they are devices that
// have logged in, have a list of conversations, and tell how far they have read.

// cursorTurn is how often a connection tells how far it has read each
// conversation, and cursorSlices into how many steps that is divided, so that
// the connections do not all do it at the same moment. Spec: P-8.6.
const (
	cursorTurn   = time.Second
	cursorSlices = 100
)

// moveCursors has the connections whose turn it is move their cursors.
func (g *generator) moveCursors(now int64) {
	due := uint64(now-g.started) * cursorSlices / uint64(cursorTurn)
	for ; g.cursorStep < due; g.cursorStep++ {
		slice := int(g.cursorStep % cursorSlices)
		for _, v := range g.audit.convs {
			if v.id == "" {
				continue
			}
			if !v.group {
				if to := v.members[1]; to%cursorSlices == slice {
					g.moveCursor(g.conns[to], v)
				}
				continue
			}
			for i := range v.streams {
				if to := v.first + i; to%cursorSlices == slice {
					g.moveCursor(g.conns[to], v)
				}
			}
		}
	}
}

// moveCursor tells what c has of v, as read, if that is more than before.
func (g *generator) moveCursor(c *conn, v *convBook) {
	st := v.stream(c.index)
	if c.fd < 0 || st == nil || st.Next() <= max(1, g.cursorAt[st]+1) {
		return
	}
	g.cursorAt[st] = st.Next() - 1
	g.request(c, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: v.id,
		Read: st.Next() - 1}}})
}

// capabilities are those that the connections of a run offer.
func (p *Params) capabilities() []string {
	switch {
	case p.Receipts:
		return []string{"cursor"}
	case p.Scenario == Presence:
		return []string{"presence"}
	}
	return nil
}

// logInDevices returns a token of a device of each user.
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

// groupSize is how many members the groups of a list of conversations have at
// most.
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
