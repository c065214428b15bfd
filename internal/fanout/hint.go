package fanout

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxHints is how many hints one outbox can owe, one for each conversation. If a
// hint for a further conversation is due, the client has to sync.
const MaxHints = 1024

// hint tells a client the newest head of a conversation.
type hint struct {
	conv    im.ConvID
	head    uint64
	counted uint64 // of the entries up to head
	mention uint64 // seq of the newest entry that mentions the user and was not pushed; 0: none
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
