package conv

import (
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// The record of a direct conversation says what its two users are to each other: contacts, or one has asked the
// other. So requests that cross, answers and blocks meet in one order. Package inbox writes what each user sees of
// it into their inbox. Spec: P-14.7, P-14.8.

// ContactAct is what a storepb.ContactChange does. The numbers are part of the protocol between nodes.
type ContactAct uint32

// The acts of a user, and of the back end, which asks nobody.
const (
	ContactAsk ContactAct = iota + 1
	ContactAccept
	ContactRefuse
	ContactWithdraw
	ContactRemove
	ContactRemark
	ContactMake // by the back end: each user is a contact of the other one
	ContactEnd  // by the back end: neither is
	ContactAcceptMessages
	ContactRefuseMessages
)

// Spec: P-14.8.
const (
	refusedFor = 7 * 24 * time.Hour // so long a user does not see requests of somebody whom they have refused
	askAgain   = 10 * time.Second   // from the withdrawal of a request to the next one of the same user
)

// withContact returns the record of a direct conversation after a change; nil: it stays as it is. rec may be nil.
// head is that of the conversation, now is in Unix milliseconds. Codes: no_contact, forbidden, rate_limited.
func withContact(rec *storepb.Conversation, users []string, ch *storepb.ContactChange, head im.Seq,
	now uint64) (*storepb.Conversation, *im.Error) {
	rec = pairRecord(rec, users)
	var refusal *im.Error
	changed := changeSides(rec, ch.User, now, func(own, other *storepb.Side) {
		refusal = changeContact(rec, own, other, ch, head, now)
	})
	if refusal != nil || !changed {
		return nil, refusal
	}
	return rec, nil
}

// changeContact does what ch says to the sides of rec: own is that of the user who does it.
func changeContact(rec *storepb.Conversation, own, other *storepb.Side, ch *storepb.ContactChange, head im.Seq,
	now uint64) *im.Error {
	asked := other.AskedMs > 0 && !other.Hidden // as own sees it
	switch ContactAct(ch.Act) {
	case ContactAsk:
		if blocksOf(rec, own.User) {
			return im.Errorf(im.CodeForbidden, "end the block before you ask %.64s", other.User)
		}
		accept(rec, own, head)
		switch blocked := blocksOf(rec, other.User); {
		case !blocked && other.AskedMs > 0: // the requests cross
			makeContacts(rec, head, now)
		case own.ContactMs > 0:
		case own.AskedMs > 0:
			own.Greeting = strings.Clone(ch.Text)
		case other.ContactMs > 0: // they have never ended it; with a block too, for own may know it from the profile
			makeContacts(rec, head, now)
		case isWithin(askAgain, own.WithdrewMs, now):
			return &im.Error{Code: im.CodeRateLimited, RetryAfter: askAgain}
		default:
			own.AskedMs, own.Greeting = now, strings.Clone(ch.Text)
			own.Hidden = blocked || ch.Full || isWithin(refusedFor, other.RefusedMs, now)
		}
	case ContactAccept:
		if own.ContactMs == 0 && !asked {
			return &im.Error{Code: im.CodeNoContact}
		}
		if asked {
			makeContacts(rec, head, now)
		}
	case ContactRefuse:
		late := other.AskedMs > 0 || other.WithdrewMs > 0 // a withdrawal, and the next request, may come before it
		if asked || late && own.ContactMs == 0 {
			own.RefusedMs, other.Hidden = now, other.AskedMs > 0
		}
	case ContactWithdraw:
		if own.AskedMs > 0 {
			withdraw(own)
			own.WithdrewMs = now
		}
	case ContactRemove:
		own.ContactMs, own.Remark = 0, ""
	case ContactRemark:
		if own.ContactMs == 0 {
			return &im.Error{Code: im.CodeNoContact}
		}
		own.Remark = strings.Clone(ch.Text)
	case ContactMake:
		makeContacts(rec, head, now)
	case ContactEnd:
		for _, s := range rec.Sides {
			s.ContactMs, s.Remark = 0, ""
			withdraw(s)
		}
	case ContactAcceptMessages:
		if accept(rec, own, head); own.FirstMs == 0 && head > 0 {
			own.FirstMs = now // an entry of a record that was lost may still be in the inbox: this replaces it
		}
	case ContactRefuseMessages:
		refuse(own)
	default:
		return im.Errorf(im.CodeInvalid, "a change of contacts that does not exist: %d", ch.Act)
	}
	return nil
}

// makeContacts makes both users contacts. Who is a contact is no stranger.
func makeContacts(rec *storepb.Conversation, head im.Seq, now uint64) {
	for _, s := range rec.Sides {
		acquaint(rec, s, head)
		if s.ContactMs == 0 {
			s.ContactMs = now
		}
		withdraw(s)
		s.RefusedMs = 0
	}
}

func withdraw(s *storepb.Side) { s.AskedMs, s.Greeting, s.Hidden = 0, "", false }

// endRequests removes the request of a user who begins to block the other one, hides that of the other one, and refuses
// messages that wait. A block looks to the blocked user as if the request had been withdrawn.
func endRequests(rec *storepb.Conversation, blocker string, now uint64) {
	if len(rec.Sides) == 0 {
		return
	}
	changeSides(rec, blocker, now, func(own, other *storepb.Side) {
		withdraw(own)
		refuse(own)
		other.Hidden = other.AskedMs > 0
	})
}
