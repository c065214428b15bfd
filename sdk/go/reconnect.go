package petrel

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	firstWait = time.Second // after a lost connection, P-3.6
	maxWait   = 30 * time.Second

	// A frozen gateway accepts connections and says nothing, so a try ends after 3 s. The limit doubles after
	// each round that fails, up to maxLimit, because the link may be that slow.
	firstLimit = 3 * time.Second
	maxLimit   = 15 * time.Second
	// besideAfter is how long the newest try has to last before the next address is tried in parallel.
	besideAfter = time.Second
	// steady is how long a connection must have lasted for the client to go to another gateway without a pause.
	// After a shorter one it pauses, so that it does not reconnect in a loop.
	steady = 5 * time.Second
	// spread is the longest random delay before a client of a lost gateway goes to another one, so that not all
	// of them come at once.
	spread = 300 * time.Millisecond
)

// errSilent ends a connection to a server that does not answer.
var errSilent = errors.New("the server is silent")

// reach is the state of connecting. A round asks for a token, and then tries the addresses in turn: it tries the
// next one when one fails, and in parallel to a slow one. The first welcome wins. There are pauses between
// rounds. Spec: P-3.6, P-3.7.
type reach struct {
	running bool
	places  places
	conn    uint64 // number of the newest connection
	tries   []*try
	last    time.Time     // when the newest try began
	limit   time.Duration // the longest time of a try
	wait    time.Duration // of the next pause, at most
	pause   time.Time     // the end of the pause; zero: there is none
	without string        // the address that the round leaves out

	asking   bool   // for a token
	token    string // of this round
	refused  string // the token that the server has refused
	askAnew  bool   // another one was requested since the refusal
	why      error  // the newest failure of the round
	retryNot time.Duration

	patience   time.Duration // added to the wait for an answer. Spec: S-5.8
	patientFor asked         // until a request of this kind is answered
}

// try is a connection without a welcome yet.
type try struct {
	conn    uint64
	addr    string
	begun   time.Time
	greeted time.Time // when the hello went out
}

func newReach(url string) reach {
	return reach{places: newPlaces(url), limit: firstLimit, wait: firstWait}
}

// start begins to connect. Run calls it.
func (c *core) start() {
	c.reach.running = true
	c.reach.wait, c.reach.limit = firstWait, firstLimit
	c.round("")
}

// stop ends all tries and the connection, when Run ends with err.
func (c *core) stop(err error) {
	c.endTries()
	if c.live != nil {
		c.drop(c.live.conn)
		c.finish()
	}
	c.reach.running, c.reach.asking, c.reach.pause = false, false, time.Time{}
	c.setStatus(Status{State: Offline, Err: err})
}

// end makes Run return err, which no further try can mend.
func (c *core) end(err error) {
	c.endTries()
	c.out.ended, c.out.err = true, err
}

// round begins a new round, in which one address is left out: without. "" leaves out none.
func (c *core) round(without string) {
	r := &c.reach
	r.pause, r.without, r.why, r.retryNot = time.Time{}, without, nil, 0
	c.setStatus(Status{State: Connecting})
	c.askToken()
}

func (c *core) askToken() {
	r := &c.reach
	r.places.begin(r.without)
	r.asking = true
	c.out.token = &wantedToken{r.refused}
	c.out.woken = true
}

// tokenCame applies the answer of the token source.
func (c *core) tokenCame(token string, err error) {
	r := &c.reach
	if !r.asking {
		return
	}
	r.asking = false
	switch e := refusal(err); {
	case e != nil && !e.Retryable:
		c.end(fmt.Errorf("get a token: %w", err))
	case err != nil:
		c.rest(fmt.Errorf("get a token: %w", err), retryAfter(err))
	default:
		r.token = token
		c.tryNext()
	}
}

// tryNext begins to connect to the next address of the round. It returns false if none is left.
func (c *core) tryNext() bool {
	r := &c.reach
	addr, ok := r.places.next()
	if !ok {
		return false
	}
	r.conn++
	r.last = c.now
	r.tries = append(r.tries, &try{conn: r.conn, addr: addr, begun: c.now})
	c.out.dials = append(c.out.dials, dial{r.conn, addr})
	c.alarmAt(c.now.Add(min(r.limit, besideAfter)))
	c.out.woken = true
	return true
}

// opened sends the hello over a new connection. Spec: P-3.1.
func (c *core) opened(conn uint64) {
	t := c.reach.find(conn)
	if t == nil {
		return
	}
	t.greeted = c.now
	understands := []string{capEdit, capCursor, capFocus, capNewest, capCall, capRel, capSignal, capPresence, capNotes,
		capPersonal, capMentions}
	if c.o.wholeFrames {
		understands = append(understands, capLarge)
	}
	understands = append(understands, capProfiles)
	h := &petrelv1.Hello{
		VersionMin: Protocol, VersionMax: Protocol, Token: c.reach.token, Device: c.meta.Device,
		DeviceKind: c.o.deviceKind, Client: c.o.client,
		Capabilities: understands,
	}
	b, err := encode(c.o.json, &petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Hello{Hello: h}})
	if err != nil {
		c.end(fmt.Errorf("encode the hello: %w", err))
		return
	}
	c.out.frames = append(c.out.frames, frame{conn, 0, b})
}

func (r *reach) find(conn uint64) *try {
	for _, t := range r.tries {
		if t.conn == conn {
			return t
		}
	}
	return nil
}

// frame applies a frame of a connection. Frames of a connection that the client has given up are dropped.
// Spec: P-3.5.
func (c *core) frame(conn uint64, f *petrelv1.ServerFrame) {
	if c.live != nil && c.live.conn == conn {
		if err := c.take(f); err != nil {
			c.lost(err)
		}
		return
	}
	t := c.reach.find(conn)
	if t == nil {
		return
	}
	switch b := f.Body.(type) {
	case *petrelv1.ServerFrame_Welcome:
		c.welcomed(t, b.Welcome)
	case *petrelv1.ServerFrame_Error:
		c.failed(t, fromWire(b.Error))
	case *petrelv1.ServerFrame_Kick:
		c.failed(t, fromKick(b.Kick))
	}
}

// closed applies the end of a connection, or of the attempt to make one.
func (c *core) closed(conn uint64, err error) {
	if c.live != nil && c.live.conn == conn {
		c.lost(fmt.Errorf("connection ended: %w", err))
	} else if t := c.reach.find(conn); t != nil {
		c.failed(t, err)
	}
}

// failed ends a try that got no welcome. Then it tries the next address of the round, or pauses if this was the
// last try. If the server has refused the token, it ends all tries and asks for another token. Any other
// refusal that is not retryable, also that of the other token, ends Run.
func (c *core) failed(t *try, err error) {
	r := &c.reach
	r.tries = slices.DeleteFunc(r.tries, func(x *try) bool { return x == t })
	c.drop(t.conn)
	e := refusal(err)
	switch {
	case e != nil && e.Code == CodeUnauthenticated && !r.askAnew:
		c.endTries() // another token may be accepted: it is requested at once
		r.refused, r.askAnew = r.token, true
		c.askToken()
		return
	case e != nil && !e.Retryable:
		c.end(err)
		return
	}
	r.why, r.retryNot = err, retryAfter(err)
	if !c.tryNext() && len(r.tries) == 0 {
		r.limit = min(2*r.limit, maxLimit)
		c.rest(r.why, r.retryNot)
	}
}

func retryAfter(err error) time.Duration {
	if e := refusal(err); e != nil {
		return e.RetryAfter
	}
	return 0
}

// rest pauses before the next round. The pause is random: from half of r.wait to all of it, or from atLeast to
// twice that. atLeast is the wait that the server asks for, or 0. Spec: P-3.5, P-3.6.
func (c *core) rest(why error, atLeast time.Duration) {
	r := &c.reach
	pause := r.wait/2 + c.part(r.wait/2)
	if atLeast > 0 {
		pause = atLeast + c.part(atLeast)
	}
	r.wait = min(2*r.wait, maxWait)
	r.pause, r.without = c.now.Add(pause), ""
	c.setStatus(Status{State: Offline, Err: why, Retry: r.pause})
	c.alarmAt(r.pause)
	c.out.woken = true
}

// part returns a random part of d.
func (c *core) part(d time.Duration) time.Duration { return time.Duration(c.random() * float64(d)) }

// welcomed makes t the connection of the client, and ends the other tries.
func (c *core) welcomed(t *try, w *petrelv1.Welcome) {
	r := &c.reach
	r.tries = slices.DeleteFunc(r.tries, func(x *try) bool { return x == t })
	c.endTries()
	r.wait, r.limit, r.refused, r.askAnew = firstWait, firstLimit, "", false
	r.places.welcomed(t.addr, w.Gateways)
	if err := c.begin(t, w); err != nil {
		c.drop(t.conn)
		c.end(err)
	}
}

// lost ends the live connection because of err, and decides how to go on. If the server has refused the token, a
// round with another token begins. Any other refusal that is not retryable ends Run. A refusal other than
// draining concerns this client, so it pauses. It also pauses if there is no other address, or if the connection
// did not last for steady. Otherwise it goes to another gateway: at once if the server fell silent, else after a
// random delay up to spread. Spec: P-3.6.
func (c *core) lost(err error) {
	r := &c.reach
	addr, lasted := c.live.addr, c.now.Sub(c.live.began) >= steady
	c.drop(c.live.conn)
	if errors.Is(err, errSilent) {
		c.fellSilent()
	}
	c.finish()
	e := refusal(err)
	switch {
	case e != nil && e.Code == CodeUnauthenticated && !r.askAnew:
		r.refused, r.askAnew = r.token, true
		c.round("")
		return
	case e != nil && !e.Retryable:
		c.end(err)
		return
	}
	away := e != nil && e.Code == CodeDraining
	switch silent := errors.Is(err, errSilent); {
	case silent:
		r.places.silent[addr] = true
	case away:
		r.places.sendsAway(addr)
	case e != nil: // the refusal is about this client, so other gateways would refuse it too
		c.rest(err, e.RetryAfter)
		return
	}
	if !lasted || len(r.places.list) == 1 {
		c.rest(err, retryAfter(err))
		return
	}
	r.why, r.retryNot = err, retryAfter(err)
	if errors.Is(err, errSilent) {
		c.round(addr)
		return
	}
	r.pause, r.without = c.now.Add(c.part(spread)), addr
	c.setStatus(Status{State: Offline, Err: err, Retry: r.pause})
	c.alarmAt(r.pause)
	c.out.woken = true
}

// wakeUp is called when the device was asleep, or has another network. It pings the server over the present
// connection, or ends the pause before the next try. Spec: P-7.3.
func (c *core) wakeUp() {
	r := &c.reach
	switch {
	case c.live != nil:
		c.probe()
	case !r.pause.IsZero():
		r.wait, r.limit = firstWait, firstLimit
		c.round("")
	}
	c.out.woken = true
}

// stepReach carries out everything that is due without a connection.
func (c *core) stepReach() {
	r := &c.reach
	if !r.running {
		return
	}
	if !r.pause.IsZero() {
		if c.now.Before(r.pause) {
			c.alarmAt(r.pause)
			return
		}
		c.round(r.without)
	}
	for _, t := range slices.Clone(r.tries) {
		switch until := t.begun.Add(r.limit); {
		case r.find(t.conn) == nil: // given up since
		case c.now.Before(until):
			c.alarmAt(until)
		default:
			r.places.silent[t.addr] = true
			c.failed(t, fmt.Errorf("connect %s: %w", t.addr, errSilent))
		}
	}
	if len(r.tries) == 0 || len(r.places.left) == 0 {
		return
	}
	if beside := r.last.Add(besideAfter); c.now.Before(beside) {
		c.alarmAt(beside)
	} else {
		c.tryNext()
	}
}

// endTries gives up all tries.
func (c *core) endTries() {
	for _, t := range c.reach.tries {
		c.drop(t.conn)
	}
	c.reach.tries, c.reach.asking = nil, false
}

func (c *core) drop(conn uint64) { c.out.drops = append(c.out.drops, conn) }

func fromKick(k *petrelv1.Kick) *Error {
	return &Error{
		Code: k.Code, Message: k.Message, Retryable: k.Reconnect,
		RetryAfter: time.Duration(k.ReconnectAfterMs) * time.Millisecond,
	}
}
