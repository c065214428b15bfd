package fanout

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster/clusterpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

var secret = [16]byte{7}

// site is one of several nodes in one bubble.
type site struct {
	t       testing.TB
	id      im.Node
	join    func(im.Node) (bus.Bus, error)
	o       stream.Options
	bus     *bustest.LossyBus
	streams *stream.Streams
	nodes   *Nodes
	fan     *Fan

	mu      sync.Mutex
	waiting map[uint64]Origin // by ticket
	lost    map[im.Key]int

	stop context.CancelFunc
	done sync.WaitGroup
}

var incarnations atomic.Uint64

func startSite(t testing.TB, join func(im.Node) (bus.Bus, error), id im.Node, o stream.Options) *site {
	b, err := join(id)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, id: id, join: join, o: o, bus: bustest.Lossy(b, bustest.Rules{}), waiting: map[uint64]Origin{}, lost: map[im.Key]int{}}
	s.streams = stream.New(s.bus, incarnations.Add(1), o)
	s.fan = New(NewTable())
	s.nodes = NewNodes(s.fan.Table, s.streams, secret, nil)
	s.fan.Remote = s.nodes
	s.nodes.Answered = func(_ im.Node, ticket uint64, a *Answer) (Origin, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		g, ok := s.waiting[ticket]
		delete(s.waiting, ticket)
		return g, ok
	}
	s.nodes.Lost = func(_ im.Node, about im.Key) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost[about]++
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	for _, run := range []func(context.Context) error{s.bus.Run, s.streams.Run, s.nodes.Run} {
		s.done.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return s
}

// local joins the nodes over the bus in memory.
func local() func(im.Node) (bus.Bus, error) {
	net := localbus.New()
	return func(n im.Node) (bus.Bus, error) { return net.Join(n) }
}

// end ends the process of the node, with its connections.
func (s *site) end() {
	s.stop()
	s.done.Wait()
}

// restart starts a new process of the node. Nobody is online in it.
func (s *site) restart() *site { return startSite(s.t, s.join, s.id, s.o) }

// sites starts nodes a, b, c, … and waits until they know each other.
func sites(t testing.TB, n int, o stream.Options) []*site {
	join := local()
	var all []*site
	for i := range n {
		all = append(all, startSite(t, join, im.Node(rune('a'+i)), o))
	}
	pass(2 * time.Second)
	for _, s := range all {
		if up := s.nodes.joined.Load(); int(up) != n-1 {
			t.Fatalf("node %s knows %d others, want %d", s.id, up, n-1)
		}
	}
	return all
}

func endAll(all []*site) {
	for _, s := range all {
		s.end()
	}
}

func (s *site) online(u im.User) *screen { return online(s.t, s.fan, u) }

// sent returns it as the outcome of a send that connection x of s made, and that
// owner, another node, answers.
func (s *site) sent(owner *site, x *screen, ticket uint64, it Item) Item {
	x.out.Window(1, -1, -1)
	s.mu.Lock()
	s.waiting[ticket] = Origin{Out: x.out, ID: 100 + ticket, Bytes: 1}
	s.mu.Unlock()
	it.Sender = s.caller(owner, x.out.Account.User, ticket)
	return it
}

func (s *site) caller(owner *site, u im.User, ticket uint64) Origin {
	return Origin{Caller: &Caller{Nodes: owner.nodes, Node: s.id, Ticket: ticket, Conv: teamKey, User: u}}
}

var teamKey = func() im.Key {
	id, err := im.ParseConvID(team)
	im.Assert(err == nil, "the team has no id")
	return im.Key{Tenant: im.DefaultTenant, Conv: id}
}()

func ack(q im.Seq, row []byte) Item { return Item{Row: row, Ack: wire.Ack{Seq: uint64(q)}} }

// settle waits until everything that is under way has happened.
func settle() { pass(20 * time.Millisecond) }

// pass waits for a while of the bubble's time.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *site) lostOf(key im.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[key]
}

// all takes what waits, as got does, with hints as "hint conv head" and receipts as
// "receipt user read".
func (s *screen) all() []string {
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	var lines []string
	for _, f := range frames(s.t, p.Bytes) {
		for _, h := range f.GetEvents().GetHints() {
			lines = append(lines, fmt.Sprintf("hint %s %d", h.Conv, h.Head))
		}
		for _, r := range f.GetEvents().GetReceipts() {
			lines = append(lines, fmt.Sprintf("receipt %s %d", r.User, r.Read))
		}
		if e := f.GetEvents(); e == nil || len(e.Messages) > 0 {
			lines = append(lines, show(s.t, wire.AppendFrame(nil, protoTCP, f))...)
		}
	}
	return lines
}

func (s *screen) wantAll(what string, lines ...string) {
	s.t.Helper()
	if d := cmp.Diff(lines, s.all()); d != "" {
		s.t.Errorf("%s: %s (-want +got):\n%s", s.out.Account.User, what, d)
	}
}

func receipt(u im.User, read uint64) Receipt {
	return Receipt{Receipt: &petrelv1.Receipt{Conv: team, User: string(u), Read: read}}
}

// hint tells members how far a conversation has moved, with frames that have no rows:
// a stream sends them instead of a delivery that it does not keep any more.
func (s *site) hint(key im.Key, members []im.User, head im.Seq, counted uint64) {
	h := hint{conv: key.Conv, head: uint64(head), counted: counted}
	if batch := s.fan.beginRecipients(); batch != nil { // nil: there is no other node
		for _, u := range members {
			batch.addRecipient(u, s.fan.Table.hash(im.Account{Tenant: key.Tenant, User: u}))
		}
		batch.eachNode(func(to *node, n *nodeBatch) {
			m := clusterpb.Delivery{Tenant: uint32(key.Tenant), Conv: key.Conv[:], Head: h.head, Counted: h.counted, Users: n.users}
			batch.frames = append(batch.frames, deliveryFrame(to.id, &m, &clusterpb.Delivery{}, n.hashSum))
		})
	}
	s.fan.hintHere(key.Tenant, members, h, &named{})
}
