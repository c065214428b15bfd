package conv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// town is some nodes on one store with one feed, which one of them owns.
type town struct {
	t     *testing.T
	store *pebblestore.Store
	net   *localbus.Net
	nodes map[im.Node]*place
}

// place is one node.
type place struct {
	*world
	node    im.Node
	bus     *bustest.LossyBus
	cluster *cluster.Cluster
	end     func()
}

func newTown(t *testing.T, nodes ...im.Node) *town {
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: vfs.NewMem(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := &town{t: t, store: st, net: localbus.New(), nodes: map[im.Node]*place{}}
	t.Cleanup(func() {
		for _, p := range w.nodes {
			p.end()
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range nodes {
		w.join(n, cluster.AllRoles)
	}
	return w
}

// join starts a node and waits until somebody owns the feed.
func (w *town) join(n im.Node, roles cluster.Roles) *place {
	w.t.Helper()
	joined, err := w.net.Join(n)
	if err != nil {
		w.t.Fatal(err)
	}
	b := bustest.Lossy(joined, bustest.Rules{})
	p := &place{world: &world{t: w.t, gate: &gate{Store: w.store, failed: make(chan struct{})}, table: fanout.NewTable()}, node: n, bus: b}
	p.cluster = cluster.New(cluster.Options{Roles: roles}, p.gate, b)
	streams := stream.New(b, p.cluster.Incarnation(), stream.Options{})
	nodes := fanout.NewNodes(p.table, streams, w.store.Info().Secret, nil)
	p.convs, err = conv.New(w.t.Context(), conv.Options{Holder: p.cluster.Incarnation(), Nodes: nodes}, p.gate, p.table)
	if err != nil {
		w.t.Fatal(err)
	}
	p.router = route.New(route.Options{Cluster: p.cluster, Bus: b, Streams: streams, Nodes: nodes}, p.convs, p.gate)
	below, stopBelow := context.WithCancel(context.Background())
	work, stopWork := context.WithCancel(below)
	var running, working sync.WaitGroup
	start := func(wg *sync.WaitGroup, ctx context.Context, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Errorf("node %s: %v", n, err)
			}
		})
	}
	start(&running, below, b.Run)
	start(&running, below, streams.Run)
	start(&running, below, nodes.Run)
	if err := p.cluster.Join(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	start(&working, work, p.convs.Run)
	start(&working, work, p.router.Run)
	start(&working, work, func(ctx context.Context) error {
		return p.cluster.Run(ctx, cluster.Owners{Open: p.router.Open, Close: p.convs.Close})
	})
	p.end = sync.OnceFunc(func() {
		stopWork()
		working.Wait()
		stopBelow()
		running.Wait()
	})
	w.nodes[n] = p
	w.owner()
	return p
}

// owner is the node that owns the feed, once all nodes agree.
func (w *town) owner() *place {
	w.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); pause() {
		var owner im.Node
		agreed := true
		for _, p := range w.nodes {
			n, _, ok := p.cluster.Route(0)
			if agreed = agreed && ok && (owner == "" || owner == n); !agreed {
				break
			}
			owner = n
		}
		if p := w.nodes[owner]; agreed && p != nil && len(p.convs.Owners()) == 1 {
			return p
		}
	}
	w.t.Fatal("the nodes do not agree who owns the feed")
	return nil
}

// other is a node that does not own the feed.
func (w *town) other() *place {
	owner := w.owner()
	for _, p := range w.nodes {
		if p != owner {
			return p
		}
	}
	w.t.Fatal("there is no other node")
	return nil
}

// sees waits until a screen was told all of want, in this order and once.
func sees(t *testing.T, s *screen, want ...string) {
	t.Helper()
	var got []string
	for end := time.Now().Add(deadline); time.Now().Before(end) && len(got) <= len(want); pause() {
		got = append(got, s.got()...)
		if slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("told %v, want %v", got, want)
}

func TestASendFromAnotherNodeIsStoredAndPushedEverywhere(t *testing.T) {
	w := newTown(t, "a", "b", "c")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	alice, bob := two.online("alice"), one.online("bob")
	waitOnline(t, w)
	s := message(key, "alice", "k1", 1, "hi")
	s.Origin = fanout.Origin{Out: alice.out, ID: 7}
	var k fanout.WakeUps
	two.convs.Submit([]*conv.Send{s}, &k)
	k.Flush()
	sees(t, alice, "ack 2")
	sees(t, bob, "2:hi")
	if r := two.send(message(key, "alice", "k1", 1, "hi")); r.Err != nil || !r.Repeat || r.Seq != 2 {
		t.Errorf("sent again: %+v, want a repeat of 2", r)
	}
	if r := two.send(message(key, "carol", "k2", 1, "hi")); im.CodeOf(r.Err) != im.CodeNotMember {
		t.Errorf("a stranger's send from another node: %+v", r)
	}
	for n, p := range w.nodes {
		if got := strings.Join(p.history(key, "bob"), " "); got != "1:members 2:hi" {
			t.Errorf("node %s reads %s", n, got)
		}
	}
	two.online("bob")
	moved, err := route.Ask(t.Context(), two.router, conv.Query{Conv: key, User: "bob"}, (*conv.Owner).MoveCursor, &convpb.MoveCursor{Delivered: 2, Read: 2})
	if err != nil || moved.Read != 2 {
		t.Errorf("move a cursor from another node: %v, %v", moved, err)
	}
}

// waitOnline waits until all nodes know each other's users.
func waitOnline(t *testing.T, w *town) {
	t.Helper()
	// A call to the owner is served behind the announcements made before it.
	for _, p := range w.nodes {
		if _, err := p.look(t.Context(), im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}, "alice"); im.CodeOf(err) != im.CodeNoConversation {
			t.Fatal(err)
		}
	}
}

// F2: a session is announced, and reads a head behind that. Whatever is committed
// before the announcement arrives, and so not pushed, is below the head.
func TestF2AHeadIsReadBehindTheAnnouncementOfItsSession(t *testing.T) {
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	two.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool { return s == stream.Subject }})
	two.online("bob")
	heads := make(chan uint64, 1)
	go func() { // ends with the answer
		st, err := two.look(t.Context(), key, "bob")
		if err != nil {
			t.Error(err)
		}
		heads <- st.Head
	}()
	select { // in this time it would be answered
	case q := <-heads:
		heads <- q
	case <-time.After(300 * time.Millisecond):
	}
	one.mustSend(message(key, "alice", "k1", 1, "not pushed"))
	two.bus.SetRules(bustest.Rules{})
	if q := <-heads; q != 2 {
		t.Errorf("head %d is read, and entry 2 was committed when the owner knew of no session", q)
	}
}

// F6: what became of a commit of unknown outcome is told by a takeover. Nobody is
// answered before, and each of its messages is stored once.
func TestF6CommitOfUnknownOutcomeIsSettledByTakeover(t *testing.T) {
	t.Parallel() // it mostly waits
	for what, stored := range map[string]bool{"it is stored": true, "it is not": false} {
		t.Run(what, func(t *testing.T) {
			w := newTown(t, "a")
			one := w.owner()
			key := one.group("alice", "bob")
			_, before, _ := one.cluster.Route(0)
			one.gate.doubt(stored)
			for i, ch := range one.submit(message(key, "alice", "k1", 1, "first"), message(key, "alice", "k2", 1, "second")) {
				if r := one.await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
					t.Fatalf("send %d: %+v, want seq %d", i+1, r, i+2)
				}
			}
			soon, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			if _, epoch, err := one.cluster.Wait(soon, 0, before); err != nil || epoch != before+1 {
				t.Errorf("epoch %d, %v, want %d", epoch, err, before+1)
			}
			if got := strings.Join(one.history(key, "bob"), " "); got != "1:members 2:first 3:second" {
				t.Errorf("stored: %s", got)
			}
		})
	}
}

// F14: a connection's sends to one conversation keep their order though the
// feed goes from node to node meanwhile, and none is lost or doubled.
func TestF14SendsKeepTheirOrderThroughHandOvers(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newTown(t, "a", "b", "c")
	key := w.owner().group("alice", "bob")
	const n, hops = 3000, 5
	var results []chan conv.Result
	from := w.other()
	stop := make(chan struct{})
	var enough atomic.Bool
	var moves sync.WaitGroup
	moved := 0
	moves.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
			}
			owner := w.owner()
			err := owner.cluster.Drain(t.Context())
			if err == nil {
				moved++
			} else if !errors.Is(err, cluster.ErrNobody) { // the others have been there too shortly
				t.Error(err)
			}
			owner.cluster.Resume()
			enough.Store(moved >= hops)
		}
	})
	i, after := 0, 1
	for ; i < n || !enough.Load(); i++ {
		results = append(results, from.submit(message(key, "alice", fmt.Sprint("k", i), after, fmt.Sprint(i)))...)
		if i%16 == 15 {
			for _, ch := range results[i-15:] {
				r := from.await(ch)
				after = int(max(im.Seq(after), r.Seq))
				ch <- r
			}
		}
	}
	close(stop)
	moves.Wait()
	last := im.Seq(1)
	for j, ch := range results {
		r := from.await(ch)
		if r.Err != nil {
			t.Fatalf("send %d: %v", j, r.Err)
		}
		if r.Seq != last+1 {
			t.Fatalf("send %d has seq %d behind %d", j, r.Seq, last)
		}
		last = r.Seq
	}
	if got := w.other().history(key, "bob"); len(got) != i+1 {
		t.Errorf("the history has %d entries, want %d", len(got), i+1)
	}
}

// F14: a request is lost, more is sent behind it, and then the feed comes here or
// to a third node. What was asked first stays first.
func TestF14NothingPassesWhatIsAskedAgain(t *testing.T) {
	for _, here := range []bool{true, false} {
		t.Run(fmt.Sprintf("the feed comes here %v", here), func(t *testing.T) {
			w := newTown(t, "a", "b", "c")
			one, two := w.owner(), w.other()
			key := one.group("alice", "bob")
			next := two
			for _, p := range w.nodes {
				if !here && p != one && p != two {
					next = p
				}
			}
			asked := make(chan struct{})
			lost := sync.OnceFunc(func() { close(asked) })
			two.bus.SetRules(bustest.Rules{Drop: func(to im.Node, s bus.Subject, b []byte) bool {
				if to == one.node && bytes.Contains(b, []byte("first")) {
					lost()
				}
				return to == one.node && s == stream.Subject
			}})
			answers := two.submit(message(key, "alice", "k1", 1, "first"))
			<-asked
			answers = append(answers, two.submit(message(key, "alice", "k2", 1, "second"), message(key, "alice", "k3", 1, "third"))...)
			epoch, err := next.convs.Open(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			two.cluster.Learn(0, next.node, epoch)
			for i, ch := range answers {
				if r := two.await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
					t.Errorf("send %d: %+v, want seq %d", i+1, r, i+2)
				}
			}
		})
	}
}

// F14: the feed comes here while a send waits in its lane. What is sent then does
// not pass it by on the short way.
func TestF14NothingPassesTheLaneByWhenTheFeedComes(t *testing.T) {
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	two.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool { return s == stream.Subject }})
	first := two.submit(message(key, "alice", "k1", 1, "first"))
	entering, enter := make(chan struct{}), make(chan struct{})
	var met atomic.Bool
	two.gate.mu.Lock()
	two.gate.onWritable = func() {
		if !met.Swap(true) {
			close(entering)
			<-enter
		}
	}
	two.gate.mu.Unlock()
	if _, err := two.convs.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	<-entering // the first, on its way from the lane to the owner
	second := make(chan chan conv.Result, 1)
	go func() { second <- two.submit(message(key, "alice", "k2", 1, "second"))[0] }() // ends behind the first
	select {                                                                          // in this time it would be in
	case ch := <-second:
		second <- ch
	case <-time.After(100 * time.Millisecond):
	}
	close(enter)
	for i, ch := range []chan conv.Result{first[0], <-second} {
		if r := two.await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
			t.Errorf("send %d: %+v, want seq %d", i+1, r, i+2)
		}
	}
}

// F14: a send is given back, since its owner was not one for a moment. What is
// sent behind it is not asked before it.
func TestF14NothingIsAskedBeforeWhatWasGivenBack(t *testing.T) {
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	returned := make(chan struct{})
	givenBack := sync.OnceFunc(func() { close(returned) })
	one.bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, b []byte) bool {
		var p buspb.Packet
		if s == stream.Subject && p.UnmarshalVT(b) == nil && bytes.IndexByte(p.Kinds, cluster.KindNotOwner) >= 0 {
			givenBack()
		}
		return false
	}})
	one.convs.Close(t.Context(), 0) // behind the back of the cluster
	first := two.submit(message(key, "alice", "k1", 1, "first"))
	<-returned
	if _, err := one.convs.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	second := two.submit(message(key, "alice", "k2", 1, "second"))
	if r := two.await(second[0]); r.Err != nil || r.Seq != 3 {
		t.Fatalf("the second: %+v, want seq 3", r)
	}
	if r := two.await(first[0]); r.Err != nil || r.Seq != 2 {
		t.Errorf("the first: %+v, want seq 2", r)
	}
}

// F8: what was committed and not pushed, because its owner died, is pushed by
// the next one, though nobody comes back and nothing follows.
func TestF8ANewOwnerPushesWhatTheOldOneCommitted(t *testing.T) {
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	bob := two.online("bob")
	waitOnline(t, w)
	one.gate.mute = true
	open := one.gate.shut() // durable, and nobody is told
	t.Cleanup(open)
	one.submit(message(key, "alice", "k1", 1, "last words"))
	waitRow(t, w.store, key, 2)
	if _, err := two.convs.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	sees(t, bob, "1:members", "2:last words")
}

// F8 with F17: a new owner pushes nobody what was there before they came.
func TestF8ANewOwnerPushesNobodyWhatWasBeforeThem(t *testing.T) {
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice")
	one.mustSend(message(key, "alice", "k1", 1, "among us"))
	one.change(key, "bob")
	one.mustSend(message(key, "alice", "k2", 3, "welcome"))
	alice, bob := two.online("alice"), two.online("bob")
	waitOnline(t, w)
	if _, err := two.convs.Open(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	sees(t, alice, "1:members", "2:among us", "3:members", "4:welcome")
	sees(t, bob, "3:members", "4:welcome")
}

// F5: a commit is under way when its owner finds that another node has the feed.
// What is sent then stays behind the sends of that commit, which the store is
// about to refuse.
func TestF5NothingPassesTheCommitOfAFencedOwner(t *testing.T) {
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	one.gate.late = true
	open := one.gate.shut()
	t.Cleanup(open)
	first := one.submit(message(key, "alice", "k1", 1, "first"))
	for one.gate.stopped() != 1 {
		pause()
	}
	epoch, err := two.convs.Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	one.cluster.Learn(0, two.node, epoch)
	look, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if st, err := one.look(look, key, "bob"); err != nil || st.Head != 1 {
		t.Fatalf("the former owner says head %d, %v", st.Head, err)
	}
	second := one.submit(message(key, "alice", "k2", 1, "second"))
	select { // in this time it would go to the new owner, and be answered
	case r := <-second[0]:
		t.Errorf("the second is answered first: %+v", r)
		second[0] <- r
	case <-time.After(300 * time.Millisecond):
	}
	open()
	if r := one.await(first[0]); r.Err != nil || r.Seq != 2 {
		t.Errorf("the first: %+v, want seq 2", r)
	}
	if r := one.await(second[0]); r.Err != nil || r.Seq != 3 {
		t.Errorf("the second: %+v, want seq 3", r)
	}
}

// A feed whose store takes nothing more until it is taken over is opened again,
// without what broke it.
func TestABrokenFeedIsTakenOver(t *testing.T) {
	w := newTown(t, "a")
	one := w.owner()
	key := one.group("alice", "bob")
	one.gate.poison()
	if r := one.send(message(key, "alice", "k1", 1, "poison")); im.CodeOf(r.Err) != im.CodeStoreStalled {
		t.Errorf("the send that broke it: %+v, want an unsettled error", r)
	}
	if r := one.send(message(key, "alice", "k2", 1, "and on")); r.Err != nil || r.Seq != 2 {
		t.Errorf("the next one: %+v, want seq 2", r)
	}
}

// A node that hears nothing of the owner and reaches no store is cut off from
// all, maybe: it says so while its clients have the patience to hear it.
func TestANodeThatIsCutOffSaysSo(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	one.gate.late = true // the store they share is not held up
	t.Cleanup(one.gate.shut())
	begun := time.Now()
	first := two.submit(message(key, "alice", "k1", 1, "out there"))
	select { // in the time in which another node would take the feed over
	case r := <-first[0]:
		t.Errorf("answered though the store may still give the feed to somebody: %+v", r)
	case <-time.After(3 * time.Second):
	}
	two.gate.away.Store(true)
	if r := two.await(first[0]); im.CodeOf(r.Err) != im.CodeStoreStalled {
		t.Errorf("the send: %+v, want an unsettled error", r)
	}
	if took := time.Since(begun); took > 6*time.Second {
		t.Errorf("answered after %v, longer than a client waits", took)
	}
}

func waitRow(t *testing.T, st store.Store, key im.Key, seq im.Seq) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); pause() {
		if row, err := st.LastRow(t.Context(), key); err == nil && row != nil && row.Seq == seq {
			return
		}
	}
	t.Fatalf("seq %d is not stored", seq)
}

// F18: two users write to each other first, at two nodes, at once. It is one
// conversation, in which both are members and each message is once.
func TestF18BothBeginADirectConversationAtOnce(t *testing.T) {
	w := newTown(t, "a", "b", "c")
	one, two := w.owner(), w.other()
	for n := range 20 {
		alice, bob := im.User(fmt.Sprint("alice ", n)), im.User(fmt.Sprint("bob ", n))
		key := im.Key{Tenant: im.DefaultTenant, Conv: im.DirectID(im.DefaultTenant, alice, bob)}
		to := func(from, peer im.User) *conv.Send {
			s := message(im.Key{Tenant: im.DefaultTenant, Conv: im.DirectID(im.DefaultTenant, from, peer)}, from, "k", -1, "hi")
			s.Peer = peer
			return s
		}
		answers := append(one.submit(to(alice, bob)), two.submit(to(bob, alice))...)
		var seqs []im.Seq
		for _, ch := range answers {
			r := one.await(ch)
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			seqs = append(seqs, r.Seq)
		}
		if slices.Sort(seqs); !slices.Equal(seqs, []im.Seq{1, 2}) {
			t.Errorf("seqs %v, want 1 and 2", seqs)
		}
		for _, u := range []im.User{alice, bob} {
			if got := two.history(key, u); !slices.Equal(got, []string{"1:hi", "2:hi"}) {
				t.Errorf("%s reads %q", u, got)
			}
		}
		if r := two.send(to(alice, bob)); r.Err != nil || !r.Repeat {
			t.Errorf("%s again, at the other node: %+v, want a repeat", alice, r)
		}
	}
}

// F19: an owner that does not know that it is one no more answers no read from
// its memory.
func TestF19AFormerOwnerReadsNothingFromMemory(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	if _, err := two.convs.Open(t.Context(), 0); err != nil { // behind the back of the cluster
		t.Fatal(err)
	}
	if r := two.send(message(key, "alice", "k1", 1, "new")); r.Err != nil || r.Seq != 2 {
		t.Fatalf("send to the new owner: %+v", r)
	}
	st, err := one.look(t.Context(), key, "bob")
	if err != nil || st.Head != 2 {
		t.Errorf("the former owner says head %d, %v; 2 was acked before the question", st.Head, err)
	}
	if r := one.send(message(key, "alice", "k2", 2, "by the former owner")); r.Err != nil || r.Seq != 3 {
		t.Errorf("send to the former owner: %+v, want seq 3 by whoever has the feed", r)
	}
}

// F19: nor does it answer another node so.
func TestF19AFormerOwnerTellsOtherNodesNothingFromMemory(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	gateway := w.join("c", cluster.Gateway)
	key := one.group("alice", "bob")
	if _, err := two.convs.Open(t.Context(), 0); err != nil { // behind the back of the cluster
		t.Fatal(err)
	}
	if r := two.send(message(key, "alice", "k1", 1, "new")); r.Err != nil || r.Seq != 2 {
		t.Fatalf("send to the new owner: %+v", r)
	}
	st, err := gateway.look(t.Context(), key, "bob")
	if err != nil || st.Head != 2 {
		t.Errorf("the former owner tells another node head %d, %v; 2 was acked before the question", st.Head, err)
	}
}

// F12 with F19: that nothing is new since a token is said by an owner only.
func TestF19AFormerOwnerTellsNoNewsFromMemory(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice", "bob")
	bob := im.Account{Tenant: im.DefaultTenant, User: "bob"}
	ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_GROUP}
	news, places, err := one.router.Changes(t.Context(), bob, []*convpb.Ask{ask}, 0)
	if err != nil || news[0].GetHead() != 1 {
		t.Fatalf("before: %v, %v", news, err)
	}
	if _, err := two.convs.Open(t.Context(), 0); err != nil { // behind the back of the cluster
		t.Fatal(err)
	}
	if r := two.send(message(key, "alice", "k1", 1, "new")); r.Err != nil || r.Seq != 2 {
		t.Fatalf("send to the new owner: %+v", r)
	}
	ask.Since = uint64(places[0])
	news, after, err := one.router.Changes(t.Context(), bob, []*convpb.Ask{ask}, 0)
	if err != nil || news[0].GetHead() != 2 || after[0] <= places[0] {
		t.Errorf("the former owner says %v at %v, was at %v, %v; 2 was acked before the question", news, after, places, err)
	}
}

// F19: a refusal is as good as the memory it comes from.
func TestF19AFormerOwnerRefusesNothingFromMemory(t *testing.T) {
	t.Parallel() // it mostly waits
	w := newTown(t, "a", "b")
	one, two := w.owner(), w.other()
	key := one.group("alice")
	if _, err := two.convs.Open(t.Context(), 0); err != nil { // behind the back of the cluster
		t.Fatal(err)
	}
	two.change(key, "bob")
	if r := two.send(message(key, "bob", "k1", 1, "stored")); r.Err != nil || r.Seq != 3 {
		t.Fatalf("send to the new owner: %+v", r)
	}
	if r := one.send(message(key, "bob", "k1", 1, "stored")); r.Err != nil || !r.Repeat {
		t.Errorf("sent again to the former owner, who knows no bob: %+v, want a repeat", r)
	}
}

// change adds a member.
func (p *place) change(key im.Key, u im.User) {
	s := &conv.Send{Conv: key, Keyed: true}
	s.Entry.ClientMsgId = "add " + string(u)
	s.Entry.Body = &petrelv1.Message_Members{Members: &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: string(u), Role: petrelv1.Role_ROLE_MEMBER}}}}
	p.mustSend(s)
}

// pause is between two looks at what other goroutines do.
func pause() { <-time.After(time.Millisecond) }
