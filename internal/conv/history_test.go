package conv_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A page reads what it answers, in both directions. Downwards it read 200 rows of 40 KB
// to answer one. Spec: P-5.2.
func TestPageOfHistoryReadsWhatItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		for i := range 30 {
			w.MustSend(convtest.Message(key, "alice", fmt.Sprint("k", i), i+1, strings.Repeat("x", 20<<10)))
		}
		for what, q := range map[string]*convpb.GetHistory{"down": {Before: math.MaxUint64}, "up": {After: 1}} {
			read := 0
			w.Gate.OnRow(func(store.Row) { read++ })
			h, err := w.page(key, "bob", q)
			w.Gate.OnRow(nil)
			if err != nil || len(h.Rows) != conv.MaxPageBytes/(20<<10) || !h.More {
				t.Fatalf("%s: %d rows, more %t, %v", what, len(h.GetRows()), h.GetMore(), err)
			}
			if read > len(h.Rows)+1 {
				t.Errorf("%s: a page of %d rows reads %d", what, len(h.Rows), read)
			}
		}
	})
}

// A user who left and came back got the text of an edit that was made while they were away.
// Spec: P-8.3.
func TestEditsMadeWhileAUserIsAwayStayUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := convtest.NewGroup()
		group := convtest.Entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "alice", Role: petrelv1.Role_ROLE_OWNER}, {User: "bob"}}})
		group.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		for _, s := range []*conv.Send{
			group,
			convtest.Message(key, "alice", "k2", 1, "two"),
			convtest.Message(key, "alice", "k3", 1, "three"),
			convtest.Message(key, "alice", "k4", 1, "four"),
			edit(key, "alice", "e5", 4, "seen"),
			convtest.Kick(key, "kick", "bob"), // 6
			edit(key, "alice", "e7", 2, "secret"),
			edit(key, "alice", "e8", 3, "secret"),
			edit(key, "alice", "e9", 4, "secret"),
		} {
			w.MustSend(s)
		}
		for q := im.Seq(2); q <= 4; q++ {
			w.pin(key, "alice", q, false)
		}
		former := []string{"1:members", "2: (edited by 7)", "3: (edited by 8)", "4: (edited by 9)", "5:edit of 4  (edited by 9)", "6:members"}
		w.reads(key, "bob", former)
		w.MustSend(convtest.Add(key, "add", "bob"))
		w.MustSend(edit(key, "alice", "e11", 3, "back"))
		back := append(former[:2:2], "3:back (edited by 11)", former[3], former[4], former[5], "10:members", "11:edit of 3 back")
		w.reads(key, "bob", back)
		w.restart()
		w.reads(key, "bob", back)
		w.reads(key, "alice", []string{
			"1:members", "2:secret (edited by 7)", "3:back (edited by 11)", "4:secret (edited by 9)", "5:edit of 4  (edited by 9)", "6:members", "7:edit of 2 secret",
			"8:edit of 3  (edited by 11)", "9:edit of 4 secret", "10:members", "11:edit of 3 back",
		})
	})
}

// reads checks what a user reads of a conversation: upwards, downwards, with a sync, by a
// forward of 2 to 4, and, a member, in the list of pinned messages, which are 2 to 4 too.
func (w *world) reads(key im.Key, u im.User, want []string) {
	w.T.Helper()
	left := w.readsAll(key, u, want)
	for q := uint64(2); q <= 4; q++ {
		s, err := w.owner().Source(context.Background(), conv.Query{Conv: key, User: u}, &convpb.GetSource{Seq: q})
		if im.CodeOf(err) != im.CodeNoTarget && !strings.HasPrefix(want[q-1], fmt.Sprintf("%d:%s (", q, s.GetText())) {
			w.T.Errorf("%s forwards %q, %v of %q", u, s.GetText(), err, want[q-1])
		}
	}
	pins, err := w.owner().Pins(context.Background(), conv.Query{Conv: key, User: u}, &convpb.ListPins{})
	if left {
		if im.CodeOf(err) != im.CodeNotMember {
			w.T.Errorf("%s, who has left, reads the pins %v, %v", u, pins, err)
		}
		return
	}
	var pinned []string
	for _, p := range pins.GetPins() {
		pinned = append(convtest.Show([]*petrelv1.Message{p.Message}), pinned...)
	}
	if err != nil || !cmp.Equal(pinned, want[1:4]) {
		w.T.Errorf("%s reads the pins %q, %v; want %q", u, pinned, err, want[1:4])
	}
}

// readsAll checks what a user reads of a conversation: upwards, downwards, and with a sync. It
// returns whether they have left.
func (w *world) readsAll(key im.Key, u im.User, want []string) (left bool) {
	w.T.Helper()
	up := w.history(key, u)
	down := convtest.History(w.T, func(q *convpb.GetHistory) (*convpb.History, error) {
		return w.page(key, u, &convpb.GetHistory{After: q.After, Before: math.MaxUint64})
	})
	ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Always: true}
	state, err := w.owner().Changed(context.Background(), im.Account{Tenant: key.Tenant, User: u}, ask, conv.Newest{Messages: conv.MaxPage})
	if err != nil {
		w.T.Fatal(err)
	}
	synced := convtest.Show(state.Newest)
	for what, got := range map[string][]string{"up": up, "down": down, "with a sync": synced} {
		if !cmp.Equal(got, want) {
			w.T.Errorf("%s reads %q %s, want %q", u, got, what, want)
		}
	}
	return state.Left
}

// A message, a removal and an edit of the message can come in one commit. The removed user
// gets the message as it was before the edit. Spec: P-8.3.
func TestAnEditIsNotPushedToWhoLeftBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob", "carol")
		bob, carol := w.Online("bob"), w.Online("carol")
		results := w.together(
			convtest.Message(key, "alice", "k2", 1, "two"), edit(key, "alice", "e3", 2, "zwei"), convtest.Kick(key, "kick", "bob"),
			edit(key, "alice", "e5", 2, "secret"), convtest.Message(key, "alice", "k6", 1, "six"),
		)
		for i, r := range results {
			if r.Err != nil || r.Seq != im.Seq(i+2) {
				t.Errorf("send %d: %+v", i, r)
			}
		}
		told := []string{"2:zwei (edited by 3)", "3:edit of 2 zwei", "4:members"}
		if got := bob.Got(); !cmp.Equal(got, told) {
			t.Errorf("bob was pushed %q, want %q", got, told)
		}
		if got, want := carol.Got(), append(told[:3:3], "5:edit of 2 secret", "6:six"); !cmp.Equal(got, want) {
			t.Errorf("carol was pushed %q, want %q", got, want)
		}
		if got, want := w.history(key, "bob"), []string{"1:members", "2: (edited by 5)", "3:edit of 2  (edited by 5)", "4:members"}; !cmp.Equal(got, want) {
			t.Errorf("bob reads %q, want %q", got, want)
		}
	})
}

// A change of roles alone leaves it as it was who may read a message: the content of a later edit reaches no
// member who joined after its target. Spec: P-8.3.
func TestEditAfterAChangeOfRolesShowsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := convtest.NewGroup()
		group := convtest.Entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "alice", Role: petrelv1.Role_ROLE_OWNER}, {User: "bob"}}})
		group.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		for _, s := range []*conv.Send{
			group, convtest.Message(key, "alice", "k2", 1, "two"), convtest.Add(key, "add", "carol"),
			convtest.Entry(key, "roles", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{{User: "bob", Role: petrelv1.Role_ROLE_ADMIN}}}),
		} {
			w.MustSend(s)
		}
		bob, carol := w.Online("bob"), w.Online("carol")
		w.MustSend(edit(key, "alice", "e5", 2, "secret"))
		if got := carol.Got(); !cmp.Equal(got, []string{"5:edit of 2 "}) {
			t.Errorf("carol, who joined after the message, was pushed %q", got)
		}
		if got := bob.Got(); !cmp.Equal(got, []string{"5:edit of 2 secret"}) {
			t.Errorf("bob was pushed %q", got)
		}
	})
}

// A user who joins after a message gets an edit of it without its text: pushed, alone or among
// other entries of one commit, and in every page. A user who was there before gets it whole. Spec:
// P-8.3.
func TestAnEditShowsNoMoreThanItsTarget(t *testing.T) {
	for name, batches := range map[string][]int{"one by one": {1, 1, 1, 1, 1, 1, 1, 1}, "in one batch": {8}, "in two batches": {3, 5}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := convtest.NewGroup()
				group := convtest.Entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{{User: "alice", Role: petrelv1.Role_ROLE_OWNER}, {User: "bob"}}})
				group.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
				for _, s := range []*conv.Send{
					group, convtest.Message(key, "alice", "k2", 1, "two"), convtest.Message(key, "alice", "k3", 1, "three"), convtest.Message(key, "bob", "k4", 1, "four"), convtest.Add(key, "add", "carol"),
				} {
					w.MustSend(s)
				}
				alice, bob, carol := w.Online("alice"), w.Online("bob"), w.Online("carol")
				sends := []*conv.Send{
					convtest.Message(key, "bob", "k6", 1, "six"), edit(key, "alice", "e7", 2, "secret"), convtest.Message(key, "carol", "k8", 1, "eight"), edit(key, "alice", "e9", 2, "secret too"),
					edit(key, "bob", "e10", 6, "sechs"), convtest.Add(key, "add dave", "dave"), edit(key, "alice", "e12", 3, "secret"), recall(key, "bob", "r13", 4),
				}
				first := im.Seq(6)
				for _, n := range batches {
					for i, r := range w.together(sends[:n]...) {
						if r.Err != nil || r.Seq != first+im.Seq(i) {
							t.Fatalf("send %d of %d: %+v", i, n, r)
						}
					}
					first, sends = first+im.Seq(n), sends[n:]
				}
				// A message that a later send of the same batch rewrites is pushed as it is then.
				plain := func(got []string) []string {
					for i, l := range got {
						l, _, _ = strings.Cut(l, " (edited by ")
						l = strings.Replace(l, "6:sechs", "6:six", 1)
						got[i] = strings.Replace(l, "7:edit of 2 secret", "7:edit of 2 ", 1)
					}
					return got
				}
				bare := []string{"6:six", "7:edit of 2 ", "8:eight", "9:edit of 2 ", "10:edit of 6 sechs", "11:members", "12:edit of 3 ", "13:recall of 4"}
				whole := slices.Clone(bare)
				whole[3], whole[6] = "9:edit of 2 secret too", "12:edit of 3 secret"
				for who, x := range map[string]struct {
					screen *convtest.Screen
					want   []string
				}{"alice": {alice, whole}, "bob": {bob, whole}, "carol": {carol, bare}} {
					got := x.screen.Got()
					if who == "carol" && slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "secret") }) {
						t.Errorf("carol was pushed %q, and may read no secret", got)
					}
					if got = plain(got); !cmp.Equal(got, x.want) {
						t.Errorf("%s was pushed %q, want %q", who, got, x.want)
					}
				}
				for range 2 {
					w.readsAll(key, "bob", []string{
						"1:members", "2:secret too (edited by 9)", "3:secret (edited by 12)", "4: (recalled by 13)", "5:members", "6:sechs (edited by 10)", "7:edit of 2  (edited by 9)", "8:eight",
						"9:edit of 2 secret too", "10:edit of 6 sechs", "11:members", "12:edit of 3 secret", "13:recall of 4",
					})
					carols := []string{
						"5:members", "6:sechs (edited by 10)", "7:edit of 2  (edited by 9)", "8:eight", "9:edit of 2 ", "10:edit of 6 sechs", "11:members", "12:edit of 3 ", "13:recall of 4",
					}
					w.readsAll(key, "carol", carols)
					w.readsAll(key, "dave", carols[6:])
					w.restart()
				}
			})
		})
	}
}
