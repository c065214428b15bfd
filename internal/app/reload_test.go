package app

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/errgroup"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// configured is a server with a configuration file and a certificate that change
// while it runs.
type configured struct {
	*server
	dir     string // of the files
	hangups chan os.Signal
	level   slog.LevelVar
}

// When certificates end, and tokens began.
var longAgo, farAway = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// certify writes the n-th certificate and its key.
func (c *configured) certify(n int64, ends time.Time) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(n), NotAfter: ends, DNSNames: []string{fmt.Sprintf("chat-%d.example.org", n)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	c.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
}

// write exchanges a file, as an editor does.
func (c *configured) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		c.t.Fatal(err)
	}
}

func (c *configured) configure(text string) {
	c.write("petrel.toml", fmt.Sprintf("[tls]\ncert_file = %q\nkey_file = %q\n%s", filepath.Join(c.dir, "cert.pem"), filepath.Join(c.dir, "key.pem"), text))
}

// startConfigured starts one with options, as they stand in its file; in them DIR is the
// folder of its files. meanwhile happens between the reading of them and Run.
func startConfigured(t *testing.T, options string, meanwhile ...func(*configured)) *configured {
	t.Helper()
	c := &configured{server: &server{t: t}, dir: t.TempDir(), hangups: make(chan os.Signal, 1)}
	c.certify(1, farAway)
	c.write("jwt.key", strings.Repeat("1", 32))
	c.configure(strings.ReplaceAll(options, "DIR", c.dir))
	read := func() (*config.Config, error) {
		return config.Load(config.Source{File: filepath.Join(c.dir, "petrel.toml"), Flags: map[string]string{
			"store.dir": filepath.Join(c.dir, "data"), "listen.http": "127.0.0.1:0", "listen.tcp": "127.0.0.1:0", "listen.admin": "127.0.0.1:0", "store.ballast": "0", "store.min_free": "0", "store.cache": "32MiB",
			"limits.connections_per_ip": "-1", "limits.new_connections_per_ip_per_s": "-1",
		}})
	}
	cfg, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if c.App, err = New(t.Context(), cfg, Options{
		DiskStall: eventually.Limit, Log: slog.New(slog.NewTextHandler(&c.logged, nil)), Banner: &c.banner, Version: "test", Reload: read, Hangups: c.hangups, Level: &c.level,
	}); err != nil {
		t.Fatal(err)
	}
	c.reloads.every = 10 * time.Millisecond
	for _, f := range meanwhile {
		f(c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	eventually.True(t, "the server announces itself", func() bool { return c.banner.String() != "" })
	return c
}

// serial is the number of the certificate that an address shows.
func (c *configured) serial(addr string) int64 {
	c.t.Helper()
	nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) // it is looked at
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = nc.Close() }() // nothing was sent
	return nc.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// sessions connects clients; each knows whether it is still connected.
func (c *configured) sessions(n int) (alive func() int) {
	c.t.Helper()
	var all []*wiretest.Conn
	for i := range n {
		url := "wss://" + c.HTTPAddr().String()
		if i%2 == 1 {
			url = "tls://" + c.TCPAddr().String()
		}
		conn, err := wiretest.Dial(c.t.Context(), wiretest.Options{URL: url, Codec: wire.Proto, Token: c.token(im.User(fmt.Sprintf("user%d", i))), Device: "d", TLS: &tls.Config{InsecureSkipVerify: true}})
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = conn.Close() })
		all = append(all, conn)
	}
	return func() (n int) {
		for _, conn := range all {
			if _, err := conn.Sync(c.t.Context(), nil); err == nil {
				n++
			}
		}
		return n
	}
}

// A certificate that ends within days is an incident until another one takes its place.
func TestCertificateThatEndsSoonIsAnIncident(t *testing.T) {
	s := startConfigured(t, "")
	ends := s.begun.Add(5 * 24 * time.Hour)
	overview := func() *petrelv1.Overview { return s.console.Overview(t.Context(), &petrelv1.GetOverviewRequest{}) }
	find := func(list []*petrelv1.Incident) *petrelv1.Incident {
		i := slices.IndexFunc(list, func(x *petrelv1.Incident) bool { return x.Code == "certificate_ends" })
		if i < 0 {
			return nil
		}
		return list[i]
	}
	eventually.True(t, "a sample", func() bool { return s.console.Samples.Last() != nil })
	if x := find(overview().Incidents); x != nil {
		t.Errorf("a certificate that ends in 2100: %s", x.Text)
	}
	s.certify(2, ends)
	eventually.True(t, "the incident", func() bool { return find(overview().Incidents) != nil })
	x := find(overview().Incidents)
	if day := ends.UTC().Format(time.DateOnly); x.Severity != petrelv1.Verdict_VERDICT_DEGRADED || !slices.Equal(x.Details, []string{day}) || x.SinceMs == 0 {
		t.Errorf("got %v, want that it ends on %s", x, day)
	}
	s.certify(3, farAway)
	eventually.True(t, "the incident is over", func() bool { return find(overview().Incidents) == nil && find(overview().Past) != nil })
}

// A new certificate and other options are taken over while clients are connected;
// what is wrong changes nothing. PETREL_CLIENTS is how many there are.
func TestReloadEndsNoConnection(t *testing.T) {
	clients := 20
	if n, err := strconv.Atoi(os.Getenv("PETREL_CLIENTS")); err == nil {
		clients = n
	}
	s := startConfigured(t, "")
	alive := s.sessions(clients)
	done, refused := s.reloads.done.Load, s.reloads.refused.Load
	ours := func(host string) bool {
		r, err := http.NewRequest(http.MethodGet, "https://"+s.HTTPAddr().String()+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // only the status counts
		return res.StatusCode == http.StatusOK
	}
	if !ours("chat-1.example.org") || ours("chat-2.example.org") {
		t.Error("the names of the first certificate are not the server's")
	}

	s.certify(2, farAway) // one file after the other: for a moment they do not fit
	eventually.True(t, "the new certificate is shown", func() bool { return s.serial(s.HTTPAddr().String()) == 2 && s.serial(s.TCPAddr().String()) == 2 })
	eventually.True(t, "its names are the server's", func() bool { return ours("chat-2.example.org") && !ours("chat-1.example.org") })

	before := refused()
	for what, spoil := range map[string]func(){
		"a key that does not fit":       func() { s.write("key.pem", "no key") },
		"a certificate that has ended":  func() { s.certify(3, longAgo) },
		"an option that does not exist": func() { s.certify(2, farAway); s.configure("[listen]\norigin = \"x\"\n") },
		"a file that is gone": func() {
			if err := os.Remove(filepath.Join(s.dir, "petrel.toml")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		spoil()
		was := refused()
		s.hangups <- syscall.SIGHUP
		eventually.True(t, what+" is refused", func() bool { return refused() > was || s.serial(s.HTTPAddr().String()) != 2 })
		if got := s.serial(s.HTTPAddr().String()); got != 2 {
			t.Errorf("%s: the certificate %d is shown", what, got)
		}
		s.certify(2, farAway)
		s.configure("")
	}
	if refused() < before+4 {
		t.Errorf("%d reloads were refused, want 4", refused()-before)
	}

	was := done()
	s.configure("[listen]\norigins = [\"https://app.example.org\"]\nhosts = [\"*.example.net\"]\nback_ends = false\ntrusted_proxies = [\"192.0.2.0/24\"]\n[limits]\nsends_per_s = 7\nwindow_sends = 5\n" +
		"[log]\nlevel = \"warn\"\n[metrics]\ntoken = \"a token of operators\"\n[accounts]\nregistration = \"closed\"\n")
	s.hangups <- syscall.SIGHUP
	eventually.True(t, "the options are taken over", func() bool {
		return done() > was && s.level.Level() == slog.LevelWarn && s.hub.Limits().SendsPerSecond == 7 && strings.Contains(s.logged.String(), "accounts.registration")
	})
	if l := s.hub.Limits(); l.SendsPerSecond != 7 || l.WindowSends != 5 || l.ConnectionsPerUser != 10 {
		t.Errorf("limits %+v", l)
	}
	if !ours("x.example.net") || s.gateway.Access().Origins[0] != "https://app.example.org" {
		t.Error("names and origins are not taken over")
	}
	if p := s.gateway.Access().Proxies; len(p) != 1 || p[0].String() != "192.0.2.0/24" {
		t.Errorf("the trusted proxies are %v", p)
	}
	if status, _ := s.ask("GET", s.AdminAddr().String(), "/metrics", "", ""); status != http.StatusUnauthorized {
		t.Errorf("/metrics without the new token: %d", status)
	}
	if status, _ := s.ask("GET", s.AdminAddr().String(), "/metrics", "Bearer a token of operators", ""); status != http.StatusOK {
		t.Errorf("/metrics with the new token: %d", status)
	}
	if n := alive(); n != clients {
		t.Errorf("%d of %d connections are left", n, clients)
	}
}

// Another key of the identity provider counts from then on, and the former one no longer.
// One that is none changes nothing.
func TestReloadTakesTheKeyOfTheProvider(t *testing.T) {
	s := startConfigured(t, "[jwt]\nkey_file = \"DIR/jwt.key\"\nalgorithm = \"HS256\"\nissuer = \"i\"\naudience = \"a\"\n[accounts]\nlogins_per_min = -1\n")
	holds := func(key string) bool {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "i", "aud": "a", "sub": "alice", "iat": longAgo.Unix(), "exp": eventually.Deadline().Unix()}).SignedString([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.users.Exchange(t.Context(), "", token, user.DeviceRef{ID: "d", Kind: "web"}, false)
		return err == nil
	}
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	if !holds(first) || holds(second) {
		t.Fatal("the first key is not in use")
	}
	s.write("jwt.key", second)
	eventually.True(t, "the second key is in use", func() bool { return holds(second) })
	if holds(first) {
		t.Error("the first key is worth something still")
	}
	was := s.reloads.refused.Load()
	s.write("jwt.key", "short")
	eventually.True(t, "a key that is none is refused", func() bool { return s.reloads.refused.Load() > was })
	if !holds(second) {
		t.Error("a key that is none has ended the one in use")
	}
}

// Both ends of a connection between nodes show the certificate that was read last.
func TestReloadTakesTheCertificateOfTheBus(t *testing.T) {
	c := &configured{server: &server{t: t}, dir: t.TempDir()}
	c.certify(1, farAway)
	cfg := load(t, filepath.Join(c.dir, "data"), "cluster.bus_cert_file", filepath.Join(c.dir, "cert.pem"), "cluster.bus_key_file", filepath.Join(c.dir, "key.pem"))
	if got := cfg.Files(); len(got) != 2 {
		t.Errorf("the server looks at %v, want the certificate of the bus and its key", got)
	}
	a := &App{cfg: cfg}
	config, err := a.busTLS()
	if err != nil {
		t.Fatal(err)
	}
	config.InsecureSkipVerify, config.ClientAuth = true, tls.RequireAnyClientCert // they are looked at
	shown := func() (of [2]int64) {
		left, right := net.Pipe()
		ends := [2]*tls.Conn{tls.Client(left, config), tls.Server(right, config)}
		var handshake errgroup.Group
		for _, end := range ends {
			handshake.Go(func() error { return end.HandshakeContext(t.Context()) })
		}
		if err := handshake.Wait(); err != nil {
			t.Fatal(err)
		}
		for i, end := range ends {
			of[i] = end.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
		}
		return of
	}
	for n := int64(1); n <= 2; n++ {
		c.certify(n, farAway)
		f, err := a.readKeyFiles(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.takeKeyFiles(f); err != nil {
			t.Fatal(err)
		}
		if got := shown(); got != [2]int64{n, n} {
			t.Errorf("the ends show the certificates %v, want %d", got, n)
		}
	}
	c.certify(3, longAgo)
	if _, err := a.readKeyFiles(t.Context(), cfg); err == nil {
		t.Error("a certificate of the bus that has ended is taken over")
	}
}

// Other roots of the bus are taken over once, and a file without any changes nothing.
func TestReloadTakesTheRootsOfTheBus(t *testing.T) {
	c := &configured{server: &server{t: t}, dir: t.TempDir()}
	c.certify(1, farAway)
	cfg := load(t, filepath.Join(c.dir, "data"), "cluster.bus_ca_file", filepath.Join(c.dir, "cert.pem"))
	if got := cfg.Files(); len(got) != 1 {
		t.Errorf("the server looks at %v, want the roots of the bus", got)
	}
	taken := 0
	a := &App{cfg: cfg, setBusRoots: func(*x509.CertPool) error { taken++; return nil }}
	if _, err := a.busTLS(); err != nil {
		t.Fatal(err)
	}
	reload := func() error {
		f, err := a.readKeyFiles(t.Context(), cfg)
		if err == nil {
			_, err = a.takeKeyFiles(f)
		}
		return err
	}
	for n, want := range []int{0, 1, 1} {
		if n == 1 {
			c.certify(2, farAway)
		}
		if err := reload(); err != nil || taken != want {
			t.Errorf("reload %d: %d times other roots, %v; want %d", n, taken, err, want)
		}
	}
	c.write("cert.pem", "no certificate")
	if err := reload(); err == nil || taken != 1 {
		t.Errorf("a file without a certificate: %v, %d times other roots", err, taken)
	}
}

// A value that an operator has set by the API stays when a certificate is renewed. A start
// may take long, and a change after the configuration was read counts.
func TestChangeDuringTheStartIsTakenOver(t *testing.T) {
	s := startConfigured(t, "", func(c *configured) { c.configure("[limits]\nsend_burst = 9\n") })
	eventually.True(t, "the configuration is taken over", func() bool { return s.hub.Limits().SendBurst == 9 })
}

func TestReloadKeepsTheLimitsOfTheAPI(t *testing.T) {
	s := startConfigured(t, "")
	s.changeLimits(&petrelv1.ServerLimits{SendsPerS: 3, SendBurst: 4})
	s.configure("[limits]\nsend_burst = 9\n")
	eventually.True(t, "the configuration is taken over", func() bool { return s.hub.Limits().SendBurst == 9 })
	if got := s.hub.Limits().SendsPerSecond; got != 3 {
		t.Errorf("sends_per_s is %d, want 3, as the API has set it", got)
	}
}

// An option that the reference says is reloaded is one that apply, or a reader of
// App.live, takes over.
func TestEveryLiveOptionIsTakenOver(t *testing.T) {
	read := map[string]bool{ // from App.live, and by access and reload
		"listen.back_ends": true, "listen.hosts": true, "listen.origins": true, "tls.cert_file": true, "tls.key_file": true, "listen.trusted_proxies": true, "cluster.bus_cert_file": true, "cluster.bus_key_file": true, "cluster.bus_ca_file": true, "jwt.key_file": true, "metrics.token": true, "log.level": true,
	}
	s := start(t, t.TempDir())
	names := []string{}
	flags := map[string]string{}
	for _, o := range config.Options() {
		if o.Live && !read[o.Name] {
			names = append(names, o.Name)
			flags[o.Name] = map[bool]string{true: "123456", false: "77"}[strings.HasSuffix(o.Allowed, `"1MiB"`)]
		}
	}
	flags["limits.body"] = "1KiB"
	c, err := config.Load(config.Source{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	before := *s.hub.Limits()
	s.apply(c, names)
	after := *s.hub.Limits()
	changed := 0
	for _, x := range [][2]int{
		{before.Connections, after.Connections}, {before.ConnectionsPerUser, after.ConnectionsPerUser}, {before.ConnectionsPerIP, after.ConnectionsPerIP},
		{before.NewPerIPPerSecond, after.NewPerIPPerSecond}, {before.Unauthenticated, after.Unauthenticated}, {before.UnauthenticatedPerIP, after.UnauthenticatedPerIP},
		{before.SendsPerSecond, after.SendsPerSecond}, {before.SendBurst, after.SendBurst}, {before.WindowSends, after.WindowSends}, {before.WindowBytes, after.WindowBytes}, {before.OutboxBytes, after.OutboxBytes},
	} {
		if x[0] != x[1] {
			changed++
		}
	}
	if changed != len(names) {
		t.Errorf("%d of %v are taken over", changed, names)
	}
}
