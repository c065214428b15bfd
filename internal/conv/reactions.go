package conv

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// MaxReactionPage is the most users of one page of reactions. scanLimit is how many users are read for a page;
// those without the wanted emoji are left out.
const (
	MaxReactionPage = 200
	scanLimit       = 1000
)

// reactions decides who may change and list the reactions and pins of a feed.
type reactions struct {
	notes  *note.Notes
	reader *reader
	now    func() time.Time // wall clock
}

// React adds a reaction of a user to a message, or removes it, and returns when the change is durable. Codes:
// no_conversation, not_member, no_target, forbidden, frozen, invalid; unsettled: overloaded, disk_full,
// store_stalled. Spec: P-5.11.
func (re *reactions) React(ctx context.Context, by Query, q *convpb.React) (*petrelv1.NoteResponse, error) {
	if n := len(q.Emoji); n == 0 || n > note.MaxEmoji {
		return nil, im.Errorf(im.CodeInvalid, "an emoji has 1 to %d bytes", note.MaxEmoji)
	}
	return re.change(ctx, by, &note.Change{User: by.User, Seq: im.Seq(q.Seq), Emoji: q.Emoji, Removed: q.Removed})
}

// PinEntry pins a message for all members, or unpins it, and returns when that is durable.
// Codes: as those of React. Spec: P-5.11.
func (re *reactions) PinEntry(ctx context.Context, by Query, q *convpb.PinEntry) (*petrelv1.NoteResponse, error) {
	return re.change(ctx, by, &note.Change{User: by.User, Seq: im.Seq(q.Seq), Removed: q.Removed,
		TimeMs: uint64(re.now().UnixMilli())})
}

// change makes the change x, if its user may, and returns when it is durable.
func (re *reactions) change(ctx context.Context, by Query, x *note.Change) (*petrelv1.NoteResponse, error) {
	if err := Refusal(re.reader.store.Writable()); err != nil {
		return nil, err
	}
	c, at, in, end, err := re.reader.enter(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	if by.User == "" || in.members.Role(by.User) == 0 {
		return nil, &im.Error{Code: im.CodeNotMember}
	}
	if err = re.reader.noteTarget(ctx, c, at, in, by.User, x.Seq, x.Removed); err == nil && in.record.Frozen {
		err = &im.Error{Code: im.CodeFrozen} // P-8.12
	}
	if own, _ := in.sides(by.User); err == nil && own.GetFirst() > FirstOpen { // a note would show that they were read
		err = im.Errorf(im.CodeForbidden, "accept the messages before you react to one") // P-14.12
	}
	if err == nil && x.Emoji == "" {
		err = re.mayPin(ctx, c, at, in, x)
	}
	if err != nil {
		return nil, err
	}
	if x.UnseenBy, err = re.reader.withheldFrom(ctx, c, in, x.Seq, by.User); err != nil {
		return nil, err
	}
	res, err := re.notes.Change(ctx, c.key, c, x)
	if errors.Is(err, note.ErrEnded) {
		err = ErrNotOwner
	}
	return res, err
}

// NotesWaiting returns how many changes of notes have no answer yet.
func (re *reactions) NotesWaiting() int { return re.notes.Unanswered() }

// mayPin decides whether a user may pin or unpin a message. Codes: forbidden. Spec: P-5.11.
func (re *reactions) mayPin(ctx context.Context, c *conv, at point, in *info, x *note.Change) error {
	if !in.members.atLeast(x.User, policy.Of(c.key.Conv.Kind()).Pin) {
		return im.Errorf(im.CodeForbidden, "only admins and the owner of a group may pin")
	}
	if x.Removed {
		return nil
	}
	pins, err := re.notes.Pins(ctx, c.key, at.head)
	if err == nil && len(pins) >= note.MaxPins {
		err = im.Errorf(im.CodeForbidden, "a conversation has at most %d pinned messages", note.MaxPins)
	}
	return err
}

// Reactions lists the users who reacted to an entry, ascending by user, from the first one after q.After on; with
// q.Emoji only those who reacted with it. Reactions reads at most scanLimit users for a page, so a page may be
// short or empty although More is set. Codes: no_conversation, not_member (of a former member), no_target. Spec:
// P-5.11.
func (re *reactions) Reactions(ctx context.Context, by Query,
	q *convpb.ListReactions) (*petrelv1.ListReactionsResponse, error) {
	c, at, in, end, err := re.reader.enterAsMember(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	target := im.Seq(q.Seq)
	if err := re.reader.noteTarget(ctx, c, at, in, by.User, target, false); err != nil {
		return nil, err
	}
	found, next, err := re.notes.ReactionsTo(ctx, c.key, target, q.After, scanLimit)
	if err != nil {
		return nil, err
	}
	if err := re.dropWithheld(ctx, c, in, by.User, target, found); err != nil {
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

// dropWithheld removes the reactions to an entry that are withheld from u. Spec: P-5.4.
func (re *reactions) dropWithheld(ctx context.Context, c *conv, in *info, u im.User, q im.Seq,
	found map[im.User][]string) error {
	if !in.mayWithhold() {
		return nil
	}
	notes, err := re.notes.Between(ctx, c.key, q, q)
	if err != nil {
		return err
	}
	for _, x := range notes[q].GetWithheld() {
		if by := im.User(x.User); by != u {
			found[by] = slices.DeleteFunc(slices.Clone(found[by]), func(e string) bool { return e == x.Emoji })
		}
	}
	return nil
}

// Pins lists the pinned messages that the user may read and that are below q.Before (0: all), descending by seq.
// A page has one, and further ones as long as they fit into MaxPageBytes. Next is the last one of the page if
// there are others. Codes: no_conversation, not_member (of a former member). Spec: P-5.11.
func (re *reactions) Pins(ctx context.Context, by Query, q *convpb.ListPins) (*petrelv1.ListPinsResponse, error) {
	c, at, in, end, err := re.reader.enterAsMember(ctx, by)
	if err != nil {
		return nil, err
	}
	defer end()
	pins, err := re.notes.Pins(ctx, c.key, at.head)
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
		if only := im.User(pins[seq].Only); !in.mayRead(by.User, seq, at.head) ||
			only != "" && by.User != "" && only != by.User {
			continue
		}
		m, err := re.reader.readFor(ctx, c, in, by.User, seq)
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
