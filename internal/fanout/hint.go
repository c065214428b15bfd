package fanout

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxHints is how many hints one outbox can owe, one for each conversation. If a
// hint for a further conversation is due, the client has to sync.
const MaxHints = 1024

// hint says how far a conversation has moved.
type hint struct {
	conv    im.ConvID
	head    uint64
	counted uint64 // of the entries up to head
	mention uint64 // seq of the newest entry that names the user and is not pushed; 0: none
}

// newestRow is the newest row of one delivery. Most deliveries need no hint, so
// the row is parsed only when the first one is needed.
type newestRow struct {
	row    []byte // the wire part
	parsed hint   // head 0: not parsed yet
}

func (n *newestRow) hint() hint {
	if n.parsed.head > 0 {
		return n.parsed
	}
	var m petrelv1.Message
	err := wire.ParseMessage(n.row, &m)
	im.Assert(err == nil, "a stored entry does not parse")
	id, err := im.ParseConvID(m.Conv)
	im.Assert(err == nil, "a stored entry names no conversation")
	n.parsed = hint{conv: id, head: m.Seq, counted: m.Counted}
	return n.parsed
}

// focus is which conversations a client wants whole, and which hints it is owed
// for the others. An outbox has no focus while its client wants everything and
// has room for it. Guarded by Outbox.mu.
type focus struct {
	request uint64             // number of the newest request that was applied
	convs   map[im.ConvID]bool // nil: all
	// hints that are not encoded yet: a later one replaces an earlier one, but for its mention
	owed map[im.ConvID]hint
}

// has reports whether a client wants a conversation whole.
func (f *focus) has(id im.ConvID) bool { return f == nil || f.convs == nil || f.convs[id] }

// set makes convs the focus, and returns those that were not in it before. The
// hints that were owed for these are dropped: the caller reads their heads.
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

// owe notes a hint. It returns false if too many are owed already. Another node may send
// hints of one conversation in any order.
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
