package conv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// fetcher finds the conversations of one feed in memory. It has loaders read the others, and extend tails
// that are too short.
type fetcher struct {
	mem       *memory
	memories  *memories
	queues    *queues
	outsiders *outsiders
	signaller *signaller
	node      *node
	store     store.Store
	hash      hasher
	log       *slog.Logger
}

// getLocked finds a conversation in memory, or begins to load it. nil: there is no room for another one.
// getLocked is called with memory.mu held.
func (fe *fetcher) getLocked(key im.Key) *conv {
	c := fe.mem.convs[key]
	if c == nil {
		if fe.node.crowded() {
			return nil
		}
		c = &conv{key: key, id: key.Conv.String(), done: make(chan struct{}), lastUse: fe.mem.now().Unix()}
		fe.mem.addLocked(c)
		fe.node.loaders.add(func() { fe.load(c) })
	}
	return c
}

// acquire returns a loaded conversation and keeps it in memory until release. Codes: overloaded; other errors are
// those of the load and of ctx.
func (fe *fetcher) acquire(ctx context.Context, key im.Key) (*conv, error) {
	fe.mem.mu.Lock()
	c := fe.getLocked(key)
	if c == nil {
		fe.mem.mu.Unlock()
		return nil, errBusy()
	}
	c.uses++
	c.lastUse = fe.mem.now().Unix()
	fe.mem.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		fe.release(c)
		return nil, ctx.Err()
	}
	if c.err != nil {
		fe.release(c)
		return nil, c.err
	}
	return c, nil
}

// release ends the use of c that acquire has begun.
func (fe *fetcher) release(c *conv) {
	fe.mem.mu.Lock()
	defer fe.mem.mu.Unlock()
	c.uses--
	// A conversation that does not exist is not kept: asking for made-up ids
	// costs no memory.
	if c.unusedLocked() && c.info.Load().record == nil {
		fe.mem.removeLocked(c)
	}
}

// load reads a conversation's state, unless all who wait for it are outsiders. All that it reads is durable,
// because a conversation with an append under way never leaves memory.
func (fe *fetcher) load(c *conv) {
	wanted, err := fe.outsiders.wanted(c)
	if !wanted {
		return
	}
	if err == nil {
		err = fe.read(context.Background(), c)
	}
	if c.err = err; err != nil {
		fe.mem.mu.Lock()
		fe.mem.removeLocked(c)
		fe.mem.mu.Unlock()
		fe.node.damage.log(fe.log, "load conversation", c.id, err)
	}
	close(c.done)
	fe.loaded(c, err)
	fe.memories.makeRoom()
}

// loaded is called when a load or a scan of c has ended; c is still in the state loading
// or scanning. If the store could not be read, the sends that are queued for c are
// answered with an error.
func (fe *fetcher) loaded(c *conv, err error) {
	var failed []*Send
	fe.mem.mu.Lock()
	if err != nil {
		failed, c.queue, c.queueBytes = c.queue, nil, 0
	}
	if c.err == nil {
		fe.mem.resizeLocked(c)
		c.state = idle
		if len(c.signals) > 0 {
			fe.signaller.loadedLocked(c) // before a send that waits can get a seq
		}
		fe.queues.activateLocked(c)
	}
	fe.mem.mu.Unlock()
	fe.queues.wakeCommitter()
	if len(failed) > 0 {
		fe.queues.refuse(failed, unread(err))
	}
}

func (fe *fetcher) read(ctx context.Context, c *conv) error {
	rec, err := fe.store.Conversation(ctx, c.key)
	if err != nil {
		return err
	}
	in, at := &info{record: rec, members: noMembers}, point{}
	if rec != nil {
		if in.members, err = readMembers(ctx, fe.store, c.key); err != nil {
			return err
		}
	}
	// damage may have taken the record of a direct conversation or an inbox; its seqs go on
	if rec != nil || !policy.Of(c.key.Conv.Kind()).Members {
		if at, err = readPoint(ctx, fe.store, c.key); err != nil {
			return err
		}
	}
	c.log = logState{head: at.head, counted: at.counted, hidden: at.hidden, info: in}
	c.log.tail.from = at.head
	c.publish(in, at)
	return nil
}

// readMembers reads the members of a conversation. It packs their names and stays into a few large
// pieces of memory.
func readMembers(ctx context.Context, st store.Store, key im.Key) (*Members, error) {
	m := &Members{}
	var names strings.Builder
	var stays []stay
	type end struct{ name, stays int } // where the bytes and stays of a member end
	var ends []end
	err := st.Members(ctx, key, func(u im.User, r *storepb.Member) bool {
		names.WriteString(string(u))
		for _, s := range r.Stays {
			stays = append(stays, stay{im.Seq(s.From), im.Seq(s.To)})
		}
		m.all = append(m.all, member{role: petrelv1.Role(r.Role)})
		ends = append(ends, end{names.Len(), len(stays)})
		return true
	})
	if err != nil {
		return nil, err
	}
	all, from := names.String(), end{}
	for i, to := range ends {
		m.all[i].user = im.User(all[from.name:to.name])
		m.all[i].stays = stays[from.stays:to.stays:to.stays]
		from = to
	}
	m.list()
	return m, nil
}

// readPoint returns the point of a conversation, from its newest row.
func readPoint(ctx context.Context, st store.Store, key im.Key) (point, error) {
	row, err := st.LastRow(ctx, key)
	if err != nil || row == nil {
		return point{}, err
	}
	head, stored, err := store.SplitRow(row.Value)
	if err != nil {
		return point{}, fmt.Errorf("read head of %s: %w", key, err)
	}
	var m petrelv1.Message
	if err := wire.ParseMessage(stored, &m); err != nil || im.Seq(m.Seq) != row.Seq {
		return point{}, fmt.Errorf("read head of %s: %w", key, store.ErrCorrupt)
	}
	return point{row.Seq, m.Counted, head.Pos, hiddenOf(&head)}, nil
}

// scan extends the tail of c down to after, on a loader, while the queue of c waits. It reads only durable
// rows: rows from before c was loaded, and rows older than the newest minTail. Only one batch may not be
// durable yet, and it has at most maxRows rows of a conversation.
func (fe *fetcher) scan(c *conv, after im.Seq) {
	t := &c.log.tail
	hashes := make([]uint64, 0, int(t.from-after)+len(t.hashes))
	err := fe.store.Rows(context.Background(), c.key, after+1, t.from, func(r store.Row) bool {
		_, stored, err := store.SplitRow(r.Value)
		var msg petrelv1.Message
		if err != nil || wire.ParseMessage(stored, &msg) != nil {
			return false
		}
		hashes = append(hashes, fe.hash.id(im.User(msg.From), msg.ClientMsgId))
		return true
	})
	if err == nil && len(hashes) != int(t.from-after) {
		err = store.ErrCorrupt
	}
	if err == nil {
		t.extend(after, hashes)
	} else {
		fe.node.damage.log(fe.log, "search for a repeat", c.id, err)
	}
	fe.loaded(c, err)
}

// readThreads reads the sizes of threads, on a loader, while the queue of c waits. No commit under way adds
// messages to them: the committer knows the threads to which it adds.
func (fe *fetcher) readThreads(c *conv, roots []im.Seq) {
	read := threads{}
	var failure error
	for _, q := range roots {
		th, err := readThread(context.Background(), fe.store, c.key, q)
		if errors.Is(err, store.ErrCorrupt) {
			fe.node.damage.log(fe.log, "read a thread", c.id, err)
			th.refusal, err = unread(err), nil
		}
		if err != nil {
			failure = err
			break
		}
		read[q] = th
	}
	fe.mem.mu.Lock()
	c.read = read
	fe.mem.mu.Unlock()
	fe.loaded(c, failure)
}

// letGo ends the committer's hold on the conversations of a batch. The sends in scans and later go back to
// their queues, and for scans a loader reads. Conversations with queued sends go to the end of the ring;
// those of scans do so when the loader has read.
func (fe *fetcher) letGo(done []work, scans []scan, later []work) {
	now := fe.mem.now().Unix()
	fe.mem.mu.Lock()
	defer fe.mem.mu.Unlock()
	for _, sc := range scans {
		giveBackLocked(sc.c, sc.sends)
		sc.c.state = scanning
		if len(sc.roots) > 0 {
			fe.node.loaders.add(func() { fe.readThreads(sc.c, sc.roots) })
		} else {
			fe.node.loaders.add(func() { fe.scan(sc.c, sc.after) })
		}
	}
	for _, w := range later {
		giveBackLocked(w.c, w.sends)
	}
	for _, w := range done {
		w.c.lastUse = now
		if w.c.state == ready {
			fe.mem.resizeLocked(w.c)
			w.c.state = idle
			fe.queues.activateLocked(w.c)
		}
	}
	if len(fe.queues.ring) > 0 {
		fe.queues.wakeCommitter()
	}
}

// sweep evicts the conversations of this feed that were not used for a while. Then, while the conversations
// of all feeds take too much memory, it evicts others.
func (fe *fetcher) sweep() {
	fe.mem.evictIdle()
	fe.memories.makeRoom()
}
