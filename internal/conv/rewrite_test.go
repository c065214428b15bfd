package conv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// about is a send that is about an earlier entry, as a frame brings it.
func about(key im.Key, from im.User, k string, f *petrelv1.Send) *conv.Send {
	f.Conv, f.ClientMsgId = key.Conv.String(), k
	s, err := conv.Prepare(someStore, im.Account{Tenant: key.Tenant, User: from}, f, 48<<10)
	if err != nil {
		panic(err)
	}
	return s
}

func edit(key im.Key, from im.User, k string, target im.Seq, text string) *conv.Send {
	e := &petrelv1.Edit{Target: uint64(target), Type: "note", Body: &petrelv1.Edit_Text{Text: text}}
	return about(key, from, k, &petrelv1.Send{Body: &petrelv1.Send_Edit{Edit: e}})
}

func recall(key im.Key, from im.User, k string, target im.Seq) *conv.Send {
	return about(key, from, k, &petrelv1.Send{Body: &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: uint64(target)}}})
}

// stored is everything that the store holds of a conversation up to a seq.
func (w *world) stored(key im.Key, to im.Seq) string {
	w.T.Helper()
	var all strings.Builder
	err := w.Gate.Rows(context.Background(), key, 1, to, func(r store.Row) bool {
		all.Write(r.Value)
		return true
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return all.String()
}

// F10: a device that was away learns of edits and recalls by the head, finds
// the targets rewritten and the entries in their places.
func TestF10EditAndRecallReachADeviceThatWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		for i, text := range []string{"one", "two", "three"} {
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint("k", i), 1, text))
		}
		before, err := w.look(key, "bob")
		if err != nil {
			t.Fatal(err)
		}
		w.MustSend(edit(key, "alice", "e1", 2, "eins"))
		w.MustSend(recall(key, "alice", "r1", 3))
		w.MustSend(convtest.Message(key, "alice", "k4", 6, "four"))
		want := []string{"1:members", "2:eins (edited by 5)", "3: (recalled by 6)", "4:three", "5:edit of 2 eins", "6:recall of 3", "7:four"}
		for range 2 {
			st, err := w.look(key, "bob")
			if err != nil || st.Head != 7 || st.Pos <= before.Pos || st.Counted != 4 {
				t.Errorf("bob finds %+v, %v; want head 7, counted 4, a later pos than %d", st, err, before.Pos)
			}
			if got := w.history(key, "bob"); !cmp.Equal(got, want) {
				t.Errorf("history %v, want %v", got, want)
			}
			if m := w.at(key, 2); m.Type != "note" || m.ClientMsgId != "k0" || m.From != "alice" || m.Counted != 1 {
				t.Errorf("the edited message is %v", m)
			}
			if m := w.at(key, 3); m.ClientMsgId != "k1" || m.From != "alice" || m.Counted != 2 || m.TimeMs == 0 {
				t.Errorf("the recalled message is %v", m)
			}
			w.restart()
		}
	})
}

// together sends in one batch, and returns the answers.
func (w *world) together(sends ...*conv.Send) []conv.Result {
	w.T.Helper()
	var results []conv.Result
	for _, a := range w.Submit(sends...) {
		results = append(results, w.Await(a))
	}
	return results
}

// F10: from the ack on nothing serves a former body, not even the entry that
// brought it.
func TestF10FormerBodiesAreServedNowhere(t *testing.T) {
	for name, batches := range map[string][]int{"one by one": {1, 1, 1, 1, 1, 1, 1}, "in one batch": {7}, "in two batches": {2, 5}, "in three batches": {1, 2, 4}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := w.Group("alice", "bob")
				w.MustSend(convtest.Message(key, "bob", "first", 1, "stays"))
				bob := w.Online("bob")
				sends := []*conv.Send{
					convtest.Message(key, "alice", "k", 1, "former 1"), edit(key, "alice", "e1", 3, "former 2"), edit(key, "alice", "e2", 3, "former 3"),
					recall(key, "alice", "r", 3), convtest.Message(key, "alice", "l", 1, "former 4"), edit(key, "alice", "e3", 7, "former 5"), edit(key, "alice", "e4", 7, "latest"),
				}
				for _, n := range batches {
					for _, r := range w.together(sends[:n]...) {
						if r.Err != nil {
							t.Fatal(r.Err)
						}
					}
					sends = sends[n:]
				}
				want := []string{
					"1:members", "2:stays", "3: (edited by 5) (recalled by 6)", "4:edit of 3  (edited by 5)", "5:edit of 3  (edited by 6)", "6:recall of 3",
					"7:latest (edited by 9)", "8:edit of 7  (edited by 9)", "9:edit of 7 latest",
				}
				if len(batches) == 1 {
					if got := bob.Got(); !cmp.Equal(got, want[2:]) {
						t.Errorf("bob was pushed %q, want %q", got, want[2:])
					}
				}
				for range 2 {
					if got := w.history(key, "bob"); !cmp.Equal(got, want) {
						t.Errorf("history %q, want %q", got, want)
					}
					if strings.Contains(w.stored(key, 9), "former") {
						t.Error("the store has a former body")
					}
					w.restart()
				}
			})
		})
	}
}

// F10: of an edit and a recall at the same time the seqs decide, and nothing
// rewrites what was recalled.
func TestF10ConcurrentEditAndRecallAreOrderedBySeq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "one"))
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "two"))
		r := w.together(edit(key, "alice", "e1", 2, "eins"), recall(key, "alice", "r1", 2), recall(key, "alice", "r2", 3), edit(key, "alice", "e2", 3, "zwei"))
		convtest.WantCode(t, r[3], im.CodeNoTarget)
		want := []string{"1:members", "2: (edited by 4) (recalled by 5)", "3: (recalled by 6)", "4:edit of 2  (edited by 5)", "5:recall of 2", "6:recall of 3"}
		if got := w.history(key, "bob"); !cmp.Equal(got, want) {
			t.Errorf("history %q, want %q", got, want)
		}
		// Devices at the same time: every message ends as its newest entry says.
		var wg sync.WaitGroup
		q := w.MustSend(convtest.Message(key, "alice", "k3", 1, "three"))
		for i := range 8 {
			wg.Go(func() {
				for j := range 20 {
					r := w.Send(edit(key, "alice", fmt.Sprint("race ", i, " ", j), q, fmt.Sprint(i, " ", j)))
					if r.Err != nil && r.Err.Code != im.CodeNoTarget {
						t.Errorf("edit: %v", r.Err)
					}
					if i == 0 && j == 19 {
						w.MustSend(recall(key, "alice", "race", q))
					}
				}
			})
		}
		wg.Wait()
		m := w.at(key, q)
		if m.Body != nil || m.RecalledBy <= m.EditedBy {
			t.Errorf("in the end the message is %v", m)
		}
		for _, e := range w.history(key, "bob")[q:] {
			if strings.Contains(e, "edit of") && !strings.Contains(e, "edited by") {
				t.Errorf("an edit has its body still: %s", e)
			}
		}
	})
}

// Spec: P-4.4.
func TestF10RepeatIsKnownByItsFirstBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "named", 1, "one"))
		w.MustSend(convtest.Message(key, "alice", "keyed", -1, "two"))
		for _, q := range []im.Seq{2, 3} {
			w.MustSend(edit(key, "alice", fmt.Sprint("e", q), q, "edited"))
			w.MustSend(edit(key, "alice", fmt.Sprint("f", q), q, "edited again"))
		}
		w.MustSend(recall(key, "alice", "r", 3))
		for range 2 {
			for s, want := range map[*conv.Send]im.Seq{
				convtest.Message(key, "alice", "named", 1, "one"): 2, convtest.Message(key, "alice", "keyed", -1, "two"): 3,
				edit(key, "alice", "e2", 2, "edited"): 4, edit(key, "alice", "f3", 3, "edited again"): 7, recall(key, "alice", "r", 3): 8,
			} {
				if r := w.Send(s); r.Err != nil || r.Seq != want || !r.Repeat {
					t.Errorf("repeat of %s: %+v, want seq %d", s.Entry.ClientMsgId, r, want)
				}
			}
			convtest.WantCode(t, w.Send(convtest.Message(key, "alice", "named", 1, "edited again")), im.CodeConflict)
			convtest.WantCode(t, w.Send(edit(key, "alice", "e2", 2, "edited again")), im.CodeConflict)
			convtest.WantCode(t, w.Send(recall(key, "alice", "r", 2)), im.CodeConflict)
			w.restart()
		}
		if got := len(w.history(key, "alice")); got != 8 {
			t.Errorf("%d entries, want 8", got)
		}
	})
}

// F26: a repeated request is done once. A system entry is recognised by the id of its
// cause.
func TestF26AskedTwiceIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		w.MustSend(convtest.Message(key, "mia", "m", 1, "hello"))
		asks := []func() *conv.Send{
			func() *conv.Send { return convtest.Add(key, "r:1", "new") },
			func() *conv.Send { return by("adam", rename(key, "r:2", "boat")) },
			func() *conv.Send { return by("adam", convtest.Kick(key, "r:3", "new")) },
			func() *conv.Send { return edit(key, "mia", "r:4", 3, "hallo") },
			func() *conv.Send { return recall(key, "adam", "r:7", 3) },
			func() *conv.Send {
				return by("max", convtest.Entry(key, "r:8", &petrelv1.MemberChange{Left: []string{"max"}}))
			},
		}
		var seqs []im.Seq
		for _, ask := range asks {
			r := w.together(ask(), ask())
			if r[0].Err != nil || r[1].Err != nil || r[0].Seq != r[1].Seq {
				t.Fatalf("%s twice in a batch: %+v", ask().Entry.ClientMsgId, r)
			}
			seqs = append(seqs, r[0].Seq)
		}
		head := len(w.history(key, ""))
		for range 2 {
			for i, ask := range asks {
				if r := w.Send(ask()); r.Err != nil || r.Seq != seqs[i] {
					t.Errorf("%s once more: %+v, want seq %d", ask().Entry.ClientMsgId, r, seqs[i])
				}
			}
			if got := len(w.history(key, "")); got != head || head != 3+len(asks) {
				t.Errorf("%d entries, want %d", got, 3+len(asks))
			}
			w.restart()
		}
		// Another caller's id is another id.
		if r := w.Send(by("olga", rename(key, "r:2", "ship"))); r.Err != nil || r.Repeat {
			t.Errorf("the id of another caller: %+v", r)
		}
	})
}

// Spec: P-5.3, P-5.6.
func TestWhatCanBeAimedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()                                                              // 1 and 2
		w.MustSend(convtest.Message(key, "mia", "early", 1, "before ann joined"))      // 3
		w.MustSend(convtest.Add(key, "ann", "ann"))                                    // 4
		w.MustSend(convtest.Message(key, "ann", "ann", 1, "of ann"))                   // 5
		w.MustSend(convtest.Message(key, "mia", "gone", 1, "to be recalled"))          // 6
		w.MustSend(recall(key, "mia", "recall", 6))                                    // 7
		w.MustSend(edit(key, "ann", "edit", 5, "edited"))                              // 8
		w.MustSend(by("adam", rename(key, "name", "boat")))                            // 9
		w.MustSend(convtest.Kick(key, "kick", "ann"))                                  // 10
		w.MustSend(convtest.Message(key, "mia", "meanwhile", 1, "while ann was away")) // 11
		w.MustSend(convtest.Add(key, "back", "ann"))                                   // 12
		for q, why := range map[im.Seq]string{
			1: "before she joined", 3: "before she joined", 4: "a change of members", 6: "recalled", 7: "a recall", 8: "an edit", 9: "a new title", 11: "while she was away", 13: "not there", 1 << 60: "not there",
		} {
			for i, s := range []*conv.Send{edit(key, "ann", "x", q, "x"), recall(key, "ann", "x", q)} {
				if r := w.Send(s); r.Err == nil || r.Err.Code != im.CodeNoTarget {
					t.Errorf("%s, change %d of entry %d: answer %+v, want code no_target", why, i, q, r)
				}
			}
		}
		for _, s := range []*conv.Send{recall(key, "", "op", 1), recall(key, "", "op", 13), edit(key, "", "op", 6, "x")} {
			convtest.WantCode(t, w.Send(s), im.CodeNoTarget)
		}
		direct := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "mia", "max")}
		first := edit(direct, "mia", "x", 1, "x")
		first.Peer = "max"
		convtest.WantCode(t, w.Send(first), im.CodeNoTarget)
		inbox := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Inbox(im.DefaultTenant, "mia")}
		convtest.WantCode(t, w.Send(recall(inbox, "mia", "x", 1)), im.CodeNoConversation)
		if got := len(w.history(key, "")); got != 12 {
			t.Errorf("%d entries, want 12", got)
		}
	})
}

// Spec: P-5.6, P-8.8.
func TestWhoEditsAndRecalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, skip := newWorldAhead(t)
		key := w.ranked()
		q := w.MustSend(convtest.Message(key, "mia", "m", 1, "of mia"))
		o := w.MustSend(convtest.Message(key, "", "o", 1, "of the operator"))
		for _, u := range []im.User{"max", "adam", "olga"} {
			convtest.WantCode(t, w.Send(edit(key, u, "e", q, "x")), im.CodeForbidden)
			convtest.WantCode(t, w.Send(recall(key, u, "o", o)), im.CodeForbidden)
		}
		convtest.WantCode(t, w.Send(edit(key, "", "e", q, "x")), im.CodeForbidden)
		convtest.WantCode(t, w.Send(recall(key, "max", "r", q)), im.CodeForbidden)
		convtest.WantCode(t, w.Send(recall(key, "ex", "r", q)), im.CodeNotMember)
		w.MustSend(edit(key, "", "e2", o, "of the operator, edited"))
		w.MustSend(recall(key, "", "r", o))

		skip(24 * time.Hour)
		w.MustSend(edit(key, "mia", "in time", q, "of mia, edited"))
		skip(time.Millisecond)
		convtest.WantCode(t, w.Send(edit(key, "mia", "late", q, "x")), im.CodeTooLate)
		convtest.WantCode(t, w.Send(recall(key, "mia", "late", q)), im.CodeTooLate)
		convtest.WantCode(t, w.Send(recall(key, "max", "late", q)), im.CodeForbidden)
		w.MustSend(recall(key, "anna", "late", q))
		q = w.MustSend(convtest.Message(key, "adam", "own", 1, "of an admin"))
		skip(24 * time.Hour)
		w.MustSend(recall(key, "adam", "old", q))
		q = w.MustSend(convtest.Message(key, "max", "own", 1, "of somebody who left"))
		w.MustSend(convtest.Kick(key, "kick", "max"))
		convtest.WantCode(t, w.Send(recall(key, "max", "mine", q)), im.CodeNotMember)
		w.MustSend(recall(key, "adam", "left", q))

		hello := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "mia", "olga")}, "mia", "k", -1, "hi")
		hello.Peer = "olga"
		w.MustSend(hello)
		convtest.WantCode(t, w.Send(recall(hello.Conv, "olga", "r", 1)), im.CodeForbidden)
		w.MustSend(edit(hello.Conv, "mia", "e", 1, "hello"))
		w.MustSend(recall(hello.Conv, "", "op", 1))
	})
}

// F1: a row that a commit rewrites shows what it said before until the commit
// is durable.
func TestF1RewriteIsNotShownBeforeItIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "one"))
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "two"))
		w.MustSend(edit(key, "alice", "e1", 2, "uno"))
		before := []string{"1:members", "2:uno (edited by 4)", "3:two", "4:edit of 2 uno"}
		open := w.Gate.Shut()
		defer open()
		answers := w.Submit(edit(key, "alice", "e2", 2, "eins"), recall(key, "alice", "r1", 3), recall(key, "alice", "r2", 2))
		wantReadable(t, w, key, 7)
		if got := w.stored(key, 7); strings.Contains(got, "uno") || strings.Contains(got, "two") {
			t.Fatalf("the schedule needs rows that are rewritten and not durable: %q", got)
		}
		for _, u := range []im.User{"bob", ""} {
			if got := w.history(key, u); !cmp.Equal(got, before) {
				t.Errorf("%q reads before the sync %q, want %q", u, got, before)
			}
		}
		p, err := w.page(key, "bob", &convpb.GetHistory{Before: 1 << 60, Limit: 3})
		if err != nil || len(p.Rows) != 3 || !strings.Contains(string(p.Rows[0]), "uno") {
			t.Errorf("downwards bob reads %q, %v", p.Rows, err)
		}
		open()
		for _, a := range answers {
			if r := w.Await(a); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		want := []string{"1:members", "2: (edited by 5) (recalled by 7)", "3: (recalled by 6)", "4:edit of 2  (edited by 5)", "5:edit of 2  (edited by 7)", "6:recall of 3", "7:recall of 2"}
		if got := w.history(key, "bob"); !cmp.Equal(got, want) {
			t.Errorf("history after the sync %q, want %q", got, want)
		}
	})
}

// F1: a reader has a rewritten row in its hands when the commit is published and the
// former row is dropped.
func TestF1ReaderBetweenRewriteAndPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "one"))
		w.MustSend(convtest.Message(key, "alice", "k2", 1, "two"))
		open := w.Gate.Shut()
		defer open()
		answers := w.Submit(recall(key, "alice", "r1", 2), recall(key, "alice", "r2", 3))
		wantReadable(t, w, key, 5)
		w.Gate.OnRow(func(r store.Row) {
			if r.Seq == 3 { // behind the former of 2, before that of 3 is looked up
				open()
				w.Await(answers[1])
				w.Gate.OnRow(nil)
			}
		})
		if got, want := w.history(key, "bob")[:3], []string{"1:members", "2:one", "3: (recalled by 5)"}; !cmp.Equal(got, want) {
			t.Errorf("history %q, want %q", got, want)
		}
		if got, want := w.history(key, "bob"), []string{"1:members", "2: (recalled by 4)", "3: (recalled by 5)", "4:recall of 2", "5:recall of 3"}; !cmp.Equal(got, want) {
			t.Errorf("history behind it %q, want %q", got, want)
		}
	})
}

// A commit that the store refuses has rewritten nothing, for readers and for
// what comes next.
func TestRefusedRecallChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "one"))
		before := w.history(key, "bob")
		w.Gate.Refuse(true)
		for _, r := range w.together(recall(key, "alice", "r", 2), edit(key, "alice", "e", 2, "eins"), convtest.Message(key, "alice", "k2", 1, "two")) {
			if r.Err == nil || r.Err.Code == im.CodeOverloaded {
				t.Errorf("answer %+v of a full disk", r)
			}
		}
		if got := w.history(key, "bob"); !cmp.Equal(got, before) {
			t.Errorf("history %q, want %q", got, before)
		}
		w.Gate.Refuse(false)
		w.MustSend(edit(key, "alice", "e", 2, "eins"))
		w.MustSend(recall(key, "alice", "r", 2))
		if got, want := w.history(key, "bob"), []string{"1:members", "2: (edited by 3) (recalled by 4)", "3:edit of 2  (edited by 4)", "4:recall of 2"}; !cmp.Equal(got, want) {
			t.Errorf("history %q, want %q", got, want)
		}
	})
}

// Readers at any moment between write, sync, publication and what follows get
// what is published or newer, and never what is not durable. They read without a pause, so
// they are in no bubble.
func TestF1ReadersDuringRewrites(t *testing.T) {
	w := newWorld(t)
	key := w.Group("alice", "bob")
	q := w.MustSend(convtest.Message(key, "alice", "k", 1, "0"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				from, err := w.look(key, "bob")
				if err != nil {
					t.Error(err)
					return
				}
				edited := im.Seq(w.at(key, q).EditedBy)
				durable := w.Gate.Durable()
				if from.Head > uint64(q) && uint64(edited) < from.Head {
					t.Errorf("at head %d a reader is given the message as edited by %d", from.Head, edited)
				}
				if edited > durable {
					t.Errorf("a reader is given an edit at %d, durable is %d", edited, durable)
				}
			}
		})
	}
	for i := range 60 {
		open := w.Gate.Shut()
		a := w.Submit(edit(key, "alice", fmt.Sprint("e", i), q, fmt.Sprint(i)))[0]
		eventually.True(t, "the store shows the edit", func() bool {
			row, err := w.Gate.LastRow(t.Context(), key)
			return err == nil && row.Seq == q+1+im.Seq(i)
		})
		open()
		w.Await(a)
	}
	close(stop)
	wg.Wait()
}

// F10: a power cut leaves a recall and what it rewrites, or nothing of it.
func TestF10PowerCutLeavesARecallWholeOrNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		w := newWorldOn(t, fs)
		key := w.Group("alice", "bob")
		type cut struct {
			fs    *vfs.MemFS
			acked im.Seq
		}
		var cuts []cut
		rng := rand.New(rand.NewPCG(1, 2))
		cuts = append(cuts, cut{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), 1})
		acked := im.Seq(1)
		for i := range 12 {
			open := w.Gate.Shut()
			q := acked + 1
			answers := w.Submit(convtest.Message(key, "alice", fmt.Sprint("k", i), 1, "secret"), edit(key, "alice", fmt.Sprint("e", i), q, "secret too"))
			if i%2 == 1 {
				answers = append(answers, w.Submit(recall(key, "alice", fmt.Sprint("r", i), q))...)
			}
			wantReadable(t, w, key, q+1)
			for range 2 {
				cuts = append(cuts, cut{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), acked})
			}
			open()
			for _, a := range answers {
				acked = max(acked, w.Await(a).Seq)
			}
			if i%2 == 0 { // as a commit of its own
				acked = w.MustSend(recall(key, "alice", fmt.Sprint("r", i), q))
			}
			cuts = append(cuts, cut{fs.CrashClone(vfs.CrashCloneCfg{RNG: rng}), acked})
		}
		for i, c := range cuts {
			after := newWorldOn(t, c.fs)
			head := im.Seq(len(after.history(key, "")))
			if head < c.acked {
				t.Errorf("cut %d: %d entries, %d were acked", i, head, c.acked)
			}
			recalled := map[uint64]uint64{}
			for q := im.Seq(1); q <= head; q++ {
				if r := after.at(key, q).GetRecall(); r != nil {
					recalled[r.Target] = uint64(q)
				}
			}
			for q := im.Seq(1); q <= head; q++ {
				m := after.at(key, q)
				if m.RecalledBy != recalled[m.Seq] || m.EditedBy > uint64(head) || m.RecalledBy != 0 && m.Body != nil {
					t.Errorf("cut %d at %d: the entry is %v, recalled by %d", i, head, m, recalled[m.Seq])
				}
				if e := m.GetEdit(); e != nil && (recalled[e.Target] != 0) != (e.GetText() == "") {
					t.Errorf("cut %d at %d: the edit is %v, its target recalled by %d", i, head, m, recalled[e.Target])
				}
			}
		}
	})
}
