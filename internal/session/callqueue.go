package session

import (
	"sync"

	"github.com/petrel-im/petrel/internal/im"
)

// callWorkers is how many goroutines run the calls of all sessions. Reads have
// workers of their own: a call may wait for the inboxes of a thousand new members,
// and reads must not wait with it.
const callWorkers = 32

const (
	userCalls        = 4               // calls of one user that run, or wait for a worker, at the same time
	userWaitingCalls = 4 * maxRequests // further calls of one user, which wait for one of these
)

// callQueue hands calls to the call workers. A user with many slow calls holds only
// userCalls workers, so the calls of other users do not wait for them.
type callQueue struct {
	jobs       chan func() // capacity maxWaiting; full: a call is refused as overloaded
	maxWaiting int         // calls of all users that wait for another call of their user

	mu      sync.Mutex                // tier 0; guards the fields below
	users   map[im.Account]*userQueue // users who have a call under way
	waiting int                       // of all users
}

// userQueue is the calls of one user.
type userQueue struct {
	running int      // or in jobs
	waiting []func() // oldest first
}

// add runs a call of a user on a worker, after the calls of this user that wait
// already. It returns false if too many wait.
func (q *callQueue) add(a im.Account, call func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.users[a]
	if u == nil {
		u = &userQueue{}
	}
	if u.running == userCalls {
		if len(u.waiting) == userWaitingCalls || q.waiting == q.maxWaiting {
			return false
		}
		u.waiting = append(u.waiting, call)
		q.waiting++
		return true
	}
	if !q.enqueue(a, call) {
		return false
	}
	if q.users == nil {
		q.users = map[im.Account]*userQueue{}
	}
	q.users[a] = u
	u.running++
	return true
}

func (q *callQueue) enqueue(a im.Account, call func()) bool {
	select {
	case q.jobs <- func() { q.run(a, call) }:
		return true
	default:
		return false
	}
}

// run runs a call, and then lets the next call of its user follow.
func (q *callQueue) run(a im.Account, call func()) {
	for call != nil {
		call()
		call = q.next(a)
	}
}

// next is called when a call of a user has ended. It puts the next waiting call of
// the user into jobs, after the calls of other users. If jobs is full it returns the
// call, and the worker runs it at once.
func (q *callQueue) next(a im.Account) func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.users[a]
	if len(u.waiting) == 0 {
		if u.running--; u.running == 0 {
			delete(q.users, a)
		}
		return nil
	}
	next := u.waiting[0]
	u.waiting[0] = nil // frees the request that the call holds
	u.waiting = u.waiting[1:]
	q.waiting--
	if q.enqueue(a, next) {
		return nil
	}
	return next
}
