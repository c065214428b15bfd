package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// writersTo are those who have written to a user, as the table says.
func (w *world) writersTo(u im.User) string {
	w.t.Helper()
	var all []string
	prefix := im.PairKey(u, "")
	err := w.store.Records(context.Background(), store.Peers, im.DefaultTenant, prefix, func(key, _ []byte) bool {
		all = append(all, string(key[len(prefix):]))
		return true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

// The first message of each user to another one is stored and told, and no later one; neither
// are edits, and what is sent to oneself. Spec: P-13.6.
func TestWhoHasWrittenIsCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var told []string
		hooks := inbox.Hooks{Wrote: func(from im.Account, other im.User) {
			if w.writersTo(other) == "" {
				t.Errorf("%s is told of before it is stored", from)
			}
			told = append(told, fmt.Sprint(from.User, " to ", other))
		}}
		begin := func() {
			w.kill()
			w.consumeWith(hooks)
		}
		want := func(when, alice, bob string, events ...string) {
			t.Helper()
			w.settle()
			if a, b := w.writersTo("alice"), w.writersTo("bob"); a != alice || b != bob {
				t.Errorf("%s the table says that %q wrote to alice and %q to bob, want %q and %q", when, a, b, alice, bob)
			}
			slices.Sort(told)
			if d := cmp.Diff(events, slices.Compact(told)); d != "" {
				t.Errorf("%s was told (-want +got):\n%s", when, d)
			}
			told = nil
		}
		begin()
		key := w.direct("alice", "bob", "hi")
		w.direct("alice", "alice", "a note")
		want("after her message", "", "alice", "alice to bob")
		w.direct("alice", "bob", "are you there?")
		s := &conv.Send{Conv: key, Keyed: true}
		s.Entry.From, s.Entry.ClientMsgId = "alice", w.id()
		s.Entry.Body = &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: 1, Body: &petrelv1.Edit_Text{Text: "hello"}}}
		w.mustSend(s)
		want("after more of her", "", "alice")
		w.say(key, "bob", "hi")
		want("after his answer", "bob", "alice", "alice to bob", "bob to alice")
		w.say(key, "bob", "how are you?")
		want("after more of him", "bob", "alice")
		if n := len(w.inbox("alice")); n != 2 {
			t.Errorf("alice's inbox has %d entries, want 2: his answer begins no conversation", n)
		}
		w.restart()
		begin()
		w.direct("bob", "alice", "after a restart")
		want("after a restart", "bob", "alice", "alice to bob", "bob to alice") // it is carried again from the last place that was saved
	})
}

// Damage took the table, or the feed was trimmed too early: the conversations still know.
func TestPeersAreMadeGoodFromTheConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.kill()
		key := w.direct("alice", "bob", "hi")
		w.say(key, "bob", "hi")
		w.trim()
		w.say(key, "alice", "in what is left of the feed")
		w.allowed = "feed was trimmed"
		w.consume()
		w.settle()
		if a, b := w.writersTo("alice"), w.writersTo("bob"); a != "bob" || b != "alice" {
			t.Errorf("the table says that %q wrote to alice and %q to bob", a, b)
		}
	})
}
