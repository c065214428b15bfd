package user

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// SetupTime is how long the one-time setup code of a start is valid.
const SetupTime = 15 * time.Minute

type setupCode struct {
	code  string // empty: none is open
	until time.Time
}

// OpenSetup draws the one-time code with which the first admin key is made. It
// returns "" when the store has an admin key already.
func (us *Users) OpenSetup(ctx context.Context) (string, error) {
	any := false
	err := us.store.Records(ctx, store.Tokens, 0, nil, func(_, _ []byte) bool {
		any = true
		return false
	})
	if err != nil || any {
		return "", err
	}
	if err := us.begin(ctx); err != nil {
		return "", err
	}
	defer func() { <-us.turn }()
	us.setup = setupCode{secret(), us.now().Add(SetupTime)}
	return us.setup.code, nil
}

// Redeem turns the setup code into the first admin key. It works once, however
// many ask at the same time. Codes: setup_closed.
func (us *Users) Redeem(ctx context.Context, code string) (string, error) {
	if err := us.begin(ctx); err != nil {
		return "", err
	}
	defer func() { <-us.turn }()
	s := us.setup
	if s.code == "" || !us.now().Before(s.until) || subtle.ConstantTimeCompare([]byte(code), []byte(s.code)) != 1 {
		return "", &im.Error{Code: im.CodeSetupClosed}
	}
	key := keyPrefix + secret()
	puts, err := us.putToken(nil, 0, key, &storepb.Token{Name: "setup", Scopes: []string{ScopeAdmin}})
	if err != nil {
		return "", err
	}
	if err := us.update(ctx, puts); err != nil {
		return "", err
	}
	us.setup = setupCode{}
	return key, nil
}
