package conv

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
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
)

// Spec: P-14.8.
const (
	refusedFor = 7 * 24 * time.Hour // so long a user does not see requests of somebody whom they have refused
	askAgain   = 10 * time.Second   // from the withdrawal of a request to the next one of the same user
)

// withContact returns the record of a direct conversation after a change; nil: it stays as it is. rec may be nil.
// now is in Unix milliseconds. Codes: no_contact, forbidden, rate_limited.
func withContact(rec *storepb.Conversation, users []string, ch *storepb.ContactChange,
	now uint64) (*storepb.Conversation, *im.Error) {
	former := len(rec.GetSides()) > 0
	rec = pairRecord(rec, users)
	own := sideOfUser(rec, ch.User)
	other := sideOfUser(rec, users[1-slices.Index(users, ch.User)])
	before := [2]*storepb.Side{proto.CloneOf(own), proto.CloneOf(other)}
	asked := other.AskedMs > 0 && !other.Hidden // as own sees it
	switch ContactAct(ch.Act) {
	case ContactAsk:
		switch blocked := blocksOf(rec, other.User); {
		case blocksOf(rec, own.User):
			return nil, im.Errorf(im.CodeForbidden, "end the block before you ask %.64s", other.User)
		case !blocked && other.AskedMs > 0: // the requests cross
			makeContacts(own, other, now)
		case own.ContactMs > 0:
		case own.AskedMs > 0:
			own.Greeting = strings.Clone(ch.Text)
		case !blocked && other.ContactMs > 0 && !other.AskedBack: // they have never ended it
			makeContacts(own, other, now)
		case isWithin(askAgain, own.WithdrewMs, now):
			return nil, &im.Error{Code: im.CodeRateLimited, RetryAfter: askAgain}
		default:
			own.AskedMs, own.Greeting = now, strings.Clone(ch.Text)
			own.Hidden = blocked || ch.Full || isWithin(refusedFor, other.RefusedMs, now)
		}
	case ContactAccept:
		if own.ContactMs == 0 && !asked {
			return nil, &im.Error{Code: im.CodeNoContact}
		}
		if asked {
			makeContacts(own, other, now)
		}
	case ContactRefuse:
		if former && (own.ContactMs == 0 || asked) { // also between two requests, which may follow each other fast
			own.RefusedMs, other.Hidden = now, other.AskedMs > 0
		}
	case ContactWithdraw:
		if own.AskedMs > 0 {
			withdraw(own)
			own.WithdrewMs = now
		}
	case ContactRemove:
		own.ContactMs, own.Remark, own.AskedBack = 0, "", false
	case ContactRemark:
		if own.ContactMs == 0 {
			return nil, &im.Error{Code: im.CodeNoContact}
		}
		own.Remark = strings.Clone(ch.Text)
	case ContactMake:
		makeContacts(own, other, now)
	case ContactEnd:
		for _, s := range []*storepb.Side{own, other} {
			s.ContactMs, s.Remark = 0, ""
			withdraw(s)
		}
	default:
		return nil, im.Errorf(im.CodeInvalid, "a change of contacts that does not exist: %d", ch.Act)
	}
	return versionSides(rec, own, other, before, now), nil
}

// isWithin reports whether less than d has passed since a time; 0: it never was.
func isWithin(d time.Duration, since, now uint64) bool {
	return since > 0 && now < since+uint64(d.Milliseconds())
}

// pairRecord returns a copy of the record of a direct conversation with both sides; rec may be nil.
func pairRecord(rec *storepb.Conversation, users []string) *storepb.Conversation {
	if rec == nil {
		rec = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_DIRECT), Participants: users}
	}
	rec = proto.CloneOf(rec)
	for _, u := range users {
		if sideOfUser(rec, u) == nil {
			rec.Sides = append(rec.Sides, &storepb.Side{User: u})
		}
	}
	return rec
}

func sideOfUser(rec *storepb.Conversation, user string) *storepb.Side {
	for _, s := range rec.GetSides() {
		if s.User == user {
			return s
		}
	}
	return nil
}

func blocksOf(rec *storepb.Conversation, user string) bool {
	return slices.ContainsFunc(rec.Blocks, func(b *storepb.Block) bool { return b.Blocked && b.User == user })
}

func makeContacts(one, other *storepb.Side, now uint64) {
	for _, s := range []*storepb.Side{one, other} {
		if s.ContactMs == 0 {
			s.ContactMs = now
		}
		withdraw(s)
		s.RefusedMs, s.AskedBack = 0, false
	}
}

func withdraw(s *storepb.Side) { s.AskedMs, s.Greeting, s.Hidden = 0, "", false }

// versionSides notes in the sides of rec who sees that they have changed; nil: nothing has. before has the sides as
// they were.
func versionSides(rec *storepb.Conversation, own, other *storepb.Side,
	before [2]*storepb.Side, now uint64) *storepb.Conversation {
	if proto.Equal(own, before[0]) && proto.Equal(other, before[1]) {
		return nil
	}
	rec.ContactVersion = max(rec.ContactVersion+1, now*1000) // above all versions of a record that was lost
	if !proto.Equal(ContactOf(own, other), ContactOf(before[0], before[1])) {
		own.Version = rec.ContactVersion
	}
	if !proto.Equal(ContactOf(other, own), ContactOf(before[1], before[0])) {
		other.Version = rec.ContactVersion
	}
	return rec
}

// sidesThatSee returns a bit set: bit i is set if the user of side i sees a change with this version or a later one.
func sidesThatSee(rec *storepb.Conversation, version uint64) (bits uint64) {
	for i, s := range rec.Sides {
		if s.Version >= version {
			bits |= 1 << i
		}
	}
	return bits
}

// ContactOf returns what the user of one side sees. Either side may be nil.
func ContactOf(own, other *storepb.Side) *petrelv1.Contact {
	c := &petrelv1.Contact{User: other.GetUser(), SinceMs: own.GetContactMs(), Remark: own.GetRemark(),
		SentMs: own.GetAskedMs(), Greeting: own.GetGreeting()}
	if other.GetAskedMs() > 0 && !other.Hidden {
		c.ReceivedMs, c.Greeting = other.AskedMs, other.Greeting
	}
	return c
}

// endRequests removes the request of a user who begins to block the other one, and hides that of the other one.
// A block looks to the blocked user as if the request had been withdrawn. The blocked user does not become a contact
// again without a question: that would tell when the block ends.
func endRequests(rec *storepb.Conversation, users []string, blocker string, now uint64) {
	own, other := sideOfUser(rec, blocker), sideOfUser(rec, users[1-slices.Index(users, blocker)])
	if own == nil || other == nil {
		return
	}
	before := [2]*storepb.Side{proto.CloneOf(own), proto.CloneOf(other)}
	withdraw(own)
	own.AskedBack = own.ContactMs > 0
	other.Hidden = other.AskedMs > 0
	versionSides(rec, own, other, before, now)
}
