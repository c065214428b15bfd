package session_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func signalFrame(id uint64, f *petrelv1.SendSignal) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Signal{Signal: f}}
}

// listenTo logs in a client that understands what is lossy.
func (w *world) listenTo(token string) *client {
	w.t.Helper()
	c := w.connect()
	h := hello(token)
	h.GetHello().Capabilities = []string{"signal", "presence"}
	c.send(h)
	c.want("welcome of 1")
	return c
}

// answered sends a frame and returns the code of its answer; empty: none.
func (c *client) answered(f *petrelv1.ClientFrame) string {
	c.t.Helper()
	c.send(f)
	for {
		if got := c.next(); got.Id == f.Id {
			return got.GetError().GetCode()
		}
	}
}

// Spec: P-13.1, P-13.2, P-13.4.
func TestSignalsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		group := w.group("team", "alice", "bob")
		alice := w.listenTo(w.token("", "alice"))
		direct := w.convs.IDs().Direct(im.DefaultTenant, "alice", "nobody").String()
		inbox := w.convs.IDs().Inbox(im.DefaultTenant, "alice").String()
		for name, c := range map[string]struct {
			f    *petrelv1.SendSignal
			want im.Code
		}{
			"typing":                       {&petrelv1.SendSignal{Conv: group, Kind: "typing"}, ""},
			"1 KiB":                        {&petrelv1.SendSignal{Conv: group, Kind: "x", Data: make([]byte, 1024)}, ""},
			"held for a minute":            {&petrelv1.SendSignal{User: "bob", Kind: "call", HoldMs: 60000}, ""},
			"to a user who does not exist": {&petrelv1.SendSignal{User: "nobody", Kind: "x"}, ""},
			"to no such conversation":      {&petrelv1.SendSignal{Conv: direct, Kind: "x"}, ""},
			"to two":                       {&petrelv1.SendSignal{Conv: group, User: "bob", Kind: "x"}, im.CodeInvalid},
			"to nobody":                    {&petrelv1.SendSignal{Kind: "x"}, im.CodeInvalid},
			"without a kind":               {&petrelv1.SendSignal{Conv: group}, im.CodeInvalid},
			"a long kind":                  {&petrelv1.SendSignal{Conv: group, Kind: strings.Repeat("x", 33)}, im.CodeInvalid},
			"a reserved kind":              {&petrelv1.SendSignal{Conv: group, Kind: "petrel.x"}, im.CodeInvalid},
			"more than 1 KiB":              {&petrelv1.SendSignal{Conv: group, Kind: "x", Data: make([]byte, 1025)}, im.CodeTooLarge},
			"held for longer":              {&petrelv1.SendSignal{User: "bob", Kind: "call", HoldMs: 60001}, im.CodeInvalid},
			"held in a group":              {&petrelv1.SendSignal{Conv: group, Kind: "call", HoldMs: 1}, im.CodeInvalid},
			"typing with data":             {&petrelv1.SendSignal{Conv: group, Kind: "typing", Data: []byte("x")}, im.CodeInvalid},
			"typing that is held":          {&petrelv1.SendSignal{User: "bob", Kind: "typing", HoldMs: 1}, im.CodeInvalid},
			"to an inbox":                  {&petrelv1.SendSignal{Conv: inbox, Kind: "x"}, im.CodeInvalid},
			"to no id":                     {&petrelv1.SendSignal{Conv: "x", Kind: "x"}, im.CodeInvalid},
			"to no user id":                {&petrelv1.SendSignal{User: "a/b", Kind: "x"}, im.CodeInvalid},
		} {
			pass(time.Second)
			if got := alice.answered(signalFrame(7, c.f)); got != string(c.want) {
				t.Errorf("%s: answered %q, want %q", name, got, c.want)
			}
		}
		pass(time.Minute)
		codes := map[string]int{}
		for range 30 {
			codes[alice.answered(signalFrame(7, &petrelv1.SendSignal{Conv: group, Kind: "x"}))]++
		}
		if codes[""] != 20 || codes["rate_limited"] != 10 {
			t.Errorf("30 signals at once were answered %v, want 20 taken and 10 rate_limited", codes)
		}
		if got := w.login(w.token("", "carol")).answered(signalFrame(7, &petrelv1.SendSignal{Conv: group, Kind: "x"})); got != "unsupported" {
			t.Errorf("a client that did not list the capability was answered %q", got)
		}
	})
}

// Spec: P-13.5.
func TestWatchesAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		many := make([]string, 201)
		for i := range many {
			many[i] = fmt.Sprint("u", i)
		}
		watch := func(users ...string) *petrelv1.ClientFrame {
			return &petrelv1.ClientFrame{Id: 7, Body: &petrelv1.ClientFrame_Watch{Watch: &petrelv1.SetWatch{Users: users}}}
		}
		alice := w.listenTo(w.token("", "alice"))
		for _, c := range []struct {
			users []string
			want  im.Code
		}{{[]string{"bob", "bob"}, ""}, {nil, ""}, {many[:200], ""}, {many, im.CodeInvalid}, {[]string{"no/id"}, im.CodeInvalid}, {[]string{""}, im.CodeInvalid}} {
			pass(time.Second)
			if got := alice.answered(watch(c.users...)); got != string(c.want) {
				t.Errorf("a watch of %d users was answered %q, want %q", len(c.users), got, c.want)
			}
		}
		pass(time.Minute)
		codes := map[string]int{}
		for range 15 {
			codes[alice.answered(watch("bob"))]++
		}
		if codes[""] != 10 || codes["rate_limited"] != 5 {
			t.Errorf("15 watches at once were answered %v, want 10 taken and 5 rate_limited", codes)
		}
		if got := w.login(w.token("", "carol")).answered(watch("bob")); got != "unsupported" {
			t.Errorf("a client that did not list the capability was answered %q", got)
		}
		alice.close()
		settled(t, "nobody is watched", func() bool { return w.presence.Watching.Load() == 0 })
	})
}

// TestHeldSignalsComeAfterTheWelcome, once for each device that connects. Spec: P-13.4.
func TestHeldSignalsComeAfterTheWelcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice := w.listenTo(w.token("", "alice"))
		bobs := w.token("", "bob")
		tablet := w.listenTo(bobs)
		alice.send(&petrelv1.ClientFrame{Id: 2, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{User: "bob", ClientMsgId: "k", Body: &petrelv1.Send_Text{Text: "hi"}}}})
		alice.want("ack 1 of 2")
		if got := alice.answered(signalFrame(3, &petrelv1.SendSignal{User: "bob", Kind: "call", HoldMs: 60000})); got != "" {
			t.Fatalf("the call was answered %s", got)
		}
		var call *petrelv1.Signal // as the device got it that was there: it is held by then
		for call == nil {
			if got := tablet.next().GetEvents().GetSignals(); len(got) > 0 {
				call = got[0]
			}
		}
		if call.From != "alice" || call.Kind != "call" || call.Head != 1 || call.Id == 0 || call.TimeMs != bubbleBegin {
			t.Errorf("bob's tablet got %v, want the call of alice", call)
		}
		for i := range 2 {
			phone := w.listenTo(bobs)
			phone.send(ping(9))
			var got []*petrelv1.Signal
			for pong := false; !pong; {
				f := phone.next()
				got = append(got, f.GetEvents().GetSignals()...)
				pong = f.GetPong() != nil
			}
			phone.close()
			if len(got) != 1 || got[0].Id != call.Id {
				t.Errorf("connection %d of bob's phone got %v, want the call, with the same id", i, got)
			}
		}
	})
}
