// Package share divides workers fairly among users. Each user has a queue of jobs. A worker that is free
// takes the next job of the user whose jobs have taken the least time so far. So a user with thousands
// of expensive jobs waits for their own jobs, and a user with one job waits only until a worker is free.
package share

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// Options bound a Queue. The numbers must be above 0.
type Options struct {
	Workers int // jobs that run at the same time
	PerUser int // jobs of one user that run at the same time
	// Waiting bounds the jobs of all users that wait. Users with fewer than fewWaiting waiting jobs may fill
	// the queue to twice this number.
	Waiting     int
	UserWaiting int // jobs of one user that wait

	Turns Turns // each job takes one; nil: for jobs that wait more than they compute
}

// fewWaiting is how many jobs of a user may wait even when Waiting is
// reached. Without it a few greedy users would fill the queue for all others.
const fewWaiting = 16

// firstCost is the expected time of the first job of a user.
const firstCost = 100 * time.Microsecond

// Below fewUsers users, Add forgets none.
const fewUsers = 64

// Queue is the jobs of all users.
type Queue struct {
	o    Options
	wake chan struct{} // capacity Options.Workers; a token for each job that a worker may take

	mu      sync.Mutex // tier 0; guards the fields below
	users   map[im.Account]*user
	order   byUse         // the users who have a job that may run now
	clock   time.Duration // the highest used of a user whose job was taken
	waiting int           // of all users
	crowded int           // from this many users on, Add looks for some to forget
}

// user holds the jobs of one user. A user without jobs stays in the map until time
// has paid off their use. Otherwise a client that sends one job after the other
// would be a new user each time. A user who has used little is forgotten soon.
type user struct {
	account im.Account
	jobs    []func() // oldest first
	running int
	used    time.Duration // time of workers, comparable with clock; running jobs count with their expected time
	cost    time.Duration // of the last job that ended
	ended   time.Time     // when that was
	place   int           // in Queue.order; -1: not in it
}

// A user who has no jobs pays off what they used: payOff milliseconds without jobs pay for one
// millisecond of a worker. If one millisecond paid for one, a user who follows each job by a
// pause of the same length could use half of a worker's time for ever, and would still be the
// first each time. After rememberFor without jobs, a user owes nothing, however much they used.
const (
	payOff      = 10
	rememberFor = 10 * time.Second
)

// owedUsed returns u.used minus the time that was paid off since the
// last job ended, but at least clock: an idle user saves nothing up.
func (u *user) owedUsed(clock time.Duration, now time.Time) time.Duration {
	idle := now.Sub(u.ended)
	if idle >= rememberFor {
		return clock
	}
	return max(u.used-idle/payOff, clock)
}

// New makes a queue.
func New(o Options) *Queue {
	return &Queue{o: o, wake: make(chan struct{}, o.Workers), users: map[im.Account]*user{}}
}

// Run runs jobs until ctx ends, and returns when no job runs any more. Jobs that still wait are dropped.
func (q *Queue) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range q.o.Workers {
		wg.Go(func() {
			for {
				select {
				case <-q.wake:
					for ctx.Err() == nil && q.runInTurn() {
						runtime.Gosched() // many short jobs must not keep others from the processor
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
}

// Add has a worker run a job of a user. It returns false if too many wait.
func (q *Queue) Add(a im.Account, job func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.users[a]
	if u == nil {
		if len(q.users) >= q.crowded {
			q.forgetLocked()
		}
		u = &user{account: a, used: q.clock, cost: firstCost, place: -1}
	}
	switch {
	case len(u.jobs)+u.running >= q.o.UserWaiting+q.o.PerUser,
		q.waiting >= q.o.Waiting && len(u.jobs) >= fewWaiting,
		q.waiting >= 2*q.o.Waiting:
		return false
	}
	q.users[a] = u
	if len(u.jobs) == 0 && u.running == 0 {
		u.used = u.owedUsed(q.clock, time.Now())
	}
	u.jobs = append(u.jobs, job)
	q.waiting++
	q.orderLocked(u)
	q.wakeLocked()
	return true
}

// Do has a worker run a job of a user, and waits until it has run. It returns false if the job
// did not run, because too many wait or ctx ended first. A panic of the job is a panic of Do.
func (q *Queue) Do(ctx context.Context, a im.Account, job func()) bool {
	var begun atomic.Bool // by the worker, or given up by the caller
	var panicked any
	done := make(chan struct{})
	ok := q.Add(a, func() {
		if !begun.CompareAndSwap(false, true) {
			return
		}
		defer close(done)
		defer func() { panicked = recover() }()
		job()
	})
	if !ok {
		return false
	}
	select {
	case <-done:
	case <-ctx.Done():
		if begun.CompareAndSwap(false, true) {
			return false
		}
		<-done
	}
	if panicked != nil {
		panic(panicked)
	}
	return true
}

// Enter waits for a worker, which is the caller's until leave is called.
// ok is false if there is none, because too many wait or ctx ended first.
func (q *Queue) Enter(ctx context.Context, a im.Account) (leave func(), ok bool) {
	begun, over := make(chan struct{}), make(chan struct{})
	leave = sync.OnceFunc(func() { close(over) })
	if !q.Add(a, func() { close(begun); <-over }) {
		return nil, false
	}
	select {
	case <-begun:
		return leave, true
	case <-ctx.Done():
		leave() // the worker that comes to it goes on at once
		return nil, false
	}
}

// Waiting returns how many jobs wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// Users returns how many users are remembered.
func (q *Queue) Users() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.users)
}

// wakeLocked wakes a worker. If the channel is full, there is a token for every worker already.
func (q *Queue) wakeLocked() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// orderLocked puts a user into order if a job of theirs may run.
func (q *Queue) orderLocked(u *user) {
	if u.place < 0 && len(u.jobs) > 0 && u.running < q.o.PerUser {
		heap.Push(&q.order, u)
	}
}

// runInTurn waits for a turn, if the queue has Turns, and then calls runNext, which chooses the job.
func (q *Queue) runInTurn() (ran bool) {
	if q.o.Turns == nil {
		return q.runNext()
	}
	q.o.Turns.Do(func() { ran = q.runNext() })
	return ran
}

// runNext runs the job whose turn it is. It returns false if there is none.
func (q *Queue) runNext() bool {
	q.mu.Lock()
	if len(q.order) == 0 {
		q.mu.Unlock()
		return false
	}
	u := heap.Pop(&q.order).(*user)
	job := u.jobs[0]
	u.jobs[0] = nil // frees what the job holds
	u.jobs = u.jobs[1:]
	q.waiting--
	q.clock = max(q.clock, u.used)
	expected := u.cost
	u.used += expected
	u.running++
	q.orderLocked(u)
	q.mu.Unlock()

	begin := time.Now()
	defer func() { // also if the job panics
		took := time.Since(begin)
		q.mu.Lock()
		defer q.mu.Unlock()
		u.running--
		u.used += took - expected
		u.cost, u.ended = took, time.Now()
		if u.place >= 0 {
			heap.Fix(&q.order, u.place)
		}
		if q.orderLocked(u); u.place >= 0 {
			q.wakeLocked() // this worker goes on with it, unless the job has panicked
		}
	}()
	job()
	return true
}

// forgetLocked drops users who have no jobs and owe nothing. It looks at all users, so it is called
// only when they have become twice as many. The others get a new map, because a map never shrinks.
func (q *Queue) forgetLocked() {
	now := time.Now()
	users := map[im.Account]*user{}
	for a, u := range q.users {
		if len(u.jobs) > 0 || u.running > 0 || u.owedUsed(q.clock, now) > q.clock {
			users[a] = u
		}
	}
	q.users, q.crowded = users, max(fewUsers, 2*len(users))
}

// byUse is a heap of users. The one who has used the least is the first.
type byUse []*user

func (h byUse) Len() int           { return len(h) }
func (h byUse) Less(i, j int) bool { return h[i].used < h[j].used }
func (h byUse) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *byUse) Push(x any) {
	u := x.(*user)
	u.place = len(*h)
	*h = append(*h, u)
}

func (h *byUse) Pop() any {
	all := *h
	u := all[len(all)-1]
	all[len(all)-1] = nil
	*h, u.place = all[:len(all)-1], -1
	return u
}
