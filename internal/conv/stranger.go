package conv

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
)

// A stranger is a user who never was a member of a conversation. What a stranger asks
// of it and sends to it gets the answer of a conversation that does not exist, after
// the same work: one look into the store for the stranger's record. It is the same
// whether the conversation is in memory, is not, or does not exist. Without the look, a
// stranger would learn by the time of the answer what the answer does not say: to load a
// large group takes longer than to find that there is none. Spec: P-8.9.

// noConversation is the one answer about a conversation that does not exist, and about
// one that the caller may not know of.
func noConversation() *im.Error { return &im.Error{Code: im.CodeNoConversation} }

// stranger asks the store whether u never was a member of a conversation.
func (m *memory) stranger(ctx context.Context, key im.Key, u im.User) (bool, error) {
	rec, err := m.store.Member(ctx, key, u)
	return rec == nil, err
}

// knows tells whether u is or was a member of a conversation that is in memory. A
// conversation that is not there says no.
func (m *memory) knows(key im.Key, u im.User) bool {
	m.mu.Lock()
	c := m.convs[key]
	loaded := c != nil && c.state != loading
	m.mu.Unlock()
	return loaded && c.known(u)
}

// known tells whether u is or was a member, by what is published.
func (c *conv) known(u im.User) bool {
	_, known := c.info.Load().members.standing(u)
	return known
}

// enter is open for the user who asks. To somebody who never was a member it says the
// same as of a conversation that does not exist, after the same work: one look for the
// user's record. Codes: no_conversation. Spec: P-8.9.
func (r *reader) enter(ctx context.Context, by Query) (c *conv, at point, in *info, end func(), err error) {
	if by.User != "" && !r.mem.knows(by.Conv, by.User) {
		stranger, err := r.mem.stranger(ctx, by.Conv, by.User)
		if err == nil && stranger {
			err = noConversation()
		}
		if err != nil {
			return nil, point{}, nil, nil, err
		}
	}
	if c, at, in, end, err = r.open(ctx, by.Conv); err != nil {
		return nil, point{}, nil, nil, err
	}
	if _, known := in.members.standing(by.User); by.User != "" && !known { // not published yet
		end()
		return nil, point{}, nil, nil, noConversation()
	}
	return c, at, in, end, nil
}

// needsStanding tells whether only who is or was a member learns anything by s. A send
// to a user, and one that makes a group, name the conversation by what its sender knows.
func (s *Send) needsStanding() bool { return s.Entry.From != "" && s.Peer == "" && s.Create == nil }

// admitted tells whether anybody waits for c, which is not loaded yet, who may know of
// it. If not, c has left memory, and the strangers among the senders have their answers.
func (m *memory) admitted(c *conv) (bool, error) {
	for {
		m.mu.Lock()
		if c.uses > 0 || slices.ContainsFunc(c.queue, func(s *Send) bool { return !s.needsStanding() }) {
			m.mu.Unlock()
			return true, nil
		}
		if len(c.queue) == 0 {
			m.removeLocked(c)
			m.mu.Unlock()
			return false, nil
		}
		u := im.User(c.queue[0].Entry.From)
		m.mu.Unlock()
		stranger, err := m.stranger(context.Background(), c.key, u)
		if err != nil || !stranger || m.confirm() != nil {
			return true, err
		}
		m.mu.Lock()
		var theirs []*Send
		theirs, c.queue = part(c.queue, u)
		for _, s := range theirs {
			c.queueBytes -= s.bytes
		}
		m.mu.Unlock()
		m.refuse(theirs, noConversation())
	}
}

// part takes the sends of u out of a queue.
func part(queue []*Send, u im.User) (theirs, rest []*Send) {
	for _, s := range queue {
		if im.User(s.Entry.From) == u {
			theirs = append(theirs, s)
		} else {
			rest = append(rest, s)
		}
	}
	return theirs, rest
}

// examination is the sends to a conversation in memory whose senders seem to be
// strangers. A loader looks whether they are.
type examination struct {
	sends []*Send
	bytes int
}

// mustExamineLocked tells whether s waits for an examination: its sender is not known
// as a member, or has earlier sends there, which s must not pass.
func (c *conv) mustExamineLocked(s *Send) bool {
	if !s.needsStanding() || c.state == loading {
		return false
	}
	return !c.known(im.User(s.Entry.From)) ||
		c.examined != nil && slices.ContainsFunc(c.examined.sends, func(x *Send) bool { return x.Entry.From == s.Entry.From })
}

// examineLocked has a loader examine s. It reports false when a bound is reached. The
// bound is not that of the queue: strangers must not fill the queue of the members.
func (in *intake) examineLocked(c *conv, s *Send) bool {
	m := in.mem
	if c.examined != nil && c.examined.bytes+s.bytes > m.o.QueueBytes || !m.node.reserve(s.bytes, m.o.InFlightBytes) {
		return false
	}
	if c.examined == nil {
		c.examined = &examination{}
		m.node.loaders.add(func() { in.examine(c) })
	}
	in.waiting++
	c.examined.sends = append(c.examined.sends, s)
	c.examined.bytes += s.bytes
	return true
}

// examine answers the strangers among the senders. The sends of the others go into the
// queue: the store knows of a member who is not published yet, or another node owns the
// feed by now, and the committer finds that out.
func (in *intake) examine(c *conv) {
	m := in.mem
	for {
		m.mu.Lock()
		if len(c.examined.sends) == 0 {
			c.examined = nil
			m.mu.Unlock()
			return
		}
		u := im.User(c.examined.sends[0].Entry.From)
		m.mu.Unlock()
		stranger, err := m.stranger(context.Background(), c.key, u)
		final := err != nil || stranger && m.confirm() == nil
		m.mu.Lock()
		var theirs []*Send
		theirs, c.examined.sends = part(c.examined.sends, u)
		for _, s := range theirs {
			c.examined.bytes -= s.bytes
			if !final {
				c.queueBytes += s.bytes
				c.queue = append(c.queue, s)
			}
		}
		in.activateLocked(c)
		m.mu.Unlock()
		switch {
		case err != nil:
			in.refuse(theirs, unread(err))
		case final:
			in.refuse(theirs, noConversation())
		default:
			in.signal()
		}
	}
}
