package bench

import "encoding/json"

// cursor walks through a JSON text. A step that does not fit leaves bad set,
// and everything behind it is nothing.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) space() {
	for len(c.b) > 0 && (c.b[0] == ' ' || c.b[0] == '\n' || c.b[0] == '\t' || c.b[0] == '\r') {
		c.b = c.b[1:]
	}
}

// take consumes ch if it is next.
func (c *cursor) take(ch byte) bool {
	c.space()
	if len(c.b) > 0 && c.b[0] == ch {
		c.b = c.b[1:]
		return true
	}
	return false
}

func (c *cursor) want(ch byte) {
	if !c.take(ch) {
		c.fail()
	}
}

func (c *cursor) fail() { c.b, c.bad = nil, true }

// text consumes a string. It points into the JSON unless something in it is
// escaped.
func (c *cursor) text() []byte {
	c.want('"')
	escaped := false
	for i := 0; i < len(c.b); i++ {
		switch c.b[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			s := c.b[:i]
			rest := c.b[i+1:]
			if escaped {
				s = c.unescape(s)
			}
			if !c.bad {
				c.b = rest
			}
			return s
		}
	}
	c.fail()
	return nil
}

func (c *cursor) unescape(s []byte) []byte {
	quoted := append(append([]byte{'"'}, s...), '"')
	var out string
	if json.Unmarshal(quoted, &out) != nil {
		c.fail()
		return nil
	}
	return []byte(out)
}

// number consumes an unsigned number, quoted as proto3 JSON writes those of 64
// bits, or plain.
func (c *cursor) number() uint64 {
	quoted := c.take('"')
	v, n := uint64(0), 0
	for n < len(c.b) && '0' <= c.b[n] && c.b[n] <= '9' && n < 20 {
		v = v*10 + uint64(c.b[n]-'0')
		n++
	}
	if n == 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	if quoted {
		c.want('"')
	}
	return v
}

// skip consumes any value.
func (c *cursor) skip() {
	c.space()
	if len(c.b) == 0 {
		c.fail()
		return
	}
	switch c.b[0] {
	case '"':
		c.text()
	case '{', '[':
		c.skipNested()
	default:
		n := 0
		for n < len(c.b) && c.b[n] != ',' && c.b[n] != '}' && c.b[n] != ']' {
			n++
		}
		if n == 0 {
			c.fail()
			return
		}
		c.b = c.b[n:]
	}
}

func (c *cursor) skipNested() {
	for depth := 0; len(c.b) > 0; {
		switch c.b[0] {
		case '"':
			c.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.b = c.b[1:]
		if depth == 0 {
			return
		}
	}
	c.fail()
}

// members ranges over the keys of the object that is next; the body of the loop
// consumes the value.
func (c *cursor) members(yield func(key []byte) bool) {
	c.want('{')
	for first := true; !c.bad && !c.take('}'); first = false {
		if !first {
			c.want(',')
		}
		key := c.text()
		c.want(':')
		if c.bad || !yield(key) {
			return
		}
	}
}

func scanJSON(b []byte, f *frame) error {
	c := cursor{b: b}
	for key := range c.members {
		switch string(key) {
		case "id":
			f.id = c.number()
		case "ack":
			f.kind = ackFrame
			c.ack(f)
		case "events":
			f.kind = eventsFrame
			c.events(f)
		default:
			c.skip()
		}
	}
	if c.bad {
		return errScan
	}
	return nil
}

func (c *cursor) ack(f *frame) {
	for key := range c.members {
		switch string(key) {
		case "conv":
			f.conv = c.text()
		case "seq":
			f.seq = c.number()
		default:
			c.skip()
		}
	}
}

// events leaves f.messages at the inside of the array; nextJSON reads on from
// there, up to its end.
func (c *cursor) events(f *frame) {
	for key := range c.members {
		if string(key) != "messages" {
			c.skip()
			continue
		}
		c.space()
		before := c.b
		c.skip()
		if c.bad || len(before) < 2 || before[0] != '[' {
			c.fail()
			return
		}
		f.messages = before[1 : len(before)-len(c.b)]
	}
}

func nextJSON(b []byte, e *entry) ([]byte, bool, error) {
	c := cursor{b: b}
	c.take(',')
	if len(c.b) == 0 || c.take(']') {
		return nil, false, nil
	}
	for key := range c.members {
		switch string(key) {
		case "conv":
			e.conv = c.text()
		case "seq":
			e.seq = c.number()
		case "from":
			e.from = c.text()
		case "clientMsgId":
			e.id = c.text()
		case "text":
			e.text, e.hasText = c.text(), true
		default:
			c.skip()
		}
	}
	if c.bad {
		return nil, false, errScan
	}
	return c.b, true, nil
}
