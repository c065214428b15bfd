package idp

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

const (
	keySetEvery   = 15 * time.Minute // how often the keys are fetched; a removed key works until then
	keySetUnknown = 10 * time.Second // from one fetch for an unknown key to the next on average; two may be closer
	keySetTimeout = 5 * time.Second  // of one fetch
	maxKeySet     = 1 << 20          // bytes of one answer, decompressed; more would fill the memory
)

// keySet has the keys that an identity provider publishes (RFC 7517). A provider changes its keys without notice,
// so a JWT with an unknown key has the set fetched again.
type keySet struct {
	known   keyfunc.Keyfunc // the keys of the last fetch
	fetched keyfunc.Keyfunc // fetches the keys if the key is not among them
	every   *rate.Limiter   // limits the fetches for unknown keys
	fetch   singleflight.Group
}

// setAlgorithms are the algorithms with public keys.
var setAlgorithms = []string{"EdDSA", "ES256", "RS256"}

// openKeySet fetches the keys, and goes on doing so until ctx ends. The server starts even if the provider does
// not answer.
func openKeySet(ctx context.Context, log *slog.Logger, o *Options) (*keySet, error) {
	if !slices.Contains(setAlgorithms, o.Algorithm) {
		return nil, fmt.Errorf("a set of keys is for EdDSA, ES256 and RS256, not for %q", o.Algorithm)
	}
	set, err := jwkset.NewStorageFromHTTP(o.KeysURL, jwkset.HTTPClientStorageOptions{
		Ctx: ctx,
		Client: &http.Client{Timeout: keySetTimeout, CheckRedirect: stay,
			Transport: briefly{http.DefaultTransport}},
		HTTPTimeout:               keySetTimeout,
		RefreshInterval:           keySetEvery,
		NoErrorReturnFirstHTTPReq: true,
		RefreshErrorHandler: func(ctx context.Context, err error) {
			log.WarnContext(ctx, "fetch the keys of the identity provider failed", "url", o.KeysURL, "err", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read the keys at %s: %w", o.KeysURL, err)
	}
	// The library's own limit is not used: it counts the time that a caller waits for its turn as time of the
	// fetch.
	fetched, err := jwkset.NewHTTPClient(jwkset.HTTPClientOptions{
		HTTPURLs:          map[string]jwkset.Storage{o.KeysURL: set},
		RefreshUnknownKID: rate.NewLimiter(rate.Inf, 1),
		RateLimitWaitMax:  keySetTimeout,
	})
	if err != nil {
		return nil, err
	}
	k := &keySet{every: rate.NewLimiter(rate.Every(keySetUnknown), 2)}
	if k.known, err = keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: set}); err != nil {
		return nil, err
	}
	k.fetched, err = keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: fetched})
	return k, err
}

// stay refuses redirects: keys come only from the configured address.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// briefly bounds an answer to maxKeySet bytes, because the library does not.
type briefly struct{ http.RoundTripper }

func (b briefly) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxKeySet)
	}
	return res, err
}

// keyOf returns the key that the kid of a token names. A token without kid is refused: the keys are not tried one
// after the other.
func (k *keySet) keyOf(t *jwt.Token) (any, error) {
	if _, ok := t.Header["kid"].(string); !ok {
		return nil, errors.New("the header has no kid")
	}
	key, err := k.known.Keyfunc(t)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		k.refetch(t)
		key, err = k.known.Keyfunc(t)
	}
	if r, ok := key.(*rsa.PublicKey); ok && err == nil && r.N.BitLen() < minRSABits {
		err = fmt.Errorf("an RSA key has at least %d bits", minRSABits)
	}
	return key, err
}

// refetch fetches the keys once more, unless that was done a moment ago. Callers that come while a fetch is under
// way wait for it: after a change of keys the first users come together.
func (k *keySet) refetch(t *jwt.Token) {
	_, _, _ = k.fetch.Do("", func() (any, error) {
		if !k.every.Allow() {
			return nil, nil //nolint:nilnil // only known is asked for its keys
		}
		return k.fetched.Keyfunc(t)
	})
}
