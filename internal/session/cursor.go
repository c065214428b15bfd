package session

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The capabilities, by their names in hello and welcome. Spec: P-2.6.
const (
	capEdit   = "edit"
	capCursor = "cursor"
	capFocus  = "focus"
	capNewest = "newest"
	capCall   = "call"
)

// capabilities are what this server offers beyond the base.
var capabilities = []string{capEdit, capCursor, capFocus, capNewest, capCall}

// keep notes what the client understands: nothing else is used towards it. It
// is called before the outbox enters the online table. Spec: P-2.6.
func (s *Session) keep(listed []string) {
	for _, c := range listed {
		switch c {
		case capCursor:
			s.Out.Receipts = true
		case capFocus:
			s.Out.Hints = true
		}
	}
}

// sync lets events in again, then asks what moved. Spec: P-6.2, P-6.3.
func (s *Session) sync(id uint64, f *petrelv1.Sync, k *fanout.Kicks) {
	s.request(id, "sync", k, func(ctx context.Context) (*petrelv1.ServerFrame, error) {
		s.Out.Resume()
		page, err := s.hub.sync.Sync(ctx, s.Out.Account, f.Token, int(min(f.Newest, conv.MaxPage)))
		return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Sync{Sync: page}}, err
	})
}

// maxMoves is how many moves of cursors of one session may be unanswered: one
// of each conversation of a busy list may wait for its second.
const maxMoves = 256

// cursor moves the user's cursors. The answer comes when the move is durable,
// up to a second later; nobody waits for it meanwhile. Spec: P-8.6.
func (s *Session) cursor(id uint64, f *petrelv1.MoveCursor, k *fanout.Kicks) {
	conversation, err := im.ParseConvID(f.Conv)
	if err != nil {
		s.refuse(id, s.hub.internal(s, "cursor", err), k)
		return
	}
	if s.moves.Add(1) > maxMoves {
		s.moves.Add(-1)
		s.refuse(id, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}, k)
		return
	}
	m := &conv.CursorMove{
		Conv: im.Key{Tenant: s.Out.Account.Tenant, Conv: conversation}, User: s.Out.Account.User,
		Delivered: im.Seq(f.Delivered), Read: im.Seq(f.Read), Origin: fanout.Asker{ID: s.Out.ID},
	}
	m.Done = func(c conv.Cursor, err *im.Error, k *fanout.Kicks) {
		s.moves.Add(-1)
		if err != nil {
			s.refuse(id, err, k)
			return
		}
		s.Out.Answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Cursor{Cursor: c.Frame(m.Conv.Conv)}}, k)
	}
	ok := s.hub.async(s, func(ctx context.Context, k *fanout.Kicks) {
		if err := s.hub.route.Move(ctx, m); err != nil {
			m.Done(conv.Cursor{}, s.hub.internal(s, "cursor", err), k)
		}
	})
	if !ok {
		m.Done(conv.Cursor{}, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}, k)
	}
}
