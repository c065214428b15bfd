package fanout

import "github.com/petrel-im/petrel/internal/im"

// Look is the state of an outbox at a moment, for an operator who looks for a lost event.
type Look struct {
	Pending int  // bytes that are not written, or that the transport holds
	Lagged  bool // the client has to sync, and has not
	Held    bool // no event is written: the session is unconfirmed
	Focused bool // the client gets some conversations whole, and hints of the others
	InFocus bool // it gets the conversation in question whole
	Owed    bool // a hint of that conversation waits
}

// Look returns the state of the outbox. c is the conversation in question.
func (o *Outbox) Look(c im.ConvID) Look {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := Look{
		Pending: o.waitingLocked(), Lagged: o.lagged, Held: o.unconfirmedLocked(), Focused: o.focus != nil &&
			o.focus.convs != nil,
		InFocus: o.focus.has(c),
	}
	if o.focus != nil {
		_, l.Owed = o.focus.owed[c]
	}
	return l
}

// NodesOf returns the other nodes at which a user is online, as far as this one knows.
func (n *Nodes) NodesOf(t *Table, a im.Account) (list []im.Node) {
	at := n.online.nodesOf(t.hash(a))
	for id, p := range *n.nodes.Load() {
		if i := p.index.Load(); i >= 0 && at&(1<<i) != 0 {
			list = append(list, id)
		}
	}
	return list
}
