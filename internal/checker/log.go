package checker

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Format is how a log is written.
type Format uint8

// The formats. A reader tells them apart by the first byte.
const (
	JSON   Format = iota // one JSON object on each line
	Binary               // the same in about a third of the bytes; only this package writes and reads it
)

// magic begins a binary log. The last byte is its version.
const magic = "petrel-ops\x01"

// field is a field of an Op, as both formats know it.
type field struct {
	name string
	text func(*Op) *string
	list func(*Op) *[]string
	num  func(*Op) *uint64
	time func(*Op) *int64
	once bool // text that hardly comes twice in a log
}

// fields are those of a log. Their places are bits of the binary format.
var fields = [...]*field{
	{name: "at", time: func(op *Op) *int64 { return &op.At }},
	{name: "began", time: func(op *Op) *int64 { return &op.Began }},
	{name: "user", text: func(op *Op) *string { return &op.User }},
	{name: "device", text: func(op *Op) *string { return &op.Device }},
	{name: "session", text: func(op *Op) *string { return &op.Session }},
	{name: "conv", text: func(op *Op) *string { return &op.Conv }},
	{name: "to", text: func(op *Op) *string { return &op.To }},
	{name: "id", text: func(op *Op) *string { return &op.ID }, once: true},
	{name: "body", num: func(op *Op) *uint64 { return &op.Body }},
	{name: "seq", num: func(op *Op) *uint64 { return &op.Seq }},
	{name: "from", text: func(op *Op) *string { return &op.From }},
	{name: "edits", num: func(op *Op) *uint64 { return &op.Edits }},
	{name: "recalls", num: func(op *Op) *uint64 { return &op.Recalls }},
	{name: "rewritten", num: func(op *Op) *uint64 { return &op.Rewritten }},
	{name: "since", num: func(op *Op) *uint64 { return &op.Since }},
	{name: "about", text: func(op *Op) *string { return &op.About }},
	{name: "read", num: func(op *Op) *uint64 { return &op.ReadUpTo }},
	{name: "version", num: func(op *Op) *uint64 { return &op.Version }},
	{name: "added", list: func(op *Op) *[]string { return &op.Added }},
	{name: "removed", list: func(op *Op) *[]string { return &op.Removed }},
	{name: whereField, num: func(op *Op) *uint64 { return &op.where }}, // of the parts of a check only
}

const (
	hiddenBit  = 1 << 31
	bodyField  = "body"
	whereField = "where"
	maxRecord  = 64 << 20 // bytes of one op in a log: an entry that adds very many members
)

// Writer writes a log. One goroutine at a time.
type Writer struct {
	out    *bufio.Writer
	format Format
	buf    []byte
	names  map[string]uint64
	count  uint64
	err    error
}

// NewWriter writes a log to w. Nothing is promised to be there before Flush.
func NewWriter(w io.Writer, f Format) *Writer {
	l := &Writer{out: bufio.NewWriterSize(w, 64<<10), format: f, names: map[string]uint64{}}
	if f == Binary {
		_, l.err = l.out.WriteString(magic)
	}
	return l
}

// Count is how many ops were written.
func (l *Writer) Count() uint64 { return l.count }

// Write adds an op. An error stays: every later call returns it too.
func (l *Writer) Write(op *Op) error {
	if l.err != nil {
		return l.err
	}
	l.buf = l.buf[:0]
	if l.format == JSON {
		l.buf = appendJSON(l.buf, op)
	} else {
		l.buf = l.appendBinary(l.buf, op)
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(l.buf)))
		_, l.err = l.out.Write(n[:])
	}
	if l.err != nil {
		return l.err
	}
	if _, err := l.out.Write(l.buf); err != nil {
		l.err = fmt.Errorf("write op log: %w", err)
		return l.err
	}
	l.count++
	return nil
}

// Flush hands over all that was written.
func (l *Writer) Flush() error {
	if l.err != nil {
		return l.err
	}
	if err := l.out.Flush(); err != nil {
		l.err = fmt.Errorf("write op log: %w", err)
	}
	return l.err
}

func appendJSON(b []byte, op *Op) []byte {
	b = append(append(append(b, `{"op":"`...), op.Kind.String()...), '"')
	key := func(name string) { b = append(append(append(b, `,"`...), name...), `":`...) }
	for i := range fields {
		f := fields[i]
		switch {
		case f.name == whereField:
		case f.time != nil:
			if v := *f.time(op); v != 0 {
				key(f.name)
				b = strconv.AppendInt(b, v, 10)
			}
		case f.name == bodyField:
			if op.Body != 0 {
				key(f.name)
				b = fmt.Appendf(b, `"%016x"`, op.Body)
			}
		case f.num != nil:
			if v := *f.num(op); v != 0 {
				key(f.name)
				b = strconv.AppendUint(b, v, 10)
			}
		case f.text != nil:
			if v := *f.text(op); v != "" {
				key(f.name)
				b = appendText(b, v)
			}
		default:
			if v := *f.list(op); len(v) > 0 {
				key(f.name)
				b = append(b, '[')
				for i, s := range v {
					if i > 0 {
						b = append(b, ',')
					}
					b = appendText(b, s)
				}
				b = append(b, ']')
			}
		}
	}
	if op.Hidden {
		b = append(b, `,"hidden":true`...)
	}
	return append(b, "}\n"...)
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			q, _ := json.Marshal(s) // a string has a JSON form
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendBinary appends the kind, a bit for each field that follows, and these.
func (l *Writer) appendBinary(b []byte, op *Op) []byte {
	b = append(b, byte(op.Kind))
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	var mask uint32
	if op.Hidden {
		mask = hiddenBit
	}
	for i := range fields {
		f := fields[i]
		before := len(b)
		switch {
		case f.time != nil:
			if v := *f.time(op); v != 0 {
				b = binary.AppendVarint(b, v)
			}
		case f.name == bodyField:
			if op.Body != 0 {
				b = binary.BigEndian.AppendUint64(b, op.Body)
			}
		case f.num != nil:
			if v := *f.num(op); v != 0 {
				b = binary.AppendUvarint(b, v)
			}
		case f.text != nil:
			if v := *f.text(op); v != "" && f.once {
				b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
			} else if v != "" {
				b = l.appendName(b, v)
			}
		default:
			if v := *f.list(op); len(v) > 0 {
				b = binary.AppendUvarint(b, uint64(len(v)))
				for _, s := range v {
					b = l.appendName(b, s)
				}
			}
		}
		if len(b) > before {
			mask |= 1 << i
		}
	}
	binary.BigEndian.PutUint32(b[at:], mask)
	return b
}

// appendName appends the number of a text, and with 0 the text itself, which has the
// next number from then on.
func (l *Writer) appendName(b []byte, s string) []byte {
	if n := l.names[s]; n > 0 {
		return binary.AppendUvarint(b, n)
	}
	l.names[s] = uint64(len(l.names)) + 1
	return append(binary.AppendUvarint(append(b, 0), uint64(len(s))), s...)
}

// Reader reads a log of either format. One goroutine at a time.
type Reader struct {
	in     *bufio.Reader
	format Format
	line   uint64
	offset int64 // of the next record, binary
	names  []string
	known  map[string]string
	buf    []byte
}

// NewReader reads a log from r.
func NewReader(r io.Reader) (*Reader, error) {
	l := &Reader{in: bufio.NewReaderSize(r, 256<<10), known: map[string]string{}}
	begin, err := l.in.Peek(len(magic))
	switch {
	case string(begin) == magic:
		l.format = Binary
		l.offset = int64(len(magic))
		_, err = l.in.Discard(len(magic))
		return l, err
	case len(begin) > 0 && begin[0] != '{':
		return nil, errors.New("this is no op log: it begins neither with { nor as a binary one")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	return l, nil
}

// Next reads the next op into op. At the end it returns io.EOF. Other errors name the line.
func (l *Reader) Next(op *Op) error {
	*op = Op{}
	var err error
	if l.format == Binary {
		err = l.readBinary(op)
	} else {
		err = l.readJSON(op)
	}
	if err == io.EOF {
		return err
	}
	l.line++
	if err != nil {
		return fmt.Errorf("line %d: %w", l.line, err)
	}
	if f := op.missing(); f == "op" {
		return fmt.Errorf("line %d: there is no such op", l.line)
	} else if f != "" {
		return fmt.Errorf("line %d: op %s needs %s", l.line, op.Kind, f)
	}
	if op.where == 0 {
		op.where = l.line << logBits
	}
	return nil
}

// wholeLine is the next line without its end; it is valid until the next call.
func (l *Reader) wholeLine() ([]byte, error) {
	b, err := l.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.buf = append(l.buf[:0], b...)
		for err == bufio.ErrBufferFull && len(l.buf) < maxRecord {
			b, err = l.in.ReadSlice('\n')
			l.buf = append(l.buf, b...)
		}
		b = l.buf
	}
	switch {
	case err == io.EOF && len(b) == 0:
		return nil, io.EOF
	case err == io.EOF:
		return nil, errors.New("the line has no end: the log was cut off")
	case err != nil:
		return nil, err
	}
	return b[:len(b)-1], nil
}

func (l *Reader) readJSON(op *Op) error {
	line, err := l.wholeLine()
	if err != nil {
		return err
	}
	if !gjson.ValidBytes(line) || len(line) == 0 || line[0] != '{' {
		return errors.New("the line is no JSON object")
	}
	gjson.Parse(unsafe.String(&line[0], len(line))).ForEach(func(k, v gjson.Result) bool {
		err = l.setJSON(op, k.Str, v)
		return err == nil
	})
	return err
}

func (l *Reader) setJSON(op *Op, key string, v gjson.Result) error {
	switch key {
	case "op":
		for k, name := range kindNames {
			if name == v.Str && k > 0 {
				op.Kind = Kind(k)
			}
		}
		return nil
	case "hidden":
		op.Hidden = v.Bool()
		return nil
	case bodyField:
		n, err := strconv.ParseUint(v.Str, 16, 64)
		if err != nil || len(v.Str) != 16 {
			return fmt.Errorf("body is %s, and should be 16 hex digits", v.Raw)
		}
		op.Body = n
		return nil
	case whereField:
		return nil
	}
	for i := range fields {
		f := fields[i]
		if f.name != key {
			continue
		}
		switch {
		case f.time != nil:
			n, err := strconv.ParseInt(v.Raw, 10, 64)
			*f.time(op) = n
			return err
		case f.num != nil:
			n, err := strconv.ParseUint(v.Raw, 10, 64)
			*f.num(op) = n
			return err
		case v.Type == gjson.String && f.text != nil:
			*f.text(op) = l.name(v.Str, f.once)
			return nil
		case v.IsArray() && f.list != nil:
			for _, s := range v.Array() {
				*f.list(op) = append(*f.list(op), l.name(s.String(), false))
			}
			return nil
		}
		return fmt.Errorf("%s is %s", key, v.Raw)
	}
	return nil // a key that others write for themselves
}

// name copies a text, once for all ops that have it.
func (l *Reader) name(s string, once bool) string {
	if once {
		return string([]byte(s))
	}
	if have, ok := l.known[s]; ok {
		return have
	}
	own := string([]byte(s))
	l.known[own] = own
	return own
}

var errCut = errors.New("the log was cut off, or is damaged")

func (l *Reader) readBinary(op *Op) error {
	var head [4]byte
	if _, err := io.ReadFull(l.in, head[:]); err == io.EOF {
		return err
	} else if err != nil {
		return errCut
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n < 5 || n > maxRecord {
		return errCut
	}
	if n > cap(l.buf) {
		l.buf = make([]byte, n)
	}
	b := l.buf[:n]
	if _, err := io.ReadFull(l.in, b); err != nil {
		return errCut
	}
	l.offset += int64(len(head) + n)
	return l.decode(b, op)
}

// decode reads what appendBinary wrote.
func (l *Reader) decode(b []byte, op *Op) error {
	op.Kind = Kind(b[0])
	mask := binary.BigEndian.Uint32(b[1:])
	op.Hidden = mask&hiddenBit != 0
	b = b[5:]
	ok := true
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b)
		if ok = ok && n > 0; ok {
			b = b[n:]
		}
		return v
	}
	for mask &^= hiddenBit; mask != 0 && ok; mask &= mask - 1 {
		i := bits.TrailingZeros32(mask)
		if i >= len(fields) {
			return errCut
		}
		f := fields[i]
		switch {
		case f.time != nil:
			v := uvarint()
			*f.time(op) = int64(v>>1) ^ -int64(v&1)
		case f.name == bodyField:
			if len(b) < 8 {
				return errCut
			}
			op.Body, b = binary.BigEndian.Uint64(b), b[8:]
		case f.num != nil:
			*f.num(op) = uvarint()
		case f.text != nil && f.once:
			n := uvarint()
			if !ok || n > uint64(len(b)) {
				return errCut
			}
			*f.text(op), b = string(b[:n]), b[n:]
		case f.text != nil:
			*f.text(op), b, ok = l.cutName(b)
		default:
			n := uvarint()
			if n > uint64(len(b)) {
				return errCut
			}
			list := make([]string, n)
			for i := range list {
				list[i], b, ok = l.cutName(b)
				if !ok {
					return errCut
				}
			}
			*f.list(op) = list
		}
	}
	if !ok {
		return errCut
	}
	return nil
}

// cutName reads what appendName wrote, and returns the rest.
func (l *Reader) cutName(b []byte) (name string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	switch {
	case size <= 0 || n > uint64(len(l.names)):
		return "", b, false
	case n > 0:
		return l.names[n-1], b[size:], true
	}
	b = b[size:]
	n, size = binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", b, false
	}
	b = b[size:]
	name = string(b[:n])
	l.names = append(l.names, name)
	return name, b[n:], true
}

// again reads a record that this reader has read before, from the same binary log.
func (l *Reader) again(r io.ReaderAt, offset int64, op *Op) error {
	*op = Op{}
	var head [4]byte
	if _, err := r.ReadAt(head[:], offset); err != nil {
		return err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := r.ReadAt(b, offset+int64(len(head))); err != nil {
		return err
	}
	had := len(l.names)
	err := l.decode(b, op)
	l.names = l.names[:had] // those that this record introduced are there already
	return err
}
