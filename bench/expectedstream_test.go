package bench

import (
	"math/rand/v2"
	"testing"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// groupOf returns a generator of a group of n connections, of which the first one sends.
func groupOf(n int, e wire.Encoding) *generator {
	c := newCorpus(1, 60)
	g := newGenerator(e, c, newAudit(c))
	g.script = newScript()
	g.group = g.audit.addGroup("ggroup", 0, n)
	g.audit.addSender("s", 0, g.group)
	for i := range n {
		k := &conn{index: i}
		if i > 0 {
			k.place.part = g.script.last
		}
		g.conns = append(g.conns, k)
	}
	return g
}

// event returns the frame of the message of this number, at the same seq.
func (g *generator) event(number uint64) []byte {
	return wire.AppendMessage(nil, &petrelv1.Message{Conv: "ggroup", Seq: number, From: "s", ClientMsgId: string(g.corpus.appendID(nil, 0, number)),
		Body: &petrelv1.Message_Text{Text: string(g.corpus.appendBody(nil, proof{0, number, 1}))}})
}

// TestMembersFollowTheScriptHoweverTheirBytesAreCut feeds every member the same stream, cut in other places for each,
// with other pings between the frames.
func TestMembersFollowTheScriptHoweverTheirBytesAreCut(t *testing.T) {
	const members, messages = 9, 4_000
	for i := range wire.Encodings {
		e := wire.EncodingAt(i)
		r := rand.New(rand.NewPCG(7, uint64(i)))
		g := groupOf(members, e)
		ping := wire.AppendFrame(nil, e, &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Ping{Ping: &petrelv1.Ping{}}})
		streams := make([][]byte, members)
		for n := uint64(1); n <= messages; {
			var rows [][]byte
			for range 1 + r.IntN(8) {
				if n <= messages {
					g.audit.compose(0)
					rows = append(rows, g.event(n))
					n++
				}
			}
			b := wire.AppendEvents(nil, e, rows)
			for m := 1; m < members; m++ {
				if r.IntN(500) == 0 {
					streams[m] = append(streams[m], ping...)
				}
				streams[m] = append(streams[m], b...)
			}
		}
		for n := uint64(1); n <= messages; n++ { // the sender has its acks
			g.audit.ack(0, n, n, false)
		}
		for left := members - 1; left > 0; {
			m := 1 + r.IntN(members-1)
			if len(streams[m]) == 0 {
				continue
			}
			n := min(1+r.IntN(9000), len(streams[m]))
			g.received(g.conns[m], streams[m][:n], 2)
			if streams[m] = streams[m][n:]; len(streams[m]) == 0 {
				left--
			}
		}
		if got := g.audit.close(); !got.Clean() || g.tally.delivered != messages*(members-1) || len(g.lost) > 0 {
			t.Errorf("%v: findings %v, %d deliveries, want %d; %q %q", e, got, g.tally.delivered, messages*(members-1), g.audit.Witnesses, g.lost)
		}
		for m, c := range g.conns[1:] {
			if c.place.part == nil {
				t.Errorf("%v: member %d has left the script", e, m+1)
			}
		}
	}
}

func TestAMemberThatGetsSomethingElseIsAuditedByItself(t *testing.T) {
	for i := range wire.Encodings {
		e := wire.EncodingAt(i)
		g := groupOf(4, e)
		for range 30 {
			g.audit.compose(0)
		}
		for n := uint64(1); n <= 30; n++ {
			g.audit.ack(0, n, n, false)
			row := g.event(n)
			b := wire.AppendEvents(nil, e, [][]byte{row})
			for m := 1; m < 4; m++ {
				switch {
				case m == 2 && n == 10: // never gets it
				case m == 3 && n == 20:
					g.received(g.conns[m], wire.AppendEvents(nil, e, [][]byte{altered(row)}), 2)
				case m == 1 && n == 25:
					g.received(g.conns[m], append(b[:len(b):len(b)], b...), 2)
				default:
					g.received(g.conns[m], b, 2)
				}
			}
		}
		if got, want := g.audit.close(), (checker.Findings{checker.Lost: 1, checker.Duplicate: 1, checker.Altered: 1}); got != want || len(g.lost) > 0 {
			t.Errorf("%v: findings %v, want %v; %q %q", e, got, want, g.audit.Witnesses, g.lost)
		}
	}
}

func BenchmarkFollow(b *testing.B) {
	e := wire.Encoding{Codec: wire.Proto}
	g := groupOf(500, e)
	const batch = 64
	n := uint64(0)
	for b.Loop() {
		b.StopTimer()
		var rows [][]byte
		for range batch {
			n++
			g.audit.compose(0)
			rows = append(rows, g.event(n))
		}
		stream := wire.AppendEvents(nil, e, rows)
		b.StartTimer()
		for _, c := range g.conns[1:] {
			g.received(c, stream, 2)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(g.tally.delivered), "ns/delivery")
}
