package crowd

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// receiver keeps up with all conversations of its user by events, syncs and history, like a client that was
// written from the specification.
type receiver struct {
	w      *Crowd
	role   Role
	device string
	token  []byte

	session string // the connection, in the op log
	count   int    // connections so far

	mu   sync.Mutex // tier 0; guards the fields below
	have map[string]uint64
	head map[string]uint64
}

func newReceiver(w *Crowd, r Role, i int) *receiver {
	return &receiver{w: w, role: r, device: fmt.Sprintf("receiver-%d", i), have: map[string]uint64{},
		head: map[string]uint64{}}
}

func (v *receiver) run(ctx context.Context) {
	for ctx.Err() == nil {
		c := v.w.dial(ctx, v.role, v.device)
		if c == nil {
			return
		}
		v.count++
		v.session = fmt.Sprintf("%s-%d", v.device, v.count)
		if v.sync(ctx, c) == nil {
			for v.receive(ctx, c) == nil {
			}
		}
		_ = c.Close() // it has ended
	}
}

// sync asks which conversations have changed, and reads their missing entries.
func (v *receiver) sync(ctx context.Context, c *wiretest.Conn) error {
	for {
		began := v.w.Ledger.now()
		p, err := c.Sync(ctx, v.token)
		if err != nil {
			return err
		}
		for _, s := range p.Convs {
			v.toldHead(s.Conv, s.Head, began)
			v.heard(s.Conv, s.Head)
		}
		for _, s := range p.Convs {
			if err := v.repair(ctx, c, s.Conv); err != nil {
				return err
			}
		}
		v.token = p.Token
		if !p.More {
			return nil
		}
	}
}

// receive takes one frame. An entry that leaves a gap is read again from the history, with those before it.
func (v *receiver) receive(ctx context.Context, c *wiretest.Conn) error {
	f, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	again := f.GetLagged() != nil
	for _, m := range f.GetEvents().GetMessages() {
		v.w.Ledger.add(&v.w.Ledger.events, 1)
		if m.Conv[0] == byte(im.Inbox) {
			again = true
			continue
		}
		v.heard(m.Conv, m.Seq)
		if v.next(m.Conv) == m.Seq {
			v.w.Ledger.told(shown(checker.Deliver, v.role, v.device, v.session, m))
			v.got(m.Conv, m.Seq)
			continue
		}
		// The receiver drops this entry, so the op names another device.
		v.w.Ledger.told(shown(checker.Read, v.role, v.device+" drops", v.session, m))
		if err := v.repair(ctx, c, m.Conv); err != nil {
			return err
		}
	}
	if again {
		return v.sync(ctx, c)
	}
	return nil
}

// repair reads history until the receiver has all entries up to the head that it knows.
func (v *receiver) repair(ctx context.Context, c *wiretest.Conn, conv string) error {
	for v.behind(conv) {
		began, since := v.w.Ledger.now(), v.next(conv)
		p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: v.next(conv) - 1})
		if err != nil {
			return err
		}
		v.w.Ledger.add(&v.w.Ledger.pages, 1)
		v.toldHead(conv, p.Head, began)
		for _, m := range p.Messages {
			op := shown(checker.Read, v.role, v.device, v.session, m)
			op.Began, op.Since = began, since
			v.w.Ledger.told(op)
			v.got(conv, m.Seq)
			since = m.Seq + 1
		}
		if len(p.Messages) == 0 {
			v.w.Ledger.fault("%s read %s after %d, the head is %d, and got nothing", v.role, conv, v.next(conv)-1,
				p.Head)
			return fmt.Errorf("empty page")
		}
	}
	return nil
}

// toldHead writes the op of a head in an answer to a request.
func (v *receiver) toldHead(conv string, head uint64, began int64) {
	v.w.Ledger.told(checker.Op{Kind: checker.Head, User: v.role.User, Device: v.device, Session: v.session, Conv: conv,
		Seq: head, Began: began})
}

func (v *receiver) heard(conv string, head uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.head[conv] = max(v.head[conv], head)
}

func (v *receiver) got(conv string, seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have[conv] = max(v.have[conv], seq)
	v.head[conv] = max(v.head[conv], seq)
}

func (v *receiver) next(conv string) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.have[conv] + 1
}

func (v *receiver) behind(conv string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.have[conv] < v.head[conv]
}

// caughtUp reports whether the receiver holds every entry of its conversations that any client was told of.
func (v *receiver) caughtUp() bool { return v.missing() == "" }

func (v *receiver) missing() string {
	var l []string
	for _, c := range v.w.convs {
		id := v.w.idOf(c)
		for _, m := range c.members {
			if m == v.role.User && id != "" && v.next(id) <= v.w.Ledger.head(id) {
				l = append(l, fmt.Sprintf("%s from %d to %d", id, v.next(id), v.w.Ledger.head(id)))
			}
		}
	}
	return strings.Join(l, ", ")
}

// readHistory reads random pages, mostly the newest: there an entry would appear that is not durable yet.
func (w *Crowd) readHistory(ctx context.Context, r Role, i int) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(200+i)))
	for ctx.Err() == nil {
		device := fmt.Sprintf("reader-%d", i)
		c := w.dial(ctx, r, device)
		if c == nil {
			return
		}
		for w.readPage(ctx, c, r, device, rng) == nil {
			w.drain(ctx, c, r, device)
			if w.o.ReadEvery > 0 {
				Wait(ctx, w.o.ReadEvery)
			}
		}
		_ = c.Close() // it has ended
	}
}

// drain takes the events that have arrived, so that they do not fill the queue.
func (w *Crowd) drain(ctx context.Context, c *wiretest.Conn, r Role, device string) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	for {
		f, err := c.Recv(now)
		if err != nil {
			return // no more frames, or the connection has ended, which the next request notices
		}
		for _, m := range f.GetEvents().GetMessages() {
			w.Ledger.told(shown(checker.Read, r, device, device, m))
		}
	}
}

func (w *Crowd) readPage(ctx context.Context, c *wiretest.Conn, r Role, device string, rng *rand.Rand) error {
	at := w.convs[rng.IntN(len(w.convs))]
	id := w.idOf(at)
	if id == "" {
		return nil
	}
	q := &petrelv1.GetHistory{Conv: id, Before: math.MaxUint64, Limit: 20}
	floor := w.Ledger.head(id)
	if rng.IntN(4) == 0 && floor > 0 {
		q.Before, q.After, q.Limit = 0, rng.Uint64N(floor), uint32(rng.IntN(200))
	}
	began := w.Ledger.now()
	p, err := c.History(ctx, q)
	switch {
	case codeOf(err) == im.CodeNoConversation:
		return nil
	case err != nil:
		return err
	}
	w.Ledger.add(&w.Ledger.pages, 1)
	w.Ledger.told(checker.Op{Kind: checker.Head, User: r.User, Device: device, Session: device, Conv: id, Seq: p.Head,
		Began: began})
	since := q.After + 1
	if q.Before > 0 {
		since = 0 // the page ends there
	}
	for _, m := range p.Messages {
		op := shown(checker.Read, r, device, device, m)
		op.Began, op.Since = began, since
		w.Ledger.told(op)
		since = m.Seq + 1
	}
	return nil
}
