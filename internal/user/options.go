package user

import (
	"log/slog"
	"time"

	"github.com/petrel-im/petrel/internal/idp"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/password"
)

// Options tune Users; zero values are the defaults.
type Options struct {
	Log *slog.Logger
	Now func() time.Time // token times and rates; nil: the wall clock

	AccessTTL    time.Duration // of access tokens of devices; 0: 1 h
	RefreshTTL   time.Duration // of refresh tokens; 0: 30 days
	Registration Registration  // in tenants that have no setting of their own; 0: see Loopback
	ManyPerKind  bool          // whether a login leaves the other devices of its kind logged in
	Rates        Rates
	JWT          *idp.Options  // nil: Exchange is unsupported
	PasswordWork password.Work // of password hashes; zero: what OWASP advises, 19 MiB and two passes

	// StolenPasswords is a file with the hashes of forbidden passwords: SHA-1, sorted, one a line;
	// "": none. It is read at every choice of a password.
	StolenPasswords string

	// Loopback tells whether only this host reaches the server. Then people may register in the
	// default tenant, unless something else is configured or set. nil: other hosts reach it.
	Loopback func() bool

	// Changed is called with an account whose tokens a change has ended, when
	// the change is durable or its outcome unknown: all nodes have to recheck
	// the sessions of the account. It must not block. nil: nothing is called.
	Changed func(im.Account)
}

// Rates limit attempts: on average over the period, and at once. Negative: there is no limit.
type Rates struct {
	Logins        int // to one account in a minute, from one address or by one device that is known; 0: 5
	LoginsPerIP   int // from one address in a minute, by devices that are not known; 0: 20
	Registrations int // from one address in an hour; 0: 10
	LookUps       int // of other users, by one user in a minute; 0: 30
	Refreshes     int // by one user in a minute; 0: 60
}

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AccessTTL == 0 {
		o.AccessTTL = time.Hour
	}
	if o.RefreshTTL == 0 {
		o.RefreshTTL = 30 * 24 * time.Hour
	}
	for rate, def := range map[*int]int{
		&o.Rates.Logins: 5, &o.Rates.LoginsPerIP: 20, &o.Rates.Registrations: 10, &o.Rates.LookUps: 30,
		&o.Rates.Refreshes: 60,
	} {
		if *rate == 0 {
			*rate = def
		}
	}
}
