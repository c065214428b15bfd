package im

import (
	"crypto/rand"
	"strings"
	"testing"
)

var kinds = []Kind{Direct, Group, Channel, Chatroom, Inbox}

func TestConvIDRoundTrip(t *testing.T) {
	for _, k := range kinds {
		for range 200 {
			var c ConvID
			_, _ = rand.Read(c[1:]) // never fails
			c[0] = byte(k)
			s := c.String()
			if got, err := ParseConvID(s); err != nil || got != c {
				t.Fatalf("ParseConvID(%q) = %x, %v; want %x", s, got, err, c)
			}
			if len(s) != 21 || c.Kind() != k {
				t.Fatalf("id %q of kind %c has %d characters and says kind %c, want 21", s, k, len(s), c.Kind())
			}
		}
	}
}

func TestParseConvIDRefusesWhatStringNeverWrites(t *testing.T) {
	good := InboxID(1, "alice").String()
	for name, s := range map[string]string{
		"empty": "", "short": good[:20], "long": good + "A", "kind only": "g", "unknown kind": "x" + good[1:], "upper case kind": "I" + good[1:],
		"plus": good[:20] + "+", "slash": good[:20] + "/", "padding": good[:20] + "=", "padding at 2": good[:19] + "==",
		"space": good[:20] + " ", "NUL": good[:20] + "\x00", "not ASCII": good[:19] + "é", "not UTF-8": good[:20] + "\xff",
		"line feed": good[:20] + "\n", "line feeds": good[:19] + "\n\n", "carriage return": "i\r" + good[2:], "spread": "i\n" + good[2:18] + "\r\n\n",
	} {
		if c, err := ParseConvID(s); err == nil || c != (ConvID{}) || CodeOf(err) != CodeNoConversation {
			t.Errorf("%s: ParseConvID(%q) = %x, %v; want no id and %s", name, s, c, err, CodeNoConversation)
		}
	}
}

// An id has one text form only. Clients and the dedupe of the inboxes compare the
// texts: with two forms, one conversation would look like two.
func FuzzParseConvID(f *testing.F) {
	f.Add(InboxID(1, "alice").String())
	f.Add("g\n\nAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseConvID(s); err == nil && c.String() != s {
			t.Errorf("%q is read as %q", s, c)
		}
	})
}

func TestDirectIDIsTheSameForBoth(t *testing.T) {
	for _, p := range [][2]User{{"alice", "bob"}, {"a", "aa"}, {"Z", "z"}, {"x", "x"}} {
		one, two := DirectID(1, p[0], p[1]), DirectID(1, p[1], p[0])
		if one != two || one.Kind() != Direct {
			t.Errorf("direct conversation of %s and %s is %s, the other way round %s", p[0], p[1], one, two)
		}
	}
}

// Everything that an id is derived from changes the id. So no two conversations
// share one.
func TestDerivedIDsDiffer(t *testing.T) {
	seen := map[ConvID]string{}
	put := func(what string, c ConvID) {
		if other, ok := seen[c]; ok {
			t.Errorf("%s and %s are both %s", what, other, c)
		}
		seen[c] = what
	}
	for _, tenant := range []Tenant{1, 2, 256, 1 << 24} {
		for _, p := range [][2]User{{"alice", "bob"}, {"alice", "carol"}, {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"alice", "alice"}} {
			put(Account{tenant, p[0]}.String()+" with "+string(p[1]), DirectID(tenant, p[0], p[1]))
		}
		for _, u := range []string{"alice", "abc", "alicebob"} {
			put("inbox of "+Account{tenant, User(u)}.String(), InboxID(tenant, User(u)))
			put("group "+Account{tenant, User(u)}.String(), KeyedGroupID(tenant, u))
		}
	}
	for range 100 {
		put("random group", NewGroupID())
	}
}

// Derived ids are in the store. If their derivation changed, nobody would find
// their conversations again.
func TestDerivedIDsAreFrozen(t *testing.T) {
	for _, c := range []struct {
		got  ConvID
		want string
	}{
		{DirectID(1, "alice", "bob"), "d8RN7iMNITU0mIb0XxQAv"},
		{DirectID(7, "alice", "bob"), "dJG7lbz68ae_dcnNIqAdM"},
		{InboxID(1, "alice"), "iDZyNF3ZHqisvWUE89S2_"},
		{KeyedGroupID(1, "team"), "gKQtYt3wSdI4pbTbl9KK9"},
	} {
		if c.got.String() != c.want {
			t.Errorf("id %s, want %s", c.got, c.want)
		}
	}
}

func TestPartitionsAreAllUsed(t *testing.T) {
	seen := map[Partition]int{}
	for range 20_000 {
		p := PartitionOf(NewGroupID())
		if p >= Partitions {
			t.Fatalf("partition %d, there are %d", p, Partitions)
		}
		seen[p]++
	}
	if len(seen) != Partitions {
		t.Errorf("20,000 groups use %d of %d partitions", len(seen), Partitions)
	}
}

func TestUserCheck(t *testing.T) {
	for _, u := range []User{"a", "alice", "A.b_c@d+e-9", "...", "-", User(strings.Repeat("x", MaxUser))} {
		if err := u.Check(); err != nil {
			t.Errorf("user %q: %v", u, err)
		}
	}
	for _, u := range []User{"", User(strings.Repeat("x", MaxUser+1)), "a b", "a/b", "a:b", "a\x00", "a\n", "é", "a\xff", "a%", "a,b", "a#"} {
		if err := u.Check(); CodeOf(err) != CodeInvalid || err == nil {
			t.Errorf("user %q: %v, want %s", u, err, CodeInvalid)
		}
	}
}
