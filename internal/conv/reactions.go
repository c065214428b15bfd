package conv

import (
	"context"
	"maps"
	"slices"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxReactionPage is the most users of one page of reactions. lookedAt is how many users
// are looked at for a page: those with another emoji are left out.
const (
	MaxReactionPage = 200
	lookedAt        = 1000
)

// Reactions lists the users after q.After who reacted to an entry, ascending by user, with
// q.Emoji only those with this one. Codes: no_conversation, not_member (was one), no_target.
// Spec: P-5.11.
func (r *reader) Reactions(ctx context.Context, by Query, q *convpb.ListReactions) (*petrelv1.ListReactionsResponse, error) {
	c, at, in, end, err := r.enterAsMember(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	target := im.Seq(q.Seq)
	if err := r.noteTarget(ctx, c, at, in, by.User, target, false); err != nil {
		return nil, err
	}
	found, next, err := r.reactionsAt(ctx, c, target, q.After)
	if err != nil {
		return nil, err
	}
	if err := r.dropWithheld(ctx, c, in, by.User, target, found); err != nil {
		return nil, err
	}
	limit := MaxReactionPage
	if 0 < q.Limit && q.Limit < MaxReactionPage {
		limit = int(q.Limit)
	}
	page := &petrelv1.ListReactionsResponse{More: next != "", Next: next}
	for _, u := range slices.Sorted(maps.Keys(found)) {
		emojis := found[u]
		if len(emojis) == 0 || q.Emoji != "" && !slices.Contains(emojis, q.Emoji) {
			continue
		}
		if len(page.Users) == limit {
			page.More, page.Next = true, page.Users[limit-1].User
			break
		}
		page.Users = append(page.Users, &petrelv1.UserReactions{User: string(u), Emojis: emojis})
	}
	return page, nil
}

// dropWithheld takes from what was found of the reactions at an entry those that are withheld
// from u. Spec: P-5.4.
func (r *reader) dropWithheld(ctx context.Context, c *conv, in *info, u im.User, q im.Seq, found map[im.User][]string) error {
	if len(in.record.Blocks) == 0 {
		return nil
	}
	n, err := readMark[storepb.Note](ctx, r.store, c.key, store.MarkNote, q, "")
	if err != nil {
		return err
	}
	notes := map[im.Seq]*storepb.Note{q: n}
	r.maskNotes(c, q, q, notes)
	for _, x := range notes[q].GetWithheld() {
		if by := im.User(x.User); by != u {
			found[by] = slices.DeleteFunc(slices.Clone(found[by]), func(e string) bool { return e == x.Emoji })
		}
	}
	return nil
}

// reactionsAt are those of some users after one, by user, as far as they are durable.
// next is the last of them; "": there are no others.
func (r *reader) reactionsAt(ctx context.Context, c *conv, q im.Seq, after string) (found map[im.User][]string, next string, err error) {
	found = map[im.User][]string{}
	var bad error
	err = r.store.Marks(ctx, c.key, store.MarkReactions, q, q, after, func(_ im.Seq, name string, v []byte) bool {
		if len(found) == lookedAt {
			for u := range found {
				next = max(next, string(u))
			}
			return false
		}
		x, err := decodeMark[storepb.Reactions](v)
		bad = err
		found[im.User(name)] = x.GetEmojis()
		return bad == nil
	})
	if err == nil {
		err = bad
	}
	r.fetch.mem.mu.Lock() // after the store, see maskNotes
	defer r.fetch.mem.mu.Unlock()
	if c.notes == nil || c.notes.of[q] == nil {
		return found, next, err
	}
	for u, x := range c.notes.of[q].users {
		if string(u) > after && (next == "" || string(u) <= next) {
			found[u] = x.stored
		}
	}
	return found, next, err
}

// Pins lists the pinned messages below q.Before that the user may read, descending by seq: at
// least one, and further ones as long as they fit into MaxPageBytes. Next is the last one of
// the page if there are others. Codes: no_conversation, not_member (was one). Spec: P-5.11.
func (r *reader) Pins(ctx context.Context, by Query, q *convpb.ListPins) (*petrelv1.ListPinsResponse, error) {
	c, at, in, end, err := r.enterAsMember(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	pins, err := r.pins(ctx, c, at.head)
	if err != nil {
		return nil, err
	}
	page, size := &petrelv1.ListPinsResponse{}, 0
	seqs := slices.Sorted(maps.Keys(pins))
	slices.Reverse(seqs)
	for _, seq := range seqs {
		if q.Before != 0 && uint64(seq) >= q.Before {
			continue
		}
		if only := im.User(pins[seq].Only); !in.mayRead(by.User, seq, at.head) || only != "" && by.User != "" && only != by.User {
			continue
		}
		m, err := r.readFor(ctx, c, in, by.User, seq)
		if err != nil {
			return nil, err
		}
		if m.Withheld {
			continue
		}
		if size += m.SizeVT(); size > MaxPageBytes && len(page.Pins) > 0 {
			page.Next = page.Pins[len(page.Pins)-1].Message.Seq
			break
		}
		page.Pins = append(page.Pins, &petrelv1.PinnedMessage{Message: m, By: pins[seq].User, TimeMs: pins[seq].TimeMs})
	}
	return page, nil
}
