package api

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Send appends one entry for the caller, by the rules of P-4.
func (s *Server) Send(ctx context.Context, r *connect.Request[petrelv1.Send]) (*connect.Response[petrelv1.Ack], error) {
	a := identity(ctx).Account
	if err := s.pace(a); err != nil {
		return nil, err
	}
	send, e := conv.Prepare(s.convs.IDs(), a, r.Msg, s.o.BodyBytes())
	if e != nil {
		return nil, e
	}
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	name := ""
	if r.Msg.User != "" {
		name = send.Conv.Conv.String()
	}
	return answered(res.Ack(name))
}

// pace counts a send of a user, or a change that is as costly. Codes:
// rate_limited. Spec: P-9.2.
func (s *Server) pace(a im.Account) error {
	l := s.o.Limits()
	return s.rates.Take(s.o.Now(), rateKey{rateSend, a}, rate.Per(int(l.SendsPerS), time.Second, int(l.SendBurst)))
}

// store counts n bytes that the caller has stored, if it is a user. Codes: rate_limited.
// Spec: P-9.2.
func (s *Server) store(ctx context.Context, n int) error {
	c := callOf(ctx).caller
	if c == nil || c.key != nil || s.o.Limits().SendsPerS < 0 {
		return nil
	}
	if wait := s.o.Stored.Take(s.o.Now(), c.identity.Account, n); wait > 0 {
		return &im.Error{Code: im.CodeRateLimited, RetryAfter: wait}
	}
	return nil
}

// GetHistory reads a page of what the caller may read. Spec: P-5.2.
func (s *Server) GetHistory(ctx context.Context, r *connect.Request[petrelv1.GetHistory]) (*connect.Response[petrelv1.HistoryPage], error) {
	a := identity(ctx).Account
	return answered(read(ctx, s, a, func() (*petrelv1.HistoryPage, error) {
		return s.route.HistoryPage(ctx, a, r.Msg, s.o.PageSize(), conv.Extras{Refs: true, Notes: true})
	}))
}

// Sync tells the caller what changed since a token. It ends no lag: that is the
// affair of the session that has it. Spec: P-6.2.
func (s *Server) Sync(ctx context.Context, r *connect.Request[petrelv1.Sync]) (*connect.Response[petrelv1.SyncPage], error) {
	a := identity(ctx).Account
	return answered(read(ctx, s, a, func() (*petrelv1.SyncPage, error) {
		return s.o.Inbox.Sync(ctx, a, r.Msg.Token, inbox.Wants{Newest: conv.Newest{Messages: int(min(r.Msg.Newest, conv.MaxPage)), Refs: true, Notes: true, Mentions: true}, Personal: true})
	}))
}

// MoveCursor moves the caller's cursors. Spec: P-8.6.
func (s *Server) MoveCursor(ctx context.Context, r *connect.Request[petrelv1.MoveCursor]) (*connect.Response[petrelv1.CursorMoved], error) {
	a, key, err := keyOf(ctx, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	moved, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).MoveCursor, &convpb.MoveCursor{Delivered: r.Msg.Delivered, Read: r.Msg.Read, Mentions: true})
	return answered(moved, err)
}

// ListReceipts tells how far the members of a conversation are. Spec: P-8.6.
func (s *Server) ListReceipts(ctx context.Context, r *connect.Request[petrelv1.ListReceiptsRequest]) (*connect.Response[petrelv1.ListReceiptsResponse], error) {
	a, key, err := keyOf(ctx, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	q := &convpb.ListReceipts{After: r.Msg.After, Limit: r.Msg.Limit}
	return answered(read(ctx, s, a, func() (*petrelv1.ListReceiptsResponse, error) {
		list, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).Receipts, q)
		return &petrelv1.ListReceiptsResponse{Receipts: list.GetReceipts(), More: list.GetNext() != "", Next: list.GetNext()}, err
	}))
}

// reactRate is how often a user may change notes: beside what they send, which they
// may not do so often. Spec: P-9.2.
func reactRate() rate.Limit { return rate.Per(5, time.Second, 20) }

// React adds a reaction of the caller to a message, or takes it away. Spec: P-5.11.
func (s *Server) React(ctx context.Context, r *connect.Request[petrelv1.ReactRequest]) (*connect.Response[petrelv1.NoteResponse], error) {
	a, key, err := s.noteOf(ctx, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	q := &convpb.React{Seq: r.Msg.Seq, Emoji: r.Msg.Emoji, Removed: r.Msg.Removed}
	return answered(route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).React, q))
}

// Pin pins a message for all members, or unpins it. Spec: P-5.11.
func (s *Server) Pin(ctx context.Context, r *connect.Request[petrelv1.PinRequest]) (*connect.Response[petrelv1.NoteResponse], error) {
	a, key, err := s.noteOf(ctx, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	q := &convpb.PinEntry{Seq: r.Msg.Seq, Removed: r.Msg.Removed}
	return answered(route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).PinEntry, q))
}

// noteOf is keyOf for a call that changes a note, which it counts. Codes: no_conversation,
// rate_limited.
func (s *Server) noteOf(ctx context.Context, conv string) (im.Account, im.Key, error) {
	a, key, err := keyOf(ctx, conv)
	if err == nil {
		err = s.rates.Take(s.o.Now(), rateKey{rateReact, a}, reactRate())
	}
	return a, key, err
}

// ListReactions tells who reacted to a message. Spec: P-5.11.
func (s *Server) ListReactions(ctx context.Context, r *connect.Request[petrelv1.ListReactionsRequest]) (*connect.Response[petrelv1.ListReactionsResponse], error) {
	a, key, err := keyOf(ctx, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	q := &convpb.ListReactions{Seq: r.Msg.Seq, Emoji: r.Msg.Emoji, After: r.Msg.After, Limit: r.Msg.Limit}
	return answered(read(ctx, s, a, func() (*petrelv1.ListReactionsResponse, error) {
		return route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).Reactions, q)
	}))
}

// ListPins lists the pinned messages of a conversation, in pages. Spec: P-5.11.
func (s *Server) ListPins(ctx context.Context, r *connect.Request[petrelv1.ListPinsRequest]) (*connect.Response[petrelv1.ListPinsResponse], error) {
	a, key, err := keyOf(ctx, r.Msg.Conv)
	if err != nil {
		return nil, err
	}
	return answered(read(ctx, s, a, func() (*petrelv1.ListPinsResponse, error) {
		return route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).Pins, &convpb.ListPins{Before: r.Msg.Before})
	}))
}

// read runs f when it is the turn of the user, as all that reads a lot, whichever way
// it is asked for. Codes: overloaded, store_stalled (ctx ended).
func read[T any](ctx context.Context, s *Server, a im.Account, f func() (*T, error)) (answer *T, err error) {
	if s.o.Reads == nil {
		return f()
	}
	if s.o.Reads.Do(ctx, a, func() { answer, err = f() }) {
		return answer, err
	}
	if ctx.Err() != nil {
		return nil, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
	return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
}

// keyReader is in whose name a call with an admin key waits for its turn to read: no user is
// called so, and each key has turns of its own.
func keyReader(ctx context.Context) im.Account {
	return im.Account{User: im.User(callOf(ctx).caller.name())}
}

// answered is the answer of a method, unless there is an error.
func answered[T any](res *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(res), nil
}

// keyOf is the caller and a conversation of their tenant. Codes:
// no_conversation.
func keyOf(ctx context.Context, conv string) (im.Account, im.Key, error) {
	a := identity(ctx).Account
	id, err := im.ParseConvID(conv)
	return a, im.Key{Tenant: a.Tenant, Conv: id}, err
}

// submit appends one entry and waits for its answer.
func (s *Server) submit(ctx context.Context, send *conv.Send) (conv.Result, error) {
	if err := s.route.FetchSource(ctx, send); err != nil {
		return conv.Result{}, err
	}
	if err := s.store(ctx, send.Size()); err != nil {
		return conv.Result{}, err
	}
	done := make(chan conv.Result, 1)
	send.Done = func(r conv.Result) { done <- r }
	var k fanout.WakeUps
	s.convs.Submit([]*conv.Send{send}, &k)
	k.Flush()
	select {
	case r := <-done:
		if r.Err != nil {
			return r, r.Err
		}
		return r, nil
	case <-ctx.Done():
		return conv.Result{}, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}
