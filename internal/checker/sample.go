package checker

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// A sample is a short part of one conversation, with what ran at the time: appends, each
// of which was given a seq, and heads that were told.
type sample struct {
	conv  *conversation
	first uint64 // seq
	last  uint64
	ops   []porcupine.Operation
	reads bool
}

const (
	sampleSeqs  = 24
	sampleReads = 24
	sampleTime  = 2 * time.Second
	maxSamples  = 64 // of a part, then no more conversations are sampled
)

// append1 is an append that was given a seq; head is a head that was told.
type append1 uint64

type head uint64

// register is one conversation as a register to which entries are appended: its state is
// the head, and the n-th append gets the seq n.
func register(before uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return before },
		Step: func(state, input, _ any) (bool, any) {
			n := state.(uint64)
			if a, ok := input.(append1); ok {
				return uint64(a) == n+1, n + 1
			}
			return uint64(input.(head)) == n, n
		},
	}
}

// samples takes samples of the conversation: its beginning, its end, and some between.
func (c *conversation) samples(n int) (all []sample) {
	top := c.places.Head
	if n <= 0 || top == 0 {
		return nil
	}
	for i := range n {
		first := uint64(1)
		if top > sampleSeqs && n > 1 {
			first += (top - sampleSeqs) * uint64(i) / uint64(n-1)
		} else if i > 0 {
			break
		}
		if w := c.sampleOf(first, min(first+sampleSeqs-1, top)); len(w.ops) > 1 {
			all = append(all, w)
		}
	}
	return all
}

// sampleOf takes the appends of some seqs and the heads that were told of them.
func (c *conversation) sampleOf(first, last uint64) sample {
	w := sample{conv: c, first: first, last: last}
	for seq := first; seq <= last; seq++ {
		call, end := int64(math.MinInt64), int64(math.MaxInt64) // of an entry of which nobody knows more
		if what, isMessage, _ := c.places.known(seq); isMessage {
			m := c.messages.At(what)
			if m.invoked != 0 {
				call = m.invoked
			}
			if m.acked != 0 {
				end = m.acked
			}
		}
		w.ops = append(w.ops, porcupine.Operation{Input: append1(seq), Call: call, Return: end})
	}
	reads := 0
	for i := range c.heads {
		h := &c.heads[i]
		if h.began == 0 || h.at == 0 || h.value+1 < first || h.value > last || reads == sampleReads || !c.may(h.user, math.MaxUint64, math.MaxUint64) {
			continue
		}
		reads++
		w.ops = append(w.ops, porcupine.Operation{ClientId: reads, Input: head(h.value), Call: h.began, Return: h.at})
	}
	w.reads = reads > 0
	return w
}

// search looks for an order of each sample that agrees with its times.
func (p *part) search() error {
	for _, w := range p.samples {
		p.sums.Samples++
		switch porcupine.CheckOperationsTimeout(register(w.first-1), w.ops, sampleTime) {
		case porcupine.Unknown:
			p.sums.Undecided++
		case porcupine.Illegal:
			class := Reordered
			if w.reads {
				class = Stale
			}
			w.conv.convict(class, 1, w.first, nil, "%s: from seq %d to %d there is no order of what was sent and read that agrees with the clock", w.conv.id, w.first, w.last)
		}
	}
	return nil
}
