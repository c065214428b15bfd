package user_test

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// leaver is a user who registers, has a profile and deletes the account.
func leaver(t *testing.T) (w *world, token string) {
	w = people(t)
	l := w.register("alice", phone(1))
	_, _, err := w.users.UpdateAccount(ctx, alice, &user.ProfileChange{DisplayName: new("Alice"), Handle: new("ally")})
	w.no(err)
	return w, l.Access
}

func (w *world) leave(token, password string) (time.Time, error) {
	w.t.Helper()
	id, err := w.users.Authenticate(ctx, token)
	w.no(err)
	return w.users.Leave(ctx, id, password)
}

// Others see that the user has deleted the account, and nothing else of the profile. The handle stays taken, and finds
// nobody. Spec: P-14.25.
func TestAUserWhoLeavesIsNameless(t *testing.T) {
	w, token := leaver(t)
	w.register("bob", phone(2))
	bob := im.Account{Tenant: im.DefaultTenant, User: "bob"}
	before, _, err := w.users.Profiles(ctx, bob, nil, []im.User{"alice"})
	w.no(err)
	_, err = w.leave(token, "not the "+password)
	w.wantCode("a wrong password", err, im.CodeBadCredentials)
	if _, err := w.users.Authenticate(ctx, token); err != nil {
		t.Errorf("after a wrong password: %v", err)
	}
	until, err := w.leave(token, password)
	w.no(err)
	if want := w.now.Add(7 * 24 * time.Hour); !until.Equal(want) {
		t.Errorf("restorable until %s, want %s", until, want)
	}
	_, err = w.users.Authenticate(ctx, token)
	w.wantCode("the token", err, im.CodeUnauthenticated)
	all, _, err := w.users.Profiles(ctx, bob, nil, []im.User{"alice"})
	w.no(err)
	if p := all[0]; !p.Deleted || p.Shown+p.Handle != "" || p.Version == before[0].Version {
		t.Errorf("others see %+v", p)
	}
	_, _, err = w.users.Find(ctx, bob, "", "ally")
	w.wantCode("the handle", err, im.CodeNoUser)
	_, _, err = w.users.UpdateAccount(ctx, bob, &user.ProfileChange{Handle: new("ally")})
	w.wantCode("the handle for another one", err, im.CodeHandleTaken)
	w.wantCode("adding to a group", w.users.LookUp(ctx, bob, []im.User{"alice"}, true), im.CodeForbidden)
	w.no(w.users.LookUp(ctx, bob, []im.User{"alice"}, false))
	if policy, _, err := w.users.Facts(ctx, alice); policy != user.ToNobody || err != nil {
		t.Errorf("presence: %v, %v", policy, err)
	}
	for what, err := range map[string]error{"a token": func() error { _, err := w.users.Create(ctx, "", []im.User{"alice"}); return err }(),
		"a minted one": func() error { _, err := w.users.Mint(ctx, "", "alice", phone(3), 0); return err }()} {
		if err == nil {
			t.Errorf("%s is made for a user who has left", what)
		}
	}
}

// For seven days, and only after the right password, a login is told so and can take it back. Spec: P-14.26.
func TestAUserWhoLeftComesBackInTime(t *testing.T) {
	w, token := leaver(t)
	_, err := w.leave(token, password)
	w.no(err)
	for _, restore := range []bool{false, true} {
		_, err = w.users.LogIn(ctx, "", "alice", "not the "+password, phone(1), home, restore)
		w.wantCode("a wrong password", err, im.CodeBadCredentials)
	}
	w.pass(7*24*time.Hour - time.Second)
	_, err = w.users.LogIn(ctx, "", "alice", password, phone(1), home, false)
	w.wantCode("without restore", err, im.CodeAccountLeaving)
	if e, ok := err.(*im.Error); !ok || e.RetryAfter != time.Second {
		t.Errorf("the rest of the time: %+v", err)
	}
	l, err := w.users.LogIn(ctx, "", "alice", password, phone(1), home, true)
	w.no(err)
	if !l.Renamed {
		t.Error("nobody is told that the name is back")
	}
	_, p, err := w.users.Own(ctx, alice)
	w.no(err)
	if p.Shown != "Alice" || p.Handle != "ally" || p.Deleted {
		t.Errorf("the profile is %+v", p)
	}
	_, err = w.leave(l.Access, password)
	w.no(err)
	w.pass(7 * 24 * time.Hour)
	_, err = w.users.LogIn(ctx, "", "alice", password, phone(1), home, true)
	w.wantCode("after seven days", err, im.CodeUserDisabled)
	_, err = w.users.Restore(ctx, alice)
	w.no(err)
	w.logIn("alice", phone(1))
}

// Without a password a fresh login is needed. Where the application owns the accounts, it deletes them. Spec: P-14.25.
func TestWhoMayLeave(t *testing.T) {
	w := people(t)
	l := w.mint("alice", phone(1))
	w.pass(10*time.Minute + time.Millisecond)
	_, err := w.leave(l.Access, "")
	w.wantCode("an old login", err, im.CodeForbidden)
	_, err = w.leave(w.token("", "alice"), "")
	w.wantCode("a token without a device", err, im.CodeForbidden)
	l = w.mint("alice", phone(1))
	_, err = w.users.SetProfileRules(ctx, "", []string{"account"})
	w.no(err)
	_, err = w.leave(l.Access, "")
	w.wantCode("managed", err, im.CodeForbidden)
	_, err = w.users.SetProfileRules(ctx, "", nil)
	w.no(err)
	_, err = w.leave(l.Access, "")
	w.no(err)
}
