package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// tell sends an entry, and returns its seq. When tell returns, the event is in the outboxes.
func (w *world) tell(id string, from im.User, entry *petrelv1.Message) uint64 {
	w.t.Helper()
	conversation, err := im.ParseConvID(id)
	w.must(err)
	s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: conversation}, Keyed: true}
	w.unknown++ // a new id
	s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body, s.Entry.Rel = string(from), fmt.Sprint("t", w.unknown), entry.Body, entry.Rel
	done := make(chan conv.Result, 1)
	s.Done = func(r conv.Result) { done <- r }
	var wakeUps fanout.WakeUps
	w.convs.Submit([]*conv.Send{s}, &wakeUps)
	wakeUps.Flush()
	r := <-done
	if r.Err != nil {
		w.t.Fatalf("tell %s: %v", id, r.Err)
	}
	return uint64(r.Seq)
}

// named is a text that mentions alice.
func named(body string) *petrelv1.Message {
	return &petrelv1.Message{Body: &petrelv1.Message_Text{Text: body}, Rel: &petrelv1.Relations{Mentions: []string{"alice"}}}
}

func recalled(q uint64) *petrelv1.Message {
	return &petrelv1.Message{Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: q}}}
}

// badge is what a client knows of its mentions when it has taken all that waits and, where
// a hint says that something was not pushed, has asked. It does what P-5.13 says.
type badge struct {
	c     *client
	conv  string
	seqs  map[uint64]bool
	asked int
}

func (b *badge) String() string {
	b.c.take()
	b.c.take() // a hint waits until what is before it is written
	missed := false
	for len(b.c.frames) > 0 {
		e := b.c.next().GetEvents()
		for _, m := range e.GetMessages() {
			if q := m.GetRecall().GetTarget(); q != 0 {
				delete(b.seqs, q)
			} else if len(m.Rel.GetMentions()) > 0 {
				b.seqs[m.Seq] = true
			}
		}
		for _, h := range e.GetHints() {
			missed = missed || h.MentionSeq > 0
		}
	}
	if missed {
		b.asked++
		b.c.send(cursor(uint64(100+b.asked), b.conv, 0, 0))
		b.seqs = map[uint64]bool{}
		for _, q := range b.c.next().GetCursor().GetMentions() {
			b.seqs[q] = true
		}
	}
	return fmt.Sprint(b.seqs)
}

// A badge is right whatever the client has in focus, whatever was recalled, and whatever
// did not fit its queue.
func TestMentionBadgeAfterRecallFocusAndOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.OutboxBytes = 400
		w.start()
		team := w.group("team", "alice", "bob")
		alice := w.connect()
		h := hello(w.token("", "alice"))
		h.GetHello().Capabilities = []string{"cursor", "focus", "mentions"}
		alice.send(h)
		alice.want("welcome of 1")
		alice.send(focus(2))
		alice.want("focus of 2")
		alice.send(syncFrame(3, nil))
		alice.want("sync of 1 of 3")
		b := &badge{c: alice, conv: team, seqs: map[uint64]bool{}}
		want := func(what, seqs string, asked int) {
			t.Helper()
			if got := b.String(); got != seqs || b.asked != asked {
				t.Errorf("%s: %s after %d questions, want %s after %d", what, got, b.asked, seqs, asked)
			}
		}
		two := w.tell(team, "bob", named("out of focus"))
		want("out of focus", "map[2:true]", 0)
		w.tell(team, "bob", &petrelv1.Message{Body: &petrelv1.Message_Text{Text: "nothing"}})
		four := w.tell(team, "bob", named(strings.Repeat("x", 500)))
		w.tell(team, "bob", &petrelv1.Message{Body: &petrelv1.Message_Text{Text: "nothing"}})
		want("one did not fit", "map[2:true 4:true]", 1)
		w.tell(team, "bob", recalled(two))
		want("a recall", "map[4:true]", 1)
		w.tell(team, "bob", named(strings.Repeat("x", 300))) // 7: fits
		w.tell(team, "bob", recalled(four))                  // does not fit any more
		want("a recall did not fit", "map[7:true]", 2)
		alice.send(focus(4, team))
		alice.want("focus of 4")
		w.tell(team, "bob", named("in focus")) // 9
		w.tell(team, "bob", named(strings.Repeat("x", 350)))
		want("in focus", "map[7:true 9:true 10:true]", 3)
		alice.send(cursor(5, team, 0, 9))
		if got := fmt.Sprint(alice.next().GetCursor().GetMentions()); got != "[10]" {
			t.Errorf("read up to 9: unread mentions %s", got)
		}

		// Without the capability a client is told nothing of it.
		old := w.listen(w.token("", "alice"))
		old.send(focus(2))
		old.want("focus of 2")
		w.tell(team, "bob", named("not for old clients"))
		old.take()
		if f := old.next(); len(f.GetEvents().GetMessages()) > 0 || f.GetEvents().GetHints()[0].MentionSeq != 0 {
			t.Errorf("an old client gets %v", f)
		}
		old.send(cursor(3, team, 0, 0), syncFrame(4, nil))
		for range 2 {
			f := old.next()
			if c := f.GetCursor(); c != nil && (c.Head != 0 || len(c.Mentions) > 0) {
				t.Errorf("an old client is answered %v", f)
			}
			for _, s := range f.GetSync().GetConvs() {
				if len(s.Mentions) > 0 {
					t.Errorf("an old client syncs %v", s)
				}
			}
		}
	})
}
