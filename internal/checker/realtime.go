package checker

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
)

// realTime finds messages that have a lower seq than one that was acked before they were sent. It goes through
// the seqs in ascending order: no message may be acked before one with a lower seq was invoked.
func (c *conversation) realTime() {
	var last int64 // the latest Invoke of the messages with lower seqs
	var by uint64
	for seq := c.places.next(1); seq <= c.places.Head; seq = c.places.next(seq + 1) {
		what, isMessage, _ := c.places.known(seq)
		if !isMessage {
			continue
		}
		m := c.messages.At(what)
		if uint64(m.seq) != seq {
			continue
		}
		if m.acked != 0 && last > m.acked {
			c.convict(Reordered, 1, seq, &Op{where: m.where},
				"%s: %s was acked at seq %d before that at seq %d was sent", c.id, c.part.name(m), seq, by)
		}
		if m.invoked > last {
			last, by = m.invoked, seq
		}
	}
}

// highest returns a function that returns the highest value told before a moment; 0: none was. It sorts all.
func highest(all []told) func(before int64) uint64 {
	slices.SortFunc(all, func(a, b told) int { return cmp.Compare(a.at, b.at) })
	top := make([]uint64, len(all)+1)
	for i, t := range all {
		top[i+1] = max(top[i], t.value)
	}
	return func(before int64) uint64 {
		return top[sort.Search(len(all), func(i int) bool { return all[i].at >= before })]
	}
}

// staleHeads finds heads below a seq that was acked or told before they were requested. It also finds messages
// that were sent after a head was told, and have a seq that is not above that head.
func (c *conversation) staleHeads() {
	if len(c.heads) == 0 {
		return
	}
	all := slices.DeleteFunc(slices.Clone(c.heads), func(t told) bool { return t.at == 0 })
	head := highest(all)
	for i := uint64(1); i <= uint64(c.count); i++ {
		m := c.messages.At(i)
		if m.seq == 0 || m.seq == None {
			continue
		}
		if m.acked != 0 {
			all = append(all, told{at: m.acked, value: uint64(m.seq)})
		}
		if was := head(m.invoked); was >= uint64(m.seq) {
			c.convict(Stale, 1, uint64(m.seq), &Op{where: m.where},
				"%s: %s was sent after the head %d was told, and stands at seq %d", c.id, c.part.name(m), was, m.seq)
		}
	}
	known := highest(all)
	for i := range c.heads {
		h := &c.heads[i]
		if want := known(h.began); h.began > 0 && h.value < want && c.may(h.user, math.MaxUint64, math.MaxUint64) {
			c.convict(Stale, 1, h.value, &Op{where: h.where},
				"%s: %s is told the head %d, and seq %d was acked or told before they asked", c.id, h.user, h.value,
				want)
		}
	}
}

// receipt takes a pair of cursors that a client was told.
func (c *conversation) receipt(op *Op) {
	b := c.cursors[op.About]
	if b == nil {
		b = &cursorBook{pushed: map[string][2]uint64{}}
		c.cursors[op.About] = b
	}
	if op.Seq > 0 && op.ReadUpTo > op.Seq {
		c.convict(Cursor, 1, op.Seq, op, "%s: %s has read up to %d, and only %d is delivered to them", c.id, op.About,
			op.ReadUpTo, op.Seq)
	}
	if op.Began == 0 {
		was := b.pushed[op.Session]
		if op.ReadUpTo < was[0] || op.Seq != 0 && op.Seq < was[1] {
			c.convict(Cursor, 1, op.Seq, op,
				"%s: the cursors of %s go back from read %d, delivered %d to read %d, delivered %d", c.id, op.About,
				was[0], was[1], op.ReadUpTo, op.Seq)
		}
		b.pushed[op.Session] = [2]uint64{max(was[0], op.ReadUpTo), max(was[1], op.Seq)}
	}
	t := told{op.Began, op.At, op.ReadUpTo, op.User, op.where}
	b.answers = append(b.answers, t)
	t.value = op.Seq
	b.delivery = append(b.delivery, t)
}

// closeCursors compares the cursors with the head, and answers with what was told before the request.
func (c *conversation) closeCursors() {
	for _, about := range slices.Sorted(maps.Keys(c.cursors)) {
		b := c.cursors[about]
		for i, list := range [][]told{b.answers, b.delivery} {
			name := [...]string{"read", "delivered"}[i]
			timed := slices.DeleteFunc(slices.Clone(list), func(t told) bool { return t.at == 0 })
			known := highest(timed)
			for _, t := range list {
				if head := c.head(); head > 0 && t.value > head {
					c.convict(Cursor, 1, t.value, &Op{where: t.where},
						"%s: the %s cursor of %s is %d, above the head %d", c.id, name, about, t.value, head)
				}
				if want := known(t.began); t.began > 0 && t.value < want && (i == 0 || t.value > 0) {
					c.convict(Cursor, 1, t.value, &Op{where: t.where},
						"%s: the %s cursor of %s is told as %d, and was told as %d before that was asked", c.id, name,
						about, t.value, want)
				}
			}
		}
	}
}
