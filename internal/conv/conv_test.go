package conv_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// someStore makes ids like those of a store.
var someStore = im.NewIDs([16]byte{1})

// world is a node that owns all of its store, and can start again.
type world struct {
	*convtest.Node
	fs          vfs.FS
	bytes       int              // that conversations may take in memory; 0: the default
	cursorReads *cursorReads     // nil: cursors that are read are not counted
	now         func() time.Time // the wall clock; nil: that of the bubble
	first       uint32           // what becomes of first messages
	blockings   uint64           // that playContacts has made
	ended       chan error       // what Run returned
	fills       int              // calls of fill
	stop        func()
}

func newWorld(t *testing.T) *world {
	return newWorldOn(t, vfs.NewMem())
}

// newWorldAhead is a world whose wall clock a test sets forward by days. To sleep for so long
// would cost seconds: each ticker ticks all the while.
func newWorldAhead(t *testing.T) (w *world, skip func(time.Duration)) {
	var ahead atomic.Int64
	w = &world{fs: vfs.NewMem(), now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
	w.start(t)
	t.Cleanup(func() { w.stop() })
	return w, func(d time.Duration) { ahead.Add(int64(d)) }
}

func newWorldOn(t *testing.T, fs vfs.FS) *world {
	w := &world{fs: fs}
	w.start(t)
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start(t testing.TB) {
	t.Helper()
	st := convtest.OpenStore(t, w.fs)
	w.Node = convtest.NewNode(t, st)
	if w.cursorReads != nil {
		w.cursorReads.Store, w.Gate.Store = st, w.cursorReads
	}
	w.Open(conv.Options{
		MemoryBytes:   w.bytes,
		Now:           w.now,
		FirstMessages: func(context.Context, im.Account) (uint32, error) { return w.first, nil },
		LookUp: func(_ context.Context, _ im.Account, users []im.User, _ bool) error {
			if slices.Contains(users, "nobody") {
				return &im.Error{Code: im.CodeNoUser}
			}
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.Convs.Run(ctx) }()
	w.stop = func() {
		w.Gate.Open()
		cancel()
		if err := <-w.ended; err != nil {
			t.Errorf("run conversations: %v", err)
		}
		if err := st.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	}
}

func (w *world) restart() {
	w.T.Helper()
	w.stop()
	w.start(w.T)
}

// owner is the Owner of all conversations.
func (w *world) owner() *conv.Owner { return w.Convs.Owner(0) }

// look is how a conversation stands for a user.
func (w *world) look(key im.Key, u im.User) (*convpb.State, error) {
	return w.owner().State(context.Background(), conv.Query{Conv: key, User: u}, &convpb.GetState{})
}

func (w *world) page(key im.Key, u im.User, q *convpb.GetHistory) (*convpb.History, error) {
	return w.owner().History(context.Background(), conv.Query{Conv: key, User: u}, q)
}

// history reads all that a user may read of a conversation, as "seq:body".
func (w *world) history(key im.Key, u im.User) []string {
	w.T.Helper()
	return convtest.History(w.T, func(q *convpb.GetHistory) (*convpb.History, error) { return w.page(key, u, q) })
}

func (w *world) memberPage(key im.Key, u, after im.User, limit int) ([]*petrelv1.MemberRef, bool, error) {
	p, err := w.owner().Members(context.Background(), conv.Query{Conv: key, User: u}, &convpb.ListMembers{After: string(after), Limit: uint32(limit)})
	return p.GetMembers(), p.GetMore(), err
}

// receiptsOf reads all pages of the receipts that a user is told.
func (w *world) receiptsOf(key im.Key, u im.User) (all []*petrelv1.Receipt, err error) {
	q := &convpb.ListReceipts{}
	for {
		page, err := w.owner().Receipts(context.Background(), conv.Query{Conv: key, User: u}, q)
		all = append(all, page.GetReceipts()...)
		if q.After = page.GetNext(); err != nil || q.After == "" {
			return all, err
		}
	}
}
