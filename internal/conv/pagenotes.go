package conv

import (
	"context"
	"maps"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// notes reads what members have made of the rows of a page, which lie between from and
// to, as far as it is durable. A recalled row has no note. A former member gets none that
// has changed since their last entry. Spec: P-5.11, P-8.3.
func (r *reader) notes(ctx context.Context, c *conv, in *info, u im.User, last, from, to im.Seq, rows [][]byte) ([]*petrelv1.Note, error) {
	found := map[im.Seq]*storepb.Note{}
	var bad error
	err := r.store.Marks(ctx, c.key, store.MarkNote, from, to, "", func(q im.Seq, _ string, v []byte) bool {
		found[q], bad = decodeMark[storepb.Note](v)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	r.maskNotes(c, from, to, found)
	if len(found) == 0 {
		return nil, nil
	}
	if u != "" && in.members.Role(u) == 0 {
		maps.DeleteFunc(found, func(_ im.Seq, n *storepb.Note) bool { return im.Seq(n.Head) >= last })
	}
	seqs := make([]im.Seq, 0, len(found))
	for _, row := range rows {
		var m petrelv1.Message
		if err := wire.ParseMessage(row, &m); err != nil {
			return nil, err
		}
		if found[im.Seq(m.Seq)] != nil && m.RecalledBy == 0 && !m.Withheld {
			seqs = append(seqs, im.Seq(m.Seq))
		}
	}
	return r.notesFor(ctx, c, u, seqs, found)
}

// maskNotes puts the durable notes in the place of those that the store shows before they
// are. The memory is looked at after the store was read: a note that is not there any more
// is durable.
func (r *reader) maskNotes(c *conv, from, to im.Seq, found map[im.Seq]*storepb.Note) {
	r.fetch.mem.mu.Lock()
	defer r.fetch.mem.mu.Unlock()
	if c.notes == nil {
		return
	}
	for q, s := range c.notes.of {
		switch {
		case q < from || q > to:
		case s.stored == nil:
			delete(found, q)
		default:
			found[q] = s.stored
		}
	}
}

// notesFor is notes as u sees them.
func (r *reader) notesFor(ctx context.Context, c *conv, u im.User, seqs []im.Seq, found map[im.Seq]*storepb.Note) ([]*petrelv1.Note, error) {
	list := make([]*petrelv1.Note, len(seqs))
	if u == "" {
		for i, q := range seqs {
			list[i] = noteForAll(q, found[q])
		}
		return list, nil
	}
	mine := map[im.Seq][]string{}
	reacted := slices.DeleteFunc(slices.Clone(seqs), func(q im.Seq) bool { return len(found[q].Reactions) == 0 })
	if len(reacted) > 0 {
		of, err := r.store.MarksOf(ctx, c.key, store.MarkReactions, string(u), reacted)
		if err != nil {
			return nil, err
		}
		for i, v := range of {
			if v == nil {
				continue
			}
			x, err := decodeMark[storepb.Reactions](v)
			if err != nil {
				return nil, err
			}
			mine[reacted[i]] = x.Emojis
		}
		r.maskReactions(c, u, reacted, mine)
	}
	for i, q := range seqs {
		list[i] = noteFor(q, found[q], u, mine[q])
	}
	return list, nil
}

// maskReactions is maskNotes for the reactions of a user.
func (r *reader) maskReactions(c *conv, u im.User, seqs []im.Seq, mine map[im.Seq][]string) {
	r.fetch.mem.mu.Lock()
	defer r.fetch.mem.mu.Unlock()
	for _, q := range seqs {
		if durable, known := c.notes.durableOf(q, u); known {
			mine[q] = durable
		}
	}
}

// pins are the pinned entries of a conversation up to its head, as far as they are durable.
func (r *reader) pins(ctx context.Context, c *conv, head im.Seq) (map[im.Seq]*storepb.Pinned, error) {
	pins := map[im.Seq]*storepb.Pinned{}
	var bad error
	err := r.store.Marks(ctx, c.key, store.MarkPin, 1, head, "", func(q im.Seq, _ string, v []byte) bool {
		pins[q], bad = decodeMark[storepb.Pinned](v)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	r.fetch.mem.mu.Lock() // after the store, see maskNotes
	defer r.fetch.mem.mu.Unlock()
	if c.notes == nil {
		return pins, nil
	}
	for q, s := range c.notes.of {
		if delete(pins, q); s.storedPin != nil {
			pins[q] = s.storedPin
		}
	}
	return pins, nil
}

// noteTarget decides whether u may change the note of the entry q: a message that they may
// read. What was recalled can only lose what it has. Codes: no_target. Spec: P-5.11.
func (r *reader) noteTarget(ctx context.Context, c *conv, at point, in *info, u im.User, q im.Seq, removed bool) error {
	if !in.mayRead(u, q, at.head) {
		return noTarget(q)
	}
	if in.record.Frozen && u != "" { // P-8.12
		return &im.Error{Code: im.CodeFrozen}
	}
	m, err := r.readMessage(ctx, c, in.viewer(u), q)
	if err != nil {
		return err
	}
	switch m.GetBody().(type) {
	case *petrelv1.Message_Text, *petrelv1.Message_Data:
		return nil
	}
	if m.GetRecalledBy() != 0 && removed {
		return nil
	}
	return noTarget(q)
}

// withheldFrom is who does not see the entry q of u in a direct conversation; "": both do.
func (r *reader) withheldFrom(ctx context.Context, c *conv, in *info, q im.Seq, u im.User) (im.User, error) {
	side := sideOf(in.record, u)
	if len(in.record.GetBlocks()) == 0 || side < 0 || len(in.record.Participants) < 2 {
		return "", nil
	}
	other := im.User(in.record.Participants[1-side])
	m, err := r.readMessage(ctx, c, in.viewer(other), q)
	if err != nil || !m.Withheld {
		return "", err
	}
	return other, nil
}
