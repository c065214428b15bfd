package user

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Info describes a user.
type Info struct {
	User        im.User
	DisplayName string
	Created     time.Time
	Disabled    bool
	HasPassword bool
	Standing    im.Standing
	LeavingMs   uint64 // when the user deleted the account; 0: never
	AddPolicy   AddPolicy
	Forwards    ForwardPolicy
	Presence    PresencePolicy
	First       FirstMessages
	Source      string   // who made the user: "operator", "registration", or "jwt ISSUER"
	Linked      []string // further sources that may log the user in
}

func describe(user im.User, u *storepb.User) Info {
	return Info{
		User: user, DisplayName: u.DisplayName, Created: time.UnixMilli(int64(u.CreatedMs)).UTC(), Disabled: u.Disabled,
		HasPassword: u.Password != "", Standing: standingOf(u), LeavingMs: u.LeavingMs,
		AddPolicy: AddPolicy(u.AddPolicy), Forwards: ForwardPolicy(u.ForwardPolicy),
		Presence: PresencePolicy(u.PresencePolicy), First: FirstMessages(u.FirstMessages),
		Source: cmp.Or(u.Source, "operator"), Linked: u.Linked,
	}
}

// Account describes a user to other users. A disabled one does not exist for them. Codes: no_user.
func (us *Users) Account(ctx context.Context, a im.Account) (Info, error) {
	i, err := us.Get(ctx, a)
	if err == nil && i.Disabled {
		return Info{}, noUser(a)
	}
	return i, err
}

// Get describes a user to the operator. Codes: no_user.
func (us *Users) Get(ctx context.Context, a im.Account) (Info, error) {
	u, err := us.must(ctx, a)
	if err != nil {
		return Info{}, err
	}
	return describe(a.User, u), nil
}

func noUser(a im.Account) error {
	return &im.Error{Code: im.CodeNoUser, User: a.User, Message: fmt.Sprintf("there is no user %.64s", a.User)}
}

// must reads a user's record, and fails if there is none. Codes: no_user.
func (us *Users) must(ctx context.Context, a im.Account) (*storepb.User, error) {
	u, err := us.read(ctx, a)
	if err == nil && u == nil {
		err = noUser(a)
	}
	return u, err
}

// changeUser changes a user's record in a transaction. f may write further records in it. Codes: no_user, and
// those of f and of change.
func (us *Users) changeUser(ctx context.Context, a im.Account,
	f func(*change, *storepb.User) error) (i Info, err error) {
	err = us.change(ctx, []im.Account{a}, func(c *change) error {
		u, err := c.user(ctx, a)
		if err == nil && u == nil {
			err = noUser(a)
		}
		if err != nil {
			return err
		}
		if err := f(c, u); err != nil {
			return err
		}
		i = describe(a.User, u)
		return c.putUser(a, u)
	})
	if err != nil {
		return Info{}, err
	}
	return i, nil
}

// AddPolicy says who may add a user to groups. The numbers are those of petrel.v1.AddPolicy, and
// stored.
type AddPolicy uint32

// These values of AddPolicy say who may add a user to groups; 0: see mayAdd. The operator always may.
const (
	ByEverybody AddPolicy = 1
	ByNobody    AddPolicy = 2
	ByContacts  AddPolicy = 3
)

// SetAddPolicy sets who may add a user to groups. Codes: invalid, no_user. Spec: P-8.8.
func (us *Users) SetAddPolicy(ctx context.Context, a im.Account, p AddPolicy) (Info, Profile, error) {
	return us.setPolicy(ctx, a, func(u *storepb.User) *uint32 { return &u.AddPolicy }, uint32(p), uint32(ByContacts),
		"everybody, contacts or nobody")
}

// setPolicy sets the policy of a user that of points to, and describes the user as this user sees it. last is the
// highest allowed value, and choice names the allowed ones in the error. Codes: invalid, no_user.
func (us *Users) setPolicy(ctx context.Context, a im.Account, of func(*storepb.User) *uint32, policy, last uint32,
	choice string) (i Info, p Profile, err error) {
	if policy > last {
		return i, p, im.Errorf(im.CodeInvalid, "policy must be %s", choice)
	}
	i, err = us.changeUser(ctx, a, func(_ *change, u *storepb.User) error {
		*of(u) = policy
		p = us.profile(a, u, asOneself)
		return nil
	})
	return i, p, err
}

// ForwardPolicy says how an author is shown in forwards of their messages. The numbers are those of
// petrel.v1.ForwardPolicy, and stored.
type ForwardPolicy uint32

// These values of ForwardPolicy say whether forwards name the author.
const (
	Named   ForwardPolicy = 1 // also 0
	Unnamed ForwardPolicy = 2
)

// SetForwardPolicy sets whether forwards of a user's messages name that user. Codes: invalid, no_user. Spec:
// P-5.10.
func (us *Users) SetForwardPolicy(ctx context.Context, a im.Account, p ForwardPolicy) (Info, Profile, error) {
	return us.setPolicy(ctx, a, func(u *storepb.User) *uint32 { return &u.ForwardPolicy }, uint32(p), uint32(Unnamed),
		"named or unnamed")
}

// IsNamed tells whether forwards may name a user. They do not name a
// user who does not exist (any more). Spec: P-5.10.
func (us *Users) IsNamed(ctx context.Context, a im.Account) (bool, error) {
	u, err := us.read(ctx, a)
	return u != nil && ForwardPolicy(u.ForwardPolicy) != Unnamed, err
}

// PresencePolicy says who may see when a user is online. The numbers are those of
// petrel.v1.PresencePolicy, and stored.
type PresencePolicy uint32

// These values of PresencePolicy say who may see when a user is online.
const (
	ToEverybody PresencePolicy = 1
	ToPeers     PresencePolicy = 2 // also 0: those to whom the user has written directly
	ToNobody    PresencePolicy = 3
)

// SetPresencePolicy sets who may see when a user is online. Codes: invalid, no_user. Spec: P-13.6.
func (us *Users) SetPresencePolicy(ctx context.Context, a im.Account, p PresencePolicy) (Info, Profile, error) {
	return us.setPolicy(ctx, a, func(u *storepb.User) *uint32 { return &u.PresencePolicy }, uint32(p), uint32(ToNobody),
		"everybody, peers or nobody")
}

// ProfileVersions are the versions of a user's profile.
type ProfileVersions struct {
	ForOthers   string // whom the user does not have as contacts
	ForContacts string
	Own         string
}

// Facts returns who may see when a user is online, and the versions of the user's profile: ToPeers, if nothing was
// set; ToNobody and no versions, if there is no such user, or if the user is disabled. Spec: P-13.6, P-14.5.
func (us *Users) Facts(ctx context.Context, a im.Account) (PresencePolicy, ProfileVersions, error) {
	u, err := us.read(ctx, a)
	if err != nil || u == nil || u.Disabled {
		return ToNobody, ProfileVersions{}, err
	}
	policy := PresencePolicy(u.PresencePolicy)
	switch {
	case u.LeavingMs > 0:
		policy = ToNobody
	case policy == 0:
		policy = ToPeers
	}
	v := ProfileVersions{ForOthers: us.profileVersion(a, u, asStranger), Own: us.profileVersion(a, u, asOneself)}
	if v.ForContacts = v.ForOthers; showsToContacts(u) {
		v.ForContacts = us.profileVersion(a, u, asContact)
	}
	return policy, v, nil
}

// ChangePassword changes a password, given the old one. It voids the JWTs of the user that were issued before
// now, and all tokens but those of the device that asks (keepDevice; "": the tokens without a device). It
// returns the devices whose sessions the caller ends with revoked; "" stands for the sessions without a device.
// Codes: bad_credentials, weak_password, rate_limited, overloaded.
func (us *Users) ChangePassword(ctx context.Context, a im.Account, old, password, keepDevice string) ([]string, error) {
	if err := us.Passwords.Check(a.User, password); err != nil {
		return nil, err
	}
	if err := us.allowPassword(a, keepDevice); err != nil {
		return nil, err
	}
	stored, _, err := us.checkCredentials(ctx, a, true, old)
	if err != nil {
		return nil, err
	}
	hash, err := us.Passwords.Hash(ctx, true, password)
	if err != nil {
		return nil, err
	}
	var ended []string
	_, err = us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		if u.Password != stored || u.Disabled { // changed meanwhile
			return &im.Error{Code: im.CodeBadCredentials}
		}
		u.Password, u.RevokedMs = hash, us.nowMs()
		ended, err = c.voidOthers(ctx, a, keepDevice)
		if keepDevice != "" {
			u.Epoch++
			ended = append(ended, "")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// SetPassword lets a user log in with a password. It voids all tokens, and the JWTs that were issued before
// now. The caller ends the sessions with revoked. Codes: weak_password, no_user, overloaded.
func (us *Users) SetPassword(ctx context.Context, a im.Account, password string) (Info, error) {
	if err := us.Passwords.Check(a.User, password); err != nil {
		return Info{}, err
	}
	if _, err := us.must(ctx, a); err != nil {
		return Info{}, err
	}
	hash, err := us.Passwords.Hash(ctx, true, password)
	if err != nil {
		return Info{}, err
	}
	return us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		u.Password = hash
		return c.revokeAll(ctx, a, u)
	})
}

// Disable voids a user's tokens, and the JWTs that were issued before now, and refuses their logins. The caller
// ends the sessions with user_disabled. Codes: no_user.
func (us *Users) Disable(ctx context.Context, a im.Account) (Info, error) {
	return us.changeUser(ctx, a, func(c *change, u *storepb.User) error {
		u.Disabled = true
		return c.revokeAll(ctx, a, u)
	})
}

// Enable lets a disabled user log in again. Codes: no_user.
func (us *Users) Enable(ctx context.Context, a im.Account) (Info, error) {
	return us.changeUser(ctx, a, func(_ *change, u *storepb.User) error {
		u.Disabled = false
		return nil
	})
}

// Revoke makes every token of a user void, and the JWTs that were issued before now. The caller ends the
// sessions with revoked. Codes: no_user.
func (us *Users) Revoke(ctx context.Context, a im.Account) error {
	_, err := us.changeUser(ctx, a, func(c *change, u *storepb.User) error { return c.revokeAll(ctx, a, u) })
	return err
}

// revokeAll voids all tokens of a user, and the JWTs of the user that were issued before now.
func (c *change) revokeAll(ctx context.Context, a im.Account, u *storepb.User) error {
	u.RevokedMs = c.us.nowMs()
	return c.voidAll(ctx, a, u)
}

// voidAll voids all tokens of a user: those of devices with their device, the others by a new epoch.
func (c *change) voidAll(ctx context.Context, a im.Account, u *storepb.User) error {
	u.Epoch++
	_, err := c.voidOthers(ctx, a, "")
	return err
}

// MaxUsersPage is the longest page of List.
const MaxUsersPage = 1000

// List describes users of a tenant whose id begins with prefix, ordered by id, or with down in the opposite
// order. The list begins behind the id after, and has at most limit users (0 or too large: MaxUsersPage). List
// also returns whether there are more.
func (us *Users) List(ctx context.Context, t im.Tenant, prefix string, after im.User, down bool,
	limit int) ([]Info, bool, error) {
	if limit <= 0 || limit > MaxUsersPage {
		limit = MaxUsersPage
	}
	after = after[:min(len(after), im.MaxUser+1)] // no id is as long
	var list []Info
	var bad error
	more := false
	err := store.RecordsBehind(ctx, us.store, store.Users, t, []byte(prefix), []byte(after), down,
		func(key, value []byte) bool {
			if len(list) == limit {
				more = true
				return false
			}
			u := &storepb.User{}
			if bad = u.UnmarshalVT(value); bad == nil {
				list = append(list, describe(im.User(key), u))
			}
			return bad == nil
		})
	if err == nil && bad != nil {
		err = fmt.Errorf("list users: %w", store.ErrCorrupt)
	}
	if err != nil {
		return nil, false, err
	}
	return list, more, nil
}
