package bench

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/wire"
)

// phase is the phase of a run. It only moves forward: generator.enter sets it, and the generator adopts it in its
// next turn.
type phase int32

const (
	warmingUp phase = iota
	measuring
	measured // the measured window has ended; receivers that were offline come and read
	draining
)

// generator makes the load. It drives all connections of a run from one thread, with one epoll set. In each turn
// it reads and audits the bytes that have come, and writes once to each connection with something to send.
type generator struct {
	enc     wire.Encoding
	corpus  *corpus
	audit   *audit
	conns   []*conn
	pace    *pace                   // nil: closed loop
	plan    func(start int64) *pace // makes pace; nil: closed loop
	planned time.Duration           // planned length of the measured window; 0: not known
	net     *sockets
	poll    watching

	groups []*convBook // the books of the groups
	group  *convBook   // the group whose members follow script; nil with script, see run.assemble
	script *script
	log    *opLog // nil: none

	base   time.Time // time at which the generator's clock is 0
	phase  atomic.Int32
	at     phase // the phase that the generator has adopted
	atMark func(phase)

	quota     atomic.Uint64 // messages that each sender may send in all; 0: no bound
	allowed   uint64        // the quota that the generator has adopted
	spent     chan int64    // capacity 1; gets the time, in ns of the clock, when checkQuota finds a quota done
	toldSpent bool

	open       int // connections that are not closed
	sending    bool
	unanswered int
	dirty      []*conn
	writing    []*conn
	later      []*conn // connections that are read in turn, each every laterTurn
	laterRead  uint64  // turns of these that were due since the start
	retries    []retry
	cursors    bool                       // connections move their cursors
	cursorStep uint64                     // steps done since the start
	moved      uint64                     // moves of cursors that the server has answered
	cursorAt   map[*checker.Stream]uint64 // the last read cursor that was sent, by stream
	pages      uint64                     // pages of history that came
	presences  *presences                 // nil: nobody watches
	at0, at1   beside                     // counts at both ends of the measured window
	habits     *pastime                   // what clients do beside sending; nil: nothing
	controls   uint64
	maskState  uint64
	noted      []scriptMessage
	buf, out   []byte
	quiet      time.Duration // without a byte from the server for this long, the drain ends, and checkQuota gives up
	limit      time.Duration // the longest time of the drain
	drainFrom  int64         // when draining began
	looked     int64         // start of the last wait that found no socket ready
	lastRead   int64
	lastWrite  int64

	tally    tally
	begin    tally // at the start of the measured window
	end      tally
	endToEnd *latency
	ackTime  *latency
	lagged   uint64
	read     uint64            // messages of the run on pages of history
	errors   map[string]uint64 // by code: error frames
	lost     []string          // reasons of connections that ended, unless their client or a storm ended them

	// Connections that come while the generator runs, and series of requests.
	comers bool          // connections come or come back: the run goes on while none is open
	back   chan newConn  // connections to take over; capacity 256, the dialers wait while it is full
	gone   chan lostConn // connections that ended and are to come back; room for all; nil: they do not come back
	beats  atomic.Uint64 // pings of the server
	// a new conversation makes only those connections sync that have come back: to the others the server has
	// pushed all its messages
	seldom     bool
	staying    atomic.Bool       // clients do not go away
	away       atomic.Int64      // connections that are to come back
	coming     atomic.Int64      // connections that are open and not handed over yet
	storming   atomic.Bool       // a storm is under way: connections that end are no finding
	dropAll    atomic.Bool       // end all connections
	joinsDue   int64             // when connections sync next because of new conversations
	asksPutOff map[string]uint64 // by code: errors that put off requests other than sends
	sentAgain  uint64            // sends that were made once more
	putOff     uint64            // messages that were due and not sent when their sender came back
	lastAck    atomic.Int64
	silences   []span // times between two acks, if shortestSilence or longer

	orders chan *requestSeries // capacity 1; the request series to begin next
	done   chan *requestSeries // capacity 1; the request series that has ended
	series *requestSeries

	progress chan Progress // capacity 1; a new value is dropped while the last one waits
	started  int64
	told     int64
	before   tally
	seconds  []Second // all seconds so far
}

// tally counts messages since the start.
type tally struct {
	at                                     int64 // ns of the generator's clock
	offered, accepted, delivered, rejected uint64
	// open loop: offered messages that the generator noticed more than lateAfter after they were due
	late uint64
}

const (
	readBytes = 64 << 10
	// shortestTurn is the least time of a turn, so that a turn handles many events. If every write of the server
	// woke the generator, both would spend their CPU on wake-ups. Latencies include this delay.
	shortestTurn = 100 * time.Microsecond
	// longestWait bounds the wait for sockets, so that phases and retries are noticed.
	longestWait = 5 * time.Millisecond
	// In a closed loop the server needs all CPU that it can get, and a read for each delivery would take CPU on
	// the same cores. So of the connections that only receive, one of onePrompt is read at each event, and its
	// latencies count. The others are read once every laterTurn and audited the same.
	onePrompt = 25
	laterTurn = 40 * time.Millisecond
	// maxUnwritten is how many bytes may wait for a full socket before its sender stops composing.
	maxUnwritten = 64 << 10 // bytes

	// mostSeconds is about the largest number of lines in the series of a run. In a run that is planned to be
	// longer, a line is for more than a second.
	mostSeconds = 3600

	drainLimit = 30 * time.Second // the longest time of the drain
	drainQuiet = 10 * time.Second // generator.quiet, unless a test changes it
)

func newGenerator(e wire.Encoding, c *corpus, a *audit) *generator {
	g := &generator{
		enc: e, corpus: c, audit: a, net: system(), base: time.Now(), sending: true, maskState: c.seed,
		limit: drainLimit, buf: make([]byte, readBytes), endToEnd: newLatency(), ackTime: newLatency(),
		errors: map[string]uint64{}, asksPutOff: map[string]uint64{}, cursorAt: map[*checker.Stream]uint64{},
		lost: []string{}, progress: make(chan Progress, 1), spent: make(chan int64, 1), seconds: []Second{},
		back: make(chan newConn, 256), orders: make(chan *requestSeries, 1), done: make(chan *requestSeries, 1),
	}
	return g
}

// now returns the time of the generator's clock, in ns. It never goes back.
func (g *generator) now() int64 { return int64(time.Since(g.base)) }

// mask draws a masking key.
func (g *generator) mask() (key [4]byte) {
	g.maskState++
	binary.LittleEndian.PutUint32(key[:], uint32(mix(g.maskState)))
	return key
}

// enter sets the phase that the generator adopts in its next turn.
func (g *generator) enter(p phase) { g.phase.Store(int32(p)) }

// run drives the connections until the drain is over, ctx ends, or no connection is open and none will come. Then
// it closes them.
func (g *generator) run(ctx context.Context) error {
	var err error
	if g.poll, err = g.net.watch(); err != nil {
		return err
	}
	defer g.poll.close()
	defer g.closeAll()
	readers := 0
	for _, c := range g.conns {
		if c.fd < 0 {
			continue
		}
		if c.sender == nil {
			c.later = g.plan == nil && readers%onePrompt != 0
			readers++
		}
		if c.later {
			g.later = append(g.later, c)
		} else if err := g.poll.add(c.fd, c.index); err != nil {
			return err
		}
		g.open++
		if c.sender != nil {
			g.mark(c)
		}
		// Bytes that came together with the sync page make no edge of epoll.
		early := c.in
		c.in = nil
		g.received(c, early, g.now())
	}
	g.started = g.now()
	if g.plan != nil {
		g.pace = g.plan(g.started)
	}
	g.told = g.started
	g.lastAck.Store(g.started)
	var events []ready
	for {
		now := g.now()
		if done := g.tick(now); done || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		g.flush(now)
		if rest := shortestTurn - time.Duration(g.now()-now); rest > 0 {
			g.poll.pause(rest)
		}
		looked := g.now()
		if events, err = g.poll.wait(g.patience(), events); err != nil {
			return err
		}
		if len(events) == 0 {
			g.looked = looked
		}
		for i := range events {
			g.ready(&events[i])
		}
		g.readLater()
	}
}

// readPromptly moves a connection from later to the epoll set, so that it is read at each event from now on.
func (g *generator) readPromptly(c *conn) {
	if !c.later {
		return
	}
	c.later = false
	g.later = slices.DeleteFunc(g.later, func(other *conn) bool { return other == c })
	if err := g.poll.add(c.fd, c.index); err != nil {
		g.lose(c, err.Error())
	}
}

// readLater reads the connections that are read in turn and are due.
func (g *generator) readLater() {
	n := uint64(len(g.later))
	due := uint64(g.now()-g.started) * n / uint64(laterTurn)
	for range min(due-g.laterRead, n) {
		g.ready(&ready{conn: g.later[g.laterRead%n].index, readable: true})
		g.laterRead++
	}
	g.laterRead = due
}

func (g *generator) closeAll() {
	for _, c := range g.conns {
		if c.fd >= 0 {
			g.net.close(c.fd)
			c.fd = -1
		}
	}
}

// patience returns the longest time that the next wait may take.
func (g *generator) patience() time.Duration {
	if len(g.later) > 0 {
		return time.Millisecond
	}
	if g.pace == nil || g.at == draining {
		return longestWait
	}
	return min(longestWait, time.Duration(min(g.pace.next(), g.now()+int64(longestWait))-g.now()))
}

// tick carries out everything that is due and reports whether the run is over.
func (g *generator) tick(now int64) (done bool) {
	if g.pace != nil && g.at != draining { // messages that are due by now belong to the phase that may end below
		n, late := g.pace.advance(now, func(sender int) { g.mark(g.conns[g.audit.senders[sender].conn]) })
		g.tally.offered += n
		g.tally.late += late
	}
	for p := phase(g.phase.Load()); g.at < p; { // one by one: after a long turn there may be two
		g.turnPhase(g.at+1, now)
	}
	g.comeAndGo(now)
	if g.habits != nil && g.at != draining {
		g.live(now)
	}
	if q := g.quota.Load(); q > 0 {
		g.checkQuota(q, now)
	}
	if len(g.retries) > 0 {
		g.dueRetries(now)
	}
	if g.cursors && g.at != draining {
		g.moveCursors(now)
	}
	if now-g.told >= int64(max(time.Second, g.planned/mostSeconds)) {
		g.tell(now)
	}
	if g.at != draining {
		return g.open == 0 && !g.comers
	}
	quiet := g.looked-max(g.lastRead, g.drainFrom) > int64(g.quiet)
	return g.open == 0 || quiet || now-g.drainFrom > int64(g.limit) ||
		g.unanswered == 0 && !g.backlog() && g.audit.complete()
}

// checkQuota lets every sender on an open connection send q messages in all. When these were sent and answered, and
// have reached the receivers online, it puts now into spent, once for each quota. It does not wait for answers and
// deliveries after quiet has passed without a byte read or written: the audit finds what is missing.
func (g *generator) checkQuota(q uint64, now int64) {
	if q != g.allowed {
		g.allowed, g.toldSpent = q, false
		for i := range g.audit.senders {
			g.mark(g.conns[g.audit.senders[i].conn])
		}
		return
	}
	if g.away.Load() > 0 {
		return
	}
	waits := g.looked-max(g.lastRead, g.lastWrite) < int64(g.quiet)
	if g.toldSpent || g.unanswered > 0 && waits {
		return
	}
	for i := range g.audit.senders {
		if s := &g.audit.senders[i]; s.composed < q && g.conns[s.conn].fd >= 0 {
			return
		}
	}
	if waits && !g.audit.complete() {
		return
	}
	g.toldSpent = true
	g.spent <- now // has room: the last value was taken
}

func (g *generator) turnPhase(p phase, now int64) {
	g.at = p
	g.tally.at = now
	switch p {
	case measuring:
		g.begin, g.at0 = g.tally, beside{g.moved, g.pages}
		g.endToEnd.from, g.ackTime.from = now, now
		g.ackTime.planned = int64(g.planned)
	case measured:
		g.end, g.at1 = g.tally, beside{g.moved, g.pages}
		g.endToEnd.to, g.ackTime.to = now, now
	case draining:
		g.drainFrom = now
		g.sending = g.pace != nil // messages that were due are still sent, and nothing new becomes due
	}
	if g.atMark != nil && p < draining {
		g.atMark(p)
	}
}

// backlog reports whether an open loop has messages that are due, within the quota, and not sent, of senders whose
// connections are open.
func (g *generator) backlog() bool {
	if g.pace == nil {
		return false
	}
	for i := range g.audit.senders {
		s := &g.audit.senders[i]
		if s.composed < g.pace.of(i) && (g.allowed == 0 || s.composed < g.allowed) && g.conns[s.conn].fd >= 0 {
			return true
		}
	}
	return false
}

func (g *generator) ready(e *ready) {
	c := g.conns[e.conn]
	if c.fd < 0 {
		return
	}
	if e.writable && len(c.out) > 0 {
		g.mark(c)
	}
	if !e.readable {
		return
	}
	for c.fd >= 0 {
		n, again, err := g.net.read(c.fd, g.buf)
		if again {
			return
		}
		if err != nil || n == 0 {
			reason := "closed by the server"
			if err != nil {
				reason = err.Error()
			}
			g.lose(c, reason)
			return
		}
		now := g.now()
		g.lastRead = now
		g.received(c, g.buf[:n], now)
		if n < len(g.buf) && !e.hangup {
			return // all was read; further bytes make a new edge
		}
	}
}

// flush writes once for every connection with something to send.
func (g *generator) flush(now int64) {
	g.dirty, g.writing = g.writing[:0], g.dirty
	for _, c := range g.writing {
		c.dirty = false
		if c.fd < 0 {
			continue
		}
		out := append(g.out[:0], c.out...)
		if s := c.sender; s != nil && len(out) < maxUnwritten {
			out = g.compose(s, out, now)
		}
		g.out = out
		n, err := g.net.write(c.fd, out)
		if err != nil {
			g.lose(c, err.Error())
			continue
		}
		if n > 0 {
			g.lastWrite = now
		}
		c.out = append(c.out[:0], out[n:]...)
	}
}

// compose appends to out the repeats of s, and as many new messages as its window, quota and schedule allow now.
func (g *generator) compose(s *sender, out []byte, now int64) []byte {
	for _, n := range s.conn.again {
		if sl := s.slot(n); sl.number == n {
			sl.attempts++
			g.sentAgain++
			g.logSend(s, sl, now)
			out, _ = g.appendSend(out, s, sl)
		}
	}
	s.conn.again = s.conn.again[:0]
	book := &g.audit.senders[s.ordinal]
	for g.sending && (g.allowed == 0 || book.composed < g.allowed) && s.unanswered < s.window &&
		s.unansweredBytes+s.largest <= s.windowBytes && len(out) < maxUnwritten {
		number := book.composed + 1
		sl := s.slot(number)
		if sl.number != 0 {
			break // the send in this slot is not settled yet
		}
		sentNs := now
		if g.pace != nil {
			if number > g.pace.of(int(s.ordinal)) {
				break
			}
			sentNs = g.pace.sentAt(int(s.ordinal), number)
		} else {
			g.tally.offered++
		}
		g.audit.compose(s.ordinal)
		to := s.peer(number)
		*sl = slot{number: number, sentNs: sentNs, after: to.head, attempts: 1, byUser: to.book.id == ""}
		g.logSend(s, sl, now)
		out, sl.bytes = g.appendSend(out, s, sl)
		s.unanswered++
		s.unansweredBytes += sl.bytes
		s.largest = max(s.largest, sl.bytes)
		g.unanswered++
	}
	return out
}

func (g *generator) appendSend(out []byte, s *sender, sl *slot) ([]byte, int) {
	to := s.peer(sl.number)
	o := outgoing{
		id: sl.number, after: sl.after, corpus: g.corpus,
		msg: proof{sender: s.ordinal, number: sl.number, sentNs: sl.sentNs},
	}
	if sl.byUser {
		o.user = to.user
	} else {
		o.conv = to.book.id
	}
	return appendSend(out, g.enc, &o, g.mask())
}
