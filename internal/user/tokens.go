package user

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Prefixes make tokens recognisable to secret scanners.
const (
	tokenPrefix = "pt_"
	keyPrefix   = "pk_"
)

// secret returns 256 random bits as text.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// newToken makes an access token. Tenant and user stand in it in clear, so
// that it names the partition of its user; the rest is random.
func (us *Users) newToken(t im.Tenant, tenantName string, u im.User, epoch uint64) (string, store.RecordPut, error) {
	if tenantName == "" {
		tenantName = DefaultTenantName
	}
	// User ids may contain dots; tenant names and secrets do not.
	token := tokenPrefix + tenantName + "." + string(u) + "." + secret()
	put, err := us.tokenPut(t, token, &storepb.Token{User: string(u), Epoch: epoch})
	return token, put, err
}

func (us *Users) tokenPut(t im.Tenant, token string, rec *storepb.Token) (store.RecordPut, error) {
	rec.CreatedMs = uint64(us.now().UnixMilli())
	value, err := rec.MarshalVT()
	sum := sha256.Sum256([]byte(token))
	return store.RecordPut{Table: store.Tokens, Tenant: t, Key: sum[:], Value: value, IfAbsent: true}, err
}

// Authenticate tells whose a token is. Codes: unauthenticated.
func (us *Users) Authenticate(ctx context.Context, token string) (im.Account, error) {
	bad := &im.Error{Code: im.CodeUnauthenticated}
	body, ok := strings.CutPrefix(token, tokenPrefix)
	tenantName, rest, ok2 := strings.Cut(body, ".")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || !ok2 || dot <= 0 || len(token) > 256 {
		return im.Account{}, bad
	}
	t, err := us.Tenant(tenantName)
	if err != nil {
		return im.Account{}, bad
	}
	rec, err := us.lookUp(ctx, t, token)
	if err != nil {
		return im.Account{}, err
	}
	a := im.Account{Tenant: t, User: im.User(rest[:dot])}
	if rec == nil || rec.User != string(a.User) {
		return im.Account{}, bad
	}
	u, err := us.read(ctx, a)
	if err != nil {
		return im.Account{}, err
	}
	if u == nil || u.Disabled || u.Epoch != rec.Epoch || rec.ExpiresMs != 0 && rec.ExpiresMs <= uint64(us.now().UnixMilli()) {
		return im.Account{}, bad
	}
	a.User = im.User(rec.User) // not a piece of the frame
	return a, nil
}

func (us *Users) lookUp(ctx context.Context, t im.Tenant, token string) (*storepb.Token, error) {
	sum := sha256.Sum256([]byte(token))
	value, err := us.store.Record(ctx, store.Tokens, t, sum[:])
	if err != nil || value == nil {
		return nil, err
	}
	rec := &storepb.Token{}
	if err := rec.UnmarshalVT(value); err != nil {
		return nil, fmt.Errorf("read token: %w", store.ErrCorrupt)
	}
	return rec, nil
}

// IsAdmin tells whether key is an admin key.
func (us *Users) IsAdmin(ctx context.Context, key string) (bool, error) {
	if !strings.HasPrefix(key, keyPrefix) || len(key) > 256 {
		return false, nil
	}
	rec, err := us.lookUp(ctx, 0, key)
	return rec != nil && rec.User == "", err
}
