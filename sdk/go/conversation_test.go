package petrel

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func numbers(from, to int) []string {
	out := []string{}
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestGapIsRepairedAndRepeatsAreDropped(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		ss := s.sessions[0]
		for _, q := range []struct {
			what string
			push []int // seqs; pushes above the last of them are lost
			want []string
		}{
			{"in order", []int{1, 2}, numbers(1, 2)},
			{"again", []int{2, 1, 2}, numbers(1, 2)},
			{"a gap", []int{5}, numbers(1, 5)},
			{"turned round", []int{8, 7, 6}, numbers(1, 8)},
			{"more than a page is missing", []int{200}, numbers(1, 200)},
		} {
			s.mu.Lock()
			for v.head() < uint64(slices.Max(q.push)) {
				v.add(text("bob", fmt.Sprint(v.head()+1)))
			}
			for _, n := range q.push {
				ss.event(v.log[n-1])
			}
			s.mu.Unlock()
			synctest.Wait()
			expect(t, q.what, shown(c, "g1"), q.want)
		}
		expect(t, "run", stop(), nil)
	})
}

func TestNothingIsShownBehindAGap(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		s.onFrame = func(_ *fakeSession, f *petrelv1.ClientFrame) bool { return f.GetHistory() != nil } // no answer
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		v.add(text("bob", "1"))
		s.post("g1", text("bob", "2"))
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), "[]")
		got, _ := c.Conversation("g1")
		expect(t, "have and head", fmt.Sprint(got.Have, got.Head), "0 2")
		s.sessions[0].event(v.log[0])
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), "[1 2]")
		expect(t, "run", stop(), nil)
	})
}

// The page of a sync may have been read before an entry that was pushed meanwhile.
func TestAnOlderSyncBringsNoOldTitleBack(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		v.title = "boat"
		v.add(text("bob", "1"))
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		var late func() // answers the sync under way as it stood when it was asked
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSync() == nil || late != nil {
				return false
			}
			p := &petrelv1.SyncPage{Convs: []*petrelv1.ConvState{v.state(0)}, Token: []byte("g1=1;")}
			late = func() { ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Sync{Sync: p}}) }
			return true
		}
		s.sessions[0].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}})
		synctest.Wait()
		v.title = "ship"
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: "ship"}}})
		synctest.Wait()
		late()
		synctest.Wait()
		got, _ := c.Conversation("g1")
		expect(t, "title", got.Title, "ship")
		expect(t, "run", stop(), nil)
	})
}

func TestFirstMeetingLoadsTheNewestAndOlderPagesBack(t *testing.T) {
	for _, caps := range [][]string{nil, {capNewest}} {
		play(t, func(t *testing.T, s *fake) {
			s.caps = caps
			v := s.conv("g1", "")
			for i := range 120 {
				v.add(text("bob", fmt.Sprint(i+1)))
			}
			c := s.client(Options{Newest: 10})
			stop := run(c)
			synctest.Wait()
			expect(t, "shown", shown(c, "g1"), numbers(111, 120))
			for _, want := range []struct {
				from int
				more bool
			}{{61, true}, {11, true}, {1, false}, {1, false}} {
				more, err := c.Older(t.Context(), "g1", 0)
				expect(t, "older", fmt.Sprint(more, err), fmt.Sprint(want.more, " <nil>"))
				expect(t, "shown", shown(c, "g1"), numbers(want.from, 120))
			}
			s.post("g1", text("bob", "121"))
			synctest.Wait()
			expect(t, "shown", shown(c, "g1"), numbers(1, 121))
			expect(t, "run", stop(), nil)
		})
	}
}

func TestFarBehindBeginsAnewBelowTheHead(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		store := NewMemory()
		o := Options{Keep: 30, Store: store}
		for i := range 20 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		c := s.client(o)
		stop := run(c)
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), numbers(1, 20))
		expect(t, "run", stop(), nil)
		for i := range 1000 {
			v.add(text("bob", fmt.Sprint(i+21)))
		}
		c = s.client(o)
		expect(t, "shown from the store", shown(c, "g1"), numbers(1, 20))
		s.reads = 0
		stop = run(c)
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), numbers(991, 1020))
		expect(t, "pages", s.reads, 1)

		var all []string
		for after := uint64(0); ; {
			ms, err := c.Since(t.Context(), "g1", after, 0)
			if err != nil || len(ms) == 0 {
				expect(t, "since", err, nil)
				break
			}
			for _, m := range ms {
				all = append(all, m.GetText())
				after = m.Seq
			}
		}
		expect(t, "since the beginning", all, numbers(1, 1020))
		expect(t, "run", stop(), nil)
		rows, err := store.Load()
		if err != nil || len(rows) > 30+2 {
			t.Errorf("rows in the store: got %d, %v, want 30 entries, a conversation and meta", len(rows), err)
		}
	})
}

func TestKeepBoundsMemoryAndStore(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		store := NewMemory()
		c := s.client(Options{Keep: 40, Store: store})
		stop := run(c)
		for i := range 500 {
			s.post("g1", text("bob", fmt.Sprint(i+1)))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		expect(t, "run", stop(), nil)
		if n := len(c.Messages("g1", 0, 0)); n < 40 || n > 45 {
			t.Errorf("entries held: got %d, want 40 to 45", n)
		}
		again := s.client(Options{Keep: 40, Store: store})
		expect(t, "shown after a restart", shown(again, "g1"), shown(c, "g1"))
	})
}

func TestEditsAndRecallsAreFolded(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for _, x := range []string{"one", "two", "three"} {
			v.add(text("bob", x))
		}
		store := NewMemory()
		c := s.client(Options{Store: store, Newest: 1})
		stop := run(c)
		synctest.Wait()
		edit := func(target uint64, text string) {
			s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: target, Body: &petrelv1.Edit_Text{Text: text}}}})
		}
		edit(3, "THREE")
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: 2}}})
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 1}}}) // emptied
		synctest.Wait()
		check := func(c *Client, what string) {
			t.Helper()
			ms := c.Messages("g1", 2, 1)
			if len(ms) != 1 {
				t.Fatalf("%s: message 3 is not shown", what)
			}
			m := ms[0]
			expect(t, what+": message 3", fmt.Sprint(m.GetText(), " ", m.EditedBy), "THREE 4")
		}
		check(c, "pushed")
		if _, err := c.Older(t.Context(), "g1", 0); err != nil {
			t.Fatal(err)
		}
		ms := c.Messages("g1", 0, 2)
		expect(t, "message 1", fmt.Sprint(ms[0].GetText(), ms[0].EditedBy), "one0")
		expect(t, "message 2", fmt.Sprint(ms[1].Body, ms[1].RecalledBy), fmt.Sprint(nil, uint64(5)))
		edit(2, "back again?")
		synctest.Wait()
		expect(t, "message 2, recalled", fmt.Sprint(c.Messages("g1", 1, 1)[0].Body), "<nil>")
		expect(t, "run", stop(), nil)
		check(s.client(Options{Store: store}), "after a restart")
	})
}

func TestUnreadCountsOthersBehindTheReadCursor(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCursor}
		v := s.conv("g1", "")
		for i := range 10 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		v.read, v.readCounted = 4, 4
		c := s.client(Options{ManualDelivered: true})
		unread := func() int {
			synctest.Wait()
			got, _ := c.Conversation("g1")
			return got.Unread
		}
		stop := run(c)
		expect(t, "at first", unread(), 6)
		settled(t, sendText(t, c, "g1", "mine"))
		expect(t, "after an own message", unread(), 6)
		s.post("g1", text("carol", "x"))
		s.post("g1", &petrelv1.Message{From: "carol", Body: &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: "boat"}}})
		expect(t, "after a message and a new title", unread(), 7)
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: 10}}})
		expect(t, "after a recall", unread(), 7)
		c.MarkRead("g1", 9)
		expect(t, "read up to 9", unread(), 2)
		c.MarkRead("g1", 5)
		expect(t, "a cursor does not go back", unread(), 2)
		s.sessions[0].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{
			Receipts: []*petrelv1.Receipt{{Conv: "g1", User: "alice", Delivered: 14, Read: 12}},
		}}})
		expect(t, "read on another device", unread(), 0)
		expect(t, "run", stop(), nil)
	})
}

func TestCursorsAreSentOnceASecond(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCursor}
		s.conv("g1", "")
		store := NewMemory()
		c := s.client(Options{Store: store})
		stop := run(c)
		synctest.Wait()
		for i := range 50 { // 5 s
			s.post("g1", text("bob", "x"))
			synctest.Wait()
			c.MarkRead("g1", uint64(i+1))
			pass(100 * time.Millisecond)
		}
		pass(time.Second)
		if n := len(s.cursors); n < 5 || n > 7 {
			t.Errorf("cursors sent in 6 s: got %d", n)
		}
		last := s.cursors[len(s.cursors)-1]
		expect(t, "last cursor", fmt.Sprint(last.Delivered, last.Read), "50 50")
		expect(t, "run", stop(), nil)

		s.post("g1", text("bob", "x"))
		c = s.client(Options{Store: store, ManualDelivered: true})
		stop = run(c)
		synctest.Wait()
		expect(t, "run", stop(), nil)
		c.MarkRead("g1", 51) // offline
		if err := c.flush(); err != nil {
			t.Fatal(err)
		}
		n := len(s.cursors)
		stop = run(s.client(Options{Store: store}))
		synctest.Wait()
		expect(t, "cursors after a restart", len(s.cursors), n+1)
		expect(t, "cursor", s.cursors[n].Read, 51)
		expect(t, "run", stop(), nil)
	})
}

func TestTicksFollowReceipts(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("d1", "bob")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		settled(t, sendText(t, c, "d1", "hi"))
		ticks := func() string {
			synctest.Wait()
			m := c.Messages("d1", 0, 0)[0]
			return fmt.Sprint(m.Delivered, m.Read)
		}
		expect(t, "sent", ticks(), "0 0")
		receipt := func(d, r uint64) {
			s.sessions[0].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{
				Receipts: []*petrelv1.Receipt{{Conv: "d1", User: "bob", Delivered: d, Read: r}},
			}}})
		}
		receipt(1, 0)
		expect(t, "delivered", ticks(), "1 0")
		receipt(0, 1)
		expect(t, "read", ticks(), "1 1")
		receipt(1, 0)
		expect(t, "an older receipt", ticks(), "1 1")
		expect(t, "run", stop(), nil)
	})
}

// Spec: S-18.3.
func TestASnapshotDoesNotChange(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("d1", "bob")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		settled(t, sendText(t, c, "d1", "hi"))
		receipt := func(read uint64) {
			s.sessions[0].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{
				Receipts: []*petrelv1.Receipt{{Conv: "d1", User: "bob", Read: read}},
			}}})
			synctest.Wait()
		}
		receipt(1)
		one, _ := c.Conversation("d1")
		all, want := c.Messages("d1", 0, 0), fmt.Sprint(c.Messages("d1", 0, 0))
		s.post("d1", &petrelv1.Message{From: "alice", Body: &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 1, Body: &petrelv1.Edit_Text{Text: "edited"}}}})
		receipt(2)
		now, _ := c.Conversation("d1")
		expect(t, "head and receipt", fmt.Sprintf("%d %d %s", now.Head, now.Receipts["bob"].GetRead(), c.Messages("d1", 0, 0)[0].GetText()), "2 2 edited")
		expect(t, "those that were given before", fmt.Sprint(one.Head, one.Receipts["bob"].GetRead()), "1 1")
		expect(t, "the messages that were given before", all, want)
		expect(t, "run", stop(), nil)
	})
}

func TestHintsLeaveAGapUntilTheFocusMoves(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capFocus}
		s.conv("g1", "")
		v := s.conv("g2", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		c.Focus("g1")
		synctest.Wait()
		for i := range 5 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		s.reads = 0
		s.sessions[0].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{
			Hints: []*petrelv1.Hint{{Conv: "g2", Head: 5, Counted: 5}},
		}}})
		synctest.Wait()
		got, _ := c.Conversation("g2")
		expect(t, "hinted", fmt.Sprint(got.Head, got.Have, got.Unread, s.reads), "5 0 5 0")
		c.Focus("g2")
		synctest.Wait()
		expect(t, "in focus", shown(c, "g2"), numbers(1, 5))
		expect(t, "run", stop(), nil)
	})
}

func TestSlowReaderMissesNoChange(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		s.conv("g2", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		sub := c.Subscribe()
		first := sub.Take()
		expect(t, "first change", fmt.Sprint(first.Conversations, first.List, first.Status), "[g1 g2] true true")
		s.post("g2", text("bob", "x"))
		synctest.Wait() // a change of its own
		for range 100 {
			s.post("g1", text("bob", "x"))
		}
		synctest.Wait()
		if ch, err := sub.Next(t.Context()); err != nil || fmt.Sprint(ch.Conversations) != "[g1 g2]" || ch.List || ch.Status {
			t.Errorf("change: got %+v, %v, want g1 and g2", ch, err)
		}
		if ch := sub.Take(); !ch.Empty() {
			t.Errorf("a second change: got %+v", ch)
		}
		sub.Close()
		s.post("g2", text("bob", "x"))
		synctest.Wait()
		if ch := sub.Take(); !ch.Empty() {
			t.Errorf("a change after the end: got %+v", ch)
		}
		expect(t, "run", stop(), nil)
	})
}

var seed = flag.Uint64("seed", 0, "of the random schedules; 0: 1 to 60")

// TestRandomSchedules plays a server that loses, repeats, delays and turns
// round what it pushes, refuses, cuts, forgets to answer, lags, and a client
// that restarts from its store: every message is stored and shown once, in
// order.
func TestRandomSchedules(t *testing.T) {
	seeds := []uint64{*seed}
	if *seed == 0 {
		seeds = nil
		for n := range uint64(60) {
			seeds = append(seeds, n+1)
		}
	}
	for _, n := range seeds {
		t.Run(fmt.Sprint("seed=", n), func(t *testing.T) {
			play(t, func(t *testing.T, s *fake) { playRandom(t, s, rand.New(rand.NewPCG(n, 7))) })
		})
	}
}

func playRandom(t *testing.T, s *fake, r *rand.Rand) {
	var mu = &s.mu // r is used under it
	if r.IntN(2) == 0 {
		s.caps = []string{capNewest, capCursor}
	}
	s.page = 3 + r.IntN(10)
	convs := []string{"d1", "g1", "g2"}
	s.conv("d1", "bob")
	s.conv("g1", "")
	s.conv("g2", "")
	s.misbehave(r)
	o := Options{Store: NewMemory(), Keep: 1000}
	c := s.client(o)
	stop := run(c)
	mine := map[string][]string{}
	for i := range 120 {
		mu.Lock()
		what, conv := r.IntN(20), convs[r.IntN(3)]
		pause := time.Duration(r.IntN(300)) * time.Millisecond
		mu.Unlock()
		switch {
		case what < 9:
			s.post(conv, text("bob", fmt.Sprint("b", i)))
		case what < 17:
			d := Draft{Conv: conv, Text: fmt.Sprint("a", i)}
			if conv == "d1" && what%2 == 0 {
				d.Conv, d.User = "", "bob"
			}
			if _, err := c.Send(d); err != nil {
				t.Fatal(err)
			}
			mine[conv] = append(mine[conv], d.Text)
		case what < 19:
			s.cut()
		default:
			expect(t, "run", stop(), nil)
			c = s.client(o)
			stop = run(c)
		}
		pass(pause)
	}
	mu.Lock()
	s.push, s.onSend, s.onFrame, s.onHello = nil, nil, nil, nil
	mu.Unlock()
	s.cut() // the client hears of all losses by then
	pass(5 * time.Minute)
	for _, conv := range convs {
		all := stored(s, conv)
		expect(t, "shown of "+conv, shown(c, conv), all)
		own := slices.DeleteFunc(slices.Clone(all), func(x string) bool { return !strings.HasPrefix(x, "a") })
		expect(t, "own messages in "+conv, own, mine[conv])
		expect(t, "pending in "+conv, len(c.Pending(conv)), 0)
	}
	expect(t, "run", stop(), nil)
	again := s.client(o)
	for _, conv := range convs {
		expect(t, "shown after a restart of "+conv, shown(again, conv), stored(s, conv))
	}
}

// misbehave makes s do everything a server and a network may do, and a little
// more.
func (s *fake) misbehave(r *rand.Rand) {
	var late []*petrelv1.Message
	s.push = func(ss *fakeSession, m *petrelv1.Message) {
		switch n := r.IntN(20); {
		case n < 2: // lost
		case n < 4:
			ss.event(m, m)
		case n < 6:
			late = append(late, m)
		case n < 7:
			ss.lagged = true
			ss.write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}})
		default:
			ss.event(append([]*petrelv1.Message{m}, late...)...)
			late = nil
		}
	}
	s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
		switch n := r.IntN(20); {
		case n < 2:
			s.store(f)
			_ = ss.conn.Close() // the answer is lost
		case n < 4:
			_ = ss.conn.Close() // the send is lost
		case n < 6:
			ss.fail(f.Id, &petrelv1.Error{Code: "overloaded", Retryable: true, RetryAfterMs: uint32(r.IntN(2000))})
		case n < 7:
			s.store(f)
			ss.fail(f.Id, &petrelv1.Error{Code: "internal", Retryable: true})
		case n < 8:
			ss.fail(f.Id, &petrelv1.Error{Code: CodeBehind, Head: s.headOf(f.GetSend())})
		default:
			return false
		}
		return true
	}
	s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
		switch {
		case f.GetHistory() != nil && r.IntN(10) == 0:
			ss.fail(f.Id, &petrelv1.Error{Code: "rate_limited", Retryable: true, RetryAfterMs: 100})
		case f.GetSync() != nil && r.IntN(10) == 0:
			ss.fail(f.Id, &petrelv1.Error{Code: CodeBadToken})
		case r.IntN(60) == 0:
			_ = ss.conn.Close() // at any frame
		default:
			return false
		}
		return true
	}
}

func (s *fake) headOf(q *petrelv1.Send) uint64 {
	for _, v := range s.convs {
		if v.id == q.Conv || v.peer != "" && v.peer == q.User {
			return v.head()
		}
	}
	return 0
}

func TestWaitEndsWithItsContext(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		c := s.client(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := sendText(t, c, "g1", "x").Wait(ctx); err != context.Canceled {
			t.Errorf("wait: got %v", err)
		}
		if _, err := c.Older(ctx, "g1", 0); err != nil {
			t.Errorf("older of a conversation that is not known: got %v", err)
		}
	})
}

func TestWhatMayNotBeReadIsPassed(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for i := range 9 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetHistory() == nil {
				return false
			}
			p := s.historyPage(f.GetHistory())
			p.Messages = slices.DeleteFunc(slices.Clone(p.Messages), func(m *petrelv1.Message) bool { return m.Seq == 2 || m.Seq > 6 })
			ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_History{History: p}})
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		got, _ := c.Conversation("g1")
		expect(t, "shown and have", shown(c, "g1")+fmt.Sprint(got.Have), "[1 3 4 5 6]9")
		s.post("g1", text("bob", "10"))
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), "[1 3 4 5 6 10]")
		expect(t, "run", stop(), nil)
	})
}

func TestBadTokenSyncsWithoutOne(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		s.mu.Lock()
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if len(f.GetSync().GetToken()) == 0 {
				return false
			}
			ss.fail(f.Id, &petrelv1.Error{Code: CodeBadToken})
			return true
		}
		s.convs["g1"].add(text("bob", "new"))
		s.mu.Unlock()
		s.cut()
		pass(5 * time.Second)
		expect(t, "shown", shown(c, "g1"), "[new]")
		expect(t, "run", stop(), nil)
	})
}

// TestRepairGoesOnOverALinkThatBreaks: each connection lets 20 entries of a page
// through and breaks under more, and the sync does not list the conversation
// again.
func TestRepairGoesOnOverALinkThatBreaks(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.page = 200
		v := s.conv("g1", "")
		for i := range 300 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			q := f.GetHistory()
			if q == nil || q.Limit > 0 && q.Limit <= 20 {
				return false
			}
			_ = ss.conn.Close() // this is how
			return true
		}
		stop := run(s.client(Options{Newest: 300}))
		pass(time.Minute)
		expect(t, "run", stop(), nil)
		c := s.client(Options{Newest: 300})
		stop = run(c)
		pass(time.Minute)
		expect(t, "shown", shown(c, "g1"), numbers(1, 300))
		expect(t, "run", stop(), nil)
	})
}

func TestWhatIsPushedBeforeTheFirstSyncIsShown(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for i := range 30 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSync() != nil {
				ss.event(v.log[19])
			}
			return false
		}
		c := s.client(Options{Newest: 2})
		stop := run(c)
		synctest.Wait()
		expect(t, "shown", shown(c, "g1"), numbers(20, 30))
		expect(t, "run", stop(), nil)
	})
}
