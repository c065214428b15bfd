//go:build linux

package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// haveLoops says whether this system has event loops, which serve plaintext connections.
const haveLoops = true

// readBuffer is what one read of an event loop takes at most, in bytes. There
// is one such buffer for each loop.
const readBuffer = 64 << 10

// loop is one event loop with its plaintext connections. The fields from wheel on, and every
// connection of the loop, belong to its goroutine.
type loop struct {
	gnet.BuiltinEventEngine
	g      *Gateway
	client *gnet.Client
	open   atomic.Int32 // connections handed over and not yet closed

	mu      sync.RWMutex   // tier 0; guards el and stopped. The loop's goroutine, which sets el, reads el without it
	el      gnet.EventLoop // known from the first connection on
	stopped bool

	flushTask, tickTask gnet.Runnable
	ticking             atomic.Bool // a tick is queued

	wheel  wheel
	reader reader
	dirty  []*fanout.Outbox // being flushed
}

func newLoop(g *Gateway) (*loop, error) {
	l := &loop{g: g}
	l.reader.g = g
	l.flushTask, l.tickTask = task(l.flush), task(l.tick)
	l.reader.flusher = fanout.NewFlusher(func() { l.execute(l.flushTask) })
	l.reader.flusher.Meter = &g.hub.Meter
	var err error
	l.client, err = gnet.NewClient(l,
		gnet.WithNumEventLoop(1), // one: Gateway.quietest chooses the loop, not gnet
		gnet.WithReadBufferCap(readBuffer),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // means: leave it alone, net has set it
		gnet.WithLogger(gnetLog{g.log}))
	if err != nil {
		return nil, fmt.Errorf("make event loop: %w", err)
	}
	if err := l.client.Start(); err != nil {
		return nil, fmt.Errorf("start event loop: %w", err)
	}
	return l, nil
}

// task is a function to run on the loop.
type task func()

// Run implements gnet.Runnable.
func (t task) Run(context.Context) error {
	t()
	return nil
}

// execute queues a task for the loop's goroutine. Before the first connection, and after the loop has stopped, it
// does nothing and reports false: gnet would write to a file descriptor that may belong to another file by now.
// Under the lock it writes to an eventfd, which does not block.
func (l *loop) execute(t gnet.Runnable) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.el != nil && !l.stopped && l.el.Execute(context.Background(), t) == nil
}

// stop closes the remaining connections and ends the loop. No hand-over may be under way.
func (l *loop) stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	if err := l.client.Stop(); err != nil {
		l.g.log.Warn("stop event loop failed", "err", err)
	}
}

var errNotEnrolled = errors.New("the event loop did not take the connection")

// enroll hands a connection over to the loop and returns once the loop has it. nc is closed, and the loop goes on
// with a duplicate of its socket. early has the bytes that were read already. After an error the caller gives
// back the place in the limits.
func (l *loop) enroll(c *loopConn, nc *net.TCPConn, early []byte) error {
	c.lp = l
	if len(early) > 0 {
		c.part = &partial{rest: append([]byte(nil), early...)}
	}
	l.open.Add(1)
	_, err := l.client.EnrollContext(nc, c)
	if err == nil && c.gc == nil { // set by OnOpen, which has run by now
		err = errNotEnrolled
	}
	if err != nil {
		l.open.Add(-1)
		return fmt.Errorf("enroll %s: %w", c.peer(), err)
	}
	// gnet keeps the addresses that net has made. They are not used, and their bytes would be two more objects
	// for each connection.
	for _, a := range [...]net.Addr{nc.LocalAddr(), nc.RemoteAddr()} {
		if a, ok := a.(*net.TCPAddr); ok {
			a.IP = nil
		}
	}
	return nil
}

// OnOpen takes a connection over, on the loop.
func (l *loop) OnOpen(gc gnet.Conn) (out []byte, action gnet.Action) {
	c := gc.Context().(*loopConn)
	c.gc = gc
	if l.el == nil {
		l.mu.Lock()
		l.el = gc.EventLoop()
		l.mu.Unlock()
	}
	l.wheel.advance(l.g.ticks(), l.look) // the wheel stands still while there is no connection
	c.mark = l.wheel.now
	l.wheel.put(c, c.mark+l.g.helloTicks)
	defer l.rescue(c, &action)
	if c.part != nil {
		c.input(nil, &l.reader, c)
		c.heard()
	}
	if l.g.ending.Load() { // endAll may have run before
		c.end(l.g.draining(), &l.reader, c)
	} else if c.place != nil && !c.place.attach(func() { l.execute(task(c.evict)) }) {
		c.evict()
	}
	l.reader.wakeUps.Flush()
	return nil, gnet.None
}

// OnTraffic passes on everything that was read, and discards it: gnet would gather unconsumed bytes without a
// bound. It ignores what comes after the end of a connection, and closes the socket if that is too much.
func (l *loop) OnTraffic(gc gnet.Conn) (action gnet.Action) {
	c := gc.Context().(*loopConn)
	defer l.rescue(c, &action)
	l.g.pauseWhilePressed()
	b, _ := gc.Peek(-1) // the loop's own read buffer
	if c.state == stateOpen {
		c.input(b, &l.reader, c)
		c.heard()
	} else if c.excess++; c.excess > maxExcess/readBuffer || c.tooLate(int(c.excess)) {
		return gnet.Close
	}
	if c.state != stateClosed {
		_, _ = gc.Discard(-1) // everything
	}
	l.reader.wakeUps.Flush()
	return gnet.None
}

// OnClose ends a connection whose socket is closed. Nothing may be written any more: its file
// descriptor can belong to another file from now on.
func (l *loop) OnClose(gc gnet.Conn, _ error) gnet.Action {
	c := gc.Context().(*loopConn)
	c.state = stateClosed
	l.wheel.remove(c)
	c.leave()
	l.open.Add(-1)
	c.release(&l.g.limits)
	return gnet.None
}

// rescue recovers from a panic, logs it, and has gnet close the connection. The others of the loop go on.
func (l *loop) rescue(c *loopConn, action *gnet.Action) {
	if p := recover(); p != nil {
		l.g.panicked(p, debug.Stack())
		l.reader.wakeUps.Flush() // earlier frames have filled outboxes
		*action = gnet.Close
	}
}

// flush writes each outbox in which something waits, with one call for all of its events.
func (l *loop) flush() {
	l.dirty = l.reader.flusher.Take(l.dirty)
	for i, o := range l.dirty {
		l.dirty[i] = nil
		if c := o.Conn.(*loopConn); c.state == stateOpen {
			c.flush(o)
		}
	}
}

// ticks returns the time since the gateway was made, in ticks.
func (g *Gateway) ticks() uint32 { return uint32(time.Since(g.began) / g.tick) }

// connections returns the number of connections of the loop.
func (l *loop) connections() int { return int(l.open.Load()) }

// tickSoon queues a tick, unless one is queued or the loop has no connections.
func (l *loop) tickSoon() {
	if l.open.Load() > 0 && l.ticking.CompareAndSwap(false, true) && !l.execute(l.tickTask) {
		l.ticking.Store(false)
	}
}

// tick looks at the connections that are due.
func (l *loop) tick() {
	l.ticking.Store(false)
	l.wheel.advance(l.g.ticks(), l.look)
	l.reader.wakeUps.Flush()
}

// look checks a connection whose tick has come.
func (l *loop) look(c *loopConn) {
	var action gnet.Action
	func() {
		defer l.rescue(c, &action)
		c.expire()
	}()
	if action == gnet.Close && c.state != stateClosed {
		c.drop()
	}
}

// endAll ends every connection, each with a reason of its own.
func (l *loop) endAll(reason func() *im.Error) {
	l.execute(task(func() {
		l.wheel.each(func(c *loopConn) {
			if c.state == stateOpen {
				c.end(reason(), &l.reader, c)
			}
		})
		l.reader.wakeUps.Flush()
	}))
}

// The states of a connection of a loop.
const (
	stateOpen    uint8 = iota
	stateDrained       // its end is written, though gnet may still hold a part of it
	stateShut          // our side is shut; waiting for the peer's, so that it reads the end
	stateClosed
)

// loopConn is a plaintext connection. An idle one costs this, gnet's own
// connection, the session and nothing else.
type loopConn struct {
	conn
	lp         *loop
	gc         gnet.Conn
	next, prev *loopConn // of the wheel's slot
	due        uint32    // tick of the next look; all times here are in ticks
	mark       uint32    // when it was opened; if live, when last heard or probed; if not open, when its state began
	written    uint32    // bytes, modulo 2^32
	taken      uint32    // bytes that the peer had acknowledged at the last look, modulo 2^32; valid while backlog
	moved      uint32    // when taken last changed; valid while backlog
	excess     uint16    // reads since it left stateOpen
	state      uint8
	probes     uint8 // since it was last heard
	planned    bool  // in the wheel
	live       bool  // greeted: heartbeat instead of hello timeout
	backlog    bool  // gnet holds bytes that the socket did not take
	quick      bool  // finish without waiting for the peer
}

// heard notes that the peer was heard. The planned look stays as it is, except that the first call after the
// welcome starts the heartbeat.
func (c *loopConn) heard() {
	if c.state != stateOpen || !c.greeted() {
		return
	}
	c.mark, c.probes = c.lp.wheel.now, 0
	if !c.live {
		c.live = true
		c.lp.wheel.put(c, c.mark+c.lp.g.beatTicks)
	}
}

// evict ends a connection that has lost its place to another one, unless it was welcomed meanwhile or is ending.
func (c *loopConn) evict() {
	if c.state == stateOpen && !c.deaf && !c.greeted() {
		c.end(&im.Error{Code: im.CodeHelloTimeout}, &c.lp.reader, c)
		c.lp.reader.wakeUps.Flush()
	}
}

// put writes b. The socket may be closed when put returns.
func (c *loopConn) put(b []byte) {
	if c.state == stateClosed || len(b) == 0 {
		return
	}
	c.written += uint32(len(b))
	_, _ = c.gc.Write(b) // an error closes the connection: OnClose has run
	if c.state != stateClosed {
		c.watch()
	}
}

// watch plans a look at the connection for the next tick if its socket has not taken everything.
func (c *loopConn) watch() {
	n := c.gc.OutboundBuffered()
	if n == 0 || c.backlog {
		return
	}
	c.backlog = true
	c.taken, c.moved = c.acknowledged(n), c.lp.wheel.now
	c.lp.wheel.put(c, c.lp.wheel.now+1)
}

// held returns how many of the written bytes gnet still holds.
func (c *loopConn) held() int {
	if c.state == stateClosed {
		return 0
	}
	return c.gc.OutboundBuffered()
}

// acknowledged returns how many of the written bytes the peer has acknowledged, modulo 2^32. held is how many of
// them gnet still holds. The bytes that the kernel takes would show progress too late: it takes more only when a
// third of its buffer is free, and a slow peer may need longer for that than WriteStall.
func (c *loopConn) acknowledged(held int) uint32 {
	unacknowledged, _ := unix.IoctlGetUint32(c.gc.Fd(), unix.SIOCOUTQ) // 0 where the kernel does not say it
	return c.written - uint32(held) - unacknowledged
}

// flush writes the pending bytes of the outbox. It counts a welcome, and ends the connection if the outbox says so.
func (c *loopConn) flush(o *fanout.Outbox) {
	p, end := o.Take()
	c.put(p.Bytes)
	o.Wrote(p, c.held())
	if !c.live {
		c.noteWelcome()
		c.heard()
	}
	if end != nil && c.state == stateOpen {
		c.put(c.closing(nil, end, c.lp.g))
		c.finish(false)
	}
}

func (c *loopConn) busy(limit int) bool {
	waiting := c.held()
	if c.sess != nil {
		waiting = c.sess.Out.Pending()
	}
	if waiting <= limit || c.sess == nil || c.state != stateOpen {
		return waiting > limit
	}
	c.flush(&c.sess.Out)
	return c.state != stateOpen || c.held() > limit
}

func (c *loopConn) finish(quick bool) {
	if c.state != stateOpen {
		return
	}
	c.leave()
	c.state, c.quick, c.mark = stateDrained, quick, c.lp.wheel.now
	c.expire()
}

// expire checks a connection whose tick has come, or whose state has changed, and plans the next look.
func (c *loopConn) expire() {
	now := c.lp.wheel.now
	switch c.state {
	case stateClosed:
		return
	case stateDrained:
		if c.held() == 0 {
			c.shut()
			return
		}
		if now-c.mark >= c.lp.g.graceTicks {
			c.drop()
			return
		}
	case stateShut:
		if now-c.mark >= c.lp.g.graceTicks {
			c.drop()
			return
		}
	case stateOpen:
		next := c.checkLife(now)
		if c.state != stateOpen {
			return // the change has planned the next look
		}
		if c.backlog && c.checkProgress(now) {
			next = now + 1
		}
		if c.state == stateOpen {
			c.lp.wheel.put(c, next)
		}
		return
	}
	c.lp.wheel.put(c, now+1)
}

// checkLife enforces the hello timeout and the heartbeat, and returns the tick of the next look. Spec: P-3.1,
// P-7.
func (c *loopConn) checkLife(now uint32) (next uint32) {
	if c.deaf {
		return now + 1
	}
	if c.sess != nil && !c.live {
		c.noteWelcome()
		c.heard()
	}
	if !c.live {
		if now-c.mark >= c.lp.g.helloTicks {
			c.end(&im.Error{Code: im.CodeHelloTimeout}, &c.lp.reader, c)
			return now + 1
		}
		return c.mark + c.lp.g.helloTicks
	}
	if now-c.mark < c.lp.g.beatTicks {
		return c.mark + c.lp.g.beatTicks
	}
	if int(c.probes) >= c.lp.g.o.Misses {
		c.end(&im.Error{Code: im.CodeDeadLink}, &c.lp.reader, c)
		return now + 1
	}
	c.probes++
	c.mark = now // the peer gets a whole interval, however late this look was
	c.sess.Probe(&c.lp.reader.wakeUps)
	return now + c.lp.g.beatTicks
}

// checkProgress tells the outbox how many bytes gnet holds. It ends a connection whose peer has acknowledged none
// of them for WriteStall, and closes its socket after a further grace. It reports whether gnet still holds some.
// Spec: P-6.4.
func (c *loopConn) checkProgress(now uint32) bool {
	held := c.held()
	if c.sess != nil {
		c.sess.Out.Backlog(held)
	}
	if held == 0 {
		c.backlog = false
		return false
	}
	if taken := c.acknowledged(held); taken != c.taken {
		c.taken, c.moved = taken, now
		return true
	}
	if now-c.moved < c.lp.g.stallTicks {
		return true
	}
	if now-c.moved >= c.lp.g.stallTicks+c.lp.g.graceTicks {
		c.drop()
	} else if !c.deaf {
		c.end(&im.Error{Code: im.CodeSlowConsumer}, &c.lp.reader, c)
	}
	return true
}

// shut shuts the socket for writing. It goes on reading, so that the kernel does not reset the connection before
// the peer has read its end. If quick, or if that fails, it closes the socket at once.
func (c *loopConn) shut() {
	if c.quick || unix.Shutdown(c.gc.Fd(), unix.SHUT_WR) != nil {
		c.drop()
		return
	}
	c.state, c.mark = stateShut, c.lp.wheel.now
	c.lp.wheel.put(c, c.mark+c.lp.g.graceTicks)
}

// drop closes the socket now.
func (c *loopConn) drop() {
	_ = c.lp.el.Close(c.gc) // OnClose does the rest
}

// gnetLog passes gnet's own warnings and errors to our log.
type gnetLog struct{ *slog.Logger }

func (l gnetLog) Debugf(string, ...any) {}
func (l gnetLog) Infof(string, ...any)  {}
func (l gnetLog) Warnf(format string, a ...any) {
	l.Warn("event loop", "err", fmt.Sprintf(format, a...))
}
func (l gnetLog) Errorf(format string, a ...any) {
	l.Error("event loop", "err", fmt.Sprintf(format, a...))
}
func (l gnetLog) Fatalf(format string, a ...any) { l.Errorf(format, a...) }
