package presence_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// knows tells who has written to the watcher; in a group everybody whose id begins with m knows the others.
func (s *accounts) knows(_ context.Context, watcher im.Account, in im.Key, users []im.User) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]bool, len(users))
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
	v := s.profiles[u]
	if v == "" {
		return user.ProfileVersions{}
	}
	return user.ProfileVersions{ForOthers: v, Own: "own " + v + s.hidden}
}

// rename gives a user another version of the profile, as an update that one node has made.
func (w *world) rename(n *node, u im.User, version string) {
	w.store.mu.Lock()
	if w.store.profiles == nil {
		w.store.profiles = map[im.User]string{}
	}
	w.store.profiles[u] = version
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
