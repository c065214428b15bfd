package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/gateway"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/metrics"
	"github.com/petrel-im/petrel/internal/regular"
)

// lookEvery is the interval at which the files of the configuration are checked.
// They are polled: a watch of a file name does not notice when a link on its
// path gets another target, and certificates are often replaced in this way.
const lookEvery = 2 * time.Second

// reloads count the outcomes of changes of the configuration.
type reloads struct {
	done, refused atomic.Uint64
	every         time.Duration // 0: lookEvery; tests set it
	read          []stamp       // of the files of the configuration, when App began with it
}

// stamp is what the file system says about a file. While it stays the same, the content counts as unchanged.
type stamp struct {
	bytes    int64
	modified time.Time
	file     os.FileInfo // which file stands under the name; nil: none
}

func stampOf(name string) stamp {
	i, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{i.Size(), i.ModTime(), i}
}

func (s stamp) same(o stamp) bool {
	if s.file == nil || o.file == nil {
		return s.file == nil && o.file == nil
	}
	return s.bytes == o.bytes && s.modified.Equal(o.modified) && os.SameFile(s.file, o.file)
}

// watchConfiguration reloads the configuration when one of its files has changed, and at a signal.
//
// A file may be half written, and a certificate comes before its key. So a change counts when all files look
// the same for a whole lookEvery. After an error the server reads them again only at the next change or signal.
func (a *App) watchConfiguration(ctx context.Context) error {
	look := time.NewTicker(cmp.Or(a.reloads.every, lookEvery))
	defer look.Stop()
	names := a.live.Load().Files()
	taken := a.reloads.read
	last := taken
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.o.Hangups:
			taken = stampAll(names)
			a.reload(ctx)
		case <-look.C:
			now := stampAll(names)
			settled := slices.EqualFunc(now, last, stamp.same)
			last = now
			if !settled || slices.EqualFunc(now, taken, stamp.same) {
				continue
			}
			taken = now
			a.reload(ctx)
		}
		if files := a.live.Load().Files(); !slices.Equal(files, names) {
			names = files
			taken = stampAll(names)
		}
		last = taken
	}
}

func stampAll(names []string) []stamp {
	all := make([]stamp, len(names))
	for i, name := range names {
		all[i] = stampOf(name)
	}
	return all
}

// reload reads the configuration again and applies the options that can change while the server runs: all of
// them, or, on any error, none.
func (a *App) reload(ctx context.Context) {
	before := a.live.Load()
	c, err := a.o.Reload()
	var f *keyFiles
	var waiting, files []string
	if err == nil {
		waiting = leaveSwitched(c, before)
		f, err = a.readKeyFiles(ctx, c)
	}
	if err == nil {
		files, err = a.takeKeyFiles(f)
	}
	if err != nil {
		a.reloads.refused.Add(1)
		a.audit.Note(&audit.Record{Event: "reload", Code: im.CodeInvalid})
		a.log.Error("configuration is not taken over: the server goes on with the one that it has", "err", err)
		return
	}
	changed, restart := c.Differences(before)
	waiting = append(waiting, restart...)
	changed = append(append([]string{}, changed...), files...) // not nil: the log shows an empty list, not null
	a.live.Store(c)
	a.apply(c, changed)
	if len(waiting) > 0 {
		a.log.Warn("options have changed that wait for a restart", "options", waiting)
	}
	a.audit.Note(&audit.Record{Event: "reload",
		Details: []audit.Detail{{Name: "changed", Value: strings.Join(changed, ",")}}})
	a.log.Info("configuration is taken over", "changed", changed)
	a.reloads.done.Add(1)
}

// leaveSwitched keeps the former files in c where the new ones would turn a
// feature on or off, which needs a restart. It returns the names of these options.
func leaveSwitched(c, before *config.Config) (waiting []string) {
	if c.TLS.On() != before.TLS.On() {
		waiting = append(waiting, "tls.cert_file", "tls.key_file")
		c.TLS = before.TLS
	}
	is, was := &c.Cluster, &before.Cluster
	if (is.CertFile == "") != (was.CertFile == "") {
		waiting = append(waiting, "cluster.bus_cert_file", "cluster.bus_key_file")
		is.CertFile, is.KeyFile = was.CertFile, was.KeyFile
	}
	if (is.CAFile == "") != (was.CAFile == "") {
		waiting = append(waiting, "cluster.bus_ca_file")
		is.CAFile = was.CAFile
	}
	if (c.JWT.KeyFile == "") != (before.JWT.KeyFile == "") {
		waiting = append(waiting, "jwt.key_file")
		c.JWT.KeyFile = before.JWT.KeyFile
	}
	return waiting
}

// keyFiles are the files of certificates and keys that a running server reads again.
type keyFiles struct {
	cert, busCert *tls.Certificate // nil: there is none
	busRoots      *x509.CertPool   // nil: they are as before
	jwtKey        []byte           // nil: it is as before
	useJWTKey     func()
}

// readKeyFiles reads the files that c names. It refuses files that would break a working server.
func (a *App) readKeyFiles(ctx context.Context, c *config.Config) (f *keyFiles, err error) {
	f = &keyFiles{}
	if c.TLS.On() {
		if f.cert, err = a.renewal(c.TLS.CertFile, c.TLS.KeyFile, "tls.cert_file and tls.key_file",
			&a.certificate); err != nil {
			return nil, err
		}
	}
	if c.Cluster.CertFile != "" && a.busCertificate.Load() != nil {
		if f.busCert, err = a.renewal(c.Cluster.CertFile, c.Cluster.KeyFile,
			"cluster.bus_cert_file and cluster.bus_key_file", &a.busCertificate); err != nil {
			return nil, err
		}
	}
	if c.Cluster.CAFile != "" && a.busRoots != nil {
		roots, err := readRoots(c.Cluster.CAFile)
		if err != nil {
			return nil, err
		}
		if !roots.Equal(a.busRoots) {
			f.busRoots = roots
		}
	}
	if c.JWT.KeyFile == "" {
		return f, nil
	}
	key, err := regular.Read(c.JWT.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read jwt.key_file: %w", err)
	}
	if !bytes.Equal(key, a.jwtKey) {
		f.jwtKey = key
		if f.useJWTKey, err = a.users.NewJWTKey(ctx, key); err != nil {
			return nil, fmt.Errorf("read jwt.key_file: %w", err)
		}
	}
	return f, nil
}

// renewal returns the certificate in the files, unless it has ended and the one in use has not.
func (a *App) renewal(certFile, keyFile, options string,
	inUse *atomic.Pointer[tls.Certificate]) (*tls.Certificate, error) {
	cert, err := loadCertificate(certFile, keyFile, options)
	if err == nil && time.Now().After(cert.Leaf.NotAfter) && time.Now().Before(inUse.Load().Leaf.NotAfter) {
		err = fmt.Errorf("the certificate in %s ended at %s", certFile, cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return cert, err
}

// takeKeyFiles applies the new files, and returns what has changed. On an error it applies none.
func (a *App) takeKeyFiles(f *keyFiles) (changed []string, err error) {
	if f.busRoots != nil { // first: only this can fail
		if err := a.setBusRoots(f.busRoots); err != nil {
			return nil, err
		}
		a.busRoots = f.busRoots
		changed = append(changed, "root certificates of the bus")
	}
	for _, k := range []struct {
		what  string
		cert  *tls.Certificate
		inUse *atomic.Pointer[tls.Certificate]
	}{{"certificate", f.cert, &a.certificate}, {"certificate of the bus", f.busCert, &a.busCertificate}} {
		if k.cert == nil {
			continue
		}
		if !slices.EqualFunc(k.cert.Certificate, k.inUse.Load().Certificate, slices.Equal) {
			changed = append(changed, k.what+" until "+k.cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		k.inUse.Store(k.cert)
	}
	if f.jwtKey != nil {
		a.jwtKey = f.jwtKey
		f.useJWTKey()
		changed = append(changed, "key for JWTs")
	}
	return changed, nil
}

// apply applies the changed options. The others are read at their use, from a.live.
func (a *App) apply(c *config.Config, changed []string) {
	a.gateway.SetAccess(a.access(c))
	if a.o.Level != nil && slices.Contains(changed, "log.level") {
		_ = a.o.Level.UnmarshalText([]byte(c.Log.Level)) // the configuration was checked
	}
	// A limit that an operator has set by the API stays, unless the configuration has changed that very
	// limit.
	now := limits(&c.Limits, &a.files)
	m := toMessage(&now)
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		name := "limits." + strings.TrimSuffix(string(f.Name()), "_bytes")
		if f.Name() == "window_bytes" {
			name = "limits.window_bytes"
		}
		if !slices.Contains(changed, name) {
			m.ProtoReflect().Clear(f)
		}
		return true
	})
	a.changeLimits(m)
}

// readCertificate reads the certificate at the start.
func (a *App) readCertificate() error {
	if !a.cfg.TLS.On() {
		return nil
	}
	cert, err := loadCertificate(a.cfg.TLS.CertFile, a.cfg.TLS.KeyFile, "tls.cert_file and tls.key_file")
	if err != nil {
		return err
	}
	if time.Now().After(cert.Leaf.NotAfter) {
		a.log.Warn("the certificate has ended: clients refuse it", "err",
			fmt.Sprintf("%s ended at %s", a.cfg.TLS.CertFile, cert.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	}
	a.certificate.Store(cert)
	return nil
}

// loadCertificate reads a certificate and its key. options names the options with these files, for errors.
func loadCertificate(certFile, keyFile, options string) (*tls.Certificate, error) {
	chain, err := regular.Read(certFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", options, err)
	}
	key, err := regular.Read(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", options, err)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", options, err)
	}
	if cert.Leaf == nil {
		if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return nil, fmt.Errorf("read %s: %w", options, err)
		}
	}
	return &cert, nil
}

// tls returns the TLS configuration of the listeners; nil: they have none.
func (a *App) tls() *tls.Config {
	if a.certificate.Load() == nil {
		return nil
	}
	return gateway.TLSConfig(a.certificate.Load)
}

// access returns under which names, from which pages and through which proxies clients
// may come. The server knows its names in the certificate and in cluster.addresses.
func (a *App) access(c *config.Config) gateway.Access {
	hosts := slices.Clone(c.Listen.Hosts)
	for _, address := range c.Cluster.Addresses {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	if cert := a.certificate.Load(); cert != nil {
		hosts = append(hosts, cert.Leaf.DNSNames...)
	}
	return gateway.Access{Hosts: hosts, Origins: c.Listen.Origins, Proxies: c.Listen.TrustedProxies}
}

// reloadValues returns the figures of the configuration.
func (a *App) reloadValues() []metrics.Value {
	all := []metrics.Value{
		{Name: "petrel_reloads_total", Help: "Times that the configuration was read again and taken over.",
			Counter: true, Read: func() float64 { return float64(a.reloads.done.Load()) }},
		{Name: "petrel_reloads_refused_total",
			Help:    "Times that the configuration was read again and not taken over, because something in it is wrong.",
			Counter: true, Read: func() float64 { return float64(a.reloads.refused.Load()) }},
	}
	if a.certificate.Load() != nil {
		all = append(all, metrics.Value{Name: "petrel_certificate_end_time_seconds",
			Help: "When the certificate of tls.cert_file ends, Unix time.",
			Read: func() float64 { return float64(a.certificate.Load().Leaf.NotAfter.Unix()) }})
	}
	return all
}
