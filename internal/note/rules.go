package note

import (
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Limits of reactions and pins. Spec: P-5.11.
const (
	MaxReactions     = 20  // different emojis at one message
	MaxUserReactions = 3   // of one user to one message
	MaxPins          = 100 // of one conversation, about: pins at the same moment do not see each other
	MaxEmoji         = 32  // bytes
)

// react returns the note and the reactions of a user after the user has added or removed a reaction. If
// nothing changes, it returns n and mine. Codes: forbidden. Spec: P-5.11.
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

// withholdReaction notes in n, the new version of a note, whether the changed reaction of u is withheld. Spec:
// P-5.4.
func withholdReaction(n *storepb.Note, u im.User, emoji string, withheld bool) {
	n.Withheld = slices.DeleteFunc(n.Withheld, func(x *storepb.WithheldReaction) bool {
		return x.User == string(u) &&
			x.Emoji == emoji
	})
	if withheld {
		n.Withheld = append(n.Withheld, &storepb.WithheldReaction{User: string(u), Emoji: emoji})
	}
}

// pin returns the note and its pin after u has pinned or unpinned the entry. If nothing changes, it returns n
// and p. With a blocker, the change is withheld from that user, and only u sees it. Spec: P-5.4, P-5.11.
func pin(n *storepb.Note, p *storepb.Pinned, u, blocker im.User, pinned bool,
	nowMs uint64) (*storepb.Note, *storepb.Pinned) {
	if seenBy(n, u).GetPinned() == pinned {
		return n, p
	}
	next := changed(n)
	only := ""
	switch {
	case pinned && !n.GetPinned():
		if blocker != "" {
			only = string(u)
		}
		p = &storepb.Pinned{User: string(u), TimeMs: nowMs, Only: only}
	case pinned && blocker == "": // the other user sees it pinned already
		p = &storepb.Pinned{User: string(u), TimeMs: nowMs}
	case pinned:
		p = &storepb.Pinned{User: p.GetUser(), TimeMs: p.GetTimeMs()}
	case blocker != "" && n.PinnedFor == "":
		only = string(blocker)
		p = &storepb.Pinned{User: p.GetUser(), TimeMs: p.GetTimeMs(), Only: only}
	default:
		p = nil
	}
	next.Pinned, next.PinnedFor = p != nil, only
	return next, p
}

// changed returns a copy of n as its next version.
func changed(n *storepb.Note) *storepb.Note {
	return &storepb.Note{
		Version: n.GetVersion() + 1, Reactions: slices.Clone(n.GetReactions()), Pinned: n.GetPinned(),
		Withheld: slices.Clone(n.GetWithheld()), PinnedFor: n.GetPinnedFor(),
	}
}

// withholds tells whether some users see another form of a note.
func withholds(n *storepb.Note) bool { return len(n.GetWithheld()) > 0 || n.GetPinnedFor() != "" }

// seenBy returns a note as u may see it, without withheld reactions and pins; "" is the operator,
// who sees all. For nearly all notes it returns n itself.
func seenBy(n *storepb.Note, u im.User) *storepb.Note {
	if u == "" || !withholds(n) {
		return n
	}
	seen := changed(n)
	seen.Version, seen.Head = n.Version, n.Head
	seen.Pinned = n.Pinned && (n.PinnedFor == "" || n.PinnedFor == string(u))
	for _, x := range n.Withheld {
		i := slices.IndexFunc(seen.Reactions, func(r *storepb.ReactionCount) bool { return r.Emoji == x.Emoji })
		if x.User == string(u) || i < 0 {
			continue
		}
		if r := seen.Reactions[i]; r.Count > 1 {
			seen.Reactions[i] = &storepb.ReactionCount{Emoji: r.Emoji, Count: r.Count - 1}
		} else {
			seen.Reactions = slices.Delete(seen.Reactions, i, i+1)
		}
	}
	return seen
}

// For returns the note of the entry q as u sees it; mine are the reactions of u.
func For(q im.Seq, n *storepb.Note, u im.User, mine []string) *petrelv1.Note {
	w := ForAll(q, seenBy(n, u))
	w.ForAll = false
	for _, x := range w.Reactions {
		x.Mine = slices.Contains(mine, x.Emoji)
	}
	return w
}

// ForAll returns the note of the entry q without the parts for one reader.
func ForAll(q im.Seq, n *storepb.Note) *petrelv1.Note {
	w := &petrelv1.Note{Seq: uint64(q), Version: n.GetVersion(), Pinned: n.GetPinned(), ForAll: true}
	for _, x := range n.GetReactions() {
		w.Reactions = append(w.Reactions, &petrelv1.ReactionCount{Emoji: x.Emoji, Count: x.Count})
	}
	return w
}
