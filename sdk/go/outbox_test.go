package petrel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// settled waits for o in fake time.
func settled(t *testing.T, o *Outgoing) (SendState, uint64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := o.Wait(ctx); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("message %s is not settled within an hour", o.ID)
	}
	s, _, seq, err := o.State()
	return s, seq, err
}

func TestUnknownSendIsRepeatedAsItWas(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "").add(text("bob", "first"))
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if len(s.sent) > 1 {
				return false
			}
			s.store(f) // stored, and the answer is lost
			s.convs["g1"].add(text("bob", "between"))
			_ = ss.conn.Close() // this is how
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		o := sendText(t, c, "g1", "mine")
		state, seq, err := settled(t, o)
		expect(t, "fate", fmt.Sprint(state, seq, err), "sent 2 <nil>")
		expect(t, "stored at", o.Time().UnixMilli(), s.convs["g1"].log[1].TimeMs)
		synctest.Wait()
		expect(t, "messages", shown(c, "g1"), "[first mine between]")
		for _, q := range s.sent {
			expect(t, "attempt", fmt.Sprint(q.ClientMsgId, q.GetAfter(), q.GetText()), fmt.Sprint(o.ID, 1, "mine"))
		}
		expect(t, "pending", len(c.Pending("g1")), 0)
		expect(t, "run", stop(), nil)
	})
}

func TestOrderHoldsWhenOneIsRefusedForTheMoment(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.conv("g2", "")
		n := 0
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if n++; n%3 == 2 && f.GetSend().Conv == "g1" {
				ss.fail(f.Id, &petrelv1.Error{Code: "rate_limited", Retryable: true, RetryAfterMs: 700})
				return true
			}
			return false
		}
		c := s.client(Options{})
		var want []string
		var all []*Outgoing
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			all = append(all, sendText(t, c, "g1", want[i]), sendText(t, c, "g2", want[i]))
		}
		stop := run(c)
		for _, o := range all {
			if state, _, err := settled(t, o); state != Sent {
				t.Errorf("fate: got %v, %v", state, err)
			}
		}
		for _, g := range []string{"g1", "g2"} {
			expect(t, "stored in "+g, stored(s, g), want)
			expect(t, "shown of "+g, shown(c, g), want)
		}
		expect(t, "run", stop(), nil)
	})
}

// Without an after the server looks up the id, so nothing has to be known first.
func TestDraftWithItsOwnIDDoesNotWaitForTheSync(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.onFrame = func(_ *fakeSession, f *petrelv1.ClientFrame) bool { return f.GetSync() != nil }
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if len(s.sent) > 1 {
				return false
			}
			ss.fail(f.Id, &petrelv1.Error{Code: CodeOverloaded, Retryable: true, RetryAfterMs: 700})
			return true
		}
		c := s.client(Options{})
		other := sendText(t, c, "g2", "made before the first connection")
		o, err := c.Send(Draft{User: "bob", ID: "k1", Text: "hi"})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(c)
		synctest.Wait()
		state, _, _, err := o.State()
		expect(t, "put off", fmt.Sprintln(state, CodeOf(err), o.Time().IsZero()), "sending overloaded true\n")
		pass(700 * time.Millisecond)
		at := time.Now()
		state, conv, seq, err := o.State()
		expect(t, "fate", fmt.Sprintln(state, conv, seq, err, o.Time().Equal(at)), "sent d-bob 1 <nil> true\n")
		pass(time.Minute)
		state, _, _, _ = other.State()
		expect(t, "with an after", state, Sending)
		for _, q := range s.sent {
			expect(t, "attempt", fmt.Sprintln(q.ClientMsgId, q.After == nil), "k1 true\n")
		}
		expect(t, "run", stop(), nil)
	})
}

func stored(s *fake, conv string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{}
	for _, m := range s.convs[conv].log {
		if m.GetText() != "" {
			out = append(out, m.GetText())
		}
	}
	return out
}

func TestRejectedStaysUntilItIsDiscarded(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			ss.fail(f.Id, &petrelv1.Error{Code: CodeNotMember, Settled: true})
			return true
		}
		store := NewMemory()
		c := s.client(Options{Store: store})
		stop := run(c)
		o := sendText(t, c, "g1", "x")
		state, _, err := settled(t, o)
		expect(t, "fate", fmt.Sprint(state, " ", CodeOf(err)), "rejected not_member")
		expect(t, "pending", len(c.Pending("g1")), 1)
		expect(t, "run", stop(), nil)
		c = s.client(Options{Store: store})
		stop = run(c)
		o = c.Pending("g1")[0]
		state, _, err = settled(t, o)
		expect(t, "fate after a restart", fmt.Sprint(state, " ", CodeOf(err), " ", o.Draft().Text), "rejected not_member x")
		o.Discard()
		expect(t, "pending", len(c.Pending("g1")), 0)
		expect(t, "run", stop(), nil)
		expect(t, "attempts", len(s.sent), 1)
		expect(t, "pending after another restart", len(s.client(Options{Store: store}).Pending("g1")), 0)
	})
}

func TestOnlyTheNewestFailedMessagesAreShown(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			ss.fail(f.Id, &petrelv1.Error{Code: CodeNotMember, Settled: true})
			return true
		}
		store := NewMemory()
		c := s.client(Options{Store: store})
		stop := run(c)
		var all []*Outgoing
		for range maxFailed + 4 {
			all = append(all, sendText(t, c, "g1", "x"))
		}
		for _, o := range all {
			settled(t, o)
		}
		expect(t, "pending", len(c.Pending("g1")), maxFailed)
		expect(t, "the oldest", c.Pending("g1")[0].ID, all[4].ID)
		expect(t, "run", stop(), nil)
		expect(t, "pending after a restart", len(s.client(Options{Store: store}).Pending("g1")), maxFailed)
	})
}

func TestWindowIsNotExceeded(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.window = &petrelv1.Window{Sends: 5, Bytes: 1000}
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			ss.open++
			s.most = max(s.most, ss.open)
			time.AfterFunc(100*time.Millisecond, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				ss.open--
				ss.write(s.store(f))
			})
			return true
		}
		c := s.client(Options{})
		var all []*Outgoing
		for i := range 40 {
			id := fmt.Sprint("g", i)
			s.conv(id, "")
			all = append(all, sendText(t, c, id, "x"))
		}
		stop := run(c)
		for _, o := range all {
			settled(t, o)
		}
		expect(t, "most unanswered sends", s.most, 5)
		expect(t, "attempts", len(s.sent), 40)
		s.window = &petrelv1.Window{Sends: 64, Bytes: 1000}
		s.most = 0
		s.cut()
		all = nil
		for i := range 40 {
			all = append(all, sendText(t, c, fmt.Sprint("g", i), strings.Repeat("x", 250)))
		}
		for _, o := range all {
			settled(t, o)
		}
		expect(t, "most unanswered sends of 300 bytes", s.most, 3)
		expect(t, "run", stop(), nil)
	})
}

func TestBehindRaisesAfter(t *testing.T) {
	for _, c := range []struct {
		name       string
		lost       bool // the first attempt's answer is lost
		storedThen bool // it was stored
		after      []uint64
		seq        uint64
		reads      bool
	}{
		{"NeverTried", false, false, []uint64{2, 202}, 203, false},
		{"TriedAndNotStored", true, false, []uint64{2, 2, 202}, 203, true},
		{"TriedAndStored", true, true, []uint64{2, 2}, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *fake) {
				v := s.conv("g1", "")
				v.add(text("bob", "1"))
				v.add(text("bob", "2"))
				grown := false
				s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
					if !grown {
						if c.storedThen {
							s.store(f)
						}
						for v.head() < 202 {
							v.add(text("bob", "more"))
						}
						grown = true
						if c.lost {
							_ = ss.conn.Close() // this is how
							return true
						}
					}
					if f.GetSend().GetAfter() < v.head()-100 {
						ss.fail(f.Id, &petrelv1.Error{Code: CodeBehind, Head: v.head()})
						return true
					}
					return false
				}
				cl := s.client(Options{Keep: 10}) // its own history is of no help
				stop := run(cl)
				synctest.Wait()
				state, seq, err := settled(t, sendText(t, cl, "g1", "mine"))
				expect(t, "fate", fmt.Sprint(state, seq, err), fmt.Sprint("sent ", c.seq, " <nil>"))
				var after []uint64
				for _, q := range s.sent {
					after = append(after, q.GetAfter())
				}
				expect(t, "after", after, c.after)
				expect(t, "run", stop(), nil)
				expect(t, "mine is stored", strings.Count(fmt.Sprint(stored(s, "g1")), "mine"), 1)
			})
		})
	}
}

func TestFatesThatAreNeverKnown(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			ss.fail(f.Id, &petrelv1.Error{Code: CodeTooOld})
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		state, _, err := settled(t, sendText(t, c, "g1", "x"))
		expect(t, "fate of too_old", fmt.Sprint(state, err == ErrUnknowable), "unknowable true")
		expect(t, "run", stop(), nil)

		store := NewMemory()
		c = s.client(Options{Store: store})
		sendText(t, c, "g1", "month")
		pass(31 * 24 * time.Hour)
		attempts := len(s.sent)
		c = s.client(Options{Store: store})
		stop = run(c)
		state, _, err = settled(t, c.Pending("g1")[0])
		expect(t, "fate after 31 days", fmt.Sprint(state, err == ErrUnknowable), "unknowable true")
		expect(t, "attempts", len(s.sent), attempts)
		expect(t, "run", stop(), nil)
	})
}

func TestOutgoingSurvivesRestartInOrder(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		store := NewMemory()
		c := s.client(Options{Store: store})
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint(i))
			sendText(t, c, "g1", want[i])
		}
		answered := 0
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if answered++; answered == 8 {
				s.store(f)
				return true // and says nothing
			}
			return false
		}
		stop := run(c)
		synctest.Wait()
		expect(t, "run", stop(), nil)
		expect(t, "stored before the restart", stored(s, "g1"), want[:8])

		c = s.client(Options{Store: store})
		expect(t, "pending", len(c.Pending("g1")), 13)
		stop = run(c)
		synctest.Wait()
		expect(t, "stored", stored(s, "g1"), want)
		expect(t, "shown", shown(c, "g1"), want)
		expect(t, "pending", len(c.Pending("g1")), 0)
		expect(t, "run", stop(), nil)
	})
}

// TestNothingGoesOutBeforeItIsDurable: P-4.9. The second message is taken while
// the first one is being synced.
func TestNothingGoesOutBeforeItIsDurable(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.conv("g2", "")
		store := NewMemory()
		var c *Client
		syncs := 0
		store.Sync = func() error {
			if syncs == 0 {
				sendText(t, c, "g2", "second")
			}
			pass(time.Minute)
			syncs++
			return nil
		}
		durable := map[string]int{} // syncs that were over when it came
		s.onSend = func(_ *fakeSession, f *petrelv1.ClientFrame) bool {
			durable[f.GetSend().GetText()] = syncs
			return false
		}
		c = s.client(Options{Store: store})
		stop := run(c)
		synctest.Wait()
		sendText(t, c, "g1", "first")
		pass(10 * time.Minute)
		expect(t, "syncs before each message", durable, map[string]int{"first": 1, "second": 2})
		expect(t, "run", stop(), nil)
	})
}

func TestFirstMessageToAUserMakesTheConversation(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		c := s.client(Options{})
		stop := run(c)
		o, err := c.Send(Draft{User: "bob", Text: "hi"})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "pending", len(c.PendingTo("bob")), 1)
		state, seq, err := settled(t, o)
		synctest.Wait()
		expect(t, "fate", fmt.Sprint(state, seq, err), "sent 1 <nil>")
		expect(t, "conversation", c.Direct("bob"), "d-bob")
		expect(t, "messages", shown(c, "d-bob"), "[hi]")
		expect(t, "pending", len(c.PendingTo("bob")), 0)
		expect(t, "run", stop(), nil)
	})
}

func TestDraftsThatCannotBeSent(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		c := s.client(Options{})
		for _, d := range []Draft{
			{Text: "to nobody"},
			{Conv: "g1", User: "bob"},
			{Conv: "g1", Text: "\xff"},
			{Conv: "g1", Text: "x", Data: []byte{}},
			{Conv: "g1", ID: strings.Repeat("x", 65)},
			{Conv: "g1", Recall: &petrelv1.Recall{Target: 1}, Edit: &petrelv1.Edit{Target: 1}},
		} {
			if o, err := c.Send(d); CodeOf(err) != CodeInvalid {
				t.Errorf("send %+v: got %v, %v, want invalid", d, o, err)
			}
		}
	})
}

// TestHistoryIDChangeLooksBeforeItSends: P-6.6.
func TestHistoryIDChangeLooksBeforeItSends(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for i := range 30 {
			v.add(text("bob", fmt.Sprint(i)))
		}
		first := true
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSend().GetAfter() > v.head() {
				ss.fail(f.Id, &petrelv1.Error{Code: CodeAfterAhead, Head: v.head()})
				return true
			}
			switch {
			case first:
				first = false
				s.store(f) // seq 31, and the answer is lost
				return true
			}
			return false
		}
		store := NewMemory()
		c := s.client(Options{Store: store})
		stop := run(c)
		synctest.Wait()
		lost := sendText(t, c, "g1", "lost answer")
		never := sendText(t, c, "g1", "never sent")
		synctest.Wait()
		expect(t, "run", stop(), nil)

		// A backup is restored: seqs 11 to 30 are gone, the message is at 11 now.
		s.history = "h2"
		kept := v.log[30]
		v.log = v.log[:10]
		v.add(kept)
		v.log[10].From = "alice"
		c = s.client(Options{Store: store})
		stop = run(c)
		for i, p := range c.Pending("g1") {
			state, seq, err := settled(t, p)
			expect(t, "fate", fmt.Sprint(state, seq, err), fmt.Sprint("sent ", 11+i, " <nil>"))
			expect(t, "id", p.ID, []string{lost.ID, never.ID}[i])
		}
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), stored(s, "g1"))
		expect(t, "stored", len(v.log), 12)
		expect(t, "sends under the new history id, all but one were found", len(s.sent), 2)
		expect(t, "token of the first sync", s.tokens[1], "")
		expect(t, "run", stop(), nil)
	})
}

// Spec: P-6.6.
func TestEditOfAnotherHistoryIsNotSent(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		addAll(v, 0, 30, "alice")
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			s.store(f) // seq 31, and the answer is lost
			ss.conn.Close()
			s.onSend = func(*fakeSession, *petrelv1.ClientFrame) bool { return true }
			return true
		}
		store := NewMemory()
		c := s.client(Options{Store: store})
		stop := run(c)
		synctest.Wait()
		draft := func(target uint64) *Outgoing {
			o, err := c.Send(Draft{Conv: "g1", Recall: &petrelv1.Recall{Target: target}})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		found, never := draft(5), draft(25)
		synctest.Wait()
		expect(t, "run", stop(), nil)

		// Seqs 11 to 30 are gone, and 25 is another message of alice.
		s.history, s.onSend, s.sent = "h2", nil, nil
		kept := v.log[30]
		v.log = v.log[:10]
		v.add(kept)
		v.log[10].From = "alice"
		addAll(v, 11, 30, "alice")
		c = s.client(Options{Store: store})
		pending := c.Pending("g1") // before it runs: what is found leaves
		stop = run(c)
		for i, p := range pending {
			state, seq, err := settled(t, p)
			expect(t, "fate", fmt.Sprint(state, " ", seq), []string{"sent 11", "unknowable 0"}[i])
			expect(t, "id", p.ID, []string{found.ID, never.ID}[i])
			expect(t, "error", err, []error{nil, ErrUnknowable}[i]) // after the restart nobody knows that it was never sent
		}
		expect(t, "sends under the new history id", len(s.sent), 0)
		expect(t, "run", stop(), nil)
	})
}
