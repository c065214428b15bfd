package petrel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// all are the settings that the client shows, sorted.
func (c *Client) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []string{}
	for of, names := range c.core.settings {
		for name, s := range names {
			if s.value != "" {
				out = append(out, strings.TrimSpace(fmt.Sprintf("%s%s %s=%s", of.conv, of.user, name, s.value)))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Spec: P-8.10.
func TestSettingsAreTheNewestOfEachName(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		v := s.conv("d1", "bob")
		v.add(text("bob", "hi"))
		var page *petrelv1.SyncPage // the next one, instead of what the fake says
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if f.GetSync() == nil || page == nil {
				return false
			}
			ss.lagged = false
			ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Sync{Sync: page}})
			page = nil
			return true
		}
		st := NewMemory()
		c := s.client(Options{Store: st})
		stop := run(c)
		synctest.Wait()
		push := func(seq uint64, e *petrelv1.InboxSettings) {
			m := &petrelv1.Message{Conv: "inbox", Seq: seq, Body: &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Settings{Settings: e}}}}
			s.mu.Lock()
			s.sessions[len(s.sessions)-1].event(m)
			s.mu.Unlock()
			synctest.Wait()
		}
		sync := func(p *petrelv1.SyncPage) {
			s.mu.Lock()
			page = p
			s.sessions[len(s.sessions)-1].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}})
			s.mu.Unlock()
			synctest.Wait()
		}
		pinned := func(seq uint64, n string) *petrelv1.Personal {
			return &petrelv1.Personal{Seq: seq, Conv: "d1", Name: "pinned", Value: n}
		}
		push(5, &petrelv1.InboxSettings{Conv: "d1", Values: map[string]string{"pinned": "7", "archived": "1", "cleared_to": "4"}})
		push(6, &petrelv1.InboxSettings{User: "bob", Values: map[string]string{"blocked": "1"}})
		v1, _ := c.Conversation("d1")
		expect(t, "pushed", v1.Personal, Personal{Pinned: 7, Archived: true, ClearedTo: 4, Blocked: true})
		expect(t, "blocked", c.Blocked(), []string{"bob"})
		push(7, &petrelv1.InboxSettings{Conv: "d1", Values: map[string]string{"archived": ""}})
		sync(&petrelv1.SyncPage{Personal: []*petrelv1.Personal{pinned(3, "1"), {Seq: 4, Conv: "d1", Name: "archived", Value: "1"}}, Token: []byte("t")})
		want := []string{"bob blocked=1", "d1 cleared_to=4", "d1 pinned=7"}
		expect(t, "older ones by sync", c.all(), want)
		sync(&petrelv1.SyncPage{Personal: []*petrelv1.Personal{pinned(8, "2"), {Seq: 9, Name: "theme", Value: "dark"}}, Token: []byte("t")})
		want = []string{"bob blocked=1", "d1 cleared_to=4", "d1 pinned=2", "theme=dark"}
		expect(t, "newer ones by sync", c.all(), want)
		expect(t, "run", stop(), nil)

		// The store has the settings that the client knows, and a reset drops those that do
		// not come again.
		c = s.client(Options{Store: st})
		expect(t, "loaded", c.all(), want)
		stop = run(c)
		synctest.Wait()
		push(12, &petrelv1.InboxSettings{Values: map[string]string{"lang": "fr"}})
		s.mu.Lock()
		page = &petrelv1.SyncPage{PersonalReset: true, Personal: []*petrelv1.Personal{pinned(10, "3")}, Token: []byte("t"), More: true}
		s.mu.Unlock()
		c.do(func(k *core) { k.startSync() })
		synctest.Wait()
		expect(t, "told anew, while something newer was pushed", c.all(), []string{"d1 pinned=3", "lang=fr"})
		expect(t, "run", stop(), nil)
		c = s.client(Options{Store: st})
		expect(t, "loaded again", c.all(), []string{"d1 pinned=3", "lang=fr"})
		stop = run(c)
		synctest.Wait()
		s.mu.Lock()
		s.history = "h2"
		for _, ss := range s.sessions {
			_ = ss.conn.Close()
		}
		s.mu.Unlock()
		synctest.Wait()
		expect(t, "run", stop(), nil)
		c = s.client(Options{Store: st})
		stop = run(c)
		synctest.Wait()
		expect(t, "of another history", c.all(), []string{})
		expect(t, "run", stop(), nil)
	})
}

// Spec: P-8.10.
func TestHiddenSeqsAreHidden(t *testing.T) {
	p := Personal{ClearedTo: 2, Hidden: "4,7-9,12-9223372036854775807"}
	var got []uint64
	for seq := range uint64(15) {
		if p.Hides(seq) {
			got = append(got, seq)
		}
	}
	expect(t, "hidden", got, []uint64{0, 1, 2, 4, 7, 8, 9, 12, 13, 14})
	expect(t, "nothing is hidden", Personal{}.Hides(1), false)
}
