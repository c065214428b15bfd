package conv

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
)

const (
	typingPerSecond  = 3  // of one conversation
	signalsPerSecond = 20 // of one conversation, of other kinds
)

// signaller admits signals to conversations of one feed that are in memory, and queues them for
// delivery.
type signaller struct {
	mem   *memory
	node  *node
	now   func() time.Time
	feed  store.Feed
	epoch im.Epoch // of the Owner
}

// loadedLocked queues the signals that have waited for the load of c. It is called with memory.mu
// held.
func (si *signaller) loadedLocked(c *conv) {
	for _, s := range c.signals {
		si.signalLocked(c, s)
	}
	c.signals = nil
}

// signalLocked queues a signal for delivery, if its sender may signal and the rate of the conversation and the
// queue allow it. It is called with memory.mu held.
func (si *signaller) signalLocked(c *conv, s *Signal) {
	at, in := c.published()
	from := im.User(s.Signal.From)
	if in.record == nil || in.members.Role(from) == 0 {
		return
	}
	if c.signalRates == nil {
		c.signalRates = &signalRates{}
	}
	bucket, perSecond := &c.signalRates.others, signalsPerSecond
	if s.Signal.Kind == Typing {
		bucket, perSecond = &c.signalRates.typing, typingPerSecond
	}
	if bucket.Take(si.now(), rate.Per(perSecond, time.Second, perSecond)) > 0 {
		si.node.signals.dropped.Add(1)
		return
	}
	s.Signal.Head = uint64(at.head)
	si.node.signals.add(s.matter(), outgoing{si.feed, si.epoch,
		func() (*fanout.Signal, []im.User) { return si.recipients(c, s) }})
}

// recipients returns the signal s of c for fan-out, and the users who get it, by the published members: nobody if the
// sender was removed while the signal waited, and only the sender if the other user blocks the sender. The sender does
// not get their own typing. Signals of a large conversation, and all typing, go only to sessions that have c in focus.
func (si *signaller) recipients(c *conv, s *Signal) (*fanout.Signal, []im.User) {
	if now := si.mem.find(s.Key); now != nil { // c may have left memory and come back
		c = now
	}
	_, in := c.published()
	from, typing := im.User(s.Signal.From), s.Signal.Kind == Typing
	to := in.members.current
	switch {
	case in.members.Role(from) == 0:
		to = nil
	case in.deafTo(from) != "": // the sender's own devices still get it. Spec: P-5.4
		to = []im.User{from}
	}
	if typing { // it tells the sender's own devices nothing
		to = slices.DeleteFunc(slices.Clone(to), func(u im.User) bool { return u == from })
	}
	focused := typing || len(in.members.current) > LargeSignals
	return &fanout.Signal{Key: s.Key, Signal: s.Signal, Sender: s.Sender, Focused: focused}, to
}
