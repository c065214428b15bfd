package fanout

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxHints is how many conversations one outbox can owe a hint of; with a
// further one the client has to sync.
const MaxHints = 1024

// hint says how far a conversation has moved.
type hint struct {
	conv    im.ConvID
	head    uint64
	counted uint64 // at head
}

// focus is what a client wants whole, and what it is owed of the rest. An
// outbox has none while its client wants everything and takes it in time.
// Guarded by Outbox.mu.
type focus struct {
	request uint64             // number of the last one applied
	convs   map[im.ConvID]bool // nil: all
	hints   map[im.ConvID]hint // not encoded yet: a later one replaces an earlier one
}

func (f *focus) has(id im.ConvID) bool { return f == nil || f.convs == nil || f.convs[id] }

// Focus makes convs, nil meaning all, the conversations that are pushed whole,
// and returns those that were not before. Their hints are dropped: the caller
// reads their heads behind this, never before. Of several requests the one with
// the highest number counts; an older one changes nothing. Spec: P-6.5.
func (o *Outbox) Focus(request uint64, convs map[im.ConvID]bool) (fresh []im.ConvID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.focus == nil {
		o.focus = &focus{}
	}
	f := o.focus
	if request <= f.request {
		return nil
	}
	for id := range convs {
		if f.convs == nil || !f.convs[id] {
			fresh = append(fresh, id)
			delete(f.hints, id)
		}
	}
	f.request, f.convs = request, convs
	return fresh
}

// Lag has the client sync: it was not told what it has to know. One that is not
// welcomed yet reads all that later.
func (o *Outbox) Lag(k *Kicks) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed && o.end == nil && !o.lagged && !o.quiet {
		o.lagLocked(k)
	}
}

// pushOrHint adds the encoded events of the delivery at hand, or, if their
// conversation is out of focus or they do not fit, a hint in their place. What
// they are about is looked up only then. Entries of an inbox are never told by
// a hint: without room for them the client has to sync.
func (o *Outbox) pushOrHint(f *Fan, b []byte, shared bool, k *Kicks) (pushed, hinted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deafLocked(k) {
		return false, false
	}
	if (o.focus == nil || o.focus.convs == nil) && o.roomLocked(len(b)) {
		o.addLocked(b, shared)
		o.markLocked(k)
		return true, false
	}
	h := f.hint()
	inbox := h.conv.Kind() == im.Inbox
	switch {
	case (inbox || o.focus.has(h.conv)) && o.roomLocked(len(b)):
		o.addLocked(b, shared)
		o.markLocked(k)
		return true, false
	case inbox:
		o.lagLocked(k)
		return false, false
	}
	return false, o.hintLocked(h, k)
}

func (o *Outbox) hintLocked(h hint, k *Kicks) bool {
	if o.focus == nil {
		o.focus = &focus{}
	}
	f := o.focus
	if _, owed := f.hints[h.conv]; !owed && len(f.hints) >= MaxHints {
		o.lagLocked(k)
		return false
	}
	if f.hints == nil {
		f.hints = map[im.ConvID]hint{}
	}
	f.hints[h.conv] = h
	o.markLocked(k)
	return true
}

// hintsDueLocked tells whether hints are owed that may be written now: a
// client that is behind gets them when it has taken half of what waits, as the
// conversations are then.
func (o *Outbox) hintsDueLocked() bool {
	return o.focus != nil && len(o.focus.hints) > 0 && o.end == nil && !o.closed &&
		(o.limit < 0 || len(o.pend)+len(o.ref)+o.backlog <= o.limit/2)
}

// writeHintsLocked encodes the hints that are owed.
func (o *Outbox) writeHintsLocked() {
	if o.heldLocked() {
		o.lagged, o.focus.hints = true, nil
		o.appendLocked(laggedFrame)
		return
	}
	e := &petrelv1.Events{Hints: make([]*petrelv1.Hint, 0, len(o.focus.hints))}
	for _, h := range o.focus.hints {
		e.Hints = append(e.Hints, &petrelv1.Hint{Conv: h.conv.String(), Head: h.head, Counted: h.counted})
	}
	o.focus.hints = nil
	o.appendLocked(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: e}})
}

// hint is about the newest entry of the delivery at hand.
func (f *Fan) hint() hint {
	if f.newest.head > 0 {
		return f.newest
	}
	var m petrelv1.Message
	for i := len(f.items) - 1; i >= 0; i-- {
		if row := f.items[i].Row; row != nil {
			err := wire.ParseMessage(row, &m)
			im.Assert(err == nil, "an entry that was written does not parse")
			break
		}
	}
	id, err := im.ParseConvID(m.Conv)
	im.Assert(err == nil, "an entry that was written names no conversation")
	f.newest = hint{id, m.Seq, m.Counted}
	return f.newest
}
