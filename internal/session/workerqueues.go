package session

import "github.com/petrel-im/petrel/internal/share"

// Hellos, reads and calls have workers of their own, so that none of them waits for
// the others: a hello reads little, a read may read a lot, and a call may wait for the
// inboxes of a thousand new members. Reads and calls are divided fairly among users.

// NewReads makes the queue of reads of the store: syncs, pages of history, the heads of a focus, forwards,
// and the conversations in which cursors move. The API uses the same queue. With an embedded store, reads
// compute in this process and take turns; PostgreSQL has processors of its own, so turns is nil. Spec: P-9.2.
func NewReads(turns share.Turns) *share.Queue {
	return share.New(share.Options{Workers: 8, PerUser: 2, Waiting: 8192, UserWaiting: 1024, Turns: turns})
}

// NewCalls makes the queue of the calls. The API uses the same queue, for calls over HTTP.
func NewCalls() *share.Queue {
	return share.New(share.Options{Workers: 32, PerUser: 4, Waiting: 4096, UserWaiting: 4 * maxRequests})
}

// queueRead has a worker run a read of the session. It returns false if too many wait.
func (s *Session) queueRead(job func()) bool { return s.hub.reads.Add(s.Out.Account, job) }

// queueCall has a worker run a call of the session. It returns false if too many wait.
func (s *Session) queueCall(job func()) bool { return s.hub.calls.Add(s.Out.Account, job) }
