package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Spec: P-2.3.
func TestIDOfAFrameThatCannotBeDecoded(t *testing.T) {
	for text, want := range map[string]uint64{
		`{"id":"7","send":{"text":"\ud800"}}`:                                            7,
		`{"id":7,"send":{"text":5}}`:                                                     7,
		` { "send" : { "id" : "8" , "a" : [ "id", 9 ] } , "id" : "7" } `:                 7,
		`{"send":{"text":"}],\"id\":\"8\"\\"},"id":"7"}`:                                 7,
		"{\"id\":\"7\",\"send\":{\"text\":\"\xff\n\x00\"}}\r\n":                          7,
		`{"id":"7","x":` + strings.Repeat(`[{"a":`, 99) + strings.Repeat("}]", 99) + `}`: 7,
		`{"id":"7","id":"7","ping":{},"pong":{}}`:                                        7,
		`{"id":"7"}`:                     7,
		`{"id":"7","ping":{},}`:          7, // no JSON, and yet the server can tell what to answer
		`{"id":"7","ping":{}/* hi */}`:   7,
		"{\ufeff\"id\":\"7\",\"x\":{}}":  7,
		`{"id":"7","send":{'text':"a"}}`: 7,
		"\ufeff{\"id\":\"7\",\"x\":{}}":  0,
		`{"id":"7","id":"8","ping":{}}`:  0, // which one is meant?
		`{"ping":{},"pong":{}}`:          0,
		`{"id":"x","ping":{}}`:           0,
		`{"id":-1,"ping":{}}`:            0,
		`{"id":{"id":"7"}}`:              0,
		`{"a":"id","b":"7"}`:             0,
		`["id","7"]`:                     0,
		`{"id":"7","send":{`:             0, // cut
		`{"id":"7","send":{"text":"a}`:   0,
		`{"id":"7"}{"id":"8"}`:           0,
		`{"id":"7"}x`:                    0,
		`"id"`:                           0,
		``:                               0,
	} {
		if got := wire.IDOf(wire.JSON, []byte(text)); got != want {
			t.Errorf("%.80q: got %d, want %d", text, got, want)
		}
	}
	for b, want := range map[string]uint64{
		"\x08\x07\x1a\x02\x0a\x05":             7, // a send that is cut inside
		"\x1a\x00\x08\x07":                     7,
		"\x08\x07\xfb\x3e\xfc\x3e":             7,
		"\x08\x07\x1a\x7f":                     0, // longer than the frame
		"\x0a\x01\x07":                         0, // an id that is no number
		"\x08\x07\x0c":                         0,
		"":                                     0,
		strings.Repeat("\xfb\x3e", 30_000):     0,
		"\x08\x80\x80\x80\x80\x80\x80\x80\x80": 0,
	} {
		if got := wire.IDOf(wire.Proto, []byte(b)); got != want {
			t.Errorf("%.40x: got %d, want %d", b, got, want)
		}
	}
}

// Every body fits, also where every character is escaped, and within a call, which has
// JSON inside of JSON. Spec: P-2.5.
func TestFrameLimitHoldsEveryBody(t *testing.T) {
	for _, size := range []int{1, 1000, 48 << 10, 128 << 10} {
		limit := wire.FrameLimit(size)
		name := strings.Repeat("n", 64)
		send := &petrelv1.Send{User: name, ClientMsgId: name, Type: name, Body: &petrelv1.Send_Text{Text: strings.Repeat("\x01", size)}}
		f := &petrelv1.ClientFrame{Id: 1<<64 - 1, Body: &petrelv1.ClientFrame_Send{Send: send}}
		if n := len(encode(t, wire.JSON, f)); n > limit {
			t.Errorf("a text of %d bytes: the frame has %d, the limit is %d", size, n, limit)
		}
		if escaped := 6 * (size + 3*64); escaped+300 > limit {
			t.Errorf("a text of %d bytes with every character escaped: about %d, the limit is %d", size, escaped, limit)
		}
		inner, err := protojson.Marshal(send)
		if err != nil {
			t.Fatal(err)
		}
		f.Body = &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: name, Request: &petrelv1.Call_Json{Json: string(inner)}}}
		if n := len(encode(t, wire.JSON, f)); n > limit {
			t.Errorf("a call with a text of %d bytes: the frame has %d, the limit is %d", size, n, limit)
		}
		if limit >= 1<<24 {
			t.Errorf("the limit for %d bytes is %d: its length on TCP would not begin with 0", size, limit)
		}
	}
	if got := wire.FrameLimit(-1); got != -1 {
		t.Errorf("no limit: got %d", got)
	}
}
