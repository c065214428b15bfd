package conv

import (
	"context"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
)

// examiner asks the store whether a sender who is not known as a member of a conversation is an outsider. It
// does so whether or not the conversation is in memory, so a send of an outsider takes the same work if the
// conversation does not exist.
type examiner struct {
	outsiders *outsiders
	fetch     *fetcher
	queues    *queues
	node      *node
}

// mustExamineLocked tells whether s must wait for a membership check: its sender is not known as a member, or has
// earlier sends in the check. s must not overtake these (they name the conversation by its id, and s by its other
// user). While the conversation is being loaded, its loader checks the senders (outsiders.wanted). c is the
// conversation in memory; nil: it is not there.
func (ex *examiner) mustExamineLocked(c *conv, s *Send) bool {
	if len(ex.queues.underExamination) > 0 {
		if x := ex.queues.underExamination[s.Conv]; x != nil && x.has(s.Entry.From) {
			return true
		}
	}
	if !s.needsStanding() {
		return false
	}
	return c == nil || c.state != loading && !c.known(im.User(s.Entry.From))
}

// has tells whether sends of a user are among those of x.
func (x *examination) has(user string) bool {
	return slices.ContainsFunc(x.sends, func(s *Send) bool { return s.Entry.From == user })
}

// takeSendsOf takes the sends of a user out of x. It returns them, and the rest.
func (x *examination) takeSendsOf(u im.User) (theirs, rest []*Send) {
	for _, s := range x.sends {
		if im.User(s.Entry.From) != u {
			rest = append(rest, s)
			continue
		}
		theirs = append(theirs, s)
		x.bytes -= s.bytes
	}
	return theirs, rest
}

// examineLocked has a loader check the membership of the sender of s. It reports false when a bound is reached.
// These sends have a bound of their own, as high as that of a queue: outsiders must not fill the queue of the
// members.
func (ex *examiner) examineLocked(s *Send) bool {
	qs := ex.queues
	x := qs.underExamination[s.Conv]
	if x != nil && x.bytes+s.bytes > qs.queueBytes || !ex.node.reserve(s.bytes) {
		return false
	}
	if x == nil {
		x = &examination{}
		qs.underExamination[s.Conv] = x
		key := s.Conv
		ex.node.loaders.add(func() { ex.examine(key, x) })
	}
	qs.waiting++
	x.sends = append(x.sends, s)
	x.bytes += s.bytes
	return true
}

// examine refuses the sends of outsiders, and sends whose sender the store could not look up. It queues all other
// sends: the entry that made the sender a member may not be published yet, or the conversation has to be loaded,
// or another node owns the feed by now, which the committer notices.
func (ex *examiner) examine(key im.Key, x *examination) {
	mem, qs := ex.queues.mem, ex.queues
	for {
		mem.mu.Lock()
		if len(x.sends) == 0 {
			if qs.underExamination[key] == x {
				delete(qs.underExamination, key)
			}
			mem.mu.Unlock()
			return
		}
		u := im.User(x.sends[0].Entry.From)
		mem.mu.Unlock()
		outsider, err := ex.outsiders.isOutsider(context.Background(), key, u)
		var refusal *im.Error
		switch {
		case err != nil:
			refusal = unread(err)
		case outsider && ex.outsiders.confirm() == nil:
			refusal = noConversation()
		}
		mem.mu.Lock()
		var theirs []*Send
		theirs, x.sends = x.takeSendsOf(u)
		var refused []*Send
		if refusal != nil { // sends that require no membership are queued all the same
			refused, theirs = part(theirs, u)
		}
		full := len(theirs) > 0 && !ex.queueLocked(key, theirs, refusal == nil && !outsider)
		mem.mu.Unlock()
		if len(refused) > 0 {
			qs.refuse(refused, refusal)
		}
		if full {
			qs.refuse(theirs, errBusy())
		} else {
			qs.wakeCommitter()
		}
	}
}

// queueLocked puts sends into the queue of their conversation; false: memory has no room for the
// conversation. member: the store has said that the sender is or was a member.
func (ex *examiner) queueLocked(key im.Key, sends []*Send, member bool) bool {
	c := ex.fetch.getLocked(key)
	if c == nil {
		return false
	}
	for _, s := range sends {
		s.ofMember = member
		c.queueBytes += s.bytes
	}
	c.queue = append(c.queue, sends...)
	ex.queues.activateLocked(c)
	return true
}
