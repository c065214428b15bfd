package user_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"github.com/petrel-im/petrel/internal/idp"
	"log/slog"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

const sharedSecret = "0123456789abcdef0123456789abcdef"

func publicPEM(t testing.TB, k crypto.PublicKey) []byte {
	t.Helper()
	b, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b})
}

// provider makes tokens.
type provider struct {
	t      *testing.T
	method jwt.SigningMethod
	key    any
}

func (p provider) sign(c jwt.MapClaims) string {
	p.t.Helper()
	s, err := jwt.NewWithClaims(p.method, c).SignedString(p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// claims are good ones of a moment, with changes.
func claims(now time.Time, change jwt.MapClaims) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "https://id.example", "aud": "petrel", "sub": "alice", "exp": now.Add(time.Hour).Unix()}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

func withJWT(algorithm string, key []byte, tenant string) func(*user.Options) {
	return func(o *user.Options) {
		o.JWT = &idp.Options{Algorithm: algorithm, Key: key, Issuer: "https://id.example", Audience: "petrel", Tenant: tenant}
	}
}

// Spec: P-11.2.
func TestExchangeTakesAJWTOfTheProvider(t *testing.T) {
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, c := range map[string]struct {
		key           []byte
		method, other jwt.SigningMethod // other: takes the same key
		sign          any
	}{
		"EdDSA": {publicPEM(t, edPublic), jwt.SigningMethodEdDSA, nil, edKey}, "ES256": {publicPEM(t, &ec.PublicKey), jwt.SigningMethodES256, nil, ec},
		"RS256": {publicPEM(t, &rs.PublicKey), jwt.SigningMethodRS256, jwt.SigningMethodPS256, rs},
		"HS256": {[]byte(sharedSecret + "\n"), jwt.SigningMethodHS256, jwt.SigningMethodHS512, []byte(sharedSecret)},
	} {
		t.Run(algorithm, func(t *testing.T) {
			w := people(t, withJWT(algorithm, c.key, ""))
			token := provider{t, c.method, c.sign}.sign(claims(w.now, nil))
			l, err := w.users.Exchange(context.Background(), "", token, phone(1), false)
			if err != nil {
				t.Fatal(err)
			}
			if l.Account != alice || l.Number != 1 {
				t.Errorf("login %+v", l)
			}
			w.wantAccess("exchanged", l.Access, "")
			if again, err := w.users.Exchange(context.Background(), "default", token, phone(2), false); err != nil || again.Number != 2 {
				t.Errorf("a user who is there: %+v, %v", again, err)
			}
			w.wantAccess("replaced", l.Access, im.CodeReplaced)

			// The public key as the secret of another algorithm.
			forged := provider{t, jwt.SigningMethodHS256, c.key}.sign(claims(w.now, nil))
			none := provider{t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType}.sign(claims(w.now, nil))
			bad := map[string]string{"signed with the public key": forged, "without a signature": none}
			if c.other != nil {
				bad["another algorithm with the same key"] = provider{t, c.other, c.sign}.sign(claims(w.now, nil))
			}
			for what, token := range bad {
				_, err := w.users.Exchange(context.Background(), "", token, phone(1), false)
				w.wantCode(what, err, im.CodeBadCredentials)
			}
		})
	}
}

// Spec: P-11.2.
func TestExchangeRefusesAJWTThatDoesNotHold(t *testing.T) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := people(t, withJWT("EdDSA", publicPEM(t, public), "acme"))
	w.token("globex", "alice")
	p := provider{t, jwt.SigningMethodEdDSA, key}
	good := p.sign(claims(w.now, nil))
	ago := func(d time.Duration) int64 { return w.now.Add(-d).Unix() }
	for what, token := range map[string]string{
		"another issuer": p.sign(claims(w.now, jwt.MapClaims{"iss": "https://other.example"})), "no issuer": p.sign(claims(w.now, jwt.MapClaims{"iss": nil})),
		"another audience": p.sign(claims(w.now, jwt.MapClaims{"aud": []string{"other"}})), "no audience": p.sign(claims(w.now, jwt.MapClaims{"aud": nil})),
		"expired": p.sign(claims(w.now, jwt.MapClaims{"exp": ago(10 * time.Second)})), "no end": p.sign(claims(w.now, jwt.MapClaims{"exp": nil})),
		"an end far ahead": p.sign(claims(w.now, jwt.MapClaims{"exp": w.now.Add(24*time.Hour + time.Second).Unix()})),
		"not yet":          p.sign(claims(w.now, jwt.MapClaims{"nbf": ago(-time.Minute)})),
		"nobody":           p.sign(claims(w.now, jwt.MapClaims{"sub": nil})), "no user id": p.sign(claims(w.now, jwt.MapClaims{"sub": "a/b"})),
		"another key": provider{t, jwt.SigningMethodEdDSA, other}.sign(claims(w.now, nil)),
		"altered":     good[:len(good)-2] + string(rune(good[len(good)-2]^1)) + good[len(good)-1:], "cut": good[:len(good)-1], "garbage": "a.b.c", "long": good + strings.Repeat("A", 9000),
	} {
		l, err := w.users.Exchange(context.Background(), "acme", token, phone(1), false)
		if w.wantCode(what, err, im.CodeBadCredentials); l != nil {
			t.Errorf("%s: %+v", what, l)
		}
	}
	_, err = w.users.Exchange(context.Background(), "globex", good, phone(1), false)
	w.wantCode("another tenant", err, im.CodeBadCredentials)
	_, err = w.users.Exchange(context.Background(), "acme", good, user.DeviceRef{}, false)
	w.wantCode("no device", err, im.CodeInvalid)
	_, err = w.users.Exchange(context.Background(), "acme", "", phone(1), false)
	w.wantCode("no JWT", err, im.CodeInvalid)
	l, err := w.users.Exchange(context.Background(), "", p.sign(claims(w.now, jwt.MapClaims{"exp": w.now.Add(24 * time.Hour).Unix(), "aud": []string{"x", "petrel"}})), phone(1), false)
	if err != nil || l.Account != (im.Account{Tenant: w.tenant("acme"), User: "alice"}) {
		t.Fatalf("the longest: %+v, %v", l, err)
	}
	if _, err := w.users.Disable(context.Background(), l.Account); err != nil {
		t.Fatal(err)
	}
	_, err = w.users.Exchange(context.Background(), "acme", good, phone(1), false)
	w.wantCode("disabled", err, im.CodeUserDisabled)

	none := people(t)
	_, err = none.users.Exchange(context.Background(), "", good, phone(1), false)
	none.wantCode("not configured", err, im.CodeUnsupported)
}

// The operator says how people have to log in at the provider. Spec: P-11.2.
// The log says why a JWT is refused that the provider has signed, as with a clock that is wrong. Of one that
// a stranger has made it says nothing.
func TestLogSaysWhyASignedJWTIsRefused(t *testing.T) {
	var log strings.Builder
	w := people(t, withJWT("HS256", []byte(sharedSecret), "acme"), func(o *user.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	p, stranger := provider{t, jwt.SigningMethodHS256, []byte(sharedSecret)}, provider{t, jwt.SigningMethodHS256, []byte("another " + sharedSecret)}
	ahead, ago := w.now.Add(time.Hour).Unix(), w.now.Add(-time.Hour).Unix()
	for _, c := range []struct{ tenant, token, want string }{
		{"", p.sign(claims(w.now, jwt.MapClaims{"iat": ahead, "exp": ahead + 60})), "used before issued"},
		{"", p.sign(claims(w.now, jwt.MapClaims{"exp": ago})), "token is expired"},
		{"", p.sign(claims(w.now, jwt.MapClaims{"aud": "other"})), "invalid audience"},
		{"", p.sign(claims(w.now, jwt.MapClaims{"exp": w.now.Add(72 * time.Hour).Unix()})), "valid for more than"},
		{"globex", p.sign(claims(w.now, nil)), "jwt.tenant"},
		{"", stranger.sign(claims(w.now, jwt.MapClaims{"exp": ago})), ""},
		{"", "a.b.c", ""},
		{"", strings.Repeat("A", 9000), ""},
	} {
		log.Reset()
		_, err := w.users.Exchange(context.Background(), c.tenant, c.token, phone(1), false)
		w.wantCode(c.want, err, im.CodeBadCredentials)
		if c.want == "" && log.Len() > 0 || !strings.Contains(log.String(), c.want) {
			t.Errorf("the log is %q, want %q", log.String(), c.want)
		}
	}
}

func TestExchangeAsksForTheStrengthOfALogin(t *testing.T) {
	w := people(t, func(o *user.Options) {
		withJWT("HS256", []byte(sharedSecret), "")(o)
		o.JWT.Classes, o.JWT.Methods, o.JWT.MaxAuthAge = []string{"gold", "silver"}, []string{"pwd", "otp"}, time.Hour
	})
	p := provider{t, jwt.SigningMethodHS256, []byte(sharedSecret)}
	for what, c := range map[string]struct {
		claims jwt.MapClaims
		holds  bool
	}{
		"as it has to be":   {jwt.MapClaims{}, true},
		"another class":     {jwt.MapClaims{"acr": "silver"}, true},
		"more methods":      {jwt.MapClaims{"amr": []string{"otp", "mfa", "pwd"}}, true},
		"just in time":      {jwt.MapClaims{"auth_time": w.now.Add(-time.Hour).Unix()}, true},
		"a low class":       {jwt.MapClaims{"acr": "bronze"}, false},
		"no class":          {jwt.MapClaims{"acr": nil}, false},
		"classes as a list": {jwt.MapClaims{"acr": []string{"gold"}}, false},
		"one method":        {jwt.MapClaims{"amr": []string{"pwd"}}, false},
		"no methods":        {jwt.MapClaims{"amr": nil}, false},
		"methods as text":   {jwt.MapClaims{"amr": "pwd otp"}, false},
		"long ago":          {jwt.MapClaims{"auth_time": w.now.Add(-time.Hour - 6*time.Second).Unix()}, false},
		"no time":           {jwt.MapClaims{"auth_time": nil}, false},
		"a time as text":    {jwt.MapClaims{"auth_time": fmt.Sprint(w.now.Unix())}, false},
	} {
		all := jwt.MapClaims{"acr": "gold", "amr": []string{"pwd", "otp"}, "auth_time": w.now.Unix()}
		maps.Copy(all, c.claims)
		if _, err := w.users.Exchange(context.Background(), "", p.sign(claims(w.now, all)), phone(1), false); (err == nil) != c.holds || err != nil && im.CodeOf(err) != im.CodeBadCredentials {
			t.Errorf("%s: %v, want it to hold: %t", what, err, c.holds)
		}
	}
}

// A login by JWT sets the display name if the operator wants that and the name is allowed. Spec: P-14.6.
func TestLoginTakesTheNameOfTheJWT(t *testing.T) {
	for _, take := range []bool{false, true} {
		w := people(t, func(o *user.Options) {
			withJWT("HS256", []byte(sharedSecret), "")(o)
			o.JWT.TakeName = take
		})
		p := provider{t, jwt.SigningMethodHS256, []byte(sharedSecret)}
		for _, c := range []struct {
			name, want any
			renamed    bool
		}{
			{"Alice", "Alice", true}, {"Alice", "Alice", false}, {nil, "Alice", false}, {"Administrator", "Alice", false},
			{"a\u202eb", "Alice", false}, {7, "Alice", false}, {"Alice Liddell", "Alice Liddell", true},
		} {
			l, err := w.users.Exchange(context.Background(), "", p.sign(claims(w.now, jwt.MapClaims{"name": c.name})), phone(1), false)
			if err != nil {
				t.Fatal(err)
			}
			i, err := w.users.Get(context.Background(), l.Account)
			if want := c.want; !take {
				c.renamed, want = false, ""
				if err != nil || i.DisplayName != want || l.Renamed {
					t.Errorf("without the option the name %v made %q", c.name, i.DisplayName)
				}
			} else if err != nil || i.DisplayName != want || l.Renamed != c.renamed {
				t.Errorf("the name %v made %q, renamed %t; want %v, %t", c.name, i.DisplayName, l.Renamed, want, c.renamed)
			}
		}
	}
}

// Names in a JWT are told apart by their case and occur once, as other programs read them:
// otherwise a provider that lets people choose a claim lets them choose who they are. Spec:
// P-11.2.
func TestNamesInAJWTAreExact(t *testing.T) {
	w := people(t, withJWT("HS256", []byte(sharedSecret), ""))
	now := w.now.Unix()
	body := func(more string) string {
		return fmt.Sprintf(`{"iss":"https://id.example","aud":"petrel","exp":%d,%s}`, now+60, more)
	}
	const header = `{"alg":"HS256","typ":"JWT"}`
	for _, c := range []struct{ header, body, user string }{
		{header, body(`"sub":"alice","Sub":"root2","SUB":"root2"`), "alice"},
		{header, body(`"sub":"alice","EXP":1,"Iss":"x","AUD":"x","ACT":{"sub":"a"},"x":[{"sub":1},{"sub":2}]`), "alice"},
		{`{"alg":"HS256"}`, body(`"sub":"alice"`), "alice"},
		{`{"alg":"HS256","typ":"at+JWT"}`, body(`"sub":"alice"`), "alice"},
		{`{"alg":"HS256","typ":"application/at+jwt","Crit":["x"]}`, body(`"sub":"alice"`), "alice"},
		{header, body(fmt.Sprintf(`"sub":"alice","iat":%d`, now+5)), "alice"},
		{header, body(`"Sub":"root2"`), ""},
		{header, body(`"sub":"alice","sub":"root2"`), ""},
		{header, body(`"sub":"alice","s\u0075b":"root2"`), ""},
		{header, body(`"sub":"alice","x":[{"a":1,"a":2}]`), ""},
		{header, body(fmt.Sprintf(`"sub":"alice","exp":%d`, now+60)), ""},
		{header, fmt.Sprintf(`{"iss":"https://id.example","aud":"petrel","sub":"alice","exp":%d,"EXP":%d}`, now-60, now+60), ""},
		{header, fmt.Sprintf(`{"iss":"https://id.example","aud":"other","AUD":"petrel","sub":"alice","exp":%d}`, now+60), ""},
		{header, fmt.Sprintf(`{"iss":"https://evil.example","Iss":"https://id.example","aud":"petrel","sub":"alice","exp":%d}`, now+60), ""},
		{`{"alg":"none","alg":"HS256"}`, body(`"sub":"alice"`), ""},
		{`{"alg":"none","ALG":"HS256"}`, body(`"sub":"alice"`), ""},
		{`{"alg":"HS256","typ":"logout+jwt"}`, body(`"sub":"alice"`), ""},
		{`{"alg":"HS256","typ":null}`, body(`"sub":"alice"`), ""},
		{header, body(fmt.Sprintf(`"sub":"alice","iat":%d`, now+7)), ""},
		{header, body(`"sub":"alice","iat":"yesterday"`), ""},
	} {
		text := base64.RawURLEncoding.EncodeToString([]byte(c.header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(c.body))
		mac, err := jwt.SigningMethodHS256.Sign(text, []byte(sharedSecret))
		w.no(err)
		l, err := w.users.Exchange(context.Background(), "", text+"."+base64.RawURLEncoding.EncodeToString(mac), phone(1), false)
		if c.user == "" {
			w.wantCode(c.header+c.body, err, im.CodeBadCredentials)
		} else if err != nil || l.Account.User != im.User(c.user) {
			t.Errorf("%s%s: %+v, %v; want %s", c.header, c.body, l, err, c.user)
		}
	}
}

// A thief of a JWT cannot log in with it again after the tokens of the user were revoked.
// Spec: P-11.2.
func TestRevocationEndsTheJWTsOfBefore(t *testing.T) {
	ctx := context.Background()
	for what, revoke := range map[string]func(w *world) error{
		"Revoke": func(w *world) error { return w.users.Revoke(ctx, alice) },
		"Disable": func(w *world) error {
			_, err := w.users.Disable(ctx, alice)
			w.no(err)
			_, err = w.users.Enable(ctx, alice)
			return err
		},
		"SetPassword": func(w *world) error {
			_, err := w.users.SetPassword(ctx, alice, password)
			return err
		},
		"ChangePassword": func(w *world) error {
			_, err := w.users.ChangePassword(ctx, alice, password, password+"2", "")
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := people(t, withJWT("HS256", []byte(sharedSecret), ""))
			p := provider{t, jwt.SigningMethodHS256, []byte(sharedSecret)}
			exchange := func(iat any) error {
				_, err := w.users.Exchange(ctx, "", p.sign(claims(w.now, jwt.MapClaims{"iat": iat})), phone(1), false)
				return err
			}
			w.register("alice", phone(1))
			_, err := w.users.Link(ctx, alice, true)
			w.no(err)
			before := w.now.Unix()
			w.no(exchange(before))
			w.no(exchange(nil))
			w.pass(1500 * time.Millisecond)
			w.no(revoke(w))
			w.reopen()
			w.wantCode("made before the revocation", exchange(before), im.CodeBadCredentials)
			w.wantCode("made in the second of the revocation", exchange(before+1), im.CodeBadCredentials)
			w.wantCode("without iat", exchange(nil), im.CodeBadCredentials)
			w.no(exchange(before + 2))
		})
	}
}

func TestIdentityProviderThatWouldTakeAnythingIsNotOpened(t *testing.T) {
	w := newWorld(t)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: newModulus(t), E: 65537})
	if err != nil {
		t.Fatal(err)
	}
	good := idp.Options{Algorithm: "EdDSA", Key: publicPEM(t, public), Issuer: "i", Audience: "a"}
	for what, change := range map[string]func(*idp.Options){
		"no issuer": func(j *idp.Options) { j.Issuer = "" }, "no audience": func(j *idp.Options) { j.Audience = "" }, "no algorithm": func(j *idp.Options) { j.Algorithm = "" },
		"algorithm none": func(j *idp.Options) { j.Algorithm = "none" }, "no key": func(j *idp.Options) { j.Key = nil }, "key of another algorithm": func(j *idp.Options) { j.Algorithm = "ES256" },
		"short secret": func(j *idp.Options) { j.Algorithm, j.Key = "HS256", []byte(sharedSecret[1:]) },
		"short RSA key": func(j *idp.Options) {
			j.Algorithm, j.Key = "RS256", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: small})
		},
	} {
		j := good
		change(&j)
		if _, err := user.New(context.Background(), user.Options{JWT: &j}, w.store); err == nil {
			t.Errorf("%s: opened", what)
		}
	}
	if _, err := user.New(context.Background(), user.Options{JWT: &good}, w.store); err != nil {
		t.Errorf("good: %v", err)
	}
}

// newModulus is of a key that is too short.
func newModulus(t *testing.T) *big.Int {
	t.Helper()
	p, err := rand.Prime(rand.Reader, 512)
	if err != nil {
		t.Fatal(err)
	}
	q, err := rand.Prime(rand.Reader, 512)
	if err != nil {
		t.Fatal(err)
	}
	return p.Mul(p, q)
}
