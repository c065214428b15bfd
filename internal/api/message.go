package api

import (
	"context"
	"time"

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
func (s *Server) Send(ctx context.Context, r *petrelv1.Send) (*petrelv1.Ack, error) {
	a := identity(ctx).Account
	send, e := conv.Prepare(s.convs.IDs(), a, r, s.o.BodyBytes())
	if e != nil {
		return nil, e
	}
	send.MutedMs = identity(ctx).MutedMs
	res, err := s.submit(ctx, send)
	if err != nil {
		return nil, err
	}
	name := ""
	if r.User != "" {
		name = send.Conv.Conv.String()
	}
	return res.Ack(name)
}

// pace counts a send of a user, or a change that is as costly. Codes: rate_limited. Spec: P-9.2.
func (s *Server) pace(a im.Account) error {
	l := s.o.Limits()
	return s.rates.Take(s.o.Now(), rateKey{rateSend, a}, rate.Per(int(l.SendsPerS), time.Second, int(l.SendBurst)))
}

// store counts n bytes that the caller is about to store, if it is a user. Codes: rate_limited. Spec: P-9.2.
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

// GetHistory reads a page of a conversation within the caller's rights. Spec: P-5.2.
func (s *Server) GetHistory(ctx context.Context, r *petrelv1.GetHistory) (*petrelv1.HistoryPage, error) {
	a := identity(ctx).Account
	return s.route.HistoryPage(ctx, a, r, s.o.PageSize(), conv.Extras{Refs: true, Notes: true})
}

// Sync returns the changes since a token. It does not end the lag of a session: only a sync of that session does.
// Spec: P-6.2.
func (s *Server) Sync(ctx context.Context, r *petrelv1.Sync) (*petrelv1.SyncPage, error) {
	id := identity(ctx)
	return s.o.Inbox.Sync(ctx, id.Account, r.Token,
		inbox.Wants{Newest: conv.Newest{Messages: int(min(r.Newest, conv.MaxPage)), Refs: true, Notes: true,
			Mentions: true}, Personal: true, Profiles: true, NoReceipts: id.PrivateReading})
}

// MoveCursor moves the caller's cursors. Spec: P-8.6.
func (s *Server) MoveCursor(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.MoveCursor) (*petrelv1.CursorMoved, error) {
	moved, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).MoveCursor,
		&convpb.MoveCursor{Delivered: r.Delivered, Read: r.Read, Mentions: true, Private: identity(ctx).PrivateReading})
	return moved, err
}

// ListReceipts returns the cursors of the members of a conversation. Spec: P-8.6.
func (s *Server) ListReceipts(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.ListReceiptsRequest) (*petrelv1.ListReceiptsResponse, error) {
	q := &convpb.ListReceipts{After: r.After, Limit: r.Limit, Own: identity(ctx).PrivateReading}
	list, err := route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).Receipts, q)
	return &petrelv1.ListReceiptsResponse{Receipts: list.GetReceipts(), More: list.GetNext() != "",
		Next: list.GetNext()}, err
}

// reactRate returns the limit of a user's changes of notes. They do not count as sends. Spec: P-9.2.
func reactRate() rate.Limit { return rate.Per(5, time.Second, 20) }

// React adds a reaction of the caller to a message, or takes it away. Spec: P-5.11.
func (s *Server) React(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.ReactRequest) (*petrelv1.NoteResponse, error) {
	if err := s.allowNote(a); err != nil {
		return nil, err
	}
	q := &convpb.React{Seq: r.Seq, Emoji: r.Emoji, Removed: r.Removed}
	return route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).React, q)
}

// Pin pins a message for all members, or unpins it. Spec: P-5.11.
func (s *Server) Pin(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.PinRequest) (*petrelv1.NoteResponse, error) {
	if err := s.allowNote(a); err != nil {
		return nil, err
	}
	q := &convpb.PinEntry{Seq: r.Seq, Removed: r.Removed}
	return route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).PinEntry, q)
}

// allowNote counts a change of a note. Codes: rate_limited.
func (s *Server) allowNote(a im.Account) error {
	return s.rates.Take(s.o.Now(), rateKey{rateReact, a}, reactRate())
}

// ListReactions lists the users who reacted to a message. Spec: P-5.11.
func (s *Server) ListReactions(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.ListReactionsRequest) (*petrelv1.ListReactionsResponse, error) {
	q := &convpb.ListReactions{Seq: r.Seq, Emoji: r.Emoji, After: r.After, Limit: r.Limit}
	return route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).Reactions, q)
}

// ListPins lists the pinned messages of a conversation, in pages. Spec: P-5.11.
func (s *Server) ListPins(ctx context.Context, a im.Account, key im.Key,
	r *petrelv1.ListPinsRequest) (*petrelv1.ListPinsResponse, error) {
	return route.Ask(ctx, s.route, conv.Query{Conv: key, User: a.User}, (*conv.Owner).Pins,
		&convpb.ListPins{Before: r.Before})
}

// read runs an expensive read, f, when it is the caller's turn. Codes: overloaded, store_stalled (ctx ended).
func read[T any](ctx context.Context, s *Server, f func() (*T, error)) (answer *T, err error) {
	if s.o.Reads == nil {
		return f()
	}
	if s.o.Reads.Do(ctx, turnOf(ctx), func() { answer, err = f() }) {
		return answer, err
	}
	if ctx.Err() != nil {
		return nil, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
	return nil, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
}

// turnOf returns the account whose turns a call uses: its user, or an account of the admin key's own, with a name
// that no user can have.
func turnOf(ctx context.Context) im.Account {
	if callOf(ctx).caller.key == nil {
		return identity(ctx).Account
	}
	return im.Account{User: im.User(callOf(ctx).caller.name())}
}

// keyOf returns the caller and a conversation of their tenant. Codes: no_conversation.
func keyOf(ctx context.Context, conv string) (im.Account, im.Key, error) {
	a := identity(ctx).Account
	id, err := im.ParseConvID(conv)
	return a, im.Key{Tenant: a.Tenant, Conv: id}, err
}

// submit appends one entry and waits for its answer. It first reads the source of a forward, and counts the bytes
// of a user. If ctx ends before the answer (store_stalled), the entry may still be appended.
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
