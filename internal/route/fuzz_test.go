package route_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/route/routepb"
	"github.com/petrel-im/petrel/internal/route/routetest"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The input is what another node may write: packets of the streams, the frames in them,
// questions and beacons. No bytes end a node: another release, or a fault of one node, must
// not take the others along. kind chooses one of them.
func FuzzPeers(f *testing.F) {
	c := routetest.Start(f, "a")
	victim := c.Nodes["a"]
	key := victim.Group("alice", "bob")
	evil, err := c.Net.Join("evil")
	if err != nil {
		f.Fatal(err)
	}
	streams := stream.New(evil, 99, stream.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- evil.Run(ctx) }()
	go func() { ended <- streams.Run(ctx) }()
	f.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				f.Error(err)
			}
		}
	})
	linked := func() bool { return len(streams.Peers()) == 1 && streams.Peers()[0].Incarnation != 0 }
	eventually.True(f, "the streams begin", linked)

	kinds := []byte{cluster.KindOnline, cluster.KindDelivery, cluster.KindReceipts, cluster.KindSends, cluster.KindNotOwner, cluster.KindNotes}
	sent := []bus.Subject{stream.Subject, "cluster.beacon"}
	asked := []bus.Subject{"conv.call", "cluster.release"}
	entry := &petrelv1.Message{From: "alice", ClientMsgId: "m1", Body: &petrelv1.Message_Text{Text: "hi"}}
	send := &routepb.Send{Ticket: 1, Tenant: 1, Conv: key.Conv[:], Entry: entry}
	for i, m := range []interface{ MarshalVT() ([]byte, error) }{
		&clusterpb.Online{Came: []uint64{1}, Ask: 1, Part: &clusterpb.Online_Part{Index: 1, Users: []uint64{2}}},
		&clusterpb.Delivery{Tenant: 1, Conv: key.Conv[:], Users: []string{"alice"}, Rows: [][]byte{{1}}, Answers: []*clusterpb.Answer{{Ticket: 1, Seq: 1}}},
		&clusterpb.Receipts{Tenant: 1, Conv: key.Conv[:], Users: []string{"alice"}, Receipts: []*clusterpb.Receipts_Receipt{{User: "bob", Read: 1}}},
		&routepb.Sends{Sends: []*routepb.Send{send}},
		&routepb.NotOwner{Feed: 0, Tickets: []uint64{1}, Owner: "evil", Epoch: 1},
		&buspb.Packet{From: 1, First: 1, Count: 1, Frames: [][]byte{{1}}, Kinds: []byte{1}},
		&storepb.Node{Incarnation: 99, Version: 1, Held: []*storepb.FeedEpoch{{Feed: 0, Epoch: 1}}},
		&routepb.Call{Tenant: 1, Conv: key.Conv[:], User: "alice", Question: "GetHistory", Request: encoded(f, &convpb.GetHistory{Limit: 3})},
		&storepb.FeedEpoch{Feed: 0, Epoch: 1},
	} {
		f.Add(byte(i), encoded(f, m))
	}
	f.Add(byte(3), encoded(f, &routepb.Sends{Sends: []*routepb.Send{{Conv: []byte{1}}}}))
	f.Add(byte(7), encoded(f, &routepb.Call{Tenant: 1, Conv: key.Conv[:], User: "alice", Question: "ListChanges", Request: encoded(f, &convpb.ListChanges{Asks: []*convpb.Ask{{Conv: key.Conv[:1]}}})}))
	f.Add(byte(7), encoded(f, &routepb.Call{Tenant: 1, Conv: key.Conv[:], User: "alice", Question: "FindCandidates", Request: encoded(f, &convpb.FindCandidates{Convs: key.Conv[:3]})}))

	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		if len(b) > stream.MaxFrame {
			return
		}
		ctx := eventually.Context(t)
		k := int(kind) % (len(kinds) + len(sent) + len(asked))
		switch {
		case k < len(kinds):
			m, err := streams.Send("a", kinds[k], bytes.Clone(b), stream.Hint{Optional: true})
			if err == nil {
				err = victim.Streams.WaitApplied(ctx, "evil", m)
			}
			if err != nil && ctx.Err() != nil {
				t.Fatal(err)
			}
		case k < len(kinds)+len(sent):
			if err := evil.Send("a", sent[k-len(kinds)], b); err != nil {
				t.Fatal(err)
			}
		default:
			if _, err := evil.Request(ctx, "a", asked[k-len(kinds)-len(sent)], b); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := evil.Request(ctx, "a", "cluster.seen", nil); err != nil { // after all that came before
			t.Fatal(err)
		}
	})
}

func encoded(t testing.TB, m interface{ MarshalVT() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
