package conv

import (
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// notes holds the notes of a conversation that members change at present, and those
// that are not told to others yet. Guarded by memory.mu.
//
// A change is dirty until a commit takes it. What is stored is what others are told: the
// store may show newer ones, which are not durable yet.
type notes struct {
	of      map[im.Seq]*noteState
	dirty   []*noteState
	queued  bool // in tallies.due
	loading int  // changes that read, or have read and are not noted yet: no note may be dropped

	untold  map[im.Seq]*untold
	told    time.Time // when others were begun to be told last
	telling bool      // the teller has the conversation
}

// noteState is the note of one entry.
type noteState struct {
	seq            im.Seq
	newest, stored *storepb.Note // newest with the changes that are not durable yet
	pin, storedPin *storepb.Pinned
	users          map[im.User]*userReactions // those who change it
	changed        []*userReactions           // those whose reactions no commit has taken yet
	dirty          bool
	waiting        []*tallyChange // answered when newest is stored
}

// userReactions are those of one user to one entry.
type userReactions struct {
	user           im.User
	newest, stored []string
	changed        bool // in noteState.changed
}

// userWrite is the reactions of one user on their way in a commit.
type userWrite struct {
	of     *userReactions
	emojis []string
}

// untold is a note that others are to be told, and the users who changed it since they
// were told last, with their reactions.
type untold struct {
	note  *storepb.Note
	users map[im.User][]string
}

// tallyChange waits for a change of a note. Done is called once, when what it says is
// durable; it must not block.
type tallyChange struct {
	user      im.User
	unseenBy  im.User // the other user does not see the entry; "": everybody does
	unchanged bool
	mine      []string // the user's reactions, when it is answered
	done      func(n *storepb.Note, err *im.Error)
}

// noteBytes is what a note with one user takes in memory, about.
const noteBytes = 512

// settled tells whether nobody waits for s.
func (s *noteState) settled() bool {
	return !s.dirty && len(s.waiting) == 0 && s.newest == s.stored && s.pin == s.storedPin
}

// drop forgets the notes that nobody waits for, and returns how many.
func (all *notes) drop() int {
	if all.loading > 0 {
		return 0
	}
	before := len(all.of)
	for q, s := range all.of {
		if s.settled() {
			delete(all.of, q)
		}
	}
	return before - len(all.of)
}

// durableOf are the reactions of a user as they are stored; known: they are in memory, so
// the store may show some that are not durable yet.
func (all *notes) durableOf(q im.Seq, u im.User) (mine []string, known bool) {
	if all == nil || all.of[q] == nil || all.of[q].users[u] == nil {
		return nil, false
	}
	return all.of[q].users[u].stored, true
}
