package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A frame with one send that names no conversation is refused as a whole, whatever stands
// before it.
func TestSendsOfAnotherNodeNameTheirConversations(t *testing.T) {
	id := im.NewGroupID()
	sound := &routepb.Send{Conv: id[:], Entry: &petrelv1.Message{Body: &petrelv1.Message_Members{}}}
	for _, size := range []int{0, 1, 15, 16, 17} {
		b, err := (&routepb.Sends{Sends: []*routepb.Send{sound, {Conv: make([]byte, size)}}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if sends, err := readSends(b); (err == nil) != (size == len(im.ConvID{})) {
			t.Errorf("an id of %d bytes: %d sends, %v", size, len(sends), err)
		}
	}
}

// A stream takes no frame above its limit, however many sends wait for a node.
func TestFramesOfAPacketAreBounded(t *testing.T) {
	const sends, size = 100, 10_000
	var p packet
	var want, got []uint64
	for i := range uint64(sends) {
		s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}}
		s.Entry.ClientMsgId, s.Entry.Body = fmt.Sprint(i), &petrelv1.Message_Text{Text: strings.Repeat("x", size)}
		p.add(s, i)
		want = append(want, i)
	}
	for _, f := range p.frames {
		if len(f) > packetSize+1024 { // and the heads of its sends
			t.Errorf("a frame has %d bytes, want at most %d", len(f), packetSize)
		}
		read, err := readSends(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range read {
			got = append(got, s.Ticket)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the frames have the sends %v", got)
	}
	if most := sends*size/(packetSize/2) + 1; len(p.frames) > most {
		t.Errorf("%d frames, want at most %d", len(p.frames), most)
	}
}
