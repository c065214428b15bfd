package bench

import "math"

// pace is the schedule of an open loop: arrivals at fixed distances, dealt to
// the senders in turn. It is fixed before the first message is sent, and a
// message counts from the moment it was due, however late it could leave: a
// server that stalls cannot slow down those who measure it.
type pace struct {
	start   int64   // ns of the generator's clock; when the first one is due
	gap     float64 // ns
	senders int
	due     uint64 // arrivals that were due at the last advance
}

func newPace(start int64, perSecond float64, senders int) *pace {
	return &pace{start: start, gap: 1e9 / perSecond, senders: senders}
}

// at is when arrival i (0, 1, …) is due.
func (p *pace) at(i uint64) int64 { return p.start + int64(float64(i)*p.gap) }

// dueBy counts the arrivals that are due at a moment.
func (p *pace) dueBy(now int64) uint64 {
	if now < p.start {
		return 0
	}
	n := uint64(math.Floor(float64(now-p.start)/p.gap)) + 1
	for n > 0 && p.at(n-1) > now {
		n--
	}
	for p.at(n) <= now {
		n++
	}
	return n
}

// advance moves to now and returns the arrivals that have become due, from
// included, to not.
func (p *pace) advance(now int64) (from, to uint64) {
	from = p.due
	p.due = max(p.due, p.dueBy(now))
	return from, p.due
}

// next is when the next arrival is due.
func (p *pace) next() int64 { return p.at(p.due) }

// sender is whose arrival i is.
func (p *pace) sender(i uint64) int { return int(i % uint64(p.senders)) }

// of counts the arrivals of one sender that are due.
func (p *pace) of(sender int) uint64 {
	if p.due <= uint64(sender) {
		return 0
	}
	return (p.due-uint64(sender)-1)/uint64(p.senders) + 1
}

// sentAt is when a sender's message number (1, 2, …) is due.
func (p *pace) sentAt(sender int, number uint64) int64 {
	return p.at(uint64(sender) + (number-1)*uint64(p.senders))
}
