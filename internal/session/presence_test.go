package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func watchFrame(users ...string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: 7, Body: &petrelv1.ClientFrame_Watch{Watch: &petrelv1.SetWatch{Users: users}}}
}

// presences are what a client was told of presence since the last call, once d has passed:
// "bob on", "bob off", or "bob seen", if it was told until when.
func (c *client) presences(d time.Duration) (all []string) {
	pass(d)
	c.take()
	for _, f := range c.frames {
		for _, x := range f.GetEvents().GetPresences() {
			l := x.User + " off"
			switch {
			case x.Online:
				l = x.User + " on"
			case x.LastMs > 0:
				l = x.User + " seen"
			}
			all = append(all, l)
		}
	}
	c.frames = nil
	return all
}

func (c *client) wantPresence(when string, d time.Duration, want ...string) {
	c.t.Helper()
	if got := c.presences(d); fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Errorf("%s it was told %q, want %q", when, got, want)
	}
}

func sendTo(id uint64, user, text string) *petrelv1.ClientFrame {
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Send{Send: &petrelv1.Send{
		User: user, ClientMsgId: fmt.Sprint("m", id), Body: &petrelv1.Send_Text{Text: text},
	}}}
}

// The first writer sees nothing of the other user, and is seen by them, also by sessions that watch
// before the message, or at once after it. Spec: P-13.6.
func TestWhoHasWrittenIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		stranger, bob, carol := w.listenTo(w.token("", "stranger")), w.listenTo(w.token("", "bob")), w.listenTo(w.token("", "carol"))
		for _, c := range []*client{bob, stranger} {
			c.send(watchFrame("bob", "stranger"))
		}
		bob.wantPresence("before any message", time.Second, "bob on", "stranger off")
		stranger.wantPresence("before any message", time.Second, "bob off", "stranger on")
		stranger.send(sendTo(8, "bob", "hi"))
		stranger.send(watchFrame("bob"))
		stranger.wantPresence("who has written", time.Minute, "bob off")
		bob.wantPresence("to whom was written", 0, "stranger on")
		bob.send(sendTo(8, "stranger", "who are you?"))
		stranger.wantPresence("who was answered", time.Second, "bob on")
		bob.wantPresence("who has answered", time.Second)
		carol.send(watchFrame("bob"))
		carol.wantPresence("who has heard nothing", time.Second, "bob off")
		bob.send(sendTo(9, "carol", "hi"))
		for len(carol.frames) == 0 {
			carol.take()
			pass(time.Millisecond)
		}
		carol.send(watchFrame("bob")) // at once
		if all := carol.presences(time.Second); len(all) == 0 || all[len(all)-1] != "bob on" {
			t.Errorf("who watches at once after the message was told %q, want at last bob on", all)
		}
	})
}

// A block looks as if the blocker went, and stays so for a session that begins later.
// Spec: P-5.4.
func TestABlockLooksLikeGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t).start()
		alice, bob := w.listenTo(w.token("", "alice")), w.listenTo(w.token("", "bob"))
		bob.send(sendTo(8, "alice", "hi"))
		alice.send(watchFrame("bob"))
		alice.wantPresence("at first", time.Second, "bob on")
		block := func(value string) {
			e := &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{User: "alice", Values: map[string]string{"blocked": value}}}}
			if _, err := inbox.Write(t.Context(), w.convs, im.Account{Tenant: im.DefaultTenant, User: "bob"}, e, "block "+value); err != nil {
				t.Fatal(err)
			}
		}
		block("1")
		alice.wantPresence("29 s after the block", 29*time.Second)
		alice.wantPresence("31 s after the block", 2*time.Second, "bob seen")
		alice.close()
		alice = w.listenTo(w.token("", "alice"))
		alice.send(watchFrame("bob"))
		alice.wantPresence("in a new session", time.Second, "bob seen")
		w.stop()
		w.start()
		bob = w.listenTo(w.token("", "bob"))
		alice = w.listenTo(w.token("", "alice"))
		alice.send(watchFrame("bob"))
		alice.wantPresence("after a restart", time.Second, "bob seen")
		block("")
		alice.wantPresence("when it ends", time.Second, "bob on")
		bob.close()
	})
}
