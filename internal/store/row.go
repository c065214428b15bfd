package store

import (
	"encoding/binary"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
)

// Row is one stored entry of a conversation.
type Row struct {
	Seq   im.Seq
	Value []byte // what AppendRowHead wrote, and the wire message
}

// Flags of a row.
const (
	RowKeyed     byte = 1 << iota // the send had no "after", so its commit has a dedupe entry
	RowRewritten                  // an edit or recall has replaced the body
	RowWithheld                   // of a direct conversation: only its sender may read it
	// a placeholder for a row that damage took, so that the seqs of the conversation stay without a hole
	RowLost
	RowRelated      // it answers another entry, or did so before an edit
	RowHides        // the head has Hidden
	RowEditWithheld // only its sender may read its edited text
	RowEdit         // it edits another entry; its text is for those users who may read that entry
)

// RowHead is the private prefix of a row; clients never see it.
type RowHead struct {
	Flags byte
	Pos   im.Pos // of the commit that wrote the row last
	After im.Seq // the head that its sender knew; 0 with RowKeyed
	// Hidden counts, for each of the two users of a direct conversation, the messages up to this one that count
	// as unread and are withheld from that user. The order is that of the users. It is stored with RowHides
	// only.
	Hidden [2]uint64

	MAC uint64 // keyed hash of the first type, body and rel; rewrites keep it
}

// IsLost tells whether a row is a placeholder for one that damage took.
func IsLost(row []byte) bool {
	h, _, err := SplitRow(row)
	return err == nil && h.Flags&RowLost != 0
}

// rowFormat is the first byte of every row.
const rowFormat = 1

// MaxRowHead is the longest encoded head, in bytes.
const MaxRowHead = 2 + 4*binary.MaxVarintLen64 + 8

// AppendRowHead appends the encoded head to b. After it the caller puts the wire message as one field of an
// Events frame: tag, length, Message.
//
//	byte    format (1)
//	byte    flags
//	uvarint pos
//	uvarint after
//	uvarint hidden, twice, with RowHides
//	8 bytes MAC, big endian
func AppendRowHead(b []byte, h RowHead) []byte {
	b = append(b, rowFormat, h.Flags)
	b = binary.AppendUvarint(b, uint64(h.Pos))
	b = binary.AppendUvarint(b, uint64(h.After))
	if h.Flags&RowHides != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, h.Hidden[0]), h.Hidden[1])
	}
	return binary.BigEndian.AppendUint64(b, h.MAC)
}

// SplitRow separates a row's head from its wire part, which shares memory with v. Errors: ErrCorrupt.
func SplitRow(v []byte) (RowHead, []byte, error) {
	if len(v) < 2 || v[0] != rowFormat {
		return RowHead{}, nil, fmt.Errorf("read row head: %w", ErrCorrupt)
	}
	h := RowHead{Flags: v[1]}
	pos, n := binary.Uvarint(v[2:])
	after, m := binary.Uvarint(v[2+max(n, 0):])
	rest := 2 + n + m
	bad := n <= 0 || m <= 0
	for i := 0; h.Flags&RowHides != 0 && i < len(h.Hidden) && !bad; i++ {
		h.Hidden[i], n = binary.Uvarint(v[rest:])
		rest += n
		bad = n <= 0
	}
	if bad || len(v) < rest+8 {
		return RowHead{}, nil, fmt.Errorf("read row head: %w", ErrCorrupt)
	}
	h.Pos, h.After = im.Pos(pos), im.Seq(after)
	h.MAC = binary.BigEndian.Uint64(v[rest:])
	return h, v[rest+8:], nil
}
