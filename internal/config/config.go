// Package config has what an operator can set: one table of options with their names, defaults, allowed values
// and explanations (options.go). It reads them from a file, the environment and the command line, each value with
// its origin.
//
// It holds plain data and imports nothing of Petrel but package regular. Packages have their own Options;
// internal/app maps a Config to them.
package config

import (
	"net/netip"
	"strconv"
	"time"
)

// Config is the configuration of one process. Every field is explained in the
// table of options.go, under the name it has in the file.
type Config struct {
	Listen    Listen
	TLS       TLS
	Store     Store
	Cluster   Cluster
	Limits    Limits
	Memory    Memory
	Accounts  Accounts
	JWT       JWT
	Messages  Messages
	Heartbeat Heartbeat
	Drain     Drain
	Log       Log
	Metrics   Metrics
	Audit     Audit
	Web       Web

	origins map[string]Origin // by option name; an option that is not in it has its default
	file    string            // the configuration file that was read; empty: none
	secrets []string          // files with secrets that were read
}

// File returns the configuration file that was read; empty: none.
func (c *Config) File() string { return c.file }

// Files returns the files on whose content a running server depends: those that were read for the configuration,
// and those of the certificates and of the key for JWTs.
func (c *Config) Files() []string {
	var all []string
	for _, name := range append([]string{c.file, c.TLS.CertFile, c.TLS.KeyFile, c.Cluster.CertFile, c.Cluster.KeyFile,
		c.Cluster.CAFile, c.JWT.KeyFile}, c.secrets...) {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// Differences returns the options with other values in c than in before: those that a running server applies, and
// those that need a restart.
func (c *Config) Differences(before *Config) (live, restart []string) {
	var was, is Config
	then, now := options(&was), options(&is) // sets the defaults
	was, is = *before, *c
	for i, o := range now {
		switch {
		case o.get() == then[i].get():
		case o.live:
			live = append(live, o.name)
		default:
			restart = append(restart, o.name)
		}
	}
	return live, restart
}

// Listen says where the server listens.
type Listen struct {
	HTTP              string // host:port; empty: not at all
	TCP               string // host:port; empty: not at all
	Admin             string // host:port; empty: not at all
	BackEnds          bool   // may call on HTTP too
	Hosts             []string
	InsecurePlaintext bool
	Origins           []string
	TrustedProxies    []netip.Prefix
	ProxyHeader       string
	ProxyProtocol     bool
}

// TLS is on when both files are set.
type TLS struct {
	CertFile, KeyFile string
}

// On reports whether the listeners speak TLS.
func (t TLS) On() bool { return t.CertFile != "" }

// Store is the embedded store, or, with Postgres set, databases.
type Store struct {
	Postgres       []string // URLs
	RequireStandby bool
	Dir            string
	ID             string // of the store, 16 hex digits; empty: any
	Mark           string // file; empty: none
	RefuseCopies   bool
	CacheBytes     int64
	MinFreeBytes   int64
	BallastBytes   int64
	ScrubEvery     time.Duration
	ScrubRate      int64 // bytes per second
}

// StoreID returns ID as a number; 0: any store.
func (s *Store) StoreID() (uint64, error) {
	if s.ID == "" {
		return 0, nil
	}
	return strconv.ParseUint(s.ID, 16, 64)
}

// Cluster is this node's place among others. They share the databases.
type Cluster struct {
	Node      string
	Roles     []string
	Addresses []string // where clients reach this node

	Listen      string // host:port of the embedded bus, for the other nodes
	Advertise   string
	Join        []string
	NATS        []string // URLs of an external bus instead
	Credentials string
	Secret      string

	CertFile, KeyFile, CAFile string
	Insecure                  bool // Listen may be reached by other hosts without certificates
	Patient                   bool
}

// On reports whether there may be other nodes.
func (c Cluster) On() bool { return c.Listen != "" || len(c.NATS) > 0 }

// Limits bound what clients can make the server hold. -1 means no limit where
// the table allows it.
type Limits struct {
	BodyBytes       int64
	HistoryMessages int64 // per page

	HelloTimeout         time.Duration
	HelloFrameBytes      int64
	Unauthenticated      int64 // connections
	UnauthenticatedPerIP int64 // connections

	Connections             int64 // 0: by the process's limit of open files
	ConnectionsPerUser      int64
	ConnectionsPerIP        int64
	NewConnectionsPerIPPerS int64
	AnonymousCallsPerIPPerS int64

	WindowSends      int64 // unanswered sends of one connection
	WindowBytes      int64
	CallsPerS        int64 // of one user
	SendsPerS        int64 // of one session
	SendBurst        int64
	StoredPerS       int64 // bytes of one user
	StoredBurst      int64 // bytes
	TenantStoredPerS int64 // bytes of the users of one tenant; 0: no limit
	GroupsPerH       int64 // of one user
	MembersPerMin    int64 // that one user adds, removes or gives roles

	OutboxBytes    int64 // of one session
	ConvQueueBytes int64 // of one conversation
	AdmittedBytes  int64 // admitted and not yet acked, of all conversations
	SlowTimeout    time.Duration
}

// Memory has the budgets for what the server keeps in memory. 0: a part of the memory of the machine.
type Memory struct {
	TotalBytes        int64
	ConversationBytes int64
}

// Accounts has the options about logins. Of a rate, -1 means no limit.
type Accounts struct {
	Registration string // auto, open, invitation or closed
	OnePerKind   bool
	AccessTTL    time.Duration
	RefreshTTL   time.Duration

	LoginsPerMin           int64 // for one account
	LoginsPerIPPerMin      int64
	RegistrationsPerIPPerH int64
	StolenPasswordsFile    string
	LookUpsPerMin          int64 // by one user
	RefreshesPerMin        int64 // by one user
}

// JWT is the identity provider whose tokens log users in.
type JWT struct {
	KeyFile   string // empty: there is none, or KeysURL is set
	KeysURL   string // where the provider publishes its keys
	Algorithm string
	Issuer    string
	Audience  string
	Tenant    string

	ACR        []string      // a JWT has one of these; empty: acr does not count
	AMR        []string      // a JWT has all of these
	MaxAuthAge time.Duration // 0: it does not count

	TakeName bool // a login sets the display name
}

// Messages has how long users may edit and recall their messages.
type Messages struct {
	EditWindow   time.Duration // 0: for ever
	RecallWindow time.Duration // 0: for ever
}

// Heartbeat has the times after which a link counts as dead.
type Heartbeat struct {
	Silence time.Duration
	Misses  int64 // unanswered probes
}

// Drain has how the server stops.
type Drain struct {
	Timeout time.Duration
}

// Log has how the server writes its log, on standard error.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // auto, text, json
}

// Metrics is GET /metrics of the admin listener.
type Metrics struct {
	Enabled bool
	Token   string // bearer token that is required; empty: none
}

// Web is the web chat.
type Web struct {
	Enabled        bool
	Name           string   // of the application, for people
	FrameAncestors []string // origins of the pages that may show it in a frame
}

// Audit is the audit log.
type Audit struct {
	Keep time.Duration // 0: for ever
}
