package petrel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// BenchmarkSend is what a message costs its sender's client, from the draft to the ack, with
// the encoding of both frames and of the rows, and without sockets and disk. 100
// conversations take turns, and each message has its ack before the next one.
func BenchmarkSend(b *testing.B) {
	for _, json := range []bool{true, false} {
		for _, stored := range []bool{false, true} {
			b.Run(fmt.Sprintf("json=%t/store=%t", json, stored), func(b *testing.B) { benchmarkSend(b, json, stored) })
		}
	}
}

func benchmarkSend(b *testing.B, json, stored bool) {
	ids := 0
	k := newCore(coreOptions{url: "ws://a", device: "d", client: "bench", json: json, stored: stored, keep: defaultKeep, newest: defaultNewest},
		func() float64 { return 0.5 }, func() string { ids++; return fmt.Sprintf("id%030d", ids) })
	k.now = time.Now()
	if err := k.open(nil); err != nil {
		b.Fatal(err)
	}
	turn := func() []frame {
		k.step()
		frames := k.out.frames
		k.out = outputs{}
		k.stored(k.prepare())
		return frames
	}
	answer := func(f *petrelv1.ServerFrame) {
		bytes, err := proto.Marshal(f)
		if json {
			bytes, err = protojson.Marshal(f)
		}
		if err != nil {
			b.Fatal(err)
		}
		if f, err = decode(json, bytes); err != nil {
			b.Fatal(err)
		}
		k.frame(1, f)
	}
	k.start()
	k.tokenCame("token", nil)
	k.opened(1)
	turn()
	answer(&petrelv1.ServerFrame{Id: 1, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{
		User: "alice", Inbox: "inbox", HistoryId: "h", HeartbeatMs: 30000, Window: &petrelv1.Window{Sends: 64, Bytes: 1 << 18}, Limits: &petrelv1.Limits{FrameBytes: 1 << 16, HistoryMessages: 200, OpenRequests: 16},
	}}})
	turn()
	const conversations = 100
	page := &petrelv1.SyncPage{Token: []byte{1}}
	for i := range conversations {
		page.Convs = append(page.Convs, &petrelv1.ConvState{Conv: fmt.Sprint("g", i), Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Joined: 1, FirstSeq: 1})
	}
	answer(&petrelv1.ServerFrame{Id: 2, Body: &petrelv1.ServerFrame_Sync{Sync: page}})
	turn()
	body := strings.Repeat("what people say ", 5)
	for i := 0; b.Loop(); i++ {
		o, _, err := k.draft(Draft{Conv: fmt.Sprint("g", i%conversations), Text: body})
		if err != nil {
			b.Fatal(err)
		}
		k.kept(o)
		var sent []frame
		for range 3 { // a row has to be stored before the message goes out
			if sent = append(sent, turn()...); len(sent) > 0 {
				break
			}
		}
		seq := uint64(i/conversations + 1)
		answer(&petrelv1.ServerFrame{Id: k.live.nextID, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: seq, TimeMs: 1795262400000, Counted: seq}}})
		turn()
		if len(sent) != 1 || o.state != Sent {
			b.Fatalf("message %d: %d frames went out, and it is %v", i, len(sent), o.state)
		}
	}
}
