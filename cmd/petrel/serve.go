package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/app"
	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/console"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/repeats"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/pgstore"
)

func newServe(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: "Runs the server. It keeps everything in an embedded store, or, with store.postgres, in PostgreSQL as a node of a\n" +
			"cluster. Nothing has to be configured. Every option can be set by a flag, by an environment variable and in the file.\n" +
			"The first start prints a one-time link that makes the first admin key; if the output is no terminal, the link is only in\n" +
			"the file setup-link of the data folder. Ctrl-C or SIGTERM drains the server: it stores and acks the sends that it has\n" +
			"taken, and tells clients to come back later. SIGHUP, or a change of one of their files, makes it read the configuration\n" +
			"and the certificate again, without ending a connection.",
		Example: "  petrel serve\n  petrel serve --data /srv/petrel --listen-http 127.0.0.1:9000\n" +
			"  petrel serve --listen-http :443 --tls-cert-file cert.pem --tls-key-file key.pem",
		Args: cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			hangups := make(chan os.Signal, 1) // full: a reload is due already
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			secretFiles()
			oneMoreProcessor()
			level := new(slog.LevelVar)
			lines := &console.Lines{}
			buffer := c.buffer()
			summed := repeats.New(lines.Keep(newLog(c.err, conf.Log, level).Handler()))
			buffer.OnDropped(func(n uint64) {
				slog.New(summed).Warn(
					"lines of the log were dropped: their reader was too slow or failed", "lines",
					n)
			})
			defer beside(summed.Run)()
			a, err := app.New(cmd.Context(), conf, app.Options{
				Log: slog.New(summed), Level: level, Lines: lines, Banner: c.out, Terminal: isTerminal(c.out),
				LogDropped: buffer.Dropped, Version: version,
				MemoryLimit: app.LimitMemory(conf),
				Hangups:     hangups, Reload: func() (*config.Config, error) {
					again, err := c.loadAgain(cmd, conf.File())
					if f, ok := errors.AsType[*fault](err); ok && f.err != nil {
						err = f.err // names each option
					}
					return again, err
				},
			})
			if err != nil {
				return cannotServe(err)
			}
			if err := a.Run(cmd.Context()); err != nil {
				return cannotServe(err)
			}
			return nil
		}),
	}
	addOptionFlags(cmd.Flags())
	cmd.Flags().Bool(noWeb, false, "Do not serve the web chat; the same as --web-enabled=false.")
	return cmd
}

// cannotServe returns the fault of a server that does not start, or ends with err; tools that open the store use it
// too. The remedy is the part of the text of err after its last semicolon, unless the code below has another one.
func cannotServe(err error) error {
	f := &fault{exit: exitFailed, code: "failed", what: err.Error(), err: err}
	if i := strings.LastIndex(f.what, "; "); i >= 0 {
		f.what, f.fix = f.what[:i], f.what[i+2:]
	}
	if d, ok := errors.AsType[*pebblestore.Damaged](err); ok && d.Rewound {
		f.code, f.what, f.why = "rewound",
			"the store may be an earlier state of what clients were told, so the server does not start", f.what
	} else if ok {
		f.code, f.what, f.why = "damaged",
			"a file of the store is missing or damaged, and what was acked may be lost, so the server does not start",
			f.what
	}
	if errors.Is(err, syscall.ENOSPC) {
		return &fault{exit: exitFailed, code: string(im.CodeDiskFull), what: "the disk is full", why: err.Error(),
			fix: "free some space there, or remove files if \"df -i\" shows that it is out of inodes, then try again: nothing that was acked is lost", err: err}
	}
	if _, ok := errors.AsType[*pebblestore.Damaged](err); !ok && errors.Is(err, app.ErrDamaged) {
		f.code, f.what = "damaged",
			"a part of the store that a start needs cannot be read, so the server does not start"
		f.why = err.Error()
		f.fix = "restore a backup, or, with the embedded store, run \"petrel repair\" with the same --data or --config to accept the loss"
	}
	for _, k := range folderFaults {
		if errors.Is(err, k.is) {
			f.exit, f.code, f.what, f.why = k.exit, k.code, k.what, f.what
		}
	}
	for _, k := range serveFaults {
		if errors.Is(err, k.is) {
			return &fault{exit: k.exit, code: k.code, what: k.what, why: err.Error(), fix: k.fix, err: err}
		}
	}
	if p, ok := errors.AsType[*pgstore.Problem](err); ok {
		return &fault{exit: databaseExits[p.Code], code: p.Code, what: "the databases cannot be used", why: err.Error(),
			fix: p.Fix, err: err}
	}
	return f
}

// folderFaults are errors of the data folder. Their texts end in a semicolon and the remedy.
var folderFaults = []struct {
	is   error
	exit int
	code string
	what string
}{
	{pebblestore.ErrNoStore, exitConfig, "no_store",
		"there is no store where one is expected, so the server makes none"},
	{pebblestore.ErrOtherStore, exitConfig, "other_store", "this is not the store that is expected"},
	{pebblestore.ErrFolderGone, exitFailed, "folder_gone",
		"the data folder was removed or replaced while the server ran"},
	{app.ErrRewound, exitFailed, "rewound",
		"a client has proved that the store has gone back to an earlier state, so the server has stopped"},
}

// serveFaults are the errors with which a node does not join a cluster, with their remedies.
var serveFaults = []struct {
	is   error
	exit int
	code string
	what string
	fix  string
}{
	{app.ErrEmbedded, exitConfig, "config", "the embedded store works on one node only",
		"set store.postgres, or leave cluster.listen and cluster.nats empty"},
	{cluster.ErrTwin, exitConfig, "node_in_use", "another process runs with the id of this node",
		"stop that process, or give this one another cluster.node"},
	{natsbus.ErrInUse, exitConfig, "node_in_use", "another process runs with the id of this node",
		"stop that process, or give this one another cluster.node"},
	{cluster.ErrUnreachable, exitUnreachable, "nodes_unreachable", "the other nodes of this database cannot be reached",
		"name their bus in cluster.join or cluster.nats, and check the network between the nodes; if they belong to another cluster, give this node another database"},
	{natsbus.ErrOtherCluster, exitConfig, "other_cluster", "the nodes to join use another database",
		"correct cluster.join or store.postgres: all nodes of a cluster name the same databases"},
	{nats.ErrNoServers, exitUnreachable, "bus_unreachable", "the NATS server does not answer",
		"check that it runs, and that cluster.nats has its host and port"},
	{natsbus.ErrRefused, exitAuth, "bus_refused", "the bus does not let this node in",
		"set cluster.secret_file to the secret of the other nodes, or cluster.nats to the user and password of the NATS server, and check the TLS files of the bus and the addresses in cluster.join"},
}

// databaseExits has the exit code for each code of a pgstore.Problem.
var databaseExits = map[string]int{
	"database_unreachable": exitUnreachable, "database_refused": exitAuth, "database_unusable": exitFailed,
	"store_too_new": exitFailed, "other_store": exitConfig, "store_in_use": exitConfig,
	"database_behind": exitConfig, "database_waits": exitUnreachable, "rewound": exitFailed,
}

// beside runs f in a goroutine. stop ends the context of f and waits for the end of f.
func beside(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// newLog returns a logger that writes to w, as JSON or as text for people. With log.format auto it writes text if w is
// a terminal. It sets level to log.level.
func newLog(w io.Writer, conf config.Log, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(conf.Level)) // the configuration was checked
	o := &slog.HandlerOptions{Level: level}
	if conf.Format == "json" || conf.Format == "auto" && !isTerminal(w) {
		o.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration {
				a.Value = slog.StringValue(a.Value.Duration().String()) // a number would have no unit
			}
			return a
		}
		return slog.New(slog.NewJSONHandler(w, o))
	}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			a.Value = slog.StringValue(a.Value.Time().Format("15:04:05.000"))
		}
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error()) // errors of Pebble would print their stacks
		}
		return a
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// toolLog returns the log of a command that ends with a report or an error. These say everything that matters, so
// it discards the log, unless the configuration sets log.format, or log.level to debug.
func toolLog(w io.Writer, conf config.Log) *slog.Logger {
	if conf.Format == "auto" && conf.Level != "debug" {
		return slog.New(slog.DiscardHandler)
	}
	return newLog(w, conf, new(slog.LevelVar))
}

// secretFiles makes all files from now on private to the user of this process: also those of the store, of
// which others may make links and copies.
func secretFiles() { syscall.Umask(0o077) }

// oneMoreProcessor raises GOMAXPROCS by one, unless the environment sets it. While a flush of the store keeps a core
// busy, the kernel then shares that core between the flush and the connections, in turns of a few milliseconds. Go
// would let the flush run for 10 ms at a time (docs/decisions/004).
var oneMoreProcessor = sync.OnceFunc(func() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
})
