package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Spec: P-7.4.
func TestLargeFramesAreAnnounced(t *testing.T) {
	eachEncoding(t, func(t *testing.T, e wire.Encoding) {
		if e.Framing != wire.WebSocket {
			return
		}
		content := func(f *petrelv1.ServerFrame) int { // bytes without the framing
			return len(wire.AppendFrame(nil, wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, f)) - 4
		}
		if e.Codec == wire.JSON {
			content = func(f *petrelv1.ServerFrame) int {
				return len(wire.AppendFrame(nil, wire.Encoding{Codec: wire.JSON, Framing: wire.TCP}, f)) - 1
			}
		}
		var frames, want []*petrelv1.ServerFrame
		empty := content(message(0))
		for _, n := range []int{0, 100, wire.LargeFrame - empty - 20, wire.LargeFrame, 200, 20000, 70000, 1} {
			f := message(n)
			frames = append(frames, f)
			if bytes := content(f); bytes > wire.LargeFrame {
				want = append(want, &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Large{Large: &petrelv1.Large{Bytes: uint32(bytes)}}})
			}
			want = append(want, f)
		}
		if announced := len(want) - len(frames); announced != 3 {
			t.Fatalf("%d frames are large", announced)
		}
		var b []byte
		for _, f := range frames {
			b = wire.AppendFrame(b, e, f)
		}
		before := bytes.Clone(b)
		got := read(t, e, wire.AnnounceLarge(b, e.Codec))
		if !bytes.Equal(b, before) {
			t.Error("what others may have too was changed")
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !proto.Equal(got[i], want[i]) {
				t.Errorf("frame %d is %.100v, want %.100v", i, got[i], want[i])
			}
		}
		all := wire.AnnounceLarge(b, e.Codec)
		if again := wire.AnnounceLarge(all, e.Codec); &again[0] != &all[0] {
			t.Error("frames that are announced were copied, or announced again")
		}
		if got := read(t, e, wire.AnnounceLarge(append(bytes.Clone(all), b...), e.Codec)); len(got) != 2*len(want) {
			t.Errorf("%d frames after some that are announced, want %d", len(got), 2*len(want))
		}
		small := wire.AppendFrame(nil, e, message(100))
		if same := wire.AnnounceLarge(small, e.Codec); &same[0] != &small[0] {
			t.Error("small frames were copied")
		}
	})
}

func message(n int) *petrelv1.ServerFrame {
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{Message: strings.Repeat("m", n)}}}
}
