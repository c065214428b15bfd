package fanout

import "github.com/petrel-im/petrel/internal/im"

// Standing returns what holds for the session. It is set with Learn.
func (o *Outbox) Standing() im.Standing {
	v := o.standing.Load()
	return im.Standing{MutedMs: v >> standingBits, PrivateReading: v&privateBit > 0}
}

// The standing of an outbox is the time of the mute, and below it these bits.
const (
	learntBit = 1 << iota // otherwise nothing is known yet
	privateBit
	standingBits = iota
)

// Asks begins to find out the standing of the session, and returns how to set it. What was announced meanwhile is
// newer than what is read, and stays.
func (o *Outbox) Asks() (learn func(im.Standing)) {
	before := o.standing.Load()
	return func(is im.Standing) { o.standing.CompareAndSwap(before, encodeStanding(is)) }
}

// Announce sets the standing of all sessions of a user on this node, and returns their number.
func (t *Table) Announce(a im.Account, is im.Standing) int {
	list := t.Of(a)
	for _, o := range list {
		o.standing.Store(encodeStanding(is))
	}
	return len(list)
}

func encodeStanding(is im.Standing) uint64 {
	v := is.MutedMs<<standingBits | learntBit
	if is.PrivateReading {
		v |= privateBit
	}
	return v
}
