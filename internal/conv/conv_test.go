package conv_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // the parallel tests mostly wait
	goleak.VerifyTestMain(m)
}

// deadline bounds what a working server does at once.
const deadline = 20 * time.Second

// gate is a store whose commits are readable at once and become durable only
// when the gate lets them: the time between write and sync, as long as a test
// likes.
type gate struct {
	store.Store
	mu       sync.Mutex
	held     chan struct{} // nil: open
	mute     bool          // with held: the store goes on, only nobody is told
	late     bool          // with held: the store gets a commit when the gate opens
	breaks   bool          // the next commit fails with an unknown outcome
	poisoned bool          // the next commit fails, and the feed is to be taken over
	full     bool          // commits are refused
	doubtful *bool         // the next commit has an unknown outcome; whether it is stored
	failed   chan struct{}
	asked    int // commits that were refused, or are to be, or come late

	onWritable func()          // called before the store is asked; nil: nothing
	onRow      func(store.Row) // called for each row that is read; nil: nothing
	durable    atomic.Uint64   // the highest seq in the commits that are
	away       atomic.Bool     // it is out of reach, as far as sends are told
}

func (g *gate) Failed() <-chan struct{} { return g.failed }

func (g *gate) fail() {
	g.mu.Lock()
	g.breaks = true
	g.mu.Unlock()
}

// poison makes the store take nothing of the feed until it is taken over.
func (g *gate) poison() {
	g.mu.Lock()
	g.poisoned = true
	g.mu.Unlock()
}

func (g *gate) Writable() error {
	g.mu.Lock()
	f := g.onWritable
	g.mu.Unlock()
	if f != nil {
		f()
	}
	if g.away.Load() {
		return store.ErrStalled
	}
	return g.Store.Writable()
}

// doubt makes the outcome of the next commit unknown.
func (g *gate) doubt(stored bool) {
	g.mu.Lock()
	g.doubtful = &stored
	g.mu.Unlock()
}

func (g *gate) Takeover(ctx context.Context, f store.Feed, holder uint64) (im.Epoch, im.Pos, error) {
	g.mu.Lock()
	g.poisoned = false
	g.mu.Unlock()
	return g.Store.Takeover(ctx, f, holder)
}

func (g *gate) Append(b *store.Batch, done func(error)) {
	g.mu.Lock()
	if g.poisoned {
		g.mu.Unlock()
		done(store.ErrFailed)
		return
	}
	held, mute, late, breaks, full := g.held, g.mute, g.late, g.breaks, g.full
	if full || late && held != nil {
		g.asked++
	}
	doubtful := g.doubtful
	g.doubtful = nil
	g.mu.Unlock()
	if doubtful != nil {
		if *doubtful {
			g.Store.Append(b, func(error) { done(store.ErrUnknown) })
		} else {
			done(store.ErrUnknown)
		}
		return
	}
	if full {
		if held == nil {
			done(store.ErrFull)
			return
		}
		go func() { // ends with the gate
			<-held
			done(store.ErrFull)
		}()
		return
	}
	if breaks {
		done(errBroken)
		close(g.failed)
		return
	}
	if late && held != nil {
		go func() { // ends with the gate
			<-held
			g.Store.Append(b, done)
		}()
		return
	}
	tell := done
	if mute {
		tell = func(err error) {
			go func() { // ends with the gate
				<-held
				done(err)
			}()
		}
	}
	g.Store.Append(b, func(err error) {
		if held != nil && !mute {
			<-held
		}
		if err == nil {
			for _, row := range b.Rows {
				g.durable.Store(max(g.durable.Load(), uint64(row.Seq)))
			}
		}
		tell(err)
	})
}

func (g *gate) Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	return g.Store.Rows(ctx, c, from, to, func(r store.Row) bool {
		g.mu.Lock()
		onRow := g.onRow
		g.mu.Unlock()
		if onRow != nil {
			onRow(r)
		}
		return fn(r)
	})
}

// watch calls f for each row that is read; nil ends it.
func (g *gate) watch(f func(store.Row)) {
	g.mu.Lock()
	g.onRow = f
	g.mu.Unlock()
}

// refuse makes the store refuse commits, or take them again.
func (g *gate) refuse(full bool) {
	g.mu.Lock()
	g.full = full
	g.mu.Unlock()
}

func (g *gate) stopped() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// shut holds the commits from here on; the returned function lets them go.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ch := make(chan struct{})
	g.held = ch
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.held == ch {
			g.held = nil
			close(ch)
		}
	}
}

// look is how a conversation stands for a user.
func (w *world) look(ctx context.Context, key im.Key, u im.User) (*convpb.State, error) {
	return route.Ask(ctx, w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).State, &convpb.GetState{})
}

func (w *world) page(ctx context.Context, key im.Key, u im.User, q *convpb.GetHistory) (*convpb.History, error) {
	return route.Ask(ctx, w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).History, q)
}

func (w *world) memberPage(ctx context.Context, key im.Key, u, after im.User, limit int) ([]*petrelv1.MemberRef, bool, error) {
	p, err := route.Ask(ctx, w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).Members, &convpb.ListMembers{After: string(after), Limit: uint32(limit)})
	return p.GetMembers(), p.GetMore(), err
}

func (w *world) receiptsOf(key im.Key, u im.User) ([]*petrelv1.Receipt, error) {
	list, err := route.Ask(context.Background(), w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).Receipts, &convpb.ListReceipts{})
	return list.GetReceipts(), err
}

// world is a store with its conversations and an online table.
type world struct {
	t      *testing.T
	fs     vfs.FS
	gate   *gate
	table  *fanout.Table
	convs  *conv.Convs
	router *route.Router
	ended  chan error   // what Run returned
	fills  int          // calls of fill
	later  atomic.Int64 // how far the wall clock is ahead, as a time.Duration
	stop   func()
}

func newWorld(t *testing.T) *world {
	return newWorldOn(t, vfs.NewMem())
}

func newWorldOn(t *testing.T, fs vfs.FS) *world {
	w := &world{t: t, fs: fs}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: w.fs, CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.gate = &gate{Store: st, failed: make(chan struct{})}
	w.table = fanout.NewTable()
	w.convs, err = conv.New(context.Background(), conv.Options{
		Now:        func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) },
		UserExists: func(_ context.Context, a im.Account) (bool, error) { return a.User != "nobody", nil },
	}, w.gate, w.table)
	if err != nil {
		w.t.Fatal(err)
	}
	w.router = route.New(route.Options{}, w.convs, w.gate)
	ctx, cancel := context.WithCancel(context.Background())
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.convs.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-w.ended; err != nil && !w.gate.breaks {
			w.t.Errorf("run conversations: %v", err)
		}
		if err := st.Close(); err != nil {
			w.t.Errorf("close store: %v", err)
		}
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

// message is a send of a text. after < 0: without after.
func message(key im.Key, from im.User, k string, after int, text string) *conv.Send {
	s := &conv.Send{Conv: key, Keyed: after < 0}
	if after > 0 {
		s.After = im.Seq(after)
	}
	s.Entry.From, s.Entry.ClientMsgId = string(from), k
	s.Entry.Body = &petrelv1.Message_Text{Text: text}
	return s
}

// submit queues sends and returns where their results come, in order.
func (w *world) submit(sends ...*conv.Send) []chan conv.Result {
	out := make([]chan conv.Result, len(sends))
	for i, s := range sends {
		ch := make(chan conv.Result, 1)
		s.Done = func(r conv.Result) { ch <- r }
		out[i] = ch
	}
	var k fanout.WakeUps
	w.convs.Submit(sends, &k)
	k.Flush()
	return out
}

func (w *world) await(ch chan conv.Result) conv.Result {
	w.t.Helper()
	select {
	case r := <-ch:
		return r
	case <-time.After(deadline):
		w.t.Fatal("no answer")
		return conv.Result{}
	}
}

func (w *world) send(s *conv.Send) conv.Result {
	w.t.Helper()
	return w.await(w.submit(s)[0])
}

func (w *world) mustSend(s *conv.Send) im.Seq {
	w.t.Helper()
	r := w.send(s)
	if r.Err != nil {
		w.t.Fatalf("send %s: %v (%s)", s.Entry.ClientMsgId, r.Err, r.Err.Code)
	}
	return r.Seq
}

func wantCode(t *testing.T, r conv.Result, code im.Code) {
	t.Helper()
	if r.Err == nil || r.Err.Code != code {
		t.Errorf("answer %+v, want code %s", r, code)
	}
}

var groups atomic.Uint64

// group makes a group; its first entry adds the users.
func (w *world) group(users ...im.User) im.Key {
	w.t.Helper()
	n := groups.Add(1)
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.KeyedGroupID(im.DefaultTenant, fmt.Sprint("group ", n))}
	change := &petrelv1.MemberChange{}
	for _, u := range users {
		change.Added = append(change.Added, &petrelv1.MemberRef{User: string(u)})
	}
	s := entry(key, "create", change)
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
	if q := w.mustSend(s); q != 1 {
		w.t.Fatalf("the first entry of a group has seq %d", q)
	}
	return key
}

func entry(key im.Key, k string, change *petrelv1.MemberChange) *conv.Send {
	s := &conv.Send{Conv: key, Keyed: true}
	s.Entry.ClientMsgId = k
	s.Entry.Body = &petrelv1.Message_Members{Members: change}
	return s
}

func kick(key im.Key, k string, u im.User) *conv.Send {
	return entry(key, k, &petrelv1.MemberChange{Removed: []string{string(u)}})
}

func add(key im.Key, k string, u im.User) *conv.Send {
	return entry(key, k, &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: string(u)}}})
}

// history reads all that a user may read of a conversation, as "seq:body".
func (w *world) history(key im.Key, u im.User) []string {
	w.t.Helper()
	var all []string
	for after := im.Seq(0); ; {
		p, err := w.page(context.Background(), key, u, &convpb.GetHistory{After: uint64(after)})
		if err != nil {
			w.t.Fatalf("history of %s for %s: %v", key, u, err)
		}
		for _, row := range p.Rows {
			var m petrelv1.Message
			if err := wire.ParseMessage(row, &m); err != nil {
				w.t.Fatal(err)
			}
			all = append(all, show(&m))
			after = im.Seq(m.Seq)
		}
		if !p.More {
			return all
		}
		if len(p.Rows) == 0 {
			w.t.Fatal("a page without rows says that there are more")
		}
	}
}

func show(m *petrelv1.Message) string {
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		return fmt.Sprintf("%d:%s%s", m.Seq, b.Text, marks(m))
	case *petrelv1.Message_Members:
		return fmt.Sprintf("%d:members", m.Seq)
	case *petrelv1.Message_Edit:
		return fmt.Sprintf("%d:edit of %d %s%s", m.Seq, b.Edit.Target, b.Edit.GetText(), marks(m))
	case *petrelv1.Message_Recall:
		return fmt.Sprintf("%d:recall of %d", m.Seq, b.Recall.Target)
	case nil:
		return fmt.Sprintf("%d:%s", m.Seq, marks(m))
	default:
		return fmt.Sprintf("%d:%T", m.Seq, b)
	}
}

// marks tells what rewrote an entry.
func marks(m *petrelv1.Message) string {
	var s string
	if m.EditedBy != 0 {
		s += fmt.Sprintf(" (edited by %d)", m.EditedBy)
	}
	if m.RecalledBy != 0 {
		s += fmt.Sprintf(" (recalled by %d)", m.RecalledBy)
	}
	return s
}

// screen is a connection whose frames a test reads.
type screen struct {
	t   *testing.T
	out *fanout.Outbox
}

// online enters a user into the online table.
func (w *world) online(u im.User) *screen {
	f := fanout.NewFlusher(func() {})
	s := &screen{t: w.t, out: fanout.NewOutbox(wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, f, 1<<20, nil)}
	s.out.Account = im.Account{Tenant: im.DefaultTenant, User: u}
	w.table.Enter(s.out.Account, s.out, -1)
	var k fanout.WakeUps
	s.out.Welcome(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{}}}, &k)
	_ = s.frames()
	return s
}

func (s *screen) frames() []*petrelv1.ServerFrame {
	p, _ := s.out.Take()
	defer s.out.Wrote(p, 0)
	var frames []*petrelv1.ServerFrame
	for b := p.Bytes; len(b) > 0; {
		n := binary.BigEndian.Uint32(b)
		f := &petrelv1.ServerFrame{}
		if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
			s.t.Fatal(err)
		}
		frames = append(frames, f)
		b = b[4+n:]
	}
	return frames
}

// got is what was pushed and answered so far: "seq:body", "ack seq", "code".
func (s *screen) got() []string {
	var all []string
	for _, f := range s.frames() {
		switch b := f.Body.(type) {
		case *petrelv1.ServerFrame_Events:
			for _, m := range b.Events.Messages {
				all = append(all, show(m))
			}
		case *petrelv1.ServerFrame_Ack:
			all = append(all, fmt.Sprintf("ack %d", b.Ack.Seq))
		case *petrelv1.ServerFrame_Error:
			all = append(all, b.Error.Code)
		default:
			all = append(all, fmt.Sprintf("%T", b))
		}
	}
	return all
}

var errBroken = errors.New("broken disk")
