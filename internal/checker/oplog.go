package checker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unsafe"

	"github.com/tidwall/gjson"
)

// field is a field of an Op, and its key in a log.
type field struct {
	name string
	text func(*Op) *string
	list func(*Op) *[]string
	num  func(*Op) *uint64
	time func(*Op) *int64
	once bool // text that hardly comes twice in a log
}

// fields has the fields of an op in a log, in their order.
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
	bodyField  = "body"
	whereField = "where"
	maxLine    = 64 << 20 // bytes of one op in a log: an entry that adds very many members
)

// Writer writes a log: one JSON object on each line. One goroutine at a time.
type Writer struct {
	out    *bufio.Writer
	ofPart bool // each op is written with its line in its log
	buf    []byte
	count  uint64
	err    error
}

// NewWriter makes a Writer that writes a log to w. It buffers the ops until Flush.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(w, 64<<10)} }

// Count returns how many ops were written.
func (l *Writer) Count() uint64 { return l.count }

// Write adds an op. An error stays: every later call returns it too.
func (l *Writer) Write(op *Op) error {
	if l.err != nil {
		return l.err
	}
	l.buf = appendJSON(l.buf[:0], op, l.ofPart)
	if _, err := l.out.Write(l.buf); err != nil {
		l.err = fmt.Errorf("write op log: %w", err)
		return l.err
	}
	l.count++
	return nil
}

// Flush writes the buffered ops.
func (l *Writer) Flush() error {
	if l.err != nil {
		return l.err
	}
	if err := l.out.Flush(); err != nil {
		l.err = fmt.Errorf("write op log: %w", err)
	}
	return l.err
}

func appendJSON(b []byte, op *Op, withLine bool) []byte {
	b = append(append(append(b, `{"op":"`...), op.Kind.String()...), '"')
	key := func(name string) { b = append(append(append(b, `,"`...), name...), `":`...) }
	for i := range fields {
		f := fields[i]
		switch {
		case f.name == whereField && !withLine:
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

// Reader reads a log. One goroutine at a time.
type Reader struct {
	in     *bufio.Reader
	ofPart bool // a part wrote the lines, with the line of each op in its log
	line   uint64
	offset int64 // of the next line
	known  map[string]string
	buf    []byte
}

// NewReader reads a log from r.
func NewReader(r io.Reader) (*Reader, error) {
	l := &Reader{in: bufio.NewReaderSize(r, 256<<10), known: map[string]string{}}
	begin, err := l.in.Peek(1)
	switch {
	case len(begin) > 0 && begin[0] != '{':
		return nil, errors.New("this is no op log: it does not begin with {")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	return l, nil
}

// Next reads the next op into op. At the end it returns io.EOF. Other errors name the line.
func (l *Reader) Next(op *Op) error {
	*op = Op{}
	err := l.read(op)
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

// wholeLine returns the next line without its end. The bytes are valid until the next call.
func (l *Reader) wholeLine() ([]byte, error) {
	b, err := l.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.buf = append(l.buf[:0], b...)
		for err == bufio.ErrBufferFull && len(l.buf) < maxLine {
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
	l.offset += int64(len(b))
	return b[:len(b)-1], nil
}

func (l *Reader) read(op *Op) error {
	line, err := l.wholeLine()
	if err != nil {
		return err
	}
	if !l.ofPart && !gjson.ValidBytes(line) || len(line) == 0 || line[0] != '{' {
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
		if !l.ofPart {
			return nil
		}
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
	return nil // an unknown key, which another program may write for itself
}

// name returns a copy of s: the same one for all ops, unless once is set.
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

// again reads a line of a part that was read before.
func again(r io.ReaderAt, offset int64, op *Op) error {
	l := &Reader{in: bufio.NewReader(io.NewSectionReader(r, offset, maxLine)), ofPart: true, known: map[string]string{}}
	return l.Next(op)
}
