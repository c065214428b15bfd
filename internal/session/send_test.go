package session_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestSendsOfOneReadAreStoredInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice, bob := w.login(w.token("", "alice")), w.login(w.token("", "bob"))
		id := w.group("team", "alice", "bob")
		bob.want("1:")
		alice.want("1:")
		alice.want("1:") // the entries of the new group in their inboxes
		bob.want("1:")
		alice.send(text(2, id, "k1", "one"), ping(3), text(4, id, "k2", "two"), text(5, id, "k1", "one"), text(6, id, "k1", "other"))
		alice.want("pong of 3", "ack 2 of 2", "ack 3 of 4", "ack 2 of 5", "conflict of 6")
		bob.want("2:one 3:two")
		if got := w.texts(id); !cmp.Equal(got, []string{"alice:one", "alice:two"}) {
			t.Errorf("stored %v", got)
		}
		// The ack of a send to a user has the id of the conversation.
		f := text(7, "", "k3", "hi")
		f.GetSend().User, f.GetSend().After = "bob", proto.Uint64(0)
		alice.send(f)
		if a := alice.next().GetAck(); a.GetConv() != w.convs.IDs().Direct(im.DefaultTenant, "alice", "bob").String() || a.GetSeq() != 1 || a.GetTimeMs() != bubbleBegin {
			t.Errorf("ack %v", a)
		}
	})
}

// A bad frame ends the session. Sends that came before it are stored. Spec: P-2.3.
func TestSendsBeforeABadFrameAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		good, err := proto.Marshal(text(2, id, "k", "before"))
		w.must(err)
		late, err := proto.Marshal(text(3, id, "k2", "after"))
		w.must(err)
		if alice.read(good, []byte{0xff}, late) {
			t.Error("the session goes on after a bad frame")
		}
		alice.want("kick bad_frame")
		settled(t, "the first send is stored", func() bool { return cmp.Equal(w.texts(id), []string{"alice:before"}) })
		if alice.read(late) || alice.send(ping(4)) || alice.send(history(5, id)) {
			t.Error("an ended session takes frames")
		}
		alice.wantEnd(im.CodeBadFrame)
		w.restart()
		if got := w.texts(id); !cmp.Equal(got, []string{"alice:before"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// Spec: P-2.3, P-2.4.
func TestFrameThatCannotBeDecodedIsAnsweredAndTheSessionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SendsPerSecond, w.limits.SendBurst = 1, 5
		w.start()
		id := w.group("team", "alice")
		alice := w.login(w.token("", "alice"))
		notUTF8, err := proto.Marshal(text(2, id, "k1", "MARK"))
		w.must(err)
		noBody, err := proto.Marshal(&petrelv1.ClientFrame{Id: 4})
		w.must(err)
		for _, b := range [][]byte{bytes.Replace(notUTF8, []byte("MARK"), []byte("\xffARK"), 1), []byte("\x08\x03\x1a\x02\x0a\x05"), noBody} {
			if !alice.read(b) {
				t.Fatalf("%x ends the session", b)
			}
		}
		alice.want("invalid of 2", "invalid of 3", "invalid of 4")
		alice.send(text(5, id, "k2", "after"))
		alice.want("ack 2 of 5")
		// They count as sends: nobody can have the server decode them without end.
		alice.read(noBody)
		alice.read(noBody)
		alice.want("invalid of 4", "rate_limited of 4")
		if got := w.texts(id); !cmp.Equal(got, []string{"alice:after"}) {
			t.Errorf("stored %v", got)
		}
		// Before the welcome nothing is answered.
		c := w.connect()
		if c.read(noBody) {
			t.Error("a connection that has not said hello goes on after a bad frame")
		}
		c.want("kick bad_frame")
		c.wantEnd(im.CodeBadFrame)
	})
}

// Spec: P-4.5.
func TestRefusedSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		team, other := w.group("team", "alice", "bob"), w.group("other", "bob")
		w.token("", "bob")
		alice := w.login(w.token("", "alice"))
		inbox := w.convs.IDs().Inbox(im.DefaultTenant, "alice").String()
		with := func(change func(*petrelv1.Send)) *petrelv1.ClientFrame {
			f := text(2, team, "k", "x")
			change(f.GetSend())
			return f
		}
		for code, frames := range map[im.Code][]*petrelv1.ClientFrame{
			im.CodeInvalid: {
				with(func(s *petrelv1.Send) { s.Conv = "" }), with(func(s *petrelv1.Send) { s.User = "bob" }), with(func(s *petrelv1.Send) { s.ClientMsgId = "" }),
				with(func(s *petrelv1.Send) { s.ClientMsgId = strings.Repeat("k", 65) }), with(func(s *petrelv1.Send) { s.Type = strings.Repeat("t", 65) }),
				with(func(s *petrelv1.Send) { s.Body = nil }), with(func(s *petrelv1.Send) { s.Conv, s.User = "", "not a user" }),
				with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 1}} }), with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Recall{Recall: &petrelv1.Recall{}} }),
				with(func(s *petrelv1.Send) {
					s.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 1, Type: strings.Repeat("t", 65), Body: &petrelv1.Edit_Text{}}}
				}),
			},
			im.CodeTooLarge: {
				with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Text{Text: strings.Repeat("x", 1001)} }),
				with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Data{Data: make([]byte, 1001)} }),
				with(func(s *petrelv1.Send) {
					s.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 1, Body: &petrelv1.Edit_Data{Data: make([]byte, 1001)}}}
				}),
			},
			im.CodeNoConversation: {with(func(s *petrelv1.Send) { s.Conv = "garbage" }), with(func(s *petrelv1.Send) { s.Conv, s.After = someStore.KeyedGroup(1, "none").String(), nil }), with(func(s *petrelv1.Send) { s.Conv = other })},
			im.CodeNoUser:         {with(func(s *petrelv1.Send) { s.Conv, s.User, s.After = "", "nobody", nil })},
			im.CodeForbidden:      {with(func(s *petrelv1.Send) { s.Conv = inbox })},
			im.CodeNoTarget: { // entry 1 is no message
				with(func(s *petrelv1.Send) {
					s.Body = &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 1, Body: &petrelv1.Edit_Text{Text: "y"}}}
				}), with(func(s *petrelv1.Send) { s.Body = &petrelv1.Send_Recall{Recall: &petrelv1.Recall{Target: 1}} }),
			},
			im.CodeAfterAhead: {with(func(s *petrelv1.Send) { s.After = proto.Uint64(9) })},
		} {
			for _, f := range frames {
				alice.send(f)
				e := alice.next().GetError()
				if e.GetCode() != string(code) || e.GetSettled() != code.Info().Settled {
					t.Errorf("%v gets %v, want %s", f, e, code)
				}
			}
		}
		alice.send(text(3, team, "k", strings.Repeat("x", 1000)))
		alice.want("ack 2 of 3")
		if got := len(w.texts(team)); got != 1 {
			t.Errorf("%d messages are stored, want 1", got)
		}
	})
}

// Spec: P-2.6.
func TestFocusOfAClientThatDidNotListItIsUnsupported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice := w.login(w.token("", "alice"))
		alice.send(
			&petrelv1.ClientFrame{Id: 3, Body: &petrelv1.ClientFrame_Focus{Focus: &petrelv1.SetFocus{}}},
			&petrelv1.ClientFrame{Id: 6, Body: &petrelv1.ClientFrame_Pong{Pong: &petrelv1.Pong{}}},
			ping(7),
		)
		alice.want("unsupported of 3", "pong of 7")
		alice.wantNothing()
	})
}

// Spec: P-4.6.
func TestWindowExceededEndsTheConnection(t *testing.T) {
	for _, by := range []string{"sends", "bytes"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				one := len(mustMarshal(t, text(2, someStore.KeyedGroup(1, "team").String(), "k1", "xxxx")))
				if w.limits.WindowSends = 3; by == "bytes" {
					w.limits.WindowSends, w.limits.WindowBytes = -1, 3*one
				}
				w.start()
				id := w.group("team", "alice")
				alice := w.login(w.token("", "alice"))
				for i := range 20 { // answers give the room of their sends back
					alice.send(text(2, id, fmt.Sprint("a", i), "xxxx"))
					alice.want(fmt.Sprintf("ack %d of 2", i+2))
				}
				open := w.store.shut()
				defer open()
				if !alice.send(text(3, id, "k1", "xxxx"), text(4, id, "k2", "xxxx"), text(5, id, "k3", "xxxx")) {
					t.Fatal("sends within the window end the session")
				}
				if alice.send(text(6, id, "k4", "xxxx"), text(7, id, "k5", "xxxx")) {
					t.Error("sends over the window are taken")
				}
				f := alice.next()
				if k := f.GetKick(); k.GetCode() != string(im.CodeWindowExceeded) || !k.GetReconnect() || k.GetReconnectAfterMs() == 0 {
					t.Errorf("frame %v, want a kick with %s and a time to wait", f, im.CodeWindowExceeded)
				}
				alice.wantEnd(im.CodeWindowExceeded)
				alice.close()
				open()
				settled(t, "what was within the window is stored", func() bool { return len(w.texts(id)) == 23 })
			})
		})
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Spec: P-9.2.
func TestSendsAreLimitedInRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SendsPerSecond, w.limits.SendBurst = 10, 3
		w.start()
		id := w.group("team", "alice")
		alice, phone := w.login(w.token("", "alice")), w.login(w.token("", "alice"))
		k := 0
		burst := func(c *client, want ...bool) {
			t.Helper()
			for i, ok := range want {
				k++
				c.send(text(uint64(100+k), id, fmt.Sprint("k", k), "x"))
				f := c.next()
				for f.GetEvents() != nil { // events of the other session's sends
					f = c.next()
				}
				if e := f.GetError(); ok != (f.GetAck() != nil) || !ok && (e.GetCode() != string(im.CodeRateLimited) || e.GetSettled() || e.GetRetryAfterMs() == 0 || e.GetRetryAfterMs() > 101) {
					t.Errorf("send %d of a burst gets %v, accepted should be %t", i, f, ok)
				}
			}
		}
		burst(alice, true, true, true, false, false)
		burst(phone, true) // each session has its own limit
		pass(99 * time.Millisecond)
		burst(alice, false)
		pass(2 * time.Millisecond)
		burst(alice, true, false)
		w.setBack(time.Hour) // the clock is set back
		burst(alice, false)
		pass(10 * time.Second)
		burst(alice, true, true, true, false)
		alice.send(ping(1), history(2, id))
		alice.want("pong of 1") // pings are not limited
	})
}

// The bytes that one user has stored are bounded over all sessions, and the copy of a forward
// counts: a request of a hundred bytes may store 48 KiB. Spec: P-9.2.
func TestBytesOfAUserAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits.SendsPerSecond, w.limits.SendBurst, w.limits.BodyBytes = 1000, 1000, 48<<10
		w.o.Stored = rate.NewBytes[im.Account](64<<10, 256<<10)
		w.start()
		team, own := w.group("team", "alice", "bob"), w.group("own", "alice")
		alice, phone, bob := w.login(w.token("", "alice")), w.login(w.token("", "alice")), w.login(w.token("", "bob"))
		k, heads := 0, map[string]uint64{team: 1, own: 1}
		send := func(what string, c *client, f *petrelv1.ClientFrame, stored bool) {
			t.Helper()
			k++
			f.Id, f.GetSend().ClientMsgId = uint64(1000+k), fmt.Sprint("k", k)
			c.send(f)
			answer := c.next()
			for answer.Id != f.Id { // events of the others
				answer = c.next()
			}
			if e := answer.GetError(); stored != (answer.GetAck() != nil) || !stored && (e.GetCode() != string(im.CodeRateLimited) || e.GetSettled() || e.GetRetryAfterMs() == 0) {
				t.Errorf("%s: %v, stored should be %t", what, answer, stored)
			}
			if id := f.GetSend().Conv; stored {
				if heads[id]++; answer.GetAck().GetSeq() != heads[id] {
					t.Errorf("%s has the seq %d, want %d: one that is refused is not stored", what, answer.GetAck().GetSeq(), heads[id])
				}
			}
		}
		large := func(conv string) *petrelv1.ClientFrame { return text(0, conv, "", strings.Repeat("x", 40<<10)) }
		send("the source", alice, large(own), true)
		for i := range 5 {
			send(fmt.Sprint("forward ", i), alice, forward(0, team, "", own, 2), true)
		}
		send("a forward too much", alice, forward(0, team, "", own, 2), false)
		send("a message too much", alice, large(team), false)
		send("a message by the user's other session", phone, large(team), false)
		send("a short message", alice, text(0, team, "", "short"), true)
		send("a message of another user", bob, large(team), true)
		pass(time.Second)
		send("a message a second later", phone, large(team), true)
		send("and one more", alice, large(team), false)
	})
}

func TestNegativeRatesAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range [][2]int{{-1, 3}, {10, -1}, {-1, -1}} {
			w := newWorld(t)
			w.limits.SendsPerSecond, w.limits.SendBurst = l[0], l[1]
			w.start()
			id := w.group("team", "alice")
			alice := w.login(w.token("", "alice"))
			for i := range 50 {
				alice.send(text(2, id, fmt.Sprint("k", i), "x"))
				if f := alice.next(); f.GetAck() == nil {
					t.Fatalf("%d sends a second, %d at once: send %d gets %v", l[0], l[1], i, f)
				}
			}
		}
	})
}

// A session that is being ended is served no more. A message that it sends while its
// connection is still there is not stored. Spec: P-3.5.
func TestNothingIsStoredAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		id := w.group("team", "alice", "bob")
		alice, bob := w.login(w.token("", "alice")), w.login(w.token("", "bob"))
		_, err := w.hub.CloseUser(context.Background(), account("alice"), im.CodeRevoked)
		w.must(err)
		if alice.send(text(2, id, "k", "though revoked")) {
			t.Error("a revoked session takes a send")
		}
		alice.want("kick revoked")
		bob.send(text(2, id, "k", "afterwards"))
		bob.want("ack 2 of 2")
		if got := w.texts(id); !slices.Equal(got, []string{"bob:afterwards"}) {
			t.Errorf("stored %v", got)
		}
	})
}
