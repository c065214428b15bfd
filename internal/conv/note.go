package conv

import (
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Limits of reactions. Spec: P-5.11.
const (
	MaxReactions     = 20  // different emojis at one message
	MaxUserReactions = 3   // of one user to one message
	MaxPins          = 100 // of one conversation, about: pins at the same moment do not see each other
	maxEmoji         = 32  // bytes
)

// A note, and the reactions of one user, never change: a change makes new ones. So
// readers keep what they were given. nil: there is none.

// react is what a note and the reactions of a user become when the user adds a reaction
// or takes it away. The same two come back if that is so already. Codes: forbidden.
// Spec: P-5.11.
func react(n *storepb.Note, mine []string, emoji string, removed bool) (*storepb.Note, []string, error) {
	at := slices.Index(mine, emoji)
	if removed == (at < 0) {
		return n, mine, nil
	}
	next := changed(n)
	i := slices.IndexFunc(next.Reactions, func(x *storepb.ReactionCount) bool { return x.Emoji == emoji })
	switch {
	case removed && i < 0: // a repair has lost it
	case removed && next.Reactions[i].Count > 1:
		next.Reactions[i] = &storepb.ReactionCount{Emoji: emoji, Count: next.Reactions[i].Count - 1}
	case removed:
		next.Reactions = slices.Delete(next.Reactions, i, i+1)
	case len(mine) >= MaxUserReactions:
		return n, mine, im.Errorf(im.CodeForbidden, "a user has at most %d reactions to one message", MaxUserReactions)
	case i >= 0:
		next.Reactions[i] = &storepb.ReactionCount{Emoji: emoji, Count: next.Reactions[i].Count + 1}
	case len(next.Reactions) >= MaxReactions:
		return n, mine, im.Errorf(im.CodeForbidden, "a message has at most %d different reactions", MaxReactions)
	default:
		next.Reactions = append(next.Reactions, &storepb.ReactionCount{Emoji: emoji, Count: 1})
	}
	if removed {
		return next, slices.Delete(slices.Clone(mine), at, at+1), nil
	}
	return next, append(slices.Clone(mine), emoji), nil
}

// pin is what a note becomes when its entry is pinned or not.
func pin(n *storepb.Note, pinned bool) *storepb.Note {
	if n.GetPinned() == pinned {
		return n
	}
	next := changed(n)
	next.Pinned = pinned
	return next
}

// changed is the next version of a note. Its counts are still those of n.
func changed(n *storepb.Note) *storepb.Note {
	return &storepb.Note{Version: n.GetVersion() + 1, Reactions: slices.Clone(n.GetReactions()), Pinned: n.GetPinned()}
}

// noteFor is a note as the user sees it whose reactions are mine.
func noteFor(q im.Seq, n *storepb.Note, mine []string) *petrelv1.Note {
	w := noteForAll(q, n)
	w.ForAll = false
	for _, x := range w.Reactions {
		x.Mine = slices.Contains(mine, x.Emoji)
	}
	return w
}

// noteForAll is a note as it is told to many.
func noteForAll(q im.Seq, n *storepb.Note) *petrelv1.Note {
	w := &petrelv1.Note{Seq: uint64(q), Version: n.GetVersion(), Pinned: n.GetPinned(), ForAll: true}
	for _, x := range n.GetReactions() {
		w.Reactions = append(w.Reactions, &petrelv1.ReactionCount{Emoji: x.Emoji, Count: x.Count})
	}
	return w
}
