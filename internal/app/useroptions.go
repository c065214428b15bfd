package app

import (
	"fmt"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/idp"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/regular"
	"github.com/petrel-im/petrel/internal/user"
)

// registrations are the values of accounts.registration.
var registrations = map[string]user.Registration{"auto": user.AsConfigured, "open": user.Open,
	"invitation": user.ByInvitation, "closed": user.Closed}

// loopbackOnly tells whether no other host reaches the listeners for clients, directly or through
// a proxy on this host. Hosts, proxies and addresses for clients are configured only if others do.
func (a *App) loopbackOnly() bool {
	c := a.live.Load()
	if len(c.Listen.Hosts)+len(c.Listen.TrustedProxies)+len(c.Cluster.Addresses) > 0 {
		return false
	}
	for _, addr := range []string{c.Listen.HTTP, c.Listen.TCP} {
		if addr != "" && !config.Loopback(addr) {
			return false
		}
	}
	return true
}

// accounts maps the configuration to the options of the accounts.
func (a *App) accounts() (user.Options, error) {
	c := &a.cfg.Accounts
	o := user.Options{
		Changed: func(x im.Account) { a.hub.Changed(x) }, // no account changes before there is a hub
		Log:     a.log, AccessTTL: c.AccessTTL, RefreshTTL: c.RefreshTTL, Registration: registrations[c.Registration],
		Loopback: a.loopbackOnly, ManyPerKind: !c.OnePerKind,
		PasswordWork: a.o.PasswordWork, StolenPasswords: c.StolenPasswordsFile,
		Rates: user.Rates{
			Logins: int(c.LoginsPerMin), LoginsPerIP: int(c.LoginsPerIPPerMin),
			Registrations: int(c.RegistrationsPerIPPerH),
			LookUps:       int(c.LookUpsPerMin), Refreshes: int(c.RefreshesPerMin),
		},
	}
	if o.Registration == user.AsConfigured && a.loopbackOnly() {
		a.log.Info(
			"everybody on this host may register in the default tenant, because no other host reaches the server; set accounts.registration to change that")
	}
	j := &a.cfg.JWT
	if j.KeyFile == "" && j.KeysURL == "" {
		return o, nil
	}
	o.JWT = &idp.Options{
		Algorithm: j.Algorithm, KeysURL: j.KeysURL, Issuer: j.Issuer, Audience: j.Audience, Tenant: j.Tenant,
		Classes: j.ACR, Methods: j.AMR, MaxAuthAge: j.MaxAuthAge, TakeName: j.TakeName,
	}
	if j.KeyFile == "" {
		return o, nil
	}
	var err error
	if a.jwtKey, err = regular.Read(j.KeyFile); err != nil {
		return o, fmt.Errorf("read jwt.key_file: %w", err)
	}
	o.JWT.Key = a.jwtKey
	return o, nil
}
