package petrel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// signalTo pushes a signal to the client's session.
func (s *fake) signalTo(x *petrelv1.Signal) {
	s.sessions[len(s.sessions)-1].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Signals: []*petrelv1.Signal{x}}}})
	synctest.Wait()
}

// TestTypingIsNotShownAfterItsMessage: neither if it comes after it, nor if the message comes
// while it is shown. Without a message it ends after 6 s. Spec: P-13.2, P-13.3.
func TestTypingIsNotShownAfterItsMessage(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capSignal}
		s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		typing := func(from string, head uint64) {
			s.signalTo(&petrelv1.Signal{Conv: "g1", From: from, Kind: Typing, Head: head})
		}
		check := func(when, want string) {
			t.Helper()
			v, _ := c.Conversation("g1")
			expect(t, when, fmt.Sprint(v.Typing), want)
		}
		typing("bob", 0)
		typing("carol", 0)
		check("two type", "[bob carol]")
		s.post("g1", text("bob", "sent"))
		synctest.Wait()
		check("bob has sent", "[carol]")
		typing("bob", 0)
		check("a typing came after its message", "[carol]")
		typing("bob", 1)
		check("bob types again", "[bob carol]")
		sub := c.Subscribe()
		_ = sub.Take()
		pass(7 * time.Second)
		check("nobody has typed for 7 s", "[]")
		expect(t, "the end is told", fmt.Sprint(sub.Take().Conversations), "[g1]")
		expect(t, "run", stop(), nil)
	})
}

// TestTypingIsToldEveryThreeSeconds, not for each key. Spec: P-13.2.
func TestTypingIsToldEveryThreeSeconds(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capSignal}
		s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		for range 100 {
			c.Typing("g1")
			pass(100 * time.Millisecond)
		}
		synctest.Wait()
		expect(t, "signals in 10 s", len(s.signaled), 4)
		expect(t, "run", stop(), nil)
	})
}

// TestASignalIsKeptOnce, the newest of each sender and kind, for a minute. Spec: P-13.1.
func TestASignalIsKeptOnce(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capSignal}
		s.conv("g1", "")
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		sub := c.Subscribe()
		_ = sub.Take()
		check := func(when string, told bool, want string) {
			t.Helper()
			got := ""
			for _, x := range c.Signals() {
				got += fmt.Sprintf("%s %s %d;", x.From, x.Kind, x.Id)
			}
			expect(t, when, fmt.Sprint(sub.Take().Signals, " ", got), fmt.Sprint(told, " ", want))
		}
		s.signalTo(&petrelv1.Signal{Conv: "g1", From: "bob", Kind: "call", Id: 1, TimeMs: 10})
		check("a call", true, "bob call 1;")
		s.signalTo(&petrelv1.Signal{Conv: "g1", From: "bob", Kind: "call", Id: 1, TimeMs: 10})
		check("the same again", false, "bob call 1;")
		s.signalTo(&petrelv1.Signal{Conv: "g1", From: "bob", Kind: "call", Id: 3, TimeMs: 30})
		s.signalTo(&petrelv1.Signal{Conv: "g1", From: "bob", Kind: "call", Id: 2, TimeMs: 20})
		s.signalTo(&petrelv1.Signal{Conv: "g1", From: "carol", Kind: "call", Id: 4, TimeMs: 40})
		check("newer ones, out of order", true, "bob call 3;carol call 4;")
		pass(time.Minute)
		check("a minute later", false, "")
		expect(t, "run", stop(), nil)
	})
}

// TestWatchesAreSetAnewOnEachConnection: the client sends the watched users after each
// welcome, and again when the server has refused them for the moment. Without a connection it
// knows no presence. Spec: P-13.5.
func TestWatchesAreSetAnewOnEachConnection(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.caps = []string{capPresence}
		c := s.client(Options{})
		c.Watch("", "bob", "carol")
		stop := run(c)
		synctest.Wait()
		expect(t, "watched", fmt.Sprint(s.watched), "[[bob carol]]")
		push := func(list ...*petrelv1.Presence) {
			s.sessions[len(s.sessions)-1].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Presences: list}}})
			synctest.Wait()
		}
		sub := c.Subscribe()
		_ = sub.Take()
		push(&petrelv1.Presence{User: "bob", Online: true}, &petrelv1.Presence{User: "carol", LastMs: 600_000}, &petrelv1.Presence{User: "eve", Online: true})
		bob, _ := c.Presence("bob")
		carol, _ := c.Presence("carol")
		_, eve := c.Presence("eve")
		expect(t, "known", fmt.Sprint(bob.Online, carol.Online, carol.Last.UnixMilli(), eve, sub.Take().Presence), "true false 600000 false true")
		push(&petrelv1.Presence{User: "bob", Online: true})
		expect(t, "nothing new is told", sub.Take().Presence, false)
		s.busy = true
		_ = s.sessions[0].conn.Close()
		pass(5 * time.Second)
		_, known := c.Presence("bob")
		expect(t, "after the connection was lost", fmt.Sprint(known, len(s.watched)), "false 3")
		c.Watch("", "bob")
		synctest.Wait()
		expect(t, "another list", fmt.Sprint(s.watched[len(s.watched)-1]), "[bob]")
		expect(t, "run", stop(), nil)
	})
}
