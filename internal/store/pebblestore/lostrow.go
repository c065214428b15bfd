package pebblestore

import (
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// lostRow makes a placeholder for a row that damage took. before is the row before it, nil if there is none:
// the placeholder takes over its unread counts. Spec: P-5.7.
func lostRow(c im.ConvID, q im.Seq, before []byte, pos im.Pos) []byte {
	h, sent, _ := store.SplitRow(before) // without a row before, nothing is hidden
	var m petrelv1.Message
	_ = wire.ParseMessage(sent, &m) // a message that cannot be read counts as 0
	b := store.AppendRowHead(nil, store.RowHead{Flags: store.RowLost | h.Flags&store.RowHides, Pos: pos,
		Hidden: h.Hidden})
	return wire.AppendMessage(b, &petrelv1.Message{Conv: c.String(), Seq: uint64(q), Counted: m.Counted, Lost: true})
}
