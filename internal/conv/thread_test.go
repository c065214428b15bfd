package conv_test

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// inThread is a message of the thread of root.
func inThread(key im.Key, from im.User, k string, root uint64) *conv.Send {
	s := convtest.Message(key, from, k, 1, "of the thread")
	s.Entry.Rel = &petrelv1.Relations{Thread: root}
	return s
}

// wantN expects a message to be the n-th one of its thread.
func (w *world) wantN(s *conv.Send, n uint64) {
	w.T.Helper()
	if r := w.Send(s); r.Err != nil || r.ThreadN != n {
		w.T.Errorf("message %s: %+v, want it to be the %d. of its thread", s.Entry.ClientMsgId, r, n)
	}
}

// Spec: P-5.12.
func TestMessagesOfAThreadAreNumberedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		for i := range 3 {
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint("k", i), 1, "a root")) // 2 to 4
		}
		results := w.together(inThread(key, "bob", "r1", 2), inThread(key, "alice", "r2", 3), inThread(key, "bob", "r3", 2), inThread(key, "bob", "r1", 2))
		for i, want := range []uint64{1, 1, 2, 1} {
			if r := results[i]; r.Err != nil || r.ThreadN != want || r.Counted != 3 {
				t.Errorf("message %d: %+v, want it to be the %d. of its thread, and counted 3", i, r, want)
			}
		}
		w.restart()
		w.wantN(inThread(key, "bob", "r4", 2), 3)
		w.wantN(inThread(key, "bob", "r1", 2), 1) // a repeat
		w.Gate.Refuse(true)
		convtest.WantCode(t, w.Send(inThread(key, "bob", "r5", 2)), im.CodeDiskFull)
		w.Gate.Refuse(false)
		w.wantN(inThread(key, "bob", "r5", 2), 4)
		w.MustSend(recall(key, "bob", "recall", 5)) // r1: it keeps its number, and its place
		page, err := w.page(key, "alice", &convpb.GetHistory{After: 4})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range page.Rows {
			m := &petrelv1.Message{}
			if err := wire.ParseMessage(row, m); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d in %d as %d counted %d %q", m.Seq, m.Rel.GetThread(), m.ThreadN, m.Counted, m.GetText()))
		}
		want := []string{
			`5 in 2 as 1 counted 3 ""`, `6 in 3 as 1 counted 3 "of the thread"`, `7 in 2 as 2 counted 3 "of the thread"`, `8 in 2 as 3 counted 3 "of the thread"`,
			`9 in 2 as 4 counted 3 "of the thread"`, `10 in 0 as 0 counted 3 ""`,
		}
		if !cmp.Equal(got, want) {
			t.Errorf("the conversation has %q, want %q", got, want)
		}
	})
}

// All conversations of the feed wait for the committer. So a loader reads what there is to
// know of a thread, and once.
func TestCommitterReadsNothingOfThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "a root"))
		var reads atomic.Int64
		w.Gate.OnRow(func(store.Row) {
			reads.Add(1)
			if stack := debug.Stack(); bytes.Contains(stack, []byte("(*committer)")) {
				t.Errorf("the committer reads a row:\n%s", stack)
			}
		})
		w.wantN(inThread(key, "alice", "r1", 2), 1)
		w.wantN(inThread(key, "alice", "r2", 2), 2)
		w.Gate.OnRow(nil)
		if n := reads.Load(); n != 1 {
			t.Errorf("%d rows were read, want that of the root", n)
		}
	})
}

func TestWhatCanHaveAThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "a root"))  // 2
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "another")) // 3
		w.MustSend(inThread(key, "bob", "r1", 2))                      // 4
		w.MustSend(edit(key, "alice", "e1", 2, "the root"))            // 5
		w.MustSend(recall(key, "alice", "e2", 3))                      // 6
		for i, root := range []uint64{1, 4, 5, 6, 7, 99} {
			convtest.WantCode(t, w.Send(inThread(key, "bob", fmt.Sprint("bad", i), root)), im.CodeNoTarget)
		}
		w.MustSend(convtest.Add(key, "add", "carol")) // 7
		convtest.WantCode(t, w.Send(inThread(key, "carol", "bad", 2)), im.CodeNoTarget)
		w.wantN(inThread(key, "bob", "r2", 2), 2)
		w.wantN(inThread(key, "bob", "r3", 3), 1) // what was recalled keeps its thread
		both := inThread(key, "bob", "r4", 2)
		both.Entry.Rel.AlsoMain = true
		if r := w.Send(both); r.Err != nil || r.ThreadN != 3 || r.Counted != 3 {
			t.Errorf("what is also in the main conversation: %+v, want the third of its thread, and counted 3", r)
		}
	})
}

// Damage of a root concerns its thread, until it is mended.
func TestThreadOfADamagedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "a root"))
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "another"))
		w.Gate.Damage(func(_ im.Key, from, to im.Seq) bool { return from <= 2 && 2 <= to })
		results := w.together(inThread(key, "alice", "r1", 2), inThread(key, "alice", "r2", 3), inThread(key, "alice", "r1", 2))
		convtest.WantCode(t, results[0], im.CodeDamaged)
		convtest.WantCode(t, results[2], im.CodeDamaged)
		if r := results[1]; r.Err != nil || r.ThreadN != 1 {
			t.Errorf("a message of a thread that is not damaged: %+v", r)
		}
		w.Gate.Damage(nil)
		w.wantN(inThread(key, "alice", "r1", 2), 1)
	})
}

// Threads that have left memory are read again, as those under way have made them.
func TestManyThreadsOfOneConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		const n = 300 // more than stay in memory
		var roots, first, second []*conv.Send
		for i := range n {
			roots = append(roots, convtest.Message(key, "alice", fmt.Sprint("k", i), 1, "a root"))
			first = append(first, inThread(key, "alice", fmt.Sprint("a", i), uint64(2+i)))
			second = append(second, inThread(key, "alice", fmt.Sprint("b", i), uint64(2+i)))
		}
		for i, sends := range [][]*conv.Send{roots, first, second} {
			for _, r := range w.together(sends...) {
				if r.Err != nil || r.ThreadN != uint64(i) {
					t.Fatalf("%+v, want it to be the %d. of its thread", r, i)
				}
			}
		}
	})
}
