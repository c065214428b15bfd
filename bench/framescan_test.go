package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func serverFrames() []*petrelv1.ServerFrame {
	text := func(s string) *petrelv1.Message_Text { return &petrelv1.Message_Text{Text: s} }
	return []*petrelv1.ServerFrame{
		{Id: 7, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Conv: "d8RN7iMNITU0mIb0XxQAv", Seq: 1 << 40, TimeMs: 1795262400000}}},
		{Id: 1, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: 300}}},
		{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Messages: []*petrelv1.Message{
			{Conv: "gKQtYt3wSdI4pbTbl9KK9", Seq: 3, From: "carol", ClientMsgId: "c3", TimeMs: 1795262400001, Counted: 2, Body: text("good morning")},
			{Conv: "gKQtYt3wSdI4pbTbl9KK9", Seq: 4, Body: &petrelv1.Message_Members{Members: &petrelv1.MemberChange{
				Added: []*petrelv1.MemberRef{{User: "dave", Role: petrelv1.Role_ROLE_MEMBER}}, Removed: []string{"eve"}}}},
			{Conv: "gKQtYt3wSdI4pbTbl9KK9", Seq: 5, From: "x", ClientMsgId: `a "quoted" \ id`, Type: "t", Body: text("line\n\t\"海燕\" {[,]}\\")},
			{Conv: "g", Seq: 6, From: "x", Body: text("")},
			{Conv: "g", Seq: 7, From: "x", Body: &petrelv1.Message_Data{Data: []byte{0, 1, 255}}, EditedBy: 9, Withheld: true},
		}, Hints: []*petrelv1.Hint{{Conv: "gX", Head: 9}}, Receipts: []*petrelv1.Receipt{{Conv: "gY", User: "u", Read: 3}}}}},
		{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{}}},
		{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}},
		{Id: 9, Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{Code: "conflict", Settled: true, Hint: `a "hint"`}}},
		{Id: 4, Body: &petrelv1.ServerFrame_Sync{Sync: &petrelv1.SyncPage{Token: []byte("t"), Convs: []*petrelv1.ConvState{{Conv: "g", Head: 3}}}}},
		{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{Code: "draining", Reconnect: true}}},
	}
}

// scanned scans a frame, and returns what the scanner has read as a message of the schema.
func scanned(c wire.Codec, content []byte) (*petrelv1.ServerFrame, error) {
	var f frame
	if err := scan(c, content, &f); err != nil {
		return nil, err
	}
	out := &petrelv1.ServerFrame{Id: f.id}
	switch f.kind {
	case ackFrame:
		out.Body = &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Conv: string(f.conv), Seq: f.seq}}
	case eventsFrame:
		events := &petrelv1.Events{}
		for {
			var e entry
			more, err := f.next(c, &e)
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
			m := &petrelv1.Message{Conv: string(e.conv), Seq: e.seq, From: string(e.from), ClientMsgId: string(e.id)}
			if e.hasText {
				m.Body = &petrelv1.Message_Text{Text: string(e.text)}
			}
			events.Messages = append(events.Messages, m)
		}
		out.Body = &petrelv1.ServerFrame_Events{Events: events}
	}
	return out, nil
}

// asScanned returns the part of f that the scanner reads.
func asScanned(f *petrelv1.ServerFrame) *petrelv1.ServerFrame {
	out := &petrelv1.ServerFrame{Id: f.Id}
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Ack:
		out.Body = &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Conv: b.Ack.GetConv(), Seq: b.Ack.GetSeq()}}
	case *petrelv1.ServerFrame_Events:
		events := &petrelv1.Events{}
		for _, m := range b.Events.GetMessages() {
			n := &petrelv1.Message{Conv: m.Conv, Seq: m.Seq, From: m.From, ClientMsgId: m.ClientMsgId}
			if _, ok := m.Body.(*petrelv1.Message_Text); ok {
				n.Body = &petrelv1.Message_Text{Text: m.GetText()}
			}
			events.Messages = append(events.Messages, n)
		}
		out.Body = &petrelv1.ServerFrame_Events{Events: events}
	}
	return out
}

func TestFramesOfTheServerAreSplitAndScanned(t *testing.T) {
	for i := range wire.Encodings {
		enc := wire.EncodingAt(i)
		var stream []byte
		frames := serverFrames()
		for _, f := range frames {
			stream = wire.AppendFrame(stream, enc, f)
		}
		// Acks and events are written by functions of their own.
		rows := [][]byte{}
		for _, m := range frames[2].GetEvents().Messages {
			rows = append(rows, wire.AppendMessage(nil, m))
		}
		stream = wire.AppendEvents(stream, enc, rows)
		frames = append(frames, &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Messages: frames[2].GetEvents().Messages}}})
		stream = wire.AppendAck(stream, enc, wire.Ack{ID: 12, Conv: "d8RN7iMNITU0mIb0XxQAv", Seq: 77, TimeMs: 5})
		frames = append(frames, &petrelv1.ServerFrame{Id: 12, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Conv: "d8RN7iMNITU0mIb0XxQAv", Seq: 77}}})

		for _, f := range frames {
			for cut := range min(len(stream), 20) { // no beginning of a frame passes for one
				if _, n, _, err := split(enc, stream[:cut]); n > 0 && n > cut || err != nil {
					t.Fatalf("%v: split of %d bytes: %d, %v", enc, cut, n, err)
				}
			}
			content, n, _, err := split(enc, stream)
			if err != nil || n == 0 {
				t.Fatalf("%v: split %x: %d, %v", enc, stream, n, err)
			}
			stream = stream[n:]
			got, err := scanned(enc.Codec, content)
			if err != nil || !proto.Equal(got, asScanned(f)) {
				t.Errorf("%v: scanned %v, %v; want %v", enc, got, err, asScanned(f))
			}
			if _, err := decodeServerFrame(enc.Codec, content); err != nil {
				t.Errorf("%v: %v", enc, err)
			}
		}
		if len(stream) > 0 {
			t.Errorf("%v: %d bytes are left", enc, len(stream))
		}
	}
}

func TestLongFramesAreSplit(t *testing.T) {
	for _, n := range []int{0, 125, 126, 65535, 65536, 1 << 20} {
		for i := range wire.Encodings {
			enc := wire.EncodingAt(i)
			f := &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{Message: strings.Repeat("x", n)}}}
			b := wire.AppendFrame(nil, enc, f)
			content, size, _, err := split(enc, b)
			if err != nil || size != len(b) {
				t.Fatalf("%v, %d: split %d of %d, %v", enc, n, size, len(b), err)
			}
			if got, err := decodeServerFrame(enc.Codec, content); err != nil || !proto.Equal(got, f) {
				t.Errorf("%v, %d: %v", enc, n, err)
			}
		}
	}
	for _, b := range [][]byte{{0x02, 1, 0}, {0xC2, 1, 0}, {0x82, 0x81, 0, 0, 0, 0, 0}, {0x82, 127, 1, 0, 0, 0, 0, 0, 0, 0}} {
		if _, _, _, err := splitWebSocket(b); err == nil {
			t.Errorf("split took %x", b)
		}
	}
}

func TestSendsDecodeAsWhatTheyAre(t *testing.T) {
	c := newCorpus(3, 100)
	for i := range wire.Encodings {
		enc := wire.EncodingAt(i)
		for _, o := range []outgoing{
			{id: 1, user: "bench-1-201", msg: proof{0, 1, 5}},
			{id: 1 << 33, conv: "d8RN7iMNITU0mIb0XxQAv", after: 1 << 40, msg: proof{maxSenders - 1, 1 << 33, 1<<48 - 1}},
		} {
			o.corpus = c
			b, size := appendSend(nil, enc, &o, [4]byte{0xA1, 0xB2, 0xC3, 0xD4})
			content, codec := clientContent(t, enc, b)
			if len(content) != size || codec != enc.Codec {
				t.Errorf("%v: content of %d bytes, %v; it was said to be %d", enc, len(content), codec, size)
			}
			var f petrelv1.ClientFrame
			if err := wire.Decode(enc.Codec, content, &f); err != nil {
				t.Fatalf("%v: %v", enc, err)
			}
			s := f.GetSend()
			if f.Id != o.id || s.Conv != o.conv || s.User != o.user || s.After == nil || *s.After != o.after {
				t.Errorf("%v: got %v, want %+v", enc, &f, o)
			}
			if p, ok := c.read([]byte(s.GetText())); !ok || p != o.msg || !c.isID([]byte(s.ClientMsgId), p.sender, p.number) {
				t.Errorf("%v: the body says %+v, %v; want %+v", enc, p, ok, o.msg)
			}
		}
	}
}

func TestOtherClientFramesDecode(t *testing.T) {
	for i := range wire.Encodings {
		enc := wire.EncodingAt(i)
		want := &petrelv1.ClientFrame{Id: 3, Body: &petrelv1.ClientFrame_Hello{Hello: &petrelv1.Hello{VersionMin: 1, VersionMax: 1, Token: strings.Repeat("t", 200)}}}
		b, err := appendClientFrame(nil, enc, want, [4]byte{1, 2, 3, 4})
		if err != nil {
			t.Fatal(err)
		}
		content, _ := clientContent(t, enc, b)
		var got petrelv1.ClientFrame
		if err := wire.Decode(enc.Codec, content, &got); err != nil || !proto.Equal(&got, want) {
			t.Errorf("%v: %v, %v", enc, &got, err)
		}
	}
}

// clientContent returns the content of the frame that a client sends, without the framing.
func clientContent(t *testing.T, e wire.Encoding, b []byte) ([]byte, wire.Codec) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(b))
	codec, content, err := readClientFrame(r, e.Framing)
	if err != nil || r.Buffered() > 0 {
		t.Fatalf("%v: read %x: %v, %d bytes are left", e, b, err, r.Buffered())
	}
	if e.Framing == wire.TCP && e.Codec == wire.JSON {
		content = content[:len(content)-1]
	}
	return content, codec
}

func TestABodyProvesItself(t *testing.T) {
	c := newCorpus(1, 100)
	seen := map[string]bool{}
	for i := range 2000 {
		want := proof{uint32(i % 7), uint64(i + 1), int64(i) * 1_000_003}
		b := c.appendBody(nil, want)
		if p, ok := c.read(b); !ok || p != want || len(b) != 100 {
			t.Fatalf("read %+v, %v; want %+v", p, ok, want)
		}
		if seen[string(b)] || bytes.ContainsAny(b, "\"\\\n") {
			t.Fatalf("body %q is not new, or JSON would escape it", b)
		}
		seen[string(b)] = true
		at := rand.IntN(len(b))
		b[at] ^= 1
		if p, ok := c.read(b); ok {
			t.Fatalf("a body changed at %d reads as %+v", at, p)
		}
	}
	if _, ok := newCorpus(2, 100).read(c.appendBody(nil, proof{1, 1, 1})); ok {
		t.Error("the body of another run is taken")
	}
	if p, ok := newCorpus(1, MinSize).read(newCorpus(1, MinSize).appendBody(nil, proof{5, 6, 7})); !ok || p.number != 6 {
		t.Error("the smallest body does not read")
	}
}

func FuzzScanJSON(f *testing.F)  { fuzzScan(f, wire.JSON) }
func FuzzScanProto(f *testing.F) { fuzzScan(f, wire.Proto) }

// fuzzScan checks that the scanner never panics. If both the scanner and the generated decoder accept a frame,
// they must read the same.
func fuzzScan(f *testing.F, c wire.Codec) {
	e := wire.Encoding{Codec: c, Framing: wire.TCP}
	for _, s := range serverFrames() {
		content, _, _, _ := split(e, wire.AppendFrame(nil, e, s))
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := scanned(c, b)
		full, err2 := decodeServerFrame(c, b)
		if err != nil || err2 != nil || onlyLast(c, b) {
			return
		}
		if want := asScanned(full); !proto.Equal(got, want) {
			t.Errorf("%q: scanned %v, decoded %v", b, got, want)
		}
	})
}

// onlyLast reports whether b has parts that decoders may merge. No server writes such parts.
func onlyLast(c wire.Codec, b []byte) bool {
	if c == wire.JSON {
		// null, and names as in the schema, are for other writers than ours.
		return bytes.Contains(b, []byte("null")) || bytes.Contains(b, []byte("_")) || bytes.Contains(b, []byte(`\u`)) || bytes.ContainsAny(b, "eE.+-")
	}
	var again petrelv1.ServerFrame
	if again.UnmarshalVT(b) != nil {
		return true
	}
	out, err := again.MarshalVT()
	return err != nil || !bytes.Equal(out, b)
}

func BenchmarkEvents(b *testing.B) {
	c := newCorpus(1, 100)
	for i := range wire.Encodings {
		enc := wire.EncodingAt(i)
		b.Run(fmt.Sprint(enc), func(b *testing.B) {
			a := newAudit(c)
			v := a.addDirect(0, 1)
			a.addSender("bench-123456-0", 0, v)
			a.learn(v, "d8RN7iMNITU0mIb0XxQAv")
			g := newGenerator(enc, c, a)
			g.conns = []*conn{{index: 0, fd: 0}, {index: 1, fd: 0}}
			const batch = 16
			n := uint64(0)
			for b.Loop() {
				b.StopTimer()
				var rows [][]byte
				for range batch {
					n++
					a.compose(0)
					rows = append(rows, wire.AppendMessage(nil, &petrelv1.Message{Conv: v.id, Seq: n, From: "bench-123456-0", ClientMsgId: string(c.appendID(nil, 0, n)),
						TimeMs: 1795262400000, Counted: n, Body: &petrelv1.Message_Text{Text: string(c.appendBody(nil, proof{0, n, 1}))}}))
				}
				stream := wire.AppendEvents(nil, enc, rows)
				b.StartTimer()
				g.received(g.conns[1], stream, 2)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/message")
			if !a.Findings.Clean() || g.tally.delivered != n {
				b.Fatal(a.Findings, g.tally)
			}
		})
	}
}
