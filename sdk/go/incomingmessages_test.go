package petrel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// taken are the messages that a loop over Incoming was given.
type taken struct {
	t     *testing.T
	texts []string // of all conversations, as "conv:text"
	err   error    // that the loop ended with
	end   context.CancelFunc
	done  chan struct{}
}

// take loops over Incoming. After the message number last (0: never) it leaves
// the loop in the middle of the message, like a crash or a return.
func take(t *testing.T, c *Client, last int) *taken {
	ctx, end := context.WithCancel(context.Background())
	k := &taken{t: t, end: end, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		for m, err := range c.Incoming(ctx) {
			if err != nil {
				k.err = err
				return
			}
			k.texts = append(k.texts, m.Conv+":"+m.GetText())
			if len(k.texts) == last {
				return
			}
		}
	}()
	return k
}

// stop ends the loop and tells what it was given.
func (k *taken) stop() []string {
	k.t.Helper()
	k.end()
	<-k.done
	if k.err != nil {
		k.t.Errorf("the loop ended with %v", k.err)
	}
	return k.texts
}

// of are the texts of one conversation.
func of(conv string, texts []string) string {
	var out []string
	for _, s := range texts {
		if text, found := strings.CutPrefix(s, conv+":"); found {
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

func TestIncomingIsWhatOthersWroteOnce(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.conv("d1", "bob")
		c := s.client(Options{})
		stop := run(c)
		k := take(t, c, 0)
		synctest.Wait()
		s.post("g1", text("bob", "one"))
		sendText(t, c, "g1", "own")
		synctest.Wait()
		s.post("g1", text("alice", "from another device"))
		s.post("g1", &petrelv1.Message{From: "bob", ClientMsgId: "r1", Body: &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: "boat"}}})
		s.post("g1", &petrelv1.Message{From: "bob", ClientMsgId: "m1", Body: &petrelv1.Message_Members{Members: &petrelv1.MemberChange{}}})
		s.post("g1", &petrelv1.Message{From: "bob", ClientMsgId: "x1", RecalledBy: 7}) // recalled before it came
		s.post("d1", text("bob", "two"))
		s.post("g1", &petrelv1.Message{From: "carol", ClientMsgId: "b1", Body: &petrelv1.Message_Data{Data: []byte{1}}})
		s.mu.Lock()
		s.sessions[0].event(s.convs["g1"].log[0]) // a repeat
		s.mu.Unlock()
		synctest.Wait()
		s.mu.Lock()
		s.conv("g2", "") // comes later
		s.mu.Unlock()
		s.post("g2", text("dave", "three"))
		synctest.Wait()
		got := k.stop()
		for conv, want := range map[string]string{"g1": "one ", "d1": "two", "g2": "three"} { // only within a conversation there is an order
			expect(t, "incoming of "+conv, of(conv, got), want)
		}
		v, _ := c.Conversation("g1")
		expect(t, "read", v.Read, 7)
		expect(t, "run", stop(), nil)
	})
}

func TestIncomingBeginsAtTheReadCursors(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for i := range 400 { // more than the client loads of a conversation, and than it keeps
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		v.read, v.readCounted = 150, 150
		c := s.client(Options{Keep: 100, Newest: 10})
		stop := run(c)
		k := take(t, c, 0)
		pass(time.Minute)
		expect(t, "incoming", of("g1", k.stop()), strings.Join(numbers(151, 400), " "))
		expect(t, "run", stop(), nil)
	})
}

func TestIncomingComesAgainUntilItIsFinished(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		st := NewMemory()
		c := s.client(Options{Store: st})
		stop := run(c)
		k := take(t, c, 3)
		for i := range 6 {
			s.post("g1", text("bob", fmt.Sprint(i+1)))
		}
		synctest.Wait()
		expect(t, "until the loop is left", of("g1", k.stop()), "1 2 3")
		k = take(t, c, 2)
		synctest.Wait()
		expect(t, "the same process", of("g1", k.stop()), "3 4")
		expect(t, "run", stop(), nil)

		s.post("g1", text("bob", "7"))
		c = s.client(Options{Store: st}) // after a crash
		stop = run(c)
		k = take(t, c, 0)
		synctest.Wait()
		expect(t, "another process", of("g1", k.stop()), "4 5 6 7")
		expect(t, "run", stop(), nil)

		c = s.client(Options{Store: st})
		stop = run(c)
		k = take(t, c, 0)
		synctest.Wait()
		expect(t, "all is finished", k.stop(), "[]")
		expect(t, "run", stop(), nil)
	})
}

// A message that the user has read on another device is not finished by this program.
func TestIncomingDoesNotFollowTheReadCursor(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		st := NewMemory()
		c := s.client(Options{Store: st})
		stop := run(c)
		k := take(t, c, 0)
		synctest.Wait()
		s.post("g1", text("bob", "1"))
		synctest.Wait()
		k.stop()
		expect(t, "run", stop(), nil)

		s.post("g1", text("bob", "2"))
		s.mu.Lock()
		v.read, v.readCounted = 2, 2
		s.mu.Unlock()
		c = s.client(Options{Store: st})
		stop = run(c)
		k = take(t, c, 0)
		synctest.Wait()
		expect(t, "incoming", of("g1", k.stop()), "2")
		expect(t, "run", stop(), nil)
	})
}

// A program that mostly writes does not read all of that again at its start.
func TestPositionPassesOwnMessages(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		st := NewMemory()
		c := s.client(Options{Store: st})
		stop := run(c)
		k := take(t, c, 0)
		synctest.Wait()
		for range 3 * skipEvery {
			s.post("g1", text("alice", "own"))
		}
		synctest.Wait()
		k.stop()
		expect(t, "run", stop(), nil)
		c = s.client(Options{Store: st})
		if p := c.core.incoming.positions["g1"]; p.Seq <= 2*skipEvery || p.Seq > 3*skipEvery {
			t.Errorf("the position is %v after %d own messages", p, 3*skipEvery)
		}
	})
}

// After the restore of a backup seqs are given a second time.
func TestIncomingSkipsNothingAfterARestore(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		st := NewMemory()
		c := s.client(Options{Store: st})
		stop := run(c)
		k := take(t, c, 0)
		synctest.Wait()
		for i := range 5 {
			s.post("g1", text("bob", fmt.Sprint(i+1)))
		}
		synctest.Wait()
		expect(t, "incoming", of("g1", k.stop()), "1 2 3 4 5")
		expect(t, "run", stop(), nil)

		s.mu.Lock()
		s.history = "h2"
		v.log = v.log[:3]
		v.read, v.readCounted = 2, 2
		s.mu.Unlock()
		s.post("g1", text("bob", "another 4"))
		s.post("g1", text("bob", "another 5"))
		c = s.client(Options{Store: st})
		stop = run(c)
		k = take(t, c, 0)
		synctest.Wait()
		expect(t, "incoming", of("g1", k.stop()), "3 another 4 another 5")
		expect(t, "run", stop(), nil)
	})
}

func TestIncomingHasOneLoop(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		c := s.client(Options{})
		k := take(t, c, 0)
		synctest.Wait()
		second := take(t, c, 0)
		<-second.done
		if second.err == nil {
			t.Error("two loops")
		}
		k.stop()
		third := take(t, c, 0)
		synctest.Wait()
		third.stop()
	})
}

func TestIncomingEndsWhenTheStoreFails(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		st := NewMemory()
		write, broken := st.Write, errors.New("the disk is full")
		st.Write = func(rows []Row) error {
			if slices.ContainsFunc(rows, func(r Row) bool { return r.Key == positionPrefix+"g1" && strings.Contains(string(r.Value), `"seq":1`) }) {
				return broken
			}
			return write(rows)
		}
		c := s.client(Options{Store: st})
		stop := run(c)
		k := take(t, c, 0)
		synctest.Wait()
		s.post("g1", text("bob", "1"))
		synctest.Wait()
		<-k.done
		if !errors.Is(k.err, broken) {
			t.Errorf("the loop ended with %v", k.err)
		}
		expect(t, "run", stop(), nil)
	})
}

// However often the program ends, each message comes, in order, and one that was
// finished does not come again.
func TestIncomingOverRandomCrashes(t *testing.T) {
	from, to := uint64(1), uint64(60)
	if *seed != 0 {
		from, to = *seed, *seed
	}
	for n := from; n <= to; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			play(t, func(t *testing.T, s *fake) { playCrashes(t, s, rand.New(rand.NewPCG(n, 2))) })
		})
	}
}

var errCrashed = errors.New("the process has ended")

// crashing is st until so many writes were made; none is made after. A loop that
// goes on then is at a message that it cannot finish.
func crashing(st *Store, writes int) *Store {
	var mu sync.Mutex // guards writes
	c := *st
	c.Write = func(rows []Row) error {
		mu.Lock()
		defer mu.Unlock()
		if writes--; writes < 0 {
			return errCrashed
		}
		return st.Write(rows)
	}
	return &c
}

func playCrashes(t *testing.T, s *fake, r *rand.Rand) {
	const rounds = 16
	s.page = 1 + r.IntN(8)
	convs := []string{"g1", "g2", "g3"}
	for _, id := range convs {
		s.conv(id, "")
	}
	st := NewMemory()
	sent, got := map[string]int{}, map[string]int{} // by conversation; the messages of others have the texts 1, 2, …
	for round := 0; round < rounds || fmt.Sprint(sent) != fmt.Sprint(got); round++ {
		if round == 10*rounds {
			t.Fatalf("of %v only %v came", sent, got)
		}
		writes, last := 1<<30, 0
		switch r.IntN(3) {
		case 0:
			writes = r.IntN(60)
		case 1:
			last = 1 + r.IntN(6)
		}
		c := s.client(Options{Store: crashing(st, writes), Keep: 1 + r.IntN(20), Newest: r.IntN(4)})
		stop := run(c)
		k := take(t, c, last)
		if round > 0 { // the first round says where the first loop begins
			for range r.IntN(12) {
				s.happen(r, convs[r.IntN(3)], round < rounds, sent)
			}
		}
		pass(time.Minute)
		whole := false // the loop is done with the last message
		select {
		case <-k.done:
		default:
			whole = true
			k.end()
			<-k.done
		}
		for i, x := range k.texts {
			id, n, _ := strings.Cut(x, ":")
			if n != fmt.Sprint(got[id]+1) {
				t.Fatalf("round %d: number %s of %s came behind %d; the loop had %v", round, n, id, got[id], k.texts)
			}
			if whole || i < len(k.texts)-1 {
				got[id]++
			}
		}
		err := stop()
		for _, err := range []error{err, k.err} {
			if err != nil && !errors.Is(err, errCrashed) {
				t.Fatal(err)
			}
		}
	}
}

// happen does one of the things that happen to a client.
func (s *fake) happen(r *rand.Rand, conv string, more bool, sent map[string]int) {
	switch {
	case !more:
	case r.IntN(3) == 0:
		s.post(conv, text("alice", "own"))
	default:
		sent[conv]++
		s.post(conv, text("bob", fmt.Sprint(sent[conv])))
	}
	if r.IntN(3) == 0 {
		pass(time.Duration(r.IntN(1500)) * time.Millisecond)
	}
	if r.IntN(8) == 0 {
		s.cut()
	}
}

func TestUnreadTotalsAreTold(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for range 5 {
			v.add(text("bob", "before"))
		}
		v.read, v.readCounted = 2, 2
		s.conv("d1", "bob")
		st := NewMemory()
		c := s.client(Options{Store: st})
		changes := c.Subscribe()
		changes.Take()
		stop := run(c)
		sum := func(what string, want Unread, told bool) {
			t.Helper()
			synctest.Wait()
			expect(t, what, c.Unread(), want)
			if ch := changes.Take(); ch.Unread != told {
				t.Errorf("%s: the change says %v", what, ch.Unread)
			}
			messages, conversations := 0, 0
			for _, v := range c.Conversations() {
				if messages += v.Unread; v.Unread > 0 {
					conversations++
				}
			}
			expect(t, what+", added up", c.Unread(), Unread{messages, conversations, 0})
		}
		sum("after the sync", Unread{3, 1, 0}, true)
		s.post("d1", text("bob", "hi"))
		sum("a message", Unread{4, 2, 0}, true)
		sendText(t, c, "d1", "hello")
		sum("an own one", Unread{4, 2, 0}, false)
		c.MarkRead("g1", 4)
		sum("read", Unread{2, 2, 0}, true)
		c.MarkRead("d1", 1)
		sum("all of one", Unread{1, 1, 0}, true)
		expect(t, "run", stop(), nil)
		c = s.client(Options{Store: st})
		expect(t, "from the store", c.Unread(), Unread{1, 1, 0})
		s.mu.Lock()
		s.history = "h2"
		delete(s.convs, "g1")
		s.mu.Unlock()
		changes = c.Subscribe()
		changes.Take()
		stop = run(c)
		sum("after a change of history", Unread{1, 1, 0}, true)
		expect(t, "run", stop(), nil)
	})
}
