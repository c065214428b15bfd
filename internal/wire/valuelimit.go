package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxValues is how many values a request of a user has at most: in JSON its objects and
// lists and what is in them, in protobuf its fields, at any depth. The largest request
// names 1,000 users. A value takes 2 bytes and a decoder some 200 ns, so without a bound
// a frame of 345 KiB would cost 20 ms. Spec: P-2.3, P-12.7.
const MaxValues = 4096

// valueBytes is what a value takes at least.
const valueBytes = 2

// ManyValues reports whether b has more than MaxValues values. It decodes nothing and keeps
// nothing, so it comes before a decoder. m is what b is a message of. Of bytes that are no
// JSON or protobuf, it counts what looks like values.
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
		return false // also with those in texts
	}
	values := 0
	for i := 0; i < len(b) && values <= MaxValues; i++ {
		switch b[i] {
		case ',', '[', '{':
			values++
		case '"':
			n := stringEnd(b[i:])
			if n < 0 {
				return false // a text without an end is the rest
			}
			i += n - 1
		}
	}
	return values > MaxValues
}

// countFields takes the fields of b from left, and returns whether there are no more.
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
