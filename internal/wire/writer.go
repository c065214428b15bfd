package wire

import (
	"encoding/base64"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// AppendPage appends the JSON of a page of history or of a sync: both calls and frames have such pages as
// answers. It returns false, and dst, if m is another message, or has a text that is not UTF-8.
func AppendPage(dst []byte, m proto.Message) ([]byte, bool) {
	w := jsonWriter{b: dst}
	switch m := m.(type) {
	case *petrelv1.HistoryPage:
		w.writeHistoryPage(m)
	case *petrelv1.SyncPage:
		w.writeSyncPage(m)
	default:
		return dst, false
	}
	if w.refused {
		return dst, false
	}
	return w.b, true
}

// jsonWriter writes one frame of the server in JSON without reflection, as protojson writes it, but without
// spaces. Its functions for messages are in writer_gen.go.
//
// It refuses a text that is not UTF-8, and fields of the kinds that genjson does not know. Then the caller has to
// discard what it wrote.
type jsonWriter struct {
	b       []byte
	refused bool
}

func (w *jsonWriter) refuse() { w.refused = true }

func (w *jsonWriter) open(bracket byte)  { w.b = append(w.b, bracket) }
func (w *jsonWriter) close(bracket byte) { w.b = append(w.b, bracket) }

// key writes the key of a member. The text of key includes the quotes and the colon. A comma comes before it,
// unless the last byte is the opening bracket: no value ends with that byte.
func (w *jsonWriter) key(key string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, key...)
}

// element writes the comma before an element of a list, except before the first.
func (w *jsonWriter) element() {
	if w.b[len(w.b)-1] != '[' {
		w.b = append(w.b, ',')
	}
}

func (w *jsonWriter) bool(v bool) { w.b = strconv.AppendBool(w.b, v) }

func (w *jsonWriter) number32(v uint32) { w.b = strconv.AppendUint(w.b, uint64(v), 10) }

// number64 writes a text: a number in JavaScript has only 53 exact bits.
func (w *jsonWriter) number64(v uint64) {
	w.b = append(strconv.AppendUint(append(w.b, '"'), v, 10), '"')
}

// enum writes the name of a value, or the number if it has none.
func (w *jsonWriter) enum(v int32, names map[int32]string) {
	if name, ok := names[v]; ok {
		w.text(name)
	} else {
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	}
}

func (w *jsonWriter) bytes(v []byte) {
	w.b = append(base64.StdEncoding.AppendEncode(append(w.b, '"'), v), '"')
}

// longText is a number of bytes. If more of them follow the first escape of a text, text counts the escapes
// before it writes them, which saves time.
const longText = 1 << 10

func (w *jsonWriter) text(s string) {
	b := append(w.b, '"')
	from := 0 // s[:from] is written
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			w.refused = w.refused || r == utf8.RuneError && n == 1
			i += n - 1
			continue
		}
		if from == 0 && len(s)-i > longText { // room for all at once: growing step by step copies it ten times
			b = slices.Grow(b, len(s)+Escapes(s[i:]))
		}
		b = appendEscaped(append(b, s[from:i]...), c)
		from = i + 1
	}
	w.b = append(append(b, s[from:]...), '"')
}

// Escapes returns how many bytes the escapes of JSON add to s.
func Escapes(s string) (n int) {
	for i := 0; i < len(s); i++ {
		n += int(escapes[s[i]])
	}
	return n
}

// escapes has, for each byte, how many bytes its escape adds.
var escapes = func() (n [256]uint8) {
	for c := range byte(' ') {
		n[c] = uint8(len(appendEscaped(nil, c))) - 1
	}
	n['"'], n['\\'] = 1, 1
	return n
}()

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
