package stream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wake"
)

// peer returns the peer n, and makes it if necessary; nil for this node, and while Run does not run.
func (s *Streams) peer(n im.Node) *peer {
	if p := (*s.peers.Load())[n]; p != nil {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := (*s.peers.Load())[n]; p != nil || s.ctx == nil || n == s.bus.Self() {
		return p
	}
	ctx, stop := context.WithCancel(s.ctx)
	p := &peer{node: n, work: make(chan struct{}, 1), stop: stop,
		pair: pair{o: &s.o, incarnation: s.incarnation, draw: random}}
	s.replace(func(peers map[im.Node]*peer) { peers[n] = p })
	s.wg.Go(func() { s.handle(ctx, p) })
	return p
}

// replace changes the map of peers. s.mu is held.
func (s *Streams) replace(change func(map[im.Node]*peer)) {
	peers := maps.Clone(*s.peers.Load())
	change(peers)
	s.peers.Store(&peers)
}

// drop forgets p, unless it has a link again, frames wait for the handlers, or a goroutine waits for a frame.
func (s *Streams) drop(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.mu.Lock()
	p.gone = p.pair.link == nil && len(p.pair.queue) == 0 && !p.pair.handling && len(p.waiters) == 0
	gone := p.gone
	p.mu.Unlock()
	if gone {
		p.stop()
		s.replace(func(peers map[im.Node]*peer) { delete(peers, p.node) })
	}
}

// flushSoon makes Run send what is due to p.
func (s *Streams) flushSoon(p *peer) {
	if !p.dirty.Swap(true) {
		wake.Set(s.wake)
	}
}

// Run sends and receives until ctx ends. Then it tells the peers that this process ends.
func (s *Streams) Run(ctx context.Context) error {
	handling, stop := context.WithCancel(ctx)
	s.mu.Lock()
	s.ctx = handling
	s.mu.Unlock()
	defer func() {
		stop()
		s.mu.Lock()
		s.ctx = nil // no peer begins any more
		s.mu.Unlock()
		s.wg.Wait()
	}()
	f := flusher{s: s}
	beat := time.NewTicker(s.o.Beacon)
	defer beat.Stop()
	s.beat()
	for {
		f.flush()
		select {
		case <-s.wake:
			f.gather()
		case <-beat.C:
			s.beat()
		case <-ctx.Done():
			f.bye()
			return nil
		}
	}
}

// beat makes a beacon due for every peer. Nodes of the bus that are no peers yet become peers. A peer that has
// left the bus, and has had no link for Options.Forget, is dropped.
func (s *Streams) beat() {
	now := time.Now()
	there := s.bus.Peers()
	for _, n := range there {
		s.peer(n)
	}
	for _, p := range *s.peers.Load() {
		p.mu.Lock()
		p.pair.beat(now)
		idle := p.pair.alone > s.o.forget()
		p.mu.Unlock()
		if idle && !slices.Contains(there, p.node) {
			s.drop(p)
			continue
		}
		s.flushSoon(p)
		wake.Set(p.work)
	}
}

// receive takes a packet from the bus.
func (s *Streams) receive(from im.Node, payload []byte, _ func([]byte)) {
	p := s.peer(from)
	if p == nil {
		return
	}
	s.ReceivedPackets.Add(1)
	var packet buspb.Packet
	if err := packet.UnmarshalVTUnsafe(payload); err != nil {
		s.Garbled.Add(1)
		return
	}
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return // the next packet of the node makes a new peer
	}
	ok := p.pair.receive(&packet, len(payload), time.Now())
	if packet.Want != 0 {
		s.Again.Add(1)
	}
	send, work := p.pair.ready(), len(p.pair.queue) > 0
	p.mu.Unlock()
	if !ok {
		s.Garbled.Add(1)
	}
	if send {
		s.flushSoon(p)
	}
	if work {
		wake.Set(p.work)
	}
}

// handle runs the handlers for the frames of a peer.
func (s *Streams) handle(ctx context.Context, p *peer) {
	for {
		p.mu.Lock()
		i, ok := p.pair.pop()
		p.mu.Unlock()
		if !ok {
			select {
			case <-p.work:
				continue
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		s.apply(p.node, i)
		p.mu.Lock()
		p.pair.applied(i)
		p.look()
		due := p.pair.ready()
		p.mu.Unlock()
		if due {
			s.flushSoon(p)
		}
	}
}

func (s *Streams) apply(from im.Node, i item) {
	if i.up || i.down {
		for _, f := range s.onPeer {
			f(from, i.up)
		}
		return
	}
	for n, payload := range i.frames {
		switch h := s.handlers[i.kinds[n]]; {
		case i.kinds[n] == kindReset:
			for _, f := range s.onReset {
				f(from)
			}
		case h == nil:
			s.Unknown.Add(1)
		default:
			h(from, payload)
		}
	}
	for _, f := range s.onBatch {
		f(from)
	}
	s.AppliedFrames.Add(uint64(len(i.frames)))
}

// look wakes the waiters whose frame has been applied, or never will be. p.mu is held.
func (p *peer) look() {
	p.waiters = slices.DeleteFunc(p.waiters, func(w waiter) bool {
		reached, over := p.pair.reached(w.mark)
		if reached || over {
			close(w.done)
		}
		return reached || over
	})
}

// flusher sends the packets. Only Run's goroutine uses it.
type flusher struct {
	s      *Streams
	packet buspb.Packet
	buf    []byte
	sent   time.Time // time of the last packet

	busy    bool // many frames were sent lately
	counted uint64
	since   time.Time // when they were counted
}

// A packet costs the two nodes a dozen switches of goroutines and three system calls, however small it is. So a
// node that sends many frames waits up to gather for others that share the packet. A node that sends few frames
// would wait in vain.
const (
	gather     = time.Millisecond
	manyFrames = 8000 // a second
	countFor   = 50 * time.Millisecond
)

// gather waits for more frames, if many were sent lately.
func (f *flusher) gather() {
	now := time.Now()
	if took := now.Sub(f.since); took >= countFor {
		n := f.s.SentFrames.Load()
		f.busy = float64(n-f.counted) >= manyFrames*took.Seconds()
		f.counted, f.since = n, now
	}
	if rest := gather - now.Sub(f.sent); f.busy && rest > 0 {
		time.Sleep(rest)
	}
}

// flush sends what is due to each peer.
func (f *flusher) flush() {
	for _, p := range *f.s.peers.Load() {
		if !p.dirty.Swap(false) {
			continue
		}
		for f.next(p) && f.send(p.node) == nil {
			f.sent = time.Now()
		}
	}
}

func (f *flusher) next(p *peer) bool {
	m := &f.packet
	*m = buspb.Packet{Frames: m.Frames[:0], Kinds: m.Kinds[:0], Offsets: m.Offsets[:0]}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pair.next(m)
}

// send sends f.packet. If the bus does not take it, its frames are lost, and the receiver asks for them again.
func (f *flusher) send(to im.Node) error {
	m, s := &f.packet, f.s
	size := m.SizeVT()
	f.buf = slices.Grow(f.buf[:0], size)[:size]
	if _, err := m.MarshalToSizedBufferVT(f.buf); err != nil {
		return err
	}
	clear(m.Frames) // the ring owns the payloads
	s.SentPackets.Add(1)
	s.SentFrames.Add(uint64(len(m.Frames)))
	if n := len(m.Offsets); n > 0 {
		s.Hinted.Add(uint64(n))
		for _, k := range m.Kinds {
			if k == kindReset {
				s.Resets.Add(1)
			}
		}
	}
	return s.bus.Send(to, Subject, f.buf)
}

// bye tells all peers that this process ends.
func (f *flusher) bye() {
	for _, p := range *f.s.peers.Load() {
		p.mu.Lock()
		l := p.pair.link
		p.mu.Unlock()
		if l != nil {
			f.packet = buspb.Packet{From: l.us, To: l.them, Bye: true}
			_ = f.send(p.node) // else it notices the silence
		}
	}
}
