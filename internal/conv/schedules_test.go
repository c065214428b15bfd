package conv_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// The tests of this file are schedules that break chat servers. Each is named
// after its number in docs/concurrency.md.

// F1: the store shows rows before they are synced; a reader that saw one would
// be left with a message that a power cut takes back.
func TestF1NobodyReadsWhatIsNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		open := w.Gate.Shut()
		defer open()
		answer := w.Submit(convtest.Message(key, "alice", "k1", 1, "early"))[0]
		wantReadable(t, w, key, 2)
		if got := w.history(key, "bob"); !cmp.Equal(got, []string{"1:members"}) {
			t.Errorf("history before the sync: %v", got)
		}
		st, err := w.look(key, "bob")
		if err != nil || st.Head != 1 {
			t.Errorf("head before the sync: %d, %v; want 1", st.Head, err)
		}
		select {
		case r := <-answer:
			t.Errorf("answered before the sync: %+v", r)
		default:
		}
		open()
		if r := w.Await(answer); r.Seq != 2 {
			t.Errorf("answer %+v, want seq 2", r)
		}
		if got := w.history(key, "bob"); !cmp.Equal(got, []string{"1:members", "2:early"}) {
			t.Errorf("history after the sync: %v", got)
		}
	})
}

// F1: connections get their acks and their pushes from fan-out, which is a way of its own.
func TestF1ConnectionsAreToldOfAnEntryWhenItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		alice, bob := w.Online("alice"), w.Online("bob")
		open := w.Gate.Shut()
		defer open()
		s := convtest.Message(key, "alice", "k1", 1, "early")
		s.Origin = fanout.Origin{Out: alice.Out, ID: 7}
		w.Submit(s)
		wantReadable(t, w, key, 2)
		if a, b := alice.Got(), bob.Got(); len(a)+len(b) > 0 {
			t.Errorf("before the sync alice was told %q, and bob %q", a, b)
		}
		open()
		synctest.Wait()
		acked, pushed := alice.Got(), bob.Got()
		if !cmp.Equal(acked, []string{"ack 2"}) || !cmp.Equal(pushed, []string{"2:early"}) {
			t.Errorf("after the sync alice was told %q, and bob %q; want ack 2 and 2:early", acked, pushed)
		}
	})
}

// wantReadable checks that the store would show a row, durable or not.
func wantReadable(t *testing.T, w *world, key im.Key, q im.Seq) {
	t.Helper()
	synctest.Wait()
	if row, err := w.Gate.LastRow(context.Background(), key); err != nil || row == nil || row.Seq < q {
		t.Fatalf("the last row is %v, %v; want seq %d", row, err, q)
	}
}

// F2: a login between commit and publication must meet the message, by push or
// by its read of the head.
func TestF2LoginDuringACommitIsPushedWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		open := w.Gate.Shut()
		defer open()
		answer := w.Submit(convtest.Message(key, "alice", "k1", 1, "hello"))[0]
		wantReadable(t, w, key, 2)
		bob := w.Online("bob") // enters the table, then reads the head
		st, err := w.look(key, "bob")
		if err != nil || st.Head != 1 {
			t.Fatalf("head %d, %v: the schedule needs a commit under way", st.Head, err)
		}
		open()
		w.Await(answer)
		if got := bob.Got(); !cmp.Equal(got, []string{"2:hello"}) {
			t.Errorf("bob was pushed %v, want [2:hello]", got)
		}
	})
}

// F3: one message for one id, whatever the batch, the restart and the body.
func TestF3SameIDInOneBatchGetsOneSeq(t *testing.T) {
	for _, after := range []int{1, -1} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := w.Group("alice", "bob")
				open := w.Gate.Shut()
				first := w.Submit(convtest.Message(key, "bob", "hold", 1, "holds the committer"))[0]
				answers := w.Submit(convtest.Message(key, "alice", "k", after, "once"), convtest.Message(key, "alice", "k", after, "once"), convtest.Message(key, "alice", "k", after, "other body"))
				open()
				w.Await(first)
				a, b := w.Await(answers[0]), w.Await(answers[1])
				if a.Seq == 0 || a.Seq != b.Seq {
					t.Errorf("answers %+v and %+v, want one seq", a, b)
				}
				convtest.WantCode(t, w.Await(answers[2]), im.CodeConflict)
				if got, want := w.history(key, "alice"), []string{"1:members", "2:holds the committer", "3:once"}; !cmp.Equal(got, want) {
					t.Errorf("history %v, want %v", got, want)
				}
			})
		})
	}
}

func TestF3ScopeOfAnIDIsTheConversationAndTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.Group("alice", "bob"), w.Group("alice", "bob")
		for i, s := range []*conv.Send{convtest.Message(one, "alice", "k", 1, "a"), convtest.Message(two, "alice", "k", 1, "b"), convtest.Message(one, "bob", "k", 1, "c")} {
			if r := w.Send(s); r.Err != nil || r.Repeat {
				t.Errorf("send %d: %+v, want a new row", i, r)
			}
		}
	})
}

func TestF3RepeatIsFoundAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		named := w.MustSend(convtest.Message(key, "alice", "k1", 1, "with after"))
		keyed := w.MustSend(convtest.Message(key, "alice", "k2", -1, "without"))
		for i := range 50 {
			w.MustSend(convtest.Message(key, "bob", fmt.Sprint("n", i), 1, "noise"))
		}
		w.restart()
		if q := w.MustSend(convtest.Message(key, "alice", "k1", 1, "with after")); q != named {
			t.Errorf("seq %d after the restart, want %d", q, named)
		}
		if q := w.MustSend(convtest.Message(key, "alice", "k2", -1, "without")); q != keyed {
			t.Errorf("seq %d after the restart, want %d", q, keyed)
		}
		convtest.WantCode(t, w.Send(convtest.Message(key, "alice", "k1", 1, "another body")), im.CodeConflict)
	})
}

// F3: a repeat without an after is found by the store, where the tail does not have it.
func TestF3KeyedRepeatIsFoundByTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		first := w.MustSend(convtest.Message(key, "alice", "k1", -1, "hi"))
		w.restart()
		if q := w.MustSend(convtest.Message(key, "alice", "k1", -1, "hi")); q != first {
			t.Errorf("seq %d after the restart, want %d", q, first)
		}
	})
}

// F4: a retry of what is stored is answered with its seq, whatever its sender
// may do by now.
func TestF4RetryOfARemovedMemberGetsItsSeq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		q := w.MustSend(convtest.Message(key, "bob", "k1", 1, "stored"))
		w.MustSend(convtest.Kick(key, "kick", "bob"))
		if r := w.Send(convtest.Message(key, "bob", "k1", 1, "stored")); r.Err != nil || r.Seq != q {
			t.Errorf("retry %+v, want seq %d", r, q)
		}
		convtest.WantCode(t, w.Send(convtest.Message(key, "bob", "k2", 1, "new")), im.CodeNotMember)
		w.restart()
		if r := w.Send(convtest.Message(key, "bob", "k1", 1, "stored")); r.Err != nil || r.Seq != q {
			t.Errorf("retry after a restart %+v, want seq %d", r, q)
		}
	})
}

// F17: entries of one batch are admitted, and delivered, by the members that
// those before them leave.
func TestF17KickInTheMiddleOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "eve")
		eve, bob := w.Online("eve"), w.Online("bob")
		open := w.Gate.Shut()
		hold := w.Submit(convtest.Message(key, "alice", "hold", 1, "holds the committer"))[0]
		wantReadable(t, w, key, 2)
		answers := w.Submit(
			convtest.Message(key, "alice", "a", 1, "before"), convtest.Kick(key, "kick", "eve"), convtest.Message(key, "alice", "b", 1, "behind"),
			convtest.Message(key, "eve", "c", 1, "no longer"), convtest.Add(key, "back", "eve"), convtest.Message(key, "eve", "d", 1, "again"))
		open()
		w.Await(hold)
		for i, want := range []im.Seq{3, 4, 5, 0, 6, 7} {
			r := w.Await(answers[i])
			if want == 0 {
				convtest.WantCode(t, r, im.CodeNotMember)
			} else if r.Err != nil || r.Seq != want {
				t.Errorf("answer %d: %+v, want seq %d", i, r, want)
			}
		}
		want := []string{"2:holds the committer", "3:before", "4:members", "6:members", "7:again"}
		if got := eve.Got(); !cmp.Equal(got, want) {
			t.Errorf("eve was pushed %v, want %v", got, want)
		}
		if got := w.history(key, "eve"); !cmp.Equal(got, append([]string{"1:members"}, want...)) {
			t.Errorf("eve reads %v", got)
		}
		if got := len(bob.Got()); got != 6 {
			t.Errorf("bob was pushed %d entries, want 6", got)
		}
		w.restart()
		if got := w.history(key, "eve"); !cmp.Equal(got, append([]string{"1:members"}, want...)) {
			t.Errorf("eve reads %v after a restart", got)
		}
	})
}

// F17: a user who comes back reads both stays, and nothing in between.
func TestF17RejoinKeepsTheFirstStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		var want []string
		want = append(want, "1:members")
		for i := range 3 {
			q := w.MustSend(convtest.Message(key, "alice", fmt.Sprint("in", i), 1, "in"))
			out := w.MustSend(convtest.Kick(key, fmt.Sprint("kick", i), "bob"))
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint("out", i), 1, "out"))
			back := w.MustSend(convtest.Add(key, fmt.Sprint("add", i), "bob"))
			want = append(want, fmt.Sprint(q, ":in"), fmt.Sprint(out, ":members"), fmt.Sprint(back, ":members"))
		}
		bob := w.Online("bob")
		q := w.MustSend(convtest.Message(key, "bob", "k", 1, "here again"))
		want = append(want, fmt.Sprint(q, ":here again"))
		for range 2 {
			if got := w.history(key, "bob"); !cmp.Equal(got, want) {
				t.Errorf("bob reads %v, want %v", got, want)
			}
			w.restart()
		}
		if got := bob.Got(); len(got) != 1 {
			t.Errorf("bob was pushed %v", got)
		}
	})
}

// F17: to who was removed, a page says nothing of what was written afterwards, not even
// how much there is.
func TestF17APageSaysNothingOfWhatCameAfterAStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Kick(key, "kick", "bob"))
		w.MustSend(convtest.Message(key, "alice", "out", 1, "out"))
		h, err := w.owner().History(t.Context(), conv.Query{Conv: key, User: "bob"}, &convpb.GetHistory{})
		if err != nil || len(h.Rows) != 2 || h.Head != 2 || h.CoveredTo != 2 || h.More {
			t.Errorf("bob, who was removed by entry 2, reads %d rows, head %d, covered to %d, more %t, %v", len(h.GetRows()), h.GetHead(), h.GetCoveredTo(), h.GetMore(), err)
		}
	})
}

// F17: members that a refused batch would have made admit nobody and refuse
// nobody.
func TestF17RefusedBatchLeavesTheMembersAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "eve")
		w.MustSend(convtest.Kick(key, "kick eve", "eve"))
		eve := w.Online("eve")
		w.Gate.Refuse(true)
		for _, r := range w.together(convtest.Kick(key, "kick", "bob"), convtest.Add(key, "add", "eve"), convtest.Message(key, "eve", "e", 1, "x")) {
			convtest.WantCode(t, r, im.CodeDiskFull)
		}
		w.Gate.Refuse(false)
		convtest.WantCode(t, w.Send(convtest.Message(key, "eve", "e", 1, "x")), im.CodeNotMember)
		if q := w.MustSend(convtest.Message(key, "bob", "b", 1, "still here")); q != 3 {
			t.Errorf("seq %d, want 3", q)
		}
		if got := eve.Got(); len(got) != 0 {
			t.Errorf("eve was pushed %v", got)
		}
		// The same change, asked for again, is done.
		if q := w.MustSend(convtest.Kick(key, "kick", "bob")); q != 4 {
			t.Errorf("seq %d, want 4", q)
		}
		convtest.WantCode(t, w.Send(convtest.Message(key, "bob", "c", 1, "x")), im.CodeNotMember)
	})
}

// F20: a commit whose outcome is unknown is not answered, and nothing of it is
// read or pushed.
func TestF20FailedCommitTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		bob := w.Online("bob")
		w.Gate.Break()
		answer := w.Submit(convtest.Message(key, "alice", "k", 1, "lost or not"))[0]
		if err := <-w.ended; err == nil {
			t.Error("the conversations go on after a failed commit")
		}
		w.ended <- nil // this failure is no failure of the test
		select {
		case r := <-answer:
			t.Errorf("answered %+v", r)
		default:
		}
		if got := bob.Got(); len(got) != 0 {
			t.Errorf("bob was pushed %v", got)
		}
		if got := w.history(key, "bob"); !cmp.Equal(got, []string{"1:members"}) {
			t.Errorf("history %v", got)
		}
	})
}

// F21: the queue is bounded, and a send that does not fit is refused, unsettled.
func TestF21StalledStoreDoesNotQueueWithoutBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		open := w.Gate.Shut()
		body := string(make([]byte, 8<<10))
		refused, sends := 0, 0
		var answers []chan conv.Result
		for i := range 400 {
			a := w.Submit(convtest.Message(key, "alice", fmt.Sprint(i), 1, body))[0]
			select {
			case r := <-a:
				convtest.WantCode(t, r, im.CodeOverloaded)
				if r.Err.Code.Info().Settled {
					t.Error("overloaded is settled")
				}
				refused++
			default:
				answers = append(answers, a)
			}
			sends++
		}
		if refused == 0 || len(answers) == 0 {
			t.Fatalf("%d of %d refused", refused, sends)
		}
		open()
		for _, a := range answers {
			if r := w.Await(a); r.Err != nil {
				t.Fatalf("queued send: %v", r.Err)
			}
		}
		synctest.Wait()
		if n := w.Convs.Waiting(); n != 0 {
			t.Errorf("%d sends wait after all were answered", n)
		}
	})
}

// F22: a hot conversation does not hold up a cold one.
func TestF22ColdConversationIsNotBehindAHotOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hot, cold := w.Group("alice", "bob"), w.Group("alice", "bob")
		open := w.Gate.Shut()
		var last chan conv.Result
		for i := range 3000 {
			last = w.Submit(convtest.Message(hot, "alice", fmt.Sprint(i), 1, "x"))[0]
		}
		synctest.Wait()
		var before im.Seq
		done := make(chan struct{})
		s := convtest.Message(cold, "bob", "cold", 1, "me too")
		s.Done = func(conv.Result) {
			st, err := w.look(hot, "alice")
			if err != nil {
				t.Error(err)
			}
			before = im.Seq(st.Head)
			close(done)
		}
		var k fanout.WakeUps
		w.Convs.Submit([]*conv.Send{s}, &k)
		open()
		<-done
		w.Await(last)
		// One batch of 256 was under way before it came, and one goes with it.
		if limit := im.Seq(2 * 256); before > limit {
			t.Errorf("the cold message was answered behind %d hot ones, want at most %d", before, limit)
		}
	})
}
