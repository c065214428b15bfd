package fanout

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/wake"
)

const (
	// spreadTime is about how long it takes to send a lagged frame to all sessions of a node. If all got it at
	// once, all their syncs would come at once.
	spreadTime = 5 * time.Second

	burstSessions  = 256     // users of one burst; a pause follows if they have at least so many sessions
	maxResyncUsers = 1 << 16 // users; if there are more, all users of their parts of the table sync
)

// resync sends lagged frames to sessions of this node that may have missed events,
// because another node did not know of their users or because its frames were lost.
type resync struct {
	table    *Table
	sessions *atomic.Uint64 // counts those to which lagged was sent, or that lagged already
	due      chan struct{}  // capacity 1; a token: there are users to sync

	mu    sync.Mutex // tier 0; guards the fields below
	parts uint64     // bits: all users of these parts of the table
	users []uint64   // and these users, by hash
}

func (r *resync) everybody() {
	r.mu.Lock()
	r.parts, r.users = allParts, nil
	r.mu.Unlock()
	wake.Set(r.due)
}

func (r *resync) some(users []uint64) {
	r.mu.Lock()
	if len(r.users)+len(users) <= maxResyncUsers {
		r.users = append(r.users, users...)
	} else {
		for _, h := range append(r.users, users...) {
			r.parts |= 1 << (h % tableParts)
		}
		r.users = nil
	}
	r.mu.Unlock()
	wake.Set(r.due)
}

// take returns the users that sync next, by hash, or the index of a part
// of the table all of whose users sync. nil and -1: nobody has to sync.
func (r *resync) take() (users []uint64, part int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := min(burstSessions, len(r.users)); n > 0 {
		users, r.users = r.users[:n], r.users[n:]
		return users, -1
	}
	if r.parts == 0 {
		return nil, -1
	}
	return nil, takeLowestBit(&r.parts)
}

// run sends lagged frames to the noted users until ctx ends.
func (r *resync) run(ctx context.Context) {
	for {
		users, part := r.take()
		if part >= 0 {
			users = r.table.hashes(part)
		}
		if told := r.tell(users); told >= burstSessions || part >= 0 && told > 0 {
			select {
			case <-time.After(spreadTime / tableParts):
			case <-ctx.Done():
				return
			}
		}
		if users != nil || part >= 0 {
			continue
		}
		select {
		case <-r.due:
		case <-ctx.Done():
			return
		}
	}
}

// tell sends lagged frames to the sessions of users, and returns the number of these sessions.
func (r *resync) tell(users []uint64) (sessions int) {
	var k WakeUps
	for _, h := range users {
		for _, o := range r.table.withHash(h) {
			o.Lag(&k)
			sessions++
		}
	}
	k.Flush()
	r.sessions.Add(uint64(sessions))
	return sessions
}
