package conv_test

import (
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// BenchmarkRelations is what a message costs that says something of another one, from
// Submit to its answer, on a store in memory; 64 are under way at a time. One other member is
// online, and is pushed each. The CPU is that of the whole process: sync, commit and fan-out
// included, without sockets and without the reading of the message that a forward copies.
func BenchmarkRelations(b *testing.B) {
	var ten []string
	members := []im.User{"alice", "ben"}
	for i := range 10 {
		ten = append(ten, "member"+strconv.Itoa(i))
		members = append(members, im.User(ten[i]))
	}
	const text = "about as long as people write to each other"
	for _, kind := range []string{"none", "reply", "thread", "thread-also-main", "silent", "forward", "mention", "ten-mentions", "mention-all"} {
		b.Run(kind, func(b *testing.B) {
			w := &world{fs: vfs.NewMem()}
			w.start(b)
			defer func() { w.stop() }()
			key := w.Group(members...)
			w.MustSend(convtest.Entry(key, "admin", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("alice", admin)}}))
			w.MustSend(convtest.Message(key, "alice", "root", 1, "a root"))
			screen := w.Online("ben")
			rel := map[string]*petrelv1.Relations{
				"reply": {ReplyTo: 3}, "thread": {Thread: 3}, "thread-also-main": {Thread: 3, AlsoMain: true}, "silent": {Silent: true},
				"forward": {ForwardOf: &petrelv1.Ref{Conv: key.Conv.String(), Seq: 3}},
				"mention": {Mentions: []string{"ben"}}, "ten-mentions": {Mentions: ten}, "mention-all": {MentionAll: true},
			}[kind]
			message := func(n int) *conv.Send {
				s := convtest.Message(key, "alice", strconv.Itoa(n), n+1, text)
				s.Entry.Rel = rel
				if kind == "forward" {
					s.Entry.Body = nil
					s.Source = &convpb.Source{Body: &convpb.Source_Text{Text: text}, Forwarded: &petrelv1.Forwarded{From: "carol", TimeMs: 1_795_261_800_000}}
				}
				return s
			}
			pushed, written, before := 0, w.Gate.Written(), cpuTime(b)
			for n := 0; n < b.N; {
				var sends []*conv.Send
				for ; len(sends) < 64 && n < b.N; n++ {
					sends = append(sends, message(n))
				}
				for _, ch := range w.Submit(sends...) {
					if r := w.Await(ch); r.Err != nil {
						b.Fatal(r.Err)
					}
				}
				p, _ := screen.Out.Take()
				pushed += len(p.Bytes)
				screen.Out.Wrote(p, 0)
			}
			b.ReportMetric(float64(w.Gate.Written()-written)/float64(b.N), "stored-B/op")
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(pushed)/float64(b.N), "B-pushed/op")
			e := &message(1000).Entry
			frame := &petrelv1.Send{Conv: key.Conv.String(), ClientMsgId: e.ClientMsgId, After: proto.Uint64(1001), Rel: rel}
			if kind != "forward" {
				frame.Body = &petrelv1.Send_Text{Text: text}
			}
			b.ReportMetric(float64(proto.Size(frame)), "B-sent/op")
		})
	}
}
