package note

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// All reads here read the store first, and then the memory. If the store has a note that is not durable yet,
// the memory has its durable version. A note that is not in memory is durable.

// Between returns the durable notes of the entries with the seqs from to to, both included. Changes that are
// not durable yet do not show.
func (n *Notes) Between(ctx context.Context, key im.Key, from, to im.Seq) (map[im.Seq]*storepb.Note, error) {
	found, err := readMarks[storepb.Note](ctx, n.store, key, store.MarkNote, from, to)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for q, s := range n.statesLocked(key) {
		switch {
		case q < from || q > to:
		case s.stored == nil:
			delete(found, q)
		default:
			found[q] = s.stored
		}
	}
	return found, nil
}

// statesLocked returns those notes of a conversation that have changes under way.
func (n *Notes) statesLocked(key im.Key) map[im.Seq]*state {
	if c := n.convs[key]; c != nil {
		return c.states
	}
	return nil
}

// ReactionsOf returns the durable reactions of u to some entries.
func (n *Notes) ReactionsOf(ctx context.Context, key im.Key, u im.User, seqs []im.Seq) (map[im.Seq][]string, error) {
	of, err := n.store.MarksOf(ctx, key, store.MarkReactions, string(u), seqs)
	if err != nil {
		return nil, err
	}
	found := map[im.Seq][]string{}
	for i, v := range of {
		if v == nil {
			continue
		}
		x, err := DecodeMark[storepb.Reactions](v)
		if err != nil {
			return nil, err
		}
		found[seqs[i]] = x.Emojis
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	states := n.statesLocked(key)
	for _, q := range seqs {
		if s := states[q]; s != nil && s.users[u] != nil {
			found[q] = s.users[u].stored
		}
	}
	return found, nil
}

// ReactionsTo returns the durable reactions to the entry q, by user: those of at most limit users who come
// after the user after. next is the last of these users; "": no others follow.
func (n *Notes) ReactionsTo(ctx context.Context, key im.Key, q im.Seq, after string,
	limit int) (found map[im.User][]string, next string, err error) {
	found = map[im.User][]string{}
	var bad error
	err = n.store.Marks(ctx, key, store.MarkReactions, q, q, after, func(_ im.Seq, name string, v []byte) bool {
		if len(found) == limit {
			for u := range found {
				next = max(next, string(u))
			}
			return false
		}
		x, err := DecodeMark[storepb.Reactions](v)
		bad = err
		found[im.User(name)] = x.GetEmojis()
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.statesLocked(key)[q]; s != nil {
		for u, x := range s.users {
			if string(u) > after && (next == "" || string(u) <= next) {
				found[u] = x.stored
			}
		}
	}
	return found, next, err
}

// Pins returns the durable pins of a conversation up to its head, by entry.
func (n *Notes) Pins(ctx context.Context, key im.Key, head im.Seq) (map[im.Seq]*storepb.Pinned, error) {
	pins, err := readMarks[storepb.Pinned](ctx, n.store, key, store.MarkPin, 1, head)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for q, s := range n.statesLocked(key) {
		if delete(pins, q); s.storedPin != nil {
			pins[q] = s.storedPin
		}
	}
	return pins, nil
}
