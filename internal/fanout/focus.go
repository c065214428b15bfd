package fanout

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// focus holds the conversations that a client wants whole, and the owed hints for the others. It is nil until
// the client names its focus or is owed a hint. Guarded by Outbox.mu.
type focus struct {
	request uint64             // number of the newest request that was applied
	convs   map[im.ConvID]bool // nil: all
	// owed has the hints that are not encoded yet, one for each conversation: the highest head and the highest
	// mention
	owed map[im.ConvID]hint
}

// has returns whether a client wants a conversation whole.
func (f *focus) has(id im.ConvID) bool { return f == nil || f.convs == nil || f.convs[id] }

// set makes convs the focus, and returns those of convs that the former focus did
// not name. The owed hints of these are dropped, because the caller reads their
// heads. A request with a lower number than an applied one changes nothing.
func (f *focus) set(request uint64, convs map[im.ConvID]bool) (added []im.ConvID) {
	if request <= f.request {
		return nil
	}
	for id := range convs {
		if f.convs == nil || !f.convs[id] {
			added = append(added, id)
			delete(f.owed, id)
		}
	}
	f.request, f.convs = request, convs
	return added
}

// owe notes a hint. Of the noted hint of the same conversation, if any, it keeps the higher head and the higher
// mention: the hints of another node may come in any order. It returns false if too many are owed already.
func (f *focus) owe(h hint) bool {
	old, replaces := f.owed[h.conv]
	if !replaces && len(f.owed) >= MaxHints {
		return false
	}
	if h.mention = max(h.mention, old.mention); h.head < old.head {
		h.head, h.counted = old.head, old.counted
	}
	if f.owed == nil {
		f.owed = map[im.ConvID]hint{}
	}
	f.owed[h.conv] = h
	return true
}

// takeOwed returns the frame with all hints that are owed, and forgets them.
func (f *focus) takeOwed() *petrelv1.ServerFrame {
	e := &petrelv1.Events{Hints: make([]*petrelv1.Hint, 0, len(f.owed))}
	for _, h := range f.owed {
		e.Hints = append(e.Hints, &petrelv1.Hint{Conv: h.conv.String(), Head: h.head, Counted: h.counted,
			MentionSeq: h.mention})
	}
	f.owed = nil
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: e}}
}

// Focus makes convs the conversations whose entries the client gets whole; nil means all conversations.
// It returns those of convs that the former focus did not name.
//
// The owed hints of these are dropped. So the caller must read their heads after this call: an entry that
// is committed between an earlier read and this call would be in no head and in no hint.
//
// Requests are numbered in the order in which the client made them. A request with a lower number than
// one that was applied changes nothing. Spec: P-6.5.
func (o *Outbox) Focus(request uint64, convs map[im.ConvID]bool) (added []im.ConvID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.focus == nil {
		o.focus = &focus{}
	}
	return o.focus.set(request, convs)
}

// pushOrHintLocked adds the encoded entries of one delivery. If their conversation is out of focus, or they do
// not fit, it adds a hint instead. Out of focus, a client with the capability mentions also gets the entries
// that mention the user, if there is room. If the newest entry is one of them, there is no hint. An entry of an
// inbox never becomes a hint: if there is no room for it, the client has to sync.
func (o *Outbox) pushOrHintLocked(b []byte, newest *newestRow, named *namedRows, shared bool,
	k *WakeUps) (pushed, hinted bool) {
	h := newest.hint()
	inbox := policy.Of(h.conv.Kind()).List
	switch {
	case (inbox || o.focus.has(h.conv)) && o.roomLocked(len(b)):
		o.addLocked(b, shared)
		o.markLocked(k)
		return true, false
	case inbox:
		o.lagLocked(k)
		return false, false
	}
	if named != nil && o.Mentions {
		h.mention = named.newest
		if alone := named.encode(o.enc); !o.focus.has(h.conv) && o.roomLocked(len(alone)) {
			o.addLocked(alone, true)
			if named.newest == h.head { // the pushed entry takes the place of the hint
				o.markLocked(k)
				return true, false
			}
			h.mention = 0
		}
	}
	return false, o.oweLocked(h, k)
}

// pushHint adds a hint. If the client cannot take it, it queues `lagged` instead. It returns false if it adds
// no hint: the client has to sync, has no welcome yet, or its connection ends.
func (o *Outbox) pushHint(h hint, k *WakeUps) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.takesNoEventsLocked(k):
		return false
	case !o.Hints || policy.Of(h.conv.Kind()).List:
		o.lagLocked(k)
		return false
	case !o.Mentions:
		h.mention = 0
	}
	return o.oweLocked(h, k)
}

func (o *Outbox) oweLocked(h hint, k *WakeUps) bool {
	if o.focus == nil {
		o.focus = &focus{}
	}
	if !o.focus.owe(h) {
		o.lagLocked(k)
		return false
	}
	o.markLocked(k)
	return true
}
