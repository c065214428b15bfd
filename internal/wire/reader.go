package wire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// jsonReader reads one frame of a client in JSON without reflection. Its functions for messages are in
// reader_gen.go.
//
// It accepts only what clients usually write: no unknown keys, no escapes in keys, no exponents. It refuses
// everything else and leaves the frame to protojson, whose error also says what is wrong. So one rule holds:
// protojson accepts each frame that the reader accepts, and reads the same from it.
//
// The texts that it returns share the memory of s, except those with escapes.
type jsonReader struct {
	s       string // valid UTF-8; empty after a refusal
	i       int    // everything before s[i] is read
	refused bool
}

// readJSON reads a frame into f, which must be empty. If it returns false, f has to
// be read in another way.
func readJSON(s string, f *petrelv1.ClientFrame) bool {
	r := jsonReader{s: s}
	r.readClientFrame(f)
	r.space()
	return !r.refused && r.i == len(r.s)
}

// refuse leaves the frame to protojson. Nothing is left to read, so all loops end.
func (r *jsonReader) refuse() { *r = jsonReader{refused: true} }

func (r *jsonReader) space() {
	for r.i < len(r.s) && (r.s[r.i] == ' ' || r.s[r.i] == '\n' || r.s[r.i] == '\r' || r.s[r.i] == '\t') {
		r.i++
	}
}

// next reads c if it is the next byte, and reports whether it is. It skips no white space.
func (r *jsonReader) next(c byte) bool {
	if r.i == len(r.s) || r.s[r.i] != c {
		return false
	}
	r.i++
	return true
}

// skip skips white space, reads c if it is next, and reports whether it is.
func (r *jsonReader) skip(c byte) bool {
	r.space()
	return r.next(c)
}

// skipWord skips white space, reads word if it is next, and reports whether it is. It does not check the byte
// after the word: nextMember and nextElement refuse all but a comma or a bracket.
func (r *jsonReader) skipWord(word string) bool {
	r.space()
	if !strings.HasPrefix(r.s[r.i:], word) {
		return false
	}
	r.i += len(word)
	return true
}

// expect is skip for a byte without which the frame is refused.
func (r *jsonReader) expect(c byte) {
	if !r.skip(c) {
		r.refuse()
	}
}

// firstMember reads the beginning of an object, up to the first value. It returns the key of that value, or false
// if the object is empty.
func (r *jsonReader) firstMember() (key string, ok bool) {
	r.expect('{')
	if r.skip('}') {
		return "", false
	}
	return r.key()
}

// nextMember returns the key of the next member, or false after the last one.
func (r *jsonReader) nextMember() (key string, ok bool) {
	if r.skip(',') {
		return r.key()
	}
	r.expect('}')
	return "", false
}

func (r *jsonReader) key() (key string, ok bool) {
	r.expect('"')
	from := r.i
	for r.i < len(r.s) && r.s[r.i] > ' ' && r.s[r.i] != '"' && r.s[r.i] != '\\' {
		r.i++
	}
	key = r.s[from:r.i]
	if !r.next('"') || !r.skip(':') {
		r.refuse()
	}
	return key, !r.refused
}

// value is called after the key of a member. It reports whether a value follows, and not null. seen has the bits
// of all fields and oneofs of the object that have been read, field is the bit of this field, and oneof that of
// its oneof, or 0. A field may be null, but neither it nor its oneof may come twice.
func (r *jsonReader) value(seen *uint64, field, oneof uint64) bool {
	again := *seen&field != 0
	*seen |= field
	if !again && r.skipWord("null") {
		return false
	}
	if again || *seen&oneof != 0 {
		r.refuse()
		return false
	}
	*seen |= oneof
	return true
}

// firstElement begins a list. It returns whether there is an element to read.
func (r *jsonReader) firstElement() bool {
	r.expect('[')
	return !r.skip(']') && !r.refused
}

// nextElement returns whether there is another element to read.
func (r *jsonReader) nextElement() bool {
	if r.skip(',') {
		return true
	}
	r.expect(']')
	return false
}

func (r *jsonReader) bool() bool {
	if r.skipWord("true") {
		return true
	}
	if !r.skipWord("false") {
		r.refuse()
	}
	return false
}

// number reads digits, which may be in quotes.
func (r *jsonReader) number(bits int) uint64 {
	quoted := r.skip('"')
	from := r.i
	for r.i < len(r.s) && '0' <= r.s[r.i] && r.s[r.i] <= '9' {
		r.i++
	}
	digits := r.s[from:r.i]
	v, err := strconv.ParseUint(digits, 10, bits)
	if err != nil || len(digits) > 1 && digits[0] == '0' || quoted && !r.next('"') {
		r.refuse()
	}
	return v
}

// bytes reads base64 of either alphabet, with padding or without it.
func (r *jsonReader) bytes() []byte {
	s := r.text()
	enc := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.URLEncoding
	}
	if len(s)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	b, err := enc.DecodeString(s)
	if err != nil {
		r.refuse()
	}
	return b
}

func (r *jsonReader) text() string {
	r.expect('"')
	s, from := r.s, r.i
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			r.i = i + 1
			return s[from:i]
		case c == '\\':
			r.i = i
			return r.escapedText(s[from:i])
		case c < ' ':
			r.refuse()
			return ""
		}
	}
	r.refuse()
	return ""
}

// escapedText reads the rest of a text whose first escape is at r.i. before is the text in front of it.
func (r *jsonReader) escapedText(before string) string {
	n := textEnd(r.s[r.i:])
	if n < 0 {
		r.refuse()
		return ""
	}
	rest := r.s[r.i : r.i+n-1]
	var out strings.Builder
	out.Grow(len(before) + len(rest))
	out.WriteString(before)
	for i := 0; i < len(rest); {
		switch c := rest[i]; {
		case c < ' ':
			r.refuse()
			return ""
		case c != '\\':
			from := i
			for i < len(rest) && rest[i] >= ' ' && rest[i] != '\\' {
				i++
			}
			out.WriteString(rest[from:i])
		default:
			c, n := escaped(rest[i:])
			if n == 0 {
				r.refuse()
				return ""
			}
			out.WriteRune(c)
			i += n
		}
	}
	r.i += n
	if out.Len() < out.Cap()/2 {
		return strings.Clone(out.String()) // the escapes took much more space than the text
	}
	return out.String()
}

// escaped reads the escape at the beginning of s, and returns the number of its bytes: 0 if it is not valid, or
// half of a surrogate pair.
func escaped(s string) (c rune, n int) {
	if len(s) < 2 {
		return 0, 0
	}
	if s[1] != 'u' {
		if c := simpleEscapes[s[1]]; c != 0 {
			return rune(c), 2
		}
		return 0, 0
	}
	c, ok := escapedUnit(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(c) {
		return c, 6
	}
	low, ok := escapedUnit(s[6:])
	if c = utf16.DecodeRune(c, low); !ok || c == utf8.RuneError {
		return 0, 0
	}
	return c, 12
}

// simpleEscapes has the character of each short escape, by its letter.
var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
