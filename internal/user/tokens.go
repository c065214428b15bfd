package user

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// Prefixes make tokens recognisable to secret scanners.
const (
	tokenPrefix   = "pt_"
	refreshPrefix = "pr_"
)

// MaxToken is the longest accepted token, in bytes.
const MaxToken = 256

// secret returns 256 random bits as text.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// accessToken returns a token with tenant and user in clear, so that it
// names the partition of its user. The rest is the secret.
func accessToken(tenantName string, u im.User, secret string) string {
	return tokenPrefix + named(tenantName) + "." + string(u) + "." + secret
}

// named returns a tenant's name as it stands in tokens.
func named(tenantName string) string {
	if tenantName == "" {
		return DefaultTenantName
	}
	return tenantName
}

// cutToken parses a token; false: it is malformed, or its tenant does not exist. User ids may contain dots;
// tenant names and secrets do not.
func (us *Users) cutToken(ctx context.Context, token,
	prefix string) (a im.Account, tenantName, secret string, ok bool, err error) {
	body, ok := strings.CutPrefix(token, prefix)
	tenantName, rest, ok2 := strings.Cut(body, ".")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || !ok2 || dot <= 0 || len(token) > MaxToken || tenantName == "" {
		return im.Account{}, "", "", false, nil
	}
	t, err := us.Tenant(ctx, tenantName)
	if err != nil {
		if im.CodeOf(err) == im.CodeInvalid { // there is none
			err = nil
		}
		return im.Account{}, "", "", false, err
	}
	return im.Account{Tenant: t, User: im.User(rest[:dot])}, tenantName, rest[dot+1:], true, nil
}

func (us *Users) lookUp(ctx context.Context, t im.Tenant, token string) (*storepb.Token, error) {
	sum := sha256.Sum256([]byte(token))
	value, err := us.store.Record(ctx, store.Tokens, t, sum[:])
	if err != nil {
		return nil, err
	}
	return transaction.Parse[storepb.Token]("token", value)
}
