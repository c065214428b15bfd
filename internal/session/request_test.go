package session_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestHistoryIsCutToTheLimitOfThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.HistoryMessages = 5
		w.start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		for i := range 9 {
			alice.send(text(2, id, fmt.Sprint("k", i), "x"))
			alice.want(fmt.Sprintf("ack %d of 2", i+2))
		}
		for limit, want := range map[uint32]int{0: 5, 1: 1, 5: 5, 6: 5, 1 << 31: 5} {
			f := history(3, id)
			f.GetHistory().Limit = limit
			alice.send(f)
			got := alice.next()
			if h := got.GetHistory(); len(h.GetMessages()) != want || got.Id != 3 || h.GetHead() != 10 || !h.GetMore() || h.GetConv() != id {
				t.Errorf("limit %d: %v, want %d messages", limit, got, want)
			}
		}
	})
}

func TestRefusedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		other := w.group("other", "bob")
		alice := w.login(w.token("", "alice"))
		alice.send(history(2, "garbage"))
		alice.want("no_conversation of 2")
		alice.send(history(3, someStore.KeyedGroup(im.DefaultTenant, "none").String()))
		alice.want("no_conversation of 3")
		alice.send(history(4, other))
		alice.want("no_conversation of 4")
		alice.send(syncFrame(5, []byte("garbage")))
		alice.want("bad_token of 5")
		outsider := w.login(w.token("acme", "bob"))
		outsider.send(history(6, other))
		outsider.want("no_conversation of 6")
		if w.log.String() != "" {
			t.Errorf("what a client did wrong is in the log: %s", w.log.String())
		}
	})
}

// blockLoads makes every load of a conversation wait until open is called. The channel
// gets the conversation of each load that waits.
func (w *world) blockLoads() (waiting chan im.Key, open func()) {
	in, out := make(chan im.Key, 1024), make(chan struct{})
	w.store.onConversation(func(k im.Key) {
		in <- k
		<-out
	})
	return in, func() {
		w.store.onConversation(nil)
		close(out)
	}
}

// nowhere returns a new conversation id that does not exist. The server has to read the
// store to find that out.
func (w *world) nowhere() string {
	w.unknown++
	return someStore.KeyedGroup(im.DefaultTenant, fmt.Sprint("nowhere ", w.unknown)).String()
}

// Spec: P-2.2.
func TestRequestsOfASessionAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice, bob := w.login(w.token("", "alice")), w.login(w.token("", "bob"))
		for round := range 3 {
			id := w.nowhere()
			waiting, open := w.blockLoads()
			for i := range 20 {
				alice.send(history(uint64(100+i), id))
			}
			eventually.Receive(t, "a load waits", waiting)
			for i := 16; i < 20; i++ {
				f := alice.next()
				if e := f.GetError(); f.Id != uint64(100+i) || e.GetCode() != string(im.CodeOverloaded) || e.GetRetryAfterMs() == 0 {
					t.Errorf("round %d: request %d gets %v, want %s", round, i, f, im.CodeOverloaded)
				}
			}
			bob.send(ping(2)) // others are served meanwhile
			bob.want("pong of 2")
			open()
			for range 16 {
				if f := alice.next(); f.GetError().GetCode() != string(im.CodeNoConversation) {
					t.Errorf("round %d: %v", round, f)
				}
			}
		}
	})
}

// When a request ends, another one may follow. That holds however it ends, also if a
// request is refused while another one ends.
func TestPlacesOfRequestsAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
		w := newWorld(t)
		w.limits.OutboxBytes = 64 << 20
		w.start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		const asked = 25_000
		for range asked {
			alice.send(history(3, id))
		}
		answered := 0
		for range asked {
			if f := alice.next(); f.GetHistory() != nil {
				answered++
			} else if f.GetError().GetCode() != string(im.CodeOverloaded) {
				t.Fatalf("frame %v", f)
			}
		}
		waiting, open := w.blockLoads()
		id = w.nowhere()
		for range 16 {
			alice.send(history(4, id))
		}
		eventually.Receive(t, "a load waits", waiting)
		open()
		for range 16 {
			if f := alice.next(); f.GetError().GetCode() != string(im.CodeNoConversation) {
				t.Fatalf("after %d requests, %d of them served, 16 are too many: %v", asked, answered, f)
			}
		}
	})
}

func TestRequestsAreRefusedWhileAnswersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.OutboxBytes = 2000
		w.start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		for i := range 3 {
			alice.send(text(2, id, fmt.Sprint("k", i), strings.Repeat("x", 900)))
			alice.want(fmt.Sprintf("ack %d of 2", i+2))
		}
		alice.send(history(3, id))
		settled(t, "the page waits", func() bool { return alice.s.Out.Pending() > 2000 })
		alice.send(history(4, id), syncFrame(5, nil))
		alice.want("history of 4 of 3", "overloaded of 4", "overloaded of 5")
		alice.send(history(6, id))
		alice.want("history of 4 of 6")
	})
}

// The requests of one moment are all taken. Those whose turn comes while the answers to the
// first ones wait are not served. Spec: P-2.2.
func TestQueuedRequestsAreRefusedWhileAnswersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.OutboxBytes = 2000
		w.o.Reads = share.New(share.Options{Workers: 1, PerUser: 1, Waiting: 20, UserWaiting: 20})
		w.start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		for i := range 3 {
			alice.send(text(2, id, fmt.Sprint("k", i), strings.Repeat("x", 900)))
			alice.want(fmt.Sprintf("ack %d of 2", i+2))
		}
		waiting, open := w.blockLoads()
		alice.send(history(9, w.nowhere()))
		eventually.Receive(t, "a load waits", waiting) // the only worker has it
		alice.send(history(10, id), history(11, id), history(12, id))
		open()
		synctest.Wait() // all are answered
		alice.want("no_conversation of 9", "history of 4 of 10", "overloaded of 11", "overloaded of 12")
		alice.send(history(13, id))
		alice.want("history of 4 of 13")
	})
}

// Pings and refused requests have no answer that a store or a queue holds back, so they have
// a rate. Spec: P-9.2.
func TestConnectionThatIsRefusedWithoutEndIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		f            *petrelv1.ClientFrame
		each, atOnce int
	}{
		"pings":          {ping(7), 50, 1000},
		"refusals":       {text(7, "", "k", "x"), 50, 1000},
		"large refusals": {text(7, "", "k", strings.Repeat("x", 160<<10)), 1, 24},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.limits.SendsPerSecond, w.limits.SendBurst = 10, 40
				w.start()
				alice := w.login(w.token("", "alice"))
				for i := range 60 { // half of what is allowed
					for range c.each {
						alice.send(c.f)
						if a := alice.next(); a.GetKick() != nil {
							t.Fatalf("after %d seconds of %d frames: %v", i, c.each, a)
						}
					}
					pass(time.Second)
				}
				asked, kick := 0, ""
				for ; asked < 5000 && kick == ""; asked++ {
					alice.send(c.f)
					kick = alice.next().GetKick().GetCode()
				}
				if kick != string(im.CodeTooManyConnections) || asked < c.atOnce*9/10 || asked > c.atOnce*6/5 {
					t.Errorf("after %d frames at once: %q", asked, kick)
				}
			})
		})
	}
}

func TestNoLimitOfTheOutboxServesRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.OutboxBytes = -1
		w.start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		alice.send(history(2, id))
		alice.want("history of 1 of 2")
	})
}

func TestFullQueueOfReadsRefusesUnsettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Reads = share.New(share.Options{Workers: 1, PerUser: 1, Waiting: 2, UserWaiting: 2})
		w.start()
		alice := w.login(w.token("", "alice"))
		waiting, open := w.blockLoads()
		alice.send(history(9, w.nowhere()))
		eventually.Receive(t, "a load waits", waiting) // the only worker has it
		for i := range uint64(4) {
			alice.send(syncFrame(10+i, nil))
		}
		alice.want("overloaded of 12", "overloaded of 13")
		open()
		alice.want("no_conversation of 9", "sync of 0 of 10", "sync of 0 of 11")
		alice.send(syncFrame(20, nil))
		alice.want("sync of 0 of 20")
	})
}

// Reads that wait for the store hold no worker that a hello needs, and one user does
// not hold all workers that others need for their reads.
func TestReadsOfGreedyUsersDelayNoHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.o.Reads = session.NewReads(nil)
		w.start()
		id := w.group("team", "bob")
		bob := w.login(w.token("", "bob"))
		_, open := w.blockLoads()
		defer open()
		greedy := w.token("", "greedy")
		for range 3 {
			c := w.login(greedy)
			for i := range uint64(16) {
				c.send(history(10+i, w.nowhere()))
			}
		}
		bob.send(history(2, id))
		bob.want("history of 1 of 2")
		settled(t, "all reads but 2 wait", func() bool { return w.o.Reads.Waiting() == 3*16-2 })
		for i := range 3 {
			c := w.login(w.token("", im.User(fmt.Sprint("greedy", i))))
			for i := range uint64(16) {
				c.send(history(10+i, w.nowhere()))
			}
		}
		const waiting = 6*16 - 8
		settled(t, "every worker waits for the store", func() bool { return w.o.Reads.Waiting() == waiting })
		w.login(w.token("", "carol"))
		if n := w.o.Reads.Waiting(); n != waiting {
			t.Errorf("when carol is welcome %d reads wait, and %d did: the hello has waited for some", n, waiting)
		}
	})
}

// A sync lets the session take events before it reads the heads. So an entry that is
// committed during the read comes as an event, or is in the page. Spec: P-6.3.
func TestSyncLetsEventsInBeforeItReadsTheHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.OutboxBytes = 1500
		w.start()
		ids := []string{w.group("one", "alice", "bob"), w.group("two", "alice", "bob")}
		if ids[0] > ids[1] {
			ids[0], ids[1] = ids[1], ids[0] // a page is sorted
		}
		alice, bob := w.login(w.token("", "alice")), w.login(w.token("", "bob"))
		for i := range 3 {
			bob.send(text(2, ids[0], fmt.Sprint("k", i), strings.Repeat("x", 700)))
			bob.want(fmt.Sprintf("ack %d of 2", i+2))
		}
		settled(t, "alice lags", func() bool {
			alice.take()
			n := len(alice.frames)
			return n > 0 && alice.frames[n-1].GetLagged() != nil
		})
		alice.frames = nil
		w.forget()
		second, err := im.ParseConvID(ids[1])
		w.must(err)
		in, out := make(chan struct{}), make(chan struct{})
		w.store.onConversation(func(k im.Key) {
			if k.Conv == second {
				w.store.onConversation(nil)
				in <- struct{}{}
				<-out
			}
		})
		alice.send(syncFrame(3, nil))
		eventually.Receive(t, "the sync reads the second head", in) // the head of the first one has been read
		bob.send(text(4, ids[0], "late", "while it reads"))
		bob.want("ack 5 of 4")
		close(out)
		alice.want("5:while it reads", "sync of 2 of 3")
	})
}

func TestAnswerAfterTheCloseIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		waiting, open := w.blockLoads()
		shut := w.store.shut()
		alice.send(history(2, w.nowhere()), text(3, id, "k", "x"))
		eventually.Receive(t, "a load waits", waiting)
		alice.close()
		open()
		shut()
		settled(t, "the send is stored", func() bool { return len(w.texts(id)) == 1 })
		alice.wantNothing()
		if n := len(w.table.Of(account("alice"))); n != 0 || w.hub.Sessions.Load() != 0 {
			t.Errorf("%d outboxes stay in the table, %d sessions", n, w.hub.Sessions.Load())
		}
	})
}

// Spec: P-7.1.
func TestProbeIsAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice := w.login(w.token("", "alice"))
		alice.s.Probe(&alice.wakeUps)
		alice.wakeUps.Flush()
		alice.want("ping")
	})
}

// Spec: P-9.4.
func TestBrokenReadIsInternalAndKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice := w.login(w.token("", "alice"))
		w.store.breakConversations(errDisk)
		id := w.nowhere()
		alice.send(history(2, id))
		f := alice.next()
		if e := f.GetError(); f.Id != 2 || e.GetCode() != string(im.CodeInternal) || e.GetRequestId() == "" || !strings.Contains(w.log.String(), e.GetRequestId()) {
			t.Errorf("history gets %v, want %s and a request id that is in the log: %s", f, im.CodeInternal, w.log.String())
		}
		w.store.breakConversations(nil)
		alice.send(history(3, id))
		alice.want("no_conversation of 3")
	})
}
