package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

const (
	handshakeTimeout = 5 * time.Second
	minReadBuffer    = 1 << 10  // bytes; doubled whenever a read fills it, up to maxReadBuffer
	maxReadBuffer    = 16 << 10 // bytes; a TLS record
	writeChunk       = 16 << 10 // bytes of one write, after which the outbox learns what is left; a TLS record
)

// stream is a connection with a goroutine of its own: each TLS connection, and, where there are no event loops, every
// plaintext one. This goroutine is the reading goroutine of conn; the read deadline is its timer. A second goroutine
// writes; it lives only while there is something to write.
type stream struct {
	conn
	g      *Gateway
	nc     net.Conn
	reader reader
	opened time.Time
	mark   time.Time // when it was last heard or probed, or its end was decided
	probes int       // since it was last heard
	excess int       // bytes read after the end
	late   int       // reads after the end

	evicted atomic.Bool    // it has lost its place to another connection
	began   bool           // of the writer: it has written once, and woken the reader to count a welcome
	writers sync.WaitGroup // at most one
	mu      sync.Mutex     // tier 0; guards the fields below
	out     []byte         // bytes of put: control frames, and ends without a session
	fin     bool           // close after out
	quick   bool           // the peer sends nothing more
	again   bool           // the outbox has something to write
	writing bool           // there is a writer; stays so after the end
	written bool           // the end is written
	closed  bool           // no writer may start any more
}

// serve runs a connection until it is gone. early has the bytes that were read already.
func (s *stream) serve(early []byte) {
	defer s.g.closed(s)
	if !s.g.handshakeTLS(s.nc, s.place.await) {
		s.drop()
		return
	}
	s.place.await(time.Now())
	if a, ok := clientConnOf(s.nc); ok {
		a.stall = s.g.o.WriteStall
	}
	s.reader.g = s.g
	s.reader.flusher = fanout.NewFlusher(s.wake)
	s.reader.flusher.Meter = &s.g.hub.Meter
	s.opened = time.Now()
	s.mark = s.opened
	func() {
		defer s.rescue()
		s.read(early)
	}()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.drop() // also ends a write under way
	s.writers.Wait()
	s.leave()
	s.reader.wakeUps.Flush()
}

// rescue recovers from a panic in the reading goroutine, and logs it. The connection ends, the others go on.
func (s *stream) rescue() {
	if p := recover(); p != nil {
		s.g.panicked(p, debug.Stack())
	}
}

// read reads from the socket and passes the input on, until the connection is over. b has the bytes that were read
// already. Whenever the read deadline has passed, read does what is due.
func (s *stream) read(b []byte) {
	if len(b) > 0 {
		s.input(b, &s.reader, s)
		s.reader.wakeUps.Flush()
	}
	s.wait(s.deadline())
	buf := make([]byte, minReadBuffer)
	for {
		n, err := s.nc.Read(buf)
		s.g.pauseWhilePressed()
		switch {
		case n == 0:
		case s.deaf:
			if s.tooMuch(n) {
				return
			}
		default:
			s.mark, s.probes = time.Now(), 0
			s.input(buf[:n], &s.reader, s)
			s.reader.wakeUps.Flush()
			if s.deaf {
				s.wait(s.deadline())
			}
		}
		if n == len(buf) && n < maxReadBuffer {
			buf = make([]byte, 2*n)
		}
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return
		case s.over():
			s.linger(buf)
			return
		default:
			s.expire()
		}
	}
}

// over reports whether the end is written.
func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// linger waits for the peer to close, at most for the grace, so that the kernel does not reset the connection
// before the peer has read its end. If quick, it does not wait.
func (s *stream) linger(buf []byte) {
	s.leave()
	s.reader.wakeUps.Flush()
	s.mu.Lock()
	quick := s.quick
	s.mu.Unlock()
	if quick {
		return
	}
	_ = s.nc.SetReadDeadline(time.Now().Add(s.g.grace))
	for {
		n, err := s.nc.Read(buf)
		if err != nil || s.tooMuch(n) {
			return
		}
	}
}

// tooMuch counts a read of n bytes after the end, and reports whether the socket is closed because of it.
func (s *stream) tooMuch(n int) bool {
	s.excess += n
	s.late++
	return s.excess > maxExcess || s.tooLate(s.late)
}

// wait sets the read deadline. Another goroutine wakes the reader by setting a flag and then a deadline of now,
// which this call may replace. So wait looks at the flags after it has set its own deadline.
func (s *stream) wait(until time.Time) {
	_ = s.nc.SetReadDeadline(until)
	if s.over() || (s.g.ending.Load() || s.evicted.Load()) && !s.deaf {
		s.poke()
	}
}

// poke has the reading goroutine look at the flags: it sets the read deadline to now.
func (s *stream) poke() { _ = s.nc.SetReadDeadline(time.Now()) }

// deadline returns when the connection has to be looked at next; zero: never. It first counts a welcome.
func (s *stream) deadline() time.Time {
	if s.sess != nil && !s.deaf {
		s.noteWelcome()
	}
	switch {
	case s.deaf: // the writer ends it, and wakes the reader
		return s.mark.Add(s.g.grace)
	case !s.greeted():
		return s.opened.Add(s.g.o.HelloTimeout)
	case s.g.o.Heartbeat < 0:
		return time.Time{}
	}
	return s.mark.Add(s.g.o.Heartbeat)
}

// expire does what is due: it ends the connection if the gateway ends, if the connection has lost its place before
// its welcome, or after the hello timeout; it probes a silent peer, and ends a dead link; it closes the socket if
// the end was not written within the grace. Then it sets the next deadline. Spec: P-3.1, P-7, P-9.3.
func (s *stream) expire() {
	was, due := s.deaf, s.deadline()
	late := !due.IsZero() && !time.Now().Before(due)
	switch {
	case s.deaf && late: // the end was not written in time
		s.drop()
	case s.deaf:
	case s.g.ending.Load():
		s.end(s.g.draining(), &s.reader, s)
	case s.evicted.Load() && !s.greeted():
		s.end(&im.Error{Code: im.CodeHelloTimeout}, &s.reader, s)
	case !late:
	case !s.greeted():
		s.end(&im.Error{Code: im.CodeHelloTimeout}, &s.reader, s)
	case s.probes >= s.g.o.Misses:
		s.end(&im.Error{Code: im.CodeDeadLink}, &s.reader, s)
	default:
		s.probes++
		s.mark = time.Now() // a whole interval to answer, however late this look was
		s.sess.Probe(&s.reader.wakeUps)
	}
	if s.deaf != was {
		s.mark = time.Now()
	}
	s.reader.wakeUps.Flush()
	s.wait(s.deadline())
}

// put queues b for the writer.
func (s *stream) put(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, b...)
	s.startLocked()
}

func (s *stream) finish(quick bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fin, s.quick = true, quick
	s.startLocked()
}

func (s *stream) busy(limit int) bool {
	s.mu.Lock()
	n := len(s.out)
	s.mu.Unlock()
	if s.sess != nil {
		n += s.sess.Out.Pending()
	}
	return n > limit
}

// wake has the writer look at the outbox. The flusher calls it.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = true
	s.startLocked()
}

// startLocked starts a writer if there is none.
func (s *stream) startLocked() {
	if !s.writing && !s.closed {
		s.writing = true
		s.writers.Go(s.write)
	}
}

// write is the writer. It writes s.out and the outbox, until both are empty or the end is written. After a failed
// write it closes the socket.
func (s *stream) write() {
	var list []*fanout.Outbox
	for {
		s.mu.Lock()
		out, fin, again := s.out, s.fin, s.again
		s.out, s.again = nil, false
		if len(out) == 0 && !fin && !again {
			s.writing = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		ok := s.send(out, nil)
		if again && !fin {
			list = s.reader.flusher.Take(list)
			for _, o := range list { // one, or none
				p, end := o.Take()
				ok = ok && s.send(p.Bytes, o)
				o.Wrote(p, 0)
				if end != nil {
					fin = true
					ok = ok && s.send(s.closing(nil, end, s.g), nil)
				}
			}
		}
		switch {
		case !ok:
			s.drop()
			return
		case fin:
			s.shut()
			return
		case !s.began:
			s.began = true
			s.poke()
		}
	}
}

// send writes b, and reports to o, if there is one, how much of it is left. It returns false if a write fails, and
// counts a peer that takes nothing for WriteStall. Spec: P-6.4.
func (s *stream) send(b []byte, o *fanout.Outbox) bool {
	for len(b) > 0 {
		n, err := s.nc.Write(b[:min(len(b), writeChunk)])
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.g.ended(&im.Error{Code: im.CodeSlowConsumer}) // a kick would not reach the peer
			}
			return false
		}
		if b = b[n:]; o != nil && len(b) > 0 {
			o.Backlog(len(b))
		}
	}
	return true
}

// shut shuts the socket for writing, and leaves the rest to the reader.
func (s *stream) shut() {
	if t, ok := s.nc.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	if t, ok := bottom(s.nc).(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
	s.mu.Lock()
	s.written = true
	s.mu.Unlock()
	s.poke()
}

// evict has the reading goroutine end a connection that has lost its place to another one, unless it was welcomed
// meanwhile. Any goroutine may call it.
func (s *stream) evict() {
	s.evicted.Store(true)
	s.poke()
}

// drop closes the socket at once, without a TLS alert, which could block.
func (s *stream) drop() { _ = bottom(s.nc).Close() }

// bottom returns the socket below the layers of a connection.
func bottom(nc net.Conn) net.Conn {
	if a, ok := clientConnOf(nc); ok {
		return a.TCPConn
	}
	if t, ok := nc.(*tls.Conn); ok {
		return t.NetConn()
	}
	return nc
}
