package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// inboxKey is that of alice's inbox.
func (w *world) inboxKey() im.Key {
	return im.Key{Tenant: im.DefaultTenant, Conv: w.convs.IDs().Inbox(im.DefaultTenant, "alice")}
}

// entries is the oldest and the newest entry that alice's inbox has.
func (w *world) entries() (first, head uint64) {
	w.t.Helper()
	p, err := w.rowsOf(w.inboxKey(), "", &convpb.GetHistory{Limit: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	return p.FirstSeq, p.Head
}

// churn changes the same few settings often.
func (w *world) churn(n int) {
	w.t.Helper()
	for i := range n {
		w.setOne("", fmt.Sprint("name ", i%4), fmt.Sprint(i))
	}
}

// newCompactWorld is a world whose inboxes are compacted early. alice is in one group, has
// left one, and blocks bob.
func newCompactWorld(t *testing.T) (w *world, in, out im.Key) {
	w = newWorld(t)
	w.compactFrom, w.sync.CompactFrom = 30, 30
	in, out = w.group("in", "alice", "bob"), w.group("out", "alice", "bob")
	w.change(out, &petrelv1.MemberChange{Removed: []string{"alice"}})
	w.setAll(&petrelv1.InboxSettings{User: "bob", Values: map[string]string{"blocked": "1"}})
	w.settle()
	return w, in, out
}

// A reader of a compacted inbox, or of its list, finds the same as before. Spec: P-8.11.
func TestCompactedInboxSaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, out := newCompactWorld(t)
		w.later = 31 * 24 * time.Hour
		w.restart()
		w.settle()
		w.churn(20)
		list, token := w.all("alice", nil)
		settings := w.settings(alice)
		if first, _ := w.entries(); first > 1 {
			t.Fatal("compacted already: this test shows nothing")
		}
		w.churn(20)
		for name, v := range map[string]string{"name 0": "16", "name 1": "17", "name 2": "18", "name 3": "19"} {
			w.setOne("", name, v)
		}
		w.all("alice", nil) // compacts
		first, head := w.entries()
		if first < 40 || head != first {
			t.Fatalf("the inbox has entries %d to %d", first, head)
		}
		w.settle()
		if err := w.store.Rows(context.Background(), w.inboxKey(), im.Seq(first-1), im.Seq(first-1), func(store.Row) bool { return true }); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the rows before the snapshot are there: %v", err)
		}
		for _, what := range []string{"at once", "after a start", "after a start without stored lists", "read by somebody else"} {
			switch what {
			case "after a start without stored lists":
				w.forgetLists()
				fallthrough
			case "after a start": // the consumer carries everything once more
				w.restart()
				w.settle()
			case "read by somebody else":
				w.sync = &inbox.Syncer{Router: w.router, Store: w.store}
			}
			got, _ := w.all("alice", nil)
			if d := cmp.Diff(list, got, protocmp.Transform()); d != "" {
				t.Errorf("%s: list (-before +after):\n%s", what, d)
			}
			if d := cmp.Diff(settings, w.settings(alice)); d != "" {
				t.Errorf("%s: settings (-before +after):\n%s", what, d)
			}
			states, _ := w.all("alice", token)
			if what == "at once" {
				w.wantConvs("a token of before", states)
			}
		}
		w.change(out, &petrelv1.MemberChange{Added: refs(0, "alice")})
		w.settle()
		got, _ := w.all("alice", token)
		if st := got[out.Conv.String()]; st == nil || st.Left {
			t.Errorf("joined again: %v", st)
		}
	})
}

// A device that was away while the inbox was compacted is told everything anew: settings
// removed meanwhile are not known any more. One that knew all of it is told nothing twice.
// Spec: P-8.10.
func TestDeviceBehindACompactedInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newCompactWorld(t)
		w.setOne("", "old", "1")
		away := &device{w: w}
		away.sync(0)
		away.want("before")
		w.setOne("", "old", "")
		w.churn(20)
		there := &device{w: w}
		there.sync(0)
		told := there.told
		w.churn(10)
		there.sync(0) // compacts
		if first, _ := w.entries(); first < 30 {
			t.Fatalf("not compacted: the oldest entry is %d", first)
		}
		there.sync(0)
		there.want("a device that was there")
		if there.resets != 1 || there.told > told+4 {
			t.Errorf("a device that was there: %d resets, %d settings more", there.resets, there.told-told)
		}
		w.restart()
		w.settle()
		away.sync(0)
		away.want("a device that was away")
		if away.resets != 2 {
			t.Errorf("a device that was away: %d resets, want one more", away.resets-1)
		}
		n := away.told
		away.sync(0)
		if away.told != n || away.resets != 2 {
			t.Error("and is told everything once more")
		}
	})
}

// A consumer that carries again into a compacted inbox what it had carried before changes
// nothing there, whether it is known as a repeat or not any more. Spec: P-8.11.
func TestConsumerCarriesAgainIntoACompactedInbox(t *testing.T) {
	for what, later := range map[string]time.Duration{"rows are dropped": 31 * 24 * time.Hour, "rows are not dropped yet": 0} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, in, out := newCompactWorld(t)
				w.later = later
				w.restart()
				w.settle()
				w.churn(40)
				w.all("alice", nil)
				if first, _ := w.entries(); first < 30 {
					t.Fatalf("not compacted: the oldest entry is %d", first)
				}
				for i := range 2 {
					w.restart() // from the last place that was saved: the beginning
					w.settle()
					states, _ := w.all("alice", nil)
					if len(states) != 2 || states[in.Conv.String()].GetLeft() || !states[out.Conv.String()].GetLeft() {
						t.Fatalf("list after %d starts: %v", i+1, states)
					}
					if n := w.consumer.Resets(); n != 0 {
						t.Errorf("%d resets", n)
					}
				}
			})
		})
	}
}

// A change of settings that is repeated is the same change also when its entry was compacted
// away: it does not come after a newer one. That holds for 30 days, after a restart too.
// Spec: P-8.11, P-12.4.
func TestRepeatOfACompactedChangeChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newCompactWorld(t)
		write := func(k, v string) (im.Seq, error) {
			e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{User: "bob", Values: map[string]string{"blocked": v}}}}
			return inbox.Write(context.Background(), w.convs, alice, e, k)
		}
		q, err := write("r:unblock", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write("r:block", "1"); err != nil {
			t.Fatal(err)
		}
		compact := func() {
			t.Helper()
			w.churn(40)
			before, _ := w.entries()
			w.all("alice", nil)
			if first, _ := w.entries(); first <= max(uint64(q), before) {
				t.Fatalf("not compacted: the oldest entry is %d", first)
			}
			w.settle()
		}
		compact()
		for _, what := range []string{"at once", "after a restart", "after another compaction"} {
			switch what {
			case "after a restart":
				w.restart()
				w.settle()
			case "after another compaction":
				compact()
			}
			_, head := w.entries()
			if again, err := write("r:unblock", ""); again != q || err != nil {
				t.Errorf("a repeat %s: seq %d, %v, want seq %d", what, again, err, q)
			}
			if _, err := write("r:unblock", "1"); im.CodeOf(err) != im.CodeConflict {
				t.Errorf("another change under the same id %s: %v", what, err)
			}
			if _, now := w.entries(); now != head {
				t.Errorf("%s: the inbox has %d entries, had %d", what, now, head)
			}
		}
	})
}

// Of the rows that a snapshot takes the place of, those go that are older than 30 days.
func TestOldRowsOfACompactedInboxGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newCompactWorld(t)
		w.churn(10)
		_, old := w.entries()
		w.written.Store(int64(20 * 24 * time.Hour))
		w.churn(30)
		w.later = 31 * 24 * time.Hour // the first rows are of 31 days ago, the others of 11
		w.kill()
		w.consume()
		w.settle()
		w.all("alice", nil)
		w.settle()
		if first, _ := w.entries(); first < 40 {
			t.Fatalf("not compacted: the oldest entry is %d", first)
		}
		for q, there := range map[uint64]bool{1: false, old: false, old + 1: true, old + 30: true} {
			err := w.store.Rows(context.Background(), w.inboxKey(), im.Seq(q), im.Seq(q), func(store.Row) bool { return true })
			if (err == nil) != there {
				t.Errorf("row %d: %v, want it there: %v", q, err, there)
			}
		}
	})
}

// A repeat of an entry whose row was dropped, and of which the memory still knows the id, is
// told so: it is not taken for damage, and not stored again. Spec: P-8.11.
func TestRepeatOfADroppedEntryIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := newCompactWorld(t)
		w.later = 31 * 24 * time.Hour
		w.kill()
		w.consume()
		w.settle()
		e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{"name 0": "first"}}}}
		if _, err := inbox.Write(context.Background(), w.convs, alice, e, "r:1"); err != nil {
			t.Fatal(err)
		}
		w.churn(40)
		w.all("alice", nil)
		w.settle()
		first, head := w.entries()
		if first < 40 {
			t.Fatalf("not compacted: the oldest entry is %d", first)
		}
		if _, err := inbox.Write(context.Background(), w.convs, alice, e, "r:1"); im.CodeOf(err) != im.CodeTooOld {
			t.Errorf("a repeat: %v, want %s", err, im.CodeTooOld)
		}
		if _, now := w.entries(); now != head {
			t.Errorf("the inbox has %d entries, had %d", now, head)
		}
	})
}

// Removed settings do not gather: one entry removes many names, which need not have been
// there. Spec: P-8.11.
func TestInboxOfRemovedSettingsIsCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := 0
		for range 120 {
			s := &petrelv1.InboxSettings{Values: map[string]string{}}
			for range 64 {
				n++
				s.Values[fmt.Sprintf("%060d", n)] = ""
			}
			w.setAll(s)
		}
		w.all("alice", nil)
		if first, _ := w.entries(); first < 100 {
			t.Errorf("not compacted: the oldest entry is %d", first)
		}
		if w.setAll(&petrelv1.InboxSettings{Values: map[string]string{"a": "1"}}); len(w.settings(alice)) != 1 {
			t.Errorf("settings: %v", w.settings(alice))
		}
	})
}
