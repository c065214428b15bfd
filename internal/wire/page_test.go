package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A page is the same in a frame and as the answer of a method, and protojson reads it. A
// text of 48 KiB that JSON makes six times as long is written without being copied again and
// again.
func TestPageOfControlCharacters(t *testing.T) {
	text := strings.Repeat("\x01\"é\n", 12<<10)
	page := &petrelv1.HistoryPage{Conv: "g1", Head: 2, Messages: []*petrelv1.Message{
		{Conv: "g1", Seq: 1, From: "alice", Body: &petrelv1.Message_Text{Text: text}},
		{Conv: "g1", Seq: 2, From: "alice", Body: &petrelv1.Message_Text{Text: "x\x01" + text}},
	}}
	b, ok := wire.AppendPage([]byte("before"), page)
	if !ok || string(b[:6]) != "before" {
		t.Fatalf("%t, %.20q", ok, b)
	}
	var got petrelv1.HistoryPage
	if err := protojson.Unmarshal(b[6:], &got); err != nil || !proto.Equal(&got, page) {
		t.Errorf("protojson reads something else: %v", err)
	}
	if want := len(text) + wire.Escapes(text) + 2; want != len(jsonText(text)) {
		t.Errorf("the text takes %d bytes, want %d", len(jsonText(text)), want)
	}
	if allocs := testing.AllocsPerRun(3, func() { wire.AppendPage(nil, page) }); allocs > 8 {
		t.Errorf("the buffer of a page of %d bytes is made %.0f times", len(b), allocs)
	}
	for _, m := range []proto.Message{&petrelv1.Ack{}, &petrelv1.HistoryPage{Conv: "\xff"}} {
		if b, ok := wire.AppendPage([]byte("x"), m); ok || string(b) != "x" {
			t.Errorf("%T: %t %q", m, ok, b)
		}
	}
}

// jsonText is a text as a frame has it.
func jsonText(s string) []byte {
	b, _ := wire.AppendPage(nil, &petrelv1.HistoryPage{Conv: s})
	return b[len(`{"conv":`) : len(b)-1]
}
