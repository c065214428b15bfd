package conv

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// An outsider is a user who never was a member of a conversation. Questions and sends of an outsider get the
// same answer as for a conversation that does not exist, after the same work: one look into the store for the
// outsider's record, whether the conversation is in memory, is not, or does not exist. Without the look, the
// time of the answer would betray the conversation: a large group takes longer to load than one that does not
// exist. Spec: P-8.9.

// outsiders finds out which users are outsiders, and which may know of the conversations of one feed.
type outsiders struct {
	mem    *memory
	queues *queues
	store  store.Store

	// confirm asks the store whether this node still owns the feed, as in committer.
	confirm func() error
}

// isOutsider asks the store whether u never was a member of a conversation.
func (outs *outsiders) isOutsider(ctx context.Context, key im.Key, u im.User) (bool, error) {
	rec, err := outs.store.Member(ctx, key, u)
	return rec == nil, err
}

// knows tells whether u is or was a member of a conversation that is in memory. It is false for a
// conversation that is not there.
func (outs *outsiders) knows(key im.Key, u im.User) bool {
	c := outs.mem.find(key)
	return c != nil && c.known(u)
}

// wanted tells whether to load c. It refuses the queued sends of outsiders and drops their signals. It returns
// true when a reader uses c, when a queued send or signal is not that of an outsider, when the store cannot tell
// (err), or when it does not confirm that this node owns the feed. If nothing is left that waits, it removes c
// from memory.
func (outs *outsiders) wanted(c *conv) (bool, error) {
	for {
		outs.mem.mu.Lock()
		if c.uses > 0 || slices.ContainsFunc(c.queue, func(s *Send) bool { return !s.needsStanding() || s.ofMember }) {
			outs.mem.mu.Unlock()
			return true, nil
		}
		var u im.User
		switch {
		case len(c.queue) > 0:
			u = im.User(c.queue[0].Entry.From)
		case len(c.signals) > 0:
			u = im.User(c.signals[0].Signal.From)
		default:
			outs.mem.removeLocked(c)
			outs.mem.mu.Unlock()
			return false, nil
		}
		outs.mem.mu.Unlock()
		outsider, err := outs.isOutsider(context.Background(), c.key, u)
		if err != nil || !outsider || outs.confirm() != nil {
			return true, err
		}
		outs.mem.mu.Lock()
		var theirs []*Send
		theirs, c.queue = part(c.queue, u)
		for _, s := range theirs {
			c.queueBytes -= s.bytes
		}
		c.signals = slices.DeleteFunc(c.signals, func(s *Signal) bool { return im.User(s.Signal.From) == u })
		outs.mem.mu.Unlock()
		outs.queues.refuse(theirs, noConversation())
	}
}

// part divides a queue into the sends of u that require membership, and the rest.
func part(queue []*Send, u im.User) (theirs, rest []*Send) {
	for _, s := range queue {
		if im.User(s.Entry.From) == u && s.needsStanding() {
			theirs = append(theirs, s)
		} else {
			rest = append(rest, s)
		}
	}
	return theirs, rest
}
