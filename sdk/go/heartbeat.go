package petrel

import (
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	// The client pings the server when an answer is late: after probeAfter, or after probeTrips round trips if
	// those take longer.
	probeAfter = 3 * time.Second
	probeTrips = 4
	maxTrip    = 3 * time.Second // longest round trip that counts: an answer may also be late because the store stalls
	// pongWithin is the shortest time after a ping in which the server has to send any byte.
	pongWithin = 2 * time.Second
	// slowest is the rate of the slowest link that the client waits for, in bytes per second. A message of 48 KiB
	// over 50 kbit/s takes 8 s, and nothing is wrong.
	slowest = 4096

	// The bounds for a transport that reports whole frames only. Spec: S-5.7, S-5.8.
	slowestFrames = 5000            // bytes per second
	patienceStep  = 5 * time.Second // added to the wait for an answer after each connection that fell silent
	maxPatience   = 10 * time.Second
)

// pulse has what the client knows of whether the server at the other end of a connection still lives. Spec: P-7.
type pulse struct {
	heard  time.Time     // when the last bytes of the server came, or when an announced large frame should be there
	moved  time.Time     // when the socket last took bytes of the awaited request, or of one before it
	taken  uint64        // id of the last request of which the socket took all
	pinged time.Time     // time of the ping that has no answer; zero: there is none
	ping   uint64        // id of that ping
	ahead  int           // bytes of unanswered requests sent before the ping
	trip   time.Duration // of a request and its answer, smoothed; 0: not known
	// ids of requests, in the order in which they were sent; some may be answered
	order []uint64
	bytes int // of requests without an answer
}

// tripped adds the time from a request to its answer to the smoothed round trip.
func (p *pulse) tripped(d time.Duration) {
	if d = min(d, maxTrip); p.trip == 0 {
		p.trip = d
	} else {
		p.trip += (d - p.trip) / 8
	}
}

// took records when the socket last took bytes, and the last request that it took completely. Bytes are a sign of
// life only until the socket has taken the awaited request: the ping, or else the request that has waited for
// longest. The socket of a frozen server goes on taking the bytes after it. Spec: S-5.2.
func (lv *live) took(at time.Time, upTo uint64) {
	awaited := lv.ping
	if lv.pinged.IsZero() {
		awaited = 0
		if _, waits := lv.oldest(); waits {
			awaited = lv.order[0]
		}
	}
	if lv.taken < awaited {
		lv.moved = later(lv.moved, at)
	}
	lv.taken = max(lv.taken, upTo)
}

// oldest returns the request that has waited for longest.
func (lv *live) oldest() (q request, waits bool) {
	for len(lv.order) > 0 {
		if q, waits = lv.waiting[lv.order[0]]; waits {
			return q, true
		}
		lv.order = lv.order[1:]
	}
	return request{}, false
}

// beat pings a silent server, and returns errSilent when the ping has no answer either. An idle client sends
// nothing by itself, since the server pings first. Spec: P-7.2, P-7.3.
func (c *core) beat() error {
	lv := c.live
	if lv.heard.After(lv.pinged) {
		lv.pinged = time.Time{}
	}
	at := c.beatAt()
	if at.IsZero() || c.now.Before(at) {
		return nil
	}
	if !lv.pinged.IsZero() {
		return errSilent
	}
	c.probe()
	return nil
}

// beatAt returns the time of the next ping, or of giving up; zero: never.
func (c *core) beatAt() time.Time {
	lv := c.live
	q, waits := lv.oldest()
	since := later(q.at, lv.heard)
	switch every := time.Duration(lv.welcome.HeartbeatMs) * time.Millisecond; {
	case !lv.pinged.IsZero():
		rate := slowest
		if c.o.wholeFrames {
			rate = slowestFrames
		}
		at := later(lv.pinged, lv.moved).Add(max(pongWithin, 2*lv.trip))
		return later(at, since.Add(secondsOf(lv.ahead, rate)+pongWithin))
	case waits:
		return later(since, lv.moved).Add(max(probeAfter, probeTrips*lv.trip) + secondsOf(q.bytes, slowest) +
			c.reach.patience)
	case every > 0:
		return lv.heard.Add(every + every/2)
	}
	return time.Time{}
}

// secondsOf returns the whole seconds that bytes take at a rate in bytes per second.
func secondsOf(bytes, rate int) time.Duration { return time.Duration(bytes/rate) * time.Second }

// fellSilent raises the patience, if the client sees whole frames only and a request other than a ping waits:
// then a slow link may be the reason why the server seemed silent. The patience ends when a request of the kind
// that waited is answered. Spec: S-5.8.
func (c *core) fellSilent() {
	lv := c.live
	for _, id := range lv.order {
		if q, waits := lv.waiting[id]; waits && q.kind != asksPing && c.o.wholeFrames {
			c.reach.patience = min(c.reach.patience+patienceStep, maxPatience)
			c.reach.patientFor = q.kind
			return
		}
	}
}

// answeredIn records that q is answered, and its round trip. It ends the patience for requests of its kind.
func (c *core) answeredIn(q request) {
	lv := c.live
	lv.bytes -= q.bytes
	if q.kind == c.reach.patientFor {
		c.reach.patience = 0
	}
	lv.tripped(c.now.Sub(q.at))
}

// probe pings the server.
func (c *core) probe() {
	lv := c.live
	lv.pinged, lv.ping, lv.ahead = c.now, lv.nextID+1, lv.bytes
	c.ask(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}},
		func(*petrelv1.ServerFrame) { lv.pinged = time.Time{} })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
