// Package wiretest is one connection of a client for tests. It writes the frames of the test unchanged, and
// returns the frames of the server as they come. It keeps no messages and does not reconnect; programs use
// sdk/go, which does both.
package wiretest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Options name the server, the user and the settings of the connection.
type Options struct {
	// URL is a scheme and host:port. ws, wss, http and https mean WebSocket, whose path is /v1/ws unless given;
	// tcp and tls mean frames over TCP.
	URL    string
	Codec  wire.Codec
	Token  string // access token
	Device string // id of this installation; "" means "test"
	TLS    *tls.Config
	// NetDial makes the socket; nil means net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Queue is how many frames are kept for Recv; 0 means 1024. When it is full, nothing more is read from the
	// socket, so the server soon ends this connection as a slow consumer.
	Queue int
}

// Version is the protocol version this client speaks.
const Version = 1

const (
	writeTimeout  = 10 * time.Second
	endTimeout    = 10 * time.Second // to read how the server has ended a connection
	defaultQueue  = 1024             // frames
	maxFrameBytes = 16 << 20         // of a frame from the server; far above any page it sends
)

// Conn is one connection. Its methods may be called by several goroutines.
//
// The server pushes from the welcome on, so a test that keeps a connection open
// must keep calling Recv: see Options.Queue.
type Conn struct {
	// Welcome is the server's answer to the hello; nil before Hello has returned.
	Welcome *petrelv1.Welcome

	link    *link
	silence atomic.Int64 // longest silence of the server, in nanoseconds; 0: any
	nextID  atomic.Uint64
	in      chan *petrelv1.ServerFrame // capacity Options.Queue; full: reading stops; closed by read
	closing chan struct{}              // closed by Close
	done    chan struct{}              // closed when read has returned; ended is set before

	mu      sync.Mutex                            // tier 0; guards the fields below
	waiting map[uint64]chan *petrelv1.ServerFrame // by frame id; capacity 1 each
	closed  bool                                  // Close was called
	ended   *Closed                               // set once, by read
}

// Dial connects and says hello. A refusal is a *Closed that unwraps to the
// server's *im.Error.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	c, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	h := &petrelv1.Hello{VersionMin: Version, VersionMax: Version, Token: o.Token, Device: cmp.Or(o.Device, "test"),
		Client: "wiretest"}
	if err := c.Hello(ctx, h); err != nil {
		_ = c.Close() // the refusal says more
		return nil, err
	}
	return c, nil
}

// Open connects and says nothing yet: for callers that write their own hello.
func Open(ctx context.Context, o Options) (*Conn, error) {
	l, err := dialLink(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", o.URL, err)
	}
	n := o.Queue
	if n == 0 {
		n = defaultQueue
	}
	c := &Conn{
		link:    l,
		in:      make(chan *petrelv1.ServerFrame, n),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		waiting: map[uint64]chan *petrelv1.ServerFrame{},
	}
	go c.read()
	return c, nil
}

// Hello says h and waits for the welcome. After a refusal it waits for the
// close, so that the *Closed it returns has the close code too. Spec: P-3.1.
func (c *Conn) Hello(ctx context.Context, h *petrelv1.Hello) error {
	f, err := c.ask(ctx, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Hello{Hello: h}})
	if err != nil {
		refused, ok := errors.AsType[*im.Error](err)
		if !ok {
			return fmt.Errorf("hello: %w", err)
		}
		closed := c.broken(refused)
		closed.Err = refused
		return fmt.Errorf("hello: %w", closed)
	}
	w := f.GetWelcome()
	if w == nil {
		return fmt.Errorf("hello: answered by %T", f.Body)
	}
	c.Welcome = w
	if w.HeartbeatMs > 0 {
		c.silence.Store(int64(time.Duration(w.HeartbeatMs)*time.Millisecond) * int64(w.HeartbeatMisses+2))
	}
	return nil
}

// Close ends the connection and waits until nothing runs any more. Frames that
// were not taken by Recv are dropped.
func (c *Conn) Close() error {
	c.mu.Lock()
	first := !c.closed
	if first {
		c.closed = true
		close(c.closing)
	}
	c.mu.Unlock()
	var err error
	if first {
		c.link.goodbye()
		err = c.link.conn.Close()
	}
	<-c.done
	return err
}

// read takes frames from the socket until it ends. Answers go to the goroutines that wait for them. Pings are
// answered. A kick is kept for the Closed. All other frames go to Recv.
func (c *Conn) read() {
	var end Closed
	for {
		f := new(petrelv1.ServerFrame)
		if err := c.link.read(f, time.Duration(c.silence.Load())); err != nil {
			if closed, ok := err.(*Closed); ok {
				end.Code, end.Reason = closed.Code, closed.Reason
			} else {
				end.Err = err
			}
			break
		}
		switch b := f.Body.(type) {
		case *petrelv1.ServerFrame_Kick:
			end.Kick = b.Kick
			continue
		case *petrelv1.ServerFrame_Ping:
			// a broken socket shows at the next read
			_ = c.link.write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}})
			continue
		}
		if c.answer(f) {
			continue
		}
		select {
		case c.in <- f:
		case <-c.closing:
		}
	}
	_ = c.link.conn.Close() // nothing more comes or goes
	c.mu.Lock()
	c.ended = &end
	for id, w := range c.waiting {
		close(w)
		delete(c.waiting, id)
	}
	c.mu.Unlock()
	close(c.in)
	close(c.done)
}

// answer hands f to the goroutine that waits for it. It returns false if there is none.
func (c *Conn) answer(f *petrelv1.ServerFrame) bool {
	if f.Id == 0 {
		return false
	}
	c.mu.Lock()
	w := c.waiting[f.Id]
	delete(c.waiting, f.Id)
	c.mu.Unlock()
	if w == nil {
		return false
	}
	w <- f // capacity 1, one answer
	return true
}

// Closed describes how a connection ended.
type Closed struct {
	Code   int            // WebSocket close code; 0 on TCP, or when none came
	Reason string         // of the close frame
	Kick   *petrelv1.Kick // what the server announced before it closed, or nil
	Err    error          // the refusal of a hello, or what broke the socket, or nil
}

func (e *Closed) Error() string {
	s := "connection closed"
	switch {
	case e.Kick != nil:
		s += fmt.Sprintf(" by the server (%s): %s", e.Kick.Code, e.Kick.Message)
	case e.Err != nil:
		if refused, ok := errors.AsType[*im.Error](e.Err); ok {
			return fmt.Sprintf("refused (%s): %s", refused.Code, refused.Error())
		}
		s += ": " + e.Err.Error()
	case e.Code != 0:
		s += fmt.Sprintf(" (%d %s)", e.Code, e.Reason)
	}
	return s
}

// Unwrap returns the server's reason as an *im.Error if it gave one, else Err.
func (e *Closed) Unwrap() error {
	if e.Kick != nil {
		return &im.Error{
			Code: im.Code(e.Kick.Code), Message: e.Kick.Message,
			RetryAfter: time.Duration(e.Kick.ReconnectAfterMs) * time.Millisecond,
		}
	}
	return e.Err
}

// end waits until the connection or ctx has ended, and returns how the connection ended: an empty Closed if ctx
// ended first. It is for callers that know that the connection is ending.
func (c *Conn) end(ctx context.Context) *Closed {
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		return &Closed{}
	}
	e := *c.ended
	return &e
}
