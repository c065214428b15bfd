package note

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// conversation is one conversation of which notes change at present, or are announced.
type conversation struct {
	loaded
	key     im.Key
	states  map[im.Seq]*state // of the notes that change
	dirty   []*state          // whose changes no commit has taken yet
	queued  bool              // in Notes.due
	loading int               // changes that have begun to read and are not noted yet: no note may be dropped

	unannounced map[im.Seq]*announcement
	announced   time.Time // when the last round began
	announcing  bool      // in announcer.fresh or announcer.cooling, or a round is under way
}

// state is the note of one entry while it changes. Other users read the durable values (stored, storedPin):
// the store may have newer ones that are not durable yet. The values behind the pointers never change, so
// readers may keep them. nil: there is none.
type state struct {
	seq            im.Seq
	newest, stored *storepb.Note // newest with the changes that are not durable yet
	pin, storedPin *storepb.Pinned
	users          map[im.User]*userReactions // those who change it
	changed        []*userReactions           // those whose reactions no commit has taken yet
	dirty          bool                       // in conversation.dirty
	waiting        []*waiting                 // answered when newest is stored
}

// userReactions has the reactions of one user to one entry.
type userReactions struct {
	user           im.User
	newest, stored []string
	changed        bool // in state.changed
}

// userWrite has the reactions of one user on their way in a commit.
type userWrite struct {
	of     *userReactions
	emojis []string
}

// announcement is a note for the next round, with the reactions of the users who changed it since
// the last one.
type announcement struct {
	note  *storepb.Note
	users map[im.User][]string
}

// waiting is a change that waits for its commit.
type waiting struct {
	*Change
	unchanged bool     // it changes nothing, but waits for an earlier change that did the same
	mine      []string // the user's reactions, when it is answered
	answer    chan answer
}

type answer struct {
	note *storepb.Note
	err  *im.Error
}

// Write is one note on its way in a commit.
type Write struct {
	c       *conversation
	s       *state
	note    *storepb.Note
	pin     *storepb.Pinned
	users   []userWrite
	waiting []*waiting
}

// Conv returns the conversation of w.
func (w *Write) Conv() im.Key { return w.c.key }

// noteBytes is about how many bytes of memory a note with one user takes.
const noteBytes = 512

// settled tells whether no change of s waits.
func (s *state) settled() bool {
	return !s.dirty && len(s.waiting) == 0 && s.newest == s.stored && s.pin == s.storedPin
}

// take returns the write of all changes of s that no commit has taken yet.
func (s *state) take(c *conversation) Write {
	w := Write{c: c, s: s, note: s.newest, pin: s.pin, waiting: s.waiting}
	for _, u := range s.changed {
		w.users = append(w.users, userWrite{u, u.newest})
		u.changed = false
	}
	s.dirty, s.waiting, s.changed = false, nil, nil
	return w
}

// Puts appends the marks that w writes.
func (w *Write) Puts(into []store.MarkPut) []store.MarkPut {
	q := w.s.seq
	into = append(into, store.MarkPut{Conv: w.c.key, Kind: store.MarkNote, Seq: q, Value: EncodeMark(w.note)})
	for _, u := range w.users {
		p := store.MarkPut{Conv: w.c.key, Kind: store.MarkReactions, Seq: q, Name: string(u.of.user)}
		if len(u.emojis) > 0 {
			p.Value = EncodeMark(&storepb.Reactions{Emojis: u.emojis})
		}
		into = append(into, p)
	}
	if w.pin != w.s.storedPin {
		p := store.MarkPut{Conv: w.c.key, Kind: store.MarkPin, Seq: q}
		if w.pin != nil {
			p.Value = EncodeMark(w.pin)
		}
		into = append(into, p)
	}
	return into
}

// apply applies x to s and to the reactions of its user. The change is withheld from blocker; "": everybody
// sees it. Codes: forbidden. Spec: P-5.4, P-5.11.
func (s *state) apply(x *Change, u *userReactions, blocker im.User) error {
	if x.Emoji == "" {
		s.newest, s.pin = pin(s.newest, s.pin, x.User, blocker, !x.Removed, x.TimeMs)
		return nil
	}
	n, mine, err := react(s.newest, u.newest, x.Emoji, x.Removed)
	if n != s.newest {
		withholdReaction(n, x.User, x.Emoji, blocker != "" && !x.Removed)
	}
	s.newest, u.newest = n, mine
	return err
}

// stateLocked finds the note of the entry q and the reactions of u, or begins with the values that
// were read.
func (n *Notes) stateLocked(c *conversation, q im.Seq, u im.User, read stored) (*state, *userReactions) {
	s := c.states[q]
	if s == nil { // nobody has changed it meanwhile: the note that was read is durable
		s = &state{seq: q, newest: read.note, stored: read.note, pin: read.pin, storedPin: read.pin,
			users: map[im.User]*userReactions{}}
		c.states[q] = s
		n.countLocked(noteBytes)
	}
	r := s.users[u]
	if r == nil {
		r = &userReactions{user: u, newest: read.mine, stored: read.mine}
		s.users[u] = r
	}
	return s, r
}

// noteLocked queues s for a commit after the user of u has changed it. mine are the reactions of that user
// before.
func (n *Notes) noteLocked(c *conversation, s *state, u *userReactions, mine []string) {
	if !u.changed && !slices.Equal(u.newest, mine) {
		u.changed = true
		s.changed = append(s.changed, u)
	}
	if !s.dirty {
		s.dirty = true
		c.dirty = append(c.dirty, s)
	}
	if !c.queued {
		c.queued = true
		c.Keep(1) // until a commit has taken all of it
		n.due = append(n.due, c)
		n.queued.Add(1)
	}
}

// dropLocked forgets the settled notes of c, and c if no notes are left and nothing waits.
func (n *Notes) dropLocked(c *conversation) {
	if c.loading > 0 {
		return
	}
	before := len(c.states)
	for q, s := range c.states {
		if s.settled() {
			delete(c.states, q)
		}
	}
	n.countLocked(noteBytes * (len(c.states) - before))
	if len(c.states) == 0 && !c.queued && !c.announcing {
		delete(n.convs, c.key)
	}
}

// countLocked adds bytes to the memory of notes.
func (n *Notes) countLocked(bytes int) {
	if !n.abandoned {
		n.bytes += int64(bytes)
		n.node.Bytes.Add(int64(bytes))
	}
}
