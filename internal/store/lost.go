package store

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/im"
)

// The fields of petrel.v1.Message that a lost row has or is made from.
const (
	fieldConv    = 1
	fieldSeq     = 2
	fieldFrom    = 3
	fieldCounted = 6
	fieldLost    = 20
)

// fieldMessages is the field of petrel.v1.Events that a row is a part of.
const fieldMessages = 1

// LostRow is a row in the place of one that damage took. before is a row before it, nil if
// there is none: what counts as unread stays as it was there. Spec: P-5.7.
func LostRow(c im.ConvID, q im.Seq, before []byte, pos im.Pos) []byte {
	counted := Counted(before)
	var m []byte
	m = protowire.AppendTag(m, fieldConv, protowire.BytesType)
	m = protowire.AppendString(m, c.String())
	m = protowire.AppendTag(m, fieldSeq, protowire.VarintType)
	m = protowire.AppendVarint(m, uint64(q))
	if counted > 0 {
		m = protowire.AppendTag(m, fieldCounted, protowire.VarintType)
		m = protowire.AppendVarint(m, counted)
	}
	m = protowire.AppendTag(m, fieldLost, protowire.VarintType)
	m = protowire.AppendVarint(m, 1)
	h, _, _ := SplitRow(before) // without one it has hidden nothing
	b := AppendRowHead(nil, RowHead{Flags: RowLost | h.Flags&RowHides, Pos: pos, Hidden: h.Hidden})
	b = protowire.AppendTag(b, fieldMessages, protowire.BytesType)
	return protowire.AppendBytes(b, m)
}

// IsLost tells whether a row stands in the place of one that damage took.
func IsLost(row []byte) bool {
	h, _, err := SplitRow(row)
	return err == nil && h.Flags&RowLost != 0
}

// Counted is the field counted of a row; 0 if it cannot be read.
func Counted(row []byte) (counted uint64) {
	counted, _ = protowire.ConsumeVarint(field(row, fieldCounted, protowire.VarintType))
	return counted
}

// Sender is the user who sent the entry of a row; empty for the server itself, or if it
// cannot be read. It shares the memory of row.
func Sender(row []byte) []byte {
	from, _ := protowire.ConsumeBytes(field(row, fieldFrom, protowire.BytesType))
	return from
}

// field is the value of a field of the message in a row, nil if it has none.
func field(row []byte, number protowire.Number, as protowire.Type) []byte {
	_, wire, err := SplitRow(row)
	if err != nil {
		return nil
	}
	_, _, n := protowire.ConsumeTag(wire)
	if n < 0 {
		return nil
	}
	m, size := protowire.ConsumeBytes(wire[n:])
	if size < 0 {
		return nil
	}
	for len(m) > 0 {
		f, t, n := protowire.ConsumeTag(m)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(f, t, m[n:])
		if size < 0 {
			return nil
		}
		if f == number && t == as {
			return m[n : n+size]
		}
		m = m[n+size:]
	}
	return nil
}
