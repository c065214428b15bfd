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
	// streamCost is what a request of HTTP/2 takes while it is under way: its goroutine, buffers
	// and headers, also if it is refused.
	streamCost = 32 << 10
	// partOfHost is the part of the bytes under way that the requests of HTTP/2 of one address
	// may have.
	partOfHost = 2
)

// streams are the requests of HTTP/2 under way at a door. One connection may have a hundred of
// them, and let each wait for a client that reads nothing. Requests of HTTP/1 have connections
// of their own, which are counted. The zero value is ready.
type streams struct {
	mu    sync.Mutex // tier 0; guards the fields below, and those of each stream
	all   int
	hosts map[netip.Prefix]*list.List // of *stream that may be ended, oldest first
}

// stream is one of them.
type stream struct {
	of   *streams
	host netip.Prefix
	stop func()        // ends it
	e    *list.Element // nil: it is kept, or has been ended
	kept bool
}

// enterStream counts a request of HTTP/2 until leave is called. One that is too many ends the
// oldest of its address, or of the address that has the most. false: none can be ended.
func (s *Server) enterStream(d Door, w http.ResponseWriter, r *http.Request, c *call) (leave func(), ok bool) {
	if r.ProtoMajor != 2 {
		return func() {}, true
	}
	control := http.NewResponseController(w)
	x := &stream{of: &s.admission.streams[d], host: rate.Host(addrOf(r.RemoteAddr)), stop: func() {
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

// enter takes a place, of as many as all and the host may have.
func (x *stream) enter(all, ofHost int) bool {
	s := x.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.hosts[x.host]; l != nil && l.Len() >= ofHost {
		s.endOldestLocked(l)
	} else if s.all >= all && !s.endOldestLocked(s.largestLocked()) {
		return false
	}
	if s.hosts == nil {
		s.hosts = map[netip.Prefix]*list.List{}
	}
	if s.hosts[x.host] == nil {
		s.hosts[x.host] = list.New()
	}
	x.e = s.hosts[x.host].PushBack(x)
	s.all++
	return true
}

// largestLocked has the streams of the address that has the most; nil: there are none that
// may be ended.
func (s *streams) largestLocked() (most *list.List) {
	for _, l := range s.hosts {
		if most == nil || l.Len() > most.Len() {
			most = l
		}
	}
	return most
}

// endOldestLocked ends a stream whose client has had the most time for it.
func (s *streams) endOldestLocked(l *list.List) bool {
	if l == nil {
		return false
	}
	x, ok := l.Front().Value.(*stream)
	im.Assert(ok, "no stream in the list of streams")
	x.unlistLocked()
	s.all--
	x.stop() // before the handler has left
	return true
}

// unlistLocked leaves a stream alone from now on.
func (x *stream) unlistLocked() {
	l := x.of.hosts[x.host]
	l.Remove(x.e)
	if x.e = nil; l.Len() == 0 {
		delete(x.of.hosts, x.host)
	}
}

// keep has a stream stay until it leaves: it is that of an admin key.
func (x *stream) keep() {
	if x == nil {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.e != nil {
		x.unlistLocked()
		x.kept = true
	}
}

// leave gives the place back.
func (x *stream) leave() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.e != nil {
		x.unlistLocked()
		x.of.all--
	} else if x.kept {
		x.of.all--
	}
}

// refuseStream answers by headers alone: they do not wait for a client that reads nothing.
func refuseStream(w http.ResponseWriter) {
	w.Header().Set(errorHeader, string(im.CodeOverloaded))
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
}
