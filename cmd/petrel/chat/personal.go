package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

// forEver is until when a conversation is muted without an end.
const forEver = 100 * 365 * 24 * time.Hour

// ordered are conversations as the person has ordered them: pinned ones first, those that
// are put away last.
func ordered(list []conversation) []conversation {
	rank := func(c *conversation) uint64 {
		switch {
		case c.set.Pinned > 0:
			return c.set.Pinned
		case c.set.Archived:
			return 1<<64 - 1
		}
		return 1<<64 - 2
	}
	slices.SortStableFunc(list, func(a, b conversation) int { return cmp.Compare(rank(&a), rank(&b)) })
	return list
}

// hidden tells whether a conversation is not listed: the person blocks the other one, and
// there is nothing that they may read. Spec: P-5.4.
func hidden(v *petrel.Conversation) bool { return v.Personal.Blocked && v.Last == nil }

// muted tells whether a conversation disturbs nobody now.
func (c *conversation) muted(now time.Time) bool { return c.set.MutedUntil.After(now) }

// setWords are in a few words what the person has set of a conversation.
func (c *conversation) setWords(now time.Time) string {
	var words []string
	for _, w := range []struct {
		on   bool
		says string
	}{{c.set.Blocked, "blocked"}, {c.muted(now), "muted"}, {c.set.Pinned > 0, "pinned"}, {c.set.Archived, "archived"}} {
		if w.on {
			words = append(words, w.says)
		}
	}
	return strings.Join(words, ", ")
}

// set carries out an order that sets something of a conversation or a user; ok is false
// for another order.
func (t *talk) set(id string, o order) (run func(ctx context.Context) (string, error), ok bool) {
	v, known := t.c.Conversation(id)
	conv := func(said string, f func(ctx context.Context) error) func(ctx context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			if !known {
				return "", fmt.Errorf("nothing has been written here yet")
			}
			return said, f(ctx)
		}
	}
	on := o.text != "off"
	switch o.verb {
	case "/mute":
		until, said := time.Time{}, "not muted any more"
		if on {
			until, said = time.Now().Add(forEver), "muted"
			if o.wait > 0 {
				until = time.Now().Add(o.wait)
				said = "muted until " + until.Format("2 Jan 15:04")
			}
		}
		return conv(said, func(ctx context.Context) error { return t.c.Mute(ctx, id, until) }), true
	case "/top":
		at, said := uint64(0), "not pinned any more"
		if on {
			at, said = 1, "pinned"
			for _, x := range t.c.Conversations() { // after the others
				at = max(at, x.Personal.Pinned+1)
			}
		}
		return conv(said, func(ctx context.Context) error { return t.c.PinConversation(ctx, id, at) }), true
	case "/archive":
		said := "archived"
		if !on {
			said = "not archived any more"
		}
		return conv(said, func(ctx context.Context) error { return t.c.Archive(ctx, id, on) }), true
	case "/unread":
		return conv("marked as unread", func(ctx context.Context) error { return t.c.MarkUnread(ctx, id, true) }), true
	case "/clear":
		return conv("cleared for you", func(ctx context.Context) error { return t.c.Clear(ctx, id, v.Head) }), true
	case "/block", "/unblock":
		user := v.Peer
		if len(o.users) > 0 {
			user = o.users[0]
		} else if peer, ok := strings.CutPrefix(id, toUser); ok {
			user = peer
		}
		said := user + " is blocked"
		if o.verb == "/unblock" {
			said = user + " is not blocked any more"
		}
		return func(ctx context.Context) (string, error) {
			if user == "" {
				return "", fmt.Errorf("write %s USER", o.verb)
			}
			return said, t.c.Block(ctx, user, o.verb == "/block")
		}, true
	}
	return nil, false
}

// parseSet reads what stands after the verb of an order that set carries out; ok is false
// for another verb.
func (o *order) parseSet(rest string) (ok bool, wrong bool) {
	switch o.verb {
	case "/mute":
		if rest == "" || rest == "off" {
			o.text = rest
			return true, false
		}
		var err error
		if days, isDays := strings.CutSuffix(rest, "d"); isDays {
			var n int
			n, err = strconv.Atoi(days)
			o.wait = time.Duration(n) * 24 * time.Hour
		} else {
			o.wait, err = time.ParseDuration(rest)
		}
		return true, err != nil || o.wait <= 0 || o.wait > forEver
	case "/top", "/archive":
		o.text = rest
		return true, rest != "" && rest != "off"
	case "/block", "/unblock":
		o.users = names(strings.Fields(rest))
		return true, len(o.users) > 1
	}
	return false, false
}

// opened ends the mark that a conversation is unread, when the person opens it; nil: there
// is none.
func (t *talk) opened(c *conversation) func(ctx context.Context) error {
	if c == nil || !c.set.Unread {
		return nil
	}
	id := c.id
	return func(ctx context.Context) error { return t.c.MarkUnread(ctx, id, false) }
}
