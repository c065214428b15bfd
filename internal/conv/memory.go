package conv

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// memory holds the conversations of one feed that are in memory, loads them,
// and forgets those that nobody uses (evict.go).
type memory struct {
	o     *Options
	node  *node
	store store.Store
	hash  hasher

	// loaded is called when a load or a scan of c has ended; c is still in the state
	// loading or scanning. intake sets it.
	loaded func(c *conv, err error)

	// refuse answers sends that are in no queue any more. intake sets it.
	refuse func(sends []*Send, e *im.Error)

	// confirm asks whether this node still owns the feed, as in committer.
	confirm func() error

	mu     sync.Mutex // tier 2; guards convs, sealed, and in every conv the fields that say so
	convs  map[im.Key]*conv
	clock  []*conv // all of convs; hand goes round in it
	hand   int     // the place of the last look
	gone   bool    // the owner is out of service: nothing is counted any more
	sealed bool    // the feed was given away or lost: no send and no move of a cursor is taken any more
}

// getLocked finds a conversation in memory, or begins to load it. nil: there is no
// room for another one.
func (m *memory) getLocked(key im.Key) *conv {
	c := m.convs[key]
	if c == nil {
		if m.node.crowded(m.o) {
			return nil
		}
		c = &conv{key: key, id: key.Conv.String(), done: make(chan struct{}), lastUse: m.o.Now().Unix()}
		m.addLocked(c)
		m.node.loaders.add(func() { m.load(c) })
	}
	return c
}

// acquire returns a loaded conversation and keeps it in memory until release. Codes:
// overloaded.
func (m *memory) acquire(ctx context.Context, key im.Key) (*conv, error) {
	m.mu.Lock()
	c := m.getLocked(key)
	if c == nil {
		m.mu.Unlock()
		return nil, errBusy()
	}
	c.uses++
	c.lastUse = m.o.Now().Unix()
	m.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		m.release(c)
		return nil, ctx.Err()
	}
	if c.err != nil {
		m.release(c)
		return nil, c.err
	}
	return c, nil
}

func (m *memory) release(c *conv) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.uses--
	// A conversation that does not exist is not kept: asking for made-up ids
	// costs no memory.
	if c.unusedLocked() && c.info.Load().record == nil {
		m.removeLocked(c)
	}
}

// newestPos is the position of the newest published row of a conversation; it
// is not known of one that is not in memory.
func (m *memory) newestPos(key im.Key) (pos im.Pos, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.convs[key]
	if c == nil || c.state == loading {
		return 0, false
	}
	return c.point.Load().pos, true
}

// load reads a conversation's state. A conversation with an append under way
// never leaves memory, so what is read here is durable.
func (m *memory) load(c *conv) {
	wanted, err := m.admitted(c)
	if !wanted {
		return
	}
	if err == nil {
		err = m.read(context.Background(), c)
	}
	if c.err = err; err != nil {
		m.mu.Lock()
		m.removeLocked(c)
		m.mu.Unlock()
		m.node.damage.log(m.o.Log, "load conversation", c.id, err)
	}
	close(c.done)
	m.loaded(c, err)
	m.node.makeRoom()
}

func (m *memory) read(ctx context.Context, c *conv) error {
	rec, err := m.store.Conversation(ctx, c.key)
	if err != nil {
		return err
	}
	in, at := &info{record: rec, members: noMembers}, point{}
	if rec != nil {
		if in.members, err = readMembers(ctx, m.store, c.key); err != nil {
			return err
		}
	}
	if rec != nil || c.key.Conv.Kind() != im.Group { // damage may have taken the record of a direct conversation or an inbox; its seqs go on
		if at, err = readPoint(ctx, m.store, c.key); err != nil {
			return err
		}
	}
	c.log = logState{head: at.head, counted: at.counted, info: in}
	c.log.tail.from = at.head
	c.publish(in, at)
	return nil
}

// readMembers reads the members of a conversation. Their names and stays are
// few large pieces of memory, not many small ones.
func readMembers(ctx context.Context, st store.Store, key im.Key) (*Members, error) {
	m := &Members{}
	var names strings.Builder
	var stays []stay
	type end struct{ name, stays int } // where those of a member end
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

// readPoint reads the newest row of a conversation.
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
	return point{row.Seq, m.Counted, head.Pos}, nil
}

// scan extends the tail of c down to after, on a loader, while the queue of c
// waits. The rows that it reads are durable: they were there when c was loaded, or
// they are older than the newest minTail rows. Only one batch is not durable, and it
// has at most 256 rows of a conversation.
func (m *memory) scan(c *conv, after im.Seq) {
	t := &c.log.tail
	hashes := make([]uint64, 0, int(t.from-after)+len(t.hashes))
	err := m.store.Rows(context.Background(), c.key, after+1, t.from, func(r store.Row) bool {
		_, stored, err := store.SplitRow(r.Value)
		var msg petrelv1.Message
		if err != nil || wire.ParseMessage(stored, &msg) != nil {
			return false
		}
		hashes = append(hashes, m.hash.id(im.User(msg.From), msg.ClientMsgId))
		return true
	})
	if err == nil && len(hashes) != int(t.from-after) {
		err = store.ErrCorrupt
	}
	if err == nil {
		t.extend(after, hashes)
	} else {
		m.node.damage.log(m.o.Log, "search for a repeat", c.id, err)
	}
	m.loaded(c, err)
}

// unread is what senders are told when the store could not be read.
func unread(err error) *im.Error {
	if tells(err) {
		return Refusal(err)
	}
	return &im.Error{Code: im.CodeInternal}
}

// Loaded is how many conversations are in memory.
func (m *memory) Loaded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.convs)
}
