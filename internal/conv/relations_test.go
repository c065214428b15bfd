package conv_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// answering makes s answer the entry q.
func answering(s *conv.Send, q uint64) *conv.Send {
	s.Entry.Rel = &petrelv1.Relations{ReplyTo: q}
	return s
}

// forwarding makes s a forward of a message that somebody has fetched.
func forwarding(s *conv.Send, of im.Key, q uint64, text string) *conv.Send {
	s.Entry.Body, s.Entry.Rel = nil, &petrelv1.Relations{ForwardOf: &petrelv1.Ref{Conv: of.Conv.String(), Seq: q}}
	s.Source = &convpb.Source{Body: &convpb.Source_Text{Text: text}, Forwarded: &petrelv1.Forwarded{From: "carol", TimeMs: 1}}
	return s
}

// A field that a message does not use adds nothing to its ack. Spec: P-4.3.
func TestOnlyAcksOfMessagesWithRelAreLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		for range 2 { // the second time they are repeats
			if r := w.Send(convtest.Message(key, "alice", "k1", 1, "first")); r.Err != nil || r.Seq != 2 || r.Counted != 0 || r.Message != nil {
				t.Errorf("the ack of a message without rel: %+v", r)
			}
			if r := w.Send(answering(convtest.Message(key, "alice", "k2", 2, "second"), 2)); r.Err != nil || r.Seq != 3 || r.Counted != 2 || r.Message != nil {
				t.Errorf("the ack of an answer: %+v", r)
			}
		}
	})
}

// All other conversations of the feed wait for the committer.
func TestCommitterReadsNothingOfWhatAMessageNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key, other := w.Group("alice"), w.Group("alice")
		w.MustSend(convtest.Message(key, "alice", "k1", 1, "first"))
		var reads atomic.Int64
		w.Gate.OnRow(func(store.Row) { reads.Add(1) })
		w.MustSend(answering(convtest.Message(key, "alice", "k2", 2, "second"), 2))
		w.MustSend(forwarding(convtest.Message(other, "alice", "k3", 1, ""), key, 2, "first"))
		w.Gate.OnRow(nil)
		if n := reads.Load(); n != 0 {
			t.Errorf("%d rows were read", n)
		}
	})
}

// A send that was lost with a batch is decided again from the same fields as at first; with
// others it would be another message.
func TestForwardOfABatchThatWasRefusedIsTheSameMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key, other := w.Group("alice"), w.Group("alice")
		send := func(text string) *conv.Send {
			return forwarding(convtest.Message(key, "alice", "k1", 1, ""), other, 1, text)
		}
		w.Gate.Refuse(true)
		convtest.WantCode(t, w.Send(send("as it was")), im.CodeDiskFull)
		w.Gate.Refuse(false)
		first := w.Send(send("as it is now"))
		again := w.Send(send("as it was edited later"))
		if first.Err != nil || again.Err != nil || again.Seq != first.Seq || !again.Repeat {
			t.Fatalf("stored %+v, and again %+v", first, again)
		}
		for _, r := range []conv.Result{first, again} {
			ack, err := r.Ack("")
			if err != nil || ack.Counted != 1 || ack.Message.GetCounted() != 1 || ack.Message.GetText() != "as it is now" || ack.Message.GetRel().GetForwarded().GetFrom() != "carol" || ack.Message.GetRel().GetForwardOf() != nil {
				t.Errorf("ack %v, %v", ack, err)
			}
		}
		// A user who may copy the message no more learns that an earlier copy is stored.
		late := send("")
		late.Source, late.Refusal = nil, conv.NoSource()
		if r := w.Send(late); r.Err != nil || r.Seq != first.Seq {
			t.Errorf("a repeat of what was stored: %+v, want seq %d", r, first.Seq)
		}
		late = send("")
		late.Entry.ClientMsgId, late.Source, late.Refusal = "k2", nil, conv.NoSource()
		convtest.WantCode(t, w.Send(late), im.CodeNoTarget)
	})
}

// Spec: P-5.9.
func TestAPageHasSoManyQuotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice")
		const n = conv.MaxQuotes + 3
		for i := range n {
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint("k", i), i+1, fmt.Sprint("text ", i)))
		}
		for i := range n { // the entry 2+i is answered by n+2+i
			w.MustSend(answering(convtest.Message(key, "alice", fmt.Sprint("r", i), n+1+i, "so be it"), uint64(2+i)))
		}
		q := &convpb.GetHistory{After: n + 1, Refs: true}
		for _, down := range []bool{false, true} {
			if down {
				q.Before = 1 << 62
			}
			page, err := w.owner().History(t.Context(), conv.Query{Conv: key, User: "alice"}, q)
			if err != nil || len(page.Rows) != n || len(page.Refs) != conv.MaxQuotes {
				t.Fatalf("%d rows with %d quotes, %v; want %d with %d", len(page.Rows), len(page.Refs), err, n, conv.MaxQuotes)
			}
			for i, ref := range page.Refs { // those of the newest answers
				if want := uint64(2 + n - conv.MaxQuotes + i); ref.Seq != want || ref.GetText() != fmt.Sprint("text ", want-2) {
					t.Errorf("quote %d is of %d: %q, want of %d", i, ref.Seq, ref.GetText(), want)
				}
			}
		}
		if page, err := w.owner().History(t.Context(), conv.Query{Conv: key, User: "alice"}, &convpb.GetHistory{Refs: true}); err != nil || len(page.Refs) != 0 {
			t.Errorf("%d quotes of what is in the page, %v", len(page.Refs), err)
		}
	})
}

// A user who has left, and may have come back, learns nothing of an edit made while they
// were away: neither the new text of a quoted entry nor the new entry that a message
// answers. Spec: P-8.3.
func TestQuotesSayNothingOfEditsMadeWhileAUserIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "carol")
		for i, text := range []string{"first", "second", "third"} { // 2 to 4
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint("k", i), 1, text))
		}
		w.MustSend(answering(convtest.Message(key, "alice", "k5", 1, "as to the second"), 3))
		w.MustSend(convtest.Kick(key, "kick", "carol"))
		related := edit(key, "alice", "k7", 4, "as to the first")
		related.Entry.GetEdit().Rel = &petrelv1.Relations{ReplyTo: 2}
		w.MustSend(related)
		w.MustSend(edit(key, "alice", "k8", 3, "secret"))
		wants := func(u im.User, want ...string) {
			t.Helper()
			page, err := w.page(key, u, &convpb.GetHistory{After: 3, Refs: true})
			var got []string
			for _, q := range page.GetRefs() {
				got = append(got, fmt.Sprintf("%d:%s", q.Seq, q.GetText()))
			}
			if err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s gets the quotes %q, %v; want %q", u, got, err, want)
			}
		}
		wants("alice", "2:first", "3:secret")
		wants("carol", "3:")
		w.MustSend(convtest.Add(key, "add", "carol"))
		wants("carol", "3:")
	})
}
