package conv_test

import (
	"fmt"
	"math/rand/v2"
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
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// direct is the conversation of two users.
func (w *world) pair(a, b im.User) im.Key {
	return im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, a, b)}
}

// text is a message to another user.
func (w *world) text(from, to im.User, k, text string) *conv.Send {
	s := convtest.Message(w.pair(from, to), from, k, -1, text)
	s.Peer = to
	return s
}

// block is what the inbox consumer sends when a user blocks another one.
func (w *world) block(by, other im.User, blocked bool, version uint64) *conv.Send {
	return &conv.Send{Conv: w.pair(by, other), Peer: other, Block: &storepb.Block{User: string(by), Blocked: blocked, Version: version}}
}

// about is an entry about an earlier one.
func (w *world) about(from, to im.User, k string, body *petrelv1.Message) *conv.Send {
	s := &conv.Send{Conv: w.pair(from, to), Peer: to, Keyed: true}
	s.Entry.From, s.Entry.ClientMsgId, s.Entry.Body = string(from), k, body.Body
	return s
}

func editOf(q im.Seq, text string) *petrelv1.Message {
	return &petrelv1.Message{Body: &petrelv1.Message_Edit{Edit: &petrelv1.Edit{Target: uint64(q), Body: &petrelv1.Edit_Text{Text: text}}}}
}

func recallOf(q im.Seq) *petrelv1.Message {
	return &petrelv1.Message{Body: &petrelv1.Message_Recall{Recall: &petrelv1.Recall{Target: uint64(q)}}}
}

// says shows an entry as a user sees it.
func says(m *petrelv1.Message) string {
	s := fmt.Sprintf("%d counted %d %s:", m.Seq, m.Counted, m.From)
	switch b := m.Body.(type) {
	case *petrelv1.Message_Text:
		s += " " + b.Text
	case *petrelv1.Message_Edit:
		s += fmt.Sprintf(" edit %d %s", b.Edit.Target, b.Edit.GetText())
	case *petrelv1.Message_Recall:
		s += fmt.Sprintf(" recall %d", b.Recall.Target)
	}
	if m.Withheld {
		s += " withheld"
	}
	if m.EditedBy != 0 {
		s += fmt.Sprintf(" edited by %d", m.EditedBy)
	}
	if m.RecalledBy != 0 {
		s += fmt.Sprintf(" recalled by %d", m.RecalledBy)
	}
	return s
}

// sees is the history of a conversation as a user reads it.
func (w *world) sees(key im.Key, u im.User) []string {
	w.T.Helper()
	p, err := w.page(key, u, &convpb.GetHistory{})
	if err != nil {
		w.T.Fatal(err)
	}
	var all []string
	for _, row := range p.Rows {
		var m petrelv1.Message
		if err := wire.ParseMessage(row, &m); err != nil {
			w.T.Fatal(err)
		}
		if m.Withheld && (m.From != "" || m.ClientMsgId != "" || m.Type != "" || m.Rel != nil || m.Body != nil) {
			w.T.Errorf("withheld from %s, and says %v", u, &m)
		}
		all = append(all, says(&m))
	}
	return all
}

// told is what was pushed to a connection, as says shows it, with the acks.
func told(s *convtest.Screen) []string {
	var all []string
	for _, f := range s.Frames() {
		for _, m := range f.GetEvents().GetMessages() {
			all = append(all, says(m))
		}
		if f.GetAck() != nil {
			all = append(all, fmt.Sprintf("ack %d counted %d", f.GetAck().Seq, f.GetAck().Counted))
		}
	}
	return all
}

func want(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// Spec: P-5.4.
func TestBlockWithholdsFromTheBlockerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("alice", "bob", "1", "hi"))
		alice, bob := w.Online("alice"), w.Online("bob")
		w.MustSend(w.block("bob", "alice", true, 1))
		want(t, "a block is told to nobody", [][]string{nil, nil}, [][]string{alice.Got(), bob.Got()})
		if q := w.MustSend(w.text("alice", "bob", "2", "are you there?")); q != 2 {
			t.Fatalf("seq %d", q)
		}
		w.MustSend(w.text("bob", "alice", "3", "leave me alone"))
		w.MustSend(w.about("alice", "bob", "4", editOf(1, "hi!")))
		w.MustSend(w.about("alice", "bob", "5", recallOf(2)))
		w.MustSend(w.block("bob", "alice", false, 2))
		w.MustSend(w.text("alice", "bob", "6", "sorry"))
		w.MustSend(w.about("alice", "bob", "7", editOf(2+4, "sorry!")))

		whole := []string{
			"2 counted 2 alice: are you there?", "3 counted 3 bob: leave me alone", "4 counted 3 alice: edit 1 hi!", "5 counted 3 alice: recall 2",
			"6 counted 4 alice: sorry", "7 counted 4 alice: edit 6 sorry!",
		}
		cut := []string{
			"2 counted 1 : withheld", "3 counted 2 bob: leave me alone", "4 counted 2 : withheld", "5 counted 2 : withheld",
			"6 counted 3 alice: sorry", "7 counted 3 alice: edit 6 sorry!",
		}
		for range 2 {
			if alice != nil {
				want(t, "pushed to alice", whole, told(alice))
				want(t, "pushed to bob", cut, told(bob))
				alice, bob = nil, nil
			}
			want(t, "alice reads", []string{
				"1 counted 1 alice: hi! edited by 4", "2 counted 2 alice: recalled by 5", whole[1], whole[2], whole[3],
				"6 counted 4 alice: sorry! edited by 7", whole[5],
			}, w.sees(key, "alice"))
			want(t, "bob reads", []string{
				"1 counted 1 alice: edited by 4", cut[0], cut[1], cut[2], cut[3], "6 counted 3 alice: sorry! edited by 7", cut[5],
			}, w.sees(key, "bob"))
			for u, counted := range map[im.User]uint64{"alice": 4, "bob": 3} {
				if st, err := w.look(key, u); err != nil || st.Counted != counted {
					t.Errorf("%q is told %d as counted, %v, want %d", u, st.GetCounted(), err, counted)
				}
			}
			if _, err := w.owner().Source(t.Context(), conv.Query{Conv: key, User: "bob"}, &convpb.GetSource{Seq: 1}); im.CodeOf(err) != im.CodeNoTarget {
				t.Errorf("bob forwards what he may not read: %v", err)
			}
			w.restart()
		}
	})
}

// The sender gets the same answers as without the block, also to a repeat.
func TestSenderSeesNothingOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.MustSend(w.block("bob", "alice", true, 1))
		var seen [2][]string
		for i, peer := range []im.User{"bob", "carol"} {
			screen := w.Online("alice")
			key := w.pair("alice", peer)
			note := func(what string, v ...any) { seen[i] = append(seen[i], fmt.Sprintln(append([]any{what}, v...)...)) }
			send := func(s *conv.Send) {
				for range 2 { // the second is a repeat, with an answer of its own
					if r := w.Send(s); s.Entry.From == "alice" {
						note("ack", r.Seq, r.Counted, r.Repeat, r.Err)
					}
				}
			}
			_, err := w.look(key, "alice")
			note("not begun", im.CodeOf(err))
			send(w.text("alice", peer, "1", "hi"))
			send(w.text(peer, "alice", "2", "hm"))
			send(w.text("alice", peer, "3", "what?"))
			send(w.about("alice", peer, "4", editOf(1, "hello")))
			st, err := w.look(key, "alice")
			st.Pos = 0 // the caller is not told
			note("state", st, err)
			note("react", w.react(key, "alice", 1, "x"), w.react(key, "alice", 2, "y"), w.react(key, "alice", 2, "y"), w.react(key, "alice", 3, "x"), w.react(key, "alice", 3, "-x"))
			note("pin", w.pin(key, "alice", 1, false), w.pin(key, "alice", 2, false), w.pin(key, "alice", 2, true))
			note("notes", w.notes(key, "alice"), w.who(key, "alice", 2, ""), pinned(w, key, "alice"))
			if peer == "bob" {
				w.wantMoved("bob reads what is withheld", w.move(key, peer, 3, 3, nil), "3 3")
			}
			receipts, err := w.receiptsOf(key, "alice")
			note("receipts", showReceipts(receipts), err)
			for _, row := range w.sees(key, "alice") {
				note("row", row)
			}
			for _, row := range told(screen) {
				note("event", row)
			}
			ask := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_DIRECT, Peer: string(peer)}
			begun, err := w.owner().Changed(t.Context(), im.Account{Tenant: key.Tenant, User: "alice"}, ask, conv.Newest{})
			note("a sync from the beginning", begun, err)
			pos := w.owner().Published()
			if peer == "bob" {
				w.wantMoved("bob reads on", w.move(key, peer, 4, 4, nil), "4 4")
			}
			ask.Since = uint64(pos)
			changed, err := w.owner().Changed(t.Context(), im.Account{Tenant: key.Tenant, User: "alice"}, ask, conv.Newest{})
			note("a sync after the other one has read on", changed, err)
			pos = w.owner().Published()
			if peer == "bob" {
				w.MustSend(w.block("bob", "alice", false, 2))
			}
			ask.Since = uint64(pos)
			changed, err = w.owner().Changed(t.Context(), im.Account{Tenant: key.Tenant, User: "alice"}, ask, conv.Newest{})
			note("a sync after a change of the block", changed, err)
			w.Table.Leave(screen.Out.Account, screen.Out)
			for j, s := range seen[i] {
				seen[i][j] = strings.NewReplacer(string(peer), "PEER", key.Conv.String(), "CONV").Replace(s)
			}
		}
		want(t, "alice sees", seen[1], seen[0])
	})
}

// pinned are the seqs of the messages that a user sees pinned.
func pinned(w *world, key im.Key, u im.User) (seqs []uint64) {
	w.T.Helper()
	r, err := w.owner().Pins(w.T.Context(), conv.Query{Conv: key, User: u}, &convpb.ListPins{})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, p := range r.Pins {
		seqs = append(seqs, p.Message.Seq)
	}
	return seqs
}

// The reactions and pins of a blocked user show to this user alone, also after the block.
// The user takes none away from the other one, except their own. Spec: P-5.4, P-5.11.
func TestNotesOfABlockedUserAreWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		for i, text := range []string{"one", "two", "three"} { // 1, 2, 3
			w.MustSend(w.text([]im.User{"alice", "bob", "bob"}[i], []im.User{"bob", "alice", "alice"}[i], text, text))
		}
		w.react(key, "alice", 2, "old")
		w.pin(key, "bob", 3, false)
		w.MustSend(w.block("bob", "alice", true, 1))
		w.MustSend(w.text("alice", "bob", "4", "withheld")) // 4
		bob := w.Online("bob", convtest.Notes)
		for _, x := range [][2]string{
			{w.react(key, "alice", 2, "x"), "v2 old1* x1*"}, {w.react(key, "bob", 2, "x"), "v3 old1 x1*"}, {w.react(key, "alice", 2, "-old"), "v4 x2*"},
			{w.react(key, "alice", 4, "y"), "v1 y1*"}, {w.pin(key, "alice", 4, false), "v2 y1* pinned"},
			{w.pin(key, "alice", 1, false), "v1 pinned"}, {w.pin(key, "alice", 3, true), "v2"}, {w.pin(key, "alice", 3, true), "=v2"}, {w.pin(key, "bob", 3, false), "=v2 pinned"},
			{w.react(key, "bob", 4, "y"), "no_target"}, {w.pin(key, "bob", 4, false), "no_target"},
		} {
			want(t, "the answer", x[1], x[0])
		}
		check := func(when string) {
			t.Helper()
			want(t, when+": notes for alice", []string{"1 v1 pinned", "2 v4 x2*", "3 v2", "4 v2 y1* pinned"}, w.notes(key, "alice"))
			want(t, when+": notes for bob", []string{"1 v1", "2 v4 x1*", "3 v2 pinned"}, w.notes(key, "bob"))
			want(t, when+": who reacted, for alice", []string{"alice x", "bob x"}, w.who(key, "alice", 2, ""))
			want(t, when+": who reacted, for bob", []string{"bob x"}, w.who(key, "bob", 2, ""))
			want(t, when+": pins of alice and of bob", [][]uint64{{4, 1}, {3}}, [][]uint64{pinned(w, key, "alice"), pinned(w, key, "bob")})
		}
		check("blocked")
		for _, f := range bob.Frames() {
			for _, n := range f.GetEvents().GetNotes() {
				if text := noteText(n); n.Seq == 4 && text != "v1" && text != "v2" || strings.Contains(text, "y") || n.Seq == 1 && n.Pinned {
					t.Errorf("bob was told %d %s", n.Seq, text)
				}
			}
		}
		w.MustSend(w.block("bob", "alice", false, 2))
		check("not blocked any more")
		w.restart()
		check("after a restart")
		for _, x := range [][2]string{
			{w.react(key, "alice", 4, "z"), "v3 y1* z1* pinned"}, // of a message that bob does not see
			{w.react(key, "alice", 2, "x"), "=v4 x2*"}, {w.react(key, "alice", 2, "-x"), "v5 x1"}, {w.react(key, "alice", 2, "x"), "v6 x2*"},
			{w.pin(key, "bob", 1, true), "=v1"}, {w.pin(key, "bob", 1, false), "v2 pinned"}, {w.pin(key, "alice", 1, true), "v3"}, {w.pin(key, "alice", 3, false), "v3 pinned"}, {w.pin(key, "bob", 3, true), "v4"},
		} {
			want(t, "the answer after the block", x[1], x[0])
		}
		want(t, "at last: notes for alice", []string{"1 v3", "2 v6 x2*", "3 v4", "4 v3 y1* z1* pinned"}, w.notes(key, "alice"))
		want(t, "at last: notes for bob", []string{"1 v3", "2 v6 x2*", "3 v4"}, w.notes(key, "bob"))
	})
}

// A blocked user is told how far the other one was when the block began, and no move after it, also of
// what was written before. The other way round receipts are as always.
// Spec: P-5.4, P-8.6.
func TestReceiptsEndWithABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("alice", "bob", "1", "one"))
		w.MustSend(w.text("bob", "alice", "2", "two"))
		w.wantMoved("bob before the block", w.move(key, "bob", 1, 1, nil), "1 1")
		w.MustSend(w.block("bob", "alice", true, 1))
		w.MustSend(w.text("alice", "bob", "3", "withheld"))
		w.MustSend(w.block("bob", "alice", true, 2)) // once more: it began with the first
		alice, bob, phone := w.Online("alice", convtest.Receipts), w.Online("bob"), w.Online("bob", convtest.Receipts)
		w.wantMoved("bob", w.move(key, "bob", 3, 3, bob), "3 3")
		w.wantMoved("alice", w.move(key, "alice", 3, 2, nil), "3 2")
		receipts := func(s *convtest.Screen) (all []string) {
			for _, f := range s.Frames() {
				all = append(all, showReceipts(f.GetEvents().GetReceipts())...)
			}
			return all
		}
		want(t, "pushed to alice", []string{"alice 3 2"}, receipts(alice))
		want(t, "pushed to bob's other device", []string{"bob 3 3", "alice 3 2"}, receipts(phone))
		list := func(u im.User) []string {
			all, err := w.receiptsOf(key, u)
			if err != nil {
				t.Fatal(err)
			}
			return showReceipts(all)
		}
		want(t, "alice lists", []string{"alice 3 2", "bob 1 1"}, list("alice"))
		want(t, "bob lists", []string{"alice 3 2", "bob 3 3"}, list("bob"))
		w.MustSend(w.block("bob", "alice", false, 3))
		w.restart()
		want(t, "alice lists after the block", []string{"alice 3 2", "bob 3 3"}, list("alice"))
	})
}

// A withheld message stays withheld when its sender repeats it after the block, and an edit
// or a recall of it shows nothing either. Spec: P-4.4, P-5.4.
func TestWithheldStaysWithheld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.block("bob", "alice", true, 1))
		first := w.Send(w.text("alice", "bob", "1", "hi there"))
		reply := w.text("alice", "bob", "2", "in a thread")
		reply.Entry.Rel = &petrelv1.Relations{Thread: 1, ReplyTo: 1, AlsoMain: true}
		w.MustSend(reply)
		w.MustSend(w.block("bob", "alice", false, 2))
		w.restart()
		bob := w.Online("bob")
		if r := w.Send(w.text("alice", "bob", "1", "hi there")); r.Err != nil || !r.Repeat || r.Seq != first.Seq || r.Counted != first.Counted {
			t.Errorf("the repeat: %+v, want as at first %+v", r, first)
		}
		want(t, "pushed by the repeat", []string(nil), told(bob))
		answer := w.text("alice", "bob", "3", "do you see that?")
		answer.Entry.Rel = &petrelv1.Relations{ReplyTo: 1, Thread: 1, AlsoMain: true}
		w.MustSend(answer)
		w.MustSend(w.about("alice", "bob", "4", editOf(1, "hi there!")))
		w.MustSend(w.about("alice", "bob", "5", recallOf(1)))
		rows := []string{"3 counted 1 alice: do you see that?", "4 counted 1 : withheld", "5 counted 1 : withheld"}
		want(t, "pushed", rows, told(bob))
		want(t, "bob reads", append([]string{"1 counted 0 : withheld", "2 counted 0 : withheld"}, rows...), w.sees(key, "bob"))
		for _, q := range []*convpb.GetHistory{{Refs: true}, {Around: 1, Limit: 1, Refs: true}, {Around: 3, Limit: 2, Refs: true}, {AtMs: 1, Limit: 3, Refs: true}, {Before: 3, Limit: 9, Refs: true}} {
			p, err := w.page(key, "bob", q)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range p.Rows {
				if strings.Contains(string(row), "hi there") || strings.Contains(string(row), "in a thread") {
					t.Errorf("%v shows %q", q, row)
				}
			}
			if len(p.Refs) > 0 {
				t.Errorf("%v quotes %q", q, p.Refs)
			}
		}
	})
}

// A send is withheld if and only if its turn comes after the block, and nobody is told
// of either before it is durable. Spec: P-5.4.
func TestBlockRacesASendUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("alice", "bob", "1", "one"))
		bob := w.Online("bob")
		open := w.Gate.Shut()
		under := w.Submit(w.text("alice", "bob", "2", "under way"))
		rest := w.Submit(w.block("bob", "alice", true, 1), w.text("alice", "bob", "3", "too late"), w.block("bob", "alice", false, 2), w.text("alice", "bob", "4", "again"))
		want(t, "told before it is durable", []string(nil), told(bob))
		open()
		for _, ch := range append(under, rest...) {
			if r := w.Await(ch); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		rows := []string{"2 counted 2 alice: under way", "3 counted 2 : withheld", "4 counted 3 alice: again"}
		want(t, "pushed to bob", rows, told(bob))
		want(t, "bob reads", rows, w.sees(key, "bob")[1:])
		// A block that the store refuses has not happened.
		w.Gate.Refuse(true)
		refused := w.Submit(w.block("bob", "alice", true, 3), w.text("alice", "bob", "5", "refused"))
		for _, ch := range refused {
			convtest.WantCode(t, w.Await(ch), im.CodeDiskFull)
		}
		w.Gate.Refuse(false)
		w.MustSend(w.text("alice", "bob", "5", "refused"))
		want(t, "bob reads after a refusal", "5 counted 4 alice: refused", w.sees(key, "bob")[4])
		// An older one that is carried again takes nothing back.
		w.MustSend(w.block("bob", "alice", true, 4))
		w.MustSend(w.block("bob", "alice", false, 2))
		w.MustSend(w.text("alice", "bob", "6", "six"))
		want(t, "bob reads after a repeat of an older change", "6 counted 4 : withheld", w.sees(key, "bob")[5])
	})
}

// An edit that is withheld shows at no time, also not while the row says already what the
// next edit has made of it.
func TestWithheldEditShowsNotBetweenTwoCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("alice", "bob", "1", "first"))
		w.MustSend(w.block("bob", "alice", true, 1))
		open := w.Gate.Shut()
		edit := w.Submit(w.about("alice", "bob", "2", editOf(1, "withheld edit")))
		w.wantRewritten(key, 2)
		want(t, "bob reads before the edit", []string{"1 counted 1 alice: first"}, w.sees(key, "bob"))
		open()
		w.Await(edit[0])
		w.MustSend(w.block("bob", "alice", false, 2))
		open = w.Gate.Shut()
		edit = w.Submit(w.about("alice", "bob", "3", editOf(1, "open edit")))
		w.wantRewritten(key, 3)
		want(t, "bob reads before the second edit", "1 counted 1 alice: edited by 2", w.sees(key, "bob")[0])
		open()
		w.Await(edit[0])
		want(t, "bob reads after it", "1 counted 1 alice: open edit edited by 3", w.sees(key, "bob")[0])
	})
}

// wantRewritten checks that the store shows what the entry by has made of the row 1, durable
// or not.
func (w *world) wantRewritten(key im.Key, by im.Seq) {
	w.T.Helper()
	synctest.Wait()
	var m petrelv1.Message
	err := w.Gate.Rows(w.T.Context(), key, 1, 1, func(r store.Row) bool {
		_, wirePart, err := store.SplitRow(r.Value)
		if err == nil {
			err = wire.ParseMessage(wirePart, &m)
		}
		if err != nil {
			w.T.Error(err)
		}
		return true
	})
	if err != nil {
		w.T.Fatal(err)
	}
	if m.EditedBy != uint64(by) {
		w.T.Fatalf("the store shows the row as edited by %d, want %d", m.EditedBy, by)
	}
}

// blockModel is a direct conversation in which users block each other.
type blockModel struct {
	rows    []modelRow
	blocked [2]bool // the user blocks the other one
}

type modelRow struct {
	from     int
	text     string // "": not a message
	target   int    // of an edit or a recall
	recall   bool
	withheld bool
	hidden   bool // the newest edit
	editedBy int
	gone     int // recalled by
}

// view is what a user sees.
func (m *blockModel) view(names [2]im.User, u int) []string {
	var all []string
	counted := 0
	for i, r := range m.rows {
		message, other := r.target == 0, r.from != u
		if message && !(r.withheld && other) {
			counted++
		}
		x := &petrelv1.Message{Seq: uint64(i + 1), Counted: uint64(counted), From: string(names[r.from]), EditedBy: uint64(r.editedBy), RecalledBy: uint64(r.gone)}
		switch {
		case r.withheld && other:
			x = &petrelv1.Message{Seq: x.Seq, Counted: x.Counted, Withheld: true}
		case r.recall:
			x.Body = recallOf(im.Seq(r.target)).Body
		case !message && r.editedBy != 0:
			x.Body = editOf(im.Seq(r.target), "").Body
		case !message:
			x.Body = editOf(im.Seq(r.target), r.text).Body
		case r.gone != 0, r.hidden && other:
		default:
			x.Body = &petrelv1.Message_Text{Text: r.text}
		}
		all = append(all, says(x))
	}
	return all
}

// Spec: P-5.4.
func TestEveryViewOfABlockedConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		names := [2]im.User{"alice", "bob"}
		key := w.pair(names[0], names[1])
		m := &blockModel{}
		for step := range 150 {
			by := r.IntN(2)
			from, to, k := names[by], names[1-by], fmt.Sprint("k", step)
			row := modelRow{from: by, text: k, withheld: m.blocked[1-by]}
			var own []int // messages of by
			for i, x := range m.rows {
				if x.from == by && x.target == 0 && x.gone == 0 {
					own = append(own, i+1)
				}
			}
			switch n := r.IntN(10); {
			case n < 2:
				m.blocked[by] = !m.blocked[by]
				w.MustSend(w.block(from, to, m.blocked[by], uint64(step+1)))
				continue
			case n < 5 || len(own) == 0:
				w.MustSend(w.text(from, to, k, k))
			case n < 8:
				row.target = own[r.IntN(len(own))]
				t := &m.rows[row.target-1]
				row.withheld = row.withheld || t.withheld
				w.MustSend(w.about(from, to, k, editOf(im.Seq(row.target), k)))
				if t.editedBy != 0 {
					m.rows[t.editedBy-1].editedBy = len(m.rows) + 1
				}
				t.text, t.editedBy, t.hidden = k, len(m.rows)+1, row.withheld
			case n < 9:
				row.target, row.recall = own[r.IntN(len(own))], true
				t := &m.rows[row.target-1]
				row.withheld = t.withheld
				if t.editedBy != 0 {
					m.rows[t.editedBy-1].editedBy = len(m.rows) + 1
				}
				w.MustSend(w.about(from, to, k, recallOf(im.Seq(row.target))))
				t.gone = len(m.rows) + 1
			default:
				w.restart()
				continue
			}
			m.rows = append(m.rows, row)
			u := r.IntN(2)
			got := w.sees(key, names[u])
			if d := cmp.Diff(m.view(names, u), got); d != "" {
				t.Fatalf("step %d, %s (-want +got):\n%s", step, names[u], d)
			}
		}
		if !slices.ContainsFunc(m.rows, func(r modelRow) bool { return r.withheld }) {
			t.Error("nothing was withheld: this test shows nothing")
		}
	})
}

// A snapshot of an inbox is taken only directly after the entries that it is of, and its
// parts in their order. With the last part the entries before it are gone. Spec: P-8.11.
func TestSnapshotFollowsWhatItIsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Inbox(im.DefaultTenant, "alice")}
		n := 0
		entry := func(e *petrelv1.InboxEntry) *conv.Send {
			n++
			s := &conv.Send{Conv: key, Peer: "alice", Keyed: true}
			s.Entry.ClientMsgId, s.Entry.Body = fmt.Sprint(n), &petrelv1.Message_Inbox{Inbox: e}
			return s
		}
		set := func() {
			w.MustSend(entry(&petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{Values: map[string]string{"a": fmt.Sprint(n)}}}}))
		}
		part := func(first uint64, i uint32, last bool) *conv.Send {
			return entry(&petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Snapshot{Snapshot: &petrelv1.InboxSnapshot{First: first, Part: i, Last: last}}})
		}
		first := func() uint64 {
			p, err := w.page(key, "", &convpb.GetHistory{})
			if err != nil {
				t.Fatal(err)
			}
			return p.FirstSeq
		}
		set()
		set()
		alice := w.Online("alice")
		convtest.WantCode(t, w.Send(part(2, 0, true)), im.CodeConflict) // an entry came after what it is of
		convtest.WantCode(t, w.Send(part(4, 0, true)), im.CodeConflict)
		convtest.WantCode(t, w.Send(part(3, 1, true)), im.CodeConflict)
		w.MustSend(part(3, 0, false))
		set() // between two parts
		convtest.WantCode(t, w.Send(part(3, 1, true)), im.CodeConflict)
		if got := first(); got != 1 {
			t.Errorf("the inbox begins with %d, and no snapshot is whole", got)
		}
		w.MustSend(part(5, 0, false))
		w.MustSend(part(5, 1, true))
		for range 2 {
			if got := first(); got != 5 {
				t.Errorf("the inbox begins with %d, want 5", got)
			}
			w.restart()
		}
		if got := alice.Got(); len(got) != 1 {
			t.Errorf("pushed: %q, want the setting alone", got)
		}
	})
}

// A user who has read nothing and has written nothing is not seen at all (P-8.6), and a block keeps it so: what they read
// then does not show what had been delivered before. Spec: P-5.4, P-8.6.
func TestABlockedUserIsNotToldOfTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("alice", "bob", "1", "one"))
		w.wantMoved("bob", w.move(key, "bob", 1, 0, nil), "1 0")
		list := func() []string {
			all, err := w.receiptsOf(key, "alice")
			if err != nil {
				t.Fatal(err)
			}
			return showReceipts(all)
		}
		want(t, "before the block", []string(nil), list())
		w.MustSend(w.block("bob", "alice", true, 1))
		w.wantMoved("bob, blocking", w.move(key, "bob", 1, 1, nil), "1 1")
		want(t, "he has read", []string(nil), list())
		w.MustSend(w.block("bob", "alice", false, 2))
		want(t, "after the block", []string{"bob 1 1"}, list())
	})
}
