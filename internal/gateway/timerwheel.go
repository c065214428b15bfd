//go:build linux

package gateway

// wheelSlots is how far ahead a wheel looks, in ticks. A connection that is due later is replanned once in each
// turn of the wheel.
const wheelSlots = 512

// wheel is the timer of one event loop: every open connection stands in the slot of the tick at which it is looked
// at next. It costs two pointers and a number for each connection, and no work for each frame: a frame only sets
// the time at which the connection was last heard. The next look is planned when the tick comes. Only the loop's
// goroutine touches the wheel.
type wheel struct {
	now   uint32 // ticks since the gateway was made
	slots [wheelSlots]*loopConn
}

// put plans the next look at c for a tick. An earlier plan is dropped.
func (w *wheel) put(c *loopConn, due uint32) {
	w.remove(c)
	if ahead := int32(due - w.now); ahead < 1 {
		due = w.now + 1
	} else if ahead >= wheelSlots {
		due = w.now + wheelSlots - 1
	}
	c.due, c.planned = due, true
	head := &w.slots[due%wheelSlots]
	c.prev, c.next = nil, *head
	if c.next != nil {
		c.next.prev = c
	}
	*head = c
}

// remove takes c out.
func (w *wheel) remove(c *loopConn) {
	if !c.planned {
		return
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		w.slots[c.due%wheelSlots] = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.next, c.prev, c.planned = nil, nil, false
}

// advance moves to a tick and calls look for the connections that have become due. look replans each that stays
// open.
func (w *wheel) advance(to uint32, look func(*loopConn)) {
	for int32(to-w.now) > 0 {
		w.now++
		for c := w.slots[w.now%wheelSlots]; c != nil; c = w.slots[w.now%wheelSlots] {
			w.remove(c)
			look(c)
		}
	}
}

// each calls look for every connection, which look may remove or replan.
func (w *wheel) each(look func(*loopConn)) {
	var all []*loopConn
	for _, c := range w.slots {
		for ; c != nil; c = c.next {
			all = append(all, c)
		}
	}
	for _, c := range all {
		look(c)
	}
}
