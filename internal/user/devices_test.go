package user_test

import (
	"context"
	"fmt"
	"github.com/petrel-im/petrel/internal/operator"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
)

var ctx = context.Background()

// Spec: P-11.5.
func TestDevicesAreListedNewestLoginFirst(t *testing.T) {
	w := people(t)
	w.mint("alic", phone(9)) // its keys are near alice's
	w.mint("alice", phone(1))
	w.pass(time.Second)
	w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
	w.mint("alice", phone(2))
	w.pass(time.Second)
	l := w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop", Name: "Work"})
	if err := w.users.NoteClient(ctx, user.Identity{Account: alice, Device: "laptop", Login: l.Number}, "example/1"); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) time.Time { return time.UnixMilli(1795262400000).Add(d).UTC() }
	want := []user.Device{
		{ID: "laptop", Kind: "desktop", Name: "Work", Client: "example/1", LoggedIn: at(2 * time.Second), Login: 4},
		{ID: "phone-2", Kind: "phone", Name: "Phone 2", LoggedIn: at(time.Second), Login: 3},
		{ID: "phone-1", Kind: "phone", Name: "Phone 1", LoggedIn: at(0), Login: 1, Revoked: true, Replaced: true},
	}
	got, err := w.users.Devices(ctx, alice)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("devices, %v (-want +got):\n%s", err, d)
	}
}

// Spec: P-11.5.
func TestRenameDevice(t *testing.T) {
	w := people(t)
	l := w.mint("alice", phone(1))
	if d, err := w.users.RenameDevice(ctx, alice, "phone-1", "海燕"); err != nil || d.Name != "海燕" || d.ID != "phone-1" {
		t.Errorf("renamed: %+v, %v", d, err)
	}
	w.wantAccess("renamed", l.Access, "")
	_, err := w.users.RenameDevice(ctx, alice, "phone-2", "x")
	w.wantCode("another device", err, im.CodeNoDevice)
	_, err = w.users.RenameDevice(ctx, im.Account{Tenant: im.DefaultTenant, User: "bob"}, "phone-1", "x")
	w.wantCode("another user", err, im.CodeNoDevice)
	_, err = w.users.RenameDevice(ctx, alice, "phone-1", strings.Repeat("x", 65))
	w.wantCode("too long", err, im.CodeInvalid)
}

// Spec: P-11.5.
func TestRevokedDeviceIsOutUntilItLogsInAgain(t *testing.T) {
	w := people(t)
	one, other := w.mint("alice", phone(1)), w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
	for range 2 {
		if err := w.users.RevokeDevice(ctx, alice, "phone-1"); err != nil {
			t.Fatal(err)
		}
		w.wantAccess("revoked", one.Access, im.CodeRevoked)
		w.wantRefused("revoked, for a call", one.Access)
		_, err := w.users.Refresh(ctx, one.Refresh, "r")
		w.wantCode("its refresh token", err, im.CodeUnauthenticated)
		w.reopen()
	}
	w.wantAccess("another device", other.Access, "")
	w.wantCode("unknown", w.users.RevokeDevice(ctx, alice, "phone-2"), im.CodeNoDevice)
	again := w.mint("alice", phone(1))
	w.wantAccess("logged in again", again.Access, "")
	w.wantAccess("the token of before", one.Access, im.CodeUnauthenticated)
	w.mint("alice", phone(2))
	if err := w.users.RevokeDevice(ctx, alice, "phone-1"); err != nil {
		t.Fatal(err)
	}
	w.wantAccess("replaced, then revoked", again.Access, im.CodeRevoked)
}

func TestVoidBelowTellsWhichLoginsDoNotCount(t *testing.T) {
	w := people(t)
	want := func(what string, below uint64) {
		t.Helper()
		if got, err := w.users.VoidBelow(ctx, alice, "phone-1"); got != below || err != nil {
			t.Errorf("%s: below %d, %v; want %d", what, got, err, below)
		}
	}
	want("unknown", math.MaxUint64)
	w.mint("alice", phone(1))
	want("logged in", 1)
	w.mint("alice", phone(2))
	want("replaced", 2)
	w.mint("alice", phone(1))
	want("logged in again", 3)
}

func TestClientIsNotedWhenItChanges(t *testing.T) {
	w := people(t)
	l := w.mint("alice", phone(1))
	id := user.Identity{Account: alice, Device: "phone-1", Login: l.Number}
	note := func(id user.Identity, client string) bool {
		t.Helper()
		open := sync.OnceFunc(w.store.hold())
		defer open()
		done := make(chan error, 1)
		go func() { done <- w.users.NoteClient(ctx, id, client) }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return false
		case <-w.store.in:
			open()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return true
		}
	}
	for _, c := range []struct {
		id     user.Identity
		client string
		writes bool
	}{{id, "a/1", true}, {id, "a/1", false}, {id, "", false}, {id, "a/2", true}, {user.Identity{Account: alice}, "a/3", false},
		{user.Identity{Account: alice, Device: "phone-1", Login: 9}, "a/3", false}, {id, strings.Repeat("x", 129), false}} {
		if got := note(c.id, c.client); got != c.writes {
			t.Errorf("%+v with %q writes: %t", c.id, c.client, got)
		}
	}
	if d, err := w.users.Devices(ctx, alice); err != nil || d[0].Client != "a/2" {
		t.Errorf("devices %+v, %v", d, err)
	}
	w.wantAccess("noted", l.Access, "")
}

func TestChangedPasswordKeepsOnlyTheDeviceThatAsks(t *testing.T) {
	for keep, want := range map[string][]string{"phone-1": {"laptop", ""}, "": {"phone-1", "laptop"}} {
		w := people(t)
		one := w.register("alice", phone(1))
		laptop := w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
		bare := w.token("", "alice")
		_, err := w.users.ChangePassword(ctx, alice, "not the old one", "a new password", keep)
		w.wantCode("wrong old password", err, im.CodeBadCredentials)
		_, err = w.users.ChangePassword(ctx, alice, password, "short", keep)
		w.wantCode("short new password", err, im.CodeWeakPassword)
		_, err = w.users.ChangePassword(ctx, im.Account{Tenant: im.DefaultTenant, User: "nobody"}, password, "a new password", keep)
		w.wantCode("nobody", err, im.CodeBadCredentials)
		w.wantAccess("before", laptop.Access, "")
		ended, err := w.users.ChangePassword(ctx, alice, password, "a new password", keep)
		slices.Sort(ended)
		slices.Sort(want)
		if err != nil || !slices.Equal(ended, want) {
			t.Errorf("keep %q: ended %q, %v; want %q", keep, ended, err, want)
		}
		kept, void := one.Access, bare
		if keep == "" {
			kept, void = bare, one.Access
		}
		w.wantAccess("kept", kept, "")
		w.wantAccess("another device", laptop.Access, im.CodeRevoked)
		if _, err := w.users.Authenticate(ctx, void); err == nil {
			t.Errorf("keep %q: what does not ask is kept", keep)
		}
		_, err = w.users.LogIn(ctx, "", "alice", password, phone(1), home, false)
		w.wantCode("the old password", err, im.CodeBadCredentials)
		if _, err := w.users.LogIn(ctx, "", "alice", "a new password", phone(1), home, false); err != nil {
			t.Errorf("the new password: %v", err)
		}
	}
}

func TestOperatorSetsAPasswordAndAllTokensAreVoid(t *testing.T) {
	w := people(t)
	bare, one := w.token("", "alice"), w.mint("alice", phone(1))
	_, err := w.users.SetPassword(ctx, im.Account{Tenant: im.DefaultTenant, User: "nobody"}, password)
	w.wantCode("nobody", err, im.CodeNoUser)
	_, err = w.users.SetPassword(ctx, alice, "12345678")
	w.wantCode("common", err, im.CodeWeakPassword)
	w.wantAccess("before", one.Access, "")
	if i, err := w.users.SetPassword(ctx, alice, password); err != nil || !i.HasPassword {
		t.Errorf("set: %+v, %v", i, err)
	}
	w.wantAccess("of a device", one.Access, im.CodeRevoked)
	w.wantAccess("of none", bare, im.CodeUnauthenticated)
	w.wantAccess("logged in with it", w.logIn("alice", phone(1)).Access, "")
}

func TestRevokeEndsTheTokensOfDevicesToo(t *testing.T) {
	w := people(t)
	one := w.mint("alice", phone(1))
	if err := w.users.Revoke(ctx, alice); err != nil {
		t.Fatal(err)
	}
	w.wantAccess("of a device", one.Access, im.CodeRevoked)
	w.wantAccess("a new login", w.mint("alice", phone(1)).Access, "")
}

func TestAccountIsWhatOthersSee(t *testing.T) {
	w := people(t)
	w.token("", "alice")
	if i, _, err := w.users.UpdateAccount(ctx, alice, shown("Alice")); err != nil || i.DisplayName != "Alice" || i.HasPassword {
		t.Errorf("updated: %+v, %v", i, err)
	}
	_, _, err := w.users.UpdateAccount(ctx, alice, shown(strings.Repeat("x", 129)))
	w.wantCode("long name", err, im.CodeInvalid)
	_, err = w.users.Account(ctx, im.Account{Tenant: im.DefaultTenant, User: "nobody"})
	w.wantCode("nobody", err, im.CodeNoUser)
	if _, err := w.users.Disable(ctx, alice); err != nil {
		t.Fatal(err)
	}
	_, err = w.users.Account(ctx, alice)
	w.wantCode("disabled", err, im.CodeNoUser)
	if i, err := w.users.Get(ctx, alice); err != nil || !i.Disabled || i.DisplayName != "Alice" {
		t.Errorf("for the operator: %+v, %v", i, err)
	}
}

func TestUsersAreListedInPages(t *testing.T) {
	w := people(t)
	var want []im.User
	for _, u := range []im.User{"a", "a.b", "ab", "abc", "b", "B", "+", "@x", "z_z", "z", "0", "zz", "_", "-", im.User(strings.Repeat("z", im.MaxUser))} {
		want = append(want, u)
		w.put(store.Users, []byte(u), &storepb.User{DisplayName: string(u)})
	}
	slices.Sort(want)
	w.token("acme", "other")
	backwards := func(all []im.User) []im.User {
		all = slices.Clone(all)
		slices.Reverse(all)
		return all
	}
	pages := func(prefix string, down bool, limit int) (got []im.User) {
		for after, more, pages := im.User(""), true, 0; more && pages < 100; pages++ {
			var page []user.Info
			var err error
			if page, more, err = w.users.List(ctx, im.DefaultTenant, prefix, after, down, limit); err != nil {
				t.Fatal(err)
			}
			for _, i := range page {
				got = append(got, i.User)
				after = i.User
			}
			if limit > 0 && len(page) > limit || more && len(page) == 0 {
				t.Fatalf("page of %d, more %t", len(page), more)
			}
		}
		return got
	}
	for _, limit := range []int{0, 1, 2, 7, len(want), 5000} {
		for _, prefix := range []string{"", "a", "z"} {
			fits := slices.DeleteFunc(slices.Clone(want), func(u im.User) bool { return !strings.HasPrefix(string(u), prefix) })
			if got := pages(prefix, false, limit); !slices.Equal(got, fits) {
				t.Errorf("pages of %d of %q: %q, want %q", limit, prefix, got, fits)
			}
			if got := pages(prefix, true, limit); !slices.Equal(got, backwards(fits)) {
				t.Errorf("pages of %d of %q, backwards: %q, want %q", limit, prefix, got, backwards(fits))
			}
		}
	}
	for _, after := range []im.User{"aa", "a.", "~", "\xff", im.User(strings.Repeat("z", 1<<20)), "A\x00"} {
		i, _ := slices.BinarySearch(want, after)
		for down, want := range map[bool][]im.User{false: want[i:], true: backwards(want[:i])} {
			page, _, err := w.users.List(ctx, im.DefaultTenant, "", after, down, 0)
			var got []im.User
			for _, p := range page {
				got = append(got, p.User)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("behind %.10q, down %t: %q, %v; want %q", after, down, got, err, want)
			}
		}
	}
}

// Spec: P-10.6.
func TestKeysHaveScopesAndATenant(t *testing.T) {
	w := people(t)
	first, err := w.operators.Redeem(ctx, w.setup(), "")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	key, made, err := w.operators.CreateKey(ctx, "back end", "acme", []string{"users", "messages", "users"})
	if err != nil {
		t.Fatal(err)
	}
	want := operator.Key{ID: made.ID, Name: "back end", Tenant: w.tenant("acme"), TenantName: "acme", Scopes: []string{"messages", "users"}, Created: w.now.UTC()}
	got, err := w.operators.AuthenticateKey(ctx, key)
	if d := cmp.Diff(want, got) + cmp.Diff(want, made); d != "" || err != nil || len(made.ID) != 16 || strings.Contains(key, made.ID) {
		t.Errorf("key, %v (-want +got):\n%s", err, d)
	}
	for scope, covered := range map[string]bool{"users": true, "messages": true, "tokens": false, "admin": false, "": false} {
		if got.Covers(scope) != covered {
			t.Errorf("scope %q covered: %t", scope, !covered)
		}
	}
	root, err := w.operators.AuthenticateKey(ctx, first)
	if err != nil || !root.Covers("tokens") || root.Tenant != 0 || root.TenantName != "" {
		t.Errorf("first key %+v, %v", root, err)
	}
	if keys, err := w.operators.Keys(ctx); err != nil || len(keys) != 2 || keys[0].ID != root.ID || keys[1].ID != made.ID {
		t.Errorf("keys %+v, %v", keys, err)
	}
	for what, c := range map[string][]string{"no scope": {}, "unknown": {"root"}, "empty": {""}} {
		_, _, err := w.operators.CreateKey(ctx, "k", "", c)
		w.wantCode(what, err, im.CodeInvalid)
	}
	for _, name := range []string{"", strings.Repeat("x", 65)} {
		_, _, err := w.operators.CreateKey(ctx, name, "", []string{"users"})
		w.wantCode("name", err, im.CodeInvalid)
	}
	if _, _, err := w.operators.CreateKey(ctx, "k", "a.b", []string{"users"}); im.CodeOf(err) != im.CodeInvalid {
		t.Errorf("bad tenant: %v", err)
	}
}

// Spec: P-10.6.
func TestRevokedKeyIsVoidAndTheLastAdminKeyStays(t *testing.T) {
	w := people(t)
	first, err := w.operators.Redeem(ctx, w.setup(), "")
	if err != nil {
		t.Fatal(err)
	}
	key, made, err := w.operators.CreateKey(ctx, "ci", "", []string{"users"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.operators.CreateKey(ctx, "acme's", "acme", []string{"admin"}); err != nil {
		t.Fatal(err)
	}
	if err := w.operators.RevokeKey(ctx, made.ID); err != nil {
		t.Fatal(err)
	}
	_, err = w.operators.AuthenticateKey(ctx, key)
	w.wantCode("revoked", err, im.CodeUnauthenticated)
	for _, id := range []string{made.ID, "", "x", made.ID[:4]} {
		w.wantCode(fmt.Sprintf("id %q", id), w.operators.RevokeKey(ctx, id), im.CodeNoKey)
	}
	root, err := w.operators.AuthenticateKey(ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	w.wantCode("the last one", w.operators.RevokeKey(ctx, root.ID), im.CodeInvalid)
	second, _, err := w.operators.CreateKey(ctx, "second", "", []string{"admin"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.operators.RevokeKey(ctx, root.ID); err != nil {
		t.Errorf("with another one there: %v", err)
	}
	w.wantAdmin(first, false)
	w.wantAdmin(second, true)
}

// A thief with the token of one device who guesses the password does not keep the owner, at
// another device, from changing it. All devices together have a few times as many guesses.
// Spec: P-11.2.
func TestGuessesOfAPasswordAreCountedForEachDevice(t *testing.T) {
	w := people(t, func(o *user.Options) { o.Rates.Logins = 1 })
	w.register("alice", phone(1))
	change := func(old, device string) error {
		_, err := w.users.ChangePassword(context.Background(), alice, old, "a new password", device)
		return err
	}
	w.wantCode("a guess", change("guess", "stolen"), im.CodeBadCredentials)
	w.wantCode("one more", change("guess", "stolen"), im.CodeRateLimited)
	w.no(change(password, "own"))
	for i := range 8 {
		w.wantCode("a guess", change("guess", fmt.Sprint(i)), im.CodeBadCredentials)
	}
	w.wantCode("the eleventh of all", change("guess", "one more"), im.CodeRateLimited)
}
