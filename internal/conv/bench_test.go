package conv_test

import (
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// BenchmarkRelations is what a message costs that says something of another one, from
// Submit to its answer, on a store in memory; 64 are under way at a time.
func BenchmarkRelations(b *testing.B) {
	var ten []string
	var members []im.User
	for i := range 10 {
		ten = append(ten, "member"+strconv.Itoa(i))
		members = append(members, im.User(ten[i]))
	}
	for name, rel := range map[string]*petrelv1.Relations{
		"none": nil, "reply": {ReplyTo: 3}, "thread": {Thread: 3}, "thread-also-main": {Thread: 3, AlsoMain: true},
		"mention": {Mentions: []string{"bob"}}, "ten-mentions": {Mentions: ten}, "mention-all": {MentionAll: true},
	} {
		b.Run(name, func(b *testing.B) {
			w := &world{fs: vfs.NewMem()}
			w.start(b)
			defer func() { w.stop() }()
			key := w.Group(append([]im.User{"alice", "bob"}, members...)...)
			w.MustSend(convtest.Entry(key, "admin", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("alice", admin)}}))
			w.MustSend(convtest.Message(key, "alice", "root", 1, "a root"))
			before := w.Gate.Written()
			b.ResetTimer()
			for n := 0; n < b.N; {
				var sends []*conv.Send
				for ; len(sends) < 64 && n < b.N; n++ {
					s := convtest.Message(key, "alice", strconv.Itoa(n), n+1, "about as long as people write to each other")
					s.Entry.Rel = rel
					sends = append(sends, s)
				}
				for _, ch := range w.Submit(sends...) {
					if r := w.Await(ch); r.Err != nil {
						b.Fatal(r.Err)
					}
				}
			}
			b.ReportMetric(float64(w.Gate.Written()-before)/float64(b.N), "stored-B/op")
		})
	}
}
