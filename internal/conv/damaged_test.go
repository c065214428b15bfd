package conv_test

import (
	"testing"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
)

// Spec: P-9.5.
func TestDamageConcernsOneConversation(t *testing.T) {
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
	st, err := w.owner().Changed(t.Context(), im.Account{Tenant: bad.Tenant, User: "alice"}, &convpb.Ask{Conv: bad.Conv[:], Always: true}, 1)
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
	keyed := convtest.Message(bad, "alice", "keyed", 0, "x")
	keyed.Keyed = true
	w.Gate.Damage(func(c im.Key, from, _ im.Seq) bool { return c == bad && from == 0 })
	convtest.WantCode(t, w.Send(keyed), im.CodeDamaged)
	w.Gate.Damage(nil)
	if r := w.Send(convtest.Message(bad, "alice", "first", 1, "hello")); r.Err != nil || r.Seq != first || !r.Repeat {
		t.Errorf("the repeat got %+v, want seq %d", r, first)
	}
}
