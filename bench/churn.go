package bench

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// This file has the connections that come, end and come back while the generator runs, and the series of requests.

// newConn is a new connection for the generator to take over.
type newConn struct {
	index int
	greeted
}

// lostConn is a connection that has ended and is to come back.
type lostConn struct {
	index int
	token []byte // of its last sync page
	at    time.Time
}

// joinTurn is the interval at which connections sync because of new conversations, once for all of them. P-6.1
const joinTurn = time.Second

// wentAway is the reason for the end of a connection that its client closed.
const wentAway = "went away"

// requestSeries is a series of requests of some connections. Each connection makes its next request when the
// last one is answered.
type requestSeries struct {
	name   string
	conns  []*conn
	atOnce int                                // connections that ask at a time
	each   int                                // requests of each connection
	next   func(c *conn) bool                 // makes the next request; false: there is none
	is     func(f *petrelv1.ClientFrame) bool // reports whether a request belongs to the request series
	free   bool                               // generator.live makes the requests; the request series only times them

	compares bool // the entries are compared with the audit and not counted: their readers were online

	times *hdrhistogram.Histogram
	count uint64 // answers
	begun int    // connections that have begun
	busy  int    // connections that have begun and are not done
}

// comeAndGo ends all connections if dropAll is set, takes over new ones, makes the syncs and reads that are due,
// and begins the next request series.
func (g *generator) comeAndGo(now int64) {
	if g.dropAll.CompareAndSwap(true, false) {
		for _, c := range g.conns {
			g.lose(c, "the storm")
		}
	}
	for taken := false; !taken; {
		select {
		case b := <-g.back:
			g.attach(&b, now)
		default:
			taken = true
		}
	}
	if now >= g.joinsDue {
		g.joinsDue = now + int64(joinTurn)
		for _, c := range g.conns {
			if c.fd >= 0 && c.refused && len(c.behind) > 0 { // during other series than that of live, c.behind is empty
				g.toReadBehind(c)
				g.readSome(c)
			}
			if c.fd >= 0 && (c.joined || c.refused) {
				c.joined, c.refused = false, false
				g.request(c, syncRequest(c.token))
			}
		}
	}
	if g.series == nil {
		select {
		case g.series = <-g.orders:
			for range g.series.atOnce {
				g.startNext()
			}
			g.checkSeries()
		default:
		}
	}
}

// attach takes over a connection that has come or come back. It queues its missed messages for reading and its
// unanswered sends for a repeat.
func (g *generator) attach(b *newConn, now int64) {
	c := g.conns[b.index]
	c.fd, c.in, c.out, c.token, c.kicked, c.unread, c.joined, c.refused = b.fd, nil, nil, b.token, "", c.unread[:0],
		false, false
	g.open++
	if g.gone != nil {
		c.back = true
		g.away.Add(-1)
	}
	if !c.later {
		if err := g.poll.add(c.fd, c.index); err != nil {
			g.lose(c, err.Error())
			return
		}
	}
	for _, state := range b.convs {
		v := g.audit.named([]byte(state.Conv))
		if v == nil && state.Conv[0] == directConv { // new: the audit learns its id from the first message
			g.fallBehind(c, state.Conv)
		} else if v != nil {
			v.Head = max(v.Head, state.Head)
			if st := v.stream(c.index); st != nil && st.Lowest() <= state.Head {
				g.fallBehind(c, state.Conv)
			}
		}
	}
	g.toReadBehind(c) // also those that an earlier connection of the user did not read to their ends
	if g.gone != nil {
		g.readSome(c)
	}
	if s := c.sender; s != nil {
		for i := range s.slots {
			if n := s.slots[i].number; n != 0 {
				c.again = append(c.again, n)
			}
		}
		slices.Sort(c.again)
		if g.pace != nil {
			g.putOff += g.pace.of(int(s.ordinal)) - g.audit.senders[s.ordinal].composed
		}
		g.mark(c)
	}
	g.received(c, b.early, now)
}

// toReadBehind puts the conversations of c.behind into c.unread, in place of those there.
func (g *generator) toReadBehind(c *conn) {
	c.unread = c.unread[:0]
	for conv := range c.behind {
		c.unread = append(c.unread, conv)
	}
}

// fallBehind notes that a connection has not read a conversation to its end.
func (g *generator) fallBehind(c *conn, conv string) {
	if c.behind == nil {
		c.behind = map[string]bool{}
	}
	c.behind[conv] = true
}

// The first letters of the ids of direct conversations and of inboxes.
const (
	directConv = 'd'
	inboxConv  = 'i'
)

// leave puts a connection that has ended into the channel gone, so that it is dialed again. It reports the reason as
// that of a lost connection, unless the client or a storm ended it.
func (g *generator) leave(c *conn, reason string) {
	if !g.storming.Load() && reason != wentAway {
		g.lost = append(g.lost, reason)
	}
	c.again = c.again[:0] // attach repeats all, also those that were put off
	g.retries = slices.DeleteFunc(g.retries, func(r retry) bool { return r.sender == c.sender })
	g.away.Add(1)
	g.gone <- lostConn{c.index, c.token, time.Now()} // has room for all
}

// answered records the time of the answer to a request of the request series.
func (g *generator) answered(c *conn, now int64) {
	e := g.series
	observe(e.times, now-c.asked)
	e.count++
	c.askID = 0
}

// advance continues the request series after a request of c is over: with the next request of c, or, if c has no
// further one or has ended, with another connection. After the last connection it ends the request series.
func (g *generator) advance(c *conn) {
	e := g.series
	if e == nil || e.free || c.askID != 0 {
		return
	}
	if c.fd >= 0 && c.left > 0 {
		if c.left--; e.next(c) {
			return
		}
	}
	e.busy--
	g.startNext()
	g.checkSeries()
}

// startNext lets the next connection of the request series begin. It skips those that are closed or have no request.
func (g *generator) startNext() {
	for e := g.series; e.begun < len(e.conns); {
		c := e.conns[e.begun]
		e.begun++
		c.left = e.each - 1
		if c.fd >= 0 && e.next(c) {
			e.busy++
			return
		}
	}
}

// checkSeries ends the request series if all its connections are done.
func (g *generator) checkSeries() {
	if e := g.series; e.busy == 0 && e.begun == len(e.conns) {
		g.series = nil
		g.done <- e // the one before was taken
	}
}

// ask returns a request series in which each connection makes a number of requests; the function request builds each.
func (g *generator) ask(name string, conns []*conn, atOnce, each int, request func(c *conn) *petrelv1.ClientFrame,
	is func(f *petrelv1.ClientFrame) bool) *requestSeries {
	return &requestSeries{name: name, conns: conns, atOnce: min(atOnce, len(conns)), each: each, is: is,
		times: newTimes(3),
		next: func(c *conn) bool {
			g.request(c, request(c))
			return true
		}}
}

func isSync(f *petrelv1.ClientFrame) bool    { return f.GetSync() != nil }
func isPing(f *petrelv1.ClientFrame) bool    { return f.GetPing() != nil }
func isHistory(f *petrelv1.ClientFrame) bool { return f.GetHistory() != nil }
