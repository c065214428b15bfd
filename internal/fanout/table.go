package fanout

import (
	"hash/maphash"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
)

// Table is the online table: which outboxes each user has on this node.
//
// One rule makes it safe against races: a writer makes durable, publishes the
// head, then reads the table; a reader enters the table, then reads the head.
// One of the two always sees the other. Spec: P-6.3.
type Table struct {
	seed   maphash.Seed
	shards [64]tableShard
}

type tableShard struct {
	mu     sync.RWMutex // tier 1
	online map[im.Account][]*Outbox
}

// NewTable makes an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].online = map[im.Account][]*Outbox{}
	}
	return t
}

func (t *Table) shard(a im.Account) *tableShard {
	return &t.shards[maphash.String(t.seed, string(a.User))%uint64(len(t.shards))]
}

// Enter adds an outbox of a's; it reports false, and adds nothing, when the
// user has max of them already. max < 0 means no limit.
func (t *Table) Enter(a im.Account, o *Outbox, max int) bool {
	s := t.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.online[a]
	if max >= 0 && len(list) >= max {
		return false
	}
	// A new slice each time: readers hold the old one without a lock.
	s.online[a] = append(append(make([]*Outbox, 0, len(list)+1), list...), o)
	return true
}

// Leave removes an outbox.
func (t *Table) Leave(a im.Account, o *Outbox) {
	s := t.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.online[a]
	for i, x := range list {
		if x != o {
			continue
		}
		if len(list) == 1 {
			delete(s.online, a)
			return
		}
		rest := make([]*Outbox, 0, len(list)-1)
		s.online[a] = append(append(rest, list[:i]...), list[i+1:]...)
		return
	}
}

// Of returns a's outboxes. The slice does not change and must not be changed.
func (t *Table) Of(a im.Account) []*Outbox {
	s := t.shard(a)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.online[a]
}
