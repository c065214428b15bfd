package conv

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The record of a direct conversation has a side for each of its users: what this user is to the other one. Package
// inbox writes what each user sees of both sides into their inbox. Spec: P-14.7, P-14.12.

// pairRecord returns a copy of the record of a direct conversation with both sides; rec may be nil.
func pairRecord(rec *storepb.Conversation, users []string) *storepb.Conversation {
	rec = cloneOfPair(rec, users)
	for _, u := range users {
		if sideOfUser(rec, u) == nil {
			rec.Sides = append(rec.Sides, &storepb.Side{User: u})
		}
	}
	return rec
}

// cloneOfPair returns a copy of the record of a direct conversation; rec may be nil.
func cloneOfPair(rec *storepb.Conversation, users []string) *storepb.Conversation {
	if rec == nil {
		return &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_DIRECT), Participants: users}
	}
	return proto.CloneOf(rec)
}

// SidesOf returns the side of a user in the record of a direct conversation, which may be nil, and that of the other
// user; nil: there is none.
func SidesOf(rec *storepb.Conversation, u im.User) (own, other *storepb.Side) {
	for _, s := range rec.GetSides() {
		if s.User == string(u) {
			own = s
		} else {
			other = s
		}
	}
	return own, other
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

// changeSides changes rec by f, which gets the side of user and that of the other one, and notes in the sides who sees
// the change. It reports whether the sides have changed. rec has both sides, and is modified.
func changeSides(rec *storepb.Conversation, user string, now uint64, f func(own, other *storepb.Side)) bool {
	own := sideOfUser(rec, user)
	other := rec.Sides[1-slices.Index(rec.Sides, own)]
	before := [2]*storepb.Side{proto.CloneOf(own), proto.CloneOf(other)}
	f(own, other)
	next := max(rec.ContactVersion+1, now*1000) // above all versions of a record that was lost
	if !proto.Equal(ContactOf(own, other), ContactOf(before[0], before[1])) || own.FirstMs != before[0].FirstMs {
		own.Version, rec.ContactVersion = next, next
	}
	if !proto.Equal(ContactOf(other, own), ContactOf(before[1], before[0])) {
		other.Version, rec.ContactVersion = next, next
	}
	return !proto.Equal(own, before[0]) || !proto.Equal(other, before[1])
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
	if first := own.GetFirst(); first > FirstOpen {
		c.MessagesMs, c.MessagesRefused = own.FirstMs, first == FirstClosed
	}
	return c
}

// isWithin reports whether less than d has passed since a time; 0: it never was.
func isWithin(d time.Duration, since, now uint64) bool {
	return since > 0 && now < since+uint64(d.Milliseconds())
}

// These constants say what becomes of first messages. The numbers are those of petrel.v1.FirstMessages, and stored.
const (
	FirstOpen   = 1 // they come as all others
	FirstWaits  = 2 // they wait until the user accepts them
	FirstClosed = 3 // they are withheld, from the first one on or since the user has refused them
)

// accept accepts messages that wait for the user of a side, or are withheld from them. head is that of the
// conversation. Who has written the messages lets the user see when they are online, as anybody does who has written,
// and learns nothing of the acceptance: the bound of what they write stays, and what was read up to head causes no
// receipts.
func accept(rec *storepb.Conversation, s *storepb.Side, head im.Seq) {
	if s.First > FirstOpen {
		rec.Wrote |= 1 << (1 - slices.Index(rec.Participants, s.User))
		s.First, s.QuietTo = FirstOpen, uint64(head)
	}
}

// acquaint ends what the side s says about first messages: the user has written, or both are contacts. FirstMs stays:
// the user's inbox has it, until an entry takes it away.
func acquaint(rec *storepb.Conversation, s *storepb.Side, head im.Seq) {
	accept(rec, s, head)
	s.First, s.FirstCount = 0, 0
}

// refuse refuses the messages that wait for the user of a side.
func refuse(s *storepb.Side) {
	if s.First == FirstWaits {
		s.First = FirstClosed
	}
}
