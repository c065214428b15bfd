package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

func TestProfilesAreShownAndChanged(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-f", "bob-f").want(t, exitOK)
	change := func(exit int, want string, args ...string) {
		t.Helper()
		petrel(t, s.env(), append([]string{"user", "profile"}, args...)...).want(t, exit, want)
	}
	change(exitUsage, "give one or more of --name, --about", "alice-f")
	change(exitUsage, "it has the form NAME=VALUE", "alice-f", "--field", "title")
	change(exitFailed, "error no_user", "nobody-f", "--name", "Nobody")
	change(exitFailed, "error invalid", "alice-f", "--handle", "Alice F")
	all := []string{"alice-f", "--name", "Alice F", "--about", "watches birds", "--handle", "alice.f", "--field", "title=Captain",
		"--field", "unit=a=b", "--hide", "about", "--hide", "fields.unit", "--for-contacts", "handle"}
	change(exitOK, "alice-f has another profile", all...)
	change(exitOK, "alice-f had this profile already", all...)
	change(exitFailed, "error handle_taken", "bob-f", "--handle", "alice.f")
	petrel(t, s.env(), "user", "show", "alice-f").want(t, exitOK, "name      Alice F\n", "about     watches birds  (hidden from others)\n",
		"handle    alice.f  (for contacts)\n", "field     title = Captain\n", "field     unit = a=b  (hidden from others)\n")
	change(exitOK, `{"changed":true,"user":"alice-f"}`, "alice-f", "--about", "", "--field", "title=", "--reveal", "fields.unit", "--json")
	u := jsonLines(t, petrel(t, s.env(), "user", "show", "alice-f", "--json"))[0]
	p := u["profile"].(map[string]any)
	if p["about"] != nil || p["handle"] != "alice.f" || fmt.Sprint(p["fields"]) != "map[unit:a=b]" || p["version"] == "" {
		t.Errorf("after the change: got %v", p)
	}
}

func TestATenantSaysWhoChangesProfiles(t *testing.T) {
	s := serveShared(t)
	show := func(want string) {
		t.Helper()
		petrel(t, s.env(), "tenant", "show", "--tenant", "managed-f").want(t, exitOK, want)
	}
	set := func(fields ...string) []string {
		return append([]string{"tenant", "managed", "--tenant", "managed-f"}, fields...)
	}
	petrel(t, s.env(), set("fields.title", "display_name")...).want(t, exitOK, "profiles        only the back end changes display_name, fields.title\n")
	petrel(t, s.env(), set("surname")...).want(t, exitFailed, "error invalid", "display_name")
	petrel(t, s.env(), set("none", "about")...).want(t, exitUsage, "only none")
	show("only the back end changes display_name, fields.title")
	r := jsonLines(t, petrel(t, s.env(), append(set("none"), "--json")...))[0]
	if r["managed"] != nil {
		t.Errorf("managed: got %v", r)
	}
	show("users change all fields")
}

func TestContactsAreListedAndChanged(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-c", "bob-c", "carol-c").want(t, exitOK)
	petrel(t, s.env(), "user", "contacts", "alice-c", "--add", "bob-c", "--add", "carol-c").want(t, exitOK, "contacts of alice-c: 2 added, 0 removed\n")
	petrel(t, s.env(), "user", "contacts", "alice-c").want(t, exitOK, "bob-c    contact", "carol-c  contact")
	petrel(t, s.env(), "user", "contacts", "carol-c", "--remove", "alice-c", "--json").want(t, exitOK, `{"added":0,"removed":1,"user":"carol-c"}`)
	if all := jsonLines(t, petrel(t, s.env(), "user", "contacts", "alice-c", "--json")); len(all) != 1 || all[0]["user"] != "bob-c" {
		t.Errorf("contacts of alice-c: %v", all)
	}
	petrel(t, s.env(), "user", "contacts", "alice-c", "--add", "nobody-c").want(t, exitFailed, "error no_user")
	petrel(t, s.env(), "user", "contacts", "nobody-c").want(t, exitFailed, "error no_user")
}

// A profile that comes late is in later lines, so the list is asked for until it has the name.
func TestChatShowsDisplayNamesBesideIds(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-n", "bob-n").want(t, exitOK)
	petrel(t, s.env(), "user", "profile", "alice-n", "--name", "Alice N").want(t, exitOK)
	petrel(t, s.env(), "send", "--as", "alice-n", "--to", "bob-n", "hi").want(t, exitOK)
	bob := startChat(t, s.env(), "--as", "bob-n", "--to", "alice-n", "--last", "9")
	bob.hears(`@alice-n.* #1  alice-n.*: hi`)
	ctx := eventually.Context(t)
	for line := ""; !strings.Contains(line, "(Alice N)"); {
		if ctx.Err() != nil {
			t.Fatalf("the list has never had the name: %s", line)
		}
		bob.say("/list")
		line = bob.hears(`^  1  @alice-n.*  0 unread$`)
	}
	petrel(t, s.env(), "send", "--as", "alice-n", "--to", "bob-n", "again").want(t, exitOK)
	bob.hears(`@alice-n \(Alice N\) #2  alice-n \(Alice N\): again`)
	bob.end(exitOK)
}
