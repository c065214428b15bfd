package user_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"github.com/petrel-im/petrel/internal/idp"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// publisher is an identity provider that publishes its keys.
type publisher struct {
	t   *testing.T
	url string

	mu      sync.Mutex // tier 0; guards the fields below
	keys    map[string]ed25519.PrivateKey
	fetches int
	broken  bool
}

func newPublisher(t *testing.T) *publisher {
	p := &publisher{t: t, keys: map[string]ed25519.PrivateKey{}}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// distant carries requests to a publisher in a bubble, which has no sockets.
type distant struct{ *publisher }

func (d distant) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(20 * time.Millisecond) // as far away as most providers are
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// fetched is how often the keys were asked for.
func (p *publisher) fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetches
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetches++
	if p.broken {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	list := []map[string]string{}
	for kid, k := range p.keys {
		public, _ := k.Public().(ed25519.PublicKey)
		list = append(list, map[string]string{"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": kid, "x": base64.RawURLEncoding.EncodeToString(public)})
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"keys": list}); err != nil {
		p.t.Error(err)
	}
}

// rotate publishes one key alone, and returns how it signs.
func (p *publisher) rotate(kid string) func(jwt.MapClaims) string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = map[string]ed25519.PrivateKey{kid: key}
	return func(c jwt.MapClaims) string {
		token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
		if kid != "" {
			token.Header["kid"] = kid
		}
		s, err := token.SignedString(key)
		if err != nil {
			p.t.Fatal(err)
		}
		return s
	}
}

// The provider changes its keys, and tells nobody. Spec: P-11.2.
func TestKeysOfTheProviderRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &publisher{t: t, keys: map[string]ed25519.PrivateKey{}, broken: true} // the server starts all the same
		transport := http.DefaultTransport
		http.DefaultTransport = distant{p}
		defer func() { http.DefaultTransport = transport }()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := people(t)
		w.o.JWT = &idp.Options{Algorithm: "EdDSA", KeysURL: "http://id.example/keys", Issuer: "https://id.example", Audience: "petrel"}
		us, err := user.New(ctx, w.o, w.store)
		if err != nil {
			t.Fatal(err)
		}
		exchange := func(token string) error {
			_, err := us.Exchange(ctx, "", token, phone(1), false)
			return err
		}
		one := p.rotate("one")
		p.mu.Lock()
		p.broken = false
		p.mu.Unlock()
		w.no(exchange(one(claims(w.now, nil))))
		two := p.rotate("two")
		var together errgroup.Group // those who come first after a rotation come together
		for range 8 {
			together.Go(func() error { return exchange(two(claims(w.now, nil))) })
		}
		w.no(together.Wait())
		if n := p.fetched(); n != 3 {
			t.Errorf("the keys were fetched %d times, want 3: at the start, for the first user, and for the eight after the rotation", n)
		}
		other := &publisher{t: t}
		unknown := func() {
			t.Helper()
			w.wantCode("a key that is gone", exchange(one(claims(w.now, nil))), im.CodeBadCredentials)
			for range 50 {
				w.wantCode("a key of somebody else", exchange(other.rotate("three")(claims(w.now, nil))), im.CodeBadCredentials)
			}
			w.wantCode("the id of a known key, of somebody else", exchange(other.rotate("two")(claims(w.now, nil))), im.CodeBadCredentials)
			w.wantCode("no id of a key", exchange(other.rotate("")(claims(w.now, nil))), im.CodeBadCredentials)
		}
		for minute := range 3 {
			before := p.fetched()
			unknown()
			if n, want := p.fetched()-before, 2*min(minute, 1); n != want {
				t.Errorf("in minute %d 51 unknown keys had the set fetched %d times, want %d", minute, n, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Keys come from the address that the operator has named, and from no other one to which it
// sends the server.
func TestKeysOfAnotherAddressAreNotFetched(t *testing.T) {
	other := newPublisher(t)
	sign := other.rotate("one")
	there := httptest.NewServer(http.RedirectHandler(other.url, http.StatusFound))
	defer there.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := people(t)
	w.o.JWT = &idp.Options{Algorithm: "EdDSA", KeysURL: there.URL, Issuer: "https://id.example", Audience: "petrel"}
	us, err := user.New(ctx, w.o, w.store)
	w.no(err)
	_, err = us.Exchange(ctx, "", sign(claims(w.now, nil)), phone(1), false)
	w.wantCode("a key of another address", err, im.CodeBadCredentials)
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.fetches > 0 {
		t.Errorf("the other address was asked %d times", other.fetches)
	}
}

// Of an answer with keys no more than a mebibyte is read: the rest would fill the memory.
func TestKeysOfAnEndlessAnswerAreNotTaken(t *testing.T) {
	for size, want := range map[int]im.Code{1 << 19: "", 1 << 21: im.CodeBadCredentials} {
		p := newPublisher(t)
		sign := p.rotate("one")
		padded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte(" "), size)) // the reader may be gone
			p.ServeHTTP(w, r)
		}))
		defer padded.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := people(t)
		w.o.JWT = &idp.Options{Algorithm: "EdDSA", KeysURL: padded.URL, Issuer: "https://id.example", Audience: "petrel"}
		us, err := user.New(ctx, w.o, w.store)
		w.no(err)
		_, err = us.Exchange(ctx, "", sign(claims(w.now, nil)), phone(1), false)
		if err == nil && want == "" {
			continue
		}
		w.wantCode(fmt.Sprint(size, " bytes before the keys"), err, want)
	}
}

func TestASetOfKeysIsForPublicKeys(t *testing.T) {
	w := people(t)
	for _, algorithm := range []string{"HS256", "none", ""} {
		o := user.Options{JWT: &idp.Options{Algorithm: algorithm, KeysURL: "http://127.0.0.1:1/keys", Issuer: "i", Audience: "a"}}
		if _, err := user.New(t.Context(), o, w.store); err == nil {
			t.Errorf("algorithm %q takes a set of keys", algorithm)
		}
	}
}
