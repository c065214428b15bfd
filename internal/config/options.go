package config

import (
	"slices"
	"time"
)

// Sizes, in bytes.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// options is the table of everything that can be set. It is the only place
// that knows an option's name, default, allowed values and explanation; the
// file, the environment, the flags, `config default` and
// docs/reference/config.md all come from it.
//
// The pointers are into c, so a table belongs to one Config.
func options(c *Config) []option {
	return slices.Concat([]option{
		address("listen.http", &c.Listen.HTTP, "127.0.0.1:8080",
			"Address of HTTP and WebSocket for clients and back ends. It serves the web chat, /v1/ws, the API, /docs, /healthz, /readyz and /version. Empty: the server does not listen there."),
		address("listen.tcp", &c.Listen.TCP, "127.0.0.1:8081",
			"Address of the protocol over plain TCP. Empty: the server does not listen there."),
		address("listen.admin", &c.Listen.Admin, "127.0.0.1:8082",
			"Address of HTTP for operators. It serves the console at /admin/, /setup, /metrics, /debug/pprof/ (with an admin key of the scope server), the methods that need an admin key, /docs, /healthz, /readyz and /version. "+
				"On an address that only this host can reach it speaks HTTP without TLS, also if TLS is on. Empty: the server does not listen there."),
		live(boolean("listen.back_ends", &c.Listen.BackEnds, true,
			"Serve the methods of the scopes users, tokens, conversations and messages on listen.http too, for the back ends of applications. false: only on listen.admin. The methods of the scopes server, backup and admin are always on listen.admin only.")),
		boolean("listen.insecure_plaintext", &c.Listen.InsecurePlaintext, false,
			"Listen without TLS on addresses that other hosts can reach. Tokens and messages then cross the network unencrypted. Set it only where a proxy in front of the server ends TLS."),
		live(list("listen.hosts", &c.Listen.Hosts, nil,
			"Names by which clients reach the server, like chat.example.org, or *.example.org for every name below it. A request whose Host header has another name is refused, because it may come from the page of a stranger who lets a name stand for this server. "+
				"The server knows the names in its certificate and in cluster.addresses, and localhost. On an address that other hosts can reach it also takes IP addresses and names without a dot. \"*\" allows every name.")),
		live(list("listen.origins", &c.Listen.Origins, nil,
			"Origins of the pages that may connect and call the API from a browser, like https://chat.example.org. The server's own origin is always allowed. \"*\" allows every origin.")),
		live(prefixes("listen.trusted_proxies", &c.Listen.TrustedProxies,
			"Addresses of the proxies and balancers in front of listen.http and listen.tcp. From these, and from nobody else, the server believes the header of listen.proxy_header, or with listen.proxy_protocol that of the connection, so that limits for an IP address count for the client. If requests pass several proxies, name all of them. Where they name no client, all that come through one of them are limited as one IP address, and the log says so.")),
		choice("listen.proxy_header", &c.Listen.ProxyHeader, "X-Forwarded-For",
			[]string{"X-Forwarded-For", "Forwarded"},
			"Header in which the trusted proxies write the address of the client. The other header is not read."),
		boolean("listen.proxy_protocol", &c.Listen.ProxyProtocol, false,
			"The trusted proxies begin each connection, on listen.http and listen.tcp, with a header of the PROXY protocol, version 2, which names the client. A connection of theirs without it is closed. From others no such header is read."),

		live(text("tls.cert_file", &c.TLS.CertFile, "",
			"PEM file with the certificate and its chain. With tls.key_file it turns TLS on: HTTPS, WSS, and TLS on the TCP port. Turning TLS on or off needs a restart. A new certificate does not.")),
		live(text("tls.key_file", &c.TLS.KeyFile, "", "PEM file with the private key of the certificate.")),
	}, storeOptions(c), []option{
		text("cluster.node", &c.Cluster.Node, "",
			"Name of this node. No two nodes may have the same name. Empty: a name is drawn at the first start and kept in store.dir."),
		list("cluster.roles", &c.Cluster.Roles, []string{"gateway", "conv", "api"},
			"What this node does: gateway takes connections of clients, conv owns conversations, api serves the API over HTTP."),
		list("cluster.addresses", &c.Cluster.Addresses, nil,
			"Addresses at which clients reach this node, like https://chat-1.example.org. Clients are told of them. Empty: clients are not told of this node."),
		address("cluster.listen", &c.Cluster.Listen, "",
			"Address at which the other nodes reach the bus in this node. Empty, and cluster.nats empty too: this node works alone."),
		text("cluster.advertise", &c.Cluster.Advertise, "",
			"host:port at which the others reach cluster.listen, if it is not the same address."),
		list("cluster.join", &c.Cluster.Join, nil,
			"host:port of the bus in some of the other nodes. From them this node learns of the rest."),
		urls("cluster.nats", &c.Cluster.NATS, "nats://user:password@host:4222", "the URLs of the NATS servers",
			"URLs of NATS servers, to use instead of the bus in the nodes. Each URL has its user and password, or its token, in it."),
		text("cluster.credentials", &c.Cluster.Credentials, "",
			"File with the JWT and the seed of a user of the NATS servers."),
		secret("cluster.secret", &c.Cluster.Secret, "the secret that all nodes share",
			"Secret that all nodes share. A node without it cannot join the bus."),
		live(text("cluster.bus_cert_file", &c.Cluster.CertFile, "",
			"PEM file with the certificate that this node shows on the bus. With cluster.bus_key_file and cluster.bus_ca_file it turns TLS on for the bus, which needs a restart. A new certificate does not.")),
		live(text("cluster.bus_key_file", &c.Cluster.KeyFile, "",
			"PEM file with the private key of cluster.bus_cert_file.")),
		live(text("cluster.bus_ca_file", &c.Cluster.CAFile, "",
			"PEM file with the root certificates that sign the certificates of the other nodes.")),
		boolean("cluster.insecure", &c.Cluster.Insecure, false,
			"Let cluster.listen be an address that other hosts can reach, without certificates. Then cluster.secret and all messages between nodes cross the network in clear. Set it only where nobody but the nodes is on that network."),
		boolean("cluster.patient", &c.Cluster.Patient, false,
			"When other nodes are alive in the database but cannot be reached on the bus, wait for them at the start. Otherwise the server gives up with an error."),
	}, limitOptions(c), []option{
		choice("accounts.registration", &c.Accounts.Registration, "auto",
			[]string{"auto", "open", "invitation", "closed"},
			"Who may make an account with a password, in tenants for which the operator has not set it. auto: everybody in the default tenant as long as no other host reaches the server: it listens on the loopback only, and listen.hosts, listen.trusted_proxies and cluster.addresses are empty. Nobody otherwise. closed: only the operator and the identity provider create users."),
		boolean("accounts.one_per_kind", &c.Accounts.OnePerKind, true,
			"A login ends the sessions and the tokens of the user's other device of the same kind (phone, desktop, …). Of the kind web a user has up to five: the oldest one ends."),
		duration("accounts.access_ttl", &c.Accounts.AccessTTL, time.Hour, 1*time.Minute, 30*24*time.Hour,
			"How long the access token of a login or a refresh is valid. A session goes on after its token has expired."),
		duration("accounts.refresh_ttl", &c.Accounts.RefreshTTL, 30*24*time.Hour, 1*time.Hour, 366*24*time.Hour,
			"How long a refresh token is valid. Each works once. A device that is not used for this long has to log in again."),
		text("accounts.stolen_passwords_file", &c.Accounts.StolenPasswordsFile, "",
			"File with passwords that nobody may choose, since others have stolen them: the SHA-1 of each in capital hexadecimal digits, one a line, in ascending order. After a colon more may follow, as in the files of Have I Been Pwned. It is read when somebody chooses a password, and may be replaced at any time. Empty: only the 4,000 most common ones are refused."),
		unlimited("accounts.logins_per_min", &c.Accounts.LoginsPerMin, 5,
			"Most attempts to log in to one account in a minute with a password: from one IP address, and by one device that has logged in before, wherever it is. All other devices together have ten times as many; what is beyond that is delayed, and then refused."),
		unlimited("accounts.logins_per_ip_per_min", &c.Accounts.LoginsPerIPPerMin, 20,
			"Most attempts to log in from one IP address in a minute, by devices that have not logged in before. IPv6: from one /64; four times as many from a /56, 16 times as many from a /48."),
		unlimited("accounts.registrations_per_ip_per_h", &c.Accounts.RegistrationsPerIPPerH, 10,
			"Most registrations from one IP address in an hour. IPv6: from one /64; four times as many from a /56, 16 times as many from a /48."),
		unlimited("accounts.look_ups_per_min", &c.Accounts.LookUpsPerMin, 30,
			"Most times that one user may look up other users in a minute."),
		unlimited("accounts.refreshes_per_min", &c.Accounts.RefreshesPerMin, 60,
			"Most refreshes of tokens by one user in a minute."),
	}, providerOptions(&c.JWT), []option{
		duration("messages.edit_window", &c.Messages.EditWindow, 24*time.Hour, 0, 10*366*24*time.Hour,
			"How long the sender of a message may edit it. 0: for ever."),
		duration("messages.recall_window", &c.Messages.RecallWindow, 24*time.Hour, 0, 10*366*24*time.Hour,
			"How long the sender of a message may recall it. 0: for ever. Admins of a group, its owner and the operator may recall at any time."),

		duration("heartbeat.silence", &c.Heartbeat.Silence, 30*time.Second, 1*time.Second, 1*time.Hour,
			"When a client has sent nothing for this long, the server sends a ping. The welcome tells the client."),
		count("heartbeat.misses", &c.Heartbeat.Misses, 2, 1, 100,
			"How many times heartbeat.silence may pass without a byte after a ping, until the connection is closed (dead_link)."),

		duration("drain.timeout", &c.Drain.Timeout, 10*time.Second, 0, 10*time.Minute,
			"When the server stops, how long it waits until accepted messages are stored and acked and outboxes are empty."),

		live(choice("log.level", &c.Log.Level, "info", []string{"debug", "info", "warn", "error"},
			"Lowest level that is logged.")),
		choice("log.format", &c.Log.Format, "auto", []string{"auto", "text", "json"},
			"Format of the log: text, json, or auto, which is text on a terminal and JSON elsewhere."),

		boolean("metrics.enabled", &c.Metrics.Enabled, true, "Serve /metrics on listen.admin."),
		live(secret("metrics.token", &c.Metrics.Token, "the bearer token that /metrics asks for",
			"Bearer token that /metrics asks for. Empty: /metrics asks for none.")),

		boolean("web.enabled", &c.Web.Enabled, true,
			"Serve the web chat on listen.http, at /. false, or the flag --no-web: none of its files."),
		text("web.name", &c.Web.Name, "Petrel",
			"Name that the web chat has for people: in the title of the page, and where they log in."),
		list("web.frame_ancestors", &c.Web.FrameAncestors, nil,
			"Origins of the pages that may show the web chat in a frame, like https://shop.example.org. Empty: no page may."),

		duration("audit.keep", &c.Audit.Keep, 90*24*time.Hour, 0, 10*366*24*time.Hour,
			"How long a record of the audit log is kept. 0: for ever."),
	})
}

func limitOptions(c *Config) []option {
	l := &c.Limits
	return []option{
		size("limits.body", &l.BodyBytes, 48*kib, 1, 128*kib,
			"Largest text or data of a message. The largest frame of a client follows from it: seven times as much and 8KiB, and at least 64KiB, so that every body fits with all the escapes of JSON."),
		count("limits.history_messages", &l.HistoryMessages, 200, 1, 200, "Most messages in one page of history."),

		duration("limits.hello_timeout", &l.HelloTimeout, 10*time.Second, 100*time.Millisecond, 10*time.Minute,
			"How long a new connection may take to send its hello."),
		size("limits.hello_frame", &l.HelloFrameBytes, 4*kib, 512, 64*kib,
			"Largest frame of a connection that has not said hello."),
		live(unlimited("limits.unauthenticated", &l.Unauthenticated, 2000,
			"Most connections that have not said hello, of all clients together. One more ends the oldest of those that are silent.")),
		live(unlimited("limits.unauthenticated_per_ip", &l.UnauthenticatedPerIP, 20,
			"Most connections that have not said hello, from one IP address (IPv6: from one /64). One more ends the oldest of these that is silent.")),

		live(byFiles("limits.connections", &l.Connections,
			"Most connections of all clients together. 0 and -1: as many as the limit of open files allows, after what the store and HTTP need. A larger number is lowered to that.")),
		live(unlimited("limits.connections_per_user", &l.ConnectionsPerUser, 10, "Most connections of one user.")),
		live(unlimited("limits.connections_per_ip", &l.ConnectionsPerIP, 10_000,
			"Most sessions from one IP address (IPv6: from one /64): a whole office or mobile network may be behind it.")),
		live(unlimited("limits.new_connections_per_ip_per_s", &l.NewConnectionsPerIPPerS, 100,
			"Most new connections from one IP address in a second. If more than one in twenty of these end before anybody has logged in on them, and more than a second's worth at once, further ones are reset for up to 5 s; where somebody is logged in from the address it takes four times as many. The HTTP server reads as many KiB in a second from the clients of an address that have not logged in. IPv6: from one /64; four times as many from a /56, 16 times as many from a /48.")),

		unlimited("limits.anonymous_calls_per_ip_per_s", &l.AnonymousCallsPerIPPerS, 20,
			"Most calls without a token or key (logins, registrations, refreshes) from one IP address in a second, on average; ten times as many at once. They are counted before their content is read, and those at listen.admin apart. IPv6: from one /64; four times as many from a /56, 16 times as many from a /48."),
		live(count("limits.window_sends", &l.WindowSends, 64, 1, 65536,
			"Most unanswered sends of one connection. The welcome tells the client.")),
		live(size("limits.window_bytes", &l.WindowBytes, 256*kib, 4*kib, 1*gib,
			"Most bytes of unanswered sends of one connection. The welcome tells the client.")),
		live(unlimited("limits.sends_per_s", &l.SendsPerS, 10, "Most sends of one session in a second, on average.")),
		live(unlimited("limits.send_burst", &l.SendBurst, 40,
			"Most sends of one session at once, beyond the average.")),
		size("limits.stored_per_s", &l.StoredPerS, 64*kib, 1*kib, 1<<40,
			"Most bytes that one user may have stored in a second, on average: texts, data, settings and copied messages of forwards, of all sessions of the user at one node. A send or change of up to 1KiB, with what is around it, is not counted, and none is where limits.sends_per_s is -1. More is answered rate_limited, and may be sent again."),
		size("limits.stored_burst", &l.StoredBurst, 16*mib, 256*kib, 1<<40,
			"Most bytes that one user may have stored at once, beyond the average."),
		size("limits.tenant_stored_per_s", &l.TenantStoredPerS, 0, 0, 1<<40,
			"Most bytes that the users of one tenant together may have stored in a second at one node, on average; those of an hour at once. They are counted as those of limits.stored_per_s. 0: no limit."),
		unlimited("limits.calls_per_s", &l.CallsPerS, 20,
			"Most calls of methods by one user in a second at one node, over HTTP and connections, on average; three times as many at once. A call counts once more for each 8 KiB of its request and of its answer. A call that comes early waits; one that would have to wait longer than a second is then answered rate_limited."),
		unlimited("limits.groups_per_h", &l.GroupsPerH, 20, "Most groups that one user may create in an hour."),
		unlimited("limits.members_per_min", &l.MembersPerMin, 1000,
			"Most users that one user may add to groups, remove from them or give roles in a minute, each time counted. Twice as many at once, and at least 1,000. The operator's API is not limited."),

		live(size("limits.outbox", &l.OutboxBytes, 256*kib, 16*kib, 1*gib,
			"Most bytes of events that wait to be written to one session. When an event does not fit, the session is told to sync (lagged).")),
		size("limits.conv_queue", &l.ConvQueueBytes, 1*mib, 64*kib, 1*gib,
			"Most bytes of sends that wait for one conversation. A send that does not fit is answered overloaded, and may be sent again."),
		share("limits.admitted", &l.AdmittedBytes, 1*mib, 1<<40,
			"Most bytes of sends that wait for their answer, of all conversations together. A send that does not fit is answered overloaded, and may be sent again. 0: a 16th of memory.total, from 4MiB to 64MiB."),
		duration("limits.slow_timeout", &l.SlowTimeout, 10*time.Second, 1*time.Second, 10*time.Minute,
			"A connection that has read nothing of what waits for it for this long is closed (slow_consumer)."),

		share("memory.total", &c.Memory.TotalBytes, 64*mib, 1<<50,
			"Memory that the server may reckon with. The budgets that are 0 are parts of it: memory.conversations and store.cache. 0: the memory of the machine, of the container (cgroup) or of GOMEMLIMIT, whichever is least. The server keeps itself below about seven eighths of it, and answers overloaded where that would not do."),
		share("memory.conversations", &c.Memory.ConversationBytes, 1*mib, 1<<40,
			"Memory for conversations that were used lately: members, ids of the newest messages, cursors. When they need more, those leave memory that were not used for the longest time. 0: a 32nd of memory.total, from 2MiB to 256MiB."),
	}
}

func storeOptions(c *Config) []option {
	return []option{
		urls("store.postgres", &c.Store.Postgres, "postgres://user:password@host/database?sslmode=verify-full",
			"the URLs of the PostgreSQL databases",
			"URLs of PostgreSQL databases, version 15 or newer. The first database holds the accounts; the conversations are spread over all of them. Empty: the embedded store in store.dir is used."),
		boolean("store.require_standby", &c.Store.RequireStandby, false,
			"Do not start while a database has no synchronous standby. Without a standby the loss of the primary loses acked messages."),
		text("store.dir", &c.Store.Dir, "petrel-data",
			"Folder of the embedded store, relative to the working directory. One process at a time can use it. With store.postgres it holds only the node's id and the setup link. The server closes the folder to other users of the host."),
		text("store.id", &c.Store.ID, "",
			"Id of the store that is expected, 16 hex digits: the server refuses any other store, and makes none where there is none, for example because a volume is not mounted. The log names the id at each start. Empty: any store."),
		text("store.mark", &c.Store.Mark, "",
			"File outside store.dir, best on another disk, into which the server writes the ids of the store and of its history and the newest commits, at each start and stop and once a second. A store that is behind its mark, embedded or in databases, was put back to an earlier state, and is refused. The server must be able to make files in the folder of the file. Empty: there is no mark."),
		boolean("store.refuse_copies", &c.Store.RefuseCopies, true,
			"Refuse a folder of the embedded store that is a copy, like one that was put back from a backup by hand: it may lack what clients were told. A copy is told by the inode numbers of its files. Set it to false on a file system that changes them."),
		share("store.cache", &c.Store.CacheBytes, 8*mib, 1<<40,
			"Memory that the embedded store may use for blocks that were read and for rows that are not yet in a table. 0: a 16th of memory.total, from 8MiB to 256MiB."),
		size("store.min_free", &c.Store.MinFreeBytes, 256*mib, 0, 1<<50,
			"When the disk of the store has less free space than this, sends and other writes are refused with disk_full; reads go on. Operators log in and act, at the address of listen.admin, until a quarter of it is left. 0: the space is not checked."),
		size("store.ballast", &c.Store.BallastBytes, 64*mib, 0, 1*gib,
			"Size of a file that is deleted when the disk is nearly full, so that messages that were accepted can still be stored. 0: no such file."),
		duration("store.scrub_every", &c.Store.ScrubEvery, 7*24*time.Hour, 0, 366*24*time.Hour,
			"The embedded store reads all of its tables once in this time, to find damage before somebody asks for what is there. 0: never."),
		size("store.scrub_rate", &c.Store.ScrubRate, 8*mib, 64*kib, 10*gib,
			"How much of the tables is read in a second for that, at most."),
	}
}

// providerOptions are those of the identity provider.
func providerOptions(j *JWT) []option {
	return []option{
		live(text("jwt.key_file", &j.KeyFile, "",
			"File with the public key of the identity provider as PEM, or, for HS256, with the shared secret of at least 32 bytes. Empty: no JWT is accepted. A new key is taken over without a restart; to begin or end with JWTs needs one.")),
		text("jwt.keys_url", &j.KeysURL, "",
			"URL at which the identity provider publishes its keys (JWKS), instead of jwt.key_file. They are fetched again every 15 minutes, and when a JWT names a key that is not known."),
		choice("jwt.algorithm", &j.Algorithm, "EdDSA", []string{"EdDSA", "ES256", "RS256", "HS256"},
			"The only algorithm that is accepted, whatever the JWT itself says."),
		text("jwt.issuer", &j.Issuer, "", "Issuer that a JWT must name in iss."),
		text("jwt.audience", &j.Audience, "", "Audience that a JWT must name in aud."),
		text("jwt.tenant", &j.Tenant, "default",
			"Tenant of the users that the identity provider names. A user who does not exist yet is created."),
		list("jwt.acr", &j.ACR, nil,
			"Values of acr of which a JWT must have one: how surely the provider knows who logged in. Empty: acr does not count."),
		list("jwt.amr", &j.AMR, nil,
			"Methods that amr of a JWT must name, all of them, such as mfa. Empty: amr does not count."),
		duration("jwt.max_auth_age", &j.MaxAuthAge, 0, 0, 366*24*time.Hour,
			"How long ago the person may have logged in at the provider, by auth_time of the JWT. 0: auth_time does not count."),
		boolean("jwt.take_name", &j.TakeName, false,
			"A login sets the display name of the user to the claim name of the JWT, if it has one that is allowed. To keep users from changing it, add display_name to the profile rules of the tenant."),
	}
}

// sectionDocs explains each section, for WriteDefault and WriteReference.
var sectionDocs = map[string]string{
	"listen":    "Where the server listens. An address that other hosts can reach needs TLS.",
	"tls":       "TLS for all listeners, except for listen.admin where only this host can reach it.",
	"store":     "Where messages and accounts are kept: in a folder of this host, or in PostgreSQL.",
	"cluster":   "The other nodes of a cluster. All nodes name the same databases in store.postgres.",
	"limits":    "How much clients can make the server hold. -1 means no limit, where it is allowed.",
	"memory":    "How much memory the parts of the server may take. 0: a part of what the machine has.",
	"accounts":  "How people log in. -1 means no limit.",
	"jwt":       "An identity provider whose JWT logs a user in. Its sub is the user id. It must have an exp, at most 24 hours ahead.",
	"messages":  "What users may do to messages that are stored.",
	"heartbeat": "How the server notices that a connection is dead.",
	"drain":     "How the server stops.",
	"log":       "The log, on standard error.",
	"metrics":   "Prometheus metrics.",
	"web":       "The web chat, a page that the server has in it.",
	"audit":     "The log of who logged in, who was refused, and what operators did.",
}
