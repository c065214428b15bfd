package conv

import (
	"context"
	"maps"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// notesOf reads the durable notes of the rows of a page, which lie between from and to. A recalled
// row has no note. A former member gets no note that has changed since their last entry. Spec:
// P-5.11, P-8.3.
func (r *reader) notesOf(ctx context.Context, c *conv, in *info, u im.User, last, from, to im.Seq,
	rows [][]byte) ([]*petrelv1.Note, error) {
	found, err := r.notes.Between(ctx, c.key, from, to)
	if err != nil || len(found) == 0 {
		return nil, err
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

// notesFor returns the notes found of the entries seqs, as u sees them.
func (r *reader) notesFor(ctx context.Context, c *conv, u im.User, seqs []im.Seq,
	found map[im.Seq]*storepb.Note) ([]*petrelv1.Note, error) {
	list := make([]*petrelv1.Note, len(seqs))
	if u == "" {
		for i, q := range seqs {
			list[i] = note.ForAll(q, found[q])
		}
		return list, nil
	}
	var mine map[im.Seq][]string
	reacted := slices.DeleteFunc(slices.Clone(seqs), func(q im.Seq) bool { return len(found[q].Reactions) == 0 })
	if len(reacted) > 0 {
		var err error
		if mine, err = r.notes.ReactionsOf(ctx, c.key, u, reacted); err != nil {
			return nil, err
		}
	}
	for i, q := range seqs {
		list[i] = note.For(q, found[q], u, mine[q])
	}
	return list, nil
}

// noteTarget decides whether u may change or list the note of the entry q: it must be a message that u may
// read. If removed is set, a recalled message is allowed too: its note can only lose reactions and pins.
// Codes: no_target. Spec: P-5.11.
func (r *reader) noteTarget(ctx context.Context, c *conv, at point, in *info, u im.User, q im.Seq, removed bool) error {
	if !in.mayRead(u, q, at.head) {
		return noTarget(q)
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

// withheldFrom returns the user of a direct conversation who does not see the entry q, while u sees it; "":
// both see it.
func (r *reader) withheldFrom(ctx context.Context, c *conv, in *info, q im.Seq, u im.User) (im.User, error) {
	side := sideOf(in.record, u)
	if !in.mayWithhold() || side < 0 || len(in.record.Participants) < 2 {
		return "", nil
	}
	other := im.User(in.record.Participants[1-side])
	m, err := r.readMessage(ctx, c, in.viewer(other), q)
	if err != nil || !m.Withheld {
		return "", err
	}
	return other, nil
}
