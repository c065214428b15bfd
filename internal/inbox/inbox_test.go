package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// someStore makes ids like those of a store.
var someStore = im.NewIDs([16]byte{1})

// world is a store with its conversations and inboxes.
type world struct {
	compactFrom int // of the inboxes; 0: the default
	t           testing.TB
	fs          vfs.FS
	cache       int64 // bytes, of the store
	memory      int   // bytes, of conversations in memory; 0: as usual
	store       store.Store
	rows        *counting // the same
	table       *fanout.Table
	convs       *conv.Convs
	router      *route.Router
	sync        *inbox.Syncer
	consumer    *inbox.Consumer
	stopConv    func()
	stopFeed    func() // nil: no consumer runs
	ids         int
	written     atomic.Int64  // nanoseconds by which the clock of those who write entries is ahead
	later       time.Duration // by which the clock of the consumer is ahead
	allowed     string        // what the consumer may log; "": nothing
}

// counting counts what is read. A test may do something while a cursor is read,
// and before rows are.
type counting struct {
	store.Store
	read     atomic.Int64
	looks    atomic.Int64 // for heads, cursors and members
	onCursor func(im.User)
	onRows   func(im.Key)

	recordBytes atomic.Int64
}

func (s *counting) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	b, err := s.Store.Record(ctx, t, tenant, key)
	s.recordBytes.Add(int64(len(b)))
	return b, err
}

func (s *counting) LastRow(ctx context.Context, c im.Key) (*store.Row, error) {
	s.looks.Add(1)
	return s.Store.LastRow(ctx, c)
}

func (s *counting) Members(ctx context.Context, c im.Key, fn func(im.User, *storepb.Member) bool) error {
	s.looks.Add(1)
	return s.Store.Members(ctx, c, fn)
}

func (s *counting) Rows(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	if f := s.onRows; f != nil {
		f(c)
	}
	return s.Store.Rows(ctx, c, from, to, func(r store.Row) bool {
		s.read.Add(1)
		return fn(r)
	})
}

func (s *counting) RowsDown(ctx context.Context, c im.Key, from, to im.Seq, fn func(store.Row) bool) error {
	return s.Store.RowsDown(ctx, c, from, to, func(r store.Row) bool {
		s.read.Add(1)
		return fn(r)
	})
}

func (s *counting) Cursor(ctx context.Context, c im.Key, u im.User) (*storepb.Cursor, error) {
	s.looks.Add(1)
	rec, err := s.Store.Cursor(ctx, c, u)
	if f := s.onCursor; f != nil {
		f(u)
	}
	return rec, err
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, fs: vfs.NewMem(), cache: 8 << 20}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// Write gets the consumer's warnings and errors, of which there must be none: a
// change that fails is tried again for ever, and those behind it wait.
func (w *world) Write(line []byte) (int, error) {
	if w.allowed != "" && strings.Contains(string(line), w.allowed) {
		return len(line), nil
	}
	w.t.Errorf("consumer: %s", line)
	return len(line), nil
}

func (w *world) start() {
	w.t.Helper()
	w.open()
	w.consume()
}

// open is start without a consumer.
func (w *world) open() {
	w.t.Helper()
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: w.fs, CacheBytes: w.cache, MemTableBytes: 1 << 20, BallastBytes: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.rows = &counting{Store: st}
	w.store, w.table = w.rows, fanout.NewTable()
	if w.convs, err = conv.New(context.Background(), conv.Options{MemoryBytes: w.memory, Now: func() time.Time { return time.Now().Add(time.Duration(w.written.Load())) }}, w.store, w.table); err != nil {
		w.t.Fatal(err)
	}
	w.router = route.New(route.Options{AwaitInboxes: func(ctx context.Context, _ *conv.Owner) error {
		if w.stopFeed == nil {
			return nil
		}
		return w.consumer.Await(ctx)
	}}, w.convs, w.store)
	w.sync = &inbox.Syncer{Router: w.router, Store: st, Convs: w.convs, CompactFrom: w.compactFrom}
	w.stopConv = w.run("conversations", w.convs.Run)
}

// run runs f until the returned function is called.
func (w *world) run(what string, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("run %s: %v", what, err)
		}
	}
}

// consume starts a consumer, as a start of the server does.
func (w *world) consume() {
	w.t.Helper()
	w.consumeWith(inbox.Hooks{})
}

func (w *world) consumeWith(h inbox.Hooks) {
	w.t.Helper()
	c, err := inbox.NewConsumer(context.Background(), slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})), w.convs, w.convs.Owners()[0], w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Now = func() time.Time { return time.Now().Add(w.later) }
	if h.Wrote != nil {
		c.Wrote = h.Wrote
	}
	if h.Contact != nil {
		c.Contact = h.Contact
	}
	w.consumer = c
	w.stopFeed = w.run("inboxes", c.Run)
}

// forgetLists throws away what is stored of lists.
func (w *world) forgetLists() {
	w.t.Helper()
	var puts []store.RecordPut
	err := w.store.Records(context.Background(), store.Lists, im.DefaultTenant, nil, func(key, _ []byte) bool {
		puts = append(puts, store.RecordPut{Table: store.Lists, Tenant: im.DefaultTenant, Key: slices.Clone(key)})
		return true
	})
	if err == nil {
		err = w.store.Update(context.Background(), puts)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the consumer; its unsaved state is lost.
func (w *world) kill() {
	if w.stopFeed != nil {
		w.stopFeed()
		w.stopFeed = nil
	}
}

func (w *world) stop() {
	w.kill()
	w.stopConv()
	if err := w.store.Close(); err != nil {
		w.t.Errorf("close store: %v", err)
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

func (w *world) send(s *conv.Send) conv.Result {
	w.t.Helper()
	ch := make(chan conv.Result, 1)
	s.Done = func(r conv.Result) { ch <- r }
	var k fanout.WakeUps
	w.convs.Submit([]*conv.Send{s}, &k)
	k.Flush()
	return eventually.Receive(w.t, "the answer to a send", ch)
}

func (w *world) mustSend(s *conv.Send) im.Seq {
	w.t.Helper()
	r := w.send(s)
	if r.Err != nil {
		w.t.Fatalf("send %s: %v (%s)", s.Entry.ClientMsgId, r.Err, r.Err.Code)
	}
	return r.Seq
}

// id is a new client message id.
func (w *world) id() string {
	w.ids++
	return fmt.Sprint("id ", w.ids)
}

// change appends a change of members, by the server.
func (w *world) change(key im.Key, ch *petrelv1.MemberChange) im.Seq {
	w.t.Helper()
	return w.mustSend(w.entry(key, ch))
}

func (w *world) entry(key im.Key, ch *petrelv1.MemberChange) *conv.Send {
	s := &conv.Send{Conv: key, Keyed: true}
	s.Entry.ClientMsgId = w.id()
	s.Entry.Body = &petrelv1.Message_Members{Members: ch}
	return s
}

func refs(role petrelv1.Role, users ...string) []*petrelv1.MemberRef {
	var all []*petrelv1.MemberRef
	for _, u := range users {
		all = append(all, &petrelv1.MemberRef{User: u, Role: role})
	}
	return all
}

// group makes a group with members.
func (w *world) group(name string, users ...string) im.Key {
	w.t.Helper()
	key := im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, name)}
	s := w.entry(key, &petrelv1.MemberChange{Added: refs(0, users...)})
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: name}
	w.mustSend(s)
	return key
}

// say sends a text.
func (w *world) rename(key im.Key, title string) im.Seq {
	s := w.entry(key, nil)
	s.Entry.Body = &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: title}}
	return w.mustSend(s)
}

func (w *world) say(key im.Key, from im.User, text string) im.Seq {
	w.t.Helper()
	s := &conv.Send{Conv: key, Keyed: true}
	s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body = string(from), w.id(), &petrelv1.Message_Text{Text: text}
	return w.mustSend(s)
}

// direct sends a text to a user.
func (w *world) direct(from, to im.User, text string) im.Key {
	w.t.Helper()
	s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Direct(im.DefaultTenant, from, to)}, Peer: to, Keyed: true}
	s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body = string(from), w.id(), &petrelv1.Message_Text{Text: text}
	w.mustSend(s)
	return s.Conv
}

func (w *world) rowsOf(key im.Key, u im.User, q *convpb.GetHistory) (*convpb.History, error) {
	return route.Ask(context.Background(), w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).History, q)
}

func (w *world) look(key im.Key, u im.User) (*convpb.State, error) {
	return route.Ask(context.Background(), w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).State, &convpb.GetState{})
}

// inbox reads a user's inbox: "joined CONV@seq kind peer title", "left …".
func (w *world) inbox(u im.User) []string {
	w.t.Helper()
	var all []string
	key := im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Inbox(im.DefaultTenant, u)}
	for after := im.Seq(0); ; {
		p, err := w.rowsOf(key, u, &convpb.GetHistory{After: uint64(after)})
		if im.CodeOf(err) == im.CodeNoConversation && err != nil {
			return nil
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, row := range p.Rows {
			var m petrelv1.Message
			if err := wire.ParseMessage(row, &m); err != nil {
				w.t.Fatal(err)
			}
			after = im.Seq(m.Seq)
			all = append(all, showEntry(&m))
		}
		if !p.More {
			return all
		}
	}
}

func showEntry(m *petrelv1.Message) string {
	switch e := m.GetInbox().GetEntry().(type) {
	case *petrelv1.InboxEntry_Joined:
		j := e.Joined
		return fmt.Sprintf("joined %s@%d %s peer=%s title=%s", j.Conv, j.Seq, j.Kind.String()[len("CONV_KIND_"):], j.Peer, j.Title)
	case *petrelv1.InboxEntry_Left:
		return fmt.Sprintf("left %s@%d", e.Left.Conv, e.Left.Seq)
	case *petrelv1.InboxEntry_Role:
		return fmt.Sprintf("role %s@%d %s", e.Role.Conv, e.Role.Seq, e.Role.Role.String()[len("ROLE_"):])
	case *petrelv1.InboxEntry_Settings:
		return fmt.Sprint("settings @", e.Settings.User, e.Settings.Values)
	}
	return m.String()
}

// wantInbox checks the entries that an inbox has when the consumer has carried everything.
func (w *world) wantInbox(u im.User, want ...string) {
	w.t.Helper()
	synctest.Wait()
	if d := cmp.Diff(want, w.inbox(u)); d != "" {
		w.t.Errorf("inbox of %s (-want +got):\n%s", u, d)
	}
}

// settle waits until the inboxes have everything so far.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	if err := w.consumer.Await(ctx); err != nil {
		w.t.Fatalf("the consumer does not come through: %v", err)
	}
}

func TestEveryChangeReachesTheInboxesOfThoseConcerned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		id := key.Conv.String()
		w.say(key, "alice", "nothing of this is in an inbox")
		w.change(key, &petrelv1.MemberChange{Added: refs(0, "carol"), Removed: []string{"bob"}, Roles: refs(petrelv1.Role_ROLE_ADMIN, "alice")})
		w.change(key, &petrelv1.MemberChange{Left: []string{"carol"}})
		w.change(key, &petrelv1.MemberChange{Added: refs(petrelv1.Role_ROLE_OWNER, "bob")})
		w.wantInbox("alice", "joined "+id+"@1 GROUP peer= title=team", "role "+id+"@3 ADMIN")
		w.wantInbox("bob", "joined "+id+"@1 GROUP peer= title=team", "left "+id+"@3", "joined "+id+"@5 GROUP peer= title=team")
		w.wantInbox("carol", "joined "+id+"@3 GROUP peer= title=team", "left "+id+"@4")
		w.settle()
		if got := len(w.inbox("alice")); got != 2 {
			t.Errorf("alice's inbox has %d entries in the end", got)
		}
	})
}

// Spec: P-8.4.
func TestDirectConversationReachesBothInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one := w.direct("alice", "bob", "hi").Conv.String()
		w.direct("bob", "alice", "hi back")
		self := w.direct("alice", "alice", "note").Conv.String()
		w.wantInbox("alice", "joined "+one+"@1 DIRECT peer=bob title=", "joined "+self+"@1 DIRECT peer=alice title=")
		w.wantInbox("bob", "joined "+one+"@1 DIRECT peer=alice title=")
		w.settle()
		if a, b := len(w.inbox("alice")), len(w.inbox("bob")); a != 2 || b != 1 {
			t.Errorf("in the end the inboxes have %d and %d entries", a, b)
		}
	})
}

// The first entry of an inbox changes no list: nothing is read on its account.
func TestInboxIsOnNobodysList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var read atomic.Int64
		w.rows.onRows = func(key im.Key) {
			if key.Conv.Kind() == im.Inbox {
				read.Add(1)
			}
		}
		w.direct("alice", "bob", "hi")
		for range 2 { // up to the message, and up to the entries of the inboxes
			if err := w.consumer.Await(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := read.Load(); n > 0 {
			t.Errorf("rows of inboxes were read %d times", n)
		}
	})
}

func TestEntriesComeOnceThoughTheConsumerStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		want := map[string][]string{}
		for i := range 12 {
			name := fmt.Sprint("group ", i)
			key := w.group(name, "alice", "bob")
			id := key.Conv.String()
			if i%3 == 1 {
				w.kill() // at any point of its work
			}
			w.change(key, &petrelv1.MemberChange{Removed: []string{"bob"}})
			w.direct("alice", im.User(fmt.Sprint("peer", i)), "hi")
			if i%3 == 1 {
				w.consume()
			}
			if i == 7 {
				w.restart()
			}
			direct := w.convs.IDs().Direct(im.DefaultTenant, "alice", im.User(fmt.Sprint("peer", i))).String()
			want["alice"] = append(want["alice"], "joined "+id+"@1 GROUP peer= title="+name, "joined "+direct+"@1 DIRECT peer=peer"+fmt.Sprint(i)+" title=")
			want["bob"] = append(want["bob"], "joined "+id+"@1 GROUP peer= title="+name, "left "+id+"@2")
		}
		for range 3 { // from the very beginning of the feed, over what is there
			w.kill()
			err := w.store.Update(context.Background(), []store.RecordPut{{Table: store.Consumers, Key: []byte("at/0/inbox")}})
			if err != nil {
				t.Fatal(err)
			}
			w.consume()
			w.settle()
		}
		w.restart()
		w.settle()
		w.wantInbox("alice", want["alice"]...)
		w.wantInbox("bob", want["bob"]...)
	})
}

// A process ends before a published change is carried into the inboxes. The next process carries it.
func TestChangesBeforeARestartReachTheInboxesBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.group("carried", "alice")
		w.settle()
		w.kill()
		key := w.group("waiting", "alice", "bob")
		w.change(key, &petrelv1.MemberChange{Removed: []string{"bob"}})
		w.restart()
		w.settle()
		id := key.Conv.String()
		w.wantInbox("bob", "joined "+id+"@1 GROUP peer= title=waiting", "left "+id+"@2")
		if got := len(w.inbox("alice")); got != 2 {
			t.Errorf("alice's inbox has %d entries, want 2", got)
		}
	})
}

func TestAwaitWaitsForTheInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.kill()
		w.group("team", "alice")
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := w.consumer.Await(ctx); err == nil || len(w.inbox("alice")) != 0 {
			t.Errorf("nobody carries, and Await says %v; the inbox has %v", err, w.inbox("alice"))
		}
		w.consume()
		w.settle()
		if got := len(w.inbox("alice")); got != 1 {
			t.Errorf("after Await the inbox has %d entries, want 1", got)
		}
		for i := range 30 {
			u := im.User(fmt.Sprint("user", i))
			w.group(fmt.Sprint("group", i), string(u))
			w.settle()
			if got := len(w.inbox(u)); got != 1 {
				t.Fatalf("after Await the inbox of %s has %d entries, want 1", u, got)
			}
		}
	})
}

func TestConsumerSaysHowFarTheInboxesAreBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.kill()
		key := w.group("team", "alice")
		if lag, _ := w.convs.InboxLag(); lag != 0 {
			t.Errorf("nobody has read the feed, and the inboxes are said to be behind by %v", lag)
		}
		time.Sleep(10 * time.Millisecond)
		var lag atomic.Int64 // while the change is being carried
		w.rows.onRows = func(c im.Key) {
			if c == key {
				n, _ := w.convs.InboxLag()
				lag.Store(int64(n))
			}
		}
		w.consume()
		w.settle()
		if got := time.Duration(lag.Load()); got != 10*time.Millisecond {
			t.Errorf("a change that waits since 10 ms is said to wait since %v", got)
		}
		synctest.Wait() // the consumer looks once more
		if got, _ := w.convs.InboxLag(); got != 0 {
			t.Errorf("the inboxes have everything, and are said to be behind by %v", got)
		}
	})
}

// More changes than are carried at once come at once.
func TestManyChangesReachTheInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.kill()
		const members = 3000 // of one group, so that there are several batches
		change := &petrelv1.MemberChange{}
		for i := range members {
			change.Added = append(change.Added, &petrelv1.MemberRef{User: fmt.Sprintf("user%04d", i)})
		}
		s := w.entry(im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}, change)
		s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		w.mustSend(s)
		w.consume()
		w.settle()
		for i := range members {
			if u := im.User(fmt.Sprintf("user%04d", i)); len(w.inbox(u)) != 1 {
				t.Errorf("the inbox of %s has %d entries, want 1", u, len(w.inbox(u)))
			}
		}
	})
}

// One entry of a conversation can concern a user in more than one way.
func TestOneChangeThatNamesAUserTwiceDoesNotStopTheInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob", "carol")
		id := key.Conv.String()
		w.change(key, &petrelv1.MemberChange{Added: refs(0, "dave"), Roles: refs(petrelv1.Role_ROLE_ADMIN, "dave")})
		w.change(key, &petrelv1.MemberChange{Removed: []string{"carol"}, Left: []string{"carol"}})
		w.change(key, &petrelv1.MemberChange{Added: refs(0, "erin", "erin"), Removed: []string{"erin"}})
		w.change(key, &petrelv1.MemberChange{Roles: append(refs(petrelv1.Role_ROLE_ADMIN, "alice"), refs(petrelv1.Role_ROLE_OWNER, "alice")...)})
		w.settle()
		w.wantInbox("dave", "joined "+id+"@2 GROUP peer= title=team", "role "+id+"@2 ADMIN")
		w.wantInbox("carol", "joined "+id+"@1 GROUP peer= title=team", "left "+id+"@3")
		w.wantInbox("erin", "joined "+id+"@4 GROUP peer= title=team", "left "+id+"@4")
	})
}

// The entry that dissolves a group names nobody.
func TestDissolvedGroupIsLeftInEveryInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob", "carol")
		id := key.Conv.String()
		w.change(key, &petrelv1.MemberChange{Removed: []string{"carol"}})
		w.change(key, &petrelv1.MemberChange{Dissolved: true})
		w.settle()
		for _, u := range []im.User{"alice", "bob"} {
			w.wantInbox(u, "joined "+id+"@1 GROUP peer= title=team", "left "+id+"@3")
		}
		w.wantInbox("carol", "joined "+id+"@1 GROUP peer= title=team", "left "+id+"@2")
		states, _ := w.all("bob", nil)
		if st := states[id]; !st.GetLeft() || st.GetHead() != 3 {
			t.Errorf("bob's list says %v, want left at 3", st)
		}
	})
}

// F10: a recall in a conversation that a device knows up to its head makes its
// next sync name the conversation, and the newest entries show it. A new title
// is told the same way.
func TestF10SyncNamesWhereSomethingWasRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key, other := w.group("team", "alice", "bob"), w.group("other", "alice", "bob")
		q := w.say(key, "alice", "to be recalled")
		w.say(other, "alice", "x")
		w.settle()
		_, token := w.all("bob", nil)
		s := &conv.Send{Conv: key, Keyed: true}
		s.Entry.From, s.Entry.ClientMsgId = "alice", w.id()
		s.Entry.Body = &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: uint64(q)}}
		w.mustSend(s)
		page, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "bob"}, token, inbox.Wants{Newest: conv.Newest{Messages: 2}})
		if err != nil || len(page.Convs) != 1 || len(page.Convs[0].Newest) != 2 {
			t.Fatalf("sync with the newest: %v, %v", page, err)
		}
		if m := page.Convs[0].Newest[0]; m.Body != nil || m.RecalledBy != 3 {
			t.Errorf("the newest are %v", page.Convs[0].Newest)
		}
		states, token := w.all("bob", token)
		w.wantConvs("after the recall", states, key)
		if st := states[key.Conv.String()]; st.GetHead() != 3 || st.GetCounted() != 1 {
			t.Errorf("after the recall bob's list says %v, want head 3, counted 1", st)
		}
		s = &conv.Send{Conv: other, Keyed: true}
		s.Entry.ClientMsgId = w.id()
		s.Entry.Body = &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: "renamed"}}
		w.mustSend(s)
		w.settle()
		states, _ = w.all("bob", token)
		w.wantConvs("after the new title", states, other)
		if st := states[other.Conv.String()]; st.GetTitle() != "renamed" {
			t.Errorf("after the new title bob's list says %v", st)
		}
		if got := len(w.inbox("bob")); got != 2 {
			t.Errorf("bob's inbox has %d entries, want 2", got)
		}
	})
}

// F26: an entry of an inbox has an id of its cause, so that a consumer which
// starts over enters nothing twice.
func TestF26InboxEntriesHaveTheIDOfTheirCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		w.change(key, &petrelv1.MemberChange{Removed: []string{"bob"}})
		w.change(key, &petrelv1.MemberChange{Added: refs(petrelv1.Role_ROLE_ADMIN, "bob"), Roles: refs(petrelv1.Role_ROLE_ADMIN, "alice")})
		w.change(key, &petrelv1.MemberChange{Dissolved: true})
		w.settle()
		before := map[im.User][]string{"alice": w.inbox("alice"), "bob": w.inbox("bob")}
		for range 3 {
			w.kill()
			if err := w.store.Update(context.Background(), []store.RecordPut{{Table: store.Consumers, Key: []byte("at/0/inbox")}}); err != nil {
				t.Fatal(err)
			}
			w.restart()
			w.change(w.group(w.id(), "carol"), &petrelv1.MemberChange{Added: refs(0, "dave")}) // something to be carried behind it
			w.settle()
		}
		for u, want := range before {
			if got := w.inbox(u); !cmp.Equal(got, want) {
				t.Errorf("inbox of %s %q, want %q", u, got, want)
			}
		}
	})
}

// An inbox is private: another user cannot read it.
func TestInboxIsReadByItsUserOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.direct("alice", "bob", "hi")
		w.settle()
		for _, u := range []im.User{"bob", "eve"} {
			_, err := w.rowsOf(im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Inbox(im.DefaultTenant, "alice")}, u, &convpb.GetHistory{})
			if im.CodeOf(err) != im.CodeNoConversation {
				t.Errorf("%s reads alice's inbox: %v", u, err)
			}
		}
	})
}
