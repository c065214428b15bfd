package user

import (
	"bytes"
	"context"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/petrel-im/petrel/internal/im"
)

const (
	maxJWT       = 8 << 10         // bytes
	maxJWTLife   = 24 * time.Hour  // from now to exp
	jwtLeeway    = 5 * time.Second // for clocks that differ
	minJWTSecret = 32              // bytes, of HS256
	minRSABits   = 2048
)

// verifier checks the tokens of one identity provider.
type verifier struct {
	tenant string
	issuer string
	key    any     // what the algorithm's method takes
	keys   *keySet // instead of key; nil: there is one key
	with   []jwt.ParserOption
}

// newVerifier makes the verifier of a provider. A set of keys is kept up to date until ctx
// ends.
func newVerifier(ctx context.Context, log *slog.Logger, o *JWT) (*verifier, error) {
	if o.Issuer == "" || o.Audience == "" {
		return nil, fmt.Errorf("open identity provider: issuer and audience must be set")
	}
	v := &verifier{tenant: named(o.Tenant), issuer: o.Issuer, with: []jwt.ParserOption{
		jwt.WithValidMethods([]string{o.Algorithm}), jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience),
		jwt.WithExpirationRequired(), jwt.WithLeeway(jwtLeeway), jwt.WithStrictDecoding(),
	}}
	var err error
	if o.KeysURL != "" {
		if v.keys, err = openKeySet(ctx, log, o); err != nil {
			return nil, fmt.Errorf("open identity provider: %w", err)
		}
		return v, nil
	}
	switch o.Algorithm {
	case "EdDSA":
		v.key, err = jwt.ParseEdPublicKeyFromPEM(o.Key)
	case "ES256":
		v.key, err = jwt.ParseECPublicKeyFromPEM(o.Key)
	case "RS256":
		var k *rsa.PublicKey
		if k, err = jwt.ParseRSAPublicKeyFromPEM(o.Key); err == nil && k.N.BitLen() < minRSABits {
			err = fmt.Errorf("an RSA key has at least %d bits", minRSABits)
		}
		v.key = k
	case "HS256":
		k := bytes.TrimSpace(o.Key)
		if len(k) < minJWTSecret {
			err = fmt.Errorf("the secret of HS256 has at least %d bytes", minJWTSecret)
		}
		v.key = k
	default:
		err = fmt.Errorf("the algorithm is none of EdDSA, ES256, RS256, HS256")
	}
	if err != nil {
		return nil, fmt.Errorf("open identity provider: key for algorithm %q: %w", o.Algorithm, err)
	}
	return v, nil
}

// keyOf is the key of a token. A token with crit says that it means nothing to whoever
// does not understand the extensions that it names (RFC 7515, 4.1.11). This server
// understands none.
func (v *verifier) keyOf(t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, fmt.Errorf("the header has crit, and no extension is known here")
	}
	if v.keys != nil {
		return v.keys.keyOf(t)
	}
	return v.key, nil
}

// subject checks a token and returns its user.
func (v *verifier) subject(token string, now time.Time) (im.User, error) {
	if len(token) > maxJWT {
		return "", fmt.Errorf("check JWT: %d bytes", len(token))
	}
	var c jwt.RegisteredClaims
	p := jwt.NewParser(append(v.with, jwt.WithTimeFunc(func() time.Time { return now }))...)
	if _, err := p.ParseWithClaims(token, &c, v.keyOf); err != nil {
		return "", fmt.Errorf("check JWT: %w", err)
	}
	if c.ExpiresAt.Sub(now) > maxJWTLife {
		return "", fmt.Errorf("check JWT: the JWT is valid for more than %s", maxJWTLife)
	}
	u := im.User(c.Subject)
	return u, u.Check()
}
