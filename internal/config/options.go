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

		text("tls.cert_file", &c.TLS.CertFile, "",
			"PEM file with the certificate and its chain. With tls.key_file: HTTPS, WSS and TLS on the TCP port."),
		text("tls.key_file", &c.TLS.KeyFile, "", "PEM file with the private key of the certificate."),

		text("store.dir", &c.Store.Dir, "petrel-data",
			"Folder of the embedded store, relative to the working directory. One process at a time."),
		size("store.cache", &c.Store.CacheBytes, 256*mib, 16*mib, 1<<40, "Memory of the store: blocks that were read, and what was written and is not yet in tables."),
		size("store.min_free", &c.Store.MinFreeBytes, 256*mib, 0, 1<<50,
			"Below this much free space on the disk of the store sends are refused (disk_full) and reads go on. 0: do not check."),
		size("store.ballast", &c.Store.BallastBytes, 64*mib, 0, 1*gib,
			"Size of a file that is given up when the disk is nearly full, so that what was accepted can still be stored. 0: none."),

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

		size("limits.outbox", &l.OutboxBytes, 256*kib, 16*kib, 1*gib,
			"Events waiting to be written to one session. What does not fit makes the session sync (lagged)."),
		size("limits.conv_queue", &l.ConvQueueBytes, 1*mib, 64*kib, 1*gib,
			"Sends waiting for one conversation. What does not fit is refused, unsettled (overloaded)."),
		size("limits.admitted", &l.AdmittedBytes, 64*mib, 1*mib, 1<<40,
			"Sends of all conversations that are admitted and not yet acked. What does not fit is refused, unsettled (overloaded)."),
		duration("limits.slow_timeout", &l.SlowTimeout, 10*time.Second, 1*time.Second, 10*time.Minute,
			"A connection that takes nothing of what waits for it for this long is closed (slow_consumer)."),

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
	"store":     "The embedded store.",
	"limits":    "What clients can make the server hold. -1: no limit, where it is allowed.",
	"heartbeat": "How a dead link is found.",
	"drain":     "How the server goes away.",
	"log":       "The log, on standard error.",
	"metrics":   "Prometheus metrics.",
}
