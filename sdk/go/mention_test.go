package petrel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// to is a message that mentions users.
func to(m *petrelv1.Message, users ...string) *petrelv1.Message {
	m.Rel = &petrelv1.Relations{Mentions: users}
	return m
}

// Spec: P-5.13.
func TestMentionsAreKnownWhateverIsInFocus(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capFocus, capCursor, capMentions, capRel}
		v := s.conv("g1", "")
		v.add(to(text("bob", "1"), "alice"))
		store := NewMemory()
		c := s.client(Options{Store: store})
		c.Focus()
		want := func(what, mentions string, total int) {
			t.Helper()
			synctest.Wait()
			v, _ := c.Conversation("g1")
			expect(t, what, fmt.Sprint(v.Mentions), mentions)
			expect(t, what+", in all", c.Unread().Mentions, total)
		}
		stop := run(c)
		want("the sync", "[1]", 1)
		s.post("g1", to(text("bob", "2"), "alice", "carol")) // whole, out of focus
		want("a push", "[1 2]", 2)
		expect(t, "reads", s.reads, 0)

		s.push = func(ss *fakeSession, m *petrelv1.Message) {
			h := &petrelv1.Hint{Conv: m.Conv, Head: m.Seq, Counted: m.Counted}
			if mentionsUser(m, "alice") || m.GetRecall() != nil {
				h.MentionSeq = m.Seq
			}
			ss.write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Hints: []*petrelv1.Hint{h}}}})
		}
		s.post("g1", text("bob", "3"))
		synctest.Wait()
		asked := len(s.cursors)
		s.post("g1", to(text("bob", "4"), "alice")) // did not fit
		want("a hint", "[1 2 4]", 3)
		if expect(t, "cursors", len(s.cursors)-asked, 1); len(s.cursors) > 0 {
			q := s.cursors[len(s.cursors)-1]
			expect(t, "the cursor", fmt.Sprint(q.Read, q.Delivered), "0 0")
		}

		v.log[1].Rel, v.log[1].RecalledBy = nil, 5
		s.push = nil
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: 2}}})
		want("a recall", "[1 4]", 2)
		now, _ := c.Conversation("g1")
		expect(t, "jumps", fmt.Sprint(now.NextMention(0), now.NextMention(1), now.NextMention(4), now.PreviousMention(9), now.PreviousMention(4), now.PreviousMention(1)), "1 4 0 4 1 0")
		expect(t, "run", stop(), nil)

		c = s.client(Options{Store: store}) // a restart
		want("what is stored", "[1 4]", 2)
		c.Focus()
		stop = run(c)
		c.MarkRead("g1", 1)
		want("read", "[4]", 1)
		c.FocusAll()
		want("all in focus", "[4]", 1)
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Text{Text: "all"}, Rel: &petrelv1.Relations{MentionAll: true}})
		s.post("g1", to(text("alice", "my own"), "alice"))
		want("everybody", "[4 6]", 2)
		c.MarkRead("g1", 7)
		want("all read", "[]", 0)
		pass := time.Now().Add(3 * time.Second)
		time.Sleep(time.Until(pass))
		want("the cursor is stored", "[]", 0)
		expect(t, "run", stop(), nil)
	})
}

func TestADraftNamesUsersInOneOrder(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capMentions, capRel}
		s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		o, err := c.Send(Draft{Conv: "g1", Text: "look", Mentions: []string{"carol", "bob", "carol"}, MentionAll: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := s.sent[0]
		expect(t, "sent", fmt.Sprint(f.Rel.Mentions, f.Rel.MentionAll, f.Needs), "[bob carol] true [rel mentions]")
		expect(t, "another try", fmt.Sprint(o.Draft().Mentions, o.Draft().MentionAll), "[bob carol] true")
		synctest.Wait()
		expect(t, "own copy", fmt.Sprint(c.Messages("g1", 0, 1)[0].Rel.GetMentions()), "[bob carol]")
		if _, err := c.Send(Draft{Conv: "g1", Text: "x", Mentions: []string{"b\xff"}}); err == nil {
			t.Error("a name that is no UTF-8 is sent")
		}
		expect(t, "run", stop(), nil)
	})
}
