package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// getLocked finds a conversation in memory, or begins to load it.
func (cs *Convs) getLocked(key im.Key) *conv {
	c := cs.convs[key]
	if c == nil {
		c = &conv{key: key, id: key.Conv.String(), done: make(chan struct{}), lastUse: cs.o.Now().Unix()}
		cs.convs[key] = c
		cs.addJobLocked(func() { cs.load(c) })
	}
	return c
}

// acquire returns a loaded conversation and keeps it in memory until release.
func (cs *Convs) acquire(ctx context.Context, key im.Key) (*conv, error) {
	cs.mu.Lock()
	c := cs.getLocked(key)
	c.users++
	c.lastUse = cs.o.Now().Unix()
	cs.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		cs.releaseOne(c)
		return nil, ctx.Err()
	}
	if c.err != nil {
		cs.releaseOne(c)
		return nil, c.err
	}
	return c, nil
}

func (cs *Convs) releaseOne(c *conv) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.users--
	// What does not exist is not kept: asking for made-up ids costs no memory.
	if c.unusedLocked() && c.info.Load().record == nil {
		delete(cs.convs, c.key)
	}
}

func (c *conv) unusedLocked() bool { return c.state == idle && c.users == 0 && len(c.queue) == 0 }

// load reads a conversation's state. Nothing of it is in flight: one with an
// append under way never leaves memory, so what is read here is durable.
func (cs *Convs) load(c *conv) {
	err := cs.read(context.Background(), c)
	cs.mu.Lock()
	c.err = err
	var failed []*Send
	if err == nil {
		c.state = idle
		cs.activateLocked(c)
	} else {
		failed, c.queue = c.queue, nil
		delete(cs.convs, c.key)
	}
	cs.mu.Unlock()
	close(c.done)
	cs.signal()
	if err != nil {
		cs.o.Log.Error("load conversation failed", "conv", c.id, "err", err)
		cs.fail(failed, &im.Error{Code: im.CodeInternal})
	}
}

// fail answers sends of which nothing was decided.
func (cs *Convs) fail(sends []*Send, e *im.Error) {
	var k fanout.Kicks
	bytes := 0
	for _, s := range sends {
		s.answer(Result{Err: e}, &k)
		bytes += s.bytes
	}
	cs.release(nil, len(sends), bytes)
	k.Flush()
}

func (cs *Convs) read(ctx context.Context, c *conv) error {
	rec, err := cs.store.Conversation(ctx, c.key)
	if err != nil {
		return err
	}
	in, at := &info{record: rec, members: noMembers}, point{}
	c.log = logState{info: in}
	if rec != nil {
		m := &Members{}
		err = cs.store.Members(ctx, c.key, func(u im.User, r *storepb.Member) bool {
			m.all = append(m.all, member{user: u, role: petrelv1.Role(r.Role), windows: r.Windows})
			return true
		})
		if err != nil {
			return err
		}
		m.list()
		in.members = m
		if at, err = c.readPoint(ctx, cs.store); err != nil {
			return err
		}
	}
	c.log.head, c.log.counted = at.head, at.counted
	c.log.tail.from = c.log.head
	if sabotageForgets {
		c.log.tail.from = 0
	}
	c.info.Store(in)
	c.point.Store(&at)
	return nil
}

func (c *conv) readPoint(ctx context.Context, st store.Store) (point, error) {
	row, err := st.LastRow(ctx, c.key)
	if err != nil || row == nil {
		return point{}, err
	}
	head, stored, err := store.SplitRow(row.Value)
	if err != nil {
		return point{}, fmt.Errorf("read head of %s: %w", c.key, err)
	}
	var m petrelv1.Message
	if err := wire.ParseMessage(stored, &m); err != nil || im.Seq(m.Seq) != row.Seq {
		return point{}, fmt.Errorf("read head of %s: %w", c.key, store.ErrCorrupt)
	}
	return point{row.Seq, m.Counted, head.Pos}, nil
}

// scan extends the tail of c down to after, on a loader, while the queue of c
// waits. What it reads is below the head that c was loaded with, so durable.
func (cs *Convs) scan(c *conv, after im.Seq) {
	t := &c.log.tail
	hashes := make([]uint64, 0, int(t.from-after)+len(t.hashes))
	err := cs.store.Rows(context.Background(), c.key, after+1, t.from, func(r store.Row) bool {
		_, stored, err := store.SplitRow(r.Value)
		var m petrelv1.Message
		if err != nil || wire.ParseMessage(stored, &m) != nil {
			return false
		}
		hashes = append(hashes, cs.hash.id(im.User(m.From), m.ClientMsgId))
		return true
	})
	if err == nil && len(hashes) != int(t.from-after) {
		err = store.ErrCorrupt
	}
	var failed []*Send
	cs.mu.Lock()
	if err != nil {
		failed, c.queue, c.queueBytes = c.queue, nil, 0
	} else {
		t.extend(after, hashes)
	}
	c.state = idle
	cs.activateLocked(c)
	cs.mu.Unlock()
	cs.signal()
	if err != nil {
		cs.o.Log.Error("search for a repeat failed", "conv", c.id, "err", err)
		cs.fail(failed, &im.Error{Code: im.CodeInternal})
	}
}

// sweepSize is how many conversations one sweep looks at: few enough to hold
// the lock for about a millisecond. A map is walked from a random place, so
// sweeps reach all of them in time.
const sweepSize = 10_000

// evictIdle forgets conversations that nobody used for a while.
func (cs *Convs) evictIdle() {
	limit := cs.o.Now().Add(-cs.o.IdleAfter).Unix()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	seen := 0
	for key, c := range cs.convs {
		if seen++; seen > sweepSize {
			return
		}
		if c.unusedLocked() && c.lastUse < limit {
			delete(cs.convs, key)
		}
	}
}
