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
// One rule makes it safe against races. A writer makes an entry durable, publishes the head, and
// then reads the table. A reader enters the table, and then reads the head. So one of the two always
// sees the other. If the reader read the head first, it would miss an entry that is published before
// it enters the table: the entry would be neither an event nor in the head. Spec: P-6.3.
type Table struct {
	announce func(hash uint64, online bool) // tells the other nodes; nil: there are none
	key      [2]uint64
	lastID   atomic.Uint64 // of an Outbox
	parts    [tableParts]tablePart
	held     held
	change   func(a im.Account, hash uint64, online bool) // set by OnChange; nil: nothing is called
	remote   *nodeTable                                   // who is online on other nodes; nil: there are none
}

// tableParts is the number of parts of an online table. The hash of a user says
// which part the user is in. Nodes tell each other who is online part by part, so
// all nodes must have the same number.
const tableParts = 64

// allParts are all parts of a table, as bits.
const allParts = 1<<tableParts - 1

type tablePart struct {
	mu     sync.RWMutex         // tier 2, held while announcements are put into the streams; guards the field below
	online map[uint64][]*Outbox // by the hash of the account
}

// NewTable makes an empty table.
func NewTable() *Table {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	t := &Table{}
	t.setKey(secret)
	for i := range t.parts {
		t.parts[i].online = map[uint64][]*Outbox{}
	}
	return t
}

func (t *Table) setKey(secret [16]byte) {
	t.key = [2]uint64{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
}

// hash returns the name of an account in the table, and between nodes. Two accounts may have the same hash, so
// this node's table compares the accounts too. Another node may get entries for a user who is not online there,
// and ignores them.
func (t *Table) hash(a im.Account) uint64 {
	var buf [4 + im.MaxUser]byte
	binary.BigEndian.PutUint32(buf[:], uint32(a.Tenant))
	return siphash.Hash(t.key[0], t.key[1], append(buf[:4], a.User...))
}

// Enter adds an outbox whose Account is a. If the user has max outboxes already, it
// adds nothing and returns false; max < 0 means no limit. When Enter returns, the
// announcement to the other nodes is in their streams, see Nodes.Mark.
func (t *Table) Enter(a im.Account, o *Outbox, max int) bool {
	h := t.hash(a)
	p := &t.parts[h%tableParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.online[h]
	if max >= 0 && len(ofAccount(a, list)) >= max {
		return false
	}
	o.ID = t.lastID.Add(1)
	// A new slice each time: readers use the old one without a lock.
	p.online[h] = append(append(make([]*Outbox, 0, len(list)+1), list...), o)
	if len(list) == 0 && t.announce != nil {
		t.announce(h, true)
	}
	if len(list) == 0 {
		t.changed(a, h, true)
	}
	return true
}

// Leave removes an outbox.
func (t *Table) Leave(a im.Account, o *Outbox) {
	h := t.hash(a)
	p := &t.parts[h%tableParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.online[h]
	i := slices.Index(list, o)
	switch {
	case i < 0:
	case len(list) == 1:
		delete(p.online, h)
		if t.announce != nil {
			t.announce(h, false)
		}
		t.changed(a, h, false)
	default:
		rest := make([]*Outbox, 0, len(list)-1)
		p.online[h] = append(append(rest, list[:i]...), list[i+1:]...)
	}
}

// OnChange has f called when the first session of a user on one node begins and when the last one there ends.
// For a user of this node f gets the account and the hash, for one of another node only the hash. f must not
// block, and must not use the table, since a lock may be held. OnChange is called before the table is used.
func (t *Table) OnChange(f func(a im.Account, hash uint64, online bool)) { t.change = f }

func (t *Table) changed(a im.Account, hash uint64, online bool) {
	if t.change != nil {
		t.change(a, hash, online)
	}
}

// Hash returns the name of an account in the table.
func (t *Table) Hash(a im.Account) uint64 { return t.hash(a) }

// Online returns whether users with a hash have a session, here or on another node.
func (t *Table) Online(hash uint64) bool {
	return len(t.withHash(hash)) > 0 || t.remote != nil && t.remote.nodesOf(hash) != 0
}

// Of returns the outboxes of a. The slice does not change, and the caller must not
// change it.
func (t *Table) Of(a im.Account) []*Outbox { return t.of(a, t.hash(a)) }

// of is Of for a caller that has computed the hash already.
func (t *Table) of(a im.Account, hash uint64) []*Outbox { return ofAccount(a, t.withHash(hash)) }

// Each calls f for each outbox in the table, until f returns false. It holds no lock while f runs. So it may
// miss an outbox that enters meanwhile, and may give f one that has left.
func (t *Table) Each(f func(*Outbox) bool) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.RLock()
		var all []*Outbox
		for _, list := range p.online {
			all = append(all, list...)
		}
		p.mu.RUnlock()
		for _, o := range all {
			if !f(o) {
				return
			}
		}
	}
}

// Users returns how many users are online here.
func (t *Table) Users() (n int) {
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.RLock()
		n += len(p.online)
		p.mu.RUnlock()
	}
	return n
}

// withHash returns the outboxes of all users that have a hash.
func (t *Table) withHash(hash uint64) []*Outbox {
	p := &t.parts[hash%tableParts]
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.online[hash]
}

// hashes returns the hashes of the users in a part.
func (t *Table) hashes(part int) []uint64 {
	p := &t.parts[part]
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := make([]uint64, 0, len(p.online))
	for h := range p.online {
		all = append(all, h)
	}
	return all
}

// ofAccount returns the outboxes in list that belong to a. That is list
// itself, unless another account has the same hash.
func ofAccount(a im.Account, list []*Outbox) []*Outbox {
	for _, o := range list {
		if o.Account != a {
			return slices.DeleteFunc(slices.Clone(list), func(o *Outbox) bool { return o.Account != a })
		}
	}
	return list
}
