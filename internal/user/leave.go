package user

import (
	"context"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

const (
	// restorable is how long a user may take back that they have deleted their account. Spec: P-14.25.
	restorable = 7 * 24 * time.Hour

	// freshLogin is how long after its login a device of a user without a password may delete the account.
	freshLogin = 10 * time.Minute
)

// managedAccount is the value of Managed of a tenant where only the application deletes accounts.
const managedAccount = "account"

// Leave deletes the account of a user on their own behalf: it voids all tokens, and others see no profile any
// more. The records stay. The caller ends the sessions with revoked. Codes: bad_credentials, forbidden,
// rate_limited, overloaded. Spec: P-14.25.
func (us *Users) Leave(ctx context.Context, id Identity, password string) (until time.Time, err error) {
	a := id.Account
	rec, err := us.tenantRecord(ctx, a.Tenant)
	if err != nil {
		return time.Time{}, err
	}
	if slices.Contains(rec.Managed, managedAccount) {
		return time.Time{}, im.Errorf(im.CodeForbidden, "only the application deletes accounts")
	}
	u, err := us.must(ctx, a)
	if err != nil {
		return time.Time{}, err
	}
	stored := ""
	if u.Password != "" {
		if err := us.allowPassword(a, id.Device); err != nil {
			return time.Time{}, err
		}
		if stored, _, err = us.checkCredentials(ctx, a, true, password); err != nil {
			return time.Time{}, err
		}
	} else if err := us.checkFresh(ctx, id); err != nil {
		return time.Time{}, err
	}
	_, err = us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		if u.Password != stored || u.Disabled { // changed meanwhile
			return &im.Error{Code: im.CodeBadCredentials}
		}
		u.LeavingMs = us.nowMs()
		until = restorableUntil(u)
		return c.revokeAll(ctx, a, u)
	})
	return until, err
}

func restorableUntil(u *storepb.User) time.Time {
	return time.UnixMilli(int64(u.LeavingMs)).Add(restorable)
}

// checkFresh refuses a device that has logged in some time ago: a thief of its tokens must not delete the account.
// Codes: forbidden.
func (us *Users) checkFresh(ctx context.Context, id Identity) error {
	if id.Device != "" {
		d, err := us.device(ctx, id.Account, id.Device)
		if err != nil || d != nil && us.now().Sub(time.UnixMilli(int64(d.LoginMs))) <= freshLogin {
			return err
		}
	}
	return im.Errorf(im.CodeForbidden, "log in again first: the account has no password, and this login is older than %d minutes",
		freshLogin/time.Minute)
}

// Restore gives a user who has deleted the account it back, for the operator. Codes: no_user.
func (us *Users) Restore(ctx context.Context, a im.Account) (Info, error) {
	return us.changeUser(ctx, a, func(_ *change, u *storepb.User) error {
		u.LeavingMs = 0
		return nil
	})
}

// mayLogIn refuses a login to an account that is disabled or deleted. With restore it takes the deletion back in
// time. Its caller has seen that the user may log in otherwise. Codes: user_disabled, account_leaving. Spec: P-14.26.
func (us *Users) mayLogIn(u *storepb.User, restore bool) (restored bool, err error) {
	left := time.Duration(0)
	if u.LeavingMs > 0 {
		left = restorableUntil(u).Sub(us.now())
	}
	switch {
	case u.Disabled, left < 0 || left == 0 && u.LeavingMs > 0:
		return false, &im.Error{Code: im.CodeUserDisabled}
	case u.LeavingMs == 0:
		return false, nil
	case !restore:
		return false, &im.Error{Code: im.CodeAccountLeaving, RetryAfter: left}
	}
	u.LeavingMs = 0
	return true, nil
}
