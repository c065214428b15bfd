package petrel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// TokenSource returns the access token for a hello or a call. refused is the token that the server has just
// refused, or "". A source that has no other token returns an error, or the same token again. An [*Error] that is
// not retryable ends Run; after any other error the client tries again.
type TokenSource func(ctx context.Context, refused string) (string, error)

// StaticToken is a source with one token.
func StaticToken(token string) TokenSource {
	return func(context.Context, string) (string, error) { return token, nil }
}

// tokenCache passes calls on to a source, one at a time. It keeps no token. It refuses the token that the server
// has just refused.
type tokenCache struct {
	source TokenSource
	turn   chan struct{} // capacity 1: one call of source at a time; full: others wait
}

func newTokenCache(s TokenSource) *tokenCache {
	return &tokenCache{source: s, turn: make(chan struct{}, 1)}
}

func (t *tokenCache) get(ctx context.Context, refused string) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	token, err := t.source(ctx, refused)
	if err != nil {
		return "", err
	}
	if refused != "" && token == refused {
		return "", &Error{Code: CodeUnauthenticated, Message: "the token is not valid", Hint: "log in again"}
	}
	return token, nil
}

// Tokens are the tokens of one login of one device. Spec: P-11.3.
type Tokens struct {
	User           string    `json:"user"`
	Device         string    `json:"device"`
	Access         string    `json:"access_token"`
	AccessExpires  time.Time `json:"access_expires"`
	Refresh        string    `json:"refresh_token"`
	RefreshExpires time.Time `json:"refresh_expires"`
	// RequestID belongs to a refresh that has begun: with it the refresh can be repeated.
	RequestID string `json:"request_id,omitempty"`
}

func tokensOf(r *petrelv1.LoginResponse) Tokens {
	return Tokens{
		User: r.User, Device: r.Device, Access: r.AccessToken, Refresh: r.RefreshToken,
		AccessExpires:  time.UnixMilli(int64(r.AccessExpiresMs)),
		RefreshExpires: time.UnixMilli(int64(r.RefreshExpiresMs)),
	}
}

// Auth turns credentials into tokens. It fills in an empty request id of a request. Refusals are an [*Error].
// Spec: P-11.
type Auth struct {
	URL  string       // of the server's HTTP API: http:// or https://, host:port
	HTTP *http.Client // nil: http.DefaultClient
}

func (a Auth) client() petrelv1connect.AuthServiceClient {
	h := a.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	url := a.URL
	if strings.HasPrefix(url, "ws") { // ws:// and wss:// are the same port
		url = "http" + strings.TrimPrefix(url, "ws")
	}
	return petrelv1connect.NewAuthServiceClient(h, url)
}

// Register makes a user with a password and logs their first device in.
func (a Auth) Register(ctx context.Context, r *petrelv1.RegisterRequest) (Tokens, error) {
	setRequestID(r)
	return authAnswer(a.client().Register(ctx, connect.NewRequest(r)))
}

// Login logs a device in with a password.
func (a Auth) Login(ctx context.Context, r *petrelv1.LoginRequest) (Tokens, error) {
	setRequestID(r)
	return authAnswer(a.client().Login(ctx, connect.NewRequest(r)))
}

// Exchange logs a device in with a JWT.
func (a Auth) Exchange(ctx context.Context, r *petrelv1.ExchangeRequest) (Tokens, error) {
	setRequestID(r)
	return authAnswer(a.client().Exchange(ctx, connect.NewRequest(r)))
}

// Refresh turns a refresh token into a new pair of tokens. The refresh token works once: so store the request id
// before the call, and the pair after it.
func (a Auth) Refresh(ctx context.Context, r *petrelv1.RefreshRequest) (Tokens, error) {
	setRequestID(r)
	return authAnswer(a.client().Refresh(ctx, connect.NewRequest(r)))
}

func authAnswer(r *connect.Response[petrelv1.LoginResponse], err error) (Tokens, error) {
	if e := refusal(err); e != nil {
		return Tokens{}, e
	}
	if err != nil {
		return Tokens{}, err
	}
	return tokensOf(r.Msg), nil
}

// refreshAhead is the time before the end of an access token at which another one is requested.
const refreshAhead = time.Minute

// TokenFile keeps the tokens of a login in a file that only its owner can read, and refreshes them by itself:
// its Token is a TokenSource. One process at a time may use a file.
type TokenFile struct {
	path string
	auth Auth
	// capacity 1: one change of the tokens at a time, held over its request and its write; full: others wait
	turn chan struct{}
	have Tokens // guarded by turn
}

// OpenTokens opens the token file at path. If there is none the error is
// os.ErrNotExist: log in and use SaveTokens.
func OpenTokens(path string, a Auth) (*TokenFile, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open tokens: %w", err)
	}
	f := &TokenFile{path: path, auth: a, turn: make(chan struct{}, 1)}
	if err := json.Unmarshal(b, &f.have); err != nil {
		return nil, fmt.Errorf("open tokens %s: %w", path, err)
	}
	return f, nil
}

// SaveTokens writes the tokens of a login into a token file, and replaces an earlier file.
func SaveTokens(path string, a Auth, t Tokens) (*TokenFile, error) {
	f := &TokenFile{path: path, auth: a, turn: make(chan struct{}, 1)}
	return f, f.save(t)
}

// save writes t and then uses it. Spec: P-11.3.
func (f *TokenFile) save(t Tokens) error {
	b, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return fmt.Errorf("save tokens: %w", err)
	}
	if err := writeFile(f.path, append(b, '\n')); err != nil {
		return fmt.Errorf("save tokens: %w", err)
	}
	f.have = t
	return nil
}

// writeFile replaces the file at path by b, durably, as a whole or not at all.
func writeFile(path string, b []byte) error {
	w, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	if err == nil {
		err = w.Sync()
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := os.Rename(w.Name(), path); err != nil {
		return err
	}
	return syncDir(path)
}

// Tokens returns the tokens in the file.
func (f *TokenFile) Tokens() Tokens {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	return f.have
}

// Token is a TokenSource. It refreshes when the access token was refused or is about to expire; while the
// server cannot be reached, it returns a token that has not expired.
func (f *TokenFile) Token(ctx context.Context, refused string) (string, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := time.Now()
	if f.have.Access != refused && now.Add(refreshAhead).Before(f.have.AccessExpires) {
		return f.have.Access, nil
	}
	err := f.refresh(ctx)
	if err != nil && refusal(err) == nil && f.have.Access != refused && now.Before(f.have.AccessExpires) {
		return f.have.Access, nil
	}
	return f.have.Access, err
}

// refresh gets a new pair. It stores the id of the request first: if the answer is lost, perhaps with the
// process, the same request gets the same answer.
func (f *TokenFile) refresh(ctx context.Context) error {
	if f.have.RequestID == "" {
		t := f.have
		t.RequestID = newID()
		if err := f.save(t); err != nil {
			return err
		}
	}
	t, err := f.auth.Refresh(ctx, &petrelv1.RefreshRequest{RefreshToken: f.have.Refresh, RequestId: f.have.RequestID})
	if err != nil {
		return err
	}
	return f.save(t)
}
