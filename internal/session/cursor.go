package session

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// cursor moves the user's cursors in a conversation. The answer comes when the move
// is durable, which can take a second. No goroutine waits meanwhile. Spec: P-8.6.
func (s *Session) cursor(id uint64, f *petrelv1.MoveCursor, k *fanout.WakeUps) {
	conversation, err := im.ParseConvID(f.Conv)
	if err != nil {
		s.refuse(id, s.hub.clientError(s.Out.Account.User, "cursor", err), k)
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
		WantMentions: s.Out.Mentions, Private: s.Out.Standing().PrivateReading,
	}
	m.Done = func(c conv.Cursor, err *im.Error, k *fanout.WakeUps) {
		s.moves.Add(-1)
		if err != nil {
			s.noteRefusal("cursor", err)
			s.refuse(id, err, k)
			return
		}
		s.Out.Answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Cursor{Cursor: m.Frame(c)}}, k)
	}
	ok := s.hub.asyncOn(s.queueRead, &s.Out, func(ctx context.Context, k *fanout.WakeUps) {
		if err := s.hub.route.Move(ctx, m); err != nil {
			m.Done(conv.Cursor{}, s.hub.clientError(s.Out.Account.User, "cursor", err), k)
		}
	})
	if !ok {
		m.Done(conv.Cursor{}, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}, k)
	}
}
