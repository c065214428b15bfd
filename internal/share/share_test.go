package share_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
)

func account(u string) im.Account { return im.Account{Tenant: im.DefaultTenant, User: im.User(u)} }

// start runs a queue until the test ends, in a bubble of fake time.
func start(t *testing.T, o share.Options) *share.Queue {
	q := share.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { q.Run(ctx); close(ended) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return q
}

// A user whose jobs are expensive waits for their own jobs: a user who asks for little gets
// every other job done at once, however much the greedy one has queued before.
func TestLittleGoesBeforeMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, share.Options{Workers: 1, PerUser: 1, Waiting: 1000, UserWaiting: 1000})
		for range 100 {
			q.Add(account("greedy"), func() { time.Sleep(100 * time.Millisecond) })
		}
		time.Sleep(time.Second)
		for range 20 {
			begin := time.Now()
			q.Do(t.Context(), account("modest"), func() { time.Sleep(time.Millisecond) })
			if took := time.Since(begin); took > 101*time.Millisecond {
				t.Errorf("a job of 1 ms took %v", took)
			}
		}
	})
}

// Workers are divided by the time that jobs take, not by their number.
func TestUsersGetTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, share.Options{Workers: 1, PerUser: 1, Waiting: 10_000, UserWaiting: 10_000})
		var mu sync.Mutex
		spent := map[string]time.Duration{}
		for u, each := range map[string]time.Duration{"a": time.Millisecond, "b": 10 * time.Millisecond, "c": 40 * time.Millisecond} {
			for range 5 * time.Second / each {
				q.Add(account(u), func() {
					time.Sleep(each)
					mu.Lock()
					spent[u] += each
					mu.Unlock()
				})
			}
		}
		time.Sleep(9 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for u, d := range spent {
			if d < 2900*time.Millisecond || d > 3100*time.Millisecond {
				t.Errorf("user %s got %v of 9 s, want a third: %v", u, d, spent)
			}
		}
	})
}

func TestJobsOfOneUserLeaveWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, share.Options{Workers: 3, PerUser: 2, Waiting: 100, UserWaiting: 10})
		hold := make(chan struct{})
		took := 0
		for range 20 {
			if q.Add(account("greedy"), func() { <-hold }) {
				took++
			}
		}
		synctest.Wait()
		if took != 12 || q.Waiting() != 10 {
			t.Errorf("%d jobs of one user are taken, %d wait; want 12 and 10", took, q.Waiting())
		}
		if !q.Do(t.Context(), account("modest"), func() {}) {
			t.Error("the queue is full for another user")
		}
		close(hold)
		synctest.Wait()
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d jobs wait", n)
		}
	})
}

// The queue of all users has a bound. Those who have filled it do not keep out a user
// who has few jobs.
func TestFullQueueTakesWhoHasLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, share.Options{Workers: 1, PerUser: 1, Waiting: 100, UserWaiting: 60})
		hold := make(chan struct{})
		add := func(u string) bool { return q.Add(account(u), func() { <-hold }) }
		for i := range 121 {
			add(fmt.Sprint("greedy", i%2))
			synctest.Wait()
		}
		if n := q.Waiting(); n != 100 {
			t.Fatalf("%d jobs wait, want 100", n)
		}
		if add("greedy0") || !add("modest") {
			t.Error("a full queue takes the greedy, or refuses the modest")
		}
		for i := range 1000 {
			add(fmt.Sprint("crowd", i))
		}
		if n := q.Waiting(); n != 200 {
			t.Errorf("%d jobs wait, want 200", n)
		}
		close(hold)
	})
}

func TestDoGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, share.Options{Workers: 1, PerUser: 1, Waiting: 10, UserWaiting: 10})
		hold := make(chan struct{})
		q.Add(account("a"), func() { <-hold })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if q.Do(ctx, account("a"), func() { t.Error("a job runs whose caller has gone") }) {
			t.Error("a job that did not run is done")
		}
		close(hold)
		synctest.Wait()
		defer func() {
			if p := recover(); p != "broken" {
				t.Errorf("the caller got the panic %v", p)
			}
		}()
		q.Do(t.Context(), account("a"), func() { panic("broken") })
	})
}

// The use of a user is forgotten in the end; otherwise the memory would grow with each
// user. Of the users who use little, few are remembered at any time, however many there
// are: each connection reads a little when it begins, and then nothing for hours.
func TestUsersAreForgotten(t *testing.T) {
	for _, c := range []struct {
		name        string
		took, pause time.Duration
		most        int
	}{
		{"who used little", 100 * time.Microsecond, 100 * time.Microsecond, 70},
		{"who used much", 10 * time.Millisecond, 0, 128}, // those of the last 100 ms are 10
		{"who used more than is paid off in time", 5 * time.Second, 0, 70},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := start(t, share.Options{Workers: 4, PerUser: 4, Waiting: 10, UserWaiting: 10})
				most := 0
				for i := range 2000 {
					q.Do(t.Context(), account(fmt.Sprint(i)), func() { time.Sleep(c.took) })
					time.Sleep(c.pause)
					most = max(most, q.Users())
				}
				if most > c.most {
					t.Errorf("%d users are remembered, want at most %d", most, c.most)
				}
			})
		})
	}
}

// A pause pays for a part of the time that it is long. So who sends one job after the
// other, with pauses in between, does not go before a user who asks for less.
func TestPausesPayOffLessThanTheyTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := start(t, share.Options{Workers: 1, PerUser: 1, Waiting: 10, UserWaiting: 10})
		for range 100 {
			q.Do(t.Context(), account("greedy"), func() { time.Sleep(10 * time.Millisecond) })
			time.Sleep(10 * time.Millisecond)
		}
		var order []string
		hold, both := make(chan struct{}), sync.WaitGroup{}
		q.Add(account("other"), func() { <-hold })
		synctest.Wait()
		for _, u := range []string{"greedy", "modest"} {
			both.Add(1)
			q.Add(account(u), func() { order = append(order, u); both.Done() })
		}
		close(hold)
		both.Wait()
		if want := []string{"modest", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// Jobs that compute take turns, also when workers are free. A job that takes longer than a
// turn waits for something, and another begins.
func TestJobsTakeTurns(t *testing.T) {
	for each, want := range map[time.Duration]int{15 * time.Millisecond: 1, time.Second: 4} {
		synctest.Test(t, func(t *testing.T) {
			q := start(t, share.Options{Workers: 4, PerUser: 4, Waiting: 100, UserWaiting: 100, Turns: share.NewTurns(1)})
			var mu sync.Mutex
			running, most, ended := 0, 0, 0
			for range 12 {
				q.Add(account("a"), func() {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(each)
					mu.Lock()
					running--
					ended++
					mu.Unlock()
				})
			}
			time.Sleep(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if most != want || ended != 12 {
				t.Errorf("of 12 jobs of %v %d ended, and at most %d ran at once; want %d", each, ended, most, want)
			}
		})
	}
}

// The job is chosen when it is its turn: a user who comes meanwhile and has used less goes
// first.
func TestTurnsGoToWhoHasUsedLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := share.NewTurns(1)
		q := start(t, share.Options{Workers: 8, PerUser: 8, Waiting: 100, UserWaiting: 100, Turns: turns})
		q.Do(t.Context(), account("greedy"), func() { time.Sleep(10 * time.Millisecond) })
		var mu sync.Mutex
		var order []string
		job := func(u string) func() {
			return func() {
				mu.Lock()
				order = append(order, u)
				mu.Unlock()
			}
		}
		turns.Do(func() {
			for range 20 {
				q.Add(account("greedy"), job("greedy"))
			}
			synctest.Wait() // all workers wait
			q.Add(account("modest"), job("modest"))
		})
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 21 || order[0] != "modest" {
			t.Errorf("the jobs ran in the order %v", order)
		}
	})
}
