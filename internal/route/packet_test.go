package route

import (
	"testing"

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
