package petrel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// quoted is what the client shows of the entry that another one answers.
func quoted(c *Client, conv string, seq uint64) string {
	q, known := c.Quote(conv, seq)
	switch {
	case !known:
		return "unknown"
	case q == nil:
		return "not available"
	case q.RecalledBy != 0:
		return fmt.Sprint("recalled by ", q.RecalledBy)
	}
	return fmt.Sprintf("%s: %s", q.From, q.GetText())
}

// Spec: P-5.9.
func TestQuotesAreOfWhatIsHeldOrOfThePageOrAskedFor(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for i := range 100 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		hidden := false
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			q := f.GetHistory()
			if q == nil || q.Limit != 1 || !hidden {
				return false
			}
			ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_History{History: &petrelv1.HistoryPage{Conv: q.Conv, Head: v.head(), FirstSeq: 1}}})
			return true
		}
		c := s.client(Options{Newest: 10})
		stop := run(c)
		synctest.Wait()
		expect(t, "of what is held", quoted(c, "g1", 95), "bob: 95")
		for seq, want := range map[uint64]string{5: "bob: 5", 6: "not available"} {
			hidden = seq == 6
			before := s.reads
			expect(t, "of what is not", quoted(c, "g1", seq), "unknown")
			quoted(c, "g1", seq) // the page has come or not: it is not asked for once more
			synctest.Wait()
			expect(t, "once the server has said", quoted(c, "g1", seq), want)
			if hidden = false; s.reads > before+1 {
				t.Errorf("%d pages were asked for", s.reads-before)
			}
		}
		reads := s.reads
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 5, Body: &petrelv1.Edit_Text{Text: "five"}}}})
		synctest.Wait()
		expect(t, "once it is edited", quoted(c, "g1", 5), "bob: five")
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: 5}}})
		synctest.Wait()
		expect(t, "once it is recalled", quoted(c, "g1", 5), "recalled by 102")
		c.mu.Lock()
		c.core.convs["g1"].takeQuotes([]*petrelv1.Quote{
			{Seq: 7, From: "bob", Body: &petrelv1.Quote_Text{Text: "7"}},
			{Seq: 5, From: "bob", Body: &petrelv1.Quote_Text{Text: "of an older page"}},
		})
		c.mu.Unlock()
		expect(t, "of a page", quoted(c, "g1", 7), "bob: 7")
		expect(t, "of a page that is older than the recall", quoted(c, "g1", 5), "recalled by 102")
		if s.reads != reads {
			t.Errorf("%d pages were asked for", s.reads-reads)
		}
		expect(t, "run", stop(), nil)
	})
}

func TestAQuoteIsShort(t *testing.T) {
	for body, want := range map[string]string{"short": "short", strings.Repeat("x", 300): strings.Repeat("x", 256), strings.Repeat("海", 90): strings.Repeat("海", 85)} {
		q := quoteOf(&petrelv1.Message{Body: &petrelv1.Message_Text{Text: body}})
		if q.GetText() != want || q.Cut != (len(want) < len(body)) {
			t.Errorf("%q, cut %t, want %q", q.GetText(), q.Cut, want)
		}
	}
}

// Spec: P-4.3.
func TestOwnCopyIsTheSendAndItsAck(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		v.add(text("bob", "1"))
		forwarded := &petrelv1.Relations{Forwarded: &petrelv1.Forwarded{From: "carol", TimeMs: 7}}
		s.onSend = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSend().Rel.GetForwardOf() == nil {
				return false
			}
			m := v.add(&petrelv1.Message{From: "alice", ClientMsgId: f.GetSend().ClientMsgId, Body: &petrelv1.Message_Text{Text: "of carol"}, Rel: forwarded})
			ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Ack{Ack: &petrelv1.Ack{Seq: m.Seq, TimeMs: m.TimeMs, Counted: m.Counted, Message: m}}})
			return true
		}
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		for _, d := range []Draft{
			{Conv: "g1", Text: "yes", ReplyTo: 1, Silent: true},
			{Conv: "g1", Forward: &petrelv1.Ref{Conv: "g2", Seq: 3}},
			{Conv: "g1", Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "no"}, Rel: &petrelv1.Relations{}}},
		} {
			o, err := c.Send(d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := o.Draft(); again.ReplyTo != d.ReplyTo || again.Silent != d.Silent || again.Forward != d.Forward {
				t.Errorf("another try is %+v, want %+v", again, d)
			}
			expect(t, "needs", fmt.Sprint(s.sent[len(s.sent)-1].Needs), "[rel]")
		}
		synctest.Wait()
		ms := c.Messages("g1", 0, 0)
		expect(t, "messages", len(ms), 4)
		if d := ms[2]; d.GetText() != "of carol" || !proto.Equal(d.Rel, forwarded) || d.Counted != 3 || d.From != "alice" {
			t.Errorf("the forward is %v", d)
		}
		if d := ms[1]; d.GetText() != "no" || d.Rel.GetReplyTo() != 0 || !d.Rel.GetSilent() {
			t.Errorf("the answer that was edited is %v", d)
		}
		expect(t, "run", stop(), nil)
	})
}

// Spec: P-2.7.
func TestOnlyABodyThatIsNotKnownNeedsANewerVersion(t *testing.T) {
	newer := new(petrelv1.Message)
	if err := newer.UnmarshalVT([]byte("\x12\x01x\xfa\x3e\x01x")); err == nil { // of another wire type than seq: not a message at all
		t.Error("it was read")
	}
	newer = new(petrelv1.Message)
	if err := newer.UnmarshalVT([]byte("\x10\x05\xfa\x3e\x01x")); err != nil { // seq, and a field that this version does not know
		t.Fatal(err)
	}
	for m, want := range map[*petrelv1.Message]bool{
		newer: true, text("bob", ""): false, {RecalledBy: 4}: false, {EditedBy: 4}: false, {Lost: true}: false, {Withheld: true}: false,
	} {
		if got := (Message{Message: m}).NeedsNewerVersion(); got != want {
			t.Errorf("%v: %t, want %t", m, got, want)
		}
	}
}

// Spec: P-6.6.
func TestAnAnswerOfAnotherHistoryAnswersNothing(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		v.add(text("bob", "1"))
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		s.onSend = func(*fakeSession, *petrelv1.ClientFrame) bool { return true } // no answer
		answer, err := c.Send(Draft{Conv: "g1", Text: "yes", ReplyTo: 1})
		if err != nil {
			t.Fatal(err)
		}
		forward, err := c.Send(Draft{Conv: "g1", Forward: &petrelv1.Ref{Conv: "g1", Seq: 1}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.mu.Lock()
		s.onSend, s.history = nil, "h2"
		v.log = nil
		v.add(text("carol", "another one"))
		s.mu.Unlock()
		s.sessions[0].kick(&petrelv1.Kick{Code: "draining", Reconnect: true})
		if _, err := answer.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if sent := s.sent[len(s.sent)-1]; sent.GetText() != "yes" || sent.Rel != nil {
			t.Errorf("sent %v", sent)
		}
		if _, err := forward.Wait(t.Context()); refusal(err) == nil || refusal(err).Code != CodeNoTarget {
			t.Errorf("the forward: %v, want no_target", err)
		}
		expect(t, "run", stop(), nil)
	})
}

// The seqs that a program names before its client was ever connected are not of another
// history: the client has told it none.
func TestWhatIsComposedBeforeTheFirstWelcomeKeepsItsTargets(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		v.add(text("alice", "1"))
		c := s.client(Options{})
		var sends []*Outgoing
		for _, d := range []Draft{{Conv: "g1", Text: "yes", ReplyTo: 1}, {Conv: "g1", Recall: &petrelv1.Recall{Target: 1}}} {
			o, err := c.Send(d)
			if err != nil {
				t.Fatal(err)
			}
			sends = append(sends, o)
		}
		stop := run(c)
		for _, o := range sends {
			if _, err := o.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if len(s.sent) != 2 {
			t.Errorf("%d sends, want 2", len(s.sent))
		} else if got := s.sent[0].Rel.GetReplyTo(); got != 1 {
			t.Errorf("the answer answers %d, want 1", got)
		}
		expect(t, "run", stop(), nil)
	})
}

// A message in a thread does not count as unread, and keeps its place. Spec: P-5.12, P-8.7.
func TestMessagesOfAThreadKeepTheirPlaceAndDoNotCount(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		v.add(text("bob", "1"))
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		for i, d := range []Draft{
			{Conv: "g1", Text: "so late?", Thread: 1},
			{Conv: "g1", Text: "a lamp", Thread: 1, AlsoMain: true},
			{Conv: "g1", Edit: &petrelv1.Edit{Target: 2, Body: &petrelv1.Edit_Text{Text: "so early?"}, Rel: &petrelv1.Relations{ReplyTo: 1}}},
			{Conv: "g1", Recall: &petrelv1.Recall{Target: 3}},
		} {
			o, err := c.Send(d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := o.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := o.Draft(); again.Thread != d.Thread || again.AlsoMain != d.AlsoMain {
				t.Errorf("another try of %d is %+v, want %+v", i, again, d)
			}
		}
		rel := s.sent[0].Rel
		expect(t, "rel sent", fmt.Sprint(rel.GetThread(), rel.GetAlsoMain(), s.sent[0].Needs), "1 false [rel]")
		synctest.Wait()
		ms := c.Messages("g1", 1, 2)
		if m := ms[0]; m.ThreadN != 1 || m.Counted != 1 || m.Rel.GetThread() != 1 || m.Rel.GetReplyTo() != 1 || m.GetText() != "so early?" {
			t.Errorf("the message that was edited is %v", m)
		}
		if m := ms[1]; m.ThreadN != 2 || m.Counted != 2 || m.Rel.GetThread() != 1 || !m.Rel.GetAlsoMain() || m.RecalledBy != 5 {
			t.Errorf("the message that was recalled is %v", m)
		}
		conv, _ := c.Conversation("g1")
		expect(t, "unread", conv.Unread, 1) // of bob; the others are the user's own
		expect(t, "run", stop(), nil)
	})
}
