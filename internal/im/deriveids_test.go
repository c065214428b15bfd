package im

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"
)

func TestDirectIDIsTheSameForBoth(t *testing.T) {
	for _, p := range [][2]User{{"alice", "bob"}, {"a", "aa"}, {"Z", "z"}, {"x", "x"}} {
		one, two := ids.Direct(1, p[0], p[1]), ids.Direct(1, p[1], p[0])
		if one != two || one.Kind() != Direct {
			t.Errorf("direct conversation of %s and %s is %s, the other way round %s", p[0], p[1], one, two)
		}
	}
}

// Everything that an id is derived from changes the id. So no two conversations
// share one. The secret is the last of it: the ids of one store tell nothing about
// those of another.
func TestDerivedIDsDiffer(t *testing.T) {
	seen := map[ConvID]string{}
	put := func(what string, c ConvID) {
		if other, ok := seen[c]; ok {
			t.Errorf("%s and %s are both %s", what, other, c)
		}
		seen[c] = what
	}
	for _, secret := range [][16]byte{{}, {1}, {15: 1}, {15: 2}} {
		ids := NewIDs(secret)
		for _, tenant := range []Tenant{1, 2, 256, 1 << 24} {
			for _, p := range [][2]User{{"alice", "bob"}, {"alice", "carol"}, {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"alice", "alice"}} {
				put(Account{tenant, p[0]}.String()+" with "+string(p[1]), ids.Direct(tenant, p[0], p[1]))
			}
			for _, u := range []string{"alice", "abc", "alicebob"} {
				put("inbox of "+Account{tenant, User(u)}.String(), ids.Inbox(tenant, User(u)))
				put("group "+Account{tenant, User(u)}.String(), ids.KeyedGroup(tenant, u))
				put("group requested by "+u, ids.RequestedGroup(Account{tenant, User(u)}, "r"))
			}
		}
	}
	for range 100 {
		put("random group", NewGroupID())
	}
}

// The key comes from the secret by HMAC, and derive hashes what it says, for parts of all
// lengths: around a block of the hash, and beyond what fits the stack.
func TestDerivedIDsAreKeyedHashes(t *testing.T) {
	secret := [16]byte{1, 2, 3}
	label := hmac.New(sha256.New, secret[:])
	label.Write([]byte(idsLabel))
	key := label.Sum(nil)
	d := NewIDs(secret)
	for n := range 1000 {
		part := make([]byte, n)
		h := sha256.New()
		h.Write(key)
		h.Write([]byte{'g', 0, 0, 0, 7, 0, 0, byte(n >> 8), byte(n)})
		h.Write(part)
		want := ConvID(h.Sum(nil)[:16])
		want[0] = 'g'
		if got := d.KeyedGroup(7, string(part)); got != want {
			t.Fatalf("id of a key with %d bytes: %s, want %s", n, got, want)
		}
	}
}

// Derived ids are in the store. If their derivation changed, nobody would find
// their conversations again.
func TestDerivedIDsAreFrozen(t *testing.T) {
	for _, c := range []struct {
		got  ConvID
		want string
	}{
		{ids.Direct(1, "alice", "bob"), "dYueU-Escy4M89eAXHdG9"},
		{ids.Direct(7, "alice", "bob"), "dTJt7QEoei6kDOR94Vsby"},
		{ids.Inbox(1, "alice"), "i8ObaP-wdFEannbKQhvXC"},
		{ids.KeyedGroup(1, "team"), "gv1jmj0HCzTZqzDq1ePi6"},
		{ids.RequestedGroup(Account{1, "alice"}, "r1"), "gpfFfxopdB57MRkQp7w1S"},
	} {
		if c.got.String() != c.want {
			t.Errorf("id %s, want %s", c.got, c.want)
		}
	}
}

func BenchmarkDirectID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		ids.Direct(1, "alice-0001", "bob-000002")
	}
}
