package fanout

import (
	"context"
	"sync"
	"time"
)

const (
	// spread is how long it takes until everybody of a node has been told to
	// sync, so that their syncs do not come at once.
	spread = 5 * time.Second

	few        = 256     // sessions that are told at once
	maxMissing = 1 << 16 // users; of more, whole parts of the table are told
)

// missed are the users of this node who may have missed events.
type missed struct {
	due chan struct{} // capacity 1; a token: there are some

	mu    sync.Mutex // tier 0; guards the fields below
	parts uint64     // bits: all users of these parts of the table
	users []uint64   // and these, by hash
}

func (m *missed) everybody() {
	m.mu.Lock()
	m.parts, m.users = allParts, nil
	m.mu.Unlock()
	m.signal()
}

func (m *missed) some(users []uint64) {
	m.mu.Lock()
	if len(m.users)+len(users) <= maxMissing {
		m.users = append(m.users, users...)
	} else {
		for _, h := range append(m.users, users...) {
			m.parts |= 1 << (h % parts)
		}
		m.users = nil
	}
	m.mu.Unlock()
	m.signal()
}

func (m *missed) signal() {
	select {
	case m.due <- struct{}{}:
	default:
	}
}

// take returns those to be told next: a few, or a part; neither: that was all.
func (m *missed) take() (users []uint64, part int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := min(few, len(m.users)); n > 0 {
		users, m.users = m.users[:n], m.users[n:]
		return users, -1
	}
	if m.parts == 0 {
		return nil, -1
	}
	return nil, next(&m.parts)
}

// Run has those sync who missed events because a node did not know of them, or
// because what it sent was lost, until ctx ends.
func (n *Nodes) Run(ctx context.Context) error {
	for {
		users, part := n.missed.take()
		if part >= 0 {
			users = n.table.users(part)
		}
		if told := n.lag(users); told >= few || part >= 0 && told > 0 {
			select {
			case <-time.After(spread / parts):
			case <-ctx.Done():
				return nil
			}
		}
		if users != nil || part >= 0 {
			continue
		}
		select {
		case <-n.missed.due:
		case <-ctx.Done():
			return nil
		}
	}
}

// lag has the sessions of users sync and returns how many there are.
func (n *Nodes) lag(users []uint64) (sessions int) {
	var k Kicks
	for _, h := range users {
		for _, o := range n.table.meet(h) {
			o.Lag(&k)
			sessions++
		}
	}
	k.Flush()
	n.Missed.Add(uint64(sessions))
	return sessions
}

// users are those of a part of the table, by hash.
func (t *Table) users(part int) []uint64 {
	s := &t.shards[part]
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]uint64, 0, len(s.online))
	for h := range s.online {
		all = append(all, h)
	}
	return all
}
