// Package console is the memory of a node for its operators: a sample of each second of the last hour, the
// refusals, and the last lines of the log. All of it is bounded, none of it is stored, and it takes no part in
// the way of an accepted message.
//
// It knows neither the source of its figures nor their readers: package app connects both.
package console

import (
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Kept is how many seconds are kept.
const Kept = 3600

// MaxStep is the most seconds that one sample covers.
const MaxStep = 300

// Counters are totals since the start, and present amounts.
type Counters struct {
	Accepted, Repeated, Delivered uint64
	RefusedFrames, RefusedCalls   uint64
	RefusedSends, RefusedLogins   uint64 // parts of the above
	CPU                           time.Duration
	Connections, Waiting          int
}

// second is one second of a node: means per second, and times in milliseconds.
type second struct {
	end                                    int64 // Unix seconds
	offered, accepted, delivered, refused  float32
	refusedSends, refusedLogins            float32
	ack50, ack99, commit50, commit99, cpus float32
	commit                                 float32 // mean
	connections, waiting                   uint32
}

// Samples has the last seconds of a node. One goroutine calls Take once a second; any goroutine may read.
type Samples struct {
	Acks, Commits *measure.Histogram // set before use

	last    Counters // only Take uses this and the next four
	lastAt  time.Time
	lastEnd int64 // Unix seconds
	acks    reading
	commits reading

	mu   sync.Mutex // tier 0; guards the fields below
	ring []second   // at most Kept
	next int        // index of the oldest second, when ring is full
}

// reading is a histogram at some time.
type reading struct {
	count uint64
	sum   time.Duration
	below [measure.Buckets]uint64
}

// Take takes the sample of the second that ends now. The first call takes none: it only reads the counters.
func (s *Samples) Take(now time.Time, c *Counters) {
	was, at := s.last, s.lastAt
	s.last, s.lastAt = *c, now
	ack50, ack99, _ := s.acks.since(s.Acks)
	commit50, commit99, commit := s.commits.since(s.Commits)
	end := now.Unix()
	if end == s.lastEnd+2 && now.Sub(at) < 2*time.Second {
		end-- // the call is late: it samples the second in which it was due, so that none is left out
	}
	s.lastEnd = end
	took := float32(now.Sub(at).Seconds())
	if at.IsZero() || took <= 0 {
		return
	}
	per := func(now, was uint64) float32 { return float32(now-was) / took }
	x := second{
		end: end, accepted: per(c.Accepted, was.Accepted), delivered: per(c.Delivered, was.Delivered),
		refused:      per(c.RefusedFrames+c.RefusedCalls, was.RefusedFrames+was.RefusedCalls),
		offered:      per(c.Accepted+c.Repeated+c.RefusedSends, was.Accepted+was.Repeated+was.RefusedSends),
		refusedSends: per(c.RefusedSends, was.RefusedSends), refusedLogins: per(c.RefusedLogins, was.RefusedLogins),
		ack50: ack50, ack99: ack99, commit50: commit50, commit99: commit99, commit: commit,
		cpus:        float32((c.CPU - was.CPU).Seconds()) / took,
		connections: uint32(c.Connections), waiting: uint32(c.Waiting),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < Kept {
		s.ring = append(s.ring, x)
		return
	}
	s.ring[s.next] = x
	s.next = (s.next + 1) % Kept
}

// since reads a histogram, and returns two percentiles and the mean of what was added since the last call, in
// milliseconds; 0: nothing was.
func (r *reading) since(h *measure.Histogram) (p50, p99, mean float32) {
	var now reading
	now.count, now.sum, now.below = h.Read()
	was := *r
	*r = now
	n := now.count - was.count
	if n == 0 {
		return 0, 0, 0
	}
	at := func(part float64) float32 {
		want, below := part*float64(n), 0.0
		low := time.Duration(0)
		for i := range now.below {
			here := float64(now.below[i] - was.below[i])
			if high := measure.Bound(i); here >= want {
				inside := float64(high-low) * (want - below) / (here - below)
				return float32((low + time.Duration(inside)).Seconds() * 1000)
			}
			low, below = measure.Bound(i), here
		}
		return float32(low.Seconds() * 1000) // longer than the last bound
	}
	return at(0.5), at(0.99), float32((now.sum - was.sum).Seconds() * 1000 / float64(n))
}

// each calls f for the seconds, oldest first.
func (s *Samples) each(f func(*second)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.ring {
		f(&s.ring[(s.next+i)%len(s.ring)])
	}
}

// Since returns the samples that end after a time (Unix milliseconds), oldest first. Each sample covers step
// seconds, 1 to MaxStep. It has the means of the rates, the longest times, and the last numbers of connections. A
// step that has not ended is left out.
func (s *Samples) Since(afterMs uint64, step int) []*petrelv1.Sample {
	step = min(max(step, 1), MaxStep)
	var all []*petrelv1.Sample
	var sum *petrelv1.Sample
	n, newest := float32(0), int64(0)
	end := func() {
		if sum != nil && sum.TimeMs <= uint64(newest)*1000 {
			sum.Offered, sum.Accepted, sum.Delivered, sum.Refused, sum.Cpu = sum.Offered/n, sum.Accepted/n,
				sum.Delivered/n, sum.Refused/n, sum.Cpu/n
			sum.RefusedSends, sum.RefusedLogins = sum.RefusedSends/n, sum.RefusedLogins/n
			all = append(all, sum)
		}
	}
	s.each(func(x *second) {
		newest = x.end
		ends := uint64((x.end+int64(step)-1)/int64(step)*int64(step)) * 1000
		if ends <= afterMs {
			return
		}
		if sum == nil || sum.TimeMs != ends {
			end()
			sum, n = &petrelv1.Sample{TimeMs: ends, Nodes: 1}, 0
		}
		n++
		sum.Offered += x.offered
		sum.Accepted += x.accepted
		sum.Delivered += x.delivered
		sum.Refused += x.refused
		sum.RefusedSends += x.refusedSends
		sum.RefusedLogins += x.refusedLogins
		sum.Cpu += x.cpus
		slowest(sum, x.sample())
		sum.Connections, sum.Waiting = x.connections, float32(x.waiting)
	})
	end()
	return all
}

// Last returns the last second, as a sample; nil: there is none.
func (s *Samples) Last() (last *petrelv1.Sample) {
	s.each(func(x *second) { last = x.sample() })
	return last
}

// CommitMean returns the mean time of a commit in the last seconds that had one, in milliseconds; 0: there
// was none.
func (s *Samples) CommitMean(seconds int) float32 {
	var sum, n float32
	from := time.Now().Unix() - int64(seconds)
	s.each(func(x *second) {
		if x.end > from && x.commit > 0 {
			sum += x.commit
			n++
		}
	})
	if n == 0 {
		return 0
	}
	return sum / n
}

func (x *second) sample() *petrelv1.Sample {
	return &petrelv1.Sample{
		TimeMs: uint64(x.end) * 1000, Offered: x.offered, Accepted: x.accepted, Delivered: x.delivered,
		Refused: x.refused, Connections: x.connections,
		RefusedSends: x.refusedSends, RefusedLogins: x.refusedLogins,
		AckP50Ms: x.ack50, AckP99Ms: x.ack99, CommitP50Ms: x.commit50, CommitP99Ms: x.commit99,
		Waiting: float32(x.waiting), Cpu: x.cpus, Nodes: 1,
	}
}

func slowest(to, from *petrelv1.Sample) {
	to.AckP50Ms, to.AckP99Ms = max(to.AckP50Ms, from.AckP50Ms), max(to.AckP99Ms, from.AckP99Ms)
	to.CommitP50Ms, to.CommitP99Ms = max(to.CommitP50Ms, from.CommitP50Ms), max(to.CommitP99Ms, from.CommitP99Ms)
}

// Together adds up the samples of several nodes, and takes the longest of their times. Those of each node are
// oldest first, and all have the same steps. A node without samples is left out. The sum ends where the samples of
// one node end first: without that node it would seem to fall. The samples of nodes are changed.
func Together(nodes [][]*petrelv1.Sample) []*petrelv1.Sample {
	at := map[uint64]*petrelv1.Sample{}
	var all []*petrelv1.Sample
	upTo := ^uint64(0)
	for _, list := range nodes {
		if len(list) > 0 {
			upTo = min(upTo, list[len(list)-1].TimeMs)
		}
	}
	for _, list := range nodes {
		for _, x := range list {
			sum := at[x.TimeMs]
			switch {
			case x.TimeMs > upTo:
				continue
			case sum == nil:
				at[x.TimeMs] = x
				all = append(all, x)
				continue
			}
			sum.Offered += x.Offered
			sum.Accepted += x.Accepted
			sum.Delivered += x.Delivered
			sum.Refused += x.Refused
			sum.RefusedSends += x.RefusedSends
			sum.RefusedLogins += x.RefusedLogins
			sum.Connections += x.Connections
			sum.Waiting += x.Waiting
			sum.Cpu += x.Cpu
			sum.Nodes += x.Nodes
			slowest(sum, x)
		}
	}
	return inOrder(all)
}
