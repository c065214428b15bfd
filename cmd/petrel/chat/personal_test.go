package chat

import (
	"strings"
	"testing"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
)

func TestOrdersThatSetSomething(t *testing.T) {
	for line, want := range map[string]struct {
		wait  time.Duration
		text  string
		user  string
		wrong bool
	}{
		"/mute": {}, "/mute off": {text: "off"}, "/mute 8h": {wait: 8 * time.Hour}, "/mute 2d": {wait: 48 * time.Hour},
		"/mute soon": {wrong: true}, "/mute -1h": {wrong: true}, "/mute 999999d": {wrong: true},
		"/top": {}, "/top off": {text: "off"}, "/top on": {wrong: true}, "/archive off": {text: "off"}, "/unread": {}, "/clear": {}, "/clear all": {wrong: true},
		"/block @bob": {user: "bob"}, "/block": {}, "/unblock bob": {user: "bob"}, "/block bob carol": {wrong: true},
	} {
		o, is, err := parse(line)
		if !is || (err != nil) != want.wrong {
			t.Errorf("%s: %v, want wrong %t", line, err, want.wrong)
		}
		if err == nil && (o.wait != want.wait || o.text != want.text || strings.Join(o.users, " ") != want.user) {
			t.Errorf("%s: %+v, want %+v", line, o, want)
		}
	}
}

func TestListIsOrderedAsThePersonHasSet(t *testing.T) {
	v := newTestView(t, 90, 16)
	v.list = ordered([]conversation{
		{id: "g1", name: "newest", at: noon}, {id: "g2", name: "put away", set: petrel.Personal{Archived: true}}, {id: "g3", name: "second", set: petrel.Personal{Pinned: 9}},
		{id: "g4", name: "first", set: petrel.Personal{Pinned: 2, MutedUntil: noon.Add(time.Hour)}}, {id: "g5", name: "marked", set: petrel.Personal{Unread: true}},
	})
	v.open = "g4"
	got := strings.Join(screen(v), "\n")
	at := 0
	for _, name := range []string{"▴first", "▴second", "newest", "marked", "put away"} {
		i := strings.Index(got[at:], name)
		if i < 0 {
			t.Fatalf("%s is not in its place:\n%s", name, got)
		}
		at += i
	}
	if !strings.Contains(got, "muted, pinned") || strings.Count(got, "•") != 1 {
		t.Errorf("the screen does not say what is set:\n%s", got)
	}
	v.now = func() time.Time { return noon.Add(2 * time.Hour) }
	if got := strings.Join(screen(v), "\n"); strings.Contains(got, "muted") {
		t.Errorf("muted for ever:\n%s", got)
	}
	if !hidden(&petrel.Conversation{Personal: petrel.Personal{Blocked: true}}) || hidden(&petrel.Conversation{}) {
		t.Error("a conversation with a blocked user in which nothing may be read is listed, or another one is not")
	}
}
