package bench

import (
	"container/heap"
	"math"
)

// pace is the schedule of an open loop: each sender has a clock of its own. The moments are fixed before the
// first message is sent, and a message counts from the moment it was due, however late it left: a server that
// stalls cannot slow down its own measurement.
type pace struct {
	seed      uint64
	low, span float64 // ns; a pause is random from low to low + span
	quota     uint64  // messages of each sender; 0: no bound
	all       []clock // by sender
	order     []int   // a heap of the senders, the next one first
	inTurn    bool    // all pauses have the same length: senders come in turn, without the heap
	turn      int     // the sender whose turn it is
}

// clock is the schedule of one sender.
type clock struct {
	next  int64  // ns; when the next message becomes due
	due   uint64 // messages that have become due
	taken int64  // ns; when the next message to be sent became due
}

// newPace makes the schedule of a rate: arrivals at fixed distances, dealt to the senders in turn.
func newPace(start int64, perSecond float64, senders int) *pace {
	gap := 1e9 / perSecond
	first := func(i int) int64 { return start + int64(float64(i)*gap) }
	return clocks(&pace{low: gap * float64(senders), inTurn: true}, senders, first)
}

// newClocks makes a schedule of random pauses, from low to high, in ns. Each sender begins at a random moment up to
// high after start, so that not all write at once.
func newClocks(start int64, seed uint64, senders int, low, high float64, quota uint64) *pace {
	return clocks(&pace{seed: seed, low: low, span: high - low, quota: quota}, senders,
		func(i int) int64 { return start + int64(fraction(mix(mix(seed)+uint64(i)))*high) })
}

func clocks(p *pace, senders int, first func(i int) int64) *pace {
	for i := range senders {
		at := first(i)
		p.all, p.order = append(p.all, clock{next: at, taken: at}), append(p.order, i)
	}
	heap.Init(p)
	return p
}

// plan returns the function that makes the schedule of a run; nil for a closed loop, which has none.
func (p *Params) plan() func(start int64) *pace {
	switch {
	case len(p.IntervalMS) > 0:
		return func(start int64) *pace {
			return newClocks(start, p.Seed, p.senders(), p.IntervalMS[0]*1e6, p.IntervalMS[1]*1e6, uint64(p.quota()))
		}
	case p.Rate > 0:
		return func(start int64) *pace {
			all := newPace(start, p.Rate, p.senders())
			all.quota = uint64(p.quota())
			return all
		}
	}
	return nil
}

// fraction converts a random number v into one from 0 to below 1.
func fraction(v uint64) float64 { return float64(v>>11) / (1 << 53) }

// pause returns a sender's pause after its message number.
func (p *pace) pause(sender int, number uint64) int64 {
	if p.span == 0 { // so that rounding errors do not add up
		return int64(p.low*float64(number)) - int64(p.low*float64(number-1))
	}
	return int64(p.low + fraction(mix(mix(p.seed^uint64(sender)<<40)+number))*p.span)
}

// advance moves the schedule to now, and calls due with the sender of each message that has become due. It returns the
// number of these messages, and how many of them became due more than lateAfter before now.
func (p *pace) advance(now int64, due func(sender int)) (n, late uint64) {
	for p.next() <= now {
		i := p.first()
		one := &p.all[i]
		if now-one.next > int64(lateAfter) {
			late++
		}
		n++
		one.due++
		due(i)
		one.next += p.pause(i, one.due)
		if p.quota > 0 && one.due >= p.quota {
			one.next = math.MaxInt64
		}
		if p.inTurn {
			p.turn = (p.turn + 1) % len(p.all)
		} else {
			heap.Fix(p, 0)
		}
	}
	return n, late
}

// next returns when the next message becomes due; after the last one math.MaxInt64.
func (p *pace) next() int64 {
	return p.all[p.first()].next
}

// first returns the sender of the next message.
func (p *pace) first() int {
	if p.inTurn {
		return p.turn
	}
	return p.order[0]
}

// of counts the due messages of one sender.
func (p *pace) of(sender int) uint64 { return p.all[sender].due }

// sentAt returns when a sender's message number (1, 2, …) is due. The caller asks once for each number, in ascending
// order.
func (p *pace) sentAt(sender int, number uint64) int64 {
	one := &p.all[sender]
	at := one.taken
	one.taken += p.pause(sender, number)
	return at
}

// The heap.
func (p *pace) Len() int           { return len(p.order) }
func (p *pace) Less(i, j int) bool { return p.all[p.order[i]].next < p.all[p.order[j]].next }
func (p *pace) Swap(i, j int)      { p.order[i], p.order[j] = p.order[j], p.order[i] }
func (p *pace) Push(any)           {}             // not called: the heap always has all senders
func (p *pace) Pop() any           { return nil } // not called either
