// Package route brings sends, questions and signals to the owner of a conversation, on whichever node it
// is. Sends whose owner is on another node wait in lanes (lane.go, sendcarrier.go) and go out in packets
// (packet.go). The source of a forward is read first (forwardsource.go). Questions go to the owner on
// this node, or by a request over the bus (call.go); a sync asks about many conversations at once
// (sync.go), and which of them may have changed (changecandidates.go). Tasks wait for answers (tasks.go).
// Signals have no answer (signal.go). findowner.go asks package cluster for the owner of a feed. Package
// conv decides sends and answers questions. The tests start their nodes with package route/routetest.
//
// On a single node nothing is carried: sends go from the session straight to conv, and questions to the Owner.
package route

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Options connect a Router with other parts.
type Options struct {
	Log *slog.Logger

	// AwaitInboxes returns when the inboxes have every change of membership that
	// the feed of ow had published before the call. nil: at once.
	AwaitInboxes func(ctx context.Context, ow *conv.Owner) error

	// IsNamed tells whether forwards may name a user. nil: they name everybody.
	IsNamed func(ctx context.Context, a im.Account) (bool, error)

	// LookUps counts look-ups of users, at the owner of the asker's inbox. nil: all are allowed.
	LookUps func(by im.Account, users []im.User) (later []int, wait time.Duration)

	// Cluster tells which node owns which feed; Bus, Streams and Nodes lead there.
	// nil: there are no other nodes.
	Cluster *cluster.Cluster
	Bus     bus.Bus
	Streams *stream.Streams
	Nodes   *fanout.Nodes
}

// Router leads to the owners of conversations.
type Router struct {
	caller
	signals signaller
	carrier *carrier // nil: there are no other nodes
	moving  *tasks   // moves of cursors whose owner is not here
	inboxes func(ctx context.Context, ow *conv.Owner) error
	isNamed func(ctx context.Context, a im.Account) (bool, error)
	lookUps func(by im.Account, users []im.User) (later []int, wait time.Duration)
}

// New makes a Router, and connects cs with the owners on other nodes. It
// is called before the bus, the streams and cs run.
func New(o Options, cs *conv.Convs, st store.Store) *Router {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AwaitInboxes == nil {
		o.AwaitInboxes = func(context.Context, *conv.Owner) error { return nil }
	}
	if o.LookUps == nil {
		o.LookUps = func(im.Account, []im.User) ([]int, time.Duration) { return nil, 0 }
	}
	own := owners{convs: cs, cluster: o.Cluster, log: o.Log}
	r := &Router{
		inboxes: o.AwaitInboxes, isNamed: o.IsNamed, lookUps: o.LookUps, moving: newTasks(maxMoving),
		caller:  caller{owners: own, serving: newTasks(maxCalls)},
		signals: signaller{owners: own, streams: o.Streams},
	}
	r.questions = byName(r.answers())
	if o.Cluster == nil {
		return r
	}
	r.carrier = newCarrier(own, st, o.Streams, o.Nodes)
	cs.Attach(conv.Elsewhere{Waits: r.carrier.waits, Submit: r.carrier.submit, Left: r.carrier.takeFrom,
		Confirm: own.confirmOne, ConfirmAll: own.confirmAll})
	r.bus, r.streams, r.nodes = o.Bus, o.Streams, o.Nodes
	calls.ServeLater(o.Bus, r.receive)
	o.Streams.Handle(cluster.KindToSignal, r.signals.receive)
	return r
}

// answers returns the questions that other nodes may ask. A new one needs a message of its own
// in convpb (its name goes over the wire: never rename it), mostly a method of conv.Owner, and
// a line here. An owner on a node of the former release does not know it: callers get internal.
func (r *Router) answers() []question {
	return []question{
		ofOwner((*conv.Owner).History),
		ofOwner((*conv.Owner).Source),
		ofOwner((*conv.Owner).State),
		ofOwner((*conv.Owner).Record),
		ofOwner((*conv.Owner).Members),
		ofOwner((*conv.Owner).Receipts),
		ofOwner((*conv.Owner).MoveCursor),
		ofOwner((*conv.Owner).React),
		ofOwner((*conv.Owner).PinEntry),
		ofOwner((*conv.Owner).Reactions),
		ofOwner((*conv.Owner).Pins),
		ofOwner((*conv.Owner).Describe),
		ofOwner((*conv.Owner).Trace),
		ofOwner(r.awaitInboxes),
		ofOwner(r.takeLookUps),
		ofNode(serveChanges),
		ofNode(serveCandidates),
	}
}

// Ask has the owner of a conversation answer a question by its method f: on this node by a call, on
// another node by a request. While no owner is known, it tries again, until ctx ends. Codes beside
// those of f: store_stalled (no owner was found, or the store does not answer), draining (without
// other nodes), overloaded and internal (from another node). The question must be in answers.
func Ask[Q, A any, PQ message[Q], PA message[A]](ctx context.Context, r *Router, by conv.Query,
	f func(*conv.Owner, context.Context, conv.Query, PQ) (PA, error), q PQ) (PA, error) {
	return ask(ctx, &r.caller, by, f, q)
}

// Signal brings a signal to the owner of its conversation. It never waits, and reports no outcome:
// if the owner is not known, or the signal is lost, it reaches nobody. Spec: P-13.1.
func (r *Router) Signal(key im.Key, s *petrelv1.Signal, session uint64) {
	r.signals.bring(key, s, session)
}

// Run carries sends until ctx ends. Then it ends the calls of other
// nodes and the moves of cursors, and waits for their end.
func (r *Router) Run(ctx context.Context) error {
	if r.carrier != nil {
		r.carrier.run(ctx)
	}
	<-ctx.Done()
	r.serving.stop()
	r.moving.stop()
	return nil
}

// Open takes a feed over and serves it. The sends that wait for the feed in its lane here then go to its Owner.
// The cluster calls Open.
func (r *Router) Open(ctx context.Context, f store.Feed) (im.Epoch, error) {
	epoch, err := r.convs.Open(ctx, f)
	r.carrier.wake()
	return epoch, err
}

// IDs returns the IDs that derive the ids of this store's conversations.
func (r *Router) IDs() *im.IDs { return r.convs.IDs() }

// FeedOf returns the feed that holds a conversation.
func (r *Router) FeedOf(c im.ConvID) store.Feed { return r.convs.FeedOf(c) }

// Carrying returns how many sends wait for owners on other nodes.
func (r *Router) Carrying() int {
	if r.carrier == nil {
		return 0
	}
	return r.carrier.Carrying()
}

// HistoryPage reads a page of the history for a user, with at most limit entries.
// User "" is the operator. Codes: no_conversation, invalid. Spec: P-5.2.
func (r *Router) HistoryPage(ctx context.Context, a im.Account, f *petrelv1.GetHistory, limit int,
	with conv.Extras) (*petrelv1.HistoryPage, error) {
	id, err := im.ParseConvID(f.Conv)
	if err != nil {
		return nil, err
	}
	if f.Limit > 0 {
		limit = min(limit, int(f.Limit))
	}
	q := &convpb.GetHistory{
		After: f.After, Before: f.Before, Around: f.Around, AtMs: f.AtMs, Limit: uint32(max(0, limit)),
		Refs: with.Refs && !f.OnlyNotes, Notes: with.Notes,
	}
	if q.Around > 0 && q.AtMs > 0 || (q.Around > 0 || q.AtMs > 0) && (q.After > 0 || q.Before > 0) {
		return nil, im.Errorf(im.CodeInvalid, "a page is around a seq, or around a time, or between after and before")
	}
	by := conv.Query{Conv: im.Key{Tenant: a.Tenant, Conv: id}, User: a.User}
	h, err := Ask(ctx, r, by, (*conv.Owner).History, q)
	if err != nil {
		return nil, err
	}
	page, err := conv.HistoryPage(id, h)
	if err == nil && f.OnlyNotes {
		page.Messages = nil
	}
	return page, err
}

const (
	moveTime  = 10 * time.Second // how long a move of a cursor looks for its owner, at most
	maxMoving = 65_536           // moves that wait for their owners at a time
)

// Move queues m at its owner. If it returns an error, m is not queued and
// m.Done is not called. It may wait for a read of the store, never for a write.
func (r *Router) Move(ctx context.Context, m *conv.CursorMove) error {
	if ow, err := r.here(ctx, r.convs.FeedOf(m.Conv.Conv)); err == nil {
		if err = ow.Move(ctx, m); !errors.Is(err, conv.ErrNotOwner) {
			return conv.Shown(err)
		}
	}
	began := r.moving.start(moveTime, func(ctx context.Context) {
		var k fanout.WakeUps
		defer k.Flush()
		q := &convpb.MoveCursor{Delivered: uint64(m.Delivered), Read: uint64(m.Read), Session: m.Origin.ID,
			Mentions: m.WantMentions, Private: m.Private}
		moved, err := Ask(ctx, r, conv.Query{Conv: m.Conv, User: m.User}, (*conv.Owner).MoveCursor, q)
		if err != nil {
			m.Done(conv.Cursor{}, &im.Error{Code: im.CodeOf(err), Message: err.Error()}, &k)
			return
		}
		m.Mentions = conv.Mentions{Head: im.Seq(moved.Head)}
		for _, q := range moved.Mentions {
			m.Mentions.Seqs = append(m.Mentions.Seqs, im.Seq(q))
		}
		m.Done(conv.Cursor{Delivered: im.Seq(moved.Delivered), Read: im.Seq(moved.Read)}, nil, &k)
	})
	if !began {
		return errBusy()
	}
	return nil
}

// AwaitInboxes returns when the inboxes have every change of membership of a
// conversation that was published before the call.
func (r *Router) AwaitInboxes(ctx context.Context, key im.Key) error {
	_, err := Ask(ctx, r, conv.Query{Conv: key}, r.awaitInboxes, &convpb.AwaitInboxes{})
	return err
}

func (r *Router) awaitInboxes(ow *conv.Owner, ctx context.Context, _ conv.Query,
	_ *convpb.AwaitInboxes) (*convpb.Awaited, error) {
	return &convpb.Awaited{}, r.inboxes(ctx, ow)
}

// TakeLookUps counts look-ups of users by an account. It returns the places of those for whom no look-up is left, and
// how long to wait for the next one then. Codes: those of Ask. Spec: P-14.4.
func (r *Router) TakeLookUps(ctx context.Context, by im.Account, users []im.User) (later []int, wait time.Duration,
	err error) {
	q := &convpb.TakeLookUps{}
	for _, u := range users {
		q.Users = append(q.Users, string(u))
	}
	inbox := im.Key{Tenant: by.Tenant, Conv: r.IDs().Inbox(by.Tenant, by.User)}
	taken, err := Ask(ctx, r, conv.Query{Conv: inbox, User: by.User}, r.takeLookUps, q)
	for _, i := range taken.GetLater() {
		later = append(later, int(i))
	}
	return later, time.Duration(taken.GetRetryAfterMs()) * time.Millisecond, err
}

func (r *Router) takeLookUps(_ *conv.Owner, _ context.Context, by conv.Query,
	q *convpb.TakeLookUps) (*convpb.LookUpsTaken, error) {
	users := make([]im.User, len(q.Users))
	for i, u := range q.Users {
		users[i] = im.User(u)
	}
	later, wait := r.lookUps(im.Account{Tenant: by.Conv.Tenant, User: by.User}, users)
	taken := &convpb.LookUpsTaken{RetryAfterMs: uint32(wait.Milliseconds())}
	for _, i := range later {
		taken.Later = append(taken.Later, uint32(i))
	}
	return taken, nil
}
