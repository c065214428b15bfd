package wire

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// jsonExpansion is the largest number of bytes that one byte of a body takes in a frame. In a send, JSON
	// writes a control character as \u0001. A call has its JSON in a text, where this is \\u0001. The base64 of
	// data takes only 4 bytes for 3.
	jsonExpansion = 7

	// envelope is the room for all but the body, in bytes: ids, the type and the names of JSON take 1.5 KiB at
	// most, even if every character is escaped, and the users that a message mentions 3.5 KiB.
	envelope = 8 << 10

	// minFrameLimit is room for the largest other requests, in bytes. A focus names up to
	// 1,000 conversations.
	minFrameLimit = 64 << 10
)

// FrameLimit returns the limit for the frames of clients, in bytes, if a body has at most bodyBytes bytes. Every
// such body fits, in each codec and with every escape that JSON has. -1 means no limit, as does a negative
// bodyBytes. Spec: P-2.5.
func FrameLimit(bodyBytes int) int {
	if bodyBytes < 0 {
		return -1
	}
	return max(minFrameLimit, jsonExpansion*bodyBytes+envelope)
}

// IDOf returns the id of a frame that Decode has refused. With the id the server can answer the frame, so one bad
// frame need not end the connection. It returns 0 if there is no id to answer: the frame is not one JSON object
// or not one protobuf message, it has no id, or its JSON has two different ids. Of several ids in protobuf the
// last one counts. IDOf does not decode the other fields, so it takes any depth of nesting. Spec: P-2.3.
func IDOf(c Codec, b []byte) uint64 {
	if c == JSON {
		return idOfJSON(b)
	}
	return idOfProto(b)
}

func idOfProto(b []byte) (id uint64) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return 0
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return 0
		}
		if num == 1 && typ == protowire.VarintType {
			id, _ = protowire.ConsumeVarint(b)
		}
		b = b[n:]
	}
	return id
}

// idOfJSON finds the id by strings, commas and brackets only.
func idOfJSON(b []byte) (id uint64) {
	depth := 0
	key, value := false, false // the next string at depth 1 is a key; the next value is that of "id"
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ':':
			i++
			continue
		case depth == 0 && c != '{':
			return 0 // it does not begin as an object
		case c == '{' || c == '[':
			depth++
			key = depth == 1
			value = false
			i++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return idIfLast(id, b[i+1:])
			}
			i++
		case c == ',':
			key, value = depth == 1, false
			i++
		case c == '"':
			n := stringEnd(b[i:])
			if n < 0 {
				return 0
			}
			text := b[i+1 : i+n-1]
			i += n
			switch {
			case key && depth == 1:
				key, value = false, string(text) == "id"
			case value:
				if id = sameID(id, text); id == 0 {
					return 0
				}
			}
		default: // a number, or no JSON at all
			n := 1
			for i+n < len(b) && b[i+n] > ' ' && b[i+n] != ',' && b[i+n] != '}' && b[i+n] != ']' && b[i+n] != '"' {
				n++
			}
			if value {
				if id = sameID(id, b[i:i+n]); id == 0 {
					return 0
				}
			}
			i += n
		}
	}
	return 0
}

// idIfLast returns id if nothing but white space follows the object.
func idIfLast(id uint64, rest []byte) uint64 {
	for _, c := range rest {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return 0
		}
	}
	return id
}

// sameID reads an id. It returns 0 if text is no number, or if the frame has had another id before.
func sameID(before uint64, text []byte) uint64 {
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || before != 0 && before != id {
		return 0
	}
	return id
}

// stringEnd returns the length of the string at the beginning of b, with both quotes; -1: it does not end.
func stringEnd(b []byte) int {
	if n := textEnd(b[1:]); n >= 0 {
		return n + 1
	}
	return -1
}

// textEnd returns the length of the text at the beginning of b, with the quote that ends it; -1: it does not end.
func textEnd[T string | []byte](b T) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}
