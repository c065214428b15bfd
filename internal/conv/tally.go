package conv

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	tallySize  = 4096    // marks that one commit writes, about
	maxTallies = 1 << 16 // changes of notes that are not answered, on the whole node
)

// tallyWrite is one note on its way in a commit.
type tallyWrite struct {
	c       *conv
	s       *noteState
	note    *storepb.Note
	pin     *storepb.Pinned
	users   []userWrite
	waiting []*tallyChange
}

// tallies change the notes of one feed's conversations: reactions and pins. They are no
// entries, and move no head. Whoever changes a note reads first what it is now. So the committer
// only takes what is to be written, with its next commit. When that is durable, it is
// answered, and the teller tells it to others.
type tallies struct {
	mem    *memory
	reader *reader
	node   *node
	store  store.Store
	teller *teller
	now    func() time.Time // wall clock
	wake   chan<- struct{}  // capacity 1; a token makes the committer come

	queued atomic.Int64 // conversations in due

	// Guarded by memory.mu.
	due     []*conv // with notes to write
	waiting int     // changes without an answer
}

// React adds a reaction of a user to a message, or takes it away, and returns when that
// is durable. Codes: no_conversation, not_member, no_target, forbidden; unsettled:
// overloaded, disk_full, store_stalled. Spec: P-5.11.
func (t *tallies) React(ctx context.Context, by Query, q *convpb.React) (*petrelv1.NoteResponse, error) {
	if n := len(q.Emoji); n == 0 || n > maxEmoji {
		return nil, im.Errorf(im.CodeInvalid, "an emoji has 1 to %d bytes", maxEmoji)
	}
	return t.change(ctx, by, im.Seq(q.Seq), q.Removed, nil, func(s *noteState, u *userReactions, blocker im.User) error {
		n, mine, err := react(s.newest, u.newest, q.Emoji, q.Removed)
		if n != s.newest {
			withholdReaction(n, by.User, q.Emoji, blocker != "" && !q.Removed)
		}
		s.newest, u.newest = n, mine
		return err
	})
}

// PinEntry pins a message for all members, or unpins it, and returns when that is durable.
// Codes: as those of React. Spec: P-5.11.
func (t *tallies) PinEntry(ctx context.Context, by Query, q *convpb.PinEntry) (*petrelv1.NoteResponse, error) {
	now := uint64(t.now().UnixMilli())
	may := func(c *conv, at point, in *info) error { return t.mayPin(ctx, c, at, in, by.User, q.Removed) }
	return t.change(ctx, by, im.Seq(q.Seq), q.Removed, may, func(s *noteState, _ *userReactions, blocker im.User) error {
		s.newest, s.pin = pin(s.newest, s.pin, by.User, blocker, !q.Removed, now)
		return nil
	})
}

// mayPin decides whether u may pin or unpin a message. Codes: forbidden. Spec: P-5.11.
func (t *tallies) mayPin(ctx context.Context, c *conv, at point, in *info, u im.User, removed bool) error {
	if !in.members.atLeast(u, policy.Of(c.key.Conv.Kind()).Pin) {
		return im.Errorf(im.CodeForbidden, "only admins and the owner of a group may pin")
	}
	if removed {
		return nil
	}
	pins, err := t.reader.pins(ctx, c, at.head)
	if err == nil && len(pins) >= MaxPins {
		err = im.Errorf(im.CodeForbidden, "a conversation has at most %d pinned messages", MaxPins)
	}
	return err
}

// noteChange changes the note of an entry, and the reactions of the user who changes it. If
// there is a blocker, what the user does is withheld from this one. Spec: P-5.4.
type noteChange func(s *noteState, u *userReactions, blocker im.User) error

// change applies f to the note of the entry q, and waits until that is durable. f is
// called with memory.mu held. may decides more about it; nil: nothing.
func (t *tallies) change(ctx context.Context, by Query, q im.Seq, removed bool, may func(*conv, point, *info) error, f noteChange) (*petrelv1.NoteResponse, error) {
	if err := Refusal(t.store.Writable()); err != nil {
		return nil, err
	}
	c, at, in, end, err := t.reader.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	if by.User == "" || in.members.Role(by.User) == 0 {
		return nil, &im.Error{Code: im.CodeNotMember}
	}
	if err = t.reader.noteTarget(ctx, c, at, in, by.User, q, removed); err == nil && may != nil {
		err = may(c, at, in)
	}
	if err != nil {
		return nil, err
	}
	type answer struct {
		res *petrelv1.NoteResponse
		err error
	}
	answers := make(chan answer, 1)
	x := &tallyChange{user: by.User}
	if x.unseenBy, err = t.reader.withheldFrom(ctx, c, in, q, by.User); err != nil {
		return nil, err
	}
	x.done = func(n *storepb.Note, err *im.Error) {
		if err != nil {
			answers <- answer{err: err}
			return
		}
		answers <- answer{res: &petrelv1.NoteResponse{Note: noteFor(q, n, by.User, x.mine), Unchanged: x.unchanged}}
	}
	if err := t.note(ctx, c, q, x, f); err != nil {
		return nil, err
	}
	select {
	case a := <-answers:
		return a.res, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// note finds the note of an entry, or reads it, applies f to it, and lets x wait for what
// f has changed.
func (t *tallies) note(ctx context.Context, c *conv, q im.Seq, x *tallyChange, f noteChange) error {
	t.mem.mu.Lock()
	if c.notes == nil {
		c.notes = &notes{of: map[im.Seq]*noteState{}}
	}
	c.notes.loading++
	s := c.notes.of[q]
	known := s != nil && s.users[x.user] != nil
	t.mem.mu.Unlock()
	var read storedNote
	var err error
	if !known {
		read, err = readNote(ctx, t.store, c.key, q, x.user)
	}
	t.mem.mu.Lock()
	var durable *storepb.Note
	waits := false
	if err == nil {
		durable, waits, err = t.noteLocked(c, q, x, read, f)
	}
	c.notes.loading--
	if !waits {
		t.mem.growLocked(c, -noteBytes*c.notes.drop())
	}
	t.mem.mu.Unlock()
	switch {
	case err != nil:
		return err
	case waits:
		wake.Set(t.wake)
	default:
		x.done(durable, nil)
	}
	return nil
}

// noteLocked applies f. If waits is true, a commit answers x; else durable is the answer.
func (t *tallies) noteLocked(c *conv, q im.Seq, x *tallyChange, read storedNote, f noteChange) (durable *storepb.Note, waits bool, err error) {
	switch {
	case t.mem.sealed:
		return nil, false, ErrNotOwner
	case t.node.tallies.Load() >= maxTallies:
		return nil, false, &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	all := c.notes
	s := all.of[q]
	if s == nil { // nobody has changed it meanwhile: what was read is durable
		s = &noteState{seq: q, newest: read.note, stored: read.note, pin: read.pin, storedPin: read.pin, users: map[im.User]*userReactions{}}
		all.of[q] = s
		t.mem.growLocked(c, noteBytes)
	}
	u := s.users[x.user]
	if u == nil {
		u = &userReactions{user: x.user, newest: read.mine, stored: read.mine}
		s.users[x.user] = u
	}
	note, mine := s.newest, u.newest
	if err := f(s, u, cmp.Or(x.unseenBy, c.info.Load().blocker(x.user))); err != nil {
		return nil, false, err
	}
	if x.unchanged = s.newest == note; x.unchanged && s.newest == s.stored {
		x.mine = mine
		return note, false, nil
	}
	if !x.unchanged {
		s.newest.Head = uint64(c.point.Load().head)
		if !u.changed && !slices.Equal(u.newest, mine) {
			u.changed = true
			s.changed = append(s.changed, u)
		}
		if !s.dirty {
			s.dirty = true
			all.dirty = append(all.dirty, s)
		}
		if !all.queued {
			all.queued = true
			c.uses++ // until a commit has taken all of it
			t.due = append(t.due, c)
			t.queued.Add(1)
		}
	}
	t.waiting++
	t.node.tallies.Add(1)
	s.waiting = append(s.waiting, x)
	return nil, true, nil
}

// take appends the notes that are to be written. Only the committer calls it.
func (t *tallies) take(into []tallyWrite) []tallyWrite {
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
	done, size := 0, 0
	for _, c := range t.due {
		all := c.notes
		n := 0
		for n < len(all.dirty) && size < tallySize {
			w := all.dirty[n].takeLocked(c)
			size += 2 + len(w.users)
			into = append(into, w)
			c.uses++ // until the commit has ended
			n++
		}
		if all.dirty = append(all.dirty[:0], all.dirty[n:]...); len(all.dirty) > 0 {
			wake.Set(t.wake) // the next commit goes on here
			break
		}
		all.queued = false
		c.uses--
		t.queued.Add(-1)
		done++
	}
	t.due = slices.Delete(t.due, 0, done)
	return into
}

func (s *noteState) takeLocked(c *conv) tallyWrite {
	w := tallyWrite{c: c, s: s, note: s.newest, pin: s.pin, waiting: s.waiting}
	for _, u := range s.changed {
		w.users = append(w.users, userWrite{u, u.newest})
		u.changed = false
	}
	s.dirty, s.waiting, s.changed = false, nil, nil
	return w
}

// puts appends what a commit writes of w.
func (w *tallyWrite) puts(into []store.MarkPut) []store.MarkPut {
	q := w.s.seq
	into = append(into, store.MarkPut{Conv: w.c.key, Kind: store.MarkNote, Seq: q, Value: encodeMark(w.note)})
	for _, u := range w.users {
		p := store.MarkPut{Conv: w.c.key, Kind: store.MarkReactions, Seq: q, Name: string(u.of.user)}
		if len(u.emojis) > 0 {
			p.Value = encodeMark(&storepb.Reactions{Emojis: u.emojis})
		}
		into = append(into, p)
	}
	if w.pin != w.s.storedPin {
		p := store.MarkPut{Conv: w.c.key, Kind: store.MarkPin, Seq: q}
		if w.pin != nil {
			p.Value = encodeMark(w.pin)
		}
		into = append(into, p)
	}
	return into
}

// show makes the notes of a durable commit those that others see.
func (t *tallies) show(writes []tallyWrite) {
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
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
			x.mine = w.s.users[x.user].stored
		}
		t.teller.noteLocked(w.c, w.s.seq, w.note, w.users)
	}
	t.endLocked(writes)
}

// endLocked ends what a commit has held of the notes it wrote.
func (t *tallies) endLocked(writes []tallyWrite) {
	for i := range writes {
		w := &writes[i]
		w.c.uses--
		t.answeredLocked(len(w.waiting))
		if i+1 == len(writes) || writes[i+1].c != w.c {
			t.mem.growLocked(w.c, -noteBytes*w.c.notes.drop())
		}
	}
}

func (t *tallies) answeredLocked(n int) {
	t.waiting -= n
	t.node.tallies.Add(-int64(n))
}

// tell answers the changes of a durable commit, and tells others.
func (t *tallies) tell(writes []tallyWrite) {
	for i := range writes {
		w := &writes[i]
		for _, x := range w.waiting {
			x.done(w.note, nil)
		}
	}
	t.teller.tell()
}

// refuse answers changes of which nothing was written, and forgets them and all that came
// on top of them.
func (t *tallies) refuse(writes []tallyWrite, e *im.Error) {
	t.mem.mu.Lock()
	for i := range writes {
		w := &writes[i]
		s := w.s
		w.waiting = append(w.waiting, s.waiting...)
		s.newest, s.pin, s.waiting = s.stored, s.storedPin, nil // if dirty, the next commit writes what is stored
		for _, u := range s.users {
			u.newest = u.stored
		}
	}
	t.endLocked(writes)
	t.mem.mu.Unlock()
	refuseTallies(writes, e)
}

func refuseTallies(writes []tallyWrite, e *im.Error) {
	for i := range writes {
		for _, x := range writes[i].waiting {
			x.done(nil, e)
		}
	}
}

// abandonLocked takes the changes that wait, and those of a commit that is lost. The
// caller refuses them.
func (t *tallies) abandonLocked(writes []tallyWrite) []tallyWrite {
	all := slices.Clone(writes)
	for _, c := range t.mem.convs {
		if c.notes == nil {
			continue
		}
		for _, s := range c.notes.of {
			all = append(all, tallyWrite{waiting: s.waiting})
			s.waiting = nil
		}
	}
	for i := range all {
		t.answeredLocked(len(all[i].waiting))
	}
	return all
}

// TalliesWaiting is how many changes of notes have no answer yet.
func (t *tallies) TalliesWaiting() int {
	t.mem.mu.Lock()
	defer t.mem.mu.Unlock()
	return t.waiting
}
