package stream

import (
	"slices"
	"sort"
	"time"

	"github.com/petrel-im/petrel/internal/bus/buspb"
)

const (
	frameCost = 96 // bytes a frame takes in memory beside what it carries
	// packetCost is added to the bytes of a packet's frames in the window, so that the window bounds packets
	// too.
	packetCost = 8 << 10
	fullPacket = 128 << 10 // bytes; a packet with more takes no further frame
	roomy      = 4096      // frames; space for more is given back when the ring is empty
	window     = 4 << 20   // bytes sent and not known to be applied; more waits
)

// kindReset is the kind of a frame that replaces all frames before it: the receiver has to read the state itself.
const kindReset = 0

// frame is a frame that, as far as the sender knows, is not applied yet.
type frame struct {
	kind    byte
	payload []byte
	hint    Hint
	at      time.Time
	flight  int // its bytes in the window; 0: not sent, or to be sent again
}

func (f *frame) cost() int { return len(f.payload) + f.hint.cost() }

func (h *Hint) cost() int { return len(h.Key) + len(h.Payload) + frameCost }

// out is one direction of a link, at its sender: a ring of the newest frames, without holes, and
// the hints of frames that left it.
type out struct {
	o *Options

	last    uint64  // number given last
	sent    uint64  // number handed to the bus last; goes back when the receiver wants something again
	applied uint64  // as the receiver says; never above sent
	ring    []frame // up to last; part of room
	room    []frame // the array of ring
	bytes   int     // of the ring
	flight  int     // of the ring

	// old has the hints of the frames that left the ring before they were applied, oldest first. A hint
	// supersedes an older one with the same key. A receiver that has applied all frames and hints up to a hint
	// misses nothing up to its number.
	old       []*oldHint
	byKey     map[hintKey]*oldHint // the hints of old that are not superseded
	hintBytes int                  // of byKey
	lostAt    time.Time            // when the oldest frame was sent that left the ring unapplied; zero: none did
}

type hintKey struct {
	kind byte
	key  string
}

type oldHint struct {
	num uint64
	Hint
	superseded bool
}

// first returns the number of the first frame of the ring, or, if it is empty, of the next frame.
func (t *out) first() uint64 { return t.last + 1 - uint64(len(t.ring)) }

// add appends a frame to the ring, and returns its number. If the ring gets too large, the oldest frames leave
// it (lose).
func (t *out) add(f frame) uint64 {
	t.last++
	if n := len(t.ring); n == cap(t.ring) { // the end is reached: go on at the beginning, if half of it is free
		to := t.room
		if 2*n >= len(to) {
			to = make([]frame, 2*n+16)
		}
		clear(to[copy(to, t.ring):])
		t.room, t.ring = to, to[:n]
	}
	t.ring = append(t.ring, f)
	t.bytes += f.cost()
	for t.bytes > t.o.RingBytes {
		t.lose()
	}
	return t.last
}

// pop takes the oldest frame from the ring.
func (t *out) pop() frame {
	f := t.ring[0]
	t.ring[0] = frame{} // or its payload would live as long as the array
	t.ring = t.ring[1:]
	t.bytes -= f.cost()
	t.flight -= f.flight
	return f
}

// age takes the frames that are too old out of the ring (lose).
func (t *out) age(now time.Time) {
	for len(t.ring) > 0 && now.Sub(t.ring[0].at) >= t.o.Ring {
		t.lose()
	}
}

// lose takes the oldest frame out of the ring and keeps its hint, which supersedes an older one with the same
// key. If the frame has no hint, nothing is kept of an optional frame; for any other one a reset replaces all
// hints. A reset replaces them also if they become too many or too large.
func (t *out) lose() {
	num, f := t.first(), t.pop()
	if t.lostAt.IsZero() {
		t.lostAt = f.at
	}
	switch {
	case f.hint.Kind == kindReset && f.hint.Optional:
		return
	case f.hint.Kind == kindReset:
		t.reset(num)
		return
	}
	k := hintKey{f.hint.Kind, f.hint.Key}
	if was := t.byKey[k]; was != nil {
		was.superseded = true
		t.hintBytes -= was.cost()
	}
	f.hint.Payload = slices.Clone(f.hint.Payload) // it may be part of what the frame carried
	h := &oldHint{num: num, Hint: f.hint}
	t.old = append(t.old, h)
	t.byKey[k] = h
	t.hintBytes += h.cost()
	if len(t.byKey) > t.o.Hints || t.hintBytes > t.o.RingBytes {
		t.reset(num)
	} else if len(t.old) > 2*len(t.byKey)+64 {
		t.old = slices.DeleteFunc(t.old, func(h *oldHint) bool { return h.superseded })
	}
}

// reset replaces all hints by one reset with the number num.
func (t *out) reset(num uint64) {
	clear(t.byKey)
	t.hintBytes = 0
	t.old = append(t.old[:0:0], &oldHint{num: num})
}

// ack drops the frames and hints that the receiver has applied.
func (t *out) ack(applied uint64) {
	if applied <= t.applied || applied > t.last {
		return
	}
	t.applied, t.sent = applied, max(t.sent, applied)
	for len(t.ring) > 0 && t.first() <= applied {
		t.pop()
	}
	if len(t.ring) == 0 && len(t.room) > roomy {
		t.ring, t.room = nil, nil // a burst is over
	}
	n := 0
	for ; n < len(t.old) && t.old[n].num <= applied; n++ {
		h := t.old[n]
		if k := (hintKey{h.Kind, h.Key}); t.byKey[k] == h {
			delete(t.byKey, k)
			t.hintBytes -= h.cost()
		}
		t.old[n] = nil
	}
	t.old = t.old[n:]
	if applied+1 >= t.first() {
		t.lostAt = time.Time{}
	}
}

// again makes the frames from want on due again, because the receiver misses them; 0: it misses none.
func (t *out) again(want uint64) {
	to := max(want-1, t.applied)
	if want == 0 || to >= t.sent {
		return
	}
	t.sent = to
	first := t.first()
	for i := range t.ring {
		if f := &t.ring[i]; first+uint64(i) > to {
			t.flight -= f.flight
			f.flight = 0
		}
	}
}

// fill puts the next frames into a packet. False: there are none, or the window is full.
func (t *out) fill(p *buspb.Packet) bool {
	p.First = t.sent + 1
	if t.sent == t.last || t.flight >= window {
		return false
	}
	if first := t.first(); p.First < first {
		t.fillOld(p, first-1)
	} else {
		t.fillNew(p, t.ring[p.First-first:])
	}
	t.sent = p.First + p.Count - 1
	return true
}

// fillOld puts hints into p, which replace the frames up to the number upTo. Hints that do not fit are left for
// the next packet.
func (t *out) fillOld(p *buspb.Packet, upTo uint64) {
	i := sort.Search(len(t.old), func(i int) bool { return t.old[i].num >= p.First })
	bytes := 0
	for ; i < len(t.old); i++ {
		h := t.old[i]
		if h.superseded {
			continue
		}
		if bytes += len(h.Payload) + frameCost; len(p.Frames) > 0 && bytes > fullPacket {
			break
		}
		p.Frames, p.Kinds, p.Offsets = append(p.Frames, h.Payload), append(p.Kinds, h.Kind),
			append(p.Offsets, h.num-p.First)
	}
	if i < len(t.old) { // the next hint goes into another packet
		upTo = t.old[i].num - 1
	}
	p.Count = upTo + 1 - p.First
}

func (t *out) fillNew(p *buspb.Packet, frames []frame) {
	bytes, flight := 0, packetCost
	for i := range frames {
		f := &frames[i]
		if bytes += len(f.payload) + frameCost; i > 0 && bytes > fullPacket {
			break
		}
		p.Frames, p.Kinds = append(p.Frames, f.payload), append(p.Kinds, f.kind)
		f.flight = flight + len(f.payload) + frameCost
		t.flight += f.flight
		flight = 0
	}
	p.Count = uint64(len(p.Frames))
}

// waiting returns for how long the oldest frame has not been applied; 0: all frames are.
func (t *out) waiting(now time.Time) time.Duration {
	switch {
	case !t.lostAt.IsZero():
		return now.Sub(t.lostAt)
	case len(t.ring) > 0:
		return now.Sub(t.ring[0].at)
	}
	return 0
}
