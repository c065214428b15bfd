package user_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"github.com/petrel-im/petrel/internal/idp"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// The input is what strangers show as a proof of who they are: access and refresh tokens,
// admin keys, setup codes and JWTs. kind chooses one of them, and a JWT that is signed by
// the provider with any header and any claims, and the set of keys that a provider
// publishes. Only issued proofs are accepted, and each refusal has a code.
func FuzzCredentials(f *testing.F) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	w := people(f, func(o *user.Options) {
		o.JWT = &idp.Options{Algorithm: "EdDSA", Key: publicPEM(f, public), Issuer: "https://id.example", Audience: "petrel"}
	})
	ctx := context.Background()
	login, err := w.users.Mint(ctx, "", "alice", phone(1), 0)
	if err != nil {
		f.Fatal(err)
	}
	_, err = w.users.Create(ctx, "", []im.User{"bob"})
	w.no(err)
	var published atomic.Pointer[[]byte]
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if b := published.Load(); b != nil {
			_, _ = rw.Write(*b) // to a test
		}
	}))
	f.Cleanup(srv.Close)

	sign := func(header, body string) string {
		text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
		return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))
	}
	good, err := json.Marshal(claims(w.now, nil))
	w.no(err)
	const header = `{"alg":"EdDSA","typ":"JWT"}`
	f.Add(byte(0), login.Access, "")
	f.Add(byte(0), "pt_default.alice.x", "")
	f.Add(byte(1), login.Refresh, "r")
	f.Add(byte(1), "pr_default.alice."+strings.Repeat("A", 60), "")
	f.Add(byte(2), "pk_x", "")
	f.Add(byte(3), "code", "")
	f.Add(byte(4), sign(header, string(good)), "")
	f.Add(byte(4), "eyJhbGciOiJub25lIn0."+base64.RawURLEncoding.EncodeToString(good)+".", "")
	f.Add(byte(5), header, string(good))
	f.Add(byte(5), `{"alg":"EdDSA","crit":["x"],"x":1}`, string(good))
	f.Add(byte(5), header, strings.Replace(string(good), `"exp":`, `"nbf":9e99,"exp":-`, 1))
	f.Add(byte(5), header, strings.Replace(string(good), `"iss"`, `"ISS"`, 1))
	key := base64.RawURLEncoding.EncodeToString(public)
	f.Add(byte(6), `{"keys":[{"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","kid":"1","x":"`+key+`"}]}`, `{"alg":"EdDSA","kid":"1"}`)
	f.Add(byte(6), `{"keys":[{"kty":"RSA","kid":"1","n":"AQ","e":"AQAB"},{"kty":"oct","k":"AQ"}]}`, `{"alg":"EdDSA","kid":"1"}`)
	f.Fuzz(func(t *testing.T, kind byte, a, b string) {
		ctx := t.Context()
		var err error
		ours := false // the accepted text was issued
		switch kind % 7 {
		case 0:
			_, err = w.users.Authenticate(ctx, a)
			ours = a == login.Access
		case 1:
			var l *user.Login
			if l, err = w.users.Refresh(ctx, a, b); err == nil {
				login, ours = l, true // checked by its MAC
			}
		case 2:
			_, err = w.operators.AuthenticateKey(ctx, a)
		case 3:
			_, err = w.operators.Redeem(ctx, a, "")
		case 4:
			_, err = w.users.Exchange(ctx, "", a, phone(2), false)
			ours = a == sign(header, string(good))
		case 5:
			var c jwt.MapClaims
			var h map[string]any
			_, err = w.users.Exchange(ctx, "", sign(a, b), phone(2), false)
			ours = json.Unmarshal([]byte(a), &h) == nil && h["alg"] == "EdDSA" && h["crit"] == nil && json.Unmarshal([]byte(b), &c) == nil && c["iss"] == "https://id.example" && c["exp"] != nil
		case 6:
			keys := []byte(a)
			published.Store(&keys)
			o := w.o
			o.JWT = &idp.Options{Algorithm: "EdDSA", KeysURL: srv.URL, Issuer: "https://id.example", Audience: "petrel"}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			us, e := user.New(ctx, o, w.store)
			if e != nil {
				return // a provider that cannot be used, with the reason
			}
			_, err = us.Exchange(ctx, "", sign(b, string(good)), phone(2), false)
			ours = strings.Contains(a, key)
		}
		if err == nil && !ours {
			t.Errorf("%d: %q, %q was accepted", kind%7, a, b)
		}
		if err != nil && im.CodeOf(err) == im.CodeInternal {
			t.Errorf("%d: %q, %q: %v", kind%7, a, b, err)
		}
	})
}
