package sdk

import (
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A user changes the profile at one node. Members of a group who are at another node and watch the user show it
// without asking again by themselves. Spec: P-14.2, P-14.5.
func TestANewNameIsWithWatchersAtAnotherNode(t *testing.T) {
	t.Parallel()
	nodes := imtest.Cluster(t, 2, imtest.Options{Postgres: pgtest.Own(t, pgtest.Options{}).New(t)})
	tokens := nodes[0].Users("", "alice", "bob", "carol")
	client := func(node, user int) *device {
		return run(t, petrel.Options{URL: nodes[node].URL(wire.WebSocket), Token: petrel.StaticToken(tokens[user])}).synced()
	}
	alice, bob := client(0, 0), client(1, 1)
	ctx := eventually.Context(t)
	name := func(d *device) string {
		p, _ := d.Profiles().Get("alice")
		return p.GetDisplayName()
	}
	change := func(q *petrelv1.UpdateAccountRequest) *petrelv1.Account {
		t.Helper()
		a, err := alice.UpdateAccount(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	anna, handle := "Anna", "anna.b"
	change(&petrelv1.UpdateAccountRequest{DisplayName: &anna, Handle: &handle})
	group, err := alice.CreateGroup(ctx, "boat", "bob")
	if err != nil {
		t.Fatal(err)
	}
	bob.until("the group", func() bool { v, _ := bob.Conversation(group); return v.Known })
	bob.Watch(group, "alice")
	bob.Profiles().Want(group, "alice", "nobody")
	bob.until("the profile", func() bool {
		nobody, known := bob.Profiles().Get("nobody")
		return name(bob) == anna && known && nobody == nil
	})
	bob.until("the version by watching", func() bool {
		p, _ := bob.Presence("alice")
		shown, _ := bob.Profiles().Get("alice")
		return p.Profile == shown.GetVersion()
	})
	was, _ := bob.Profiles().Get("alice")
	anita := "Anita"
	change(&petrelv1.UpdateAccountRequest{DisplayName: &anita, Visibility: map[string]petrelv1.Visibility{"handle": petrelv1.Visibility_VISIBILITY_NOBODY}})
	bob.until("the new name", func() bool { return name(bob) == anita })
	if was.DisplayName != anna || was.Handle != handle {
		t.Errorf("the snapshot of before has changed: %v", was)
	}
	if p, _ := bob.Profiles().Get("alice"); p.Handle != "" {
		t.Errorf("bob sees the hidden handle: %v", p)
	}
	if _, err := bob.GetUserByHandle(ctx, handle); petrel.CodeOf(err) != petrel.CodeNoUser {
		t.Errorf("by a hidden handle: got %v, want no_user", err)
	}
	seen := petrelv1.Visibility_VISIBILITY_EVERYBODY
	change(&petrelv1.UpdateAccountRequest{Visibility: map[string]petrelv1.Visibility{"handle": seen}})
	if a, err := bob.GetUserByHandle(ctx, handle); err != nil || a.User != "alice" {
		t.Errorf("by handle: got %v, %v", a, err)
	}

	// carol reads the list of members, and has a direct conversation: both tell the versions.
	carol := client(1, 2)
	alice.send(petrel.Draft{User: "carol", Text: "hi"})
	carol.until("the version of the peer", func() bool {
		v, _ := carol.Conversation(carol.Direct("alice"))
		return v.PeerProfile != ""
	})
	carol.Profiles().Want("", "alice")
	carol.until("the profile", func() bool {
		v, _ := carol.Conversation(carol.Direct("alice"))
		p, _ := carol.Profiles().Get("alice")
		return p.GetDisplayName() == anita && p.Version == v.PeerProfile
	})
	if err := alice.AddMembers(ctx, group, "carol"); err != nil {
		t.Fatal(err)
	}
	change(&petrelv1.UpdateAccountRequest{DisplayName: &anna})
	if _, err := carol.Members(ctx, group); err != nil {
		t.Fatal(err)
	}
	carol.until("the name by the list of members", func() bool { return name(carol) == anna })
	r, err := carol.GetUsers(ctx, group, &petrelv1.UserVersion{User: "alice"}, &petrelv1.UserVersion{User: "nobody"})
	if err != nil || len(r.Users) != 1 || r.Users[0].DisplayName != anna || len(r.Unknown) != 1 {
		t.Errorf("users: got %v, %v", r, err)
	}
}
