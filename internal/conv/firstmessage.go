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

// withFirst returns i after the first message to a user of a new direct conversation whose rule is first. The writer is
// no stranger if the user has them as a contact, or asks them to be one. A user who blocks the writer gets no request.
func (i *info) withFirst(to im.User, first uint32, now uint64) *info {
	side := sideOfUser(i.record, string(to))
	if first == 0 || side.GetContactMs() > 0 || side.GetAskedMs() > 0 {
		return i
	}
	if first == FirstWaits && blocksOf(i.record, string(to)) {
		first = FirstClosed
	}
	rec := pairRecord(i.record, i.record.Participants)
	changeSides(rec, string(to), now, func(s, _ *storepb.Side) {
		if s.First, s.FirstCount = first, 1; first > FirstOpen {
			s.FirstMs = now
		}
	})
	return &info{record: rec, members: i.members}
}

// afterFirst returns i after one more entry of u, if the other user of the direct conversation is a stranger. An
// entry of the stranger accepts all that u writes; so does one that the back end sends for u. A recall does not count.
// head is that before the entry. Codes: rate_limited.
func (i *info) afterFirst(u im.User, s *Send, head im.Seq, now uint64) (*info, *im.Error) {
	if len(i.record.GetSides()) == 0 || u == "" {
		return i, nil
	}
	own, other := i.sides(u)
	switch {
	case own.GetFirst() > 0:
		return i.acquainted(string(u), head, now), nil
	case other.GetFirst() == 0 || s.Entry.GetRecall() != nil:
		return i, nil
	case s.BackEnd:
		return i.acquainted(other.User, head, now), nil
	case other.FirstCount >= maxFirst:
		return nil, &im.Error{Code: im.CodeRateLimited, RetryAfter: askFirstAgain,
			Message: "five messages wait for an answer: send more when the other user has written"}
	}
	rec := proto.CloneOf(i.record)
	sideOfUser(rec, other.User).FirstCount++
	return &info{record: rec, members: i.members}, nil
}

// acquainted returns i after acquaint for the side of a user.
func (i *info) acquainted(user string, head im.Seq, now uint64) *info {
	rec := proto.CloneOf(i.record)
	changeSides(rec, user, now, func(s, _ *storepb.Side) { acquaint(rec, s, head) })
	return &info{record: rec, members: i.members}
}
