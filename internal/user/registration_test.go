package user_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// Registration is a tenant's setting. A tenant that does not exist is answered as a closed
// one. Spec: P-11.1, P-8.9.
func TestRegistrationIsATenantsSetting(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		configured user.Registration
		loopback   bool
		inDefault  bool // people may register in the default tenant
		inOther    bool // and in another one, without a setting of its own
	}{
		{user.AsConfigured, true, true, false},
		{user.AsConfigured, false, false, false},
		{user.Open, false, true, true},
		{user.Closed, true, false, false},
		{user.ByInvitation, true, false, false},
	} {
		w := people(t, func(o *user.Options) {
			o.Registration, o.Loopback = c.configured, func() bool { return c.loopback }
		})
		w.token("acme", "somebody")
		want := func(what, tenant string, u im.User, open bool) {
			t.Helper()
			_, err := w.users.Register(ctx, user.Newcomer{Tenant: tenant, User: u, Password: password}, phone(1), home)
			if open {
				w.no(err)
				return
			}
			if w.wantCode(what, err, im.CodeForbidden); err != nil && err.Error() != "registration is closed, or needs a valid invitation" {
				t.Errorf("%s: %v", what, err)
			}
		}
		want("default", "", "alice", c.inDefault)
		want("acme", "acme", "alice", c.inOther)
		want("no tenant", "nosuch", "alice", false)
		i, err := w.users.DescribeTenant(ctx, "acme")
		if err != nil || i.Set != user.AsConfigured || (i.Effective == user.Open) != c.inOther {
			t.Errorf("acme: %+v, %v", i, err)
		}
		_, err = w.users.SetRegistration(ctx, "acme", user.Open, nil)
		w.no(err)
		_, err = w.users.SetRegistration(ctx, "", user.Closed, nil)
		w.no(err)
		w.reopen()
		want("acme, opened", "acme", "bob", true)
		want("default, closed", "", "bob", false)
		if i, err := w.users.DescribeTenant(ctx, ""); err != nil || !reflect.DeepEqual(i, user.TenantInfo{Name: "default", Set: user.Closed, Effective: user.Closed, ReportContext: 5}) {
			t.Errorf("default: %+v, %v", i, err)
		}
		_, err = w.users.SetRegistration(ctx, "acme", user.AsConfigured, nil)
		w.no(err)
		want("acme, as configured again", "acme", "carol", c.inOther)
	}
	w := people(t)
	_, err := w.users.SetRegistration(ctx, "acme", 4, nil)
	w.wantCode("an unknown setting", err, im.CodeInvalid)
}

// An invitation lets as many people register as it says, until it ends, in its tenant.
func TestRegistrationByInvitation(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(o *user.Options) { o.Registration = user.ByInvitation })
	w.token("acme", "somebody")
	register := func(tenant, code string, u im.User) error {
		_, err := w.users.Register(ctx, user.Newcomer{Tenant: tenant, User: u, Password: password, Invitation: code}, phone(1), home)
		return err
	}
	two, _, err := w.users.Invite(ctx, "acme", 2, time.Hour)
	w.no(err)
	for what, code := range map[string]string{"no invitation": "", "another one": "pi_x"} {
		w.wantCode(what, register("acme", code, "alice"), im.CodeForbidden)
	}
	w.wantCode("of another tenant", register("", two, "alice"), im.CodeForbidden)
	w.no(register("acme", two, "alice"))
	w.wantCode("a name that is taken, which uses nothing up", register("acme", two, "alice"), im.CodeUserExists)

	// Of two at once one gets the last use.
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, u := range []im.User{"bob", "carol"} {
		wg.Go(func() { errs[i] = register("acme", two, u) })
	}
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("the last use: %v and %v, want one of them", errs[0], errs[1])
	}
	w.wantCode("used up", register("acme", two, "dave"), im.CodeForbidden)

	late, expires, err := w.users.Invite(ctx, "", 0, 0)
	if w.no(err); !expires.Equal(w.now.Add(7 * 24 * time.Hour)) {
		t.Errorf("it ends at %v", expires)
	}
	w.pass(7 * 24 * time.Hour)
	w.wantCode("too late", register("", late, "eve"), im.CodeForbidden)
	for what, f := range map[string]func() error{
		"too many uses": func() error { _, _, err := w.users.Invite(ctx, "", 10_001, 0); return err },
		"too long":      func() error { _, _, err := w.users.Invite(ctx, "", 1, 367*24*time.Hour); return err },
	} {
		w.wantCode(what, f(), im.CodeInvalid)
	}
}

// A strict tenant has no two ids that people read as the same.
func TestStrictIDsAreAChoiceOfTheTenant(t *testing.T) {
	ctx := t.Context()
	w := people(t, func(o *user.Options) { o.Registration = user.Open })
	register := func(tenant string, u im.User) error {
		_, err := w.users.Register(ctx, user.Newcomer{Tenant: tenant, User: u, Password: password}, phone(1), home)
		return err
	}
	on, off := true, false
	_, err := w.users.SetRegistration(ctx, "acme", user.Open, nil)
	w.no(err)
	for _, u := range []im.User{"alice", "anna", "Tim", "walter", "_x_"} {
		w.no(register("", u))
		w.no(register("acme", u))
	}
	i, err := w.users.SetRegistration(ctx, "acme", user.Open, &on)
	if err != nil || !i.StrictIDs {
		t.Errorf("strict: %+v, %v", i, err)
	}
	w.reopen()
	for _, u := range []im.User{"al1ce", "4nna", "A11ce", "anna", "t1m", "@alice", "alice_", "-4nna.", "vvalter", "x"} {
		w.wantCode("strict: "+string(u), register("acme", u), im.CodeUserExists)
	}
	w.no(register("acme", "alicia"))
	for _, u := range []im.User{"al1ce", "4nna"} {
		w.no(register("", u))
	}
	i, err = w.users.SetRegistration(ctx, "acme", user.Open, nil)
	if err != nil || !i.StrictIDs {
		t.Errorf("a setting that is not named has changed: %+v, %v", i, err)
	}
	i, err = w.users.SetRegistration(ctx, "acme", user.Open, &off)
	if err != nil || i.StrictIDs {
		t.Errorf("not strict: %+v, %v", i, err)
	}
	w.no(register("acme", "4nna"))
}
