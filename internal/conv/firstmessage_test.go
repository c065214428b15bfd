package conv_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// playFirst does acts like "alice: hi" and "bob ignore", and returns the codes of the messages that were refused.
func (w *world) playFirst(acts ...string) (codes []im.Code) {
	w.T.Helper()
	for n, act := range acts {
		if by, text, ok := strings.Cut(act, ": "); ok {
			from, to := im.User(by), im.User("bob")
			if from == to {
				to = "alice"
			}
			s := w.text(from, to, fmt.Sprint("k", n), text)
			s.BackEnd = text == "order"
			if r := w.Send(s); r.Err != nil {
				codes = append(codes, r.Err.Code)
			}
		} else if code := w.playContacts(act, nil); code != "" {
			codes = append(codes, code)
		}
	}
	return codes
}

// Answers, contacts, blocks and first messages meet in one order. Spec: P-14.11, P-14.12.
func TestFirstMessagesMeetAnswersInOneOrder(t *testing.T) {
	const request, closed = conv.FirstWaits, conv.FirstClosed
	six := []string{"alice: 1", "alice: 2", "alice: 3", "alice: 4", "alice: 5", "alice: 6"}
	for _, c := range []struct {
		first   uint32
		acts    []string
		refused string
		bob     string // what he sees
		unread  uint64 // counted for him, his own messages among it
		is      string // what his inbox says: wait, refused, or nothing
	}{
		{0, six, "", "1 2 3 4 5 6", 6, ""},
		{conv.FirstOpen, six, "rate_limited", "1 2 3 4 5", 5, ""},
		{conv.FirstOpen, append([]string{"alice: 0", "bob: yes"}, six...), "", "0 yes 1 2 3 4 5 6", 8, ""},
		{conv.FirstOpen, append([]string{"alice: 0", "bob hear"}, six...), "rate_limited rate_limited", "0 1 2 3 4", 5, ""},
		{request, six, "rate_limited", "1 2 3 4 5", 0, "wait"},
		{request, []string{"alice: 1", "bob hear", "alice: 2"}, "", "1 2", 1, ""},
		{request, append([]string{"alice: 0", "bob hear"}, six...), "rate_limited rate_limited", "0 1 2 3 4", 4, ""}, // a silent user
		{request, append([]string{"alice: 0", "bob: yes"}, six...), "", "0 yes 1 2 3 4 5 6", 7, ""},
		{request, []string{"bob ask", "alice: 1"}, "", "1", 1, ""},
		{closed, []string{"bob ask", "alice: 1"}, "", "1", 1, ""},
		{request, []string{"bob block", "alice: 1", "bob unblock", "alice: 2"}, "", "withheld withheld", 0, "refused"},
		{request, []string{"alice: 1", "bob: yes", "alice: 2"}, "", "1 yes 2", 2, ""},
		{request, []string{"alice: 1", "bob ask", "alice: 2"}, "", "1 2", 1, ""},
		{request, []string{"alice ask", "alice: 1", "bob accept", "alice: 2"}, "", "1 2", 1, ""},
		{request, []string{"alice: 1", "bob refuse", "alice: 2"}, "", "1 2", 0, "wait"}, // that refuses no messages
		{request, []string{"alice: 1", "bob ignore", "alice: 2", "bob hear", "alice: 3"}, "", "1 withheld 3", 1, ""},
		{request, []string{"alice: 1", "bob ignore", "alice: 2", "bob: yes", "alice: 3"}, "", "1 withheld yes 3", 2, ""},
		{request, []string{"alice: 1", "bob block", "alice: 2", "bob unblock", "alice: 3"}, "", "1 withheld withheld", 0, "refused"},
		{request, []string{"alice: 1", "bob block", "bob: no", "alice: 2"}, "", "1 no withheld", 1, ""},
		{request, []string{"bob make", "alice: 1", "bob end", "alice: 2"}, "", "1 2", 2, ""},
		{request, []string{"bob ask", "alice accept", "alice remove", "alice: 1"}, "", "1", 1, ""}, // a contact of his
		{request, []string{"alice ask", "bob accept", "bob remove", "alice: 1"}, "", "1", 0, "wait"},
		{request, []string{"alice: order", "alice: 1"}, "", "order 1", 2, ""},
		{request, []string{"alice: 1", "alice: order", "alice: 2"}, "", "1 order 2", 2, ""},
		{request, []string{"bob ignore", "bob hear", "alice: 1"}, "", "1", 0, "wait"}, // nothing waited
		{closed, six, "rate_limited", "withheld withheld withheld withheld withheld", 0, "refused"},
		{closed, []string{"alice: 1", "bob hear", "alice: 2"}, "", "withheld 2", 1, ""},
		{closed, []string{"alice: 1", "bob: hi", "alice: 2"}, "", "withheld hi 2", 2, ""},
	} {
		t.Run(fmt.Sprint(c.first, c.acts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.first = c.first
				refused := strings.Trim(fmt.Sprint(w.playFirst(c.acts...)), "[]")
				for range 2 { // the second time by what is stored
					key := w.pair("alice", "bob")
					var seen []string
					for _, row := range w.history(key, "bob") {
						_, body, _ := strings.Cut(row, ":")
						if body == "" {
							body = "withheld"
						}
						seen = append(seen, body)
					}
					st, err := w.look(key, "bob")
					if got := strings.Join(seen, " "); got != c.bob || refused != c.refused || st.GetCounted() != c.unread || err != nil {
						t.Errorf("bob sees %q, %d unread, refused %q, %v; want %q, %d, %q", got, st.GetCounted(), refused, err, c.bob, c.unread, c.refused)
					}
					if is := w.firstOf("bob", "alice"); is != c.is {
						t.Errorf("bob's inbox says %q, want %q", is, c.is)
					}
					if is := w.firstOf("alice", "bob"); is != "" {
						t.Errorf("alice's inbox says %q", is)
					}
					w.restart()
				}
			})
		})
	}
}

// firstOf is what becomes of messages of another user, as the inbox of u says it.
func (w *world) firstOf(u, other im.User) string {
	w.T.Helper()
	rec, err := w.Gate.Conversation(w.T.Context(), w.pair(u, other))
	if err != nil {
		w.T.Fatal(err)
	}
	own, theirs := conv.SidesOf(rec, u)
	switch c := conv.ContactOf(own, theirs); {
	case c.MessagesRefused:
		return "refused"
	case c.MessagesMs > 0:
		return "wait"
	}
	return ""
}

// The writer of first messages cannot tell a silent user from one who has not accepted them, has refused them, gets none,
// or blocks the writer. Spec: P-14.12.
func TestAWriterCannotTellWhatBecameOfFirstMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(10) {
			var seen [5]string
			for i := range seen {
				w := newWorld(t)
				w.first = []uint32{conv.FirstOpen, conv.FirstWaits, conv.FirstWaits, conv.FirstClosed, conv.FirstOpen}[i]
				seen[i] = w.walkOfAWriter(seed, i)
			}
			for i, s := range seen {
				if s != seen[0] {
					t.Fatalf("seed %d: alice sees of silence\n%s\nand in the case %d\n%s", seed, seen[0], i, s)
				}
			}
		}
	})
}

// walkOfAWriter lets alice do what a seed says, and returns all that she sees. Bob reads and acts where his messages do
// not come as others.
func (w *world) walkOfAWriter(seed uint64, which int) string {
	w.T.Helper()
	rng, key := rand.New(rand.NewPCG(seed, 1)), w.pair("alice", "bob")
	screen := w.Online("alice")
	var seen []string
	note := func(what string, v ...any) {
		seen = append(seen, strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(append([]any{what}, v...)...), key.Conv.String(), "CONV"), "  ", " "))
	}
	since := uint64(0)
	for step := range 14 {
		q := im.Seq(1 + rng.IntN(4))
		switch n := rng.IntN(8); {
		case n < 4 || step == 0:
			r := w.Send(w.text("alice", "bob", fmt.Sprint("k", step), "hi"))
			note("ack ", r.Seq, r.Counted, r.Repeat, r.Err)
		case n == 4:
			r := w.Send(w.about("alice", "bob", fmt.Sprint("k", step), editOf(q, "hello")))
			note("edit ", r.Seq, r.Counted, r.Err)
		case n == 5:
			r := w.Send(w.about("alice", "bob", fmt.Sprint("k", step), recallOf(q)))
			note("recall ", r.Seq, r.Counted, r.Err)
		case n == 6:
			note("react ", w.react(key, "alice", q, "x"), w.pin(key, "alice", q, false))
		default:
			w.signal(key, "alice", "place")
			w.playContacts("alice ask, alice withdraw", nil)
		}
		synctest.Wait()
		w.actAsStranger(which, step)
		st, err := w.look(key, "alice")
		st.Pos = 0
		note("state ", st, err)
		receipts, err := w.receiptsOf(key, "alice")
		note("receipts ", showReceipts(receipts), err)
		note("notes ", w.notes(key, "alice"), pinned(w, key, "alice"))
		note("rows ", w.sees(key, "alice"))
		note("contact ", w.contactOf("alice", "bob"), w.firstOf("alice", "bob"))
		ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_DIRECT, Peer: "bob", Since: since}
		changed, err := w.owner().Changed(w.T.Context(), im.Account{Tenant: key.Tenant, User: "alice"}, ask, conv.Newest{})
		note("sync ", changed, err)
		since = uint64(w.owner().Published())
	}
	note("events ", told(screen))
	return strings.Join(seen, "\n")
}

// actAsStranger does what bob does after a step of alice: nothing, he reads messages that wait, refuses them, reads
// withheld ones, or blocks her.
func (w *world) actAsStranger(which, step int) {
	w.T.Helper()
	key := w.pair("alice", "bob")
	switch which {
	case 1, 3:
		w.move(key, "bob", im.Seq(step+1), im.Seq(step+1), nil)
		w.react(key, "bob", 1, "x")
		w.signal(key, "bob", "typing")
	case 2:
		w.move(key, "bob", 1, 1, nil)
		if step == 3 {
			w.playContacts("bob ignore", nil)
		}
	case 4:
		if step == 0 {
			w.playContacts("bob block", nil)
		}
	}
	synctest.Wait()
}

// An acceptance without a word shows the writer nothing: no receipt of earlier reads, also while the other user blocks
// the writer. Spec: P-14.13.
func TestAnAcceptanceWithoutAWordShowsNothing(t *testing.T) {
	for _, acts := range []string{"bob hear", "bob ignore, bob hear", "bob ask, bob withdraw", "bob block, bob hear"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.first = conv.FirstWaits
			key := w.pair("alice", "bob")
			receipts := func(want string) {
				t.Helper()
				list, err := w.receiptsOf(key, "alice")
				if got := fmt.Sprint(showReceipts(list)); got != want || err != nil {
					t.Errorf("%s: the receipts are %s, %v, want %s", acts, got, err, want)
				}
			}
			w.playFirst("alice: 1", "alice: 2")
			w.moves(key, "bob", 2, 2, false)
			w.playContacts(acts, nil)
			receipts("[]")
			w.restart()
			receipts("[]")
			if strings.Contains(acts, "block") {
				return
			}
			w.MustSend(w.text("alice", "bob", "3", "3"))
			receipts("[]")
			w.moves(key, "bob", 3, 3, false)
			receipts("[bob 3 3]")
		})
	}
}

// A record that damage has taken leaves entries in the inbox: an acceptance replaces them. Spec: P-14.12.
func TestAnAcceptanceReplacesEntriesOfALostRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.MustSend(w.text("alice", "bob", "1", "hi")) // nothing is known of first messages
		before, err := w.Gate.Conversation(t.Context(), w.pair("alice", "bob"))
		if code := w.playContacts("bob hear", nil); code != "" || err != nil {
			t.Fatal(code, err)
		}
		after, err := w.Gate.Conversation(t.Context(), w.pair("alice", "bob"))
		if err != nil || after.ContactVersion <= before.ContactVersion || w.firstOf("bob", "alice") != "" {
			t.Errorf("the version is %d after %d, and the inbox says %q, %v", after.GetContactVersion(), before.GetContactVersion(), w.firstOf("bob", "alice"), err)
		}
		w.playContacts("bob hear", nil)
		if again, err := w.Gate.Conversation(t.Context(), w.pair("alice", "bob")); err != nil || again.ContactVersion != after.ContactVersion {
			t.Errorf("a repeat changes the version: %v", err)
		}
	})
}

// Where no conversation is, an acceptance leaves nothing in the store. Spec: P-14.12.
func TestAnAcceptanceOfNothingLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.playContacts("bob hear, bob ignore, bob refuse, bob withdraw, bob remove", nil)
		if rec, err := w.Gate.Conversation(t.Context(), w.pair("alice", "bob")); rec != nil || err != nil {
			t.Errorf("the record is %v, %v", rec, err)
		}
	})
}
