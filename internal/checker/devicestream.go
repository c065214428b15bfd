package checker

// Arrival is how an entry came to a device.
type Arrival uint8

// The arrivals.
const (
	Fresh   Arrival = iota // it is new
	Late                   // it is new and fills a gap: it should have come before
	Repeat                 // it was taken as new before
	Dropped                // it is here already, by a page of history: a push may repeat that
)

// Stream has the seqs that one device has got of one conversation: all below next but the gaps. It
// takes no memory for what comes in order.
type Stream struct {
	start   uint64 // what its device had from the beginning
	next    uint64 // the seq that comes next
	gaps    []span
	history uint64 // highest seq that came by a page of history, not as new

	// Gone says that its device wants nothing more: what is missing is not lost by
	// that alone.
	Gone bool
}

type span struct{ from, to uint64 } // both included

// NewStream is a stream of a device that has everything up to head.
func NewStream(head uint64) Stream { return Stream{start: head, next: head + 1} }

// Start is what the device had from the beginning.
func (s *Stream) Start() uint64 { return s.start }

// Next is the seq that comes next if nothing is skipped.
func (s *Stream) Next() uint64 { return s.next }

// PushRun takes n seqs from the first on, and reports whether they went on where the
// stream stands. If not, it took none.
func (s *Stream) PushRun(first, n uint64) bool {
	if first != s.next {
		return false
	}
	s.next += n
	return true
}

// Push takes a seq that was taken as new.
func (s *Stream) Push(seq uint64) Arrival {
	switch {
	case seq == s.next:
		s.next++
		return Fresh
	case seq > s.next:
		s.gaps = append(s.gaps, span{s.next, seq - 1})
		s.next = seq + 1
		return Fresh
	case s.fill(seq):
		return Late
	case seq <= s.history:
		return Dropped
	}
	return Repeat
}

// Read takes a seq of a page of history, or of the ack of a repeated send; those may
// bring what is here already.
func (s *Stream) Read(seq uint64) Arrival {
	s.history = max(s.history, seq)
	switch {
	case seq >= s.next:
		return s.Push(seq)
	case s.fill(seq):
		return Fresh
	}
	return Dropped
}

// Has reports whether a seq came, or was here from the beginning.
func (s *Stream) Has(seq uint64) bool {
	for _, g := range s.gaps {
		if seq >= g.from && seq <= g.to {
			return false
		}
	}
	return seq < s.next
}

// fill removes seq from the gaps and reports whether it was in one.
func (s *Stream) fill(seq uint64) bool {
	for i, g := range s.gaps {
		if seq < g.from || seq > g.to {
			continue
		}
		switch {
		case g.from == g.to:
			s.gaps = append(s.gaps[:i], s.gaps[i+1:]...)
		case seq == g.from:
			s.gaps[i].from++
		case seq == g.to:
			s.gaps[i].to--
		default:
			s.gaps[i].to = seq - 1
			s.gaps = append(s.gaps, span{seq + 1, g.to})
		}
		return true
	}
	return false
}

// Lowest is the lowest seq that is missing.
func (s *Stream) Lowest() uint64 {
	low := s.next
	for _, g := range s.gaps {
		low = min(low, g.from)
	}
	return low
}

// Missing counts what is missing up to head.
func (s *Stream) Missing(head uint64) (n uint64) {
	for _, g := range s.gaps {
		n += g.to - g.from + 1
	}
	if head >= s.next {
		n += head - s.next + 1
	}
	return n
}

// Complete reports whether nothing is missing up to head.
func (s *Stream) Complete(head uint64) bool { return s.next > head && len(s.gaps) == 0 }
