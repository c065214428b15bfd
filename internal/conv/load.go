package conv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// getLocked finds a conversation in memory, or begins to load it.
func (ow *Owner) getLocked(key im.Key) *conv {
	c := ow.convs[key]
	if c == nil {
		c = &conv{key: key, id: key.Conv.String(), done: make(chan struct{}), lastUse: ow.o.Now().Unix()}
		ow.convs[key] = c
		ow.node.loaders.add(func() { ow.load(c) })
	}
	return c
}

// acquire returns a loaded conversation and keeps it in memory until release.
func (ow *Owner) acquire(ctx context.Context, key im.Key) (*conv, error) {
	ow.mu.Lock()
	c := ow.getLocked(key)
	c.users++
	c.lastUse = ow.o.Now().Unix()
	ow.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		ow.releaseOne(c)
		return nil, ctx.Err()
	}
	if c.err != nil {
		ow.releaseOne(c)
		return nil, c.err
	}
	return c, nil
}

func (ow *Owner) releaseOne(c *conv) {
	ow.mu.Lock()
	defer ow.mu.Unlock()
	c.users--
	// What does not exist is not kept: asking for made-up ids costs no memory.
	if c.unusedLocked() && c.info.Load().record == nil {
		delete(ow.convs, c.key)
	}
}

func (c *conv) unusedLocked() bool { return c.state == idle && c.users == 0 && len(c.queue) == 0 }

// load reads a conversation's state. Nothing of it is in flight: one with an
// append under way never leaves memory, so what is read here is durable.
func (ow *Owner) load(c *conv) {
	err := ow.read(context.Background(), c)
	ow.mu.Lock()
	c.err = err
	var failed []*Send
	if err == nil {
		c.state = idle
		ow.activateLocked(c)
	} else {
		failed, c.queue = c.queue, nil
		delete(ow.convs, c.key)
	}
	ow.mu.Unlock()
	close(c.done)
	ow.signal()
	if err != nil {
		ow.o.Log.Error("load conversation failed", "conv", c.id, "err", err)
		ow.fail(failed, unread(err))
	}
}

// unread is what senders are told when the store could not be read.
func unread(err error) *im.Error {
	if errors.Is(err, store.ErrStalled) {
		return refusalOf(err)
	}
	return &im.Error{Code: im.CodeInternal}
}

// fail answers sends of which nothing was decided.
func (ow *Owner) fail(sends []*Send, e *im.Error) {
	var k fanout.Kicks
	bytes := 0
	for _, s := range sends {
		s.answer(Result{Err: e}, &k)
		bytes += s.bytes
	}
	ow.release(nil, len(sends), bytes)
	k.Flush()
}

func (ow *Owner) read(ctx context.Context, c *conv) error {
	rec, err := ow.store.Conversation(ctx, c.key)
	if err != nil {
		return err
	}
	in, at := &info{record: rec, members: noMembers}, point{}
	c.log = logState{info: in}
	if rec != nil {
		if in.members, err = ow.readMembers(ctx, c.key); err != nil {
			return err
		}
		if at, err = c.readPoint(ctx, ow.store); err != nil {
			return err
		}
	}
	c.log.head, c.log.counted = at.head, at.counted
	c.log.tail.from = c.log.head
	c.info.Store(in)
	c.point.Store(&at)
	return nil
}

// readMembers reads the members of a conversation. Their names and windows are
// few large pieces of memory, not many small ones.
func (ow *Owner) readMembers(ctx context.Context, key im.Key) (*Members, error) {
	m := &Members{}
	var names strings.Builder
	var windows []stay
	type cut struct{ name, windows int } // where those of a member end
	var cuts []cut
	err := ow.store.Members(ctx, key, func(u im.User, r *storepb.Member) bool {
		names.WriteString(string(u))
		for _, w := range r.Windows {
			windows = append(windows, stay{im.Seq(w.From), im.Seq(w.To)})
		}
		m.all = append(m.all, member{role: petrelv1.Role(r.Role)})
		cuts = append(cuts, cut{names.Len(), len(windows)})
		return true
	})
	if err != nil {
		return nil, err
	}
	all, from := names.String(), cut{}
	for i, to := range cuts {
		m.all[i].user = im.User(all[from.name:to.name])
		m.all[i].windows = windows[from.windows:to.windows:to.windows]
		from = to
	}
	m.list()
	return m, nil
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
func (ow *Owner) scan(c *conv, after im.Seq) {
	t := &c.log.tail
	hashes := make([]uint64, 0, int(t.from-after)+len(t.hashes))
	err := ow.store.Rows(context.Background(), c.key, after+1, t.from, func(r store.Row) bool {
		_, stored, err := store.SplitRow(r.Value)
		var m petrelv1.Message
		if err != nil || wire.ParseMessage(stored, &m) != nil {
			return false
		}
		hashes = append(hashes, ow.hash.id(im.User(m.From), m.ClientMsgId))
		return true
	})
	if err == nil && len(hashes) != int(t.from-after) {
		err = store.ErrCorrupt
	}
	var failed []*Send
	ow.mu.Lock()
	if err != nil {
		failed, c.queue, c.queueBytes = c.queue, nil, 0
	} else {
		t.extend(after, hashes)
	}
	c.state = idle
	ow.activateLocked(c)
	ow.mu.Unlock()
	ow.signal()
	if err != nil {
		ow.o.Log.Error("search for a repeat failed", "conv", c.id, "err", err)
		ow.fail(failed, unread(err))
	}
}

// sweepSize is how many conversations one sweep looks at: few enough to hold
// the lock for about a millisecond. A map is walked from a random place, so
// sweeps reach all of them in time.
const sweepSize = 10_000

// evictIdle forgets conversations that nobody used for a while.
func (ow *Owner) evictIdle() {
	limit := ow.o.Now().Add(-ow.o.IdleAfter).Unix()
	ow.mu.Lock()
	defer ow.mu.Unlock()
	seen := 0
	for key, c := range ow.convs {
		if seen++; seen > sweepSize {
			return
		}
		if c.unusedLocked() && c.lastUse < limit {
			delete(ow.convs, key)
		}
	}
}
