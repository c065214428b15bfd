package route_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/route/routetest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestASendFromAnotherNodeIsStoredAndPushedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := routetest.Start(t, "b", "a", "c")
		one, two := c.Owner(), c.Other()
		key := one.Group("alice", "bob")
		alice, bob := two.Online("alice"), one.Online("bob")
		c.WaitOnline()
		s := convtest.Message(key, "alice", "k1", 1, "hi")
		s.Origin = fanout.Origin{Out: alice.Out, ID: 7}
		var k fanout.WakeUps
		two.Convs.Submit([]*conv.Send{s}, &k)
		k.Flush()
		routetest.Sees(t, alice, "ack 2")
		routetest.Sees(t, bob, "2:hi")
		if r := two.Send(convtest.Message(key, "alice", "k1", 1, "hi")); r.Err != nil || !r.Repeat || r.Seq != 2 {
			t.Errorf("sent again: %+v, want a repeat of 2", r)
		}
		if r := two.Send(convtest.Message(key, "carol", "k2", 1, "hi")); im.CodeOf(r.Err) != im.CodeNoConversation {
			t.Errorf("an outsider's send from another node: %+v", r)
		}
		for id, n := range c.Nodes {
			if got := strings.Join(n.History(key, "bob"), " "); got != "1:members 2:hi" {
				t.Errorf("node %s reads %s", id, got)
			}
		}
		two.Online("bob")
		moved, err := route.Ask(t.Context(), two.Router, conv.Query{Conv: key, User: "bob"}, (*conv.Owner).MoveCursor, &convpb.MoveCursor{Delivered: 2, Read: 2})
		if err != nil || moved.Read != 2 {
			t.Errorf("move a cursor from another node: %v, %v", moved, err)
		}
	})
}

// F14: a connection's sends to one conversation keep their order though the
// feed goes from node to node meanwhile, and none is lost or doubled.
func TestF14SendsKeepTheirOrderThroughHandOvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := routetest.Start(t, "b", "a", "c")
		key := c.Owner().Group("alice", "bob")
		const n, hops = 3000, 5
		var results []chan conv.Result
		from := c.Other()
		stop := make(chan struct{})
		var enough atomic.Bool
		var moves sync.WaitGroup
		moved := 0
		moves.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(30 * time.Millisecond):
				}
				owner := c.Owner()
				err := owner.Cluster.Drain(t.Context())
				if err == nil {
					moved++
				} else if !errors.Is(err, cluster.ErrNobody) { // the others have been there too shortly
					t.Error(err)
				}
				owner.Cluster.Resume()
				enough.Store(moved >= hops)
			}
		})
		i, after := 0, 1
		for ; i < n || !enough.Load(); i++ {
			results = append(results, from.Submit(convtest.Message(key, "alice", fmt.Sprint("k", i), after, fmt.Sprint(i)))...)
			if i%16 == 15 {
				for _, ch := range results[i-15:] {
					r := from.Await(ch)
					after = int(max(im.Seq(after), r.Seq))
					ch <- r
				}
				time.Sleep(time.Millisecond) // an owner at the same node takes no fake time
			}
		}
		close(stop)
		moves.Wait()
		last := im.Seq(1)
		for j, ch := range results {
			r := from.Await(ch)
			if r.Err != nil {
				t.Fatalf("send %d: %v", j, r.Err)
			}
			if r.Seq != last+1 {
				t.Fatalf("send %d has seq %d behind %d", j, r.Seq, last)
			}
			last = r.Seq
		}
		if got := c.Other().History(key, "bob"); len(got) != i+1 {
			t.Errorf("the history has %d entries, want %d", len(got), i+1)
		}
	})
}

// F14: a request is lost, more is sent behind it, and then the feed comes here or
// to a third node. The first request stays first.
func TestF14NothingPassesWhatIsAskedAgain(t *testing.T) {
	for _, here := range []bool{true, false} {
		t.Run(fmt.Sprintf("the feed comes here %v", here), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := routetest.Start(t, "b", "a", "c")
				one, two := c.Owner(), c.Other()
				key := one.Group("alice", "bob")
				next := two
				for _, n := range c.Nodes {
					if !here && n != one && n != two {
						next = n
					}
				}
				asked := make(chan struct{})
				lost := sync.OnceFunc(func() { close(asked) })
				two.Bus.SetRules(bustest.Rules{Drop: func(to im.Node, s bus.Subject, b []byte) bool {
					if to == one.ID && bytes.Contains(b, []byte("first")) {
						lost()
					}
					return to == one.ID && s == stream.Subject
				}})
				answers := two.Submit(convtest.Message(key, "alice", "k1", 1, "first"))
				eventually.Receive(t, "the first send is lost", asked)
				answers = append(answers, two.Submit(convtest.Message(key, "alice", "k2", 1, "second"), convtest.Message(key, "alice", "k3", 1, "third"))...)
				epoch, err := next.Convs.Open(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				two.Cluster.Learn(0, next.ID, epoch)
				for i, ch := range answers {
					if r := two.Await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
						t.Errorf("send %d: %+v, want seq %d", i+1, r, i+2)
					}
				}
			})
		})
	}
}

// F14: the feed comes here while a send waits in its lane. A later send does not pass it by
// on the short way.
func TestF14NothingPassesTheLaneByWhenTheFeedComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		two.Bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool { return s == stream.Subject }})
		first := two.Submit(convtest.Message(key, "alice", "k1", 1, "first"))
		entering, enter := make(chan struct{}), make(chan struct{})
		var met atomic.Bool
		two.Gate.OnWritable(func() {
			if !met.Swap(true) {
				close(entering)
				<-enter
			}
		})
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		<-entering // the first, on its way from the lane to the owner
		second := make(chan chan conv.Result, 1)
		go func() { second <- two.Submit(convtest.Message(key, "alice", "k2", 1, "second"))[0] }() // ends behind the first
		// The second waits for the mutex of the lane, so synctest.Wait would not return.
		for range 1000 {
			runtime.Gosched()
		}
		close(enter)
		for i, ch := range []chan conv.Result{first[0], <-second} {
			if r := two.Await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
				t.Errorf("send %d: %+v, want seq %d", i+1, r, i+2)
			}
		}
	})
}

// F14: the feed has come here, and nobody has looked at its lane since, in which a send
// waits. A later send waits there too.
func TestF14NothingPassesTheLaneAfterTheFeedHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		two.Bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, _ []byte) bool { return s == stream.Subject }})
		first := two.Submit(convtest.Message(key, "alice", "k1", 1, "first"))
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		second := two.Submit(convtest.Message(key, "alice", "k2", 1, "second")) // the lane is looked at every 100 ms
		for i, ch := range []chan conv.Result{first[0], second[0]} {
			if r := two.Await(ch); r.Err != nil || r.Seq != im.Seq(i+2) {
				t.Errorf("send %d: %+v, want seq %d", i+1, r, i+2)
			}
		}
	})
}

// A send that was given back was not decided: the refusal that comes later settles it.
func TestARefusalOfASendThatWasGivenBackSettlesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		one.MustSend(convtest.Kick(key, "kick", "bob"))
		one.Convs.Close(t.Context(), 0) // behind the back of the cluster
		answer := two.Submit(convtest.Message(key, "bob", "k1", 1, "hi"))
		synctest.Wait()
		if _, err := one.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		convtest.WantCode(t, two.Await(answer[0]), im.CodeNotMember)
	})
}

// F14: a send is given back, since its owner was not one for a moment. A later send does
// not go out before it.
func TestF14NothingIsAskedBeforeWhatWasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		returned := make(chan struct{})
		givenBack := sync.OnceFunc(func() { close(returned) })
		one.Bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, b []byte) bool {
			var p buspb.Packet
			if s == stream.Subject && p.UnmarshalVT(b) == nil && bytes.IndexByte(p.Kinds, cluster.KindNotOwner) >= 0 {
				givenBack()
			}
			return false
		}})
		one.Convs.Close(t.Context(), 0) // behind the back of the cluster
		first := two.Submit(convtest.Message(key, "alice", "k1", 1, "first"))
		eventually.Receive(t, "the first send is given back", returned)
		if _, err := one.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		second := two.Submit(convtest.Message(key, "alice", "k2", 1, "second"))
		if r := two.Await(second[0]); r.Err != nil || r.Seq != 3 {
			t.Fatalf("the second: %+v, want seq 3", r)
		}
		if r := two.Await(first[0]); r.Err != nil || r.Seq != 2 {
			t.Errorf("the first: %+v, want seq 2", r)
		}
	})
}

// F5: a commit is under way when its owner finds that another node has the feed.
// A later send stays behind the sends of that commit, which the store is about to refuse.
func TestF5NothingPassesTheCommitOfAFencedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		open := one.Gate.ShutStore()
		t.Cleanup(open)
		first := one.Submit(convtest.Message(key, "alice", "k1", 1, "first"))
		synctest.Wait()
		if n := one.Gate.Stopped(); n != 1 {
			t.Fatalf("%d commits are under way, want 1", n)
		}
		epoch, err := two.Convs.Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		one.Cluster.Learn(0, two.ID, epoch)
		asked := time.Now()
		if st, err := one.State(t.Context(), key, "bob"); err != nil || st.Head != 1 || time.Since(asked) != 0 {
			t.Fatalf("the former owner says %v, %v after %s, want head 1 at once", st, err, time.Since(asked))
		}
		second := one.Submit(convtest.Message(key, "alice", "k2", 1, "second"))
		time.Sleep(4 * time.Second) // less than a feed may take to close
		select {
		case r := <-second[0]:
			t.Errorf("the second is answered first: %+v", r)
			second[0] <- r
		default:
		}
		open()
		if r := one.Await(first[0]); r.Err != nil || r.Seq != 2 {
			t.Errorf("the first: %+v, want seq 2", r)
		}
		if r := one.Await(second[0]); r.Err != nil || r.Seq != 3 {
			t.Errorf("the second: %+v, want seq 3", r)
		}
	})
}

// A node that hears nothing of the owner and reaches no store is cut off from
// all, maybe: it says so while its clients have the patience to hear it.
func TestANodeThatIsCutOffSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		t.Cleanup(one.Gate.ShutStore()) // the store they share is not held up
		first := two.Submit(convtest.Message(key, "alice", "k1", 1, "out there"))
		time.Sleep(3 * time.Second) // in which another node would take the feed of a dead owner over
		select {
		case r := <-first[0]:
			t.Fatalf("answered though the store may still give the feed to somebody: %+v", r)
		default:
		}
		two.Gate.Stall()
		stalled := time.Now()
		if r := two.Await(first[0]); im.CodeOf(r.Err) != im.CodeStoreStalled {
			t.Errorf("the send: %+v, want an unsettled error", r)
		}
		if took := time.Since(stalled); took > 100*time.Millisecond { // between two looks at a lane
			t.Errorf("answered %s after the store stalled, want at the next look", took)
		}
	})
}

// F18: two users write to each other first, at two nodes, at once. It is one
// conversation, in which both are members and each message is once.
func TestF18BothBeginADirectConversationAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := routetest.Start(t, "b", "a", "c")
		one, two := c.Owner(), c.Other()
		for n := range 20 {
			alice, bob := im.User(fmt.Sprint("alice ", n)), im.User(fmt.Sprint("bob ", n))
			key := im.Key{Tenant: im.DefaultTenant, Conv: one.Convs.IDs().Direct(im.DefaultTenant, alice, bob)}
			to := func(from, peer im.User) *conv.Send {
				s := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: one.Convs.IDs().Direct(im.DefaultTenant, from, peer)}, from, "k", -1, "hi")
				s.Peer = peer
				return s
			}
			answers := append(one.Submit(to(alice, bob)), two.Submit(to(bob, alice))...)
			var seqs []im.Seq
			for _, ch := range answers {
				r := one.Await(ch)
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				seqs = append(seqs, r.Seq)
			}
			if slices.Sort(seqs); !slices.Equal(seqs, []im.Seq{1, 2}) {
				t.Errorf("seqs %v, want 1 and 2", seqs)
			}
			for _, u := range []im.User{alice, bob} {
				if got := two.History(key, u); !slices.Equal(got, []string{"1:hi", "2:hi"}) {
					t.Errorf("%s reads %q", u, got)
				}
			}
			if r := two.Send(to(alice, bob)); r.Err != nil || !r.Repeat {
				t.Errorf("%s again, at the other node: %+v, want a repeat", alice, r)
			}
		}
	})
}

// A node restarts while the owner has not decided a send of the process before. The
// answer to that send is none to a send of the new process.
func TestAnAnswerToAFormerProcessAnswersNoSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		open := one.Gate.ShutStore()
		t.Cleanup(open)
		two.Submit(convtest.Message(key, "alice", "k1", 1, "of the former process"))
		synctest.Wait()
		c.Kill(two)
		two = c.Join(two.ID, cluster.AllRoles)
		second := two.Submit(convtest.Message(key, "bob", "k2", 1, "of the new process"))
		synctest.Wait()
		open()
		if r := two.Await(second[0]); r.Err != nil || r.Seq != 3 {
			t.Errorf("the send of the new process: %+v, want seq 3", r)
		}
	})
}

// An owner refuses a send, and the answer is lost. When the send was sent again, a refusal
// is no proof that it is not stored: the other copy may be decided later. Spec: P-4.8.
func TestARefusalOfASendThatWasSentAgainSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		one.MustSend(convtest.Kick(key, "kick", "bob"))
		convtest.WantCode(t, two.Send(convtest.Message(key, "bob", "k1", 1, "sent once")), im.CodeNotMember)
		one.Bus.SetRules(bustest.Rules{Drop: func(im.Node, bus.Subject, []byte) bool { return true }})
		answer := two.Submit(convtest.Message(key, "bob", "k2", 1, "sent twice"))
		time.Sleep(2500 * time.Millisecond) // it is sent again after 2 s
		one.Bus.SetRules(bustest.Rules{})
		convtest.WantCode(t, two.Await(answer[0]), im.CodeStoreStalled)
	})
}

// The same, when the feed comes to the node of the sender meanwhile.
func TestARefusalHereOfASendThatWasSentElsewhereSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		one.MustSend(convtest.Kick(key, "kick", "bob"))
		one.Bus.SetRules(bustest.Rules{Drop: func(im.Node, bus.Subject, []byte) bool { return true }})
		answer := two.Submit(convtest.Message(key, "bob", "k1", 1, "sent there and here"))
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		if _, err := two.Convs.Open(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		convtest.WantCode(t, two.Await(answer[0]), im.CodeStoreStalled)
	})
}

// An owner does not answer a send. The send is sent again after 2 s, and then after 4 s more: a
// slow owner is not flooded. The lanes are looked at ten times a second.
func TestASendWithoutAnAnswerIsSentAgainAtGrowingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, one, two := routetest.StartPair(t)
		key := one.Group("alice", "bob")
		open := one.Gate.ShutStore()
		t.Cleanup(open)
		var mu sync.Mutex
		var sent []time.Time
		two.Bus.SetRules(bustest.Rules{Drop: func(_ im.Node, s bus.Subject, b []byte) bool {
			var p buspb.Packet
			if s == stream.Subject && p.UnmarshalVT(b) == nil && bytes.IndexByte(p.Kinds, cluster.KindSends) >= 0 {
				mu.Lock()
				sent = append(sent, time.Now())
				mu.Unlock()
			}
			return false
		}})
		answer := two.Submit(convtest.Message(key, "alice", "k1", 1, "hi"))
		time.Sleep(9 * time.Second)
		open()
		if r := two.Await(answer[0]); r.Err != nil || r.Seq != 2 {
			t.Errorf("the send: %+v, want seq 2", r)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(sent) != 3 {
			t.Fatalf("sent %d times in 9 s, want 3: at %v", len(sent), sent)
		}
		for i := range 2 {
			want, got := 2*time.Second<<i, sent[i+1].Sub(sent[i])
			if got <= want || got > want+100*time.Millisecond {
				t.Errorf("sent again %v after the time before, want %v and up to 100 ms", got, want)
			}
		}
	})
}

// refusedThenStored are two sends of alice to a group with one entry: an edit of seq 2, which
// is refused, and what becomes seq 2.
func refusedThenStored(key im.Key) []*conv.Send {
	edit := convtest.Message(key, "alice", "k1", 1, "")
	edit.Entry.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "edited"}}}
	return []*conv.Send{edit, convtest.Message(key, "alice", "k2", 1, "hi")}
}

// An owner has refused the first of two sends and stored the second, which removes the reason
// of the refusal, and nobody has heard of it. The next owner does not store the first one
// behind the second: its sender gets the refusal, and may send it again.
func TestARefusedSendIsNotStoredBehindWhatWasSentAfterIt(t *testing.T) {
	for name, sameOwner := range map[string]bool{"the next owner": false, "the same owner": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, one, two := routetest.StartPair(t)
				key := one.Group("alice")
				one.Bus.SetRules(bustest.Rules{Drop: func(im.Node, bus.Subject, []byte) bool { return true }})
				answers := two.Submit(refusedThenStored(key)...)
				time.Sleep(100 * time.Millisecond)
				if sameOwner {
					time.Sleep(2500 * time.Millisecond) // they are sent again after 2 s
					one.Bus.SetRules(bustest.Rules{})
				} else if _, err := two.Convs.Open(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				convtest.WantCode(t, two.Await(answers[0]), im.CodeStoreStalled)
				if r := two.Await(answers[1]); r.Err != nil || r.Seq != 2 {
					t.Errorf("the second send is answered %+v, want seq 2", r)
				}
				if st, err := two.State(t.Context(), key, "alice"); err != nil || st.Head != 2 {
					t.Errorf("the group has %v, %v, want the head 2", st, err)
				}
			})
		})
	}
}

// The same, when the commit of the second is of unknown outcome.
func TestARefusedSendIsNotStoredBehindACommitOfUnknownOutcome(t *testing.T) {
	for what, stored := range map[string]bool{"it is stored": true, "it is not": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := routetest.Start(t, "a").Owner()
				key := one.Group("alice")
				one.Gate.Doubt(stored)
				answers := one.Submit(refusedThenStored(key)...)
				code := im.CodeNoTarget
				if stored {
					code = im.CodeStoreStalled
				}
				convtest.WantCode(t, one.Await(answers[0]), code)
				if r := one.Await(answers[1]); r.Err != nil || r.Seq != 2 {
					t.Errorf("the second send is answered %+v, want seq 2", r)
				}
			})
		})
	}
}
