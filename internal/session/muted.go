package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// muted has the users with sessions on this node who may write nothing for some time. Nearly always it is empty, and
// then a send costs one atomic read. A hello, MuteUser and each recheck of a session set it: a mute has all nodes
// recheck the sessions of its user. Spec: P-14.24.
type muted struct {
	table *fanout.Table
	now   func() time.Time
	n     atomic.Int64 // of until
	until sync.Map     // im.Account: *mute; each set stores a new one
}

// mute is the end of a mute in Unix milliseconds.
type mute struct{ untilMs uint64 }

// of returns the time before which a user writes nothing; 0: the user may write.
func (m *muted) of(a im.Account) uint64 {
	if m.n.Load() == 0 {
		return 0
	}
	is, ok := m.until.Load(a)
	if !ok {
		return 0
	}
	return is.(*mute).untilMs // as set stores it
}

// set notes until when a user is muted. It forgets users whose mute is over or who have no session here any more.
// The sessions of the user are in the online table.
func (m *muted) set(a im.Account, untilMs uint64) {
	now := uint64(m.now().UnixMilli())
	if untilMs <= now {
		if m.n.Load() == 0 {
			return
		}
		if _, there := m.until.LoadAndDelete(a); there {
			m.n.Add(-1)
		}
		return
	}
	if _, there := m.until.Swap(a, &mute{untilMs}); there {
		return
	}
	m.n.Add(1)
	m.until.Range(func(k, v any) bool {
		if over := v.(*mute).untilMs <= now; over || len(m.table.Of(k.(im.Account))) == 0 { // as set stores them
			if m.until.CompareAndDelete(k, v) { // no new session has set it meanwhile
				m.n.Add(-1)
			}
		}
		return true
	})
}
