package wire_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var codecs = []wire.Codec{wire.JSON, wire.Proto}

// decode reads a frame. The code is empty if it can be read.
func decode(c wire.Codec, b []byte) (*petrelv1.ClientFrame, im.Code) {
	f := &petrelv1.ClientFrame{}
	if err := wire.Decode(c, b, f); err != nil {
		return nil, err.Code
	}
	return f, ""
}

// encode encodes a frame as a client does that does not check whether its texts
// are UTF-8.
func encode(t testing.TB, c wire.Codec, f *petrelv1.ClientFrame) []byte {
	t.Helper()
	var b []byte
	var err error
	if c == wire.JSON {
		b, err = protojson.Marshal(f)
	} else {
		b, err = f.MarshalVT()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// place is the path of a field in a client frame.
type place []protoreflect.FieldDescriptor

func (p place) String() string {
	var names []string
	for _, fd := range p {
		names = append(names, string(fd.Name()))
	}
	return strings.Join(names, ".")
}

// texts lists every string field of m and of the messages below it.
func texts(t *testing.T, m protoreflect.MessageDescriptor, under place) []place {
	var all []place
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		here := append(append(place(nil), under...), fd)
		switch {
		case fd.IsMap():
			t.Errorf("%s is a map: Decode does not look into maps", here)
		case fd.Kind() == protoreflect.StringKind:
			all = append(all, here)
		case fd.Kind() == protoreflect.MessageKind && len(under) < 8:
			all = append(all, texts(t, fd.Message(), here)...)
		}
	}
	return all
}

// with returns a frame in which only the field at p is set.
func (p place) with(text string) *petrelv1.ClientFrame {
	f := &petrelv1.ClientFrame{Id: 7}
	m := f.ProtoReflect()
	for i, fd := range p {
		switch {
		case i == len(p)-1 && fd.IsList():
			l := m.Mutable(fd).List()
			l.Append(protoreflect.ValueOfString("valid"))
			l.Append(protoreflect.ValueOfString(text))
		case i == len(p)-1:
			m.Set(fd, protoreflect.ValueOfString(text))
		case fd.IsList():
			m = m.Mutable(fd).List().AppendMutable().Message()
		default:
			m = m.Mutable(fd).Message()
		}
	}
	return f
}

// Every text of every frame is checked. The test finds the fields in the schema, so
// it also covers fields that a later version adds. Spec: P-2.4.
func TestInvalidUTF8InAnyTextIsRefused(t *testing.T) {
	places := texts(t, (&petrelv1.ClientFrame{}).ProtoReflect().Descriptor(), nil)
	if len(places) < 18 {
		t.Fatalf("found %d texts in the schema", len(places))
	}
	bad := []string{"\xff", "a\x80b", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xaf"}
	for _, p := range places {
		for _, c := range codecs {
			good := p.with("海燕 🐦 \u0000")
			if f, code := decode(c, encode(t, c, good)); code != "" || !proto.Equal(f, good) {
				t.Errorf("%s as %s: %v %s, want %v", p, c, f, code, good)
			}
			for _, text := range bad {
				mark := "ABCDEFGH"[:len(text)] // of the same length: protobuf writes the length before the text
				b := bytes.Replace(encode(t, c, p.with(mark)), []byte(mark), []byte(text), 1)
				if _, code := decode(c, b); code != im.CodeBadUTF8 {
					t.Errorf("%s = %q as %s: %q, want %s", p, text, c, code, im.CodeBadUTF8)
				}
			}
		}
	}
}

func TestBytesNeedNotBeUTF8(t *testing.T) {
	f := &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{Conv: "c", Body: &petrelv1.Send_Data{Data: []byte{0xff, 0, 0xc0}}}}}
	for _, c := range codecs {
		if got, code := decode(c, encode(t, c, f)); code != "" || !proto.Equal(got, f) {
			t.Errorf("as %s: %v %s", c, got, code)
		}
	}
}

func TestUnknownKeysAndFieldsAreIgnored(t *testing.T) {
	want := &petrelv1.ClientFrame{Id: 3, Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{Conv: "c", After: 4}}}
	for _, text := range []string{
		`{"id":"3","history":{"conv":"c","after":"4"},"later":1}`,
		`{"later":{"deep":[{"x":null},"history"]},"id":3,"history":{"new":[[]],"conv":"c","after":4,"":{}}}`,
		` {"history":{"conv":"c","after":"4","before":null,"limit":0},"trace_id":"","id":"3"} `,
	} {
		if got, code := decode(wire.JSON, []byte(text)); code != "" || !proto.Equal(got, want) {
			t.Errorf("%s is read as %v %s", text, got, code)
		}
	}
	b := encode(t, wire.Proto, want)
	b = protowire.AppendString(protowire.AppendTag(b, 1000, protowire.BytesType), "later")
	b = protowire.AppendVarint(protowire.AppendTag(b, 1001, protowire.VarintType), 5)
	b = protowire.AppendTag(protowire.AppendTag(b, 1002, protowire.StartGroupType), 1002, protowire.EndGroupType)
	got, code := decode(wire.Proto, b)
	if code != "" || got.Id != 3 || got.GetHistory().GetConv() != "c" {
		t.Errorf("protobuf with unknown fields is read as %v %s", got, code)
	}
}

// Spec: P-2.3.
func TestMalformedFramesAreRefused(t *testing.T) {
	send := encode(t, wire.Proto, &petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{Conv: "c", Body: &petrelv1.Send_Text{Text: "hello"}}}})
	for _, c := range []struct {
		name  string
		codec wire.Codec
		b     string
	}{
		{"empty JSON", wire.JSON, ""}, {"empty protobuf", wire.Proto, ""}, {"no body", wire.JSON, `{"id":"1"}`}, {"null body", wire.JSON, `{"id":"1","ping":null}`},
		{"body of a later version", wire.JSON, `{"id":"1","later":{}}`}, {"body of a later version in protobuf", wire.Proto, "\x08\x01\xfa\x3e\x00"},
		{"two bodies", wire.JSON, `{"ping":{},"pong":{}}`}, {"the same key twice", wire.JSON, `{"ping":{},"ping":{}}`}, {"both spellings", wire.JSON, `{"send":{"clientMsgId":"a","client_msg_id":"b"}}`},
		{"array", wire.JSON, `[]`}, {"text behind it", wire.JSON, `{"ping":{}}{}`}, {"cut", wire.JSON, `{"ping":{}`}, {"number as text", wire.JSON, `{"id":"x","ping":{}}`},
		{"negative id", wire.JSON, `{"id":-1,"ping":{}}`}, {"fraction", wire.JSON, `{"id":1.5,"ping":{}}`}, {"id too large", wire.JSON, `{"id":"18446744073709551616","ping":{}}`},
		{"text as number", wire.JSON, `{"send":{"conv":5}}`}, {"not base64", wire.JSON, `{"send":{"data":"%"}}`}, {"half a surrogate", wire.JSON, `{"send":{"text":"\ud800"}}`},
		{"control character", wire.JSON, "{\"send\":{\"text\":\"\n\"}}"}, {"BOM", wire.JSON, "\ufeff{\"ping\":{}}"}, {"NUL", wire.JSON, "{\"ping\":{}}\x00"},
		{"cut protobuf", wire.Proto, string(send[:len(send)-1])}, {"field 0", wire.Proto, "\x00\x01"}, {"wire type 7", wire.Proto, "\x0f"}, {"end of no group", wire.Proto, "\x0c"},
		{"length beyond the frame", wire.Proto, "\x1a\x7f"}, {"endless length", wire.Proto, "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}, {"endless number", wire.Proto, "\x08" + strings.Repeat("\xff", 11)},
		{"JSON as protobuf", wire.Proto, `{"ping":{}}`},
	} {
		if f, code := decode(c.codec, []byte(c.b)); code != im.CodeBadFrame {
			t.Errorf("%s: %v %q, want %s", c.name, f, code, im.CodeBadFrame)
		}
	}
}

// Spec: P-2.3: at most 16 levels.
// The decoder says of half a pair only that the frame ends too early.
func TestHalfASurrogatePairIsNamed(t *testing.T) {
	for frame, want := range map[string]string{
		`{"id":"1","send":{"user":"bob","text":"a\ud800"}}`:                       "send.text",
		` {"id":"1","send":{"user":"bob","text":"a\udc00\ud800"}}`:                "send.text",
		`{"id":"1","send":{"clientMsgId":"\ud800x","user":"bob"}}`:                "send.clientMsgId",
		`{"id":"1","send":{"user":"bob","edit":{"text":"\\\ud800\u0041"}}}`:       "send.edit.text",
		`{"id":"1","send":{"user":"bob","text":"\\ud800 \ud83d\ude00","x":7 }`:    "",
		`{"id":"1","send":{"user":"bob","text":"\ud83d\ude00","after":"\ud800"}}`: "send.after",
	} {
		err := wire.Decode(wire.JSON, []byte(frame), &petrelv1.ClientFrame{})
		if err == nil {
			t.Errorf("%s: it was taken", frame)
			continue
		}
		if named := strings.Contains(err.Error(), "half of a surrogate pair"); named != (want != "") || named && !strings.Contains(err.Error(), "the text in "+want+" has") {
			t.Errorf("%s: got %v, want the field %q", frame, err, want)
		}
	}
	for _, frame := range []string{`{"id":"1","send":{"user":"bob","text":"\\ud800"}}`, `{"id":"1","send":{"user":"bob","text":"\ud83d\ude00"}}`} {
		if err := wire.Decode(wire.JSON, []byte(frame), &petrelv1.ClientFrame{}); err != nil {
			t.Errorf("%s: %v", frame, err)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		nested := func(levels int) []byte {
			shut := map[string]string{"[": "]", `{"a":`: "}"}[open]
			return []byte(`{"ping":{},"later":` + strings.Repeat(open, levels-1) + "1" + strings.Repeat(shut, levels-1) + "}")
		}
		if _, code := decode(wire.JSON, nested(16)); code != "" {
			t.Errorf("16 levels of %s: %s", open, code)
		}
		for _, levels := range []int{17, 18, 100, 30_000} {
			if _, code := decode(wire.JSON, nested(levels)); code != im.CodeBadFrame {
				t.Errorf("%d levels of %s: %q, want %s", levels, open, code, im.CodeBadFrame)
			}
		}
	}
	// An unknown field can nest deeply only as a protobuf group.
	groups := bytes.Repeat([]byte{0xfb, 0x3e}, 30_000)
	if _, code := decode(wire.Proto, groups); code != im.CodeBadFrame {
		t.Errorf("30,000 open groups: %q, want %s", code, im.CodeBadFrame)
	}
}

// vectors returns the golden client frames of one codec.
func vectors(t testing.TB, c wire.Codec) map[string][]byte {
	names, err := filepath.Glob("../../proto/vectors/*-client-*" + map[wire.Codec]string{wire.JSON: ".json", wire.Proto: ".hex"}[c])
	if err != nil || len(names) < 10 {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if c == wire.Proto {
			if b, err = hex.DecodeString(strings.Fields(string(b))[0]); err != nil {
				t.Fatal(err)
			}
		}
		all[strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))] = b
	}
	return all
}

func TestVectorsOfClientsAreTheSameFrameInBothCodecs(t *testing.T) {
	fromProto := vectors(t, wire.Proto)
	for name, b := range vectors(t, wire.JSON) {
		one, code := decode(wire.JSON, b)
		two, code2 := decode(wire.Proto, fromProto[name])
		if code != "" || code2 != "" {
			t.Errorf("%s: %q and %q", name, code, code2)
			continue
		}
		if strings.Contains(name, "unknown") {
			continue // protobuf keeps unknown fields, JSON drops them
		}
		if !proto.Equal(one, two) {
			t.Errorf("%s: %v as JSON, %v as protobuf", name, one, two)
		}
	}
}

// No input panics. A frame that Decode accepts is the same frame after it was
// encoded and decoded again, and the standard protobuf decoder reads the same. IDOf reads
// the id that Decode reads.
func FuzzDecode(f *testing.F) {
	for i, c := range codecs {
		for _, b := range vectors(f, c) {
			f.Add(b, i == 1)
		}
	}
	f.Add([]byte("\x08\x07\x12\x02\xff\xff"), true)
	f.Fuzz(func(t *testing.T, b []byte, binary bool) {
		c := wire.JSON
		if binary {
			c = wire.Proto
		}
		kept := bytes.Clone(b)
		got, code := decode(c, b)
		id := wire.IDOf(c, b)
		if !bytes.Equal(b, kept) {
			t.Fatal("Decode or IDOf changes its input")
		}
		if code == "" && id != 0 && id != got.Id {
			t.Errorf("%q: id %d, decoded as %d", b, id, got.Id)
		}
		switch code {
		case im.CodeBadFrame, im.CodeBadUTF8:
			return
		case "":
		default:
			t.Fatalf("code %s", code)
		}
		if got.Body == nil {
			t.Fatal("a frame without a body is taken")
		}
		for _, again := range codecs {
			if f, code := decode(again, encode(t, again, got)); code != "" || again == c && !proto.Equal(f, got) {
				t.Fatalf("%v, written as %s, is read as %v %s", got, again, f, code)
			}
		}
		if binary {
			want := &petrelv1.ClientFrame{}
			if proto.Unmarshal(b, want) != nil {
				return // it may be stricter about unknown fields
			}
			again := &petrelv1.ClientFrame{} // the number of an unknown field may be longer than it needs to be
			m, err := proto.Marshal(got)
			if err == nil {
				err = proto.Unmarshal(m, again)
			}
			if err != nil || !proto.Equal(again, want) {
				t.Fatalf("%x is %v, to the schema %v", b, got, want)
			}
		}
	})
}
