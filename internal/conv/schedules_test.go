package conv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// The tests of this file are schedules that break chat servers. Each is named
// after its number in docs/concurrency.md.

// F1: the store shows rows before they are synced; a reader that saw one would
// be left with a message that a power cut takes back.
func TestF1NobodyReadsWhatIsNotDurable(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	open := w.gate.shut()
	defer open()
	answer := w.submit(message(key, "alice", "k1", 1, "early"))[0]
	waitReadable(t, w, key, 2)
	if got := w.history(key, "bob"); !cmp.Equal(got, []string{"1:members"}) {
		t.Errorf("history before the sync: %v", got)
	}
	st, err := w.look(context.Background(), key, "bob")
	if err != nil || st.Head != 1 {
		t.Errorf("head before the sync: %d, %v; want 1", st.Head, err)
	}
	select {
	case r := <-answer:
		t.Errorf("answered before the sync: %+v", r)
	default:
	}
	open()
	if r := w.await(answer); r.Seq != 2 {
		t.Errorf("answer %+v, want seq 2", r)
	}
	if got := w.history(key, "bob"); !cmp.Equal(got, []string{"1:members", "2:early"}) {
		t.Errorf("history after the sync: %v", got)
	}
}

// waitReadable waits until the store would show a row, durable or not.
func waitReadable(t *testing.T, w *world, key im.Key, q im.Seq) {
	t.Helper()
	for end := time.Now().Add(deadline); ; {
		row, err := w.gate.LastRow(context.Background(), key)
		if err == nil && row != nil && row.Seq >= q {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("row %d never came: %v", q, err)
		}
		<-time.After(time.Millisecond)
	}
}

// F2: a login between commit and publication must meet the message, by push or
// by its read of the head.
func TestF2LoginDuringACommitIsPushedWhatItCannotRead(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	open := w.gate.shut()
	defer open()
	answer := w.submit(message(key, "alice", "k1", 1, "hello"))[0]
	waitReadable(t, w, key, 2)
	bob := w.online("bob") // enters the table, then reads the head
	st, err := w.look(context.Background(), key, "bob")
	if err != nil || st.Head != 1 {
		t.Fatalf("head %d, %v: the schedule needs a commit under way", st.Head, err)
	}
	open()
	w.await(answer)
	if got := bob.got(); !cmp.Equal(got, []string{"2:hello"}) {
		t.Errorf("bob was pushed %v, want [2:hello]", got)
	}
}

// F3: one message for one id, whatever the batch, the restart and the body.
func TestF3SameIDInOneBatchGetsOneSeq(t *testing.T) {
	for _, after := range []int{1, -1} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			w := newWorld(t)
			key := w.group("alice", "bob")
			open := w.gate.shut()
			first := w.submit(message(key, "bob", "hold", 1, "holds the committer"))[0]
			answers := w.submit(message(key, "alice", "k", after, "once"), message(key, "alice", "k", after, "once"), message(key, "alice", "k", after, "other body"))
			open()
			w.await(first)
			a, b := w.await(answers[0]), w.await(answers[1])
			if a.Seq == 0 || a.Seq != b.Seq {
				t.Errorf("answers %+v and %+v, want one seq", a, b)
			}
			wantCode(t, w.await(answers[2]), im.CodeConflict)
			if got, want := w.history(key, "alice"), []string{"1:members", "2:holds the committer", "3:once"}; !cmp.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
		})
	}
}

func TestF3ScopeOfAnIDIsTheConversationAndTheSender(t *testing.T) {
	w := newWorld(t)
	one, two := w.group("alice", "bob"), w.group("alice", "bob")
	for i, s := range []*conv.Send{message(one, "alice", "k", 1, "a"), message(two, "alice", "k", 1, "b"), message(one, "bob", "k", 1, "c")} {
		if r := w.send(s); r.Err != nil || r.Repeat {
			t.Errorf("send %d: %+v, want a new row", i, r)
		}
	}
}

func TestF3RepeatIsFoundAfterARestart(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	named := w.mustSend(message(key, "alice", "k1", 1, "with after"))
	keyed := w.mustSend(message(key, "alice", "k2", -1, "without"))
	for i := range 50 {
		w.mustSend(message(key, "bob", fmt.Sprint("n", i), 1, "noise"))
	}
	w.restart()
	if q := w.mustSend(message(key, "alice", "k1", 1, "with after")); q != named {
		t.Errorf("seq %d after the restart, want %d", q, named)
	}
	if q := w.mustSend(message(key, "alice", "k2", -1, "without")); q != keyed {
		t.Errorf("seq %d after the restart, want %d", q, keyed)
	}
	wantCode(t, w.send(message(key, "alice", "k1", 1, "another body")), im.CodeConflict)
}

// F4: a retry of what is stored is answered with its seq, whatever its sender
// may do by now.
func TestF4RetryOfARemovedMemberGetsItsSeq(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	q := w.mustSend(message(key, "bob", "k1", 1, "stored"))
	w.mustSend(kick(key, "kick", "bob"))
	if r := w.send(message(key, "bob", "k1", 1, "stored")); r.Err != nil || r.Seq != q {
		t.Errorf("retry %+v, want seq %d", r, q)
	}
	wantCode(t, w.send(message(key, "bob", "k2", 1, "new")), im.CodeNotMember)
	w.restart()
	if r := w.send(message(key, "bob", "k1", 1, "stored")); r.Err != nil || r.Seq != q {
		t.Errorf("retry after a restart %+v, want seq %d", r, q)
	}
}

// F17: entries of one batch are admitted, and delivered, by the members that
// those before them leave.
func TestF17KickInTheMiddleOfABatch(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob", "eve")
	eve, bob := w.online("eve"), w.online("bob")
	open := w.gate.shut()
	hold := w.submit(message(key, "alice", "hold", 1, "holds the committer"))[0]
	waitReadable(t, w, key, 2)
	answers := w.submit(
		message(key, "alice", "a", 1, "before"), kick(key, "kick", "eve"), message(key, "alice", "b", 1, "behind"),
		message(key, "eve", "c", 1, "no longer"), add(key, "back", "eve"), message(key, "eve", "d", 1, "again"))
	open()
	w.await(hold)
	for i, want := range []im.Seq{3, 4, 5, 0, 6, 7} {
		r := w.await(answers[i])
		if want == 0 {
			wantCode(t, r, im.CodeNotMember)
		} else if r.Err != nil || r.Seq != want {
			t.Errorf("answer %d: %+v, want seq %d", i, r, want)
		}
	}
	want := []string{"2:holds the committer", "3:before", "4:members", "6:members", "7:again"}
	if got := eve.got(); !cmp.Equal(got, want) {
		t.Errorf("eve was pushed %v, want %v", got, want)
	}
	if got := w.history(key, "eve"); !cmp.Equal(got, append([]string{"1:members"}, want...)) {
		t.Errorf("eve reads %v", got)
	}
	if got := len(bob.got()); got != 6 {
		t.Errorf("bob was pushed %d entries, want 6", got)
	}
	w.restart()
	if got := w.history(key, "eve"); !cmp.Equal(got, append([]string{"1:members"}, want...)) {
		t.Errorf("eve reads %v after a restart", got)
	}
}

// F17: who comes back reads both stays, and nothing in between.
func TestF17RejoinKeepsTheFirstStay(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	var want []string
	want = append(want, "1:members")
	for i := range 3 {
		q := w.mustSend(message(key, "alice", fmt.Sprint("in", i), 1, "in"))
		out := w.mustSend(kick(key, fmt.Sprint("kick", i), "bob"))
		w.mustSend(message(key, "alice", fmt.Sprint("out", i), 1, "out"))
		back := w.mustSend(add(key, fmt.Sprint("add", i), "bob"))
		want = append(want, fmt.Sprint(q, ":in"), fmt.Sprint(out, ":members"), fmt.Sprint(back, ":members"))
	}
	bob := w.online("bob")
	q := w.mustSend(message(key, "bob", "k", 1, "here again"))
	want = append(want, fmt.Sprint(q, ":here again"))
	for range 2 {
		if got := w.history(key, "bob"); !cmp.Equal(got, want) {
			t.Errorf("bob reads %v, want %v", got, want)
		}
		w.restart()
	}
	if got := bob.got(); len(got) != 1 {
		t.Errorf("bob was pushed %v", got)
	}
}

// F17: members that a refused batch would have made admit nobody and refuse
// nobody.
func TestF17RefusedBatchLeavesTheMembersAsTheyWere(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	eve := w.online("eve")
	w.gate.refuse(true)
	for _, r := range w.together(kick(key, "kick", "bob"), add(key, "add", "eve"), message(key, "eve", "e", 1, "x")) {
		wantCode(t, r, im.CodeDiskFull)
	}
	w.gate.refuse(false)
	wantCode(t, w.send(message(key, "eve", "e", 1, "x")), im.CodeNotMember)
	if q := w.mustSend(message(key, "bob", "b", 1, "still here")); q != 2 {
		t.Errorf("seq %d, want 2", q)
	}
	if got := eve.got(); len(got) != 0 {
		t.Errorf("eve was pushed %v", got)
	}
	// The same change, asked for again, is done.
	if q := w.mustSend(kick(key, "kick", "bob")); q != 3 {
		t.Errorf("seq %d, want 3", q)
	}
	wantCode(t, w.send(message(key, "bob", "c", 1, "x")), im.CodeNotMember)
}

// F20: a commit whose outcome is unknown is not answered, and nothing of it is
// read or pushed.
func TestF20FailedCommitTellsNobody(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	bob := w.online("bob")
	w.gate.fail()
	answer := w.submit(message(key, "alice", "k", 1, "lost or not"))[0]
	err := <-w.ended
	if err == nil {
		t.Error("the conversations go on after a failed commit")
	}
	w.ended <- err
	select {
	case r := <-answer:
		t.Errorf("answered %+v", r)
	default:
	}
	if got := bob.got(); len(got) != 0 {
		t.Errorf("bob was pushed %v", got)
	}
	if got := w.history(key, "bob"); !cmp.Equal(got, []string{"1:members"}) {
		t.Errorf("history %v", got)
	}
}

// F21: what is queued is bounded, and what does not fit is refused, unsettled.
func TestF21StalledStoreDoesNotQueueWithoutBound(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	open := w.gate.shut()
	body := string(make([]byte, 8<<10))
	refused, sends := 0, 0
	var answers []chan conv.Result
	for i := range 400 {
		a := w.submit(message(key, "alice", fmt.Sprint(i), 1, body))[0]
		select {
		case r := <-a:
			wantCode(t, r, im.CodeOverloaded)
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
		if r := w.await(a); r.Err != nil {
			t.Fatalf("queued send: %v", r.Err)
		}
	}
	if n := w.convs.Waiting(); n != 0 {
		t.Errorf("%d sends wait after all were answered", n)
	}
}

// F22: a hot conversation does not hold up a cold one.
func TestF22ColdConversationIsNotBehindAHotOne(t *testing.T) {
	w := newWorld(t)
	hot, cold := w.group("alice", "bob"), w.group("alice", "bob")
	open := w.gate.shut()
	var last chan conv.Result
	for i := range 3000 {
		last = w.submit(message(hot, "alice", fmt.Sprint(i), 1, "x"))[0]
	}
	var before im.Seq
	done := make(chan struct{})
	s := message(cold, "bob", "cold", 1, "me too")
	s.Done = func(conv.Result) {
		st, err := w.look(context.Background(), hot, "alice")
		if err != nil {
			t.Error(err)
		}
		before = im.Seq(st.Head)
		close(done)
	}
	var k fanout.WakeUps
	w.convs.Submit([]*conv.Send{s}, &k)
	open()
	<-done
	w.await(last)
	// One batch of 256 was under way before it came, and one goes with it; the
	// publication of a further one may race with this look.
	if limit := im.Seq(3*256 + 1); before > limit {
		t.Errorf("the cold message was answered behind %d hot ones, want at most %d", before, limit)
	}
}
