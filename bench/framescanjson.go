package bench

import (
	"unsafe"

	"github.com/tidwall/gjson"
)

// scanJSON reads a frame in place, as gjson does: a string points into b unless something in it is escaped. gjson
// also reads broken JSON, so the whole frame is checked first.
func scanJSON(b []byte, f *frame) error {
	s := unsafe.String(unsafe.SliceData(b), len(b)) // b is not written to while f is in use
	if !gjson.Valid(s) {
		return errScan
	}
	gjson.Parse(s).ForEach(func(key, v gjson.Result) bool {
		switch key.Str {
		case "id":
			f.id = v.Uint()
		case "ack":
			f.kind = ackFrame
			v.ForEach(f.ackField)
		case "events":
			f.kind = eventsFrame
			v.ForEach(f.eventsField)
		}
		return true
	})
	return nil
}

func (f *frame) ackField(key, v gjson.Result) bool {
	switch key.Str {
	case "conv":
		f.conv = textOf(v)
	case "seq":
		f.seq = v.Uint()
	}
	return true
}

func (f *frame) eventsField(key, v gjson.Result) bool {
	if key.Str == "messages" {
		v.ForEach(func(_, m gjson.Result) bool {
			var e entry
			m.ForEach(e.field)
			f.entries = append(f.entries, e)
			return true
		})
	}
	return true
}

func (e *entry) field(key, v gjson.Result) bool {
	switch key.Str {
	case "conv":
		e.conv = textOf(v)
	case "seq":
		e.seq = v.Uint()
	case "from":
		e.from = textOf(v)
	case "clientMsgId":
		e.id = textOf(v)
	case "text":
		e.text, e.hasText = textOf(v), true
	}
	return true
}

// textOf returns the bytes of a string without a copy. They must not be changed.
func textOf(v gjson.Result) []byte { return unsafe.Slice(unsafe.StringData(v.Str), len(v.Str)) }
