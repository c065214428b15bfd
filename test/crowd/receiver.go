package crowd

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// receiver keeps up with all its user's conversations, by events, syncs and
// history, as a client that was written from the specification.
type receiver struct {
	w      *Crowd
	role   Role
	device string
	token  []byte

	mu   sync.Mutex // tier 0; guards the fields below
	have map[string]uint64
	head map[string]uint64
}

func newReceiver(w *Crowd, r Role, i int) *receiver {
	return &receiver{w: w, role: r, device: fmt.Sprintf("receiver-%d", i), have: map[string]uint64{}, head: map[string]uint64{}}
}

func (v *receiver) run(ctx context.Context) {
	for ctx.Err() == nil {
		c := v.w.dial(ctx, v.role, v.device)
		if c == nil {
			return
		}
		if v.sync(ctx, c) == nil {
			for v.receive(ctx, c) == nil {
			}
		}
		_ = c.Close() // it has ended
	}
}

// sync learns what changed and repairs it.
func (v *receiver) sync(ctx context.Context, c *wiretest.Conn) error {
	for {
		floors := v.floors()
		p, err := c.Sync(ctx, v.token)
		if err != nil {
			return err
		}
		for _, s := range p.Convs {
			v.w.Ledger.toldHead(v.role.String(), s.Conv, s.Head, floors[s.Conv])
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

func (v *receiver) floors() map[string]uint64 {
	f := map[string]uint64{}
	for _, c := range v.w.convs {
		if id := v.w.idOf(c); id != "" {
			f[id] = v.w.Ledger.head(id)
		}
	}
	return f
}

// receive takes one frame.
func (v *receiver) receive(ctx context.Context, c *wiretest.Conn) error {
	f, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	again := f.GetLagged() != nil
	for _, m := range f.GetEvents().GetMessages() {
		v.w.Ledger.add(&v.w.Ledger.events, 1)
		v.w.Ledger.told(v.role.String(), m)
		if m.Conv[0] == byte(im.Inbox) {
			again = true
			continue
		}
		v.heard(m.Conv, m.Seq)
		if v.next(m.Conv) == m.Seq {
			v.got(m.Conv, m.Seq)
		} else if err := v.repair(ctx, c, m.Conv); err != nil {
			return err
		}
	}
	if again {
		return v.sync(ctx, c)
	}
	return nil
}

// repair reads on from what it has until it has all it heard of.
func (v *receiver) repair(ctx context.Context, c *wiretest.Conn, conv string) error {
	for v.behind(conv) {
		floor := v.w.Ledger.head(conv)
		p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: v.next(conv) - 1})
		if err != nil {
			return err
		}
		v.w.Ledger.add(&v.w.Ledger.pages, 1)
		v.w.Ledger.toldHead(v.role.String(), conv, p.Head, floor)
		for _, m := range p.Messages {
			v.w.Ledger.told(v.role.String(), m)
			if next := v.next(conv); m.Seq != next { // nobody was removed: nothing is left out
				v.w.Ledger.note(&v.w.Ledger.holes, "%s read %s after %d and got %d", v.role, conv, next-1, m.Seq)
			}
			v.got(conv, m.Seq)
		}
		if len(p.Messages) == 0 {
			v.w.Ledger.note(&v.w.Ledger.holes, "%s read %s after %d, the head is %d, and got nothing", v.role, conv, v.next(conv)-1, p.Head)
			return fmt.Errorf("empty page")
		}
	}
	return nil
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

// caughtUp tells whether it holds all that anybody was told of its
// conversations.
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

// readHistory reads pages here and there, mostly the newest, where what is not
// yet durable would be.
func (w *Crowd) readHistory(ctx context.Context, r Role, i int) {
	rng := rand.New(rand.NewPCG(w.seed, uint64(200+i)))
	for ctx.Err() == nil {
		c := w.dial(ctx, r, fmt.Sprintf("reader-%d", i))
		if c == nil {
			return
		}
		for w.readPage(ctx, c, r, rng) == nil {
			w.drain(ctx, c, r)
		}
		_ = c.Close() // it has ended
	}
}

// drain takes the events that are here already, so that they do not fill the
// queue.
func (w *Crowd) drain(ctx context.Context, c *wiretest.Conn, r Role) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	for {
		f, err := c.Recv(now)
		if err != nil {
			return // nothing more, or the end, which the next request meets
		}
		for _, m := range f.GetEvents().GetMessages() {
			w.Ledger.told(r.String(), m)
		}
	}
}

func (w *Crowd) readPage(ctx context.Context, c *wiretest.Conn, r Role, rng *rand.Rand) error {
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
	p, err := c.History(ctx, q)
	switch {
	case codeOf(err) == im.CodeNoConversation:
		return nil
	case err != nil:
		return err
	}
	w.Ledger.add(&w.Ledger.pages, 1)
	w.Ledger.toldHead(r.String(), id, p.Head, floor)
	for i, m := range p.Messages {
		w.Ledger.told(r.String(), m)
		if i > 0 && m.Seq != p.Messages[i-1].Seq+1 {
			w.Ledger.note(&w.Ledger.holes, "%s read %s and got %d behind %d", r, id, m.Seq, p.Messages[i-1].Seq)
		}
	}
	return nil
}
