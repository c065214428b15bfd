// Package idp checks the tokens of an identity provider: jwt.go the tokens, keyset.go the keys that the provider
// publishes.
package idp

import (
	"bytes"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// Options are how the tokens of an identity provider are checked.
type Options struct {
	Algorithm string // EdDSA, ES256, RS256 or HS256; no other is taken
	Key       []byte // PEM of the public key; for HS256 the secret, at least 32 bytes
	KeysURL   string // instead of Key: where the provider publishes its keys as a JWK set; not with HS256
	Issuer    string
	Audience  string
	Tenant    string // of the users; by name

	Classes    []string      // acr has to be one of them; none: acr is not checked
	Methods    []string      // amr has to name all of them; none: amr is not checked
	MaxAuthAge time.Duration // how long ago auth_time may be; 0: it is not checked

	TakeName bool // the claim name is the display name
}

// Provider checks the tokens of one identity provider.
type Provider struct {
	Tenant string // of its users, by name
	Issuer string
	key    any     // what the algorithm's method takes
	keys   *keySet // instead of key; nil: there is one key
	strong strength
	names  bool // Options.TakeName
	with   []jwt.ParserOption
}

// New makes a provider. A set of keys is kept up to date until ctx
// ends.
func New(ctx context.Context, log *slog.Logger, o *Options) (*Provider, error) {
	if o.Issuer == "" || o.Audience == "" {
		return nil, fmt.Errorf("open identity provider: issuer and audience must be set")
	}
	v := &Provider{Tenant: o.Tenant, Issuer: o.Issuer, strong: strength{o.Classes, o.Methods, o.MaxAuthAge},
		names: o.TakeName, with: []jwt.ParserOption{
			jwt.WithValidMethods([]string{o.Algorithm}), jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience),
			jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(jwtLeeway), jwt.WithStrictDecoding(),
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

// keyOf returns the key with which a token must be signed, and refuses tokens that are not for a login. A token
// with crit is only for readers who understand the extensions that it names (RFC 7515, 4.1.11); this server
// understands none. A provider also signs other things with the same key, such as the notice of a logout: typ
// tells them apart (RFC 8725, 3.11).
func (v *Provider) keyOf(t *jwt.Token) (any, error) {
	if _, ok := t.Header["crit"]; ok {
		return nil, errors.New("the header has crit, and no extension is known here")
	}
	if typ, ok := t.Header["typ"]; ok {
		name, _ := typ.(string)
		if !slices.Contains(jwtTypes, strings.TrimPrefix(strings.ToLower(name), "application/")) {
			return nil, fmt.Errorf("typ is %.64q, and not one of %v", name, jwtTypes)
		}
	}
	if v.keys != nil {
		return v.keys.keyOf(t)
	}
	return v.key, nil
}

// jwtTypes are the accepted values of typ: that of a JWT that says who somebody is, and that of an access token
// (RFC 9068).
var jwtTypes = []string{"jwt", "at+jwt"}

// Statement has what a JWT says.
type Statement struct {
	User   im.User
	Name   string    // of the person, if Options.TakeName is set; "": the JWT does not say it
	issued time.Time // zero: the JWT does not say it
}

// Read checks a token and returns what it says.
//
// Names of claims are case-sensitive, and none may occur twice. Other software reads tokens in the same way: for
// it {"sub":"bob","Sub":"alice"} is bob.
func (v *Provider) Read(token string, now time.Time) (*Statement, error) {
	if len(token) > maxJWT {
		return nil, fmt.Errorf("check JWT: %d bytes: %w", len(token), errTooLong)
	}
	c := jwt.MapClaims{} // a struct would take names in any case
	p := jwt.NewParser(append(v.with, jwt.WithTimeFunc(func() time.Time { return now }))...)
	t, err := p.ParseWithClaims(token, c, v.keyOf)
	if err != nil {
		return nil, fmt.Errorf("check JWT: %w", err)
	}
	for _, part := range strings.Split(t.Raw, ".")[:2] { // header and claims
		text, err := p.DecodeSegment(part)
		if err == nil {
			err = checkNames(json.NewDecoder(bytes.NewReader(text)))
		}
		if err != nil {
			return nil, fmt.Errorf("check JWT: %w", err)
		}
	}
	if exp, err := c.GetExpirationTime(); err != nil || exp == nil || exp.Sub(now) > maxJWTLife {
		return nil, fmt.Errorf("check JWT: the JWT is valid for more than %s", maxJWTLife)
	}
	if err := v.strong.check(c, now); err != nil {
		return nil, fmt.Errorf("check JWT: %w", err)
	}
	subject, err := c.GetSubject()
	if err != nil {
		return nil, fmt.Errorf("check JWT: %w", err)
	}
	s := &Statement{User: im.User(subject)}
	if v.names {
		s.Name, _ = c["name"].(string)
	}
	if iat, err := c.GetIssuedAt(); err != nil {
		return nil, fmt.Errorf("check JWT: %w", err)
	} else if iat != nil {
		s.issued = iat.Time
	}
	return s, s.User.Check()
}

// IsSigned reports whether an error of Read is about a JWT with a valid signature. Such a JWT is not a
// stranger's, so the operator is told why it was refused.
func IsSigned(err error) bool {
	return !errors.Is(err, jwt.ErrTokenMalformed) && !errors.Is(err, jwt.ErrTokenUnverifiable) &&
		!errors.Is(err, jwt.ErrTokenSignatureInvalid) && !errors.Is(err, errTooLong)
}

var errTooLong = errors.New("the JWT is too long")

// strength says how people must have logged in at the provider. Spec: P-11.2.
type strength struct {
	classes []string      // acr is one of them; none: acr is not checked
	methods []string      // amr names all of them
	maxAge  time.Duration // auth_time is not older; 0: it is not checked
}

// check returns an error if the claims of a JWT do not show such a login.
func (s strength) check(c jwt.MapClaims, now time.Time) error {
	if acr, _ := c["acr"].(string); len(s.classes) > 0 && !slices.Contains(s.classes, acr) {
		return fmt.Errorf("acr is %.64q, and not one of %q", acr, s.classes)
	}
	amr, _ := c["amr"].([]any)
	for _, m := range s.methods {
		if !slices.Contains(amr, any(m)) {
			return fmt.Errorf("amr does not name %q", m)
		}
	}
	if s.maxAge == 0 {
		return nil
	}
	seconds, ok := c["auth_time"].(float64)
	if age := now.Sub(time.Unix(int64(seconds), 0)); !ok || age > s.maxAge+jwtLeeway {
		return fmt.Errorf("auth_time is missing, or longer ago than %s", s.maxAge)
	}
	return nil
}

// checkNames reads one JSON value and refuses a name that occurs twice in an object.
func checkNames(d *json.Decoder) error {
	first, err := d.Token()
	delim, ok := first.(json.Delim)
	if err != nil || !ok {
		return err
	}
	seen := map[json.Token]bool{}
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("the name %.64q occurs twice", name)
			}
			seen[name] = true
		}
		if err := checkNames(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the end of the object or array
	return err
}

// Precedes reports whether a JWT was made before the last revocation of the user's tokens (Unix milliseconds, 0:
// there was none), or may have been: nobody may log in again with a stolen JWT. iat is in whole seconds, so a JWT
// of the same second counts as made before. Spec: P-11.2.
func (s *Statement) Precedes(revokedMs uint64) bool {
	return revokedMs > 0 && (s.issued.IsZero() || s.issued.UnixMilli() <= int64(revokedMs))
}
