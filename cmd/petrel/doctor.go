package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/petrel-im/petrel/internal/app"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/proxycheck"
	"github.com/petrel-im/petrel/internal/regular"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/pgstore"
)

// verdict is the outcome of one check of the doctor.
type verdict struct {
	Check  string         `json:"check"`
	State  string         `json:"state"` // ok, warn, fail
	Found  string         `json:"found"`
	Fix    string         `json:"fix,omitempty"`
	Values map[string]any `json:"values,omitempty"`
}

// The states of a verdict.
const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

func newDoctor(c *cli) *cobra.Command {
	var verify bool
	var through string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this host is ready for the server",
		Long: "Checks the configuration, the limit of open files, whether the ports are free, the clock, and the disk of the data\n" +
			"folder: how much space is free, and how long an fdatasync takes, measured for a second. It changes nothing.\n" +
			"With store.postgres it asks the databases instead whether the server can use them.\n" +
			"With --verify it reads the whole embedded store, which must not be in use, and lists what is damaged.\n" +
			"With --through URL it looks only at the way of clients to a server, best from a host where clients are: the certificate,\n" +
			"and whether the proxies on the way pass on the host name, the address of the client, WebSocket, large calls and gRPC.",
		Example: "  petrel doctor\n  petrel doctor --data /srv/petrel --json\n  petrel doctor --verify --data /srv/petrel\n  petrel doctor --through https://chat.example.org",
		Args:    cobra.NoArgs,
		RunE: command(func(cmd *cobra.Command, _ []string) error {
			if through != "" {
				return c.doctorThrough(cmd.Context(), through)
			}
			conf, err := c.load(cmd)
			if err != nil {
				return err
			}
			vs := examine(cmd.Context(), conf)
			if verify {
				o := c.storeOptions(conf)
				o.Log = slog.New(slog.DiscardHandler) // the verdict has its findings
				vs = append(vs, checkStore(conf, o))
			}
			return c.pronounce(vs, "this host is not ready")
		}),
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "read the whole embedded store and list what is damaged")
	cmd.Flags().StringVar(&through, "through", "",
		"look at the way of clients to a server at this `URL`, and at nothing else")
	cmd.MarkFlagsMutuallyExclusive("verify", "through")
	addOptionFlags(cmd.Flags())
	return cmd
}

// pronounce prints verdicts. If one has the state fail, it returns the first such verdict as an error.
func (c *cli) pronounce(vs []verdict, failed string) error {
	if err := c.print(vs, func(w io.Writer) { writeVerdicts(w, vs) }); err != nil {
		return err
	}
	if i := slices.IndexFunc(vs, func(v verdict) bool { return v.State == stateFail }); i >= 0 {
		return &fault{exit: exitFailed, code: "doctor", what: failed + ": " + vs[i].Check, why: vs[i].Found,
			fix: vs[i].Fix}
	}
	return nil
}

// doctorThrough checks the path of clients to the server at a URL.
func (c *cli) doctorThrough(ctx context.Context, address string) error {
	findings, err := proxycheck.Examine(ctx, proxycheck.Options{URL: address})
	if err != nil {
		return usage(err.Error(), "name the address that clients have: --through https://chat.example.org")
	}
	vs := make([]verdict, 0, len(findings))
	for _, f := range findings {
		vs = append(vs, verdict{Check: f.Check, State: string(f.State), Found: f.Found, Fix: f.Fix})
	}
	return c.pronounce(vs, "clients meet a fault on the way to the server")
}

// checkStore reads the whole embedded store.
func checkStore(conf *config.Config, o pebblestore.Options) verdict {
	v := verdict{Check: "store", State: stateFail, Fix: "stop the server and run petrel repair --data " +
		conf.Store.Dir}
	if len(conf.Store.Postgres) > 0 {
		return verdict{Check: "store", State: stateWarn, Found: "the store is in PostgreSQL",
			Fix: "pg_amcheck reads a database"}
	}
	if _, err := os.Stat(conf.Store.Dir); err != nil {
		return verdict{Check: "store", State: stateWarn, Found: "there is none yet in " + conf.Store.Dir}
	}
	got, err := pebblestore.Examine(o)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return verdict{Check: "store", State: stateWarn, Found: "there is none yet in " + conf.Store.Dir}
	case err != nil:
		v.Found, v.Fix = err.Error(), "stop the server first; while it runs, /readyz names the damage that it has found"
	case got.Refused != nil:
		v.Found, v.Fix = got.Refused.Error(), ""
		if i := strings.LastIndex(v.Found, "; "); i >= 0 { // the remedy, see cannotServe
			v.Found, v.Fix = v.Found[:i], v.Found[i+2:]
		}
	case len(got.Damage) > 0:
		v.Found = strings.Join(got.Damage, "; ")
		v.Values = map[string]any{"damage": got.Damage}
	default:
		return verdict{Check: "store", State: stateOK, Found: fmt.Sprintf("%d tables with %d bytes were read",
			got.Tables, got.Bytes)}
	}
	return v
}

func writeVerdicts(w io.Writer, vs []verdict) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range vs {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", v.State, v.Check, v.Found)
		if v.Fix != "" {
			fmt.Fprintf(tw, "\t\tfix: %s\n", v.Fix)
		}
	}
	_ = tw.Flush() // to the terminal
}

func examine(ctx context.Context, conf *config.Config) []verdict {
	vs := []verdict{checkTransport(conf)}
	vs = append(vs, checkProxies(conf)...)
	vs = append(vs, checkFiles(conf), checkMemory(conf))
	vs = append(vs, checkPorts(ctx, conf)...)
	dir := existing(conf.Store.Dir)
	vs = append(vs, checkSpace(dir, conf))
	if len(conf.Store.Postgres) > 0 {
		vs = append(vs, checkDatabases(ctx, conf))
	} else {
		vs = append(vs, checkSync(ctx, dir))
	}
	return append(vs, checkClock())
}

// checkDatabases checks that a server could use the databases of store.postgres, and warns of an embedded store in the
// data folder.
func checkDatabases(ctx context.Context, conf *config.Config) verdict {
	err := pgstore.Check(ctx, pgstore.Options{DSNs: conf.Store.Postgres, RequireStandby: conf.Store.RequireStandby})
	if p, ok := errors.AsType[*pgstore.Problem](err); ok {
		found := p.What
		if p.Cause != nil {
			found += ": " + p.Cause.Error()
		}
		return verdict{Check: "databases", State: stateFail, Found: found, Fix: p.Fix}
	}
	if err != nil {
		return verdict{Check: "databases", State: stateFail, Found: err.Error()}
	}
	v := verdict{Check: "databases", State: stateOK, Found: fmt.Sprintf("%d in store.postgres can be used",
		len(conf.Store.Postgres))}
	if _, err := os.Stat(filepath.Join(conf.Store.Dir, "store")); err == nil {
		v.State, v.Found = stateWarn,
			v.Found+"; the embedded store in "+conf.Store.Dir+" is not used then, and no tool moves its messages into them"
		v.Fix = "choose a folder without a store (--data DIR), so that a server with that store can still use this one"
	}
	return v
}

func checkTransport(conf *config.Config) verdict {
	v := verdict{Check: "transport", State: stateOK}
	switch {
	case conf.TLS.On():
		v.Found = "TLS with " + conf.TLS.CertFile
		for _, name := range []string{conf.TLS.CertFile, conf.TLS.KeyFile} {
			if _, err := regular.Read(name); err != nil {
				v.State, v.Found, v.Fix = stateFail, err.Error(), "name a file that this user may read"
			}
		}
	case conf.Listen.InsecurePlaintext:
		v.State, v.Found, v.Fix = stateWarn,
			"listen.insecure_plaintext is set: tokens and messages cross the network unencrypted",
			"put a proxy that ends TLS in front of the server, or set tls.cert_file and tls.key_file"
	default:
		v.Found = "plaintext, reachable from this host only"
	}
	return v
}

// checkProxies checks the options for proxies. With listen.hosts and without TLS, clients come through a proxy.
func checkProxies(conf *config.Config) []verdict {
	switch {
	case len(conf.Listen.TrustedProxies) > 0 && knowsLoopbackOnly(conf):
		return []verdict{{
			Check: "proxy", State: stateWarn,
			Found: "listen.trusted_proxies is set, and listen.hosts is not: requests are refused unless they are for localhost",
			Fix:   "name in listen.hosts what clients use, like chat.example.org",
		}}
	case len(conf.Listen.TrustedProxies) > 0:
		return []verdict{{Check: "proxy", State: stateOK, Found: fmt.Sprintf("%v may name clients, in %s",
			conf.Listen.TrustedProxies, conf.Listen.ProxyHeader)}}
	case len(conf.Listen.Hosts) > 0 && !conf.TLS.On():
		return []verdict{{
			Check: "proxy", State: stateWarn,
			Found: "listen.hosts is set without TLS, and listen.trusted_proxies is not: all who come through a proxy have the limits of one IP address",
			Fix:   "name the proxy in listen.trusted_proxies, and have it set " + conf.Listen.ProxyHeader,
		}}
	}
	return nil
}

// knowsLoopbackOnly tells whether requests to listen.http may only name the loopback.
func knowsLoopbackOnly(conf *config.Config) bool {
	return conf.Listen.HTTP != "" && config.Loopback(conf.Listen.HTTP) && len(conf.Listen.Hosts) == 0 &&
		len(conf.Cluster.Addresses) == 0 && !conf.TLS.On()
}

func checkMemory(conf *config.Config) verdict {
	b := app.ShareMemory(0, conf)
	v := verdict{
		Check: "memory", State: stateOK,
		Found: fmt.Sprintf(
			"%s to reckon with: %s for the embedded store, %s for conversations, %s for sends, %s for calls and as much for their answers",
			config.FormatSize(b.Total), config.FormatSize(b.Store), config.FormatSize(b.Conversations),
			config.FormatSize(b.Sends), config.FormatSize(b.Calls)),
		Values: map[string]any{"total": b.Total, "store": b.Store, "conversations": b.Conversations, "sends": b.Sends,
			"calls": b.Calls},
	}
	if short := b.Short(); short != "" {
		v.State, v.Found, v.Fix = stateWarn, short, "give the server more memory, or lower what its options ask for"
	}
	return v
}

// wantFiles is the limit of open files below which the doctor warns: a connection takes one.
const wantFiles = 65536

func checkFiles(conf *config.Config) verdict {
	v := verdict{Check: "open files", State: stateOK}
	limit, err := openFiles()
	if err != nil {
		v.State, v.Found = stateWarn, "limit not known: "+err.Error()
		return v
	}
	v.Values = map[string]any{"limit": limit}
	files, err := app.ShareFiles(limit, conf)
	v.Found = fmt.Sprintf("limit %d: room for %d connections", limit, max(files.Connections, 0))
	switch {
	case err != nil: // with this limit the server does not start either
		v.State = stateFail
		_, v.Fix, _ = strings.Cut(err.Error(), "; ")
	case conf.Limits.Connections > int64(files.Connections):
		v.State = stateFail
		v.Found += fmt.Sprintf(", limits.connections is %d", conf.Limits.Connections)
		// the reserve grows with the limit
		want := 2 * (uint64(conf.Limits.Connections) + limit - uint64(files.Connections))
		v.Fix = fmt.Sprintf("ulimit -n %d, or LimitNOFILE= of the systemd unit", want)
	case limit < wantFiles:
		v.State = stateWarn
		v.Fix = "ulimit -n 1048576, or LimitNOFILE=1048576 of the systemd unit"
	}
	return v
}

// checkPorts checks the addresses of the configuration. While a server runs on the data folder, it checks the addresses
// in the file that the server wrote: flags may have given the server others.
func checkPorts(ctx context.Context, conf *config.Config) (vs []verdict) {
	listen := []struct{ name, addr string }{{"HTTP port", conf.Listen.HTTP}, {"TCP port", conf.Listen.TCP},
		{"admin port", conf.Listen.Admin}}
	if _, err := os.Stat(filepath.Join(conf.Store.Dir, addressesName)); err == nil {
		public, admin, gone, err := localURLs(conf)
		if err == nil && !gone {
			listen[0].addr, listen[2].addr = hostOf(public), hostOf(admin)
			if !isPetrel(listen[1].addr) {
				listen[1].addr = "" // the server may listen on another TCP port, which the file does not name
			}
		}
	}
	for _, l := range listen {
		if l.addr != "" {
			vs = append(vs, checkPort(ctx, conf, l.name, l.addr))
		}
	}
	return vs
}

// hostOf returns the host:port of a URL; "": it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func checkPort(ctx context.Context, conf *config.Config, name, addr string) verdict {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = l.Close() // nobody connected
		return verdict{Check: name, State: stateOK, Found: addr + " is free"}
	case isPetrel(addr):
		return verdict{Check: name, State: stateOK, Found: "a petrel is running on " + addr}
	}
	return verdict{Check: name, State: stateFail, Found: err.Error(),
		Fix: "stop the program that listens there, or choose another address"}
}

// isPetrel tells whether the listener on addr speaks our protocol, with TLS or without. It sends an HTTP request for
// /version. An HTTP port answers with the version (P-10.5). For a TCP port the request begins with an unknown first
// byte, so the answer is unknown_codec (P-1.3).
func isPetrel(addr string) bool {
	const limit = 2 * time.Second
	plain := net.Dialer{Timeout: limit}
	return answersAsPetrel(plain.Dial, addr, limit) ||
		// nolint:gosec // nothing secret is said, and the name of the certificate is not ours
		answersAsPetrel((&tls.Dialer{NetDialer: &plain, Config: &tls.Config{InsecureSkipVerify: true}}).Dial, addr,
			limit)
}

// answersAsPetrel is isPetrel for one way to connect.
func answersAsPetrel(dial func(network, addr string) (net.Conn, error), addr string, limit time.Duration) bool {
	conn, err := dial("tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit)) // without it the read below fails or waits for the other side
	if _, err := io.WriteString(conn, "GET /version HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	answer := make([]byte, 4<<10)
	n, _ := io.ReadFull(conn, answer) // as much as comes
	return bytes.Contains(answer[:n], []byte(`"protocol":`)) || bytes.Contains(answer[:n], []byte(im.CodeUnknownCodec))
}

// existing returns dir as an absolute path, or the nearest existing folder above it.
func existing(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "."
	}
	for {
		if i, err := os.Stat(dir); err == nil && i.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// wantInodes is the number of free inodes below which the check fails. With less than half of it the server
// refuses sends.
const wantInodes = 2000

func checkSpace(dir string, conf *config.Config) verdict {
	v := verdict{Check: "free space", State: stateOK}
	free, files, err := freeSpace(dir)
	if err != nil {
		v.State, v.Found = stateWarn, "not known: "+err.Error()
		return v
	}
	v.Values = map[string]any{"free_bytes": free}
	v.Found = fmt.Sprintf("%.1f GiB on the disk of %s", float64(free)/(1<<30), dir)
	if free < 1<<30 {
		v.Found = fmt.Sprintf("%d MiB on the disk of %s", free>>20, dir)
	}
	if len(conf.Store.Postgres) > 0 {
		return v // the databases have disks of their own
	}
	switch least := uint64(conf.Store.MinFreeBytes + conf.Store.BallastBytes); {
	case files < wantInodes:
		v.State, v.Found, v.Fix = stateFail, fmt.Sprintf("%d files can still be made on the disk of %s", files, dir),
			fmt.Sprintf("remove files, or make the file system with more inodes: the server wants %d", wantInodes)
	case free < least:
		v.State, v.Fix = stateFail, fmt.Sprintf("free at least %s, or lower store.min_free",
			config.FormatSize(int64(least)))
	case free < 4*least:
		v.State, v.Fix = stateWarn, fmt.Sprintf("with less than %s, the server refuses sends; free some space",
			config.FormatSize(conf.Store.MinFreeBytes))
	}
	return v
}

// The disk is measured for syncFor, but with at most maxSyncs writes, which are 16 MiB together: the doctor must not
// fill a fast, small disk on which a server may run.
const (
	syncFor  = time.Second
	maxSyncs = 4096
)

// slowSync is the p99 of an fdatasync above which acks feel slow.
const slowSync = 20 * time.Millisecond

// checkSync measures what every ack waits for: an fdatasync after 4 KiB were written at the end of a file.
func checkSync(ctx context.Context, dir string) verdict {
	v := verdict{Check: "disk sync", State: stateOK}
	fail := func(err error) verdict {
		v.State, v.Found, v.Fix = stateFail, err.Error(), diskFix(dir, err)
		return v
	}
	f, err := os.CreateTemp(dir, ".petrel-doctor-*")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	defer f.Close() // measured, not kept
	block := make([]byte, 4<<10)
	var took []time.Duration
	for end := time.Now().Add(syncFor); ctx.Err() == nil && len(took) < maxSyncs &&
		(len(took) == 0 || time.Now().Before(end)); {
		if _, err := f.Write(block); err != nil {
			return fail(err)
		}
		began := time.Now()
		if err := dataSync(f); err != nil {
			return fail(err)
		}
		took = append(took, time.Since(began))
	}
	if len(took) == 0 {
		return fail(ctx.Err())
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	v.Values = map[string]any{"p50_ms": ms(p50), "p99_ms": ms(p99), "samples": len(took)}
	v.Found = fmt.Sprintf("fdatasync p50 %.2f ms, p99 %.2f ms (%d samples)", ms(p50), ms(p99), len(took))
	if p99 > slowSync {
		v.State, v.Fix = stateWarn,
			"every ack waits for one fdatasync: use a local disk whose write cache survives power loss"
	}
	return v
}

// diskFix returns the remedy for an error of writing into dir.
func diskFix(dir string, err error) string {
	switch {
	case errors.Is(err, os.ErrPermission):
		return "run this as the user of the server, and give that user the folder and all that is in it (chown -R USER " + dir + "), or choose another one (--data DIR)"
	case errors.Is(err, syscall.ENOSPC):
		return "free some space there, or remove files if \"df -i\" shows that it is out of inodes"
	}
	return "choose a data folder on a disk that takes writes (--data DIR)"
}

func ms(d time.Duration) float64 { return math.Round(float64(d)/float64(time.Microsecond)) / 1000 }

// earliest is before every release: a clock that shows an earlier time was never set.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func checkClock() verdict {
	now := time.Now().UTC()
	v := verdict{Check: "clock", State: stateOK, Found: now.Format(time.RFC3339)}
	synced, known := clockSynced()
	switch {
	case now.Before(earliest):
		v.State, v.Fix = stateFail, "set the clock; messages carry the server's time"
	case known && !synced:
		v.State = stateWarn
		v.Found += ", not synchronised"
		v.Fix = "run an NTP client; messages carry the server's time, although they are not ordered by it"
	case known:
		v.Found += ", synchronised"
	}
	return v
}
