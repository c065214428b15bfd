package presence_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/presence"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ids = im.NewIDs([16]byte{1})

// accounts are what the store has of users, for all nodes of a test.
type accounts struct {
	store.Store // of which presence uses the methods below
	profiles

	mu       sync.Mutex
	policies map[im.User]user.PresencePolicy // of those who exist
	peers    []string                        // keys of the table Peers
	seen     map[im.User]uint64
	blocks   map[im.ConvID][]*storepb.Block
	blocked  []string          // keys of the table Blocks
	updates  []int             // how many records each of them had
	reads    []string          // what was read
	quiet    bool              // reads are not noted, and the table Peers is peersOf
	peersOf  map[string][]byte // keys, each with a line feed, by what they begin with
	broken   error
	slow     time.Duration // that a look for a conversation or a peer takes

	meanwhile func() // what another node writes after the next read of a record; nil: nothing
}

func (s *accounts) Record(_ context.Context, t store.Table, _ im.Tenant, key []byte) ([]byte, error) {
	if t == store.Peers {
		return s.isPeer(string(key))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("table %d of %s", t, key)
	ms, ok := s.seen[im.User(key)]
	if s.meanwhile != nil {
		s.meanwhile()
		s.meanwhile = nil
	}
	if !ok {
		return nil, nil
	}
	return binary.BigEndian.AppendUint64(nil, ms), nil
}

func (s *accounts) Records(_ context.Context, t store.Table, _ im.Tenant, prefix []byte, fn func(key, value []byte) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("records of %s", prefix)
	keys := s.blocked
	if t == store.Peers {
		keys = s.peers
		for rest := s.peersOf[string(prefix)]; len(rest) > 0; {
			n := bytes.IndexByte(rest, '\n')
			if !fn(rest[:n], nil) {
				break
			}
			rest = rest[n+1:]
		}
	}
	for _, key := range keys {
		if strings.HasPrefix(key, string(prefix)) && !fn([]byte(key), []byte{1}) {
			break
		}
	}
	return s.broken
}

// isPeer is the record of the table Peers with a key. Its content may be old by now.
func (s *accounts) isPeer(key string) (v []byte, err error) {
	s.mu.Lock()
	slow := s.slow
	s.note("peer %s", strings.ReplaceAll(key, "\x00", " "))
	if slices.Contains(s.peers, key) {
		v = []byte{1}
	}
	err = s.broken
	s.mu.Unlock()
	<-time.After(slow)
	return v, err
}

func (s *accounts) Update(_ context.Context, puts []store.RecordPut) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range puts {
		ms, ok := s.seen[im.User(p.Key)]
		if p.Check && (ok != (p.Was != nil) || ok && binary.BigEndian.Uint64(p.Was) != ms) {
			return store.ErrChanged
		}
	}
	s.updates = append(s.updates, len(puts))
	for _, p := range puts {
		s.seen[im.User(p.Key)] = binary.BigEndian.Uint64(p.Value)
	}
	return nil
}

func (s *accounts) Conversation(_ context.Context, c im.Key) (*storepb.Conversation, error) {
	s.mu.Lock()
	rec, slow := &storepb.Conversation{Blocks: s.blocks[c.Conv]}, s.slow
	s.note("conversation")
	s.mu.Unlock()
	if slow > 0 {
		<-time.After(slow) // the record may be old by then
	}
	return rec, nil
}

func (s *accounts) Writable() error { return nil }

func (s *accounts) facts(_ context.Context, a im.Account) (user.PresencePolicy, user.ProfileVersions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("policy of %s", a.User)
	p, v := s.policies[a.User], s.versions(a.User)
	if p == 0 {
		p = user.ToNobody
	}
	return p, v, s.broken
}

// note notes what was read, with mu held.
func (s *accounts) note(format string, a ...any) {
	if !s.quiet {
		s.reads = append(s.reads, fmt.Sprintf(format, a...))
	}
}

func (s *accounts) set(u im.User, p user.PresencePolicy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies[u] = p
}

func (s *accounts) block(by, other im.User, blocked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == nil {
		s.blocks = map[im.ConvID][]*storepb.Block{}
	}
	if blocked {
		s.blocked = append(s.blocked, string(im.PairKey(by, other)))
		slices.Sort(s.blocked)
	}
	b := &storepb.Block{User: string(by), Blocked: blocked}
	if blocked {
		b.LastMs, b.OnlineMs = uint64(time.Now().Truncate(10*time.Minute).UnixMilli()), uint64(time.Now().UnixMilli())
	}
	s.blocks[ids.Direct(im.DefaultTenant, by, other)] = []*storepb.Block{b}
}

// read takes what was read.
func (s *accounts) read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.reads = nil }()
	return s.reads
}

// written returns what was written.
func (s *accounts) written() (seen map[im.User]uint64, updates []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.seen), slices.Clone(s.updates)
}

func (s *accounts) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// node is one of the nodes of a test.
type node struct {
	*presence.Presence
	table   *fanout.Table
	flusher *fanout.Flusher // of the sessions that connect; it does nothing at first
	end     func()
}

// world is some nodes in one bubble, which have one store.
type world struct {
	t     testing.TB
	store *accounts
	nodes []*node
}

var incarnation uint64

// newWorld starts nodes in a bubble, which know each other. They are ended by end.
func newWorld(t testing.TB, nodes int) *world {
	w := newWorldOf(t, nodes)
	pass(5 * time.Second)
	return w
}

func newWorldOf(t testing.TB, nodes int) *world {
	w := &world{t: t, store: &accounts{policies: map[im.User]user.PresencePolicy{}, seen: map[im.User]uint64{}}}
	net := localbus.New()
	for i := range nodes {
		w.nodes = append(w.nodes, w.start(net, im.Node(rune('a'+i)), nodes > 1))
	}
	return w
}

func (w *world) start(net *localbus.Net, id im.Node, others bool) *node {
	n := &node{table: fanout.NewTable(), flusher: fanout.NewFlusher(func() {})}
	o := presence.Options{Store: w.store, IDs: ids, Table: n.table, Facts: w.store.facts, Knows: w.store.knows,
		HaveAsContact: w.store.haveAsContact}
	var runs []func(context.Context) error
	if others {
		b, err := net.Join(id)
		if err != nil {
			w.t.Fatal(err)
		}
		incarnation++
		s := stream.New(b, incarnation, stream.Options{})
		o.Nodes = fanout.NewNodes(n.table, s, [16]byte{7}, nil)
		runs = []func(context.Context) error{bus.Bus(b).Run, s.Run, o.Nodes.Run}
	}
	n.Presence = presence.New(o)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range append(runs, n.Run) {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	n.end = sync.OnceFunc(func() { stop(); wg.Wait() })
	return n
}

func (w *world) end() {
	for _, n := range w.nodes {
		n.end()
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// peers lets the one user have written to the other.
func (w *world) peers(from, to im.User) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.peers = append(w.store.peers, string(im.PairKey(to, from)))
	slices.Sort(w.store.peers)
}

// session is a connection whose client understands presence.
type session struct {
	t     testing.TB
	n     *node
	out   *fanout.Outbox
	watch *presence.Watch
	in    im.Key // the conversation of the watch
}

func (n *node) connect(t testing.TB, u im.User) *session {
	s := &session{t: t, n: n, out: fanout.NewOutbox(wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, n.flusher, 1<<20)}
	s.out.Account = im.Account{Tenant: im.DefaultTenant, User: u}
	n.table.Enter(s.out.Account, s.out, -1)
	var k fanout.WakeUps
	s.out.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &k)
	_ = s.got()
	s.watch = presence.NewWatch(s.out)
	return s
}

func (s *session) leave() {
	s.n.End(s.watch)
	s.n.table.Leave(s.out.Account, s.out)
}

func (s *session) set(users ...im.User) {
	s.t.Helper()
	slices.Sort(users)
	if !s.n.Set(s.watch, users, s.in) {
		s.t.Fatal("too many watches wait")
	}
}

// got takes what was told: "user on", "user off", with the minute of last_ms if there is one.
func (s *session) got() string {
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	var all []string
	for b := p.Bytes; len(b) > 0; {
		n := binary.BigEndian.Uint32(b)
		f := &petrelv1.ServerFrame{}
		if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
			s.t.Fatal(err)
		}
		for _, x := range f.GetEvents().GetPresences() {
			l := x.User + " off"
			if x.Online {
				l = x.User + " on"
			}
			if x.Profile != "" {
				l += " as " + x.Profile
			}
			if x.LastMs > 0 {
				l += " since " + time.UnixMilli(int64(x.LastMs)).UTC().Format("15:04")
			}
			all = append(all, l)
		}
		b = b[4+n:]
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (s *session) want(when, want string) {
	s.t.Helper()
	if got := s.got(); got != want {
		s.t.Errorf("%s %s was told %q, want %q", when, s.out.Account.User, got, want)
	}
}

// everywhere runs a test on one node, and with the watched users on another one.
func everywhere(t *testing.T, f func(t *testing.T, w *world, here, there *node)) {
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nodes)
				defer w.end()
				f(t, w, w.nodes[0], w.nodes[nodes-1])
			})
		})
	}
}

// TestChangesAreTold to those who watch: at once that somebody comes online, and that they
// went only if they are not back in time. Spec: P-13.5.
func TestChangesAreTold(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.set("bob", user.ToEverybody)
		w.store.set("carol", user.ToEverybody)
		w.store.seen["carol"] = uint64(time.Now().UnixMilli()) // midnight
		alice, carol := here.connect(t, "alice"), here.connect(t, "dave")
		alice.set("bob", "carol")
		pass(time.Second)
		alice.want("at first", "bob off, carol off since 00:00")
		bob := there.connect(t, "bob")
		phone := there.connect(t, "bob")
		pass(time.Second)
		alice.want("when bob comes", "bob on")
		bob.leave()
		pass(time.Minute)
		alice.want("while bob's phone is there", "")
		phone.leave()
		pass(29 * time.Second)
		phone = there.connect(t, "bob")
		pass(time.Minute)
		alice.want("when bob is back in time", "")
		pass(20 * time.Minute)
		phone.leave()
		pass(29 * time.Second)
		alice.want("29 s after bob went", "")
		pass(2 * time.Second)
		alice.want("31 s after bob went", "bob off since 00:20")
		alice.set()
		pass(time.Second)
		bob = there.connect(t, "bob")
		pass(time.Second)
		alice.want("when she watches nobody", "")
		alice.set("bob")
		pass(time.Second)
		alice.want("when she watches bob again", "bob on")
		alice.leave()
		bob.leave()
		pass(time.Minute)
		if n := here.Watching.Load(); n != 0 {
			t.Errorf("%d users are watched after the only session that watched has ended", n)
		}
		carol.want("who watches nobody", "")
	})
}

// TestWhoMayBeSeen. Of those who may not be seen, and of those who do not exist, the same
// is told, after the same reads. Spec: P-13.6.
func TestWhoMayBeSeen(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		users := map[im.User]user.PresencePolicy{
			"open": user.ToEverybody, "peer": user.ToPeers, "stranger": user.ToPeers, "closed": user.ToNobody, "closed-peer": user.ToNobody,
			"alice": user.ToNobody,
		}
		for u, p := range users {
			w.store.set(u, p)
			w.store.seen[u] = 1
			if u != "alice" {
				there.connect(t, u)
			}
		}
		w.peers("peer", "alice")
		w.peers("alice", "stranger")
		w.peers("closed-peer", "alice")
		alice := here.connect(t, "alice")
		pass(time.Second)
		alice.set("open", "peer", "stranger", "closed", "closed-peer", "nobody", "alice")
		pass(time.Second)
		alice.want("at first", "alice on, closed off, closed-peer off, nobody off, open on, peer on, stranger off")
		reads := map[im.User][]string{}
		for _, u := range []im.User{"stranger", "closed", "nobody"} {
			alice.set()
			pass(time.Second)
			_ = w.store.read()
			alice.set(u)
			pass(time.Second)
			for _, l := range w.store.read() {
				reads[u] = append(reads[u], strings.ReplaceAll(l, string(u), "X"))
			}
		}
		if !cmp.Equal(reads["stranger"], reads["nobody"]) || !cmp.Equal(reads["closed"], reads["nobody"]) || len(reads["nobody"]) != 4 {
			t.Errorf("to tell of who may not be seen takes other reads than to tell of who does not exist: %v", reads)
		}
	})
}

// TestAPolicyThatChangesIsKept by those who watch already, on every node. Spec: P-13.6.
func TestAPolicyThatChangesIsKept(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.set("bob", user.ToEverybody)
		w.peers("bob", "carol")
		alice, carol := here.connect(t, "alice"), here.connect(t, "carol")
		bob := there.connect(t, "bob")
		own := there.connect(t, "bob")
		pass(time.Second)
		for _, s := range []*session{alice, carol, own} {
			s.set("bob")
		}
		pass(time.Second)
		change := func(p user.PresencePolicy, forAlice, forCarol string) {
			t.Helper()
			w.store.set("bob", p)
			there.UserChanged(bob.out.Account)
			pass(5 * time.Second)
			alice.want(fmt.Sprint("with policy ", p), forAlice)
			carol.want(fmt.Sprint("with policy ", p), forCarol)
			own.want(fmt.Sprint("with policy ", p), "")
		}
		alice.want("at first", "bob on")
		carol.want("at first", "bob on")
		own.want("at first", "bob on")
		change(user.ToNobody, "bob off", "bob off")
		change(user.ToPeers, "", "bob on")
		change(user.ToEverybody, "bob on", "")
		change(user.ToPeers, "bob off", "bob on") // for a moment nobody is seen
		change(user.ToNobody, "", "bob off")
		bob.leave()
		own.leave()
		pass(time.Minute)
		alice.want("whom bob does not let see it", "")
	})
}

// A block looks to the blocked user as if the blocker went: nothing is told for 30 s, then
// that they are offline since the time of the block. So it stays, also for a session that
// watches later, and whatever is read meanwhile. Spec: P-5.4, P-13.5.
func TestABlockLooksLikeGoing(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.set("bob", user.ToPeers)
		w.store.set("carol", user.ToEverybody)
		w.peers("bob", "alice")
		w.peers("bob", "dave")
		bob, carol := there.connect(t, "bob"), there.connect(t, "carol")
		alice, phone, dave := here.connect(t, "alice"), here.connect(t, "alice"), here.connect(t, "dave")
		pass(15 * time.Minute)
		alice.set("bob", "carol")
		dave.set("bob")
		pass(time.Second)
		alice.want("at first", "bob on, carol on")
		dave.want("at first", "bob on")
		w.store.block("bob", "alice", true)
		there.BlockChanged(bob.out.Account, "alice")
		carol.leave()
		pass(15 * time.Second)
		alice.want("15 s after the one blocked her and the other one went", "")
		alice.set("bob", "carol")
		phone.set("bob")
		pass(time.Second)
		alice.want("who asks again then", "bob on, carol on")
		phone.want("who watches then", "bob on")
		pass(13 * time.Second)
		alice.want("29 s after it", "")
		pass(2 * time.Second)
		alice.want("31 s after it", "bob off since 00:10, carol off since 00:10")
		phone.want("31 s after it", "bob off since 00:10")
		pass(30 * time.Minute)
		bob.leave()
		pass(time.Hour)
		dave.want("who is not concerned", "bob off since 00:40")
		bob = there.connect(t, "bob")
		pass(time.Second)
		alice.want("whatever he does", "")
		dave.want("who is not concerned", "bob on")
		alice.set("bob")
		pass(time.Second)
		alice.want("when she watches him anew", "bob off since 00:10")
		alice.set()
		phone.set()
		dave.set()
		pass(time.Second)
		alice.set("bob")
		pass(time.Second)
		alice.want("when nobody here has watched him meanwhile", "bob off since 00:10")
		w.store.block("bob", "alice", false)
		there.BlockChanged(bob.out.Account, "alice")
		pass(time.Second)
		alice.want("when he does not block her any more", "bob on")
	})
}

// A watcher who sets the same list again and again learns nothing that others do not.
func TestANewWatchIsToldWhatAKeptOneIs(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		for _, u := range []im.User{"bob", "carol", "dave"} {
			w.store.set(u, user.ToEverybody)
		}
		bob, carol, dave := there.connect(t, "bob"), there.connect(t, "carol"), there.connect(t, "dave")
		alice := here.connect(t, "alice")
		pass(15 * time.Minute)
		alice.set("bob", "carol", "dave")
		pass(time.Second)
		alice.want("at first", "bob on, carol on, dave on")
		again := func(what, want string) {
			t.Helper()
			alice.set()
			pass(time.Second)
			alice.set("bob", "carol", "dave")
			pass(time.Second)
			alice.want(what, want)
		}
		w.store.block("bob", "alice", true)
		there.BlockChanged(bob.out.Account, "alice")
		carol.leave()
		dave.leave()
		pass(time.Second)
		dave = there.connect(t, "dave")
		again("a second after one blocked her, one went, and one was lost for a second", "bob on, carol on, dave on")
		pass(10 * time.Second)
		again("10 s later", "bob on, carol on, dave on")
		pass(10 * time.Second)
		again("20 s later", "bob on, carol on, dave on")
		pass(10 * time.Second)
		alice.want("31 s after they went", "bob off since 00:10, carol off since 00:10")
		again("later", "bob off since 00:10, carol off since 00:10, dave on")
		_ = dave
	})
}

// A user who is offline when they block somebody stays offline since the same time, and nothing is
// told. Neither is when a block ends within the 30 s, or when it has not changed.
func TestABlockIsNotTold(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.set("bob", user.ToEverybody)
		bob := there.connect(t, "bob")
		alice := here.connect(t, "alice")
		pass(time.Second)
		alice.set("bob")
		pass(time.Second)
		alice.want("at first", "bob on")
		change := func(blocked bool) {
			w.store.block("bob", "alice", blocked)
			there.BlockChanged(bob.out.Account, "alice")
		}
		change(true)
		pass(10 * time.Second)
		change(false)
		pass(10 * time.Second)
		change(true)
		pass(time.Second)
		change(true) // it is carried at least once
		pass(5 * time.Second)
		change(false)
		pass(time.Minute)
		alice.want("after two blocks that ended soon", "")
		change(true)
		pass(10 * time.Second)
		change(false)
		pass(10 * time.Second)
		change(true)
		pass(15 * time.Second)
		alice.want("15 s after another block", "")
		pass(16 * time.Second)
		alice.want("31 s after it", "bob off since 00:00")
		change(false)
		pass(time.Second)
		alice.want("when it ends", "bob on")
		bob.leave()
		pass(time.Hour)
		alice.want("when bob has gone", "bob off since 00:00")
		change(true)
		pass(time.Minute)
		change(false)
		pass(time.Minute)
		alice.want("blocked while he is away", "")
	})
}

// Reads of a watcher before a change of a block do not count, however long they take,
// and while it is not known, she is told nothing. Spec: P-5.4, P-13.6.
func TestABlockEndsWhatIsSeen(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.slow = 2 * time.Second
		w.store.set("bob", user.ToPeers)
		w.peers("bob", "alice")
		w.peers("bob", "carol")
		bob := there.connect(t, "bob")
		alice, carol := here.connect(t, "alice"), here.connect(t, "carol")
		pass(time.Second)
		carol.set("bob")
		pass(20 * time.Second)
		carol.want("at first", "bob on")
		alice.set("bob")
		pass(time.Second) // the state that was read for her does not count, though nobody has told it yet
		block := func(on bool) {
			w.store.block("bob", "alice", on)
			there.BlockChanged(bob.out.Account, "alice")
		}
		block(true)
		pass(2 * time.Second)
		alice.want("when that has come", "")
		pass(20 * time.Second)
		alice.want("blocked while it was read", "bob on")
		pass(10 * time.Second)
		alice.want("32 s after the block", "bob off since 00:00")
		block(false)
		pass(20 * time.Second)
		alice.want("not blocked any more", "bob on")
		w.store.fail(store.ErrStalled)
		block(true)
		bob.leave()
		pass(time.Second)
		bob = there.connect(t, "bob")
		pass(time.Minute)
		alice.want("when nobody can read it", "bob off since 00:00")
		w.store.fail(nil)
		pass(10 * time.Second)
		alice.want("when it was read", "")
		carol.want("she is not concerned", "")
		bob.leave()
		pass(time.Minute)
		alice.want("when bob goes", "")
		carol.want("when bob goes", "bob off since 00:00")
	})
}

// A user who has not written to the watcher is not seen, and is seen when they have, without a
// further question. Those who are seen already are told nothing. Spec: P-13.6.
func TestTheFirstMessageLetsSee(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.set("bob", user.ToPeers)
		w.store.set("open", user.ToEverybody)
		w.peers("alice", "bob")
		bob, open := there.connect(t, "bob"), there.connect(t, "open")
		alice, carol := here.connect(t, "alice"), here.connect(t, "carol")
		pass(time.Second)
		alice.set("bob", "open")
		carol.set("bob")
		pass(time.Second)
		alice.want("who has written alone", "bob off, open on")
		carol.want("at first", "bob off")
		wrote := func(s *session, to im.User) {
			w.peers(s.out.Account.User, to)
			there.Wrote(s.out.Account, to)
			pass(time.Second)
		}
		wrote(open, "alice")
		alice.want("when somebody has written whom she sees", "")
		wrote(bob, "alice")
		alice.want("when bob has written to her", "bob on")
		wrote(bob, "alice")
		alice.want("when it is told again", "")
		carol.want("she is not concerned", "")
		w.store.mu.Lock()
		w.store.slow = 2 * time.Second
		w.store.mu.Unlock()
		carol.set("bob")
		pass(time.Second) // it is read
		wrote(bob, "carol")
		pass(10 * time.Second)
		carol.want("when bob writes while it is read", "bob on")
	})
}

// Of a watcher to whom very many have written, each user is looked up. The others are read
// together. Spec: P-13.6.
func TestAllPeersAreSeen(t *testing.T) {
	for _, users := range []int{100, 1200} { // 10 and 120 of them are watched
		t.Run(fmt.Sprint(users, " users"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				defer w.end()
				n := w.nodes[0]
				var all []im.User
				for i := range users {
					u := im.User(fmt.Sprintf("u%04d", i))
					if i%10 == 0 {
						w.store.set(u, user.ToPeers)
						n.connect(t, u)
						all = append(all, u)
					}
					if i%20 != 10 {
						w.peers(u, "alice")
					}
				}
				alice := n.connect(t, "alice")
				alice.set(all...)
				pass(time.Second)
				var want []string
				for i, u := range all {
					want = append(want, string(u)+map[bool]string{true: " on", false: " off"}[i%2 == 0])
				}
				alice.want("who has so many peers", strings.Join(want, ", "))
				together := !slices.ContainsFunc(w.store.read(), func(r string) bool { return strings.HasPrefix(r, "peer ") })
				if want := users < 1000; together != want {
					t.Errorf("all were read together: %v, want %v", together, want)
				}
			})
		})
	}
}

// Whether a user blocks who watches is looked up only of those whom they may block, and those
// are read once for all who watch. Nobody is missed, whatever changes. Spec: P-5.4, P-13.6.
func TestWhoMayBeBlockedIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		w.store.set("bob", user.ToEverybody)
		w.store.block("bob", "alice", true)
		w.store.block("bob", "dora", true)
		w.store.block("bob", "dora", false)
		pass(time.Minute)
		bob := n.connect(t, "bob")
		look := func(when string, s *session, want string, reads int) {
			t.Helper()
			pass(time.Second)
			s.want(when, want)
			if n := len(w.store.read()); n != reads {
				t.Errorf("%s %d reads were made, want %d", when, n, reads)
			}
		}
		carol, alice, dora := n.connect(t, "carol"), n.connect(t, "alice"), n.connect(t, "dora")
		carol.set("bob")
		look("who is first", carol, "bob on", 3) // the policy, whom bob may block, when bob was online last
		alice.set("bob")
		look("who is blocked", alice, "bob off since 00:00", 1) // the direct conversation
		dora.set("bob")
		look("who was blocked once", dora, "bob on", 1)
		change := func(p user.PresencePolicy) {
			w.store.set("bob", p)
			n.UserChanged(bob.out.Account)
			pass(5 * time.Second)
		}
		change(user.ToNobody)
		change(user.ToEverybody)
		alice.want("when bob lets everybody see it", "bob off since 00:00") // she saw less when he let nobody see it
		carol.want("when bob lets everybody see it", "bob on")              // after an "off" that was not read
		for i := range 2000 {
			w.store.block("bob", im.User(fmt.Sprint("u", i)), true)
		}
		n.UserChanged(bob.out.Account)
		pass(5 * time.Second)
		carol.want("when bob has blocked too many to keep", "") // it is read for her whether he blocks her
		alice.want("when bob has blocked too many to keep", "")
		carol.set()
		pass(time.Second)
		_ = w.store.read()
		carol.set("bob")
		look("if bob has blocked too many to keep", carol, "bob on", 1)
	})
}

// TestAListIsToldThatIsSetWhileAPolicyChanges: the presence read for the list is out of
// date then, and is read again.
func TestAListIsToldThatIsSetWhileAPolicyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		w.store.set("bob", user.ToPeers)
		w.peers("bob", "alice")
		n.connect(t, "bob")
		alice := n.connect(t, "alice")
		alice.set("bob")
		pass(time.Second)
		alice.want("after the first list", "bob on")
		w.store.mu.Lock()
		w.store.slow = time.Second
		w.store.mu.Unlock()
		alice.set("bob")
		pass(500 * time.Millisecond) // the list is read
		w.store.set("bob", user.ToEverybody)
		n.UserChanged(im.Account{Tenant: im.DefaultTenant, User: "bob"})
		pass(10 * time.Second)
		alice.want("after the second list", "bob on")
	})
}

// TestANodesDeathIsNoNews for the users who come back elsewhere in time. The others are told
// one after the other. Sessions that watch anew are served at a pace.
func TestANodesDeathIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.end()
		var users []im.User
		for i := range 400 {
			users = append(users, im.User(fmt.Sprint("u", i)))
			w.store.set(users[i], user.ToEverybody)
			w.nodes[2].connect(t, users[i])
		}
		pass(time.Second)
		var watchers []*session
		for i := range 300 {
			s := w.nodes[0].connect(t, im.User(fmt.Sprint("w", i)))
			s.set(users[i%200], users[200+i%200])
			watchers = append(watchers, s)
		}
		pass(5 * time.Second)
		told := w.nodes[0].Sent.Load()
		if told != 600 {
			t.Fatalf("%d presences were told at first, want 600", told)
		}
		for _, s := range watchers {
			_ = s.got()
		}
		w.nodes[2].end()
		pass(10 * time.Second)
		for _, u := range users[:200] {
			w.nodes[1].connect(t, u)
		}
		pass(2 * time.Minute) // the node is forgotten, and then the others have been away for long enough
		if n := w.nodes[0].Sent.Load() - told; n != 300 {
			t.Errorf("after the death of a node %d presences were told, want 300: those of users who did not come back", n)
		}
		watchers[7].want("after the death of a node", "u207 off since 00:00")
	})
}

// TestUsersAreStoredAsSeenInBatches: only those who are gone for good, at the end as well.
func TestUsersAreStoredAsSeenInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		pass(12 * time.Minute)
		var all []*session
		for i := range 1500 {
			all = append(all, n.connect(t, im.User(fmt.Sprint("u", i))))
		}
		for _, s := range all {
			s.leave()
		}
		for i := range 500 {
			all[i] = n.connect(t, im.User(fmt.Sprint("u", i)))
		}
		pass(29 * time.Second)
		if seen, _ := w.store.written(); len(seen) != 0 {
			t.Errorf("%d users are stored as seen before it is clear that they are gone", len(seen))
		}
		pass(time.Minute)
		seen, updates := w.store.written()
		if len(seen) != 1000 || len(updates) > 3 || slices.Max(updates) > 512 { // a batch may begin while others still leave
			t.Errorf("%d users are stored as seen, in %v; want 1000 in two or three batches of at most 512", len(seen), updates)
		}
		if got := time.UnixMilli(int64(seen["u777"])).UTC().Format("15:04:05"); got != "00:10:00" {
			t.Errorf("who left at 12 minutes past midnight is stored as seen at %s", got)
		}
		all[3].leave()
		n.end()
		if seen, _ := w.store.written(); seen["u3"] == 0 {
			t.Error("who left shortly before the end is not stored as seen")
		}
	})
}

// The time of being online last is known at any time: while a user is online, within the 30 s,
// and from the store.
func TestLastSeenIsKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		a := im.Account{Tenant: im.DefaultTenant, User: "bob"}
		want := func(when, want string) {
			t.Helper()
			pass(time.Second)
			ms, online, err := n.LastSeen(t.Context(), a, time.Now())
			got := fmt.Sprint(time.UnixMilli(int64(ms)).UTC().Format("15:04:05"), " ", time.UnixMilli(int64(online)).UTC().Format("15:04:05"))
			if err != nil || got != want {
				t.Errorf("%s bob was online until %s, %v; want %s", when, got, err, want)
			}
		}
		want("before he came", "00:00:00 00:00:00")
		pass(12 * time.Minute)
		bob := n.connect(t, "bob")
		want("while he is here", "00:10:00 00:12:07")
		bob.leave()
		pass(10*time.Minute - 10*time.Second)
		bob = n.connect(t, "bob")
		bob.leave()
		want("when he has just gone", "00:20:00 00:21:57")
		pass(time.Hour)
		want("long after that", "00:20:00 00:00:00")
		if ms, _, err := n.LastSeen(t.Context(), a, time.Now().Add(-time.Hour-4*time.Minute)); err != nil || time.UnixMilli(int64(ms)).UTC().Format("15:04:05") != "00:10:00" {
			t.Errorf("as of an earlier time bob was online until %d, %v; want not later than that time", ms, err)
		}
	})
}

// TestALaterTimeOfBeingOnlineStays: a node that stood still stores nothing older than what
// another node has stored meanwhile, also if that one writes between its read and its write.
func TestALaterTimeOfBeingOnlineStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		pass(12 * time.Minute)
		later := uint64(time.Now().Add(time.Hour).UnixMilli())
		before := func(u im.User) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.seen[u] = later
		}
		n.connect(t, "u1").leave()
		n.connect(t, "u1").leave()
		n.connect(t, "u2").leave()
		before("u1")
		pass(time.Minute)
		n.connect(t, "u3").leave()
		w.store.mu.Lock()
		w.store.meanwhile = func() { w.store.seen["u3"] = later }
		w.store.mu.Unlock()
		pass(time.Minute)
		seen, _ := w.store.written()
		if seen["u1"] != later || seen["u3"] != later || seen["u2"] == 0 {
			t.Errorf("stored as seen: %v; want %d of u1 and u3, as another node has stored it, and u2 as well", seen, later)
		}
	})
}

// TestAFailingStoreIsAskedAgain, after a pause.
func TestAFailingStoreIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		w.store.set("bob", user.ToEverybody)
		w.store.fail(store.ErrStalled)
		alice := w.nodes[0].connect(t, "alice")
		w.nodes[0].connect(t, "bob")
		alice.set("bob")
		pass(10 * time.Second)
		alice.want("while the store does not answer", "")
		if n := len(w.store.read()); n != 11 {
			t.Errorf("a store that fails was asked %d times in 10 s, want 11: at once, and each second", n)
		}
		w.store.fail(nil)
		pass(2 * time.Second)
		alice.want("when the store answers", "bob on")
	})
}
