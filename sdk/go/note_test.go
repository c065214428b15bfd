package petrel

import (
	"fmt"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// note is that of an entry, with one emoji.
func note(seq, version, count uint64, mine bool) *petrelv1.Note {
	return &petrelv1.Note{Seq: seq, Version: version, Conv: "g1", Reactions: []*petrelv1.ReactionCount{{Emoji: "+", Count: count, Mine: mine}}}
}

func forAll(n *petrelv1.Note) *petrelv1.Note {
	n.ForAll = true
	return n
}

func (s *fake) pushNotes(notes ...*petrelv1.Note) {
	s.sessions[len(s.sessions)-1].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Notes: notes}}})
	synctest.Wait()
}

// noted is what the client shows of a note.
func noted(c *Client, seq uint64) string {
	ms := c.Messages("g1", seq-1, 1)
	if len(ms) == 0 || ms[0].Seq != seq {
		return "not held"
	}
	return fmt.Sprint(ms[0].Reactions, ms[0].Pinned)
}

// A note is counted once, whichever way it comes and in which order. Spec: P-5.11.
func TestANoteIsCountedOnceWhenItIsLoadedAndPushed(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		for i := range 30 {
			v.add(text("bob", fmt.Sprint(i+1)))
		}
		v.notes = []*petrelv1.Note{note(5, 2, 3, true), note(30, 4, 2, false)}
		c := s.client(Options{Newest: 10})
		stop := run(c)
		synctest.Wait()
		expect(t, "of the sync", noted(c, 30), "[{+ 2 false}] false")
		s.pushNotes(note(30, 3, 9, true))
		expect(t, "an older push", noted(c, 30), "[{+ 2 false}] false")
		s.pushNotes(note(30, 5, 3, true))
		expect(t, "a newer one", noted(c, 30), "[{+ 3 true}] false")
		s.pushNotes(forAll(note(30, 5, 3, false)))
		expect(t, "the same for all", noted(c, 30), "[{+ 3 true}] false")
		s.pushNotes(forAll(note(30, 7, 4, false)))
		expect(t, "a newer one for all", noted(c, 30), "[{+ 4 true}] false")
		s.pushNotes(forAll(note(5, 3, 4, false)))
		expect(t, "of what is not held", noted(c, 5), "not held")
		if _, err := c.Older(t.Context(), "g1", 0); err != nil {
			t.Fatal(err)
		}
		expect(t, "of an older page", noted(c, 5), "[{+ 3 true}] false")
		v.notes[1] = note(30, 6, 5, true)
		if err := c.LoadNotes(t.Context(), "g1"); err != nil {
			t.Fatal(err)
		}
		expect(t, "a page that is older than the push", noted(c, 30), "[{+ 4 true}] false")
		v.notes[1] = note(30, 8, 1, false)
		v.notes[0] = &petrelv1.Note{Seq: 5, Version: 9, Pinned: true}
		if err := c.LoadNotes(t.Context(), "g1"); err != nil {
			t.Fatal(err)
		}
		expect(t, "loaded again", noted(c, 30)+noted(c, 5), "[{+ 1 false}] false[] true")
		s.post("g1", &petrelv1.Message{From: "bob", Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: 30}}})
		synctest.Wait()
		expect(t, "of what was recalled", noted(c, 30), "[] false")
		expect(t, "run", stop(), nil)
	})
}

// A note that comes with the page that closes a gap, or before it, is that of the entry.
func TestNotesOfEntriesBehindAGap(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("g1", "")
		v.add(text("bob", "one"))
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		s.push = func(*fakeSession, *petrelv1.Message) {} // lost
		s.post("g1", text("bob", "two"))
		s.push = nil
		s.pushNotes(note(2, 1, 1, true), note(3, 2, 2, true))
		expect(t, "before the entry", noted(c, 2), "not held")
		v.notes = []*petrelv1.Note{note(2, 2, 2, false)}
		s.post("g1", text("bob", "three"))
		synctest.Wait()
		expect(t, "of the page", noted(c, 2), "[{+ 2 false}] false")
		expect(t, "of a push before", noted(c, 3), "[{+ 2 true}] false")
		expect(t, "run", stop(), nil)
	})
}

// Spec: P-5.11.
func TestReactingShowsTheAnswer(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capCall}
		s.conv("g1", "").add(text("bob", "one"))
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			q := f.GetCall()
			if q == nil {
				return false
			}
			r := new(petrelv1.ReactRequest)
			if err := proto.Unmarshal(q.GetProto(), r); err != nil || q.Method != messageService+"React" {
				t.Errorf("call %s: %v", q.Method, err)
			}
			if r.Emoji == "-" {
				ss.fail(f.Id, &petrelv1.Error{Code: CodeForbidden})
				return true
			}
			ss.answer(f.Id, &petrelv1.NoteResponse{Note: note(1, 1, 1, true)})
			return true
		}
		c := s.client(Options{Newest: 5})
		stop := run(c)
		synctest.Wait()
		expect(t, "react", c.React(t.Context(), "g1", 1, "+", false), nil)
		expect(t, "shown", noted(c, 1), "[{+ 1 true}] false")
		expect(t, "a refusal", CodeOf(c.React(t.Context(), "g1", 1, "-", false)), CodeForbidden)
		expect(t, "run", stop(), nil)
	})
}
