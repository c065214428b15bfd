package fanout

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// sent returns the item of a send that was accepted: its entry and its ack.
func sent(s *screen, q im.Seq, text string) Item {
	s.out.Window(1, -1, -1)
	u := s.out.Account.User
	return Item{Row: row(q, u, text), Sender: Origin{Out: s.out, ID: 100 + uint64(q), Bytes: 1}, Ack: wire.Ack{Seq: uint64(q)}}
}

func refused(s *screen, id uint64, code im.Code) Item {
	s.out.Window(1, -1, -1)
	return Item{Sender: Origin{Out: s.out, ID: id, Bytes: 1}, Err: &im.Error{Code: code}}
}

func server(q im.Seq) Item { return Item{Row: row(q, "", "by the server")} }

// Spec: P-6.1.
func TestSenderGetsAcksAndOthersEventsInTheOrderOfSeqs(t *testing.T) {
	f := New(NewTable())
	alice, bob := online(t, f, "alice"), online(t, f, "bob")
	f.Deliver(im.DefaultTenant, []im.User{"alice", "bob"}, []Item{
		server(1), sent(alice, 2, "a"), sent(bob, 3, "b"), server(4), refused(bob, 9, im.CodeConflict), sent(alice, 5, "c"), sent(alice, 6, "d"), sent(bob, 7, "e"),
	})
	f.Flush()
	want(t, alice, "1:by the server", "ack 2 of 102", "3:b", "4:by the server", "ack 5 of 105", "ack 6 of 106", "7:e")
	want(t, bob, "1:by the server", "2:a", "ack 3 of 103", "4:by the server", "conflict of 9", "5:c", "6:d", "ack 7 of 107")
}

func TestOtherSessionsOfTheSenderGetTheEvent(t *testing.T) {
	f := New(NewTable())
	phone, laptop, bob := online(t, f, "alice"), online(t, f, "alice"), online(t, f, "bob")
	f.Deliver(im.DefaultTenant, []im.User{"alice", "bob"}, []Item{sent(phone, 1, "from the phone")})
	want(t, phone, "ack 1 of 101")
	want(t, laptop, "1:from the phone")
	want(t, bob, "1:from the phone")
	if n := f.Delivered.Load(); n != 2 {
		t.Errorf("%d events delivered, want 2", n)
	}
}

func TestOnlyMembersOfTheTenantGetEvents(t *testing.T) {
	f := New(NewTable())
	bob, eve := online(t, f, "bob"), online(t, f, "eve")
	other := connect(t, "bob", 1<<20)
	other.out.Account.Tenant = 2
	f.Table.Enter(other.out.Account, other.out, -1)
	f.Deliver(im.DefaultTenant, []im.User{"alice", "bob"}, []Item{server(1), {Row: row(2, "alice", "x")}})
	want(t, bob, "1:by the server", "2:x")
	want(t, eve)
	want(t, other)
}

// A sender who is no member gets the answer and nothing else. An example is a user
// who was removed and sends a stored message again.
func TestSenderWhoIsNoMemberGetsOnlyTheAnswer(t *testing.T) {
	f := New(NewTable())
	eve, alice := online(t, f, "eve"), online(t, f, "alice")
	repeat := sent(eve, 1, "")
	repeat.Row = nil
	items := []Item{sent(alice, 2, "a"), repeat, refused(eve, 8, im.CodeNotMember), sent(alice, 3, "b")}
	f.Deliver(im.DefaultTenant, []im.User{"alice"}, items)
	want(t, eve, "ack 1 of 101", "not_member of 8")
	want(t, alice, "ack 2 of 102", "ack 3 of 103")

	outsider := connect(t, "alice", 1<<20) // the same name in another tenant
	outsider.out.Account.Tenant = 2
	f.Deliver(im.DefaultTenant, []im.User{"alice"}, []Item{refused(outsider, 5, im.CodeNoConversation), sent(alice, 4, "c")})
	want(t, outsider, "no_conversation of 5")
	want(t, alice, "ack 4 of 104")
}

func TestLaggingSenderStillGetsItsAnswers(t *testing.T) {
	f := New(NewTable())
	alice := connect(t, "alice", 40)
	f.Table.Enter(alice.out.Account, alice.out, -1)
	f.Deliver(im.DefaultTenant, []im.User{"alice"}, []Item{sent(alice, 1, "a"), {Row: row(2, "bob", string(make([]byte, 100)))}, sent(alice, 3, "b"), {Row: row(4, "bob", "c")}})
	want(t, alice, "ack 1 of 101", "lagged", "ack 3 of 103")
	if d, l := f.Delivered.Load(), f.Lagged.Load(); d != 0 || l != 2 {
		t.Errorf("%d delivered and %d lagged, want 0 and 2", d, l)
	}
}

func TestEachEncodingGetsItsOwnBytes(t *testing.T) {
	f := New(NewTable())
	rows := [][]byte{row(1, "eve", "one"), row(2, "eve", "two")}
	var outs []*Outbox
	for i := range 2 * wire.Encodings {
		o := NewOutbox(wire.EncodingAt(i%wire.Encodings), NewFlusher(func() {}), 1<<20)
		o.Account = im.Account{Tenant: im.DefaultTenant, User: "bob"}
		o.unwelcomed = false
		f.Table.Enter(o.Account, o, -1)
		outs = append(outs, o)
	}
	f.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{{Row: rows[0]}, {Row: rows[1]}})
	f.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{{Row: rows[1]}})
	for _, o := range outs {
		p, _ := o.Take()
		b := wire.AppendEvents(wire.AppendEvents(nil, o.enc, rows), o.enc, rows[1:])
		if o.enc.Codec == wire.Proto && string(p.Bytes) != string(b) || len(p.Bytes) < len(b)/2 {
			t.Errorf("%v: %q, want %q", o.enc, p.Bytes, b)
		}
		o.Wrote(p, 0)
	}
}

func TestSessionsOfOneEncodingShareTheBytes(t *testing.T) {
	f := New(NewTable())
	bob, carol := online(t, f, "bob"), online(t, f, "carol")
	f.Deliver(im.DefaultTenant, []im.User{"bob", "carol"}, []Item{server(1)})
	one, _ := bob.out.Take()
	two, _ := carol.out.Take()
	if len(one.Bytes) == 0 || &one.Bytes[0] != &two.Bytes[0] {
		t.Error("an entry was encoded or copied for each of two sessions")
	}
}

// Spec: P-7.4.
func TestSessionsThatHearOfLargeFramesShareTheBytesToo(t *testing.T) {
	f := New(NewTable())
	e := wire.Encoding{Codec: wire.JSON, Framing: wire.WebSocket}
	var pieces []Piece
	var outs []*Outbox
	for i := range 4 {
		o := NewOutbox(e, NewFlusher(func() {}), 1<<20)
		o.Account, o.Large, o.unwelcomed = im.Account{Tenant: im.DefaultTenant, User: "bob"}, i < 2, false
		f.Table.Enter(o.Account, o, -1)
		outs = append(outs, o)
	}
	large := row(1, "eve", strings.Repeat("x", wire.LargeFrame))
	f.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{{Row: large}})
	for _, o := range outs {
		p, _ := o.Take()
		pieces = append(pieces, p)
	}
	plain := wire.AppendEvents(nil, e, [][]byte{large})
	for i, want := range [][]byte{wire.AnnounceLarge(plain, wire.JSON), wire.AnnounceLarge(plain, wire.JSON), plain, plain} {
		if got := pieces[i].Bytes; !bytes.Equal(got, want) || &got[0] != &pieces[i/2*2].Bytes[0] || pieces[i].pooled {
			t.Errorf("session %d got %d bytes of its own: %.80q, want %d: %.80q", i, len(got), got, len(want), want)
		}
		outs[i].Wrote(pieces[i], 0)
	}
	f.Deliver(im.DefaultTenant, []im.User{"bob"}, []Item{{Row: row(2, "eve", "small")}})
	if p, _ := outs[0].Take(); !bytes.Equal(p.Bytes, wire.AppendEvents(nil, e, [][]byte{row(2, "eve", "small")})) {
		t.Errorf("the next delivery is %.80q", p.Bytes)
	}
}

// For any items of a commit, every session of a member gets all of its seqs, each once and
// in ascending order, as an event or as its own ack.
func TestRandomDeliveriesAreWholeAndInOrder(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		f := New(NewTable())
		users := []im.User{"alice", "bob", "carol", "dave"}
		members := users[:2+r.IntN(2)]
		var screens []*screen
		for range 6 {
			screens = append(screens, online(t, f, users[r.IntN(len(users))]))
		}
		q := im.Seq(0)
		own := map[*screen]map[im.Seq]bool{}
		for range 5 {
			var items []Item
			for range r.IntN(12) {
				s := screens[r.IntN(len(screens))]
				switch r.IntN(5) {
				case 0:
					items = append(items, refused(s, 1, im.CodeConflict))
				case 1:
					q++
					items = append(items, server(q))
				default:
					q++
					items = append(items, sent(s, q, ""))
					if own[s] == nil {
						own[s] = map[im.Seq]bool{}
					}
					own[s][q] = true
				}
			}
			f.Deliver(im.DefaultTenant, members, items)
			f.Flush()
		}
		for i, s := range screens {
			var expected, got []string
			for n := im.Seq(1); n <= q; n++ {
				switch member := s.out.Account.User == members[0] || s.out.Account.User == members[1] || len(members) > 2 && s.out.Account.User == members[2]; {
				case own[s][n]:
					expected = append(expected, fmt.Sprintf("ack %d", n))
				case member:
					expected = append(expected, fmt.Sprintf("event %d", n))
				}
			}
			for _, line := range s.got() {
				var n, id int
				if _, err := fmt.Sscanf(line, "ack %d of %d", &n, &id); err == nil {
					got = append(got, fmt.Sprintf("ack %d", n))
				} else if _, err := fmt.Sscanf(line, "%d:", &n); err == nil {
					got = append(got, fmt.Sprintf("event %d", n))
				}
			}
			if d := cmp.Diff(expected, got); d != "" {
				t.Fatalf("seed %d, session %d of %s (-want +got):\n%s", seed, i, s.out.Account.User, d)
			}
			if s.out.unansweredSends != 0 || s.out.unansweredBytes != 0 {
				t.Errorf("seed %d: %d sends of %d bytes have no answer", seed, s.out.unansweredSends, s.out.unansweredBytes)
			}
		}
	}
}
