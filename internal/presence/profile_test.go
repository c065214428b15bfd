package presence_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// profiles are what the store has of profiles.
type profiles struct {
	rest     map[im.User]string // the part of a profile that everybody sees
	shared   map[im.User]string // a part that only contacts see
	hidden   string             // a part that others do not see
	contacts []string           // im.PairKey of a user and of a contact of theirs
}

// knows tells who has written to the watcher; in a group everybody whose id begins with m knows the others.
func (s *accounts) knows(_ context.Context, watcher im.Account, in im.Key, users []im.User) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]bool, len(users))
	s.note("who is known to %s", watcher.User)
	for i, u := range users {
		for _, key := range s.peers {
			all[i] = all[i] || key == string(im.PairKey(watcher.User, u))
		}
		all[i] = all[i] || u == watcher.User || in != im.Key{} && watcher.User[0] == 'm' && u[0] == 'm'
	}
	return all, s.broken
}

// versions are those of a user's profile, with mu held.
func (s *accounts) versions(u im.User) user.ProfileVersions {
	v := s.rest[u]
	if v == "" {
		return user.ProfileVersions{}
	}
	return user.ProfileVersions{ForOthers: v, ForContacts: v + s.shared[u], Own: "own " + v + s.shared[u] + s.hidden}
}

func (s *accounts) haveAsContact(_ context.Context, other im.Account, users []im.User) ([]bool, error) {
	s.mu.Lock()
	all, slow := make([]bool, len(users)), s.slow
	for i, u := range users {
		s.note("contacts of %s", u)
		all[i] = slices.Contains(s.contacts, string(im.PairKey(u, other.User)))
	}
	s.mu.Unlock()
	if slow > 0 {
		<-time.After(slow) // it may be old by then
	}
	return all, s.broken
}

// setContact makes or removes a contact of a user, as an owner of the pair has written it, and one node is told.
func (w *world) setContact(n *node, u, other im.User, is bool) {
	w.store.mu.Lock()
	key := string(im.PairKey(u, other))
	w.store.contacts = slices.DeleteFunc(w.store.contacts, func(k string) bool { return k == key })
	if is {
		w.store.contacts = append(w.store.contacts, key)
	}
	w.store.mu.Unlock()
	n.ContactChanged(im.Account{Tenant: im.DefaultTenant, User: u}, other)
}

// share gives a user another part of the profile that only contacts see, beside the rest.
func (w *world) share(n *node, u im.User, shared, rest string) {
	w.store.mu.Lock()
	if w.store.shared == nil {
		w.store.shared = map[im.User]string{}
	}
	w.store.shared[u] = shared
	w.store.mu.Unlock()
	w.rename(n, u, rest)
}

// rename gives a user another version of the profile, as an update that one node has made.
func (w *world) rename(n *node, u im.User, version string) {
	w.store.mu.Lock()
	if w.store.rest == nil {
		w.store.rest = map[im.User]string{}
	}
	w.store.rest[u] = version
	w.store.mu.Unlock()
	n.UserChanged(im.Account{Tenant: im.DefaultTenant, User: u})
}

// A session that watches a user, and may ask for the profile without a look-up, is told its version, and each new one
// on every node. Other sessions, and those whose client does not know profiles, are told nothing of it. Spec: P-14.5.
func TestWatchersLearnNewProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.end()
		for _, u := range []im.User{"bob", "mia", "max", "mallory"} {
			w.store.policies[u] = user.ToNobody
			w.rename(w.nodes[0], u, "1")
		}
		w.peers("bob", "carol")
		connect := func(n int, u im.User, profiles bool) *session {
			s := w.nodes[n].connect(t, u)
			s.out.Profiles = profiles
			return s
		}
		carol, old, stranger := connect(1, "carol", true), connect(1, "carol", false), connect(1, "stranger", true)
		bob, mia, mean := connect(0, "bob", true), connect(1, "mia", true), connect(1, "evil", true)
		group := im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}
		mia.in, mean.in = group, group
		for _, s := range []*session{carol, old, stranger, bob} {
			s.set("bob")
		}
		mia.set("max", "bob")
		mean.set("max")
		pass(time.Second)
		carol.want("at first", "bob off as 1")
		old.want("without the capability", "bob off")
		stranger.want("without a conversation", "bob off")
		bob.want("of himself", "bob on as own 1")
		mia.want("in the group", "bob off, max off as 1")
		mean.want("outside of the group", "max off")
		w.rename(w.nodes[0], "bob", "2")
		w.rename(w.nodes[1], "max", "2")
		pass(time.Second)
		carol.want("after a change at another node", "bob off as 2")
		old.want("after a change", "")
		stranger.want("after a change", "")
		bob.want("after his change", "bob on as own 2")
		mia.want("after a change at this node", "max off as 2")
		mean.want("after a change", "")
		w.rename(w.nodes[0], "bob", "2")
		pass(time.Second)
		carol.want("after no change", "")
		w.store.hidden = "!"
		w.rename(w.nodes[0], "bob", "2")
		pass(time.Second)
		carol.want("after a hidden change", "")
		bob.want("after his hidden change", "bob on as own 2!")
		w.peers("bob", "stranger")
		w.nodes[0].Wrote(im.Account{Tenant: im.DefaultTenant, User: "bob"}, "stranger")
		pass(time.Second)
		stranger.want("to whom bob has written", "bob off as 2")
	})
}

// A block does not hide the profile: it would show the block. Spec: P-5.4, P-14.5.
func TestABlockedWatcherLearnsNewProfiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		w.store.policies["bob"] = user.ToEverybody
		w.rename(n, "bob", "1")
		w.peers("bob", "carol")
		carol := n.connect(t, "carol")
		carol.out.Profiles = true
		w.store.block("bob", "carol", true)
		carol.set("bob")
		pass(time.Second)
		carol.want("blocked less than 30 s ago", "bob on as 1")
		w.rename(n, "bob", "2")
		pass(time.Second)
		carol.want("after a change", "bob on as 2")
	})
}

// A watcher whom the user has as a contact is told the version that contacts see, and each change of it on every node:
// also when the contact ends, begins, and when another field is for contacts. Others are told nothing of all that, and
// a list of the watcher's own contacts says nothing. Spec: P-14.3, P-14.5.
func TestContactsLearnTheirVersion(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world, here, there *node) {
		w.store.policies["bob"] = user.ToEverybody
		w.share(there, "bob", "+", "1")
		all := map[im.User]*session{}
		for _, u := range []im.User{"carol", "dave", "eve", "bob"} {
			w.peers("bob", u)
			all[u] = here.connect(t, u)
			all[u].out.Profiles = true
		}
		w.setContact(there, "bob", "carol", true)
		w.setContact(there, "bob", "eve", true)
		w.setContact(there, "dave", "bob", true)
		for _, s := range all {
			s.set("bob")
		}
		want := func(when, carol, dave, eve, bob string) {
			t.Helper()
			pass(2 * time.Second)
			for u, v := range map[im.User]string{"carol": carol, "dave": dave, "eve": eve, "bob": bob} {
				if v != "" {
					v = "bob on as " + v
				}
				all[u].want(when, v)
			}
		}
		want("at first", "1+", "1", "1+", "own 1+")
		w.setContact(there, "bob", "carol", false)
		want("after carol was removed", "1", "", "", "")
		w.setContact(there, "bob", "carol", false)
		w.setContact(there, "bob", "eve", true)
		want("after no change", "", "", "", "")
		w.share(there, "bob", "++", "1")
		want("after a change for contacts", "", "", "1++", "own 1++")
		w.setContact(there, "bob", "carol", true)
		want("after carol came back", "1++", "", "", "")
		w.share(there, "bob", "", "1++")
		want("when everybody sees it", "", "1++", "", "")
		w.setContact(there, "bob", "carol", false)
		want("while it does not matter who is a contact", "", "", "", "")
		w.share(there, "bob", "++", "1")
		want("when contacts see it", "1", "1", "", "")
		w.share(there, "bob", "+", "2")
		want("after a change for all", "2", "2", "2+", "own 2+")
		w.share(there, "bob", "", "3")
		want("when nothing is for contacts", "3", "3", "3", "own 3")
		w.store.block("bob", "eve", true)
		there.BlockChanged(im.Account{Tenant: im.DefaultTenant, User: "bob"}, "eve")
		w.share(there, "bob", "+", "3")
		want("while eve is blocked", "", "", "3+", "own 3+")
	})
}

// A contact that ends while it is read does not show, however slow the store is. Spec: P-14.5.
func TestAContactThatEndsWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		w.store.policies["bob"] = user.ToEverybody
		w.share(n, "bob", "+", "1")
		w.peers("bob", "carol")
		w.setContact(n, "bob", "carol", true)
		slow := func(d time.Duration) {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			w.store.slow = d
		}
		slow(3 * time.Second)
		carol := n.connect(t, "carol")
		carol.out.Profiles = true
		carol.set("bob")
		pass(500 * time.Millisecond)
		slow(0) // the next read overtakes that one
		w.setContact(n, "bob", "carol", false)
		pass(10 * time.Second)
		carol.want("at first", "bob off as 1")
		w.share(n, "bob", "", "1")
		pass(10 * time.Second)
		slow(3 * time.Second)
		w.share(n, "bob", "+", "1") // now it is read who is a contact
		pass(500 * time.Millisecond)
		slow(0)
		w.setContact(n, "bob", "carol", true)
		pass(10 * time.Second)
		carol.want("in the end", "bob off as 1+")
	})
}

// A read from before a field was for contacts tells nobody the version of that time. Spec: P-14.5.
func TestALateReadTellsNoFormerVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		w.store.policies["bob"] = user.ToEverybody
		w.share(n, "bob", "+", "1")
		w.peers("bob", "carol")
		w.setContact(n, "bob", "carol", true)
		carol := n.connect(t, "carol")
		carol.out.Profiles = true
		carol.set("bob")
		pass(time.Second)
		carol.want("at first", "bob off as 1+")
		w.share(n, "bob", "", "2")
		pass(time.Second)
		carol.want("when nothing is for contacts", "bob off as 2")
		w.store.block("bob", "carol", true)
		w.store.mu.Lock()
		w.store.slow = 3 * time.Second
		w.store.mu.Unlock()
		n.BlockChanged(im.Account{Tenant: im.DefaultTenant, User: "bob"}, "carol") // now the block is read
		pass(time.Second)
		w.share(n, "bob", "+", "2")
		pass(time.Second)
		carol.want("when a field is for contacts", "bob off as 2+")
		pass(time.Minute)
		carol.want("after the read", "")
	})
}

// The contacts of a user who shows all of them what others see are not read. Spec: P-14.5.
func TestContactsAreReadOnlyWhereTheyMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		n := w.nodes[0]
		w.store.policies["bob"] = user.ToEverybody
		w.rename(n, "bob", "1")
		w.peers("bob", "carol")
		carol := n.connect(t, "carol")
		carol.out.Profiles = true
		carol.set("bob")
		pass(time.Second)
		_ = w.store.read()
		w.setContact(n, "bob", "carol", true)
		pass(time.Second)
		if got := w.store.read(); len(got) > 0 {
			t.Errorf("a change of contacts that shows nothing takes the reads %v", got)
		}
		carol.want("in the end", "bob off as 1")
	})
}
