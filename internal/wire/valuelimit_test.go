package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// inProto is a frame in protobuf: a field within others, outermost first.
func inProto(inner []byte, fields ...protowire.Number) []byte {
	for i := len(fields) - 1; i >= 0; i-- {
		inner = append(protowire.AppendVarint(protowire.AppendTag(nil, fields[i], protowire.BytesType), uint64(len(inner))), inner...)
	}
	return append([]byte{8, 7}, inner...) // id 7
}

// A frame of many values is refused before they are decoded: it costs no memory, wherever
// they stand. It has an id, so it is answered. Spec: P-2.3.
func TestFrameOfManyValuesIsNotDecoded(t *testing.T) {
	const n = 100_000
	list := `[` + strings.Repeat(`"",`, n) + `""]`
	text := strings.Repeat("\x0a\x00", n) // field 1, an empty text
	fields := (&petrelv1.ClientFrame{}).ProtoReflect().Descriptor().Fields()
	focus, send := fields.ByName("focus").Number(), fields.ByName("send").Number()
	rel := (&petrelv1.Send{}).ProtoReflect().Descriptor().Fields().ByName("rel").Number()
	mentions := (&petrelv1.Relations{}).ProtoReflect().Descriptor().Fields().ByName("mentions").Number()
	for _, c := range []struct {
		name  string
		codec wire.Codec
		frame []byte
	}{
		{"focus", wire.JSON, []byte(`{"id":"7","focus":{"convs":` + list + `}}`)},
		{"mentions", wire.JSON, []byte(`{"id":"7","send":{"user":"bob","rel":{"mentions":` + list + `}}}`)},
		{"unknown objects", wire.JSON, []byte(`{"ping":{},"x":[` + strings.Repeat(`{},`, n) + `{}],"id":"7"}`)},
		{"unknown keys", wire.JSON, []byte(`{` + strings.Repeat(`"x":1,`, n) + `"id":"7","ping":{}}`)},
		{"nested", wire.JSON, []byte(`{"id":"7","ping":{},"x":` + strings.Repeat(`[`, n) + strings.Repeat(`]`, n) + `}`)},
		{"focus", wire.Proto, inProto([]byte(text), focus)},
		{"mentions", wire.Proto, inProto([]byte(strings.Repeat(string(protowire.AppendTag(nil, mentions, protowire.BytesType))+"\x00", n)), send, rel)},
		{"unknown fields", wire.Proto, append(inProto(nil, fields.ByName("ping").Number()), strings.Repeat("\xf8\x07\x01", n)...)},
	} {
		var err *im.Error
		allocs := testing.AllocsPerRun(1, func() { err = wire.Decode(c.codec, c.frame, &petrelv1.ClientFrame{}) })
		if err == nil || err.Code != im.CodeBadFrame || !strings.Contains(err.Error(), "4096 values") || allocs > 10 {
			t.Errorf("%s in codec %v: %v, with %.0f allocations", c.name, c.codec, err, allocs)
		}
		if id := wire.IDOf(c.codec, c.frame); id != 7 {
			t.Errorf("%s in codec %v: id %d", c.name, c.codec, id)
		}
	}
}

// The frames that clients write are far from the bound: commas and brackets of a text are no values.
func TestFrameOfManyBytesIsDecoded(t *testing.T) {
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("gKQtYt3wSdI4pbTb%05d", i)
	}
	text := strings.Repeat(`,[{\"`, 40_000)
	for _, f := range []*petrelv1.ClientFrame{
		{Id: 7, Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{Convs: ids}}},
		{Id: 7, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{User: "bob", Body: &petrelv1.Send_Text{Text: text}}}},
		{Id: 7, Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: "m", Request: &petrelv1.Call_Json{Json: text}}}},
		{Id: 7, Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: "m", Request: &petrelv1.Call_Proto{Proto: []byte(strings.Repeat("\x0a\x00", 40_000))}}}},
	} {
		inJSON, err := protojson.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		inProto, err := f.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		for codec, b := range map[wire.Codec][]byte{wire.JSON: inJSON, wire.Proto: inProto} {
			if err := wire.Decode(codec, b, &petrelv1.ClientFrame{}); err != nil {
				t.Errorf("%T in codec %v: %v", f.Body, codec, err)
			}
		}
	}
	most := `{"id":"7","focus":{"convs":["` + strings.Repeat(`g","`, wire.MaxValues-4) + `g"]}}` // beside two objects, a list, and the comma before it
	if err := wire.Decode(wire.JSON, []byte(most), &petrelv1.ClientFrame{}); err != nil {
		t.Errorf("as many values as there may be: %v", err)
	}
	if err := wire.Decode(wire.JSON, []byte(strings.Replace(most, "g", `g","g`, 1)), &petrelv1.ClientFrame{}); err == nil {
		t.Error("one value more is taken")
	}
}
