// Package note changes and reads the notes of one feed's conversations: the reactions to an entry, and its
// pin. They are no entries, and move no head. Package conv decides who may change them, and writes the
// changes with its commits.
//
// A change first reads the present note (Change), and then waits for the committer, which takes it into its
// next commit (Take, Write). When the commit is durable, other users read the new note (Show), and the user
// of the change has the answer (Answer). Members who have the conversation in focus get the note, at most
// once a second (Announce). The store shows changes before they are durable, so readers replace what they
// have read there by the durable notes in memory (read.go).
//
// Files: note.go (changes, from the request to the answer), announce.go (who gets a new note), read.go,
// pendingnotes.go (notes with changes that are not durable), storednotes.go (reads of the store), rules.go
// (limits, and the note after a change). Spec: P-5.11.
package note

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	maxMarks   = 4096    // that one commit writes, about
	maxWaiting = 1 << 16 // changes that are not answered, on the whole node
)

// ErrEnded says that the feed was given away or lost.
var ErrEnded = errors.New("the feed was given away or lost")

// loaded is a conversation that package conv has in memory.
type loaded interface {
	// Keep counts n more uses. While there are any, the conversation stays in memory. The first use begins
	// while somebody else keeps it there.
	Keep(n int32)

	// Standing returns the head, and the other user of a direct conversation, if notes of u do not reach them.
	Standing(u im.User) (head im.Seq, unseenBy im.User)

	// Audience returns the members, and a function that tells whether a user is a member and may
	// read an entry.
	Audience() (members []im.User, mayRead func(u im.User, q im.Seq) bool)
}

// Node has the counters of the notes of all feeds of a node.
type Node struct {
	Waiting atomic.Int64  // changes without an answer
	Bytes   *atomic.Int64 // a counter to which notes in memory add their bytes, about
}

// Notes changes and reads the notes of one feed.
type Notes struct {
	node  *Node
	store store.Store
	wake  chan<- struct{} // capacity 1; a token makes the committer come
	announcer

	queued atomic.Int64 // conversations in due

	mu        sync.Mutex // tier 0; guards the fields below, the conversations and the announcer's fresh and cooling
	convs     map[im.Key]*conversation
	due       []*conversation // with notes to write
	waiting   int             // changes without an answer
	bytes     int64           // counted in node.Bytes
	sealed    bool            // no change is taken any more
	abandoned bool            // nothing is counted any more
}

// New makes the notes of one feed. A token in wake makes the committer come.
func New(node *Node, st store.Store, fan *fanout.Fan, wake chan<- struct{}) *Notes {
	return &Notes{node: node, store: st, wake: wake, announcer: announcer{fan: fan,
		timer: time.NewTimer(announceEvery)}, convs: map[im.Key]*conversation{}}
}

// Change is a user's change of the note of an entry: a reaction, or a pin.
type Change struct {
	User     im.User
	Seq      im.Seq
	Emoji    string // of the reaction; "": it is a pin
	Removed  bool
	TimeMs   uint64  // of a pin: now, in Unix milliseconds
	UnseenBy im.User // the user who does not see the entry; "": everybody sees it
}

// Change makes the change x, and returns when it is durable. The caller keeps the conversation in memory until
// Change returns. Codes: forbidden; unsettled: overloaded, disk_full, store_stalled. ErrEnded.
func (n *Notes) Change(ctx context.Context, key im.Key, in loaded, x *Change) (*petrelv1.NoteResponse, error) {
	w := &waiting{Change: x, answer: make(chan answer, 1)}
	if err := n.change(ctx, key, in, w); err != nil {
		return nil, err
	}
	select {
	case a := <-w.answer:
		if a.err != nil {
			return nil, a.err
		}
		return &petrelv1.NoteResponse{Note: For(x.Seq, a.note, x.User, w.mine), Unchanged: w.unchanged}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// change finds the note of an entry, or reads it, applies w, and lets w wait for the commit.
func (n *Notes) change(ctx context.Context, key im.Key, in loaded, w *waiting) error {
	n.mu.Lock()
	c := n.convs[key]
	if c == nil {
		c = &conversation{loaded: in, key: key, states: map[im.Seq]*state{}}
		n.convs[key] = c
	}
	c.loading++
	s := c.states[w.Seq]
	known := s != nil && s.users[w.User] != nil
	n.mu.Unlock()
	var read stored
	var err error
	if !known {
		read, err = readNote(ctx, n.store, key, w.Seq, w.User)
	}
	n.mu.Lock()
	waits := false
	if err == nil {
		waits, err = n.changeLocked(c, w, read)
	}
	if c.loading--; !waits {
		n.dropLocked(c)
	}
	n.mu.Unlock()
	if waits {
		wake.Set(n.wake)
	}
	return err
}

// changeLocked applies w. If waits is false, nothing has changed and w has its answer; otherwise a
// commit answers it.
func (n *Notes) changeLocked(c *conversation, w *waiting, read stored) (waits bool, err error) {
	switch {
	case n.sealed:
		return false, ErrEnded
	case n.node.Waiting.Load() >= maxWaiting:
		return false, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	s, u := n.stateLocked(c, w.Seq, w.User, read)
	note, mine := s.newest, u.newest
	head, unseenBy := c.Standing(w.User)
	if err := s.apply(w.Change, u, cmp.Or(w.UnseenBy, unseenBy)); err != nil {
		return false, err
	}
	if w.unchanged = s.newest == note; w.unchanged && s.newest == s.stored {
		w.mine = mine
		w.answer <- answer{note: note}
		return false, nil
	}
	if !w.unchanged {
		s.newest.Head = uint64(head)
		n.noteLocked(c, s, u, mine)
	}
	n.waiting++
	n.node.Waiting.Add(1)
	s.waiting = append(s.waiting, w)
	return true, nil
}

// Queued tells whether notes wait for a commit.
func (n *Notes) Queued() bool { return n.queued.Load() > 0 }

// Take appends the changed notes that no commit has taken yet, until they have about maxMarks marks. Only the
// committer calls it.
func (n *Notes) Take(into []Write) []Write {
	n.mu.Lock()
	defer n.mu.Unlock()
	done, size := 0, 0
	for _, c := range n.due {
		i := 0
		for i < len(c.dirty) && size < maxMarks {
			w := c.dirty[i].take(c)
			size += 2 + len(w.users)
			into = append(into, w)
			c.Keep(1) // until the commit has ended
			i++
		}
		if c.dirty = append(c.dirty[:0], c.dirty[i:]...); len(c.dirty) > 0 {
			wake.Set(n.wake) // the next commit goes on here
			break
		}
		c.queued = false
		c.Keep(-1)
		n.queued.Add(-1)
		done++
	}
	n.due = slices.Delete(n.due, 0, done)
	return into
}

// Show lets others read the notes of a durable commit, and puts the notes into the next round.
func (n *Notes) Show(writes []Write) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range writes {
		w := &writes[i]
		w.s.stored, w.s.storedPin = w.note, w.pin
		for _, u := range w.users {
			u.of.stored = u.emojis
		}
		if !w.s.dirty { // a change that came meanwhile and changed nothing waits for this commit too
			w.waiting = append(w.waiting, w.s.waiting...)
			w.s.waiting = nil
		}
		for _, x := range w.waiting {
			x.mine = w.s.users[x.User].stored
		}
		n.announceLocked(w.c, w.s.seq, w.note, w.users)
	}
	n.endLocked(writes)
}

// endLocked ends the use of notes by the commit that wrote them, or was to write them.
func (n *Notes) endLocked(writes []Write) {
	for i := range writes {
		w := &writes[i]
		w.c.Keep(-1)
		n.answeredLocked(w.waiting)
		if i+1 == len(writes) || writes[i+1].c != w.c {
			n.dropLocked(w.c)
		}
	}
}

func (n *Notes) answeredLocked(waiting []*waiting) {
	n.waiting -= len(waiting)
	n.node.Waiting.Add(-int64(len(waiting)))
}

// Answer answers the changes of a durable commit.
func (n *Notes) Answer(writes []Write) {
	for i := range writes {
		for _, x := range writes[i].waiting {
			x.answer <- answer{note: writes[i].note}
		}
	}
}

// Refuse answers changes of a commit that was not written, and forgets them and all changes on top
// of them.
func (n *Notes) Refuse(writes []Write, e *im.Error) {
	n.mu.Lock()
	for i := range writes {
		w := &writes[i]
		s := w.s
		w.waiting = append(w.waiting, s.waiting...)
		s.newest, s.pin, s.waiting = s.stored, s.storedPin, nil // if dirty, the next commit writes what is stored
		for _, u := range s.users {
			u.newest = u.stored
		}
	}
	n.endLocked(writes)
	n.mu.Unlock()
	refuse(writes, e)
}

func refuse(writes []Write, e *im.Error) {
	for i := range writes {
		for _, x := range writes[i].waiting {
			x.answer <- answer{err: e}
		}
	}
}

// Seal ends the intake of changes.
func (n *Notes) Seal() {
	n.mu.Lock()
	n.sealed = true
	n.mu.Unlock()
}

// Abandon refuses the waiting changes, and those of a lost commit.
func (n *Notes) Abandon(writes []Write, e *im.Error) {
	all := slices.Clone(writes)
	n.mu.Lock()
	for _, c := range n.convs {
		for _, s := range c.states {
			all = append(all, Write{waiting: s.waiting})
			s.waiting = nil
		}
	}
	for i := range all {
		n.answeredLocked(all[i].waiting)
	}
	n.countLocked(-int(n.bytes))
	n.abandoned = true
	n.mu.Unlock()
	refuse(all, e)
}

// Unanswered returns how many changes have no answer yet.
func (n *Notes) Unanswered() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting
}
