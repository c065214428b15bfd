package conv

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A user writes to a stranger: to somebody who has not written to them, and does not have them as a contact. The side of
// the stranger in the conversation's record says what becomes of such first messages. They wait until the stranger
// accepts them, or they are withheld as those of a blocked user are. The writer cannot tell this from a stranger who says
// nothing. Spec: P-14.11, P-14.12.

// What becomes of first messages. The numbers are those of petrel.v1.FirstMessages, and stored.
const (
	FirstOpen   = 1 // they come as all others
	FirstWaits  = 2 // they wait until the user accepts them
	FirstClosed = 3 // they are withheld, from the first one on or since the user has refused them
)

// maxFirst is how many entries a user writes to a stranger before an answer. askFirstAgain is when the writer may try
// again; an answer ends the bound at once.
const (
	maxFirst      = 5
	askFirstAgain = 20 * time.Second
)

// withFirst returns i after the first message to a user of a new direct conversation whose rule is first. A contact of
// the user is no stranger.
func (i *info) withFirst(to im.User, first uint32, now uint64) *info {
	if first == 0 || sideOfUser(i.record, string(to)).GetContactMs() > 0 {
		return i
	}
	rec := pairRecord(i.record, i.record.Participants)
	changeSides(rec, string(to), now, func(s, _ *storepb.Side) { s.First, s.FirstMs, s.FirstCount = first, now, 1 })
	return &info{record: rec, members: i.members}
}

// afterFirst returns i after one more entry of u, if the other user of the direct conversation is a stranger. An
// entry of the stranger accepts all that u writes; so does one that the back end sends for u. A recall does not count.
// Codes: rate_limited.
func (i *info) afterFirst(u im.User, s *Send, now uint64) (*info, *im.Error) {
	if len(i.record.GetSides()) == 0 || u == "" {
		return i, nil
	}
	own, other := i.sides(u)
	switch {
	case own.GetFirst() > 0:
		return &info{record: acceptFirst(i.record, string(u), now), members: i.members}, nil
	case other.GetFirst() == 0 || s.Entry.GetRecall() != nil:
		return i, nil
	case s.BackEnd:
		return &info{record: acceptFirst(i.record, other.User, now), members: i.members}, nil
	case other.FirstCount >= maxFirst:
		return nil, &im.Error{Code: im.CodeRateLimited, RetryAfter: askFirstAgain,
			Message: "five messages wait for an answer: send more when the other user has written"}
	}
	rec := proto.CloneOf(i.record)
	sideOfUser(rec, other.User).FirstCount++
	return &info{record: rec, members: i.members}, nil
}

// acceptFirst returns a copy of rec in which user gets all messages of the other one.
func acceptFirst(rec *storepb.Conversation, user string, now uint64) *storepb.Conversation {
	rec = proto.CloneOf(rec)
	changeSides(rec, user, now, func(s, _ *storepb.Side) { accept(rec, s) })
	return rec
}

// accept ends what the side s says about first messages. Who has written them lets the user see when they are online,
// as anybody does who has written.
func accept(rec *storepb.Conversation, s *storepb.Side) {
	if s.First > FirstOpen {
		rec.Wrote |= 1 << (1 - slices.Index(rec.Participants, s.User))
	}
	s.First, s.FirstCount = 0, 0 // FirstMs stays: the user's inbox has it, until an entry takes it away
}

// refuse refuses the messages that wait for the user of a side.
func refuse(s *storepb.Side) {
	if s.First == FirstWaits {
		s.First = FirstClosed
	}
}

// sides returns the side of u in the record, and that of the other user; nil: there is none.
func (i *info) sides(u im.User) (own, other *storepb.Side) {
	for _, s := range i.record.GetSides() {
		if s.User == string(u) {
			own = s
		} else {
			other = s
		}
	}
	return own, other
}

// isApart reports whether first messages of one of the users wait or are withheld. The users exchange nothing then.
func (i *info) isApart() bool {
	return slices.ContainsFunc(i.record.GetSides(), func(s *storepb.Side) bool { return s.First > FirstOpen })
}

// isWaiting reports whether messages of u wait for the other user of a direct conversation.
func (i *info) isWaiting(u im.User) bool {
	_, other := i.sides(u)
	return other.GetFirst() == FirstWaits
}
