package bench

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/wire"
)

// Acks and events come once for every message. So scan reads them in place, and only the parts that the audit
// needs: the slices of a result point into the frame, except JSON strings with escapes. decodeServerFrame reads all
// other frames, and in the scenario Presence events too.

type frameKind uint8

const (
	otherFrame frameKind = iota
	ackFrame
	eventsFrame
)

// frame is the scanned part of a server frame.
type frame struct {
	kind     frameKind
	id       uint64
	conv     []byte  // of an ack to a send that named a user
	seq      uint64  // of an ack
	messages []byte  // of events in protobuf: those that next has not read yet
	entries  []entry // of events in JSON: those that next has not returned yet
}

// entry is one message of an Events frame or of a history page.
type entry struct {
	conv, from, id, text []byte
	seq                  uint64
	hasText              bool
}

var errScan = errors.New("server frame cannot be read")

// scan reads a server frame into f. A frame that is neither an ack nor events is otherFrame.
func scan(c wire.Codec, b []byte, f *frame) error {
	*f = frame{}
	if c == wire.JSON {
		return scanJSON(b, f)
	}
	return scanProto(b, f)
}

// next reads the next message of events into e; false: there is none left.
func (f *frame) next(c wire.Codec, e *entry) (more bool, err error) {
	*e = entry{}
	if c == wire.JSON {
		if len(f.entries) == 0 {
			return false, nil
		}
		*e, f.entries = f.entries[0], f.entries[1:]
		return true, nil
	}
	f.messages, more, err = nextProto(f.messages, e)
	return more, err
}

// field reads one protobuf field: a varint into v, or length-delimited bytes into content. num is -1 for other
// types.
func field(b []byte) (num int, v uint64, content, rest []byte, ok bool) {
	tag, n := uvarint(b)
	if n <= 0 {
		return 0, 0, nil, nil, false
	}
	b = b[n:]
	num = int(tag >> 3)
	switch tag & 7 {
	case 0:
		v, n = uvarint(b)
		if n <= 0 {
			return 0, 0, nil, nil, false
		}
		return num, v, nil, b[n:], true
	case 2:
		size, n := uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return 0, 0, nil, nil, false
		}
		end := n + int(size)
		return num, 0, b[n:end], b[end:], true
	}
	n = protowire.ConsumeFieldValue(protowire.Number(num), protowire.Type(tag&7), b)
	if n < 0 || num <= 0 {
		return 0, 0, nil, nil, false
	}
	return -1, 0, nil, b[n:], true // a type that no field read here has
}

// uvarint is protowire.ConsumeVarint with a shorter path for one byte.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

func scanProto(b []byte, f *frame) error {
	for len(b) > 0 {
		num, v, content, rest, ok := field(b)
		if !ok {
			return errScan
		}
		b = rest
		switch {
		case num == 1:
			f.id = v
		case num == 3 && content != nil:
			f.kind = ackFrame
			if !scanAckProto(content, f) {
				return errScan
			}
		case num == 5 && content != nil:
			f.kind = eventsFrame
			f.messages = content
		}
	}
	return nil
}

func scanAckProto(b []byte, f *frame) bool {
	for len(b) > 0 {
		num, v, content, rest, ok := field(b)
		if !ok {
			return false
		}
		b = rest
		switch num {
		case 1:
			f.conv = content
		case 2:
			f.seq = v
		}
	}
	return true
}

func nextProto(b []byte, e *entry) ([]byte, bool, error) {
	for len(b) > 0 {
		num, _, content, rest, ok := field(b)
		if !ok {
			return nil, false, errScan
		}
		b = rest
		if num != 1 || content == nil {
			continue // not a message: hints, receipts, presences
		}
		if !scanEntryProto(content, e) {
			return nil, false, errScan
		}
		return b, true, nil
	}
	return nil, false, nil
}

func scanEntryProto(b []byte, e *entry) bool {
	for len(b) > 0 {
		num, v, content, rest, ok := field(b)
		if !ok {
			return false
		}
		b = rest
		switch num {
		case 1:
			e.conv = content
		case 2:
			e.seq = v
		case 3:
			e.from = content
		case 4:
			e.id = content
		case 8:
			e.text, e.hasText = content, true
		}
	}
	return true
}
