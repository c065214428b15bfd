package session_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/presence"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// staged is a store that lets a test act between the steps of the server.
type staged struct {
	store.Store
	mu     sync.Mutex
	held   chan struct{} // commits become durable when it is closed; nil: at once
	record func(t store.Table, key []byte, after bool) error
	read   func(c im.Key) // before the record of a conversation or of one member is read
	broken error          // returned by such a read
}

func (s *staged) breakConversations(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// onRecord has f called before and after each read of a record. If f returns an error,
// the read returns it.
func (s *staged) onRecord(f func(t store.Table, key []byte, after bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = f
}

func (s *staged) onConversation(f func(c im.Key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = f
}

func (s *staged) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	s.mu.Lock()
	f := s.record
	s.mu.Unlock()
	if f == nil {
		return s.Store.Record(ctx, t, tenant, key)
	}
	if err := f(t, key, false); err != nil {
		return nil, err
	}
	v, err := s.Store.Record(ctx, t, tenant, key)
	if err := f(t, key, true); err != nil {
		return nil, err
	}
	return v, err
}

func (s *staged) Conversation(ctx context.Context, c im.Key) (*storepb.Conversation, error) {
	if err := s.reads(c); err != nil {
		return nil, err
	}
	return s.Store.Conversation(ctx, c)
}

func (s *staged) Member(ctx context.Context, c im.Key, u im.User) (*storepb.Member, error) {
	if err := s.reads(c); err != nil {
		return nil, err
	}
	return s.Store.Member(ctx, c, u)
}

func (s *staged) reads(c im.Key) error {
	s.mu.Lock()
	f, err := s.read, s.broken
	s.mu.Unlock()
	if err == nil && f != nil {
		f(c)
	}
	return err
}

func (s *staged) Append(b *store.Batch, done func(error)) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	s.Store.Append(b, func(err error) {
		if held != nil {
			<-held
		}
		done(err)
	})
}

// shut makes commits wait until open is called.
func (s *staged) shut() (open func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{})
	s.held = ch
	var once sync.Once
	return func() {
		once.Do(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.held = nil
			close(ch)
		})
	}
}

// logLines keeps what the server logs.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bubbleBegin is when the clock of each bubble begins, as Unix milliseconds.
const bubbleBegin = 946_684_800_000

// someStore makes ids like those of a store.
var someStore = im.NewIDs([16]byte{1})

// world is a server without a network.
type world struct {
	t        testing.TB
	fs       vfs.FS
	store    *staged
	table    *fanout.Table
	convs    *conv.Convs
	router   *route.Router
	users    *user.Users
	inbox    *inbox.Consumer
	hub      *session.Hub
	presence *presence.Presence
	net      *localbus.Net
	log      logLines
	o        session.Options
	limits   session.Limits
	stops    []func()

	unknown int                                             // conversations asked for that do not exist
	isNamed func(context.Context, im.Account) (bool, error) // of route.Options

	behind atomic.Int64 // nanoseconds that the server's clock is set back
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, fs: vfs.NewMem(), limits: session.Limits{
		ConnectionsPerUser: -1, SendsPerSecond: -1, SendBurst: -1, WindowSends: 64, WindowBytes: 256 << 10, OutboxBytes: 256 << 10,
		FrameBytesBeforeHello: 4 << 10, BodyBytes: 1000, HistoryMessages: 200,
	}}
	t.Cleanup(func() { w.stop() })
	return w
}

// clock is the wall clock of the server.
func (w *world) clock() time.Time { return time.Now().Add(-time.Duration(w.behind.Load())) }

// setBack sets the wall clock of the server back.
func (w *world) setBack(d time.Duration) { w.behind.Add(int64(d)) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts the server with the options w.o and w.limits.
func (w *world) start() *world {
	w.t.Helper()
	ctx := context.Background()
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: w.fs, CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1})
	w.must(err)
	w.stops = []func(){func() { w.must(st.Close()) }}
	w.store, w.table = &staged{Store: st}, fanout.NewTable()
	w.users, err = user.New(ctx, user.Options{Now: w.clock}, w.store)
	w.must(err)
	w.convs, err = conv.New(ctx, conv.Options{LookUp: w.users.LookUp, Now: w.clock}, w.store, w.table)
	w.must(err)
	w.router = route.New(route.Options{IsNamed: w.isNamed}, w.convs, w.store)
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	w.inbox, err = inbox.NewConsumer(ctx, log, w.convs, w.convs.Owners()[0], w.store)
	w.must(err)
	w.o.Log, w.o.Now, w.o.Version, w.o.HistoryID = log, w.clock, "test", st.Info().HistoryID
	w.o.Heartbeat, w.o.Misses = 30*time.Second, 2
	w.o.IDs = w.convs.IDs()
	syncer := &inbox.Syncer{Router: w.router, Store: st}
	w.hub = session.New(w.o, w.users, w.convs, w.router, syncer, w.table, w.limits)
	w.presence = presence.New(presence.Options{
		Log: log, Now: w.clock, Store: w.store, IDs: w.convs.IDs(), Table: w.table, Facts: w.users.Facts, Knows: w.users.Acquaintances,
	})
	w.hub.AttachPresence(w.presence)
	w.inbox.Hooks = inbox.Hooks{Blocked: w.presence.BlockChanged, Wrote: w.presence.Wrote, LastSeen: w.presence.LastSeen}
	w.net = localbus.New()
	b, err := w.net.Join("one")
	w.must(err)
	w.hub.Attach(b)
	for _, run := range []func(context.Context) error{w.convs.Run, b.Run, w.inbox.Run, w.hub.Run, w.presence.Run} {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		w.stops = append(w.stops, func() {
			cancel()
			if err := <-ended; err != nil {
				w.t.Error(err)
			}
		})
	}
	return w
}

func (w *world) stop() {
	for len(w.stops) > 0 {
		n := len(w.stops) - 1
		w.stops[n]()
		w.stops = w.stops[:n]
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

func (w *world) token(tenant string, u im.User) string {
	w.t.Helper()
	issued, err := w.users.Create(context.Background(), tenant, []im.User{u})
	w.must(err)
	return issued[0].Token
}

// forget waits until all conversations have left memory.
func (w *world) forget() {
	w.t.Helper()
	pass(2 * time.Minute)
	settled(w.t, "no conversation is in memory", func() bool { return w.convs.Loaded() == 0 })
}

func account(u im.User) im.Account { return im.Account{Tenant: im.DefaultTenant, User: u} }

// newGroup is the send that creates a group.
func newGroup(name string, users ...string) *conv.Send {
	s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, name)}, Keyed: true}
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: name}
	change := &petrelv1.MemberChange{}
	for _, u := range users {
		change.Added = append(change.Added, &petrelv1.MemberRef{User: u})
	}
	s.Entry.ClientMsgId, s.Entry.Body = "create", &petrelv1.Message_Members{Members: change}
	return s
}

// group creates a group, and waits until it is in the inboxes of its members.
func (w *world) group(name string, users ...string) string {
	w.t.Helper()
	s := newGroup(name, users...)
	done := make(chan conv.Result, 1)
	s.Done = func(r conv.Result) { done <- r }
	w.convs.Submit([]*conv.Send{s}, &fanout.WakeUps{})
	if r := <-done; r.Err != nil {
		w.t.Fatal(r.Err)
	}
	w.must(w.inbox.Await(context.Background()))
	return s.Conv.Conv.String()
}

// texts returns the messages of a conversation.
func (w *world) texts(id string) []string {
	w.t.Helper()
	p, err := w.router.HistoryPage(context.Background(), im.Account{Tenant: im.DefaultTenant}, &petrelv1.GetHistory{Conv: id}, 200, conv.Extras{})
	w.must(err)
	var all []string
	for _, m := range p.Messages {
		if m.GetMembers() == nil {
			all = append(all, m.From+":"+m.GetText())
		}
	}
	return all
}

// client is one connection on TCP.
type client struct {
	t       testing.TB
	codec   wire.Codec
	s       *session.Session
	flusher *fanout.Flusher
	wake    chan struct{}
	wakeUps fanout.WakeUps
	frames  []*petrelv1.ServerFrame
	end     *im.Error // the reason for which the server closes the connection
	gone    bool
}

func (w *world) connect() *client { return open(w.t, w.hub) }

func open(t testing.TB, h *session.Hub) *client { return openIn(t, h, wire.Proto) }

func openIn(t testing.TB, h *session.Hub, codec wire.Codec) *client {
	c := &client{t: t, codec: codec, wake: make(chan struct{}, 1)}
	c.flusher = fanout.NewFlusher(func() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	})
	c.s = h.Open(wire.Encoding{Codec: codec, Framing: wire.TCP}, c.flusher)
	c.s.Out.Conn = c
	t.Cleanup(c.close)
	return c
}

// ClientAddr is that of nobody.
func (c *client) ClientAddr() netip.Addr { return netip.Addr{} }

func (c *client) close() {
	if !c.gone {
		c.gone = true
		c.s.Closed()
	}
}

// send gives frames to the session as one read. It returns false if the session takes
// no more.
func (c *client) send(frames ...*petrelv1.ClientFrame) bool {
	var all [][]byte
	for _, f := range frames {
		all = append(all, c.encode(f))
	}
	return c.read(all...)
}

func (c *client) encode(f *petrelv1.ClientFrame) []byte {
	marshal := proto.Marshal
	if c.codec == wire.JSON {
		marshal = protojson.Marshal
	}
	b, err := marshal(f)
	if err != nil {
		c.t.Error(err)
	}
	return b
}

func (c *client) read(frames ...[]byte) bool {
	defer c.wakeUps.Flush()
	defer c.s.ReadDone(&c.wakeUps)
	for _, b := range frames {
		if !c.s.Receive(b, &c.wakeUps) {
			return false
		}
	}
	return true
}

// take gathers what the server has written so far.
func (c *client) take() {
	for _, o := range c.flusher.Take(nil) {
		p, end := o.Take()
		if end != nil {
			c.end = end
		}
		for b := p.Bytes; len(b) > 0; {
			f := &petrelv1.ServerFrame{}
			var err error
			if c.codec == wire.JSON {
				line, rest, _ := bytes.Cut(b, []byte("\n"))
				b, err = rest, protojson.Unmarshal(line, f)
			} else {
				n := 4 + binary.BigEndian.Uint32(b)
				b, err = b[n:], proto.Unmarshal(b[4:n], f)
			}
			if err != nil {
				c.t.Error(err)
			}
			c.frames = append(c.frames, f)
		}
		o.Wrote(p, 0)
	}
}

// next is the next frame.
func (c *client) next() *petrelv1.ServerFrame {
	c.t.Helper()
	for len(c.frames) == 0 {
		eventually.Receive(c.t, "the server writes", c.wake)
		c.take()
	}
	f := c.frames[0]
	c.frames = c.frames[1:]
	return f
}

// show returns a frame as a short text.
func show(f *petrelv1.ServerFrame) string {
	who := ""
	if f.Id != 0 {
		who = fmt.Sprint(" of ", f.Id)
	}
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Ack:
		return fmt.Sprint("ack ", b.Ack.Seq, who)
	case *petrelv1.ServerFrame_Error:
		return b.Error.Code + who
	case *petrelv1.ServerFrame_Kick:
		return "kick " + b.Kick.Code + who
	case *petrelv1.ServerFrame_Events:
		return strings.Join(messages(b.Events), " ")
	case *petrelv1.ServerFrame_History:
		return fmt.Sprint("history of ", len(b.History.Messages), who)
	case *petrelv1.ServerFrame_Sync:
		return fmt.Sprint("sync of ", len(b.Sync.Convs), who)
	}
	return f.ProtoReflect().WhichOneof(f.ProtoReflect().Descriptor().Oneofs().Get(0)).TextName() + who
}

func messages(e *petrelv1.Events) (all []string) {
	for _, m := range e.GetMessages() {
		all = append(all, fmt.Sprintf("%d:%s", m.Seq, m.GetText()))
	}
	return all
}

// wantMessages reads frames until as many messages came, in however many frames.
func (c *client) wantMessages(want ...string) {
	c.t.Helper()
	var got []string
	for len(got) < len(want) {
		got = append(got, messages(c.next().GetEvents())...)
	}
	if d := cmp.Diff(want, got); d != "" {
		c.t.Errorf("messages (-want +got):\n%s", d)
	}
}

// want reads as many frames as are given, and compares them as show does.
func (c *client) want(frames ...string) {
	c.t.Helper()
	var got []string
	for range frames {
		got = append(got, show(c.next()))
	}
	if d := cmp.Diff(frames, got); d != "" {
		c.t.Errorf("frames (-want +got):\n%s", d)
	}
}

// wantEnd checks that the connection is ended after the frames that were read.
func (c *client) wantEnd(code im.Code) {
	c.t.Helper()
	synctest.Wait()
	c.take()
	if c.end == nil || c.end.Code != code || len(c.frames) > 0 {
		c.t.Errorf("the connection ends with %v after %v, want %s", c.end, c.frames, code)
	}
}

// wantNothing checks that nothing has come when the server has done all there is to do.
func (c *client) wantNothing() {
	c.t.Helper()
	synctest.Wait()
	c.take()
	if len(c.frames) > 0 || c.end != nil {
		c.t.Errorf("frames %v, end %v; want nothing", c.frames, c.end)
	}
}

func hello(token string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Hello{Hello: &petrelv1.Hello{VersionMin: 1, VersionMax: 1, Token: token}}}
}

// login returns a connection that was welcomed.
func (w *world) login(token string) *client {
	w.t.Helper()
	c := w.connect()
	c.send(hello(token))
	c.want("welcome of 1")
	return c
}

func text(id uint64, conv, k, body string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{Conv: conv, ClientMsgId: k, After: proto.Uint64(1), Body: &petrelv1.Send_Text{Text: body}}}}
}

func ping(id uint64) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}
}

func history(id uint64, conv string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_History{History: &petrelv1.GetHistory{Conv: conv}}}
}

func syncFrame(id uint64, token []byte) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Sync{Sync: &petrelv1.Sync{Token: token}}}
}

// settled checks a condition when the server has done all there is to do.
func settled(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if synctest.Wait(); !ok() {
		t.Fatalf("when all is done it does not hold: %s", what)
	}
}

var errDisk = errors.New("broken disk")
