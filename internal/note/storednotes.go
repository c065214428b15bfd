package note

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// stored is an entry's note in the store, durable or not.
type stored struct {
	note *storepb.Note
	pin  *storepb.Pinned
	mine []string // the reactions of one user
}

// readNote reads the note of an entry, with the reactions of a user.
func readNote(ctx context.Context, st store.Store, key im.Key, q im.Seq, u im.User) (n stored, err error) {
	if n.note, err = readMark[storepb.Note](ctx, st, key, store.MarkNote, q, ""); err != nil || n.note == nil {
		return n, err
	}
	if n.note.Pinned {
		if n.pin, err = readMark[storepb.Pinned](ctx, st, key, store.MarkPin, q, ""); err != nil {
			return n, err
		}
	}
	r, err := readMark[storepb.Reactions](ctx, st, key, store.MarkReactions, q, string(u))
	n.mine = r.GetEmojis()
	return n, err
}

// readMark reads one mark; nil: there is none.
func readMark[T any, M mark[T]](ctx context.Context, st store.Store, key im.Key, k store.MarkKind, q im.Seq,
	name string) (M, error) {
	of, err := st.MarksOf(ctx, key, k, name, []im.Seq{q})
	if err != nil || of[0] == nil {
		return nil, err
	}
	return DecodeMark[T, M](of[0])
}

// readMarks reads the marks without a name of some entries.
func readMarks[T any, M mark[T]](ctx context.Context, st store.Store, key im.Key, k store.MarkKind, from,
	to im.Seq) (map[im.Seq]M, error) {
	found := map[im.Seq]M{}
	var bad error
	err := st.Marks(ctx, key, k, from, to, "", func(q im.Seq, _ string, v []byte) bool {
		found[q], bad = DecodeMark[T, M](v)
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	return found, err
}

// mark is the constraint of the types of marks.
type mark[T any] interface {
	*T
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// DecodeMark reads the value of a mark. Errors: ErrCorrupt.
func DecodeMark[T any, M mark[T]](v []byte) (M, error) {
	m := M(new(T))
	if err := m.UnmarshalVT(v); err != nil {
		return nil, fmt.Errorf("read a mark: %w: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

// EncodeMark encodes m as the value of a mark.
func EncodeMark[T any, M mark[T]](m M) []byte {
	b, err := m.MarshalVT()
	im.Assert(err == nil, "encode a mark: %v", err)
	return b
}
