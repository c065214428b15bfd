package checker

// Arrival is how an entry came to a device.
type Arrival uint8

// The arrivals.
const (
	Fresh   Arrival = iota // it is new
	Late                   // it is new and fills a gap: it should have come before
	Repeat                 // it was taken as new before
	Dropped                // it is no news, and no fault: a page of history may bring it twice, or before its push
)

// Stream has the seqs that one device has got of one conversation: all below next but the gaps. Entries that come
// in order take no memory.
type Stream struct {
	start   uint64 // seq up to which the device had everything from the beginning
	next    uint64 // the seq that comes next
	gaps    []span
	history uint64 // highest seq that came by Read

	// Gone says that the device wants nothing more, so a missing entry is no loss.
	Gone bool
}

type span struct{ from, to uint64 } // both included

// NewStream returns the stream of a device that has everything up to head.
func NewStream(head uint64) Stream { return Stream{start: head, next: head + 1} }

// Start returns the seq up to which the device had everything from the beginning.
func (s *Stream) Start() uint64 { return s.start }

// Next returns the seq that comes next if nothing is skipped.
func (s *Stream) Next() uint64 { return s.next }

// PushRun takes n seqs from first on, if first comes next. Otherwise it takes none and returns false.
func (s *Stream) PushRun(first, n uint64) bool {
	if first != s.next {
		return false
	}
	s.next += n
	return true
}

// Push takes the seq of an entry that the device took as new, and returns how it came.
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

// Read takes the seq of an entry in a page of history, or in the ack of a repeated send. The device may have the
// entry already.
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

// Has reports whether the device has the entry at a seq: it has got it since, or had it at the beginning.
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

// Lowest returns the lowest missing seq.
func (s *Stream) Lowest() uint64 {
	low := s.next
	for _, g := range s.gaps {
		low = min(low, g.from)
	}
	return low
}

// Missing counts the seqs in the gaps, and those after the highest one that came, up to head.
func (s *Stream) Missing(head uint64) (n uint64) {
	for _, g := range s.gaps {
		n += g.to - g.from + 1
	}
	if head >= s.next {
		n += head - s.next + 1
	}
	return n
}

// Complete reports whether every seq up to head has come, and no gap is left.
func (s *Stream) Complete(head uint64) bool { return s.next > head && len(s.gaps) == 0 }
