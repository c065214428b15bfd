package app

import (
	"fmt"
	"os"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/user"
)

// accounts maps the configuration to the options of the accounts.
func (a *App) accounts() (user.Options, error) {
	c := &a.cfg.Accounts
	o := user.Options{
		Shared:  len(a.store.Feeds()) > 1,                // an embedded store has one, and no other node
		Changed: func(x im.Account) { a.hub.Changed(x) }, // no account changes before there is a hub
		Log:     a.log, AccessTTL: c.AccessTTL, RefreshTTL: c.RefreshTTL, NoRegistration: !c.Registration, ManyPerKind: !c.OnePerKind,
		Rates: user.Rates{
			Logins: int(c.LoginsPerMin), LoginsPerIP: int(c.LoginsPerIPPerMin), Registrations: int(c.RegistrationsPerIPPerH),
			LookUps: int(c.LookUpsPerMin), Refreshes: int(c.RefreshesPerMin),
		},
	}
	j := &a.cfg.JWT
	if j.KeyFile == "" {
		return o, nil
	}
	key, err := os.ReadFile(j.KeyFile)
	if err != nil {
		return o, fmt.Errorf("read jwt.key_file: %w", err)
	}
	o.JWT = &user.JWT{Algorithm: j.Algorithm, Key: key, Issuer: j.Issuer, Audience: j.Audience, Tenant: j.Tenant}
	return o, nil
}
