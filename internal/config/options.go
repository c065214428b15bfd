package config

import "time"

// options is the table of everything that can be set. It is the only place
// that knows an option's name, default, allowed values and explanation; the
// file, the environment, the flags, `config default` and
// docs/reference/config.md all come from it.
//
// The pointers are into c, so a table belongs to one Config.
func options(c *Config) []option {
	const (
		kib = 1 << 10
		mib = 1 << 20
		gib = 1 << 30
	)
	l := &c.Limits
	return []option{
		address("listen.http", &c.Listen.HTTP, "127.0.0.1:8080",
			"Address of HTTP and WebSocket: /v1/ws, the admin API, /setup, /healthz, /readyz, /version, /metrics. Empty: do not listen."),
		address("listen.tcp", &c.Listen.TCP, "127.0.0.1:8081",
			"Address of the plain TCP protocol. Empty: do not listen."),
		boolean("listen.insecure_plaintext", &c.Listen.InsecurePlaintext, false,
			"Listen without TLS on addresses other hosts can reach. Tokens and messages then cross the network in clear; right only behind a proxy that ends TLS."),
		list("listen.origins", &c.Listen.Origins,
			"Origins that browsers may connect from, like https://chat.example.org, beside the server's own. \"*\" is any."),
		prefixes("listen.trusted_proxies", &c.Listen.TrustedProxies,
			"Proxies in front of listen.http, whose word is taken for the client's address, so that limits for an IP address are the client's. Of several in a row all of them. Nobody else's word counts. On listen.tcp the address is that of the connection."),
		choice("listen.proxy_header", &c.Listen.ProxyHeader, "X-Forwarded-For", []string{"X-Forwarded-For", "Forwarded"},
			"The header in which the trusted proxies add whom they got a request from. The other one is not read."),

		text("tls.cert_file", &c.TLS.CertFile, "",
			"PEM file with the certificate and its chain. With tls.key_file: HTTPS, WSS and TLS on the TCP port."),
		text("tls.key_file", &c.TLS.KeyFile, "", "PEM file with the private key of the certificate."),

		secret("store.postgres", &c.Store.Postgres,
			"URLs of PostgreSQL databases, version 15 or newer, with blanks between them: postgres://user:password@host/database?sslmode=verify-full. The first one holds the accounts; the conversations are spread over all of them. Empty: the embedded store in store.dir."),
		boolean("store.require_standby", &c.Store.RequireStandby, false,
			"Do not start when a database has no synchronous standby, whose loss of the primary would lose what was acked."),
		text("store.dir", &c.Store.Dir, "petrel-data",
			"Folder of the embedded store, relative to the working directory. One process at a time. With store.postgres: of this node's id and setup link."),
		size("store.cache", &c.Store.CacheBytes, 256*mib, 16*mib, 1<<40, "Memory of the store: blocks that were read, and what was written and is not yet in tables."),
		size("store.min_free", &c.Store.MinFreeBytes, 256*mib, 0, 1<<50,
			"Below this much free space on the disk of the store sends are refused (disk_full) and reads go on. 0: do not check."),
		size("store.ballast", &c.Store.BallastBytes, 64*mib, 0, 1*gib,
			"Size of a file that is given up when the disk is nearly full, so that what was accepted can still be stored. 0: none."),

		text("cluster.node", &c.Cluster.Node, "", "Name of this node, unlike that of every other one. Empty: drawn at the first start and kept in store.dir."),
		text("cluster.roles", &c.Cluster.Roles, "gateway,conv,api", "What this node does: take connections of clients (gateway), own conversations (conv), serve the API (api)."),
		list("cluster.addresses", &c.Cluster.Addresses, "Where clients reach this node, like https://chat-1.example.org. Empty: they are sent to no node in particular."),
		text("cluster.listen", &c.Cluster.Listen, "", "host:port on which the other nodes reach the bus in this one. Empty, without cluster.nats: there are no other nodes."),
		text("cluster.advertise", &c.Cluster.Advertise, "", "host:port of cluster.listen as the others reach it, if it is another one."),
		list("cluster.join", &c.Cluster.Join, "host:port of the bus in some of the other nodes; they tell of the rest."),
		secret("cluster.nats", &c.Cluster.NATS, "URLs of an external NATS server instead, with commas between them; user and password, or a token, are part of each."),
		text("cluster.credentials", &c.Cluster.Credentials, "", "File with a user's JWT and seed for the external NATS server."),
		secret("cluster.secret", &c.Cluster.Secret, "Shared by all nodes, who let nobody without it onto their bus."),
		text("cluster.bus_cert_file", &c.Cluster.CertFile, "", "PEM file with the certificate that this node shows on the bus; with cluster.bus_key_file and cluster.bus_ca_file: TLS."),
		text("cluster.bus_key_file", &c.Cluster.KeyFile, "", "PEM file with its private key."),
		text("cluster.bus_ca_file", &c.Cluster.CAFile, "", "PEM file with the roots that sign the certificates of the others."),
		boolean("cluster.patient", &c.Cluster.Patient, false, "Wait at the start for other nodes that are alive in the database and not on the bus, instead of giving up."),

		size("limits.frame", &l.FrameBytes, 64*kib, 4*kib, 16*mib, "Largest frame of a client."),
		size("limits.body", &l.BodyBytes, 48*kib, 1, 16*mib, "Largest text or data of a message. A body has to fit a frame with 1KiB to spare."),
		count("limits.history_messages", &l.HistoryMessages, 200, 1, 1000, "Messages in one page of history."),

		duration("limits.hello_timeout", &l.HelloTimeout, 10*time.Second, 100*time.Millisecond, 10*time.Minute,
			"How long a connection may take to say hello."),
		size("limits.hello_frame", &l.HelloFrameBytes, 4*kib, 512, 64*kib, "Largest frame of a connection that has not said hello."),
		unlimited("limits.unauthenticated", &l.Unauthenticated, 2000, "Connections that have not said hello, in all."),
		unlimited("limits.unauthenticated_per_ip", &l.UnauthenticatedPerIP, 20, "Connections that have not said hello, of one IP address (IPv6: of one /64)."),

		byFiles("limits.connections", &l.Connections, "Connections in all. 0: as many as the limit of open files allows."),
		unlimited("limits.connections_per_user", &l.ConnectionsPerUser, 10, "Connections of one user."),
		unlimited("limits.connections_per_ip", &l.ConnectionsPerIP, 50, "Connections of one IP address (IPv6: of one /64)."),
		unlimited("limits.new_connections_per_ip_per_s", &l.NewConnectionsPerIPPerS, 100, "New connections of one IP address in a second."),

		count("limits.window_sends", &l.WindowSends, 64, 1, 65536, "Sends that one connection may have unanswered; announced in the welcome."),
		size("limits.window_bytes", &l.WindowBytes, 256*kib, 4*kib, 1*gib, "Bytes of send frames that one connection may have unanswered; announced in the welcome."),
		unlimited("limits.sends_per_s", &l.SendsPerS, 10, "Sends of one session in a second, on average."),
		unlimited("limits.send_burst", &l.SendBurst, 40, "Sends of one session at once, above the average."),
		unlimited("limits.groups_per_h", &l.GroupsPerH, 20, "Groups that one user may make in an hour."),

		size("limits.outbox", &l.OutboxBytes, 256*kib, 16*kib, 1*gib,
			"Events waiting to be written to one session. What does not fit makes the session sync (lagged)."),
		size("limits.conv_queue", &l.ConvQueueBytes, 1*mib, 64*kib, 1*gib,
			"Sends waiting for one conversation. What does not fit is refused, unsettled (overloaded)."),
		size("limits.admitted", &l.AdmittedBytes, 64*mib, 1*mib, 1<<40,
			"Sends of all conversations that are admitted and not yet acked. What does not fit is refused, unsettled (overloaded)."),
		duration("limits.slow_timeout", &l.SlowTimeout, 10*time.Second, 1*time.Second, 10*time.Minute,
			"A connection that takes nothing of what waits for it for this long is closed (slow_consumer)."),

		boolean("accounts.registration", &c.Accounts.Registration, true, "Let people make accounts with a password by themselves. false: only the operator and the identity provider make users."),
		boolean("accounts.one_per_kind", &c.Accounts.OnePerKind, true, "A login ends the sessions and tokens of the user's other device of the same kind (phone, desktop, web, …)."),
		duration("accounts.access_ttl", &c.Accounts.AccessTTL, time.Hour, 1*time.Minute, 30*24*time.Hour, "How long an access token that a login or a refresh gives is valid. A session goes on when its token ends."),
		duration("accounts.refresh_ttl", &c.Accounts.RefreshTTL, 30*24*time.Hour, 1*time.Hour, 366*24*time.Hour, "How long a refresh token is valid. It works once; a device that is not used for this long logs in again."),
		unlimited("accounts.logins_per_min", &c.Accounts.LoginsPerMin, 5, "Tries to log in to one account in a minute."),
		unlimited("accounts.logins_per_ip_per_min", &c.Accounts.LoginsPerIPPerMin, 20, "Tries to log in from one IP address (IPv6: of one /64) in a minute."),
		unlimited("accounts.registrations_per_ip_per_h", &c.Accounts.RegistrationsPerIPPerH, 10, "Registrations from one IP address (IPv6: of one /64) in an hour."),
		unlimited("accounts.look_ups_per_min", &c.Accounts.LookUpsPerMin, 30, "Look-ups of other users by one user in a minute."),
		unlimited("accounts.refreshes_per_min", &c.Accounts.RefreshesPerMin, 60, "Refreshes of tokens by one user in a minute."),

		text("jwt.key_file", &c.JWT.KeyFile, "", "File with the public key of the identity provider as PEM, or, for HS256, the shared secret of at least 32 bytes. Empty: no JWT is taken."),
		choice("jwt.algorithm", &c.JWT.Algorithm, "EdDSA", []string{"EdDSA", "ES256", "RS256", "HS256"}, "The only algorithm that is taken, whatever a JWT says of itself."),
		text("jwt.issuer", &c.JWT.Issuer, "", "What the iss of a JWT has to be."),
		text("jwt.audience", &c.JWT.Audience, "", "What the aud of a JWT has to have in it."),
		text("jwt.tenant", &c.JWT.Tenant, "default", "Tenant of the users that the identity provider names. One who is not there is made."),

		duration("messages.edit_window", &c.Messages.EditWindow, 24*time.Hour, 0, 10*366*24*time.Hour, "How long the sender of a message may edit it. 0: for ever."),
		duration("messages.recall_window", &c.Messages.RecallWindow, 24*time.Hour, 0, 10*366*24*time.Hour,
			"How long the sender of a message may recall it. 0: for ever. Admins of a group and the operator always may."),

		duration("heartbeat.silence", &c.Heartbeat.Silence, 30*time.Second, 1*time.Second, 1*time.Hour,
			"After this long without a byte from the client the server probes it; announced in the welcome."),
		count("heartbeat.misses", &c.Heartbeat.Misses, 2, 1, 100, "Unanswered probes after which the link is dead."),

		duration("drain.timeout", &c.Drain.Timeout, 10*time.Second, 0, 10*time.Minute,
			"At the end, how long messages in flight may take to be stored and acked, and outboxes to empty."),

		choice("log.level", &c.Log.Level, "info", []string{"debug", "info", "warn", "error"}, "Least level that is logged."),
		choice("log.format", &c.Log.Format, "auto", []string{"auto", "text", "json"}, "auto: text on a terminal, JSON otherwise."),

		boolean("metrics.enabled", &c.Metrics.Enabled, true, "Serve /metrics on the HTTP listener."),
		secret("metrics.token", &c.Metrics.Token, "Bearer token that /metrics asks for, at least 16 characters. Empty: nobody is asked."),
	}
}

// sectionDocs explains the sections in `config default`, in the order of the
// table.
var sectionDocs = map[string]string{
	"listen":    "Where the server listens. An address that other hosts can reach needs TLS.",
	"tls":       "TLS for all listeners.",
	"store":     "Where messages and accounts are kept: in a folder of this machine, or in PostgreSQL.",
	"cluster":   "The other nodes. All of them share the databases of store.postgres.",
	"limits":    "What clients can make the server hold. -1: no limit, where it is allowed.",
	"accounts":  "How people log in. -1: no limit.",
	"jwt":       "An identity provider whose JWT logs a user in: its sub is the user id; exp is needed and at most 24 hours ahead.",
	"messages":  "What may be done to messages that are stored.",
	"heartbeat": "How a dead link is found.",
	"drain":     "How the server goes away.",
	"log":       "The log, on standard error.",
	"metrics":   "Prometheus metrics.",
}
