package fanout

import (
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// An announcement that comes while a node reads the standing of a session is newer than what the node read, and stays.
func TestAnAnnouncedStandingStays(t *testing.T) {
	f := New(NewTable())
	bob := listening(t, f, "bob", 1<<20).out
	wants := func(what string, want im.Standing) {
		t.Helper()
		if is := bob.Standing(); is != want {
			t.Errorf("%s: %+v, want %+v", what, is, want)
		}
	}
	wants("at first", im.Standing{})
	free, muted := im.Standing{}, im.Standing{MutedMs: 1<<41 + 1}
	private, both := im.Standing{PrivateReading: true}, im.Standing{MutedMs: 1<<41 + 1, PrivateReading: true}
	bob.Asks()(muted)
	wants("read", muted)
	learn := bob.Asks()
	if n := f.Table.Announce(bob.Account, both); n != 1 {
		t.Errorf("announced to %d sessions", n)
	}
	learn(muted)
	wants("announced while it was read", both)
	bob.Asks()(private)
	wants("read again", private)
	bob.Asks()(free)
	wants("ended", free)
	learn = bob.Asks()
	f.Table.Announce(bob.Account, muted)
	learn(free)
	wants("announced after it was known", muted)
	fresh := NewOutbox(protoTCP, NewFlusher(func() {}), 1<<20)
	fresh.Account = bob.Account
	f.Table.Enter(fresh.Account, fresh, -1)
	learn = fresh.Asks()
	f.Table.Announce(bob.Account, free)
	learn(muted)
	if is := fresh.Standing(); is != free {
		t.Errorf("a session that begins is %+v by an answer from before the end of the mute", is)
	}
}

// A user who reads privately gets receipts of the own cursor alone, also out of a frame with those of others.
// Spec: P-14.14.
func TestAPrivateReaderGetsOwnReceiptsOnly(t *testing.T) {
	f, id := New(NewTable()), convs(1)[0]
	key := im.Key{Tenant: im.DefaultTenant, Conv: id}
	bob, carol := listening(t, f, "bob", 1<<20), listening(t, f, "carol", 1<<20)
	bob.out.Asks()(im.Standing{PrivateReading: true})
	got := func(s *screen) (users []string) {
		p, _ := s.out.Take()
		defer s.out.Wrote(p, 0)
		for _, fr := range frames(t, p.Bytes) {
			for _, r := range fr.GetEvents().GetReceipts() {
				users = append(users, r.User)
			}
		}
		return users
	}
	wants := func(moved []string, ofBob, ofCarol int) {
		t.Helper()
		var all []Receipt
		for _, u := range moved {
			all = append(all, Receipt{Receipt: &petrelv1.Receipt{Conv: id.String(), User: u, Read: 1}})
		}
		f.Receipts(key, []im.User{"bob", "carol"}, all)
		f.Flush()
		if b, c := got(bob), got(carol); len(b) != ofBob || ofBob == 1 && b[0] != "bob" || len(c) != ofCarol {
			t.Errorf("of %v, bob gets %v and carol %v", moved, b, c)
		}
	}
	wants([]string{"alice"}, 0, 1)
	wants([]string{"alice", "bob"}, 1, 2)
	wants([]string{"bob"}, 1, 1)
	bob.out.Asks()(im.Standing{})
	wants([]string{"alice", "bob"}, 2, 2)
}
