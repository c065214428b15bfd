// Package app is the composition root: it makes the parts of a server from a
// configuration, starts them in order, and stops them in the reverse one.
//
// Begin with app.go, which has the start, the run and the end. The other files:
//
//   - The options of the parts: useroptions.go and web.go (options that follow from the
//     configuration), memorybudgets.go (who may have how much memory), descriptors.go (who may have how
//     many open files), datafolder.go (nobody else may enter the data folder).
//   - The store and the other nodes: storage.go (the embedded store, or databases), othernodes.go
//     (a node of a cluster), drain.go (a node gives its partitions and clients away; the calls
//     of a cluster's operators), nodecutoff.go (a node that reaches nobody sends its clients away),
//     refutation.go (a store that has gone back to an earlier state ends all nodes).
//   - The services over HTTP: http.go (the handlers of both addresses), console.go (the
//     state that the console shows), limits.go (limits that operators change), metrics.go (/metrics and
//     /version), audit.go (the audit log).
//   - While it runs: banner.go (the texts at its start and its end), readiness.go
//     (whether it should get clients), reload.go (a changed configuration), heaprelease.go (free
//     memory goes back to the system after a busy time), memorypressure.go (work is refused while
//     memory is full).
//
// The package knows all parts, and none of them may know it. It decides nothing about
// messages.
package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/console"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/gateway"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/maintenance"
	"github.com/petrel-im/petrel/internal/operator"
	"github.com/petrel-im/petrel/internal/password"
	"github.com/petrel-im/petrel/internal/presence"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/web"
)

// Options are the inputs of a server besides the configuration.
type Options struct {
	Log     *slog.Logger
	Banner  io.Writer // where the start and the end are announced; nil: nowhere
	Version string
	Lines   *console.Lines // keeps what Log writes; nil: New makes one

	Terminal   bool          // Banner is a terminal
	LogDropped func() uint64 // how many lines Log has dropped; nil: it drops none

	// PasswordWork is the work of a password hash; zero: the default of package user. Tests set less: they have
	// many users, whose passwords nobody guesses.
	PasswordWork password.Work

	// DiskStall is how long a commit to the embedded store may take before the server takes no
	// more; 0: the default of package pebblestore. The disk of a test is as slow as its machine.
	DiskStall time.Duration

	// MemoryLimit is the memory in bytes that the process may have, as LimitMemory
	// returns it. While it has more, the server refuses work. 0: there is no limit.
	MemoryLimit int64

	// Reload reads the configuration again, as it was read the first time. It is called when one
	// of its files has changed, and for each value of Hangups. nil: the server never reloads.
	Reload  func() (*config.Config, error)
	Hangups <-chan os.Signal
	Level   *slog.LevelVar // of Log; nil: log.level stays as it is
}

// App is one server.
type App struct {
	o     Options
	cfg   *config.Config
	log   *slog.Logger
	begun time.Time

	goodbye time.Duration // how long sayGoodbye waits; 0: goodbyeTime

	files     Files
	budgets   Budgets
	pressed   atomic.Bool // the process has more memory than Options.MemoryLimit
	store     storage
	node      node
	audit     *audit.Log
	table     *fanout.Table
	convs     *conv.Convs
	router    *route.Router
	users     *user.Users
	staff     *operator.Operators
	inboxes   *inbox.Consumers
	sync      *inbox.Syncer
	reads     *share.Queue
	calls     *share.Queue
	turns     share.Turns            // of work that computes for milliseconds
	pace      *rate.Pace[im.Account] // of calls
	stored    *rate.Bytes[im.Account]
	presence  *presence.Presence
	hub       *session.Hub
	api       *api.Server
	site      *web.Site    // nil: the web chat is not served
	operators *web.Console // the pages for operators; nil: there is no listen.admin
	gateway   *gateway.Gateway
	admin     *gateway.Admin // nil: there is none
	console   *console.Console

	maintenance *maintenance.Maintenance // nil: there are no other nodes

	live    atomic.Pointer[config.Config] // has the newest options that may change while the server runs
	reloads reloads

	certificate    atomic.Pointer[tls.Certificate] // nil: no TLS
	busCertificate atomic.Pointer[tls.Certificate] // nil: none is shown to other nodes
	jwtKey         []byte                          // content of jwt.key_file; after the start for reload only
	// busRoots are the certificates of cluster.bus_ca_file; nil: there is none. After the start only reload
	// uses them.
	busRoots    *x509.CertPool
	setBusRoots func(*x509.CertPool) error

	addresses *os.File // addressesFile, with a lock; nil: not yet written

	setup    string // the one-time code; empty: an admin key existed at the start
	redeemed atomic.Bool
	draining atomic.Bool
	refusing refusing
	away     atomic.Bool // an operator has drained the node
	cut      atomic.Bool // the node is apart or cut off, and has sent its clients away
	limitsMu sync.Mutex  // tier 2; one change of the limits at a time
}

// setupFile holds the setup link for the command line on the same machine.
const setupFile = "setup-link"

// New opens the store, binds the addresses and returns a server that
// does not run yet. Its errors say what the operator can do.
func New(ctx context.Context, cfg *config.Config, o Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Lines == nil {
		o.Lines = &console.Lines{}
		o.Log = slog.New(o.Lines.Keep(o.Log.Handler()))
	}
	a := &App{o: o, cfg: cfg, log: o.Log, begun: time.Now()}
	a.live.Store(cfg)
	a.reloads.read = stampAll(cfg.Files()) // now, so that changes while the store is opened are taken over too
	if err := a.open(ctx); err != nil {
		a.closeListeners()
		if a.store.Store != nil {
			err = errors.Join(err, a.store.Close())
		}
		return nil, err
	}
	return a, nil
}

func (a *App) open(ctx context.Context) error {
	if err := a.readCertificate(); err != nil {
		return err
	}
	if err := a.shareFiles(); err != nil { // before anything opens a file
		return err
	}
	a.budgets = ShareMemory(0, a.cfg)
	if short := a.budgets.Short(); short != "" {
		a.log.Warn("memory is short: " + short)
	}
	if err := a.probe(); err != nil {
		return err
	}
	if err := a.openStore(ctx); err != nil {
		return err
	}
	accounts, err := a.accounts()
	if err != nil {
		return err
	}
	if a.users, err = user.New(ctx, accounts, a.store.Store); err != nil {
		return err
	}
	a.staff = operator.New(operator.Options{Logins: accounts.Rates.Logins, LoginsPerIP: accounts.Rates.LoginsPerIP,
		Shared: a.shared()}, a.store.Store, a.users)
	a.table = fanout.NewTable()
	a.inboxes = &inbox.Consumers{Log: a.log, Store: a.store.Store}
	if err := a.openNode(ctx); err != nil {
		return err
	}
	a.openAudit()
	l := &a.cfg.Limits
	o := conv.Options{
		Log: a.log, LookUp: a.users.LookUp, FirstMessages: a.users.FirstMessagesOf,
		QueueBytes: int(l.ConvQueueBytes), InFlightBytes: int(a.budgets.Sends),
		MemoryBytes: int(a.budgets.Conversations),
		EditWindow:  orNone(a.cfg.Messages.EditWindow), RecallWindow: orNone(a.cfg.Messages.RecallWindow),
		Holder: a.node.holder(), Nodes: a.node.fan, Refused: a.noteSendRefused,
	}
	if a.convs, err = conv.New(ctx, o, a.store.Store, a.table); err != nil {
		return err
	}
	a.router = route.New(a.node.ways(route.Options{Log: a.log, AwaitInboxes: a.inboxes.Await,
		IsNamed: a.users.IsNamed, LookUps: a.users.TakeLookUps}), a.convs, a.store.Store)
	a.inboxes.Convs = a.convs
	a.convs.Follow(a.inboxes.Follow)
	info := a.store.Info()
	a.sync = &inbox.Syncer{Router: a.router, Store: a.store.Store, Refute: a.refute, Convs: a.convs,
		Profiles: a.users.VersionsOf}
	a.turns = newTurns()
	a.reads = session.NewReads(nil) // the databases compute
	if a.store.databases == nil {
		a.reads = session.NewReads(a.turns)
	}
	a.calls = session.NewCalls()
	a.pace = rate.NewPace[im.Account](int(l.CallsPerS), 3*int(l.CallsPerS))
	a.stored = rate.NewBytes[im.Account](l.StoredPerS, l.StoredBurst).Within(l.TenantStoredPerS, im.Account.OfTenant)
	a.hub = session.New(session.Options{
		IDs: a.convs.IDs(),
		Log: a.log, Version: a.o.Version, HistoryID: info.HistoryID, Heartbeat: a.cfg.Heartbeat.Silence,
		Misses:   int(a.cfg.Heartbeat.Misses),
		Gateways: a.gateways, Reads: a.reads, Calls: a.calls, Pace: a.pace, Stored: a.stored, Refused: a.noteRefusal,
		Pressed: a.pressed.Load,
	}, a.users, a.convs, a.router, a.sync, a.table, limits(l, &a.files))
	a.hub.Attach(a.node.bus)
	a.presence = presence.New(presence.Options{
		Log: a.log, Store: a.store.Store, IDs: a.convs.IDs(), Table: a.table, Nodes: a.node.fan,
		Facts: a.users.Facts, Knows: a.users.Acquaintances, HaveAsContact: a.users.HaveAsContact,
	})
	a.hub.AttachPresence(a.presence)
	// no feed is followed before Run
	a.inboxes.Hooks = inbox.Hooks{Blocked: a.presence.BlockChanged, Wrote: a.presence.Wrote,
		Contact: a.presence.ContactChanged, LastSeen: a.presence.LastSeen}
	if a.node.streams != nil {
		a.hub.AttachStreams(a.node.streams, a.node.others)
	}
	a.console = a.newConsole()
	if a.node.cluster != nil {
		a.maintenance = maintenance.New(maintenance.Options{
			Log: a.log, Cluster: a.node.cluster, Bus: a.node.bus, Databases: a.store.databases, Drain: a.drainHere,
			Resume: a.resumeHere,
		})
	}
	a.setup, err = a.staff.OpenSetup(ctx)
	if e, ok := errors.AsType[*im.Error](err); ok { // the store takes no writes now, and /readyz says so
		a.log.Warn("no setup link was made: restart the server when the store takes writes", "err", e)
	} else if err != nil {
		return err
	}
	a.api = a.newAPI()
	a.hub.AttachCalls(a.api.Call)
	if a.site, err = a.webChat(); err != nil {
		return err
	}
	if a.cfg.Listen.Admin != "" {
		if a.operators, err = web.NewConsole(); err != nil {
			return err
		}
	}
	if err := a.listen(); err != nil {
		return err
	}
	return errors.Join(a.writeSetupLink(), a.writeAddresses())
}

// probe refuses a start on an address in use, if there is no data folder yet: so the refused start makes no
// store.
func (a *App) probe() error {
	if _, err := os.Stat(a.cfg.Store.Dir); !errors.Is(err, fs.ErrNotExist) {
		return nil // a server may run on this folder: then openStore fails, and its error says more
	}
	l := &a.cfg.Listen
	if err := gateway.Probe(l.HTTP, "--listen-http"); err != nil {
		return err
	}
	if slices.Contains(a.cfg.Cluster.Roles, "gateway") {
		if err := gateway.Probe(l.TCP, "--listen-tcp"); err != nil {
			return err
		}
	}
	return gateway.Probe(l.Admin, "--listen-admin")
}

// listen binds the addresses.
func (a *App) listen() (err error) {
	l := &a.cfg.Limits
	a.gateway, err = gateway.New(gateway.Options{
		HTTPAddr: a.cfg.Listen.HTTP, HTTPOnly: !a.node.has(cluster.Gateway), TCPAddr: a.tcpAddr(), TLS: a.tls(),
		Handler: a.publicHandler(),
		Names:   a.access(a.cfg), ExposedHeaders: api.ExposedHeaders(), ProxyHeader: a.cfg.Listen.ProxyHeader,
		ProxyProtocol: a.cfg.Listen.ProxyProtocol,
		Heartbeat:     a.cfg.Heartbeat.Silence, Misses: int(a.cfg.Heartbeat.Misses), HelloTimeout: l.HelloTimeout,
		WriteStall: l.SlowTimeout, Pressed: a.pressed.Load,
		MaxUpgrades: a.files.HandOvers, MaxHTTP: min(a.files.HTTP, a.budgets.HTTP()), MaxRefusals: a.files.Refusals,
		Log: a.log,
	}, a.hub)
	if err != nil || a.cfg.Listen.Admin == "" {
		return err
	}
	a.admin, err = gateway.NewAdmin(gateway.AdminOptions{
		Addr: a.cfg.Listen.Admin, TLS: a.tls(), Handler: a.adminHandler(), Access: a.gateway.Access,
		MaxHTTP: a.files.Admin, Log: a.log,
	})
	return err
}

func (a *App) closeListeners() {
	if a.gateway != nil {
		a.gateway.Close()
	}
	if a.admin != nil {
		a.admin.Close()
	}
}

// tcpAddr returns the address for clients by TCP; empty: there is none.
func (a *App) tcpAddr() string {
	if !a.node.has(cluster.Gateway) {
		return ""
	}
	return a.cfg.Listen.TCP
}

// orNone turns 0, which means none in the configuration, into -1, which
// means none in the Options of other packages.
func orNone[T ~int64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

// HTTPAddr returns the bound address of the HTTP listener; nil: none.
func (a *App) HTTPAddr() net.Addr { return a.gateway.HTTPAddr() }

// TCPAddr returns the bound address of the TCP protocol; nil: none.
func (a *App) TCPAddr() net.Addr { return a.gateway.TCPAddr() }

// AdminAddr returns the bound address for operators; nil: none.
func (a *App) AdminAddr() net.Addr {
	if a.admin == nil {
		return nil
	}
	return a.admin.Addr()
}

// SetupLink returns the link that makes the first admin key. It is empty if there is an admin key, if no code
// could be made, or without a listener for operators.
func (a *App) SetupLink() string {
	if a.setup == "" || a.redeemed.Load() || a.admin == nil {
		return ""
	}
	return a.adminURL() + "/setup#k=" + a.setup
}

func (a *App) writeSetupLink() error {
	path := filepath.Join(a.cfg.Store.Dir, setupFile)
	link := a.SetupLink()
	// An existing file may be readable for others, and would stay readable.
	if err := removeFile(path); err != nil || link == "" {
		return err
	}
	return newFile(path, link)
}

// newFile writes a line into a new file, which only the user of the server can read. It never writes
// into an existing file or link: in a folder that others can write to, its owner could read the line.
func newFile(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// addressesFile has the addresses of the server of the data folder, for the command line on the same machine:
// flags may have given the server other addresses than the configuration that a command reads. After a kill the
// file stays until the next start. A running server holds a lock on it, so a command can tell the two apart.
const addressesFile = "addresses"

func (a *App) writeAddresses() error {
	var all struct {
		HTTP  string `json:"http,omitempty"`
		Admin string `json:"admin,omitempty"`
	}
	if a.HTTPAddr() != nil {
		all.HTTP = a.httpURL()
	}
	if a.admin != nil {
		all.Admin = a.adminURL()
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	path := filepath.Join(a.cfg.Store.Dir, addressesFile)
	begun := path + ".new"
	if err := removeFile(begun); err != nil { // one that is there may be readable for others
		return err
	}
	if err := newFile(begun, string(b)); err != nil {
		return err
	}
	if a.addresses, err = os.Open(begun); err != nil {
		return err
	}
	if err := syscall.Flock(int(a.addresses.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		a.log.Warn("no file in the data folder can be locked: commands go by the addresses of the configuration", "err",
			err)
		return errors.Join(removeFile(begun), removeFile(path))
	}
	return os.Rename(begun, path)
}

// removeAddresses removes the file of writeAddresses.
func (a *App) removeAddresses() error {
	err := removeFile(filepath.Join(a.cfg.Store.Dir, addressesFile))
	if a.addresses != nil {
		err = errors.Join(err, a.addresses.Close())
	}
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Run serves until ctx ends, and then drains: it hands the feeds to the other nodes, waits
// until sends in flight are answered, tells the clients to come back, and closes the store.
// If the store fails, Run tells the clients and returns an error; the process must exit then.
func (a *App) Run(ctx context.Context) error {
	r := newRunning(ctx)
	defer r.stopAll()
	r.start(r.below, "bus", a.node.bus.Run)
	r.start(r.below, "audit log", a.audit.Run)
	if err := a.joinNodes(ctx, r); err != nil {
		r.end()
		return errors.Join(err, a.store.Close())
	}
	r.start(r.work, "conversations", a.convs.Run)
	r.start(r.work, "sends to other nodes", a.router.Run)
	r.start(r.work, "sessions", a.hub.Run)
	r.start(r.work, "presence", a.presence.Run)
	r.start(r.work, "api", a.api.Run)
	r.start(r.work, "memory", giveBack)
	if a.o.MemoryLimit > 0 {
		r.start(r.work, "memory limit", a.watchMemory)
	}
	if a.admin != nil {
		r.start(r.work, "operators", a.admin.Run) // runs until the end: it shows the drain
	}
	if a.o.Reload != nil {
		r.start(r.serve, "configuration", a.watchConfiguration)
	}
	served := make(chan struct{})
	r.start(r.serve, "gateway", func(ctx context.Context) error {
		defer close(served)
		return a.gateway.Run(ctx)
	})
	r.start(r.work, "watch of commits", a.watchCommits)
	r.start(r.work, "samples", a.console.Run)
	r.start(r.work, "totals", a.console.CountTotals)
	r.start(r.serve, "announcement", a.announceWhenReady)
	select {
	case <-ctx.Done():
	case <-a.store.Failed():
		a.sayGoodbye(r.stopServing, served)
		return a.storeFailed()
	case err := <-r.failed:
		select {
		case <-a.store.Failed():
			a.sayGoodbye(r.stopServing, served)
			return a.storeFailed()
		default:
		}
		r.end()
		return errors.Join(err, a.store.Close())
	}
	inFlight, err := a.drain(r.stopServing, served)
	r.endWork()
	a.audit.Note(&audit.Record{Event: "stop"})
	a.leaveNodes()
	r.end()
	select {
	case <-a.store.Failed():
		return a.storeFailed()
	default:
	}
	err = errors.Join(err, a.store.Close(), removeFile(filepath.Join(a.cfg.Store.Dir, setupFile)), a.removeAddresses())
	a.farewell(inFlight, err)
	return err
}

// running has the goroutines of the server in three groups: the gateway, which ends first; the
// work of the server; and below it the bus and its streams, which the end of the work still needs.
type running struct {
	serve, work, below                 context.Context
	stopServing, stopWorking, stopDown context.CancelFunc
	working, others                    sync.WaitGroup
	failed                             chan error // the first errors
}

func newRunning(ctx context.Context) *running {
	r := &running{failed: make(chan error, 16)}
	r.below, r.stopDown = context.WithCancel(context.WithoutCancel(ctx))
	r.work, r.stopWorking = context.WithCancel(r.below)
	r.serve, r.stopServing = context.WithCancel(r.work)
	return r
}

func (r *running) start(ctx context.Context, what string, run func(context.Context) error) {
	wg := &r.working
	if ctx == r.below {
		wg = &r.others
	}
	wg.Go(func() {
		if err := run(ctx); err != nil {
			select {
			case r.failed <- fmt.Errorf("%s: %w", what, err):
			default:
			}
		}
	})
}

// endWork ends the gateway and the work, and waits for them.
func (r *running) endWork() {
	r.stopWorking()
	r.working.Wait()
}

// end ends all, and waits.
func (r *running) end() {
	r.endWork()
	r.stopDown()
	r.others.Wait()
}

func (r *running) stopAll() {
	r.stopServing()
	r.stopWorking()
	r.stopDown()
}

// storeFailed returns the error of Run after the store has failed, with its remedy. The server
// answers no send any more: the outcome of waiting ones stays unknown to their senders.
func (a *App) storeFailed() error {
	err := a.store.Writable()
	if p, ok := errors.AsType[*pgstore.Problem](err); ok { // it says what to do
		return fmt.Errorf("serve %s: %w: %w", a.cfg.Store.Dir, store.ErrFailed, p)
	}
	fix := "restart to recover what is durable"
	switch {
	case errors.Is(err, store.ErrRewound):
		fix = "stop all nodes, put the newest state of the store back or run \"petrel repair --new-history\", and start again"
	case errors.Is(err, pebblestore.ErrFolderGone):
		fix = "put the folder back or mount its volume, and start again"
	}
	return fmt.Errorf("serve %s: %w; %s", a.cfg.Store.Dir, err, fix)
}

// waiting returns how many sends have no answer, on whichever node they are decided.
func (a *App) waiting() int { return a.convs.Waiting() + a.router.Carrying() }

// drain hands the feeds over, refuses new work, waits until sends in flight are answered, and
// ends the connections. It returns how many messages were in flight when it began to wait.
func (a *App) drain(stopServing func(), served <-chan struct{}) (inFlight int, err error) {
	a.draining.Store(true)
	begun := time.Now()
	// The new owners decide the sends that come meanwhile.
	a.giveAway()
	a.hub.Drain()
	inFlight = a.waiting()
	limit := time.After(max(a.cfg.Drain.Timeout-time.Since(begun), maintenance.AnswerTime))
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for a.waiting() > 0 && err == nil {
		select {
		case <-poll.C:
		case <-a.store.Failed():
			return inFlight, store.ErrFailed
		case <-limit:
			err = fmt.Errorf(
				"drain: %d messages were not stored within %s; their senders got no answer and will send them again",
				a.waiting(), a.cfg.Drain.Timeout)
		}
	}
	stopServing()
	<-served
	return inFlight, err
}

// newTurns leaves a core to the connections and the commits: the command serve
// sets GOMAXPROCS to one more than there are cores (docs/decisions/004).
func newTurns() share.Turns { return share.NewTurns(runtime.GOMAXPROCS(0) - 2) }
