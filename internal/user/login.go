package user

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"

	"github.com/petrel-im/petrel/internal/idp"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Login is the durable login of one device. The store has only hashes of
// the tokens. The caller ends the sessions of Ended before it answers.
type Login struct {
	Account        im.Account
	Device         string
	Number         uint64 // counts the user's logins; a higher number is newer
	Access         string
	Refresh        string
	AccessExpires  time.Time
	RefreshExpires time.Time

	// Ended are the devices whose earlier sessions end with replaced: surplus devices of the kind, the device
	// itself if it was logged in, and devices that were removed as too many. After a reused refresh token it is
	// the device itself, whose sessions end with revoked.
	Ended []string

	Renamed bool // the login has changed the profile
}

// maxDisplayName is in bytes.
const maxDisplayName = 128

// maxAccess is how many access tokens of one login are valid at the same
// time. A refresh beyond that ends the oldest.
const maxAccess = 16

// maxMintTTL is the longest life of a minted access token.
const maxMintTTL = 30 * 24 * time.Hour

// Newcomer is a user who registers.
type Newcomer struct {
	Tenant      string // by name; "": the default one
	User        im.User
	Password    string
	DisplayName string
	Invitation  string // "": none
}

// Register makes a user with a password and logs their first device in. remote
// is the client's address; the zero value is not limited. Codes: forbidden,
// invalid, weak_password, user_exists, rate_limited, overloaded. Spec: P-11.1.
func (us *Users) Register(ctx context.Context, n Newcomer, ref DeviceRef, remote netip.Addr) (*Login, error) {
	for _, err := range []error{n.User.Check(), us.Passwords.Check(n.User, n.Password), checkDisplayName(n.DisplayName),
		ref.check()} {
		if err != nil {
			return nil, err
		}
	}
	limit := rate.Per(us.o.Rates.Registrations, time.Hour, us.o.Rates.Registrations)
	if err := us.rates.registrations.Take(us.now(), remote, limit); err != nil {
		return nil, err
	}
	t, err := us.Tenant(ctx, n.Tenant)
	if err != nil && im.CodeOf(err) != im.CodeInvalid {
		return nil, err
	}
	if err := us.begin().admitRegistration(ctx, t, &n); err != nil {
		return nil, err
	}
	a := im.Account{Tenant: t, User: n.User}
	if ok, err := us.Exists(ctx, a); err != nil {
		return nil, err
	} else if ok {
		return nil, taken(n.User) // before the hash, which costs much time
	}
	hash, err := us.Passwords.Hash(ctx, false, n.Password)
	if err != nil {
		return nil, err
	}
	return us.logIn(ctx, a, n.Tenant, ref, us.o.AccessTTL, func(c *change, u *storepb.User) (*storepb.User, error) {
		if u != nil {
			return nil, taken(n.User)
		}
		if err := c.admitRegistration(ctx, t, &n); err != nil {
			return nil, err
		}
		u = us.newUser()
		u.Password, u.DisplayName, u.Source = hash, n.DisplayName, byRegistration
		return u, nil
	})
}

func checkDisplayName(name string) error { return im.CheckShown("display_name", name, maxDisplayName) }

// LogIn logs a device in with a password. For an unknown tenant or user the answer is the same
// as for a wrong password, after the same work; only with the right password does the answer
// say that a user is disabled, or has deleted the account; restore takes that back. remote is the client's address;
// the zero value is not limited. Codes: invalid, bad_credentials, user_disabled, account_leaving, rate_limited,
// overloaded. Spec: P-11.2, P-14.26.
func (us *Users) LogIn(ctx context.Context, tenantName string, user im.User, password string, ref DeviceRef,
	remote netip.Addr, restore bool) (*Login, error) {
	if err := ref.check(); err != nil {
		return nil, err
	}
	t, err := us.Tenant(ctx, tenantName)
	if err != nil && im.CodeOf(err) != im.CodeInvalid {
		return nil, err
	}
	a := im.Account{Tenant: t, User: user}
	if err != nil || user.Check() != nil { // no user can have it
		a = im.Account{}
	}
	known, err := us.admitLogin(ctx, a, tries(tenantName, user, ref.ID), remote)
	if err != nil {
		return nil, err
	}
	stored, rehash, err := us.checkCredentials(ctx, a, known, password)
	if err != nil {
		return nil, err
	}
	restored := false
	admit := func(_ *change, u *storepb.User) (*storepb.User, error) {
		if u == nil || u.Password != stored { // changed meanwhile
			return nil, &im.Error{Code: im.CodeBadCredentials}
		}
		var err error
		if restored, err = us.mayLogIn(u, restore); err != nil {
			return nil, err
		}
		if rehash != "" {
			u.Password = rehash
		}
		return u, nil
	}
	l, err := us.logIn(ctx, a, tenantName, ref, us.o.AccessTTL, admit)
	if err == nil {
		l.Renamed = restored
	}
	return l, err
}

// checkCredentials returns the stored hash that the password fits. rehash is a new
// hash, if the stored one has less work than new ones, and otherwise "". The zero
// account has no password. known means that the request comes from a session, or from a
// device that was logged in before. Codes: bad_credentials, user_disabled, overloaded.
func (us *Users) checkCredentials(ctx context.Context, a im.Account, known bool,
	password string) (stored, rehash string, err error) {
	var u *storepb.User
	if a.User != "" {
		if u, err = us.read(ctx, a); err != nil {
			return "", "", err
		}
	}
	may := u != nil && u.Password != ""
	stored = us.Passwords.DummyHash
	if may {
		stored = u.Password
	}
	ok, old, err := us.Passwords.Verify(ctx, known, stored, password)
	switch {
	case err != nil:
		return "", "", err
	case !ok || !may:
		return "", "", &im.Error{Code: im.CodeBadCredentials}
	case u.Disabled:
		return "", "", &im.Error{Code: im.CodeUserDisabled}
	}
	if old {
		rehash, err = us.Passwords.Hash(ctx, known, password)
	}
	return stored, rehash, err
}

// Exchange logs a device in with a JWT of the configured identity provider. The
// user is the sub of the JWT, and is made if there is none. Codes: unsupported,
// invalid, bad_credentials, user_disabled, account_leaving, rate_limited. Spec: P-11.2, P-14.26.
func (us *Users) Exchange(ctx context.Context, tenantName, token string, ref DeviceRef, restore bool) (*Login, error) {
	provider := us.idp.Load() // a new key may come meanwhile
	if provider == nil {
		return nil, im.Errorf(im.CodeUnsupported, "no identity provider is configured")
	}
	if err := ref.check(); err != nil {
		return nil, err
	}
	if token == "" {
		return nil, im.Errorf(im.CodeInvalid, "token is missing: it is the JWT")
	}
	if tenantName == "" {
		tenantName = provider.Tenant
	}
	said, err := provider.Read(token, us.now())
	if err == nil && named(tenantName) != provider.Tenant {
		err = fmt.Errorf("the login is for tenant %.64q, and jwt.tenant is %q", tenantName, provider.Tenant)
	}
	if err != nil {
		if idp.IsSigned(err) {
			us.log.Warn("a JWT that the identity provider has signed is refused", "err", err)
		}
		return nil, &im.Error{Code: im.CodeBadCredentials}
	}
	t, err := us.EnsureTenant(ctx, provider.Tenant)
	if err != nil {
		return nil, err
	}
	a := im.Account{Tenant: t, User: said.User}
	if err := us.allow(rateExchange, a, us.o.Rates.Logins); err != nil {
		return nil, err
	}
	if said.Name != "" {
		err := checkDisplayName(said.Name)
		if err == nil {
			err = checkShown(said.Name)
		}
		if err != nil {
			us.log.Warn("the name in a JWT is not taken over", "user", string(a.User), "err", err)
			said.Name = ""
		}
	}
	renamed := false
	l, err := us.vouched(ctx, a, tenantName, ref, us.o.AccessTTL, source(provider), im.CodeBadCredentials,
		func(u *storepb.User) bool { return said.Precedes(u.RevokedMs) }, func(u *storepb.User) error {
			restored, err := us.mayLogIn(u, restore)
			if renamed = restored; said.Name != "" && said.Name != u.DisplayName && u.MutedMs <= us.nowMs() {
				u.DisplayName, renamed = said.Name, true
			}
			return err
		})
	if err == nil {
		l.Renamed = renamed
	}
	return l, err
}

// Mint logs a device in for the application's back end, and makes the tenant and the user if there
// are none. ttl is the access token's life, at most 30 days; 0: that of the options. Codes:
// invalid, user_disabled, account_leaving, forbidden (another source vouches for the user). Spec: P-11.4.
func (us *Users) Mint(ctx context.Context, tenantName string, user im.User, ref DeviceRef,
	ttl time.Duration) (*Login, error) {
	if ttl < 0 || ttl > maxMintTTL {
		return nil, im.Errorf(im.CodeInvalid, "ttl_s is at most %d", int(maxMintTTL.Seconds()))
	}
	if ttl == 0 {
		ttl = us.o.AccessTTL
	}
	for _, err := range []error{user.Check(), ref.check()} {
		if err != nil {
			return nil, err
		}
	}
	t, err := us.EnsureTenant(ctx, named(tenantName))
	if err != nil {
		return nil, err
	}
	return us.vouched(ctx, im.Account{Tenant: t, User: user}, tenantName, ref, ttl, byOperator, im.CodeForbidden, nil,
		func(u *storepb.User) error {
			_, err := us.mayLogIn(u, false)
			return err
		})
}

// vouched logs a device in for a source, and makes the user if there is none. It refuses with code a user of
// another source that was not linked with this one, and a user whose token of the source is void. The function
// void tells that of a user; nil: no token is void. admit refuses a user who may not log in, and changes the record of
// one who may. Codes: code, and those of admit.
func (us *Users) vouched(ctx context.Context, a im.Account, tenantName string, ref DeviceRef, ttl time.Duration,
	source string, code im.Code, void func(*storepb.User) bool, admit func(*storepb.User) error) (*Login, error) {
	return us.logIn(ctx, a, tenantName, ref, ttl, func(c *change, u *storepb.User) (*storepb.User, error) {
		if u == nil {
			u = us.newUser()
			u.Source = source
			if err := admit(u); err != nil {
				return nil, err
			}
			return u, c.claim(ctx, a, false, false)
		}
		switch {
		case !speaksFor(source, u):
			return nil, &im.Error{Code: code}
		case u.Disabled:
			return nil, &im.Error{Code: im.CodeUserDisabled}
		case void != nil && void(u):
			return nil, &im.Error{Code: code}
		}
		return u, admit(u)
	})
}

// logIn gives a login of a device the next number of its user, and voids the logins that
// it ends, in one durable change. admit gets the user's record (nil: there is none) and
// returns the record to use; it may write further records in the change. Spec: P-11.4.
func (us *Users) logIn(ctx context.Context, a im.Account, tenantName string, ref DeviceRef, ttl time.Duration,
	admit func(*change, *storepb.User) (*storepb.User, error)) (l *Login, err error) {
	err = us.change(ctx, []im.Account{a}, func(c *change) error {
		u, err := c.user(ctx, a)
		if err == nil {
			u, err = admit(c, u)
		}
		if err != nil {
			return err
		}
		u.Logins++
		if err := c.putUser(a, u); err != nil {
			return err
		}
		l, err = c.logIn(ctx, a, tenantName, u, ref, ttl)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// logIn writes the login of a device. The change has read the record u of the
// user, so of two simultaneous logins on two nodes one has to begin anew.
func (c *change) logIn(ctx context.Context, a im.Account, tenantName string, u *storepb.User, ref DeviceRef,
	ttl time.Duration) (*Login, error) {
	us := c.us
	list, err := c.devices(ctx, a)
	if err != nil {
		return nil, err
	}
	l := &Login{Account: a, Device: ref.ID, Number: u.Logins}
	var d *storepb.Device
	others, ofKind := 0, 0
	for _, o := range list { // newest first
		if o.id == ref.ID {
			d = o.Device
			l.Ended = append(l.Ended, o.id)
			continue
		}
		others++
		replace := false
		if !us.o.ManyPerKind && ref.Kind != "" && o.Kind == ref.Kind && !o.Revoked {
			ofKind++
			replace = ofKind >= perKind(ref.Kind)
		}
		if replace || others >= maxDevices {
			l.Ended = append(l.Ended, o.id)
		}
		if others >= maxDevices {
			c.dropTokens(a.Tenant, o.Device)
			c.Put(store.Devices, a.Tenant, deviceKey(a.User, o.id), nil)
		} else if replace {
			void(o.Device, true)
			if err := c.putDevice(a, o.id, o.Device); err != nil {
				return nil, err
			}
		}
	}
	if len(l.Ended) > 0 {
		c.ends = a
	}
	if d == nil {
		d = &storepb.Device{}
	}
	c.dropTokens(a.Tenant, d)
	d.Kind, d.LoginMs, d.Login, d.Revoked, d.Replaced, d.Refresh = ref.Kind, us.nowMs(), l.Number, false, false, nil
	d.MutedMs, d.PrivateReading = u.MutedMs, u.PrivateReading
	if ref.Name != "" {
		d.Name = ref.Name
	}
	var seed [32]byte
	d.LoginId = make([]byte, refreshLogin)
	_, _ = rand.Read(seed[:])   // never fails
	_, _ = rand.Read(d.LoginId) // the same
	return l, c.issue(l, tenantName, d, seed, ttl)
}

// perKind returns how many devices of a kind a user has at the same time. Several browsers of one
// user must not log each other out. Spec: P-11.4.
func perKind(kind string) int {
	if kind == "web" {
		return 5
	}
	return 1
}

// issue gives a device a new pair of tokens, which are derived from seed. It deletes the device's access tokens
// that have expired, and the oldest ones beyond maxAccess.
func (c *change) issue(l *Login, tenantName string, d *storepb.Device, seed [32]byte, ttl time.Duration) error {
	us := c.us
	now := time.UnixMilli(int64(us.nowMs()))
	l.Access, l.Refresh = us.pair(l.Account, tenantName, d.LoginId, seed)
	l.AccessExpires, l.RefreshExpires = now.Add(ttl), now.Add(us.o.RefreshTTL)
	sum := sha256.Sum256([]byte(l.Refresh))
	d.Spent, d.Refresh, d.RefreshExpiresMs = d.Refresh, sum[:], uint64(l.RefreshExpires.UnixMilli())
	var live []*storepb.Access
	for i, x := range d.Access { // oldest first
		if x.ExpiresMs <= us.nowMs() || i <= len(d.Access)-maxAccess {
			c.Put(store.Tokens, l.Account.Tenant, x.Key, nil)
		} else {
			live = append(live, x)
		}
	}
	expires := uint64(l.AccessExpires.UnixMilli())
	key := sha256.Sum256([]byte(l.Access))
	d.Access = append(live, &storepb.Access{Key: key[:], ExpiresMs: expires})
	if err := c.putToken(l.Account.Tenant, l.Access, &storepb.Token{User: string(l.Account.User), Device: l.Device,
		Login: d.Login, ExpiresMs: expires}); err != nil {
		return err
	}
	return c.putDevice(l.Account, l.Device, d)
}
