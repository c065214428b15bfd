package wire_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// eachEncoding runs f for each of the four encodings.
func eachEncoding(t *testing.T, f func(t *testing.T, e wire.Encoding)) {
	for i := range wire.Encodings {
		e := wire.EncodingAt(i)
		name := [...]string{"WebSocket", "TCP"}[e.Framing] + " " + e.Codec.String()
		t.Run(name, func(t *testing.T) { f(t, e) })
	}
}

// cut returns the content of the first frame in b, and the bytes after this frame.
func cut(t *testing.T, e wire.Encoding, b []byte) (content, rest []byte) {
	t.Helper()
	need := func(n uint64) {
		if uint64(len(b)) < n {
			t.Fatalf("%d bytes left, the frame has %d", len(b), n)
		}
	}
	switch {
	case e.Framing == wire.TCP && e.Codec == wire.JSON:
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			t.Fatalf("no line feed behind %.80q", b)
		}
		return b[:i], b[i+1:]
	case e.Framing == wire.TCP:
		need(4)
		n := uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
		need(n)
		return b[:n], b[n:]
	}
	need(2)
	if want := map[wire.Codec]byte{wire.JSON: 0x81, wire.Proto: 0x82}[e.Codec]; b[0] != want {
		t.Fatalf("frame begins with %#x, want %#x: whole, of the codec's kind", b[0], want)
	}
	n, header := uint64(b[1]), uint64(2)
	switch n {
	case 126:
		need(4)
		n, header = uint64(binary.BigEndian.Uint16(b[2:])), 4
		if n < 126 {
			t.Fatalf("length %d is written in 2 bytes", n)
		}
	case 127:
		need(10)
		n, header = binary.BigEndian.Uint64(b[2:]), 10
		if n < 1<<16 {
			t.Fatalf("length %d is written in 8 bytes", n)
		}
	}
	b = b[header:]
	need(n)
	return b[:n], b[n:]
}

// read decodes all frames of b.
func read(t *testing.T, e wire.Encoding, b []byte) []*petrelv1.ServerFrame {
	t.Helper()
	var frames []*petrelv1.ServerFrame
	for len(b) > 0 {
		var content []byte
		content, b = cut(t, e, b)
		f := &petrelv1.ServerFrame{}
		var err error
		if e.Codec == wire.JSON {
			err = protojson.Unmarshal(content, f)
		} else {
			err = proto.Unmarshal(content, f)
		}
		if err != nil {
			t.Fatalf("frame %.200q: %v", content, err)
		}
		frames = append(frames, f)
	}
	return frames
}

func TestEncodingIndexesAreATable(t *testing.T) {
	for i := range wire.Encodings {
		if got := wire.EncodingAt(i).Index(); got != i {
			t.Errorf("EncodingAt(%d).Index() = %d", i, got)
		}
	}
}

func TestAppendFrameIsReadBack(t *testing.T) {
	sizes := []int{0, 1, 70000, 1 << 20}
	for i := range 60 { // lengths around those at which the header of WebSocket gets longer
		sizes = append(sizes, 80+i, 65490+i)
	}
	eachEncoding(t, func(t *testing.T, e wire.Encoding) {
		out, want := []byte("before"), []*petrelv1.ServerFrame(nil)
		for i, n := range sizes {
			f := &petrelv1.ServerFrame{Id: uint64(i), Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{Message: strings.Repeat("m", n)}}}
			before := len(out)
			out = wire.AppendFrame(out, e, f)
			if header := len(out) - before - f.SizeVT(); e.Codec == wire.Proto && header > wire.MaxHeader {
				t.Errorf("framing adds %d bytes to %d", header, n)
			}
			want = append(want, f)
		}
		frames := read(t, e, out[len("before"):])
		if len(frames) != len(want) {
			t.Fatalf("%d frames, want %d", len(frames), len(want))
		}
		for i, got := range frames {
			if !proto.Equal(want[i], got) {
				t.Errorf("frame of %d bytes is %.200v, want %.200v", sizes[i], got, want[i])
			}
		}
		if !bytes.HasPrefix(out, []byte("before")) {
			t.Errorf("what was there before begins with %.20q", out)
		}
	})
}

// canonicalAck encodes an ack with the ordinary encoder of the schema.
func canonicalAck(e wire.Encoding, a wire.Ack) []byte {
	ack := &petrelv1.Ack{Conv: a.Conv, Seq: a.Seq, TimeMs: a.TimeMs, Counted: a.Counted, ThreadN: a.ThreadN}
	if a.Message != nil {
		ack.Message = &petrelv1.Message{}
		if err := wire.ParseMessage(a.Message, ack.Message); err != nil {
			panic(err) // the test has made it
		}
	}
	return wire.AppendFrame(nil, e, &petrelv1.ServerFrame{Id: a.ID, Body: &petrelv1.ServerFrame_Ack{Ack: ack}})
}

// AppendAck writes the same bytes as the ordinary encoder. Spaces in JSON are not
// compared: protojson adds them at random.
func FuzzAck(f *testing.F) {
	f.Add(uint64(1), uint64(1), uint64(1795262400000), uint64(1), false, false)
	f.Add(uint64(0), uint64(0), uint64(0), uint64(0), false, false)
	f.Add(uint64(1<<64-1), uint64(1<<64-1), uint64(1<<64-1), uint64(1<<64-1), true, true)
	f.Add(uint64(1<<63), uint64(127), uint64(128), uint64(0), true, false)
	f.Add(uint64(3), uint64(0), uint64(5), uint64(7), true, false)
	f.Add(uint64(3), uint64(5), uint64(0), uint64(0), false, true)
	f.Add(uint64(3), uint64(0), uint64(0), uint64(0), false, true)
	f.Fuzz(func(t *testing.T, id, seq, ms, counted uint64, named, whole bool) {
		a := wire.Ack{ID: id, Seq: seq, TimeMs: ms, Counted: counted, ThreadN: counted >> 1}
		if named {
			a.Conv = "d8RN7iMNITU0mIb0XxQAv"
		}
		if whole {
			a.Message = wire.AppendMessage(nil, &petrelv1.Message{
				Conv: a.Conv, Seq: seq, TimeMs: ms, Counted: counted, Body: &petrelv1.Message_Text{Text: strings.Repeat("海", int(seq%200))},
				Rel: &petrelv1.Relations{ReplyTo: counted, Silent: named, Forwarded: &petrelv1.Forwarded{From: "carol", TimeMs: ms}},
			})
		}
		for i := range wire.Encodings {
			e := wire.EncodingAt(i)
			got, want := wire.AppendAck([]byte("x"), e, a)[1:], canonicalAck(e, a)
			if e.Codec == wire.JSON {
				g, _ := cut(t, e, got)
				w, _ := cut(t, e, want)
				_ = read(t, e, got) // fails if bytes are left after the frame
				got, want = compact(t, g), compact(t, w)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v: %+v is written as %q, want %q", e, a, got, want)
			}
		}
	})
}

func compact(t *testing.T, b []byte) []byte {
	t.Helper()
	var w bytes.Buffer
	if err := json.Compact(&w, b); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// entries returns n messages with all kinds of bodies and many sizes, and their
// stored form.
func entries(seed uint64, n int) ([]*petrelv1.Message, [][]byte) {
	r := rand.New(rand.NewPCG(seed, 1))
	texts := []string{"", "hello", "海燕 🐦", "line\nfeed\r\n", `"quoted" \ back`, "\u2028\x00\x1f<>&", strings.Repeat("long ", 300), strings.Repeat("x", 30<<10), strings.Repeat("y", 40<<10)}
	text := func() string { return texts[r.IntN(len(texts))] }
	ref := []*petrelv1.MemberRef{{User: "dave", Role: petrelv1.Role_ROLE_ADMIN}}
	var list []*petrelv1.Message
	var stored [][]byte
	for i := range n {
		m := &petrelv1.Message{Conv: "gKQtYt3wSdI4pbTbl9KK9", Seq: uint64(i + 1), From: "alice", ClientMsgId: "k", TimeMs: r.Uint64(), Counted: uint64(i), Type: "t"}
		switch r.IntN(9) {
		case 0:
			m.Body = &petrelv1.Message_Data{Data: []byte(text())}
		case 1:
			m.Body = &petrelv1.Message_Members{Members: &petrelv1.MemberChange{Added: ref, Removed: []string{"eve"}, Roles: ref}}
		case 2:
			m.Body = &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{"a": "b"}}}}}
		case 3:
			*m = petrelv1.Message{} // the shortest message possible
		default:
			m.Body = &petrelv1.Message_Text{Text: text()}
		}
		list = append(list, m)
		stored = append(stored, wire.AppendMessage(nil, m))
	}
	return list, stored
}

func TestStoredMessageIsReadBack(t *testing.T) {
	list, stored := entries(1, 200)
	for i, m := range list {
		got := &petrelv1.Message{}
		if err := wire.ParseMessage(stored[i], got); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if !proto.Equal(m, got) {
			t.Errorf("message %d is %.200v, want %.200v", i, got, m)
		}
	}
	joined := wire.AppendMessage(append([]byte(nil), stored[0]...), list[1])
	if !bytes.Equal(joined, append(append([]byte(nil), stored[0]...), stored[1]...)) {
		t.Error("AppendMessage does not append")
	}
}

func TestParseMessageRefusesWhatIsNotOneMessage(t *testing.T) {
	good := wire.AppendMessage(nil, &petrelv1.Message{Conv: "c", Body: &petrelv1.Message_Text{Text: "text"}})
	for name, b := range map[string][]byte{
		"empty": nil, "tag only": good[:1], "cut": good[:len(good)-1], "more behind it": append(append([]byte(nil), good...), 0),
		"two": append(append([]byte(nil), good...), good...), "other tag": append([]byte{0x12}, good[1:]...), "not a Message": {0x0A, 2, 0x0A, 9},
		"endless length": {0x0A, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
	} {
		if err := wire.ParseMessage(b, &petrelv1.Message{}); err == nil {
			t.Errorf("%s: %x is taken", name, b)
		}
	}
}

// softLimit is the size that one Events frame should not exceed. Clients accept
// much larger frames (P-2.5).
const softLimit = 32 << 10

func TestAppendEventsSplitsAndIsReadBack(t *testing.T) {
	for _, n := range []int{1, 2, 7, 400} {
		list, stored := entries(uint64(n), n)
		eachEncoding(t, func(t *testing.T, e wire.Encoding) {
			out := wire.AppendEvents([]byte("x"), e, stored)[1:]
			var got []*petrelv1.Message
			var most int
			for _, f := range read(t, e, out) {
				events := f.GetEvents()
				if len(events.GetMessages()) == 0 || f.Id != 0 {
					t.Fatalf("frame without events: %v", f)
				}
				size := 0
				for _, m := range events.Messages {
					size += len(wire.AppendMessage(nil, m))
				}
				if len(events.Messages) > 1 && size > softLimit {
					t.Errorf("a frame has %d messages of %d bytes", len(events.Messages), size)
				}
				most = max(most, len(events.Messages))
				got = append(got, events.Messages...)
			}
			if len(got) != n {
				t.Fatalf("%d messages of %d", len(got), n)
			}
			for i := range list {
				if !proto.Equal(list[i], got[i]) {
					t.Fatalf("message %d of %d is %.200v, want %.200v", i, n, got[i], list[i])
				}
			}
			if n == 400 && most < 2 {
				t.Error("no frame has more than one message")
			}
		})
	}
}

func TestAppendEventsOfNothingIsNothing(t *testing.T) {
	eachEncoding(t, func(t *testing.T, e wire.Encoding) {
		if got := wire.AppendEvents(nil, e, nil); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// AppendEvents copies the stored bytes after a header. The result is the same as if
// the frame had been encoded from the messages.
func TestProtobufEventsAreTheCanonicalFrame(t *testing.T) {
	list, stored := entries(3, 4)
	for _, fr := range []wire.Framing{wire.WebSocket, wire.TCP} {
		e := wire.Encoding{Codec: wire.Proto, Framing: fr}
		for i := range list {
			want := wire.AppendFrame(nil, e, &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Messages: list[i : i+1]}}})
			if got := wire.AppendEvents(nil, e, stored[i:i+1]); !bytes.Equal(got, want) {
				t.Errorf("message %d: %.100x, want %.100x", i, got, want)
			}
		}
	}
}

func TestEventsOfADamagedRowAreStillFrames(t *testing.T) {
	_, stored := entries(4, 2)
	e := wire.Encoding{Codec: wire.JSON, Framing: wire.TCP}
	frames := read(t, e, wire.AppendEvents(nil, e, [][]byte{stored[0], {0x0A, 9, 1}, stored[1]}))
	if len(frames) != 1 || len(frames[0].GetEvents().GetMessages()) != 3 {
		t.Fatalf("frames %v, want one with 3 messages", frames)
	}
}

// Written frames are read back, one by one.
func TestWrittenFramesAreReadBack(t *testing.T) {
	eachEncoding(t, func(t *testing.T, e wire.Encoding) {
		var all []byte
		var want []*petrelv1.ServerFrame
		for i, size := range []int{0, 10, 125, 126, 1 << 10, 1 << 16} {
			f := &petrelv1.ServerFrame{Id: uint64(i + 1), Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{Message: strings.Repeat("é\n", size)}}}
			want, all = append(want, f), wire.AppendFrame(all, e, f)
		}
		_, stored := entries(7, 3)
		events := wire.AppendEvents(nil, e, stored)
		all = append(all, events...)
		for _, w := range append(want, read(t, e, events)...) {
			f, frame, rest, err := wire.ReadServerFrame(all, e)
			if err != nil || !proto.Equal(f, w) || len(frame)+len(rest) != len(all) {
				t.Fatalf("read %.100v, %d and %d of %d bytes, %v; want %.100v", f, len(frame), len(rest), len(all), err, w)
			}
			all = rest
		}
		if len(all) > 0 {
			t.Errorf("%d bytes are left", len(all))
		}
	})
}
