package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxValues is the largest number of values in a request of a user. In JSON these are the objects, the lists and
// the commas outside of texts, in protobuf the fields, at any depth. The largest request names 1,000 users. A
// value can be as small as 2 bytes, so without a bound a frame of 345 KiB would cost the decoder 20 ms.
// Spec: P-2.3, P-12.7.
const MaxValues = 4096

// valueBytes is the size of the smallest value.
const valueBytes = 2

// ManyValues reports whether b has more than MaxValues values. It decodes and allocates nothing, so it is called
// before the decoder. m describes the message in b. For bytes that are not valid JSON or protobuf the result is a
// guess: the decoder refuses them.
func ManyValues(c Codec, b []byte, m protoreflect.MessageDescriptor) bool {
	if len(b) <= valueBytes*MaxValues {
		return false
	}
	if c == JSON {
		return manyInJSON(b)
	}
	n := MaxValues
	return !countFields(b, m, &n)
}

func manyInJSON(b []byte) bool {
	if bytes.Count(b, []byte{','})+bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= MaxValues {
		return false // not even together with those in texts
	}
	values := 0
	for i := 0; i < len(b) && values <= MaxValues; i++ {
		switch b[i] {
		case ',', '[', '{':
			values++
		case '"':
			n := stringEnd(b[i:])
			if n < 0 {
				return false // the rest is a text without an end
			}
			i += n - 1
		}
	}
	return values > MaxValues
}

// countFields subtracts the number of fields in b from left. It returns false as soon as left is negative. It
// stops counting at bytes that are not valid, and returns true.
func countFields(b []byte, m protoreflect.MessageDescriptor, left *int) bool {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return true
		}
		if *left--; *left < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return true
		}
		if f := m.Fields().ByNumber(num); f != nil && f.Message() != nil && typ == protowire.BytesType {
			if inner, _ := protowire.ConsumeBytes(b); !countFields(inner, f.Message(), left) {
				return false
			}
		}
		b = b[n:]
	}
	return true
}
