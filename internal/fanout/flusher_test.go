package fanout

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

func TestOneWakeUpForACommit(t *testing.T) {
	woken := 0
	fl := NewFlusher(func() { woken++ })
	outs := []*Outbox{NewOutbox(protoTCP, fl, 1<<20), NewOutbox(protoTCP, fl, 1<<20)}
	var k WakeUps
	for range 5 {
		for _, o := range outs {
			o.Answer(pong(1), &k)
		}
	}
	if woken != 0 {
		t.Error("the writer is woken before the work is flushed")
	}
	k.Flush()
	k.Flush()
	if woken != 1 {
		t.Errorf("woken %d times, want 1", woken)
	}
	if got := fl.Take(nil); len(got) != 2 {
		t.Errorf("%d outboxes to write, want each of 2 once", len(got))
	}
	outs[0].Answer(pong(2), &k) // the writer has not taken the first answer yet, so it is awake
	k.Flush()
	if got := fl.Take(nil); len(got) != 0 || woken != 1 {
		t.Errorf("an outbox that is due came up again: %d, woken %d times", len(got), woken)
	}
	outs[0].Take()
	outs[0].Answer(pong(3), &k)
	k.Flush()
	if got := fl.Take(nil); len(got) != 1 || woken != 2 {
		t.Errorf("%d outboxes, woken %d times; want 1 and 2", len(got), woken)
	}
}

// Many goroutines add to the outboxes of a few writers while these write. Everything
// that was added is written, although nobody adds more. So no wake-up is lost.
func TestNoWakeUpIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, conns, producers, rounds = 3, 4, 6, 2000
		type writer struct {
			flusher *Flusher
			wake    chan struct{}
			got     int
		}
		var all [writers]writer
		var outs []*Outbox
		for i := range all {
			w := &all[i]
			w.wake = make(chan struct{}, 1)
			w.flusher = NewFlusher(func() {
				select {
				case w.wake <- struct{}{}:
				default:
				}
			})
			for range conns {
				o := NewOutbox(protoTCP, w.flusher, -1)
				o.unwelcomed = false
				outs = append(outs, o)
			}
		}
		e := event(1, 1)
		const total = producers * rounds * 3 * conns // events for each writer
		var wg sync.WaitGroup
		for i := range all {
			w := &all[i]
			wg.Go(func() {
				var list []*Outbox
				for w.got < total*len(e) {
					select {
					case <-w.wake:
					case <-time.After(time.Second): // in a bubble: when all others wait as well
						t.Errorf("writer %d got %d bytes of %d and is not woken any more", i, w.got, total*len(e))
						return
					}
					list = w.flusher.Take(list)
					for _, o := range list {
						p, _ := o.Take()
						w.got += len(p.Bytes)
						o.Wrote(p, 0)
					}
				}
			})
		}
		for p := range producers {
			wg.Go(func() {
				var k WakeUps
				for i := range rounds {
					for j, o := range outs {
						o.pushed(e, (i+j)%2 == 0, &k)
						o.pushed(e, false, &k)
						o.pushed(e, true, &k)
						if (i+j+p)%5 == 0 {
							k.Flush()
						}
					}
					k.Flush()
				}
			})
		}
		wg.Wait()
	})
}

// Several goroutines deliver to the same outboxes, answer, end and close them.
func TestOutboxUnderConcurrency(t *testing.T) {
	f := New(NewTable())
	fl := NewFlusher(func() {})
	var screens []*screen
	for _, u := range []im.User{"alice", "alice", "bob", "carol"} {
		s := &screen{t, NewOutbox(protoTCP, fl, 4000)}
		s.out.Account = im.Account{Tenant: im.DefaultTenant, User: u}
		screens = append(screens, s)
	}
	var publisher, rest sync.WaitGroup
	done := make(chan struct{})
	publisher.Go(func() {
		defer close(done)
		for q := range im.Seq(2000) {
			items := []Item{server(q)}
			if s := screens[q%4]; s.out.Window(1, 10, -1) {
				items = append(items, Item{Sender: Origin{Out: s.out, Bytes: 1}, Err: &im.Error{Code: im.CodeConflict}})
			}
			f.Deliver(im.DefaultTenant, []im.User{"alice", "bob", "carol"}, items)
			f.Flush()
		}
	})
	for i, s := range screens {
		rest.Go(func() {
			var k WakeUps
			f.Table.Enter(s.out.Account, s.out, -1)
			s.out.Welcome(pong(1), &k)
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				s.out.Answer(pong(2), &k)
				s.out.Resume()
				k.Flush()
				if i == 3 && n == 100 {
					s.out.End(&im.Error{Code: im.CodeRevoked}, &k)
				}
				if i == 2 && n == 100 {
					f.Table.Leave(s.out.Account, s.out)
					s.out.Close()
				}
			}
		})
	}
	rest.Go(func() {
		var list []*Outbox
		for {
			list = fl.Take(list)
			for _, o := range list {
				p, _ := o.Take()
				show(t, p.Bytes) // fails if a frame is cut
				o.Wrote(p, len(p.Bytes)/3)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	publisher.Wait()
	rest.Wait()
	for i, s := range screens {
		if s.out.unansweredSends != 0 || s.out.unansweredBytes != 0 {
			t.Errorf("session %d: %d sends of %d bytes have no answer", i, s.out.unansweredSends, s.out.unansweredBytes)
		}
	}
}
