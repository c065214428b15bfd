package user_test

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// Each change that ends tokens ends sessions with a code, or lets them stay (""). The
// sessions began with a token of a phone, of a laptop, and of no device. Spec: P-3.5,
// P-11.4.
func TestStandingOfSessions(t *testing.T) {
	laptop := user.DeviceRef{ID: "laptop", Kind: "desktop"}
	const stays, revoked, replaced, disabled = im.Code(""), im.CodeRevoked, im.CodeReplaced, im.CodeUserDisabled
	for what, c := range map[string]struct {
		change               func(w *world, phone *user.Login)
		phone, laptop, token im.Code
	}{
		"nothing":                {func(*world, *user.Login) {}, stays, stays, stays},
		"time":                   {func(w *world, _ *user.Login) { w.pass(2 * time.Hour) }, stays, stays, stays},
		"login again":            {func(w *world, _ *user.Login) { w.mint("alice", phone(1)) }, replaced, stays, stays},
		"login of another phone": {func(w *world, _ *user.Login) { w.mint("alice", phone(2)) }, replaced, stays, stays},
		"login of somebody else": {func(w *world, _ *user.Login) { w.mint("bob", phone(1)) }, stays, stays, stays},
		"revoked device":         {func(w *world, _ *user.Login) { w.no(w.users.RevokeDevice(ctx, alice, "phone-1")) }, revoked, stays, stays},
		"revoked, logged in anew": {func(w *world, _ *user.Login) {
			w.no(w.users.RevokeDevice(ctx, alice, "phone-1"))
			w.mint("alice", phone(1))
		}, replaced, stays, stays},
		"revoked user": {func(w *world, _ *user.Login) { w.no(w.users.Revoke(ctx, alice)) }, revoked, revoked, revoked},
		"disabled": {func(w *world, _ *user.Login) {
			_, err := w.users.Disable(ctx, alice)
			w.no(err)
		}, disabled, disabled, disabled},
		"disabled and enabled": {func(w *world, _ *user.Login) {
			_, err := w.users.Disable(ctx, alice)
			w.no(err)
			_, err = w.users.Enable(ctx, alice)
			w.no(err)
		}, revoked, revoked, revoked},
		"refresh token used twice": {func(w *world, phone *user.Login) {
			w.refresh(phone.Refresh, "")
			w.wantReused("a second time", phone.Refresh, "")
		}, revoked, stays, stays},
		"more devices than are kept": {func(w *world, _ *user.Login) {
			for n := range 63 {
				w.mint("alice", user.DeviceRef{ID: "d" + string(rune('0'+n))})
			}
		}, replaced, stays, stays},
	} {
		t.Run(what, func(t *testing.T) {
			w := people(t)
			want := map[user.Identity]im.Code{}
			first := w.mint("alice", phone(1))
			for token, code := range map[string]im.Code{
				first.Access: c.phone, w.mint("alice", laptop).Access: c.laptop, w.token("", "alice"): c.token,
			} {
				id, err := w.users.AuthenticateSession(ctx, token)
				w.no(err)
				want[id] = code
			}
			c.change(w, first)
			for id, code := range want {
				_, err := w.users.Standing(ctx, id)
				if (err != nil || code != stays) && im.CodeOf(err) != code {
					t.Errorf("the session of %+v: %v, want %q", id, err, code)
				}
			}
		})
	}
}

// A session that began before a revocation is not one of a token made behind it.
func TestStandingKnowsTheEpoch(t *testing.T) {
	w := people(t)
	before, err := w.users.AuthenticateSession(ctx, w.token("", "alice"))
	w.no(err)
	w.no(w.users.Revoke(ctx, alice))
	behind, err := w.users.AuthenticateSession(ctx, w.token("", "alice"))
	w.no(err)
	_, err = w.users.Standing(ctx, before)
	w.wantCode("before", err, im.CodeRevoked)
	_, err = w.users.Standing(ctx, behind)
	w.no(err)
}
