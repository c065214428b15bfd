package conv_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// contact is a change of contacts by a user.
func (w *world) contact(by, other im.User, act conv.ContactAct, text string) *conv.Send {
	return &conv.Send{Conv: w.pair(by, other), Peer: other,
		Contact: &storepb.ContactChange{User: string(by), Act: uint32(act), Text: text}}
}

// contactOf shows what other is to a user: "contact", "sent hi", "received hi".
func (w *world) contactOf(u, other im.User) string {
	w.T.Helper()
	rec, err := w.Gate.Conversation(w.T.Context(), w.pair(u, other))
	if err != nil {
		w.T.Fatal(err)
	}
	own, theirs := conv.SidesOf(rec, u)
	c := conv.ContactOf(own, theirs)
	var all []string
	for _, x := range []struct {
		what string
		ms   uint64
	}{{"contact", c.SinceMs}, {"sent", c.SentMs}, {"received", c.ReceivedMs}} {
		if x.ms > 0 {
			all = append(all, x.what)
		}
	}
	return strings.TrimSpace(strings.Join(all, " ") + " " + c.Remark + c.Greeting)
}

var contactActs = map[string]conv.ContactAct{"ask": conv.ContactAsk, "accept": conv.ContactAccept, "refuse": conv.ContactRefuse,
	"withdraw": conv.ContactWithdraw, "remove": conv.ContactRemove, "remark": conv.ContactRemark, "make": conv.ContactMake,
	"end": conv.ContactEnd, "hear": conv.ContactAcceptMessages, "ignore": conv.ContactRefuseMessages}

// playContacts does acts like "alice ask", "bob block", "a week", and returns the code of the last one.
func (w *world) playContacts(acts string, skip func(time.Duration)) im.Code {
	w.T.Helper()
	var code im.Code
	for act := range strings.SplitSeq(acts, ", ") {
		by, what, _ := strings.Cut(act, " ")
		other := im.User("bob")
		if by == "bob" {
			other = "alice"
		}
		var s *conv.Send
		switch what {
		case "week": // "a week"
			skip(7 * 24 * time.Hour)
			continue
		case "minute": // "a minute"
			skip(time.Minute)
			continue
		case "block", "unblock":
			w.blockings++
			s = w.block(im.User(by), other, what == "block", w.blockings)
		case "say":
			s = w.text(im.User(by), other, fmt.Sprint("said ", w.blockings), "hi")
		default:
			s = w.contact(im.User(by), other, contactActs[what], what+" of "+by)
		}
		code = ""
		if r := w.Send(s); r.Err != nil {
			code = r.Err.Code
		}
	}
	return code
}

// Acts of both sides and blocks meet in one order. Spec: P-14.8.
func TestContactsMeetInOneOrder(t *testing.T) {
	for _, c := range []struct{ acts, code, alice, bob string }{
		{"alice ask", "", "sent ask of alice", "received ask of alice"},
		{"alice ask, bob accept", "", "contact", "contact"},
		{"alice ask, bob ask", "", "contact", "contact"},
		{"alice ask, bob accept, bob accept", "", "contact", "contact"},
		{"alice ask, alice withdraw, bob accept", "no_contact", "", ""},
		{"bob accept", "no_contact", "", ""},
		{"alice ask, bob refuse", "", "sent ask of alice", ""},
		{"alice ask, bob refuse, bob accept", "no_contact", "sent ask of alice", ""},
		{"alice ask, alice withdraw, alice ask", "rate_limited", "", ""},
		{"alice ask, alice withdraw, a minute, alice ask", "", "sent ask of alice", "received ask of alice"},
		{"alice ask, bob refuse, alice withdraw, a minute, alice ask", "", "sent ask of alice", ""},
		{"alice ask, alice withdraw, bob refuse, a minute, alice ask", "", "sent ask of alice", ""},
		{"alice ask, bob refuse, alice withdraw, a week, alice ask", "", "sent ask of alice", "received ask of alice"},
		{"alice ask, bob refuse, bob ask", "", "contact", "contact"},
		{"alice ask, bob accept, alice remove", "", "", "contact"},
		{"alice ask, bob accept, alice remove, alice ask", "", "contact", "contact"},
		{"alice ask, bob accept, alice remove, bob ask", "", "", "contact"},
		{"alice ask, bob accept, alice remark", "", "contact remark of alice", "contact"},
		{"alice ask, bob accept, alice remark, alice remove, alice ask", "", "contact", "contact"},
		{"alice ask, alice remark", "no_contact", "sent ask of alice", "received ask of alice"},
		{"alice make", "", "contact", "contact"},
		{"alice ask, bob make, alice end", "", "", ""},
		{"alice ask, bob end, bob accept", "no_contact", "", ""},

		{"bob block, alice ask", "", "sent ask of alice", ""},
		{"bob block, alice ask, bob unblock", "", "sent ask of alice", ""},
		{"bob block, alice ask, bob unblock, bob ask", "", "contact", "contact"},
		{"bob block, alice ask, bob accept", "no_contact", "sent ask of alice", ""},
		{"bob block, bob ask", "forbidden", "", ""},
		{"alice ask, bob block", "", "sent ask of alice", ""},
		{"bob ask, bob block", "", "", ""},
		{"bob ask, bob block, alice accept", "no_contact", "", ""},
		{"bob ask, bob block, alice ask", "", "sent ask of alice", ""},
		{"bob make, bob block", "", "contact", "contact"},
		{"bob make, bob block, alice remove", "", "", "contact"},
		{"bob make, bob block, alice remove, alice ask", "", "contact", "contact"},
		{"bob make, bob block, bob remove", "", "contact", ""},
		{"bob make, bob block, bob remove, alice remove, alice ask", "", "sent ask of alice", ""},
		{"bob make, bob block, bob unblock, alice remove, alice ask", "", "contact", "contact"},

		{"alice ask, alice say, bob accept, bob say", "", "contact", "contact"},
	} {
		t.Run(c.acts, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, skip := newWorldAhead(t)
				if code := w.playContacts(c.acts, skip); string(code) != c.code {
					t.Errorf("the last act: %q, want %q", code, c.code)
				}
				if a, b := w.contactOf("alice", "bob"), w.contactOf("bob", "alice"); a != c.alice || b != c.bob {
					t.Errorf("alice sees %q, want %q; bob sees %q, want %q", a, c.alice, b, c.bob)
				}
			})
		})
	}
}

// Whatever alice does, she sees the same if bob blocks her as if bob is silent. Spec: P-5.4, P-14.8.
func TestABlockedUserSeesTheContactsOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range 40 {
			silent, skipOne := newWorldAhead(t)
			blocked, skipOther := newWorldAhead(t)
			bob := ""
			if i%2 == 0 { // alice sees by his profile that he has her as a contact: P-14.3
				silent.playContacts("bob make", nil)
				blocked.playContacts("bob make", nil)
				bob = "contact"
			}
			blocked.playContacts("bob block", nil)
			for range 12 {
				d := time.Duration(rng.IntN(20)) * time.Second
				skipOne(d)
				skipOther(d)
				act := "alice " + []string{"ask", "withdraw", "remark", "remove", "accept", "refuse"}[rng.IntN(6)]
				one, other := silent.playContacts(act, nil), blocked.playContacts(act, nil)
				a, b := silent.contactOf("alice", "bob"), blocked.contactOf("alice", "bob")
				if one != other || a != b {
					t.Fatalf("%s: silent %q %q, blocked %q %q", act, one, a, other, b)
				}
				if got := blocked.contactOf("bob", "alice"); got != bob {
					t.Fatalf("%s: the blocker sees %q", act, got)
				}
			}
		}
	})
}
