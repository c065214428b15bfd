package conv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// What is asked of a conversation's owner and answered at once: reads, and the
// moves of cursors. Here it is a call of the Owner, elsewhere a request over the
// bus. Every read of an Owner comes behind a look at the store that tells
// whether it still is one.

const (
	callSubject bus.Subject = "conv.call"

	callTime  = 2 * time.Second       // for one request to one node
	callAgain = 50 * time.Millisecond // between two requests of a question
	maxCalls  = 256                   // of other nodes, served at a time
)

// History reads a page for a user; user "" is the operator, who reads
// everything. Entries outside the user's memberships are left out. Every read
// ends at the published head. Codes: no_conversation, not_member. Spec: P-5.2.
func (cs *Convs) History(ctx context.Context, key im.Key, user im.User, r Range) (p *Page, err error) {
	err = cs.ask(ctx, key, user, func(ow *Owner) (err error) {
		p, err = ow.History(ctx, key, user, r)
		return err
	}, func(c *convpb.Call) {
		c.Op = &convpb.Call_History{History: &convpb.History{After: uint64(r.After), Before: uint64(r.Before), Limit: uint32(max(0, r.Limit))}}
	}, func(a *convpb.Reply) {
		h := a.GetHistory()
		p = &Page{Rows: h.GetRows(), Head: im.Seq(h.GetHead()), FirstSeq: im.Seq(h.GetFirstSeq()), More: h.GetMore()}
	})
	return p, err
}

// HistoryPage is History as a frame's content; pages have at most max entries.
func (cs *Convs) HistoryPage(ctx context.Context, a im.Account, f *petrelv1.GetHistory, max int) (*petrelv1.HistoryPage, error) {
	return historyPage(a, f, max, func(key im.Key, r Range) (*Page, error) { return cs.History(ctx, key, a.User, r) })
}

// Look reads the state of a conversation for a user, below the published head.
// Codes: no_conversation, not_member.
func (cs *Convs) Look(ctx context.Context, key im.Key, user im.User) (st State, err error) {
	err = cs.ask(ctx, key, user, func(ow *Owner) (err error) {
		st, err = ow.Look(ctx, key, user)
		return err
	}, func(c *convpb.Call) { c.Op = &convpb.Call_Look{Look: &convpb.Look{}} }, func(a *convpb.Reply) {
		l := a.GetLook()
		st = State{Head: im.Seq(l.GetHead()), Counted: l.GetCounted(), FirstSeq: im.Seq(l.GetFirstSeq()), Joined: im.Seq(l.GetJoined()),
			Pos: im.Pos(l.GetPos()), Role: petrelv1.Role(l.GetRole()), Title: l.GetTitle()}
	})
	return st, err
}

// Peers returns the users of a direct conversation, and the kind and title of
// any. Codes: no_conversation.
func (cs *Convs) Peers(ctx context.Context, key im.Key) (kind petrelv1.ConvKind, title string, users []string, err error) {
	err = cs.ask(ctx, key, "", func(ow *Owner) (err error) {
		kind, title, users, err = ow.Peers(ctx, key)
		return err
	}, func(c *convpb.Call) { c.Op = &convpb.Call_Peers{Peers: &convpb.Peers{}} }, func(a *convpb.Reply) {
		p := a.GetPeers()
		kind, title, users = petrelv1.ConvKind(p.GetKind()), p.GetTitle(), p.GetUsers()
	})
	return kind, title, users, err
}

// MemberPage lists members behind after, ordered by user. user "" is the
// operator. Codes: no_conversation, not_member.
func (cs *Convs) MemberPage(ctx context.Context, key im.Key, user, after im.User, limit int) (page []*petrelv1.MemberRef, more bool, err error) {
	err = cs.ask(ctx, key, user, func(ow *Owner) (err error) {
		page, more, err = ow.MemberPage(ctx, key, user, after, limit)
		return err
	}, func(c *convpb.Call) {
		c.Op = &convpb.Call_Members{Members: &convpb.Members{After: string(after), Limit: uint32(max(0, limit))}}
	}, func(a *convpb.Reply) { page, more = a.GetMembers().GetMembers(), a.GetMembers().GetMore() })
	return page, more, err
}

// Receipts are the cursors of a conversation's members that user may see.
// Codes: no_conversation, not_member. Spec: P-8.6.
func (cs *Convs) Receipts(ctx context.Context, key im.Key, user im.User) (list []*petrelv1.Receipt, err error) {
	err = cs.ask(ctx, key, user, func(ow *Owner) (err error) {
		list, err = ow.Receipts(ctx, key, user)
		return err
	}, func(c *convpb.Call) { c.Op = &convpb.Call_Receipts{Receipts: &convpb.Receipts{}} }, func(a *convpb.Reply) { list = a.GetReceipts().GetReceipts() })
	return list, err
}

// MoveCursor moves a's cursors forward, cut to what is published and to what a
// may read, and returns them when they are durable.
//
// Codes: no_conversation, not_member (never was one); unsettled: overloaded,
// disk_full, store_stalled. Spec: P-8.6.
func (cs *Convs) MoveCursor(ctx context.Context, a im.Account, key im.Key, delivered, read im.Seq) (moved *petrelv1.CursorMoved, err error) {
	return cs.moveFor(ctx, 0, a, key, delivered, read)
}

// moveFor is MoveCursor for a session here, by its Outbox's ID; 0: none.
func (cs *Convs) moveFor(ctx context.Context, session uint64, a im.Account, key im.Key, delivered, read im.Seq) (moved *petrelv1.CursorMoved, err error) {
	err = cs.ask(ctx, key, a.User, func(ow *Owner) (err error) {
		moved, err = ow.moveFor(ctx, fanout.Asker{ID: session}, a, key, delivered, read)
		return err
	}, func(c *convpb.Call) {
		c.Op = &convpb.Call_Move{Move: &convpb.Move{Delivered: uint64(delivered), Read: uint64(read), Asker: session}}
	}, func(a *convpb.Reply) { moved = a.GetMoved() })
	return moved, err
}

// Move takes m; with an error it does not, and m gets no other answer. It may
// wait for the store to read, never for a write.
func (cs *Convs) Move(ctx context.Context, m *CursorMove) error {
	if ow := cs.owners[cs.feedOf(m.Conv)].Load(); ow != nil {
		if err := cs.confirm(ctx, ow); err == nil {
			if err = ow.Move(ctx, m); !errors.Is(err, errNotOwner) {
				return told(err)
			}
		}
	}
	go func() { // ends with its request
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUp)
		defer cancel()
		var k fanout.Kicks
		defer k.Flush()
		moved, err := cs.moveFor(ctx, m.Origin.ID, im.Account{Tenant: m.Conv.Tenant, User: m.User}, m.Conv, m.Delivered, m.Read)
		if err != nil {
			m.Done(Cursor{}, asError(err), &k)
			return
		}
		m.Done(Cursor{Delivered: im.Seq(moved.Delivered), Read: im.Seq(moved.Read)}, nil, &k)
	}()
	return nil
}

// Await returns when what follows from the commits of a conversation that were
// published before the call is done: Options.Await of its owner.
func (cs *Convs) Await(ctx context.Context, key im.Key) error {
	return cs.ask(ctx, key, "", func(ow *Owner) error { return cs.o.Await(ctx, ow) },
		func(c *convpb.Call) { c.Op = &convpb.Call_Await{Await: &convpb.Await{}} }, func(*convpb.Reply) {})
}

// ask has the owner of a conversation answer: here by call, elsewhere by what
// request makes of a Call; reply takes the answer. While nobody is known to own
// the feed it is asked again, until ctx ends. Codes beside those of the
// question: store_stalled.
func (cs *Convs) ask(ctx context.Context, key im.Key, user im.User, call func(*Owner) error, request func(*convpb.Call), reply func(*convpb.Reply)) error {
	f := cs.feedOf(key)
	for {
		err := errNotOwner
		if ow := cs.owners[f].Load(); ow != nil {
			if err = cs.confirm(ctx, ow); err == nil {
				err = call(ow)
			}
		}
		if errors.Is(err, errNotOwner) {
			if cs.o.Cluster == nil {
				return &im.Error{Code: im.CodeDraining, RetryAfter: time.Second}
			}
			c := &convpb.Call{Tenant: uint32(key.Tenant), Conv: key.Conv[:], User: string(user)}
			request(c)
			var r *convpb.Reply
			if r, err = cs.request(ctx, f, c); err == nil {
				reply(r)
			}
		}
		if !errors.Is(err, errNotOwner) {
			return told(err)
		}
		if err := cs.await(ctx, f); err != nil {
			return err
		}
	}
}

// await waits a moment for another owner of a feed.
func (cs *Convs) await(ctx context.Context, f store.Feed) error {
	_, epoch, _ := cs.o.Cluster.Route(f)
	again, cancel := context.WithTimeout(ctx, callAgain)
	defer cancel()
	_, _, _ = cs.o.Cluster.Wait(again, f, epoch) // the caller looks again, whatever came of it
	if ctx.Err() != nil {
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
	return nil
}

// confirm asks the store whether ow still is the feed's owner.
func (cs *Convs) confirm(ctx context.Context, ow *Owner) error {
	if cs.o.Cluster == nil || sabotageTrustsMemory {
		return nil
	}
	if ow.isLost() {
		return errNotOwner
	}
	epochs, err := cs.o.Cluster.Mine(ctx, []store.Feed{ow.feed})
	if err != nil {
		return err
	}
	if epochs[0] != ow.epoch {
		ow.loseAll(nil, store.ErrStale)
		return errNotOwner
	}
	return nil
}

// stillOwns is confirm for decisions that no append confirms.
func (cs *Convs) stillOwns(ow *Owner) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	switch err := cs.confirm(ctx, ow); {
	case err == nil:
		return nil
	case errors.Is(err, errNotOwner):
		return store.ErrStale
	default:
		return fmt.Errorf("confirm feed %d: %w: %w", ow.feed, store.ErrStalled, err)
	}
}

// told is err as a caller outside sees it.
func told(err error) error {
	if errors.Is(err, store.ErrStalled) {
		return refusalOf(err)
	}
	return err
}

// request asks the node that owns a feed. errNotOwner: there is none, it is not,
// or it did not answer.
func (cs *Convs) request(ctx context.Context, f store.Feed, c *convpb.Call) (*convpb.Reply, error) {
	node, _, ok := cs.o.Cluster.Route(f)
	if !ok || node == cs.o.Cluster.Self() {
		return nil, errNotOwner
	}
	m := cs.o.Nodes.Mark(node)
	if !sabotageAsksUnmarked {
		c.Behind = &convpb.Mark{Stream: m.Stream, Num: m.Num}
	}
	b, err := c.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("write call: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if b, err = cs.o.Bus.Request(ctx, node, callSubject, b); err != nil {
		return nil, fmt.Errorf("ask %s: %w: %w", node, err, errNotOwner)
	}
	r := &convpb.Reply{}
	switch err := r.UnmarshalVT(b); {
	case err != nil:
		return nil, fmt.Errorf("read answer of %s: %w", node, err)
	case r.NotOwner:
		return nil, errNotOwner
	case r.Error != nil:
		return nil, wire.ErrorOf(r.Error)
	}
	return r, nil
}

// serveCall answers another node.
func (cs *Convs) serveCall(from im.Node, payload []byte, reply func([]byte)) {
	c := &convpb.Call{}
	if err := c.UnmarshalVT(payload); err != nil || len(c.Conv) != len(im.ConvID{}) || reply == nil {
		cs.o.Log.Error("read call failed", "from", from, "err", err)
		return
	}
	select {
	case cs.calls <- struct{}{}:
	default:
		send(reply, &convpb.Reply{Error: wire.ErrorFrame(&im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond})})
		return
	}
	go func() { // ends with its question
		defer func() { <-cs.calls }()
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		r, err := cs.serve(ctx, from, c)
		switch {
		case errors.Is(err, errNotOwner):
			r = &convpb.Reply{NotOwner: true}
		case err != nil:
			r = &convpb.Reply{Error: wire.ErrorFrame(cs.shown(err))}
		}
		send(reply, r)
	}()
}

func send(reply func([]byte), r *convpb.Reply) {
	b, err := r.MarshalVT()
	if err == nil {
		reply(b)
	}
}

// shown is err as another node's caller sees it; what is not meant for them is
// logged.
func (cs *Convs) shown(err error) *im.Error {
	if e, ok := errors.AsType[*im.Error](told(err)); ok {
		return e
	}
	cs.o.Log.Error("answer call failed", "err", err)
	return &im.Error{Code: im.CodeInternal}
}

// serve answers a call of a node whose announcements up to the call's mark have
// been applied: what it tells of a head is pushed, from there on, to whoever was
// announced.
func (cs *Convs) serve(ctx context.Context, from im.Node, c *convpb.Call) (*convpb.Reply, error) {
	if b := c.Behind; b != nil {
		if err := cs.o.Streams.WaitApplied(ctx, from, markOf(b)); err != nil {
			return nil, errNotOwner
		}
	}
	if n := c.GetNews(); n != nil {
		return cs.serveNews(ctx, c, n)
	}
	key := im.Key{Tenant: im.Tenant(c.Tenant), Conv: im.ConvID(c.Conv)}
	ow := cs.owners[cs.feedOf(key)].Load()
	if ow == nil {
		return nil, errNotOwner
	}
	if err := cs.confirm(ctx, ow); err != nil {
		return nil, err
	}
	return cs.serveOwn(ctx, from, ow, key, c)
}

func (cs *Convs) serveOwn(ctx context.Context, from im.Node, ow *Owner, key im.Key, c *convpb.Call) (*convpb.Reply, error) {
	user, r := im.User(c.User), &convpb.Reply{}
	switch op := c.Op.(type) {
	case *convpb.Call_History:
		p, err := ow.History(ctx, key, user, Range{After: im.Seq(op.History.After), Before: im.Seq(op.History.Before), Limit: int(op.History.Limit)})
		if err != nil {
			return nil, err
		}
		r.Result = &convpb.Reply_History{History: &convpb.HistoryResult{Rows: p.Rows, Head: uint64(p.Head), FirstSeq: uint64(p.FirstSeq), More: p.More}}
	case *convpb.Call_Look:
		st, err := ow.Look(ctx, key, user)
		if err != nil {
			return nil, err
		}
		r.Result = &convpb.Reply_Look{Look: &convpb.LookResult{Head: uint64(st.Head), Counted: st.Counted, FirstSeq: uint64(st.FirstSeq),
			Joined: uint64(st.Joined), Pos: uint64(st.Pos), Role: uint32(st.Role), Title: st.Title}}
	case *convpb.Call_Peers:
		kind, title, users, err := ow.Peers(ctx, key)
		if err != nil {
			return nil, err
		}
		r.Result = &convpb.Reply_Peers{Peers: &convpb.PeersResult{Kind: uint32(kind), Title: title, Users: users}}
	case *convpb.Call_Members:
		page, more, err := ow.MemberPage(ctx, key, user, im.User(op.Members.After), int(op.Members.Limit))
		if err != nil {
			return nil, err
		}
		r.Result = &convpb.Reply_Members{Members: &convpb.MembersResult{Members: page, More: more}}
	case *convpb.Call_Receipts:
		list, err := ow.Receipts(ctx, key, user)
		if err != nil {
			return nil, err
		}
		r.Result = &convpb.Reply_Receipts{Receipts: &convpb.ReceiptsResult{Receipts: list}}
	case *convpb.Call_Move:
		moved, err := ow.moveFor(ctx, fanout.Asker{Node: from, ID: op.Move.Asker}, im.Account{Tenant: key.Tenant, User: user}, key, im.Seq(op.Move.Delivered), im.Seq(op.Move.Read))
		if err != nil {
			return nil, err
		}
		r.Result = &convpb.Reply_Moved{Moved: moved}
	case *convpb.Call_Await:
		return r, cs.o.Await(ctx, ow)
	default:
		return nil, fmt.Errorf("serve call %T: a node of a newer release asks for something that this release does not know", c.Op)
	}
	return r, nil
}
