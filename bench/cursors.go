package bench

import (
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

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
