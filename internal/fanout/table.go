package fanout

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dchest/siphash"

	"github.com/petrel-im/petrel/internal/im"
)

// Table is the online table: which outboxes each user has on this node.
//
// One rule makes it safe against races: a writer makes durable, publishes the
// head, then reads the table; a reader enters the table, then reads the head.
// One of the two always sees the other. Spec: P-6.3.
type Table struct {
	nodes  *Nodes // who is told of those who come and go; nil: nobody
	key    [2]uint64
	last   atomic.Uint64 // ID of an Outbox
	shards [parts]tableShard
}

// parts is into how many the users of a node are divided, by their hashes: of
// this table, and where nodes tell each other who is online. It is part of the
// format.
const parts = 64

type tableShard struct {
	mu     sync.RWMutex // tier 1
	online map[uint64][]*Outbox
}

// NewTable makes an empty table.
func NewTable() *Table {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	t := &Table{}
	t.setKey(secret)
	for i := range t.shards {
		t.shards[i].online = map[uint64][]*Outbox{}
	}
	return t
}

func (t *Table) setKey(secret [16]byte) {
	t.key = [2]uint64{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
}

// hash names a in this table and to other nodes. Two users may have the same
// one: they are told apart here, and there one gets what is ignored.
func (t *Table) hash(a im.Account) uint64 {
	var buf [4 + im.MaxUser]byte
	binary.BigEndian.PutUint32(buf[:], uint32(a.Tenant))
	return siphash.Hash(t.key[0], t.key[1], append(buf[:4], a.User...))
}

// Enter adds an outbox of a's, which is its Account; it reports false, and adds
// nothing, when the user has max of them already. max < 0 means no limit. When
// it returns, the other nodes have been told, see Nodes.Mark.
func (t *Table) Enter(a im.Account, o *Outbox, max int) bool {
	h := t.hash(a)
	s := &t.shards[h%parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.online[h]
	if max >= 0 && len(of(a, list)) >= max {
		return false
	}
	o.ID = t.last.Add(1)
	// A new slice each time: readers hold the old one without a lock.
	s.online[h] = append(append(make([]*Outbox, 0, len(list)+1), list...), o)
	if len(list) == 0 && t.nodes != nil {
		t.nodes.announce(h, true)
	}
	return true
}

// Leave removes an outbox.
func (t *Table) Leave(a im.Account, o *Outbox) {
	h := t.hash(a)
	s := &t.shards[h%parts]
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.online[h]
	i := slices.Index(list, o)
	switch {
	case i < 0:
	case len(list) == 1:
		delete(s.online, h)
		if t.nodes != nil {
			t.nodes.announce(h, false)
		}
	default:
		rest := make([]*Outbox, 0, len(list)-1)
		s.online[h] = append(append(rest, list[:i]...), list[i+1:]...)
	}
}

// Of returns a's outboxes. The slice does not change and must not be changed.
func (t *Table) Of(a im.Account) []*Outbox { return t.at(t.hash(a), a) }

// Each calls f for the outboxes in the table, until f returns false. It holds no
// lock meanwhile: who enters or leaves may be met or not.
func (t *Table) Each(f func(*Outbox) bool) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		var all []*Outbox
		for _, list := range s.online {
			all = append(all, list...)
		}
		s.mu.RUnlock()
		for _, o := range all {
			if !f(o) {
				return
			}
		}
	}
}

// at is Of for who knows the hash.
func (t *Table) at(h uint64, a im.Account) []*Outbox { return of(a, t.meet(h)) }

// meet returns the outboxes of all users with a hash.
func (t *Table) meet(h uint64) []*Outbox {
	s := &t.shards[h%parts]
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.online[h]
}

// of keeps a's: all of them, unless hashes meet.
func of(a im.Account, list []*Outbox) []*Outbox {
	for _, o := range list {
		if o.Account != a {
			return slices.DeleteFunc(slices.Clone(list), func(o *Outbox) bool { return o.Account != a })
		}
	}
	return list
}
