package stream

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus/buspb"
)

// world is two nodes, a network that does what it likes, and a clock, all moved
// by one dice. It knows what was sent and checks what is applied.
type world struct {
	t     *testing.T
	seed  uint64
	dice  *rand.Rand
	now   time.Time
	o     Options
	nodes [2]*end
	wire  []flying
	log   []string

	resets, hints int

	lose, double float64 // of every packet
	cut          [2]bool // by sender: its packets are lost
}

type flying struct {
	to   int
	at   time.Time // arrives
	data []byte
}

// end is one process.
type end struct {
	pair
	name uint64

	// The frames that this end has sent in its present link, by number; the numbers of the
	// values; and the frames of the other end that it has applied
	sent    map[uint64]sentFrame
	numOf   map[uint64]uint64
	link    *link           // of the last up
	seen    map[uint64]bool // values applied as frames
	newest  map[byte]uint64 // key → value applied last, by frame or hint
	resetAt uint64          // a reset has told of all missing values up to here
	ups     int
}

type sentFrame struct {
	key      byte
	value    uint64
	hintless bool
	optional bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 9)), now: time.Unix(0, 0)}
	w.o = Options{Ring: 3 * time.Second, RingBytes: 16 << 20, Hints: 64, Beacon: 500 * time.Millisecond, Forget: 30 * time.Second}
	if w.dice.IntN(2) == 0 {
		w.o.RingBytes = 1000 + w.dice.IntN(3000) // about 5 to 20 frames
	}
	if w.dice.IntN(2) == 0 {
		w.o.Hints = 1 + w.dice.IntN(4)
	}
	w.nodes[0], w.nodes[1] = w.start(), w.start()
	return w
}

func (w *world) start() *end {
	w.logf("start")
	n := &end{name: w.dice.Uint64()}
	n.pair = pair{o: &w.o, incarnation: n.name, draw: func() uint64 { return max(w.dice.Uint64(), 1) }}
	return n
}

func (w *world) logf(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(l)
	}
	w.t.Fatalf("seed %d: %s", w.seed, fmt.Sprintf(format, args...))
}

// value is the payload of frames, hints and all: kind 1 is a frame, kind 2 a
// hint of what key stands at.
func payload(key byte, value uint64) []byte { return binary.BigEndian.AppendUint64([]byte{key}, value) }

// send sends one frame from a node, if it has a link.
func (w *world) send(i int) {
	n := w.nodes[i]
	key, value := byte(w.dice.IntN(6)), w.dice.Uint64()
	f := sentFrame{key: key, value: value}
	h := Hint{Kind: 2, Key: string(rune(key)), Payload: payload(key, value)}
	switch w.dice.IntN(20) {
	case 0:
		f.hintless, h = true, Hint{}
	case 1:
		f.optional, h = true, Hint{Optional: true}
	}
	m, ok := n.send(1, payload(key, value), h, w.now)
	if !ok {
		return
	}
	if m.Num == 1 {
		n.sent, n.numOf = map[uint64]sentFrame{}, map[uint64]uint64{}
	}
	n.sent[m.Num], n.numOf[value] = f, m.Num
	w.logf("%d sends %d: key %d", i, m.Num, key)
}

// flush puts what a node has to say on the wire.
func (w *world) flush(i int) {
	n := w.nodes[i]
	for {
		var p buspb.Packet
		if !n.next(&p) {
			return
		}
		data, err := p.MarshalVT()
		if err != nil {
			w.fail("marshal: %v", err)
		}
		w.logf("%d packet first %d count %d frames %d applied %d want %d from %x to %x", i, p.First, p.Count, len(p.Frames), p.Applied, p.Want, p.From>>48, p.To>>48)
		if w.cut[i] || w.dice.Float64() < w.lose {
			w.logf("  lost")
			continue
		}
		w.wire = append(w.wire, flying{1 - i, w.now.Add(time.Duration(w.dice.IntN(300)) * time.Millisecond), data})
		if w.dice.Float64() < w.double {
			w.wire = append(w.wire, flying{1 - i, w.now.Add(time.Duration(w.dice.IntN(5000)) * time.Millisecond), data})
		}
	}
}

// arrive delivers what is due.
func (w *world) arrive() {
	for k := 0; k < len(w.wire); k++ {
		f := w.wire[k]
		if f.at.After(w.now) {
			continue
		}
		w.wire = append(w.wire[:k], w.wire[k+1:]...)
		k--
		var p buspb.Packet
		if err := p.UnmarshalVT(f.data); err != nil {
			w.fail("unmarshal: %v", err)
		}
		if !w.nodes[f.to].receive(&p, len(f.data), w.now) {
			w.fail("packet refused: %v", &p)
		}
	}
}

// handle runs the handlers of a node for some of what it has.
func (w *world) handle(i int) {
	n := w.nodes[i]
	for {
		it, ok := n.pop()
		if !ok {
			return
		}
		switch {
		case it.up:
			if n.link != nil {
				w.fail("%d: up before the end of the last one", i)
			}
			n.link, n.seen, n.newest, n.resetAt, n.ups = it.link, map[uint64]bool{}, map[byte]uint64{}, 0, n.ups+1
			w.logf("%d up %x", i, it.link.them>>48)
		case it.down:
			if n.link != it.link {
				w.fail("%d: down without up", i)
			}
			n.link = nil
			w.logf("%d down", i)
		default:
			if n.link != it.link {
				w.fail("%d: frames of a link that is not up", i)
			}
			w.apply(i, it)
		}
		n.applied(it)
	}
}

func (w *world) apply(i int, it item) {
	n, peer := w.nodes[i], w.nodes[1-i]
	for k, p := range it.frames {
		switch it.kinds[k] {
		case kindReset:
			w.resets++
			n.resetAt = it.last
			w.logf("%d reset", i)
			continue
		case 1:
			v := binary.BigEndian.Uint64(p[1:])
			if n.seen[v] {
				w.fail("%d: frame applied twice", i)
			}
			n.seen[v] = true
		case 2:
			w.hints++
		}
		n.newest[p[0]] = binary.BigEndian.Uint64(p[1:])
	}
	w.logf("%d applied up to %d", i, it.last)
	if l := peer.pair.link; l != nil && l.us == it.link.them && l.them == it.link.us { // else the sender has forgotten
		w.complete(i, it.last)
	}
}

// complete finds nothing missing of what node i has applied up to a number: each
// frame behind a reset was applied, or its key stands at its value or a newer
// one, or nobody misses it.
func (w *world) complete(i int, upTo uint64) {
	n, peer := w.nodes[i], w.nodes[1-i]
	for num := n.resetAt + 1; num <= upTo; num++ {
		f := peer.sent[num]
		switch {
		case f.optional:
		case f.hintless && !n.seen[f.value]:
			w.fail("%d: frame %d is missing, and no reset told of it", i, num)
		case !f.hintless && peer.numOf[n.newest[f.key]] < num:
			w.fail("%d: key %d stands at frame %d, frame %d is missing", i, f.key, peer.numOf[n.newest[f.key]], num)
		}
	}
}

// settle heals everything and lets time pass.
func (w *world) settle() {
	w.lose, w.double, w.cut = 0, 0, [2]bool{}
	w.logf("settle")
	for range 30 * 5 {
		w.step(0)
	}
}

// step lets 100 ms pass.
func (w *world) step(sends float64) {
	w.now = w.now.Add(100 * time.Millisecond)
	beat := w.now.UnixMilli()%500 == 0
	for i, n := range w.nodes {
		for w.dice.Float64() < sends {
			w.send(i)
		}
		if beat {
			n.beat(w.now)
		}
	}
	w.arrive()
	for i := range w.nodes {
		w.handle(i)
		w.flush(i)
	}
}

// check finds both ends agreed, and nothing missing.
func (w *world) check() {
	for i, n := range w.nodes {
		peer := w.nodes[1-i]
		if n.pair.link == nil || n.link != n.pair.link || peer.pair.link == nil || n.pair.link.us != peer.pair.link.them {
			w.fail("%d: no agreement after %s of peace", i, 15*time.Second)
		}
		if got, want := n.pair.link.applied, peer.pair.link.out.last; got != want {
			w.fail("%d: applied up to %d of %d", i, got, want)
		}
		if l := &n.pair.link.out; len(l.ring) != 0 || l.bytes != 0 || l.flight != 0 || len(l.old) != 0 || len(l.byKey) != 0 || l.hintBytes != 0 || !l.lostAt.IsZero() {
			w.fail("%d: what was applied is still kept: %+v", i, l)
		}
		if n.queued != 0 {
			w.fail("%d: %d bytes wait for nobody", i, n.queued)
		}
		w.complete(i, n.pair.link.applied)
	}
}

// Random schedules of two nodes that send, lose, double, delay, are cut in one
// direction or both, and restart; each ends in peace, where nothing may be
// missing.
func TestF9RandomSchedulesLoseNothing(t *testing.T) {
	ups, resets, hints := 0, 0, 0
	for seed := range uint64(schedules) {
		w := newWorld(t, seed)
		for range 1 + w.dice.IntN(4) {
			w.lose, w.double = w.dice.Float64()*0.7, w.dice.Float64()*0.3
			w.cut = [2]bool{w.dice.IntN(4) == 0, w.dice.IntN(4) == 0}
			sends := w.dice.Float64() * 0.9
			for range w.dice.IntN(60) {
				w.step(sends)
			}
			if w.dice.IntN(3) == 0 {
				i := w.dice.IntN(2)
				w.logf("%d restarts", i)
				w.nodes[i] = w.start()
			}
		}
		w.settle()
		w.check()
		for _, n := range w.nodes {
			ups += n.ups
		}
		resets, hints = resets+w.resets, hints+w.hints
	}
	t.Logf("%d agreements, %d resets, %d hints", ups, resets, hints)
	if ups < 2*schedules || resets < schedules/10 || hints < schedules {
		t.Errorf("%d agreements, %d resets, %d hints: the schedules are too tame", ups, resets, hints)
	}
}

// F9c: a process asks for streams and dies; its successor asks too, and then the
// former one's answer arrives.
func TestF9cAFormerProcessIsNotAdopted(t *testing.T) {
	names := uint64(0)
	c := pair{o: &Options{}, draw: func() uint64 { names++; return names }}
	say := func(from, to uint64) (heard uint64) {
		var p buspb.Packet
		c.receive(&buspb.Packet{From: from, To: to}, 0, time.Time{})
		c.next(&p)
		return p.From
	}
	const dead, alive = 101, 102
	first := say(dead, 0)
	second := say(alive, 0)
	say(dead, first)
	if c.link != nil {
		t.Fatal("the former process was adopted")
	}
	say(alive, second)
	if c.link == nil || c.link.them != alive {
		t.Errorf("the present process was not adopted")
	}
	say(alive, 0) // from before it knew
	if it, _ := c.pop(); !it.up || len(c.queue) != 0 || c.offer.us != 0 {
		t.Error("what was said before the agreement ended it")
	}
}
