package checker

// Pages is a slice, from index 0 on, that grows without being copied. Only its first page is copied when it
// grows: it begins short, so that a small slice takes little memory. The zero value is empty.
type Pages[T any] struct{ page [][]T }

const pageLen = 4096

// At returns the place of the value at index i, and makes its page if needed. The value is zero at first.
func (p *Pages[T]) At(i uint64) *T {
	n := int(i / pageLen)
	for n >= len(p.page) {
		p.page = append(p.page, nil)
	}
	if k := i % pageLen; n == 0 && k >= uint64(len(p.page[0])) {
		first := make([]T, min(pageLen, max(32, 2*k)))
		copy(first, p.page[0])
		p.page[0] = first
	}
	if p.page[n] == nil {
		p.page[n] = make([]T, pageLen)
	}
	return &p.page[n][i%pageLen]
}

// next returns the first index from i on whose page exists, or one beyond all pages.
func (p *Pages[T]) next(i uint64) uint64 {
	for n := i / pageLen; n < uint64(len(p.page)); n++ {
		if p.page[n] != nil {
			return max(i, n*pageLen)
		}
	}
	return max(i, uint64(len(p.page))*pageLen)
}

// Places has the message at each seq of one conversation. It remembers 8 bytes for each.
type Places struct {
	Head uint64 // highest seq that is known to be stored
	at   Pages[uint64]
}

// Evidence for the message at a seq.
const (
	ByAck     = 1 << 63
	ByClient  = 1 << 62 // a client was shown it
	ByHistory = 1 << 60 // the operator has read it in the end

	foreign   = 1 << 61 // an entry that no message of the logs made
	placeWhat = 1<<60 - 1
)

// None stands for the seq of a message that was rejected.
const None = ^uint32(0)

// Placing is the outcome of Place.
type Placing uint8

// The outcomes of Place.
const (
	Agrees  Placing = iota
	NoSeq           // there is no such seq
	Taken           // another entry stands there
	Moved           // the message is said to stand elsewhere
	Twice           // the message stands elsewhere too
	Rejects         // the message was rejected
)

// Place records that a message stands at a seq. what is the number of the message, in 60 bits; how is the
// evidence. known points to the seq that the message has so far: 0 if it has none, which Place then sets; None
// if the message was rejected.
func (p *Places) Place(seq, what, how uint64, known *uint32) Placing {
	if seq == 0 || seq >= uint64(None) {
		return NoSeq
	}
	p.Head = max(p.Head, seq)
	here := p.at.At(seq)
	switch {
	case *here == 0:
		*here = what | how
	case *here&(placeWhat|foreign) == what:
		*here |= how
	default:
		return Taken
	}
	switch *known {
	case uint32(seq):
	case 0:
		*known = uint32(seq)
	case None:
		return Rejects
	default:
		if other := *p.at.At(uint64(*known)); how&ByAck == 0 && other&(ByClient|ByHistory) != 0 {
			return Twice
		}
		return Moved
	}
	return Agrees
}

// Foreign records an entry at seq that no message of the logs made, for example one of the server. It reports
// whether a message is known to stand there.
func (p *Places) Foreign(seq, how uint64) (taken bool) {
	here := p.at.At(seq)
	p.Head = max(p.Head, seq)
	taken = *here != 0 && *here&foreign == 0
	if !taken {
		*here |= foreign | how
	}
	return taken
}

// known returns the number of the message at a seq, if one stands there, and the evidence.
func (p *Places) known(seq uint64) (what uint64, isMessage bool, how uint64) {
	if seq == 0 || seq > p.Head {
		return 0, false, 0
	}
	v := *p.at.At(seq)
	return v & placeWhat, v&foreign == 0 && v != 0, v & (ByAck | ByClient | ByHistory)
}

// Acked counts the acked messages at the seqs between from and to, both included.
func (p *Places) Acked(from, to uint64) (n uint64) {
	for seq := p.next(from); seq <= min(to, p.Head); seq = p.next(seq + 1) {
		if _, isMessage, how := p.known(seq); isMessage && how&ByAck != 0 {
			n++
		}
	}
	return n
}

// next returns the lowest known seq, from seq on; Head+1 if there is none.
func (p *Places) next(seq uint64) uint64 {
	for seq = p.at.next(seq); seq <= p.Head; seq = p.at.next(seq + 1) {
		if *p.at.At(seq) != 0 {
			return seq
		}
	}
	return p.Head + 1
}
