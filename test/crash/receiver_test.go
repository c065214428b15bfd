package crash

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/client"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// receiver keeps up with all its user's conversations, by events, syncs and
// history, as a client that was written from the specification.
type receiver struct {
	w      *world
	role   role
	device string
	token  []byte

	mu   sync.Mutex // tier 0; guards the fields below
	have map[string]uint64
	head map[string]uint64
}

func newReceiver(w *world, r role, i int) *receiver {
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
func (v *receiver) sync(ctx context.Context, c *client.Conn) error {
	for {
		floors := v.floors()
		p, err := c.Sync(ctx, v.token)
		if err != nil {
			return err
		}
		for _, s := range p.Convs {
			v.w.ledger.toldHead(v.role.String(), s.Conv, s.Head, floors[s.Conv])
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
			f[id] = v.w.ledger.head(id)
		}
	}
	return f
}

// receive takes one frame.
func (v *receiver) receive(ctx context.Context, c *client.Conn) error {
	f, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	again := f.GetLagged() != nil
	for _, m := range f.GetEvents().GetMessages() {
		v.w.ledger.add(&v.w.ledger.events, 1)
		v.w.ledger.told(v.role.String(), m)
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
func (v *receiver) repair(ctx context.Context, c *client.Conn, conv string) error {
	for v.behind(conv) {
		floor := v.w.ledger.head(conv)
		p, err := c.History(ctx, &petrelv1.GetHistory{Conv: conv, After: v.next(conv) - 1})
		if err != nil {
			return err
		}
		v.w.ledger.add(&v.w.ledger.pages, 1)
		v.w.ledger.toldHead(v.role.String(), conv, p.Head, floor)
		for _, m := range p.Messages {
			v.w.ledger.told(v.role.String(), m)
			if next := v.next(conv); m.Seq != next { // nobody was removed: nothing is left out
				v.w.ledger.note(&v.w.ledger.holes, "%s read %s after %d and got %d", v.role, conv, next-1, m.Seq)
			}
			v.got(conv, m.Seq)
		}
		if len(p.Messages) == 0 {
			v.w.ledger.note(&v.w.ledger.holes, "%s read %s after %d, the head is %d, and got nothing", v.role, conv, v.next(conv)-1, p.Head)
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
			if m == v.role.user && id != "" && v.next(id) <= v.w.ledger.head(id) {
				l = append(l, fmt.Sprintf("%s from %d to %d", id, v.next(id), v.w.ledger.head(id)))
			}
		}
	}
	return strings.Join(l, ", ")
}

// readHistory reads pages here and there, mostly the newest, where what is not
// yet durable would be.
func (w *world) readHistory(ctx context.Context, r role, i int) {
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
func (w *world) drain(ctx context.Context, c *client.Conn, r role) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	for {
		f, err := c.Recv(now)
		if err != nil {
			return // nothing more, or the end, which the next request meets
		}
		for _, m := range f.GetEvents().GetMessages() {
			w.ledger.told(r.String(), m)
		}
	}
}

func (w *world) readPage(ctx context.Context, c *client.Conn, r role, rng *rand.Rand) error {
	at := w.convs[rng.IntN(len(w.convs))]
	id := w.idOf(at)
	if id == "" {
		return nil
	}
	q := &petrelv1.GetHistory{Conv: id, Before: math.MaxUint64, Limit: 20}
	floor := w.ledger.head(id)
	if rng.IntN(4) == 0 && floor > 0 {
		q.Before, q.After, q.Limit = 0, rng.Uint64N(floor), uint32(rng.IntN(200))
	}
	p, err := c.History(ctx, q)
	switch {
	case codeOf(err) == im.CodeNotMember:
		return nil
	case err != nil:
		return err
	}
	w.ledger.add(&w.ledger.pages, 1)
	w.ledger.toldHead(r.String(), id, p.Head, floor)
	for i, m := range p.Messages {
		w.ledger.told(r.String(), m)
		if i > 0 && m.Seq != p.Messages[i-1].Seq+1 {
			w.ledger.note(&w.ledger.holes, "%s read %s and got %d behind %d", r, id, m.Seq, p.Messages[i-1].Seq)
		}
	}
	return nil
}

// audit reads every conversation as the operator and holds it against the
// ledger.
func (w *world) audit() {
	w.t.Helper()
	for at, c := range w.convs {
		head := uint64(0)
		if c.id == "" {
			w.t.Fatalf("nobody wrote to %s from %s", c.b, c.a)
		}
		for more := true; more; {
			r, err := w.admin.ReadHistory(w.t.Context(), connect.NewRequest(&petrelv1.ReadHistoryRequest{History: &petrelv1.GetHistory{Conv: c.id, After: head}}))
			if err != nil {
				w.t.Fatalf("audit %s after %d: %v", c.id, head, err)
			}
			for _, m := range r.Msg.Messages {
				if head++; m.Seq != head {
					w.ledger.note(&w.ledger.holes, "%s has %d where %d should be", c.id, m.Seq, head)
					head = m.Seq
				}
				w.ledger.told("the audit", m)
				w.auditRow(at, m)
			}
			if more = r.Msg.More; more && len(r.Msg.Messages) == 0 {
				w.t.Fatalf("audit %s after %d: an empty page and more", c.id, head)
			}
		}
		if told := w.ledger.head(c.id); told != head {
			w.ledger.note(&w.ledger.lost, "%s has the head %d, and %d was told", c.id, head, told)
		}
	}
	for i, list := range w.ledger.outcomes {
		w.auditSender(i, list)
	}
}

// auditSender checks that each message of a sender is there once, and that
// those of a conversation stand in the order in which they were sent.
func (w *world) auditSender(i int, list []outcome) {
	l := w.ledger
	last := map[uint8]uint64{}
	for n, o := range list {
		k := (&message{sender: i, n: n}).k()
		switch {
		case o.seq == 0:
			l.note(&l.lost, "%s was never acked", k)
		case o.stored == 0:
			l.note(&l.lost, "%s was acked at seq %d and is nowhere", k, o.seq)
		case o.stored > 1:
			l.note(&l.dup, "%s is stored %d times", k, o.stored)
		}
		if o.seq < last[o.conv] && !w.senders[i].deferred {
			l.note(&l.moved, "%s stands at seq %d, before an earlier message of its sender at %d", k, o.seq, last[o.conv])
		}
		last[o.conv] = max(last[o.conv], o.seq)
	}
}

// auditRow checks where a stored row comes from.
func (w *world) auditRow(at int, m *petrelv1.Message) {
	if m.From == "" {
		return // the server's own
	}
	l := w.ledger
	first, second, _ := strings.Cut(m.ClientMsgId, "-")
	i, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil || i >= len(senders) || senders[i].user != m.From || n >= len(l.outcomes[i]) {
		l.note(&l.ghost, "%s seq %d is %q of %s, which nobody sent or which was refused", m.Conv, m.Seq, m.ClientMsgId, m.From)
		return
	}
	o := &l.outcomes[i][n]
	o.stored++
	switch {
	case int(o.conv) != at || m.GetText() != w.bodyOf(i, n):
		l.note(&l.ghost, "%s seq %d is %s of %s with another body or in another conversation: %.60q", m.Conv, m.Seq, m.ClientMsgId, m.From, m.GetText())
	case o.seq != m.Seq:
		l.note(&l.moved, "%s was acked at seq %d and stands at %d", m.ClientMsgId, o.seq, m.Seq)
	}
}
