package im

import (
	"crypto/rand"
	"strings"
	"testing"
)

// ids are those of some store.
var ids = NewIDs([16]byte{15: 1})

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
	good := ids.Inbox(1, "alice").String()
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
	f.Add(ids.Inbox(1, "alice").String())
	f.Add("g\n\nAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseConvID(s); err == nil && c.String() != s {
			t.Errorf("%q is read as %q", s, c)
		}
	})
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
