package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// storedNote is what the store shows of an entry's note, durable or not.
type storedNote struct {
	note *storepb.Note
	pin  *storepb.Pinned
	mine []string // the reactions of one user
}

// readNote reads the note of an entry, with the reactions of a user.
func readNote(ctx context.Context, st store.Store, key im.Key, q im.Seq, u im.User) (n storedNote, err error) {
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
func readMark[T any, M mark[T]](ctx context.Context, st store.Store, key im.Key, k store.MarkKind, q im.Seq, name string) (M, error) {
	of, err := st.MarksOf(ctx, key, k, name, []im.Seq{q})
	if err != nil || of[0] == nil {
		return nil, err
	}
	return decodeMark[T, M](of[0])
}

// mark is what a mark can be.
type mark[T any] interface {
	*T
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// decodeMark reads the value of a mark. Errors: ErrCorrupt.
func decodeMark[T any, M mark[T]](v []byte) (M, error) {
	m := M(new(T))
	if err := m.UnmarshalVT(v); err != nil {
		return nil, fmt.Errorf("read a mark: %w: %w", store.ErrCorrupt, err)
	}
	return m, nil
}

func encodeMark[T any, M mark[T]](m M) []byte {
	b, err := m.MarshalVT()
	im.Assert(err == nil, "encode a mark: %v", err)
	return b
}
