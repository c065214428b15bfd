package session

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// errUnconfirmed is the answer to a request of an unconfirmed session: for too long neither the
// other nodes nor the store have said whether it is still valid.
var errUnconfirmed = &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}

// request runs f on a worker that reads the store, and sends its frame or its error
// as the answer.
func (s *Session) request(id uint64, what string, k *fanout.WakeUps,
	f func(context.Context) (*petrelv1.ServerFrame, error)) {
	s.requestOn(s.queueRead, id, what, k, f)
}

func (s *Session) requestOn(queue func(job func()) bool, id uint64, what string, k *fanout.WakeUps,
	f func(context.Context) (*petrelv1.ServerFrame, error)) {
	if s.Out.Unconfirmed() {
		s.refuse(id, errUnconfirmed, k)
		return
	}
	busy := &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
	if s.full() {
		s.refuse(id, busy, k)
		return
	}
	if s.requests.Add(1) > maxRequests {
		s.requests.Add(-1)
		s.refuse(id, busy, k)
		return
	}
	at := k.Now()
	ok := s.hub.asyncOn(queue, &s.Out, func(ctx context.Context, k *fanout.WakeUps) {
		frame, err := func() (*petrelv1.ServerFrame, error) {
			defer s.requests.Add(-1) // before the answer, after which the client may ask again
			if s.full() {            // of answers to other requests
				return nil, busy
			}
			return f(ctx)
		}()
		if err == nil && s.Out.Unconfirmed() { // again: a read may take longer than the session may be unconfirmed
			err = errUnconfirmed
		}
		if err != nil {
			e := s.hub.clientError(s.Out.Account.User, what, err)
			if what != "call" { // the API notes it
				s.noteRefusal(what, e)
			}
			s.refuse(id, e, k)
			return
		}
		s.hub.Requests[what].Observe(measure.Now() - at)
		frame.Id = id
		s.Out.Answer(frame, k)
	})
	if !ok {
		s.requests.Add(-1)
		s.refuse(id, busy, k)
	}
}

// full returns whether more bytes wait for the client than the limit of an
// outbox. Then it gets no further answers to requests until it has read.
func (s *Session) full() bool {
	limit := s.hub.Limits().OutboxBytes
	return limit >= 0 && s.Out.Pending() > limit
}

// history reads a page of a conversation. Spec: P-5.2.
func (s *Session) history(ctx context.Context, f *petrelv1.GetHistory) (*petrelv1.ServerFrame, error) {
	page, err := s.hub.route.HistoryPage(ctx, s.Out.Account, f, s.hub.Limits().pageSize(),
		conv.Extras{Refs: s.Out.Refs, Notes: s.Out.Notes})
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_History{History: page}}, err
}

// sync lets the session take events again, and then reads what has changed since the client's sync
// token. In this order nothing is missed: an entry that is committed during the read is in the
// page, or comes as an event. Spec: P-6.2, P-6.3.
func (s *Session) sync(ctx context.Context, f *petrelv1.Sync) (*petrelv1.ServerFrame, error) {
	s.Out.Resume()
	newest := conv.Newest{Messages: int(min(f.Newest, conv.MaxPage)), Refs: s.Out.Refs, Notes: s.Out.Notes,
		Mentions: s.Out.Mentions}
	page, err := s.hub.sync.Sync(ctx, s.Out.Account, f.Token, inbox.Wants{Newest: newest, Personal: s.Out.Personal,
		Profiles: s.Out.Profiles, NoReceipts: s.Out.Standing().PrivateReading})
	return &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Sync{Sync: page}}, err
}
