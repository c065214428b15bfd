package petrel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	together     = 64               // most frames applied in one turn, with one write of the store
	tokenTimeout = 15 * time.Second // for one call of the token source
)

// arrival is a frame of a connection. With a nil frame the connection has ended; err says why.
type arrival struct {
	conn  uint64
	frame *petrelv1.ServerFrame
	err   error
}

// turns is one Run: it passes events to the core, turn by turn, and carries out the core's outputs. Only the
// goroutine of Run uses ends. The goroutines of dials and of token requests use the channels.
type turns struct {
	c        *Client
	ctx      context.Context // of this Run
	running  sync.WaitGroup
	arrivals chan arrival      // capacity framesAhead; full: nothing more is read from the sockets
	results  chan func(*core)  // results of dials and of token requests; capacity 0: their goroutines wait
	ends     map[uint64]func() // end a connection, by number
}

func (c *Client) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	t := &turns{c: c, ctx: ctx, arrivals: make(chan arrival, framesAhead), results: make(chan func(*core)),
		ends: map[uint64]func(){}}
	defer t.running.Wait()
	defer stop()
	c.do(func(k *core) { k.start() })
	defer c.do(func(*core) { clear(c.links) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := c.flush(); err != nil {
			return err
		}
		if ended, err := t.step(timer); ended || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-timer.C:
		case f := <-t.results:
			c.do(f)
		case a := <-t.arrivals:
			t.take(a)
		}
	}
}

// step lets the core do everything that is due. Then it carries out the core's outputs: it drops connections,
// starts dials, asks for a token and sets the timer. ended says that Run is over, and err why.
func (t *turns) step(timer *time.Timer) (ended bool, err error) {
	var out outputs
	var alarm time.Time
	t.c.do(func(k *core) {
		k.step()
		out, alarm = k.out, k.alarm
		k.out.token, k.out.dials, k.out.drops, k.out.ended, k.out.err = nil, nil, nil, false, nil
	})
	for _, conn := range out.drops {
		t.drop(conn)
	}
	for _, d := range out.dials {
		t.dial(d)
	}
	if out.token != nil {
		t.askToken(out.token.refused)
	}
	if !alarm.IsZero() {
		timer.Reset(max(0, time.Until(alarm)))
	} else {
		timer.Stop()
	}
	return out.ended, out.err
}

// take applies a and the arrivals that wait after it, all in one turn: at most together of them.
func (t *turns) take(a arrival) {
	all := make([]arrival, 1, together)
	all[0] = a
	for more := true; more && len(all) < together; {
		select {
		case a = <-t.arrivals:
			all = append(all, a)
		default:
			more = false
		}
	}
	t.c.do(func(k *core) {
		for _, a := range all {
			if a.frame == nil {
				k.closed(a.conn, a.err)
			} else {
				k.frame(a.conn, a.frame)
			}
		}
	})
}

// tell waits until Run passes the result to the core. Once Run is over, the result is dropped.
func (t *turns) tell(result func(*core)) {
	select {
	case t.results <- result:
	case <-t.ctx.Done():
	}
}

func (t *turns) askToken(refused string) {
	t.running.Go(func() {
		ctx, stop := context.WithTimeout(t.ctx, tokenTimeout)
		defer stop()
		token, err := t.c.token.get(ctx, refused)
		t.tell(func(k *core) { k.tokenCame(token, err) })
	})
}

func (t *turns) dial(d dial) {
	ctx, stop := context.WithCancel(t.ctx)
	t.ends[d.conn] = stop
	t.running.Go(func() {
		defer stop()
		l, err := dialLink(ctx, &t.c.o, d.addr)
		if err != nil {
			t.tell(func(k *core) { k.closed(d.conn, err) })
			return
		}
		t.tell(func(k *core) {
			if t.ends[d.conn] != nil { // the core has not dropped it meanwhile
				t.c.links[d.conn] = l
				k.opened(d.conn)
			}
		})
		l.run(ctx, d.conn, t.arrivals)
		select {
		case t.arrivals <- arrival{d.conn, nil, l.ended()}:
		case <-t.ctx.Done():
		}
	})
}

// drop ends a connection, or the attempt to make one.
func (t *turns) drop(conn uint64) {
	if end := t.ends[conn]; end != nil {
		end()
		delete(t.ends, conn)
	}
	t.c.do(func(*core) { delete(t.c.links, conn) })
}

// flush stores the changes, lets the stored messages go out, and notifies the subscriptions.
func (c *Client) flush() error {
	var w written
	c.do(func(k *core) { w = k.prepare() })
	if err := c.write(w); err != nil {
		c.do(func(k *core) { k.storeFailed(err) })
		return fmt.Errorf("%w: %w", errStore, err)
	}
	c.do(func(k *core) {
		changed := k.stored(w)
		if !changed.Empty() {
			for s := range c.subs {
				s.add(&changed)
			}
		}
	})
	return nil
}

func (c *Client) write(w written) error {
	if c.o.Store == nil {
		return nil
	}
	if len(w.rows) > 0 {
		if err := c.o.Store.Write(w.rows); err != nil {
			return err
		}
	}
	if w.sync {
		return c.o.Store.Sync()
	}
	return nil
}
