package api

import (
	"container/list"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

const (
	// streamCost is the memory of a request of HTTP/2 while it is under way: its goroutine, buffers and
	// headers, also if it is refused.
	streamCost = 32 << 10
	// partOfHost is the divisor for one address: its requests of HTTP/2 may have a half of the bytes under way.
	partOfHost = 2
)

// streams are the requests of HTTP/2 under way on a listener. One connection may have a hundred, and each may
// wait for a client that reads nothing. A request of HTTP/1 has a connection of its own, which is counted.
// The zero value is ready.
type streams struct {
	mu    sync.Mutex // tier 0; guards the fields below, and those of each host and stream
	all   int
	hosts map[netip.Prefix]*hostStreams
}

// hostStreams are the streams of one address.
type hostStreams struct {
	n       int
	waiting list.List // of *stream, oldest first: those that wait for their clients, and may be ended
}

// stream is one request of HTTP/2.
type stream struct {
	of   *streams
	host netip.Prefix
	stop func()        // ends it
	e    *list.Element // nil: it does not wait for its client
	kept bool          // it is that of an admin key
	over bool          // it has left or was ended, and does not count
}

// enterStream counts a request of HTTP/2 until leave is called. At the bound it ends the oldest stream that waits
// for its client: of the same address, or of the address with the most waiting streams. false: there is none.
// Requests of HTTP/1 are not counted.
func (s *Server) enterStream(on Listener, w http.ResponseWriter, r *http.Request, c *call) (leave func(), ok bool) {
	if r.ProtoMajor != 2 {
		return func() {}, true
	}
	control := http.NewResponseController(w)
	x := &stream{of: &s.admission.streams[on], host: rate.Host(addrOf(r.RemoteAddr)), stop: func() {
		// An error means that the connection is over, and the stream with it.
		_ = control.SetReadDeadline(time.Unix(1, 0))
		_ = control.SetWriteDeadline(time.Unix(1, 0))
	}}
	if most := s.o.UnderWayBytes / streamCost; !x.enter(most, most/partOfHost) {
		return nil, false
	}
	c.stream = x
	return x.leave, true
}

// enter reserves a slot within the bounds of all and of the host. The stream then waits for the client to
// send the body.
func (x *stream) enter(all, ofHost int) bool {
	s := x.of
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[x.host]
	if h != nil && h.n >= ofHost {
		if !s.endOldestLocked(h) {
			return false
		}
	} else if s.all >= all && !s.endOldestLocked(s.mostWaitingLocked()) {
		return false
	}
	if s.hosts == nil {
		s.hosts = map[netip.Prefix]*hostStreams{}
	}
	if h = s.hosts[x.host]; h == nil {
		h = &hostStreams{}
		s.hosts[x.host] = h
	}
	s.all++
	h.n++
	x.e = h.waiting.PushBack(x)
	return true
}

// mostWaitingLocked returns the address with the most waiting streams; nil: there is none.
func (s *streams) mostWaitingLocked() (most *hostStreams) {
	for _, h := range s.hosts {
		if most == nil || h.waiting.Len() > most.waiting.Len() {
			most = h
		}
	}
	return most
}

// endOldestLocked ends the stream that has waited for its client the longest. false: none waits.
func (s *streams) endOldestLocked(h *hostStreams) bool {
	if h == nil || h.waiting.Len() == 0 {
		return false
	}
	x, ok := h.waiting.Front().Value.(*stream)
	im.Assert(ok, "no stream in the list of streams")
	x.leaveLocked()
	x.stop() // before the handler has left
	return true
}

func (x *stream) leaveLocked() {
	if x.over {
		return
	}
	x.over = true
	x.of.all--
	h := x.of.hosts[x.host]
	if x.e != nil {
		h.waiting.Remove(x.e)
		x.e = nil
	}
	if h.n--; h.n == 0 {
		delete(x.of.hosts, x.host)
	}
}

// leave releases the slot.
func (x *stream) leave() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.leaveLocked()
}

// waits records whether a stream waits for its client, or for the server. nil: there is no stream.
func (x *stream) waits(waits bool) {
	if x == nil {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	h := x.of.hosts[x.host]
	switch {
	case x.over || x.kept:
	case waits && x.e == nil:
		x.e = h.waiting.PushBack(x)
	case !waits && x.e != nil:
		h.waiting.Remove(x.e)
		x.e = nil
	}
}

// keep protects a stream from being ended: it is that of an admin key.
func (x *stream) keep() {
	if x == nil {
		return
	}
	x.waits(false)
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.kept = true
}

// refuseStream answers by headers alone: they do not wait for a client that reads nothing.
func refuseStream(w http.ResponseWriter) {
	w.Header().Set(errorHeader, string(im.CodeOverloaded))
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}
