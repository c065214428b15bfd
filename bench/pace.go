package bench

import (
	"container/heap"
	"math"
	"time"
)

// pace is the schedule of an open loop: arrivals at fixed distances, dealt to
// the senders in turn, or, with clocks, for each sender at moments of its own. It is fixed
// before the first message is sent, and a message counts from the moment it was due, however
// late it could leave: a server that stalls cannot slow down those who measure it.
type pace struct {
	steps   []pacing // the first from the start on, each until the next one; none with clocks
	senders int
	total   uint64 // arrivals in all; 0: without end
	due     uint64 // arrivals that were due at the last advance

	clocks *clocks
}

// pacing is a part of a schedule with one distance.
type pacing struct {
	start int64   // ns of the generator's clock; when its first arrival is due
	first uint64  // number of that
	gap   float64 // ns
}

func newPace(start int64, perSecond float64, senders int) *pace {
	return &pace{steps: []pacing{{start: start, gap: 1e9 / perSecond}}, senders: senders}
}

// then goes on with another rate after a time since the last change.
func (p *pace) then(perSecond float64, after time.Duration) {
	last := p.steps[len(p.steps)-1]
	n := uint64(math.Ceil(float64(after) / last.gap))
	p.steps = append(p.steps, pacing{start: last.start + int64(after), first: last.first + n, gap: 1e9 / perSecond})
}

// plan makes the schedule of a run; nil: a closed loop has none.
func (p *Params) plan() func(start int64) *pace {
	senders, quota := p.senders(), uint64(p.quota())
	switch {
	case len(p.IntervalMS) > 0:
		low, high := p.IntervalMS[0]*1e6, p.IntervalMS[1]*1e6
		return func(start int64) *pace {
			return &pace{senders: senders, clocks: newClocks(start, p.Seed, senders, low, high, quota)}
		}
	case len(p.Steps) > 0:
		return func(start int64) *pace {
			all := newPace(start, p.Steps[0], senders)
			for i, rate := range p.Steps[1:] {
				after := seconds(p.Seconds)
				if i == 0 {
					after += seconds(p.WarmUp)
				}
				all.then(rate, after)
			}
			return all
		}
	case p.Rate > 0:
		return func(start int64) *pace {
			all := newPace(start, p.Rate, senders)
			all.total = quota * uint64(senders)
			return all
		}
	}
	return nil
}

// at is when arrival i (0, 1, …) is due.
func (p *pace) at(i uint64) int64 {
	n := len(p.steps) - 1
	for n > 0 && p.steps[n].first > i {
		n--
	}
	s := &p.steps[n]
	return s.start + int64(float64(i-s.first)*s.gap)
}

// dueBy counts the arrivals that are due at a moment.
func (p *pace) dueBy(now int64) uint64 {
	if now < p.steps[0].start {
		return 0
	}
	i := len(p.steps) - 1
	for i > 0 && p.steps[i].start > now {
		i--
	}
	s := &p.steps[i]
	n := s.first + uint64(math.Floor(float64(now-s.start)/s.gap)) + 1
	for n > 0 && p.at(n-1) > now {
		n--
	}
	for p.at(n) <= now {
		n++
	}
	if p.total > 0 {
		n = min(n, p.total)
	}
	return n
}

// advance moves to now, calls due for each sender of whom something has become due, and
// returns how much has, and how much of that the generator has noticed late.
func (p *pace) advance(now int64, due func(sender int)) (n, late uint64) {
	if p.clocks != nil {
		return p.clocks.advance(now, due)
	}
	from := p.due
	p.due = max(p.due, p.dueBy(now))
	for i := from; i < p.due && i < from+uint64(p.senders); i++ {
		due(p.sender(i))
	}
	n = p.due - from
	if n > 0 && now-p.at(from) > int64(lateAfter) {
		late = n
	}
	return n, late
}

// next is when the next arrival is due.
func (p *pace) next() int64 {
	if p.clocks != nil {
		return p.clocks.next()
	}
	if p.total > 0 && p.due >= p.total {
		return math.MaxInt64
	}
	return p.at(p.due)
}

// sender is whose arrival i is.
func (p *pace) sender(i uint64) int { return int(i % uint64(p.senders)) }

// of counts the arrivals of one sender that are due.
func (p *pace) of(sender int) uint64 {
	if p.clocks != nil {
		return p.clocks.all[sender].due
	}
	if p.due <= uint64(sender) {
		return 0
	}
	return (p.due-uint64(sender)-1)/uint64(p.senders) + 1
}

// sentAt is when a sender's message number (1, 2, …) is due. With clocks, each is asked for
// once, in order.
func (p *pace) sentAt(sender int, number uint64) int64 {
	if p.clocks != nil {
		return p.clocks.take(sender, number)
	}
	return p.at(uint64(sender) + (number-1)*uint64(p.senders))
}

// clocks are schedules of which every sender has its own: after each message a random pause.
type clocks struct {
	seed      uint64
	low, span float64 // ns; of a pause
	quota     uint64  // messages of each sender; 0: without end
	all       []clock
	order     []int // a heap of those who have something left, the next one first
}

// clock is one sender's.
type clock struct {
	next  int64  // ns; when the message after those that are due becomes so
	due   uint64 // messages
	taken int64  // ns; when the message that is taken next was due
}

// newClocks begins with a moment that is random too, so that not all write at once.
func newClocks(start int64, seed uint64, senders int, low, high float64, quota uint64) *clocks {
	c := &clocks{seed: seed, low: low, span: high - low, quota: quota, all: make([]clock, senders), order: make([]int, senders)}
	for i := range c.all {
		first := start + int64(fraction(mix(mix(seed)+uint64(i)))*high)
		c.all[i] = clock{next: first, taken: first}
		c.order[i] = i
	}
	heap.Init(c)
	return c
}

// fraction makes a fraction from 0 to below 1 of a random number.
func fraction(v uint64) float64 { return float64(v>>11) / (1 << 53) }

// pause is how long a sender waits after its message number.
func (c *clocks) pause(sender int, number uint64) int64 {
	return int64(c.low + fraction(mix(mix(c.seed^uint64(sender)<<40)+number))*c.span)
}

func (c *clocks) advance(now int64, due func(sender int)) (n, late uint64) {
	for len(c.order) > 0 && c.next() <= now {
		i := c.order[0]
		one := &c.all[i]
		if now-one.next > int64(lateAfter) {
			late++
		}
		n++
		one.due++
		due(i)
		if c.quota > 0 && one.due >= c.quota {
			heap.Pop(c)
			continue
		}
		one.next += c.pause(i, one.due)
		heap.Fix(c, 0)
	}
	return n, late
}

func (c *clocks) next() int64 {
	if len(c.order) == 0 {
		return math.MaxInt64
	}
	return c.all[c.order[0]].next
}

func (c *clocks) take(sender int, number uint64) int64 {
	one := &c.all[sender]
	at := one.taken
	one.taken += c.pause(sender, number)
	return at
}

// The heap.
func (c *clocks) Len() int           { return len(c.order) }
func (c *clocks) Less(i, j int) bool { return c.all[c.order[i]].next < c.all[c.order[j]].next }
func (c *clocks) Swap(i, j int)      { c.order[i], c.order[j] = c.order[j], c.order[i] }
func (c *clocks) Push(v any)         { c.order = append(c.order, v.(int)) }
func (c *clocks) Pop() any {
	last := c.order[len(c.order)-1]
	c.order = c.order[:len(c.order)-1]
	return last
}
