package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// leftToProtojson lists the fields that are not read or not written without
// reflection.
var leftToProtojson = []protoreflect.FullName{"petrel.v1.InboxSettings.values"}

// oneField returns frames like m in which one field is set, one frame for each field
// that the schema has anywhere in m.
func oneField(m protoreflect.Message) (frames []proto.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if slices.Contains(leftToProtojson, fd.FullName()) {
			continue
		}
		for _, v := range fieldValues(m, fd) {
			f := m.New()
			if fd.IsList() {
				l := f.Mutable(fd).List()
				l.Append(v)
				l.Append(v)
			} else {
				f.Set(fd, v)
			}
			frames = append(frames, f.Interface())
		}
	}
	return frames
}

// fieldValues returns values of a field of m, or of an element if it is a list.
func fieldValues(m protoreflect.Message, fd protoreflect.FieldDescriptor) (all []protoreflect.Value) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return []protoreflect.Value{protoreflect.ValueOfString("海燕 \"🐦\"\n\\/\b\f\r\t\u0000\u001f\u007f\u2028\ufffd<&>")}
	case protoreflect.BytesKind:
		return []protoreflect.Value{protoreflect.ValueOfBytes([]byte{0xff, 0, 0xc0, 0xfe}), protoreflect.ValueOfBytes([]byte("abc"))}
	case protoreflect.BoolKind:
		return []protoreflect.Value{protoreflect.ValueOfBool(true)}
	case protoreflect.Uint32Kind:
		return []protoreflect.Value{protoreflect.ValueOfUint32(1), protoreflect.ValueOfUint32(1<<32 - 1)}
	case protoreflect.Uint64Kind:
		return []protoreflect.Value{protoreflect.ValueOfUint64(1), protoreflect.ValueOfUint64(1<<64 - 1)}
	case protoreflect.EnumKind:
		return []protoreflect.Value{protoreflect.ValueOfEnum(1), protoreflect.ValueOfEnum(-7)}
	case protoreflect.MessageKind:
		of := m.NewField(fd)
		if fd.IsList() {
			of = of.List().NewElement()
		}
		all = append(all, of)
		for _, f := range oneField(of.Message()) {
			all = append(all, protoreflect.ValueOfMessage(f.ProtoReflect()))
		}
	}
	return all // none: the test says that the field was not seen
}

// seen counts the fields of a message and of those in it.
func seen(m protoreflect.Message, fields map[protoreflect.FullName]bool) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		fields[fd.FullName()] = true
		if fd.IsList() && fd.Kind() == protoreflect.MessageKind {
			for i := range v.List().Len() {
				seen(v.List().Get(i).Message(), fields)
			}
		} else if fd.Kind() == protoreflect.MessageKind && !fd.IsMap() {
			seen(v.Message(), fields)
		}
		return true
	})
}

// schema lists the fields of a message and of those in it.
func schema(m protoreflect.MessageDescriptor, fields map[protoreflect.FullName]bool) {
	for i := range m.Fields().Len() {
		fd := m.Fields().Get(i)
		fields[fd.FullName()] = true
		if fd.Kind() == protoreflect.MessageKind && !fd.IsMap() {
			schema(fd.Message(), fields)
		}
	}
}

// fieldFrames is oneField of m. It fails if a field of the schema is in no frame.
func fieldFrames(t *testing.T, m proto.Message) []proto.Message {
	t.Helper()
	frames := oneField(m.ProtoReflect())
	got, want := map[protoreflect.FullName]bool{}, map[protoreflect.FullName]bool{}
	for _, f := range frames {
		seen(f.ProtoReflect(), got)
	}
	schema(m.ProtoReflect().Descriptor(), want)
	for name := range want {
		if !got[name] && !slices.Contains(leftToProtojson, name) {
			t.Errorf("no value of %s is tried", name)
		}
	}
	return frames
}

func TestEveryFieldIsReadWithoutReflection(t *testing.T) {
	for _, want := range fieldFrames(t, &petrelv1.ClientFrame{}) {
		for _, o := range []protojson.MarshalOptions{{}, {UseProtoNames: true}, {Multiline: true}, {EmitUnpopulated: true}} {
			b, err := o.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			got := &petrelv1.ClientFrame{}
			if !readJSON(string(b), got) || !proto.Equal(got, want) {
				t.Errorf("%s is read as %v", b, got)
			}
		}
	}
}

func TestEveryFieldIsWrittenWithoutReflection(t *testing.T) {
	for _, m := range fieldFrames(t, &petrelv1.ServerFrame{}) {
		if w := (jsonWriter{}); !sameJSON(t, &w, m.(*petrelv1.ServerFrame)) || w.refused {
			t.Errorf("%v is refused", m)
		}
	}
}

// sameJSON compares what w writes of f with protojson. It returns false if protojson
// cannot write f.
func sameJSON(t *testing.T, w *jsonWriter, f *petrelv1.ServerFrame) bool {
	t.Helper()
	b, err := protojson.Marshal(f)
	w.writeServerFrame(f)
	if err != nil {
		if !w.refused {
			t.Errorf("%v is written as %q; protojson says %v", f, w.b, err)
		}
		return false
	}
	var want bytes.Buffer
	if err := json.Compact(&want, b); err != nil { // protojson adds spaces at random
		t.Fatal(err)
	}
	if !w.refused && !bytes.Equal(w.b, want.Bytes()) {
		t.Errorf("%v is written as\n%s, want\n%s", f, w.b, want.Bytes())
	}
	return true
}

// jsonCases are frames at the edges of the format. taken says that they are read
// without reflection; protojson decides the others.
var jsonCases = []struct {
	taken bool
	frame string
}{
	{true, `{}`}, {true, " {\t\r\n} "}, {true, `{"id":"7","send":{"user":"bob","clientMsgId":"k","after":"0","text":"hello"}}`},
	{true, `{"id":7,"send":{"conv":"c","client_msg_id":"k","after":12,"type":"t","data":"AP/A"}}`}, {true, `{ "send" : { "text" : "" } , "id" : 0 }`},
	{true, `{"focus":{"convs":["a","b"],"all":true}}`}, {true, `{"focus":{"convs":[],"all":false}}`}, {true, `{"focus":{"convs": [ "a" , "b" ] }}`},
	{true, `{"send":{"edit":{"target":5,"text":"x"},"text":null}}`}, {true, `{"send":null,"ping":{}}`}, {true, `{"id":null,"ping":{}}`}, {true, `{"id":"1","hello":{"versionMin":1,"version_max":"1"}}`},

	// Numbers.
	{true, `{"id":18446744073709551615}`}, {false, `{"id":18446744073709551616}`}, {false, `{"id":"18446744073709551616"}`}, {true, `{"hello":{"versionMin":4294967295}}`},
	{false, `{"hello":{"versionMin":4294967296}}`}, {false, `{"id":1e3}`}, {false, `{"id":"1E+3"}`}, {false, `{"id":1.0}`}, {false, `{"id":15e-1}`}, {false, `{"id":1e20}`}, {false, `{"id":-0}`},
	{false, `{"id":-1}`}, {false, `{"id":01}`}, {false, `{"id":"01"}`}, {false, `{"id":"00"}`}, {true, `{"id":"0"}`}, {false, `{"id":""}`}, {false, `{"id":" 1"}`}, {false, `{"id":"1 "}`},
	{false, `{"id":"\u0031"}`}, {false, `{"id":1x}`}, {false, `{"id":1_000}`}, {false, `{"id":"1_000"}`}, {false, `{"id":0x1}`}, {false, `{"id":+1}`}, {false, `{"id":true}`}, {false, `{"id":{}}`}, {false, `{"id":"1`}, {false, `{"id":"1}`},

	// Texts.
	{true, `{"send":{"text":"\"\\\/\b\f\n\r\t"}}`}, {true, `{"send":{"text":"\u6d77\u71D5 \ud83d\ude00"}}`}, {true, `{"send":{"text":"\u0000\u001f"}}`}, {true, "{\"send\":{\"text\":\"\u007f\u2028\ufffd\"}}"},
	{true, `{"send":{"text":"\ufffd"}}`}, {true, `{"send":{"text":"a\\"}}`}, {false, `{"send":{"text":"\ud800"}}`}, {false, `{"send":{"text":"\udc00\ud800"}}`}, {false, `{"send":{"text":"\ud83d\u0041"}}`},
	{false, `{"send":{"text":"\ud83d\\ude00"}}`}, {false, `{"send":{"text":"\ud83d`}, {false, `{"send":{"text":"\x41"}}`}, {false, `{"send":{"text":"\u004"}}`}, {false, `{"send":{"text":"\u00g1"}}`}, {false, `{"send":{"text":"\u+041"}}`},
	{false, `{"send":{"text":"\U0041"}}`}, {false, "{\"send\":{\"text\":\"\n\"}}"}, {false, "{\"send\":{\"text\":\"\\n\x1f\"}}"}, {false, "{\"send\":{\"text\":\"\x00\"}}"}, {false, `{"send":{"text":'a'}}`},
	{false, `{"send":{"text":5}}`}, {false, `{"send":{"text":"a}}`}, {false, `{"send":{"text":"a\`}, {false, `{"send":{"text":"a\"}}`}, {false, "{\"send\":{\"text\":\"\xff\"}}"}, {false, "{\"send\":{\"text\":\"\xed\xa0\x80\"}}"},

	// Bytes.
	{true, `{"send":{"data":""}}`}, {true, `{"send":{"data":"YQ=="}}`}, {true, `{"send":{"data":"YQ"}}`}, {true, `{"send":{"data":"-_8="}}`}, {true, `{"send":{"data":"+/8"}}`}, {true, `{"send":{"data":"Y\u0051\n"}}`},
	{false, `{"send":{"data":"+_8="}}`}, {false, `{"send":{"data":"YQ="}}`}, {false, `{"send":{"data":"Y"}}`}, {false, `{"send":{"data":"YQ==="}}`}, {false, `{"send":{"data":"%"}}`}, {false, `{"send":{"data":5}}`},

	// Keys.
	{false, `{"later":1,"ping":{}}`}, {false, `{"ping":{},"later":{"a":[1,"x",null,{}]}}`}, {false, `{"later":[1,],"ping":{}}`}, {false, `{"":1,"ping":{}}`}, {false, `{"[a.b]":1,"ping":{}}`}, {false, `{"@type":"x","ping":{}}`},
	{false, `{"p\u0069ng":{}}`}, {false, `{"Ping":{}}`}, {false, `{"ping" :{} , "id"}`}, {false, `{"ping"}`}, {false, `{ping:{}}`}, {false, `{"ping":}`}, {false, `{"pi`}, {false, "{\"ping\n\":{}}"}, {false, `{"ping ":{}}`}, {false, `{" ping":{}}`},
	{false, `{"ping":{},"ping":{}}`}, {false, `{"ping":{},"pong":{}}`}, {false, `{"ping":null,"ping":{}}`}, {true, `{"ping":null,"pong":{}}`}, {true, `{"pong":{},"ping":null}`}, {false, `{"id":1,"id":1}`}, {false, `{"id":null,"id":null}`},
	{false, `{"send":{"text":"a","data":"YQ"}}`}, {false, `{"send":{"clientMsgId":"a","client_msg_id":"a"}}`}, {false, `{"focus":{"convs":["a"],"convs":["b"]}}`}, {false, `{"focus":{"convs":null,"convs":["b"]}}`},

	// Structure.
	{false, ``}, {false, ` `}, {false, `null`}, {false, `[]`}, {false, `"a"`}, {false, `{`}, {false, `{"ping":{}`}, {false, `{"ping":{}}}`}, {false, `{"ping":{}}{}`}, {false, `{"ping":{}},`}, {false, `{"ping":{}} null`}, {false, "{\"ping\":{}}\x00"},
	{false, "\ufeff{\"ping\":{}}"}, {false, `{,"ping":{}}`}, {false, `{"ping":{},}`}, {false, `{"ping":{},,"id":1}`}, {false, `{"ping":{} "id":1}`}, {false, `{"ping"::{}}`}, {false, `{"ping":[]}`}, {false, `{"ping":"x"}`}, {false, `{"ping":nul}`},
	{false, `{"ping":nullx}`}, {false, `{"ping":Null}`}, {false, `{"focus":{"all":truex}}`}, {false, `{"focus":{"all":"true"}}`}, {false, `{"focus":{"all":1}}`}, {false, `{"focus":{"all":tru`}, {false, `{"focus":{"convs":["a",]}}`},
	{false, `{"focus":{"convs":[,"a"]}}`}, {false, `{"focus":{"convs":["a" "b"]}}`}, {false, `{"focus":{"convs":["a"}}`}, {false, `{"focus":{"convs":"a"}}`}, {false, `{"focus":{"convs":[null]}}`}, {false, `{"focus":{"convs":{}}}`}, {false, `{"focus":{"convs":[`},
	{false, "{\u00a0\"ping\":{}}"}, {false, "{\v\"ping\":{}}"}, {false, `{"ping":{}/**/}`}, {false, `{"ping":{"later":` + strings.Repeat("[", 14) + strings.Repeat("]", 14) + `}}`}, {false, `{"ping":{"later":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}}`},
}

func TestReaderTakesUsualFrames(t *testing.T) {
	for _, c := range jsonCases {
		if got := utf8.ValidString(c.frame) && readJSON(c.frame, &petrelv1.ClientFrame{}); got != c.taken {
			t.Errorf("%s: taken %v, want %v", c.frame, got, c.taken)
		}
	}
}

// Decode takes the same frames as protojson, and as the same frames. It keeps nothing
// of its input.
func FuzzDecodeJSON(f *testing.F) {
	for _, c := range jsonCases {
		f.Add([]byte(c.frame))
	}
	for _, b := range vectorFiles(f, "*-client-*.json") {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, got := &petrelv1.ClientFrame{}, &petrelv1.ClientFrame{}
		refused := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 16}).Unmarshal(b, want)
		valid := utf8.Valid(b)
		if fast := (&petrelv1.ClientFrame{}); valid && readJSON(string(b), fast) && (refused != nil || !proto.Equal(fast, want)) {
			t.Errorf("%q is read as %v; protojson says %v %v", b, fast, want, refused)
		}
		read := bytes.Clone(b)
		err := Decode(JSON, read, got)
		if !bytes.Equal(read, b) {
			t.Errorf("Decode changed %q into %q", b, read)
		}
		switch {
		case !valid:
			if err == nil || err.Code != im.CodeBadUTF8 {
				t.Errorf("%q: %v, want %s", b, err, im.CodeBadUTF8)
			}
		case refused != nil || want.Body == nil:
			if err == nil || err.Code != im.CodeBadFrame {
				t.Errorf("%q is read as %v %v; protojson says %v %v", b, got, err, want, refused)
			}
		case err != nil || !proto.Equal(got, want):
			t.Errorf("%q is read as %v %v, want %v", b, got, err, want)
		}
	})
}

// A frame is written as protojson writes it.
func FuzzWriteJSON(f *testing.F) {
	for _, b := range vectorFiles(f, "*-server-*.hex") {
		b, err := hex.DecodeString(strings.Fields(string(b))[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, m := range oneField((&petrelv1.ServerFrame{}).ProtoReflect()) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x22\x04\x12\x02a\xff")) // a text that is not UTF-8
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &petrelv1.ServerFrame{}
		whole := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m) == nil // JSON has no unknown fields
		if !whole {
			m = &petrelv1.ServerFrame{} // the generated decoder also takes texts that are not UTF-8
			if m.UnmarshalVT(b) != nil {
				return
			}
		}
		var w jsonWriter
		known := sameJSON(t, &w, m)
		if known && w.refused {
			fields := map[protoreflect.FullName]bool{}
			seen(m.ProtoReflect(), fields)
			if !slices.ContainsFunc(leftToProtojson, func(name protoreflect.FullName) bool { return fields[name] }) {
				t.Errorf("%v is refused", m)
			}
		}
		got := &petrelv1.ServerFrame{}
		if err := protojson.Unmarshal(AppendFrame(nil, Encoding{JSON, TCP}, m), got); err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		if known && whole && !proto.Equal(got, m) || !known && got.GetError().GetCode() != string(im.CodeInternal) {
			t.Errorf("%v is read back as %v", m, got)
		}
	})
}

func vectorFiles(t testing.TB, pattern string) (all [][]byte) {
	names, err := filepath.Glob("../../proto/vectors/" + pattern)
	if err != nil || len(names) < 10 {
		t.Fatalf("%d vectors, %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}
