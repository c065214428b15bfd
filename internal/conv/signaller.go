package conv

import (
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

const (
	typingPerSecond  = 3  // of one conversation
	signalsPerSecond = 20 // of one conversation, of other kinds
)

// signaller passes on the signals to conversations of one feed that are in memory.
type signaller struct {
	node *node
	now  func() time.Time
}

// loadedLocked goes on with the signals that have waited for the load of c. It is called
// with memory.mu held.
func (si *signaller) loadedLocked(c *conv) {
	for _, s := range c.signals {
		si.signalLocked(c, s)
	}
	c.signals = nil
}

// signalLocked queues a signal for delivery, if its sender may signal and there is room.
// It is called with memory.mu held.
func (si *signaller) signalLocked(c *conv, s *Signal) {
	at, in := c.published()
	from := im.User(s.Signal.From)
	if in.record == nil || in.members.Role(from) == 0 {
		return
	}
	if c.signalRates == nil {
		c.signalRates = &signalRates{}
	}
	typing, now := s.Signal.Kind == Typing, si.now()
	bucket, perSecond := &c.signalRates.others, signalsPerSecond
	if typing {
		bucket, perSecond = &c.signalRates.typing, typingPerSecond
	}
	if bucket.Take(now, rate.Per(perSecond, time.Second, perSecond)) > 0 {
		si.node.signals.dropped.Add(1)
		return
	}
	to := in.members.current
	if in.blocker(from) != "" { // who learns nothing of it: their own devices get the signal. Spec: P-5.4
		to = []im.User{from}
	}
	s.Signal.Head, s.Signal.TimeMs = uint64(at.head), uint64(now.UnixMilli())
	si.node.signals.add(s.matter(), outgoing{
		Signal: fanout.Signal{
			Key: s.Key, Signal: s.Signal, Sender: s.Sender, Focused: typing || len(in.members.current) > LargeSignals,
		},
		to: to,
	})
}
