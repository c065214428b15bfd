package conv

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A user writes to a stranger: to somebody who has not written to them, and does not have them as a contact. The
// side of the stranger in the conversation's record says what becomes of such first messages. They wait until the
// stranger accepts them, or they are withheld as those of a blocked user are. The writer cannot tell this from a
// stranger who says nothing. Spec: P-14.11, P-14.12.

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
