package convtest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// reads counts the reads of a Gate, and has the hooks of a test.
type reads struct {
	count atomic.Uint64
	named atomic.Uint64 // of marks by their names

	written atomic.Uint64 // bytes

	mu       sync.Mutex // tier 0; guards the fields below
	onMember func(im.User)
	broken   error // of a read of a member
}

// Reads counts the reads of conversations: of their records, members, and last rows.
func (g *Gate) Reads() uint64 { return g.reads.count.Load() }

// ReadsOfMentions counts the reads of the marks of a user.
func (g *Gate) ReadsOfMentions() uint64 { return g.reads.named.Load() }

// Written counts the bytes of the values that the store has taken: rows, marks and the
// records of conversations.
func (g *Gate) Written() uint64 { return g.reads.written.Load() }

func (g *Gate) noteWritten(b *store.Batch) {
	n := 0
	for _, p := range b.Rows {
		n += len(p.Value)
	}
	for _, p := range b.Marks {
		n += len(p.Name) + len(p.Value)
	}
	for _, p := range b.Convs {
		n += p.Record.SizeVT()
	}
	g.reads.written.Add(uint64(n))
}

// OnMember has f called before the record of one member is read. nil ends it.
func (g *Gate) OnMember(f func(im.User)) {
	g.reads.mu.Lock()
	g.reads.onMember = f
	g.reads.mu.Unlock()
}

// BreakMembers makes each read of the record of one member return err. nil ends it.
func (g *Gate) BreakMembers(err error) {
	g.reads.mu.Lock()
	g.reads.broken = err
	g.reads.mu.Unlock()
}

// Conversation is of store.Store.
func (g *Gate) Conversation(ctx context.Context, c im.Key) (*storepb.Conversation, error) {
	g.reads.count.Add(1)
	return g.Store.Conversation(ctx, c)
}

// Members is of store.Store.
func (g *Gate) Members(ctx context.Context, c im.Key, fn func(im.User, *storepb.Member) bool) error {
	g.reads.count.Add(1)
	return g.Store.Members(ctx, c, fn)
}

// Member is of store.Store.
func (g *Gate) Member(ctx context.Context, c im.Key, u im.User) (*storepb.Member, error) {
	g.reads.count.Add(1)
	g.reads.mu.Lock()
	f, broken := g.reads.onMember, g.reads.broken
	g.reads.mu.Unlock()
	if broken != nil {
		return nil, broken
	}
	if f != nil {
		f(u)
	}
	return g.Store.Member(ctx, c, u)
}

// LastRow is of store.Store.
func (g *Gate) LastRow(ctx context.Context, c im.Key) (*store.Row, error) {
	g.reads.count.Add(1)
	if err := g.damage(c, newestRow, newestRow); err != nil {
		return nil, err
	}
	return g.Store.LastRow(ctx, c)
}
