package session_test

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func callFrame(id uint64, method string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: method, Request: &petrelv1.Call_Json{Json: "{}"}}}}
}

// Calls of a user that come too fast wait, over all connections together, and are refused after a
// second if their time has not come by then. Those of others do not wait. Spec: P-9.2.
func TestCallsOfAUserThatComeEarlyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Pace = rate.NewPace[im.Account](2, 3)
		w.start()
		w.hub.AttachCalls(func(context.Context, user.Identity, netip.Addr, string, bool, io.Reader) ([]byte, error) {
			return []byte("{}"), nil
		})
		token := w.token("", "alice")
		one, other, bob := w.login(token), w.login(token), w.login(w.token("", "bob"))
		begin := time.Now()
		expect := func(c *client, id uint64, after time.Duration, code im.Code) {
			t.Helper()
			f, took := c.next(), time.Since(begin)
			if code != "" && took >= after/2 && took <= after {
				took = after // a refusal comes within the last half of its second
			}
			if f.Id != id || im.Code(f.GetError().GetCode()) != code || took != after {
				t.Errorf("after %v %v, want an answer of %d with %q after %v", took, f, id, code, after)
			}
		}
		for i := range uint64(3) {
			one.send(callFrame(10+i, "quick"))
			expect(one, 10+i, 0, "")
		}
		one.send(callFrame(13, "quick"))
		synctest.Wait()
		one.send(callFrame(14, "quick"))
		synctest.Wait()
		other.send(callFrame(20, "quick"))
		bob.send(callFrame(30, "quick"))
		expect(bob, 30, 0, "")
		expect(one, 13, 500*time.Millisecond, "")
		expect(other, 20, time.Second, im.CodeRateLimited)
		expect(one, 14, time.Second, "")
		time.Sleep(time.Minute)
		begin = time.Now()
		large := callFrame(40, "large")
		large.GetCall().Request = &petrelv1.Call_Proto{Proto: make([]byte, 3*rate.PerToken)}
		one.send(large)
		expect(one, 40, 0, "")
		one.send(callFrame(41, "quick"))
		expect(one, 41, time.Second, "")
	})
}

// A user with many slow calls does not keep the calls of others waiting, and in the end
// all calls of this user are answered.
func TestCallsOfOneUserLeaveWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		var mu sync.Mutex
		running, most := 0, 0
		in, out := make(chan struct{}, 128), make(chan struct{})
		release := sync.OnceFunc(func() { close(out) })
		defer release()
		w.hub.AttachCalls(func(_ context.Context, who user.Identity, _ netip.Addr, _ string, _ bool, _ io.Reader) ([]byte, error) {
			if who.Account != account("alice") {
				return []byte("{}"), nil
			}
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			in <- struct{}{}
			<-out
			mu.Lock()
			running--
			mu.Unlock()
			return []byte("{}"), nil
		})
		token := w.token("", "alice")
		bob := w.login(w.token("", "bob"))
		var all []*client
		for range 6 {
			all = append(all, w.login(token))
		}
		for _, c := range all[:4] { // 4 run, 60 wait for these
			for i := range uint64(16) {
				c.send(callFrame(10+i, "slow"))
			}
		}
		bob.send(callFrame(2, "quick"))
		bob.want("answer of 2")
		for i := range uint64(4) {
			all[4].send(callFrame(10+i, "slow"))
		}
		for i := range uint64(16) { // one user may not let more calls wait
			all[5].send(callFrame(10+i, "slow"))
			if f := all[5].next(); f.Id != 10+i || f.GetError().GetCode() != string(im.CodeOverloaded) {
				t.Fatalf("call %d gets %v, want %s", i, f, im.CodeOverloaded)
			}
		}
		for range 4 {
			eventually.Receive(t, "a call of alice runs", in)
		}
		release()
		for i, c := range all[:5] {
			for range map[bool]int{true: 16, false: 4}[i < 4] {
				if f := c.next(); f.GetAnswer() == nil {
					t.Fatalf("connection %d: %v", i, f)
				}
			}
		}
		if most != 4 {
			t.Errorf("%d calls of one user ran at once, want 4", most)
		}
		all[5].send(callFrame(40, "quick"))
		all[5].want("answer of 40")
	})
}
