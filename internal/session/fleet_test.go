package session_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// records is the store that several nodes share. It has only records, for the accounts.
type records struct {
	store.Store // nil: nobody calls its other methods

	mu    sync.Mutex
	by    map[string][]byte
	reads int // of single records
}

func place(t store.Table, tenant im.Tenant, key []byte) string {
	return strconv.Itoa(int(t)) + " " + strconv.Itoa(int(tenant)) + " " + string(key)
}

func (r *records) Info() store.Info { return store.Info{StoreID: 1, Secret: [16]byte{1}} }

func (r *records) Record(_ context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	return r.by[place(t, tenant, key)], nil
}

func (r *records) Records(_ context.Context, t store.Table, tenant im.Tenant, prefix []byte, fn func(key, value []byte) bool) error {
	r.mu.Lock()
	all := maps.Clone(r.by)
	r.mu.Unlock()
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(p, place(t, tenant, prefix)) && !fn([]byte(strings.TrimPrefix(p, place(t, tenant, nil))), all[p]) {
			break
		}
	}
	return nil
}

func (r *records) Update(_ context.Context, puts []store.RecordPut) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range puts {
		if was, there := r.by[place(p.Table, p.Tenant, p.Key)]; p.Check && (there != (p.Was != nil) || !bytes.Equal(was, p.Was)) {
			return store.ErrChanged
		}
	}
	for _, p := range puts {
		if p.Value == nil {
			delete(r.by, place(p.Table, p.Tenant, p.Key))
		} else {
			r.by[place(p.Table, p.Tenant, p.Key)] = bytes.Clone(p.Value)
		}
	}
	return nil
}

var errUnreachable = errors.New("the database is not reachable")

// storeConn is the connection of one node to the records.
type storeConn struct {
	*records
	cut  atomic.Bool            // reads wait until they are given up, writes fail
	hook atomic.Pointer[func()] // called before and after each read of a record
}

func (l *storeConn) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	if l.cut.Load() {
		<-ctx.Done()
		return nil, errUnreachable
	}
	f := l.hook.Load()
	if f == nil {
		return l.records.Record(ctx, t, tenant, key)
	}
	(*f)()
	defer (*f)()
	return l.records.Record(ctx, t, tenant, key)
}

func (l *storeConn) Update(ctx context.Context, puts []store.RecordPut) error {
	if l.cut.Load() {
		return errUnreachable
	}
	return l.records.Update(ctx, puts)
}

// fleet is several nodes on one store, in a bubble.
type fleet struct {
	t                 *testing.T
	net               *localbus.Net
	db                *records
	o                 stream.Options
	rechecksPerSecond int

	incarnations atomic.Uint64
	mu           sync.Mutex
	nodes        map[im.Node]*site
	heartbeats   map[im.Node]bool // nodes that live by their heartbeats
}

// site is a node without listeners.
type site struct {
	f           *fleet
	id          im.Node
	storeConn   *storeConn
	bus         *bustest.LossyBus
	streams     *stream.Streams
	users       *user.Users
	table       *fanout.Table
	fan         *fanout.Fan
	hub         *session.Hub
	tellsNobody atomic.Bool // it dies after a change, before it tells anybody
	seen        []im.Node   // the other nodes when it last read the heartbeats
	stop        func()
}

// fleetOf runs f in a bubble, with n nodes a, b, c, … that know each other.
func fleetOf(t *testing.T, n int, f func(f *fleet, all []*site)) {
	synctest.Test(t, func(t *testing.T) { newFleet(t).run(n, f) })
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, net: localbus.New(), db: &records{by: map[string][]byte{}}, nodes: map[im.Node]*site{}, heartbeats: map[im.Node]bool{}}
}

func (f *fleet) run(n int, do func(f *fleet, all []*site)) {
	var all []*site
	for i := range n {
		all = append(all, f.start(im.Node(rune('a'+i))))
	}
	defer func() {
		for _, s := range f.nodes {
			s.stop()
		}
	}()
	pass(3 * time.Second)
	do(f, all)
}

// pass waits for a while of the bubble's time, and until everything due has happened.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *fleet) start(id im.Node) *site {
	b, err := f.net.Join(id)
	if err != nil {
		f.t.Fatal(err)
	}
	s := &site{f: f, id: id, storeConn: &storeConn{records: f.db}, bus: bustest.Lossy(b, bustest.Rules{}), table: fanout.NewTable()}
	s.streams = stream.New(s.bus, f.incarnations.Add(1), f.o)
	s.users, err = user.New(context.Background(), user.Options{Changed: func(a im.Account) {
		if !s.tellsNobody.Load() {
			s.hub.Changed(a)
		}
	}}, s.storeConn)
	if err != nil {
		f.t.Fatal(err)
	}
	s.fan = fanout.New(s.table)
	o := session.Options{Version: "test", RechecksPerSecond: f.rechecksPerSecond}
	o.IDs = someStore
	s.hub = session.New(o, s.users, nil, nil, nil, s.table, session.Limits{
		ConnectionsPerUser: -1, SendsPerSecond: -1, WindowSends: 64, WindowBytes: 256 << 10, OutboxBytes: 256 << 10, BodyBytes: 1000,
	})
	s.hub.Attach(s.bus)
	s.hub.AttachStreams(s.streams, s.others)
	s.hub.AttachCalls(func(_ context.Context, _ user.Identity, _ netip.Addr, method string, _ bool, _ io.Reader) ([]byte, error) {
		took, err := time.ParseDuration(method)
		<-time.After(took) // the method is the time that the call takes
		return nil, err
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{s.bus.Run, s.streams.Run, s.hub.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				f.t.Error(err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[id], f.heartbeats[id] = s, true
	return s
}

// others returns the other nodes that have heartbeats. If these cannot be read, it
// returns those that it read last.
func (s *site) others() []im.Node {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.storeConn.cut.Load() {
		return s.seen
	}
	s.seen = nil
	for n, alive := range s.f.heartbeats {
		if alive && n != s.id {
			s.seen = append(s.seen, n)
		}
	}
	return s.seen
}

// kill ends a process. Its heartbeat row stays for a while.
func (s *site) kill(row time.Duration) {
	for n := range s.f.nodes {
		s.bus.Cut(n, true) // or the streams would tell the others that they end
	}
	s.stop()
	delete(s.f.nodes, s.id)
	time.AfterFunc(row, func() {
		s.f.mu.Lock()
		defer s.f.mu.Unlock()
		s.f.heartbeats[s.id] = s.f.nodes[s.id] != nil
	})
}

// cut cuts the direction from one node to another, or mends it.
func cut(from, to *site, cut bool) { from.bus.Cut(to.id, cut) }

// cutOff cuts a node off all others in both directions, or mends that.
func (f *fleet) cutOff(s *site, cut bool) {
	for _, o := range f.nodes {
		if o != s {
			s.bus.Cut(o.id, cut)
			o.bus.Cut(s.id, cut)
		}
	}
}

func phoneRef(n int) user.DeviceRef {
	return user.DeviceRef{ID: "phone-" + strconv.Itoa(n), Kind: "phone"}
}

// logIn logs a device of a user in at a node. It ends no sessions.
func (s *site) logIn(u im.User, ref user.DeviceRef) *user.Login {
	s.f.t.Helper()
	l, err := s.users.Mint(context.Background(), "", u, ref, 0)
	s.f.must(err)
	return l
}

// unboundToken returns a token that is bound to no device.
func (s *site) unboundToken(u im.User) string {
	s.f.t.Helper()
	issued, err := s.users.Create(context.Background(), "", []im.User{u})
	s.f.must(err)
	return issued[0].Token
}

// replace ends the sessions that a login replaces, as the API does.
func (s *site) replace(l *user.Login) {
	for _, d := range l.Ended {
		_, err := s.hub.CloseDevice(context.Background(), l.Account, d, im.CodeReplaced)
		s.f.must(err)
	}
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// conn is a connection to a node. Like a gateway it closes the connection when the
// session is ended.
type conn struct {
	*client
	at   *site
	user im.User
	seq  int // of the last event that was delivered to it
}

func (s *site) connect(token string) *conn {
	c := open(s.f.t, s.hub)
	c.send(hello(token))
	return &conn{client: c, at: s}
}

// welcomed returns a connection that was welcomed.
func (s *site) welcomed(u im.User, token string) *conn {
	s.f.t.Helper()
	c := s.connect(token)
	c.user = u
	c.want("welcome of 1")
	return c
}

// look takes what has come, and closes the connection if the session was ended.
func (c *conn) look() {
	c.take()
	if c.end != nil {
		c.close()
	}
}

// gets delivers an event to the user, and returns whether the connection gets it.
func (c *conn) gets() bool {
	c.look()
	if c.gone {
		return false
	}
	c.frames = nil
	c.seq++
	text := "event " + strconv.Itoa(c.seq)
	row := wire.AppendMessage(nil, &petrelv1.Message{
		Conv: someStore.Inbox(im.DefaultTenant, c.user).String(), Seq: uint64(c.seq), From: "eve", Body: &petrelv1.Message_Text{Text: text},
	})
	c.at.fan.Deliver(im.DefaultTenant, []im.User{c.user}, []fanout.Item{{Row: row}})
	c.at.fan.Flush()
	c.look()
	for _, f := range c.frames {
		for _, m := range f.GetEvents().GetMessages() {
			if m.GetText() == text {
				return true
			}
		}
	}
	return false
}

// wantOpen checks that the connection is open.
func (c *conn) wantOpen(what string) {
	c.t.Helper()
	if c.look(); c.end != nil {
		c.t.Errorf("%s: the session at %s ends with %v", what, c.at.id, c.end)
	}
}

func (c *conn) wantEnded(what string, code im.Code) {
	c.t.Helper()
	if c.look(); c.end == nil || c.end.Code != code {
		c.t.Errorf("%s: the session at %s ends with %v, want %s", what, c.at.id, c.end, code)
	}
}

// synctestFleet does what fleetOf does, after change has set other options.
func synctestFleet(t *testing.T, change func(*fleet), n int, f func(f *fleet, all []*site)) {
	synctest.Test(t, func(t *testing.T) {
		fl := newFleet(t)
		change(fl)
		fl.run(n, f)
	})
}

// lossOf returns rules by which the bus loses messages for which drop returns true.
func lossOf(drop func(to im.Node, s bus.Subject) bool) bustest.Rules {
	return bustest.Rules{Drop: func(to im.Node, s bus.Subject, _ []byte) bool { return drop(to, s) }}
}
