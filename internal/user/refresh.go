package user

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A refresh token's secret is the id of the login, random bytes, and a check of both. So a forged
// token has no effect, and a used one is recognised for ever, without a record for each.
//
// The id is random. The number of the login would not do: after a rollback of the store, new logins
// get the numbers of lost ones. A token of a lost login would then void the login of another
// device.
const (
	refreshLogin  = 8  // bytes
	refreshRandom = 24 // bytes
	refreshCheck  = 16 // bytes
	refreshSecret = refreshLogin + refreshRandom + refreshCheck
)

// mac returns a keyed hash of parts under the store's secret. Hashes for two purposes differ.
func (us *Users) mac(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, us.secret[:])
	h.Write([]byte(purpose))
	for _, p := range parts {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	return h.Sum(nil)
}

// pair derives the tokens of a login from its id and a seed. The same seed gives the same tokens.
func (us *Users) pair(a im.Account, tenantName string, loginID []byte, seed [32]byte) (access, refresh string) {
	access = accessToken(tenantName, a.User, base64.RawURLEncoding.EncodeToString(us.mac("access token", seed[:])))
	b := slices.Concat(loginID, us.mac("refresh token", seed[:])[:refreshRandom])
	b = append(b, us.refreshCheck(a, b)...)
	return access, refreshPrefix + named(tenantName) + "." + string(a.User) + "." +
		base64.RawURLEncoding.EncodeToString(b)
}

func (us *Users) refreshCheck(a im.Account, b []byte) []byte {
	return us.mac("refresh check", binary.BigEndian.AppendUint32(nil, uint32(a.Tenant)), []byte(a.User),
		b)[:refreshCheck]
}

// cutRefresh parses a refresh token; false: it was not issued here.
func (us *Users) cutRefresh(ctx context.Context,
	token string) (a im.Account, tenantName string, loginID []byte, ok bool, err error) {
	a, tenantName, text, ok, err := us.cutToken(ctx, token, refreshPrefix)
	if !ok || err != nil {
		return a, "", nil, false, err
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != refreshSecret || len(text) != base64.RawURLEncoding.EncodedLen(refreshSecret) {
		return a, "", nil, false, nil
	}
	n := len(b) - refreshCheck
	if !hmac.Equal(b[n:], us.refreshCheck(a, b[:n])) {
		return a, "", nil, false, nil
	}
	return a, tenantName, b[:refreshLogin], true, nil
}

// Refresh turns a refresh token, which works once, into a new pair. The same token
// with the same request id gets the same answer until the new refresh token is used,
// also from a server that was restarted: the new secrets are derived from both.
//
// With refresh_reused the Login is not nil and names the device, whose tokens are
// void; the caller ends the sessions of Ended with revoked. Codes: unauthenticated,
// refresh_reused, user_disabled, rate_limited. Spec: P-11.3.
func (us *Users) Refresh(ctx context.Context, token, requestID string) (*Login, error) {
	bad := &im.Error{Code: im.CodeUnauthenticated}
	a, tenantName, loginID, ok, err := us.cutRefresh(ctx, token)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, bad
	}
	if err := us.allow(rateRefresh, a, us.o.Rates.Refreshes); err != nil {
		return nil, err
	}
	var l *Login
	var reused bool
	err = us.change(ctx, []im.Account{a}, func(c *change) error {
		l, reused = nil, false
		u, err := us.read(ctx, a)
		if err != nil {
			return err
		}
		list, err := c.devices(ctx, a)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(d known) bool { return bytes.Equal(d.LoginId, loginID) })
		switch {
		case u == nil || i < 0:
			return bad
		case u.Disabled:
			return &im.Error{Code: im.CodeUserDisabled}
		case list[i].Revoked:
			return bad
		}
		l = &Login{Account: a, Device: list[i].id, Number: list[i].Login}
		reused, err = c.refresh(ctx, l, tenantName, list[i].Device, token, requestID)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case reused:
		return l, &im.Error{Code: im.CodeRefreshReused}
	}
	return l, nil
}

// refresh gives a device the next pair, or voids the device if its token was used before.
func (c *change) refresh(ctx context.Context, l *Login, tenantName string, d *storepb.Device, token,
	requestID string) (reused bool, err error) {
	us := c.us
	sum := sha256.Sum256([]byte(token))
	if bytes.Equal(sum[:], d.Refresh) {
		if d.RefreshExpiresMs <= us.nowMs() {
			return false, &im.Error{Code: im.CodeUnauthenticated}
		}
		return false, c.issue(l, tenantName, d, us.refreshSeed(token, requestID), us.o.AccessTTL)
	}
	if bytes.Equal(sum[:], d.Spent) && requestID != "" {
		if again, err := us.repeated(ctx, l, tenantName, d, us.refreshSeed(token, requestID)); again || err != nil {
			return false, err
		}
	}
	c.ends = l.Account
	void(d, false)
	l.Ended = []string{l.Device}
	return true, c.putDevice(l.Account, l.Device, d)
}

// refreshSeed returns the seed of the next pair. Without a request id it is random, so a repeat
// cannot get the same pair.
func (us *Users) refreshSeed(token, requestID string) (seed [32]byte) {
	if requestID == "" {
		_, _ = rand.Read(seed[:]) // never fails
		return seed
	}
	return [32]byte(us.mac("refresh seed", []byte(token), []byte(requestID)))
}

// repeated fills l with the pair of the last refresh, if this is a repeat of it and the record of the access
// token is still stored; otherwise it returns false. The access token may have expired meanwhile.
func (us *Users) repeated(ctx context.Context, l *Login, tenantName string, d *storepb.Device,
	seed [32]byte) (bool, error) {
	access, refresh := us.pair(l.Account, tenantName, d.LoginId, seed)
	if sum := sha256.Sum256([]byte(refresh)); !bytes.Equal(sum[:], d.Refresh) {
		return false, nil
	}
	rec, err := us.lookUp(ctx, l.Account.Tenant, access)
	if err != nil || rec == nil {
		return false, err
	}
	l.Access, l.Refresh = access, refresh
	l.AccessExpires, l.RefreshExpires = time.UnixMilli(int64(rec.ExpiresMs)), time.UnixMilli(int64(d.RefreshExpiresMs))
	return true, nil
}
