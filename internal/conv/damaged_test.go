package conv_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
)

// Spec: P-9.5.
func TestDamageConcernsOneConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bad, good := w.Group("alice", "bob"), w.Group("alice", "bob")
		first := w.MustSend(convtest.Message(bad, "alice", "first", 1, "hello"))
		w.fill(bad, 100)
		w.MustSend(convtest.Message(good, "alice", "first", 1, "hello"))
		w.restart()
		all := func(c im.Key, _, _ im.Seq) bool { return c == bad }
		w.Gate.Damage(all)
		convtest.WantCode(t, w.Send(convtest.Message(bad, "bob", "x", 100, "x")), im.CodeDamaged)
		if q := w.MustSend(convtest.Message(good, "bob", "x", 1, "x")); q != 3 {
			t.Errorf("the sound conversation gave seq %d, want 3", q)
		}
		for what, ask := range map[string]bool{"page": true, "state": false} {
			var err error
			if ask {
				_, err = w.page(bad, "alice", &convpb.GetHistory{})
			} else {
				_, err = w.look(bad, "alice")
			}
			if code := im.CodeOf(conv.Shown(err)); code != im.CodeDamaged {
				t.Errorf("%s of the damaged conversation: %v, want %s", what, err, im.CodeDamaged)
			}
		}
		st, err := w.owner().Changed(t.Context(), im.Account{Tenant: bad.Tenant, User: "alice"}, &convpb.Ask{Conv: bad.Conv[:], Always: true}, conv.Newest{Messages: 1})
		if err != nil || !st.GetDamaged() || st.Conv != bad.Conv.String() {
			t.Errorf("a sync tells %v, %v, want the conversation as damaged", st, err)
		}
		// A block below the head costs what needs it, and nothing else.
		w.Gate.Damage(func(c im.Key, from, to im.Seq) bool { return c == bad && from <= 3 && 2 <= to && from > 0 })
		if q := w.MustSend(convtest.Message(bad, "bob", "y", 102, "y")); q != 103 {
			t.Errorf("seq %d, want 103", q)
		}
		convtest.WantCode(t, w.Send(convtest.Message(bad, "alice", "first", 1, "hello")), im.CodeDamaged)
		if h, err := w.page(bad, "alice", &convpb.GetHistory{After: 10}); err != nil || len(h.Rows) != 93 {
			t.Errorf("the readable part has %d rows, %v", len(h.GetRows()), err)
		}
		// A page ends where the damage begins. One that would be empty names it.
		for _, q := range []struct {
			after, before uint64
			rows          int
			more          bool
		}{{0, 0, 1, true}, {1, 0, 0, false}, {2, 0, 0, false}, {3, 0, 100, false}, {0, 10, 6, true}, {0, 4, 0, false}, {0, 2, 1, false}} {
			h, err := w.page(bad, "alice", &convpb.GetHistory{After: q.after, Before: q.before})
			if e, ok := errors.AsType[*im.Error](err); q.rows == 0 {
				from := max(2, im.Seq(q.after)+1)
				if !ok || e.Code != im.CodeDamaged || e.From != from || e.To != 3 || e.RetryAfter == 0 {
					t.Errorf("after %d before %d: %#v, want the damage from %d to 3", q.after, q.before, err, from)
				}
			} else if err != nil || len(h.Rows) != q.rows || h.More != q.more {
				t.Errorf("after %d before %d: %d rows, more %v, %v, want %d, %v", q.after, q.before, len(h.GetRows()), h.GetMore(), err, q.rows, q.more)
			}
		}
		keyed := convtest.Message(bad, "alice", "keyed", 0, "x")
		keyed.Keyed = true
		w.Gate.Damage(func(c im.Key, from, _ im.Seq) bool { return c == bad && from == 0 })
		convtest.WantCode(t, w.Send(keyed), im.CodeDamaged)
		w.Gate.Damage(nil)
		if r := w.Send(convtest.Message(bad, "alice", "first", 1, "hello")); r.Err != nil || r.Seq != first || !r.Repeat {
			t.Errorf("the repeat got %+v, want seq %d", r, first)
		}
	})
}
