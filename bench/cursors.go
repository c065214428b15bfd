package bench

import (
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// cursorTurn is the interval at which a connection sends its read cursors. cursorSlices is the number of steps of
// that interval; in each step other connections send, so that they do not all send at the same moment. Spec:
// P-8.6.
const (
	cursorTurn   = time.Second
	cursorSlices = 100
)

// moveCursors moves the cursors of the connections whose step of cursorTurn has come: of the receivers of direct
// conversations, and of all members of groups.
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

// moveCursor moves the read cursor of c in v to the newest entry that c has got. Without an entry above the last cursor
// it does nothing.
func (g *generator) moveCursor(c *conn, v *convBook) {
	st := v.stream(c.index)
	if c.fd < 0 || st == nil || st.Next() <= max(1, g.cursorAt[st]+1) {
		return
	}
	g.cursorAt[st] = st.Next() - 1
	g.request(c, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Cursor{Cursor: &petrelv1.MoveCursor{Conv: v.id,
		Read: st.Next() - 1}}})
}

// capabilities returns the capabilities that the connections of a run offer.
func (p *Params) capabilities() []string {
	switch {
	case p.Receipts:
		return []string{"cursor"}
	case p.Scenario == Presence:
		return []string{"presence"}
	}
	return nil
}
