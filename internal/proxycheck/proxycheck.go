// Package proxycheck checks from outside how clients reach a server: the certificate, the proxies on the way, and
// how these change requests. It logs nobody in and changes nothing.
//
// checks.go has the order of the checks, certificatecheck.go those of TLS, httpchecks.go those of HTTP and
// websocketcheck.go that of the handshake.
package proxycheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// State says how a check has ended.
type State string

// The states of a finding.
const (
	OK   State = "ok"
	Warn State = "warn" // clients connect, but something should be better
	Fail State = "fail" // something does not work for clients, or is open to strangers
)

// Finding is the outcome of one check.
type Finding struct {
	Check string
	State State
	Found string
	Fix   string // what to do about it; "": nothing
}

// Options say where the server is.
type Options struct {
	// URL is the address that clients use, such as https://chat.example.org. It has no path.
	URL string
	// Dial connects to host:port; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Roots are the certificates that clients trust; nil: those of this host.
	Roots *x509.CertPool
	// Now is the clock that certificates are judged by; nil: time.Now.
	Now func() time.Time
}

// patience bounds each request, and each handshake.
const patience = 10 * time.Second

// visit is one examination of a server.
type visit struct {
	o     Options
	base  *url.URL
	http  *http.Client // speaks HTTP/2 if the other side does
	http1 *http.Client // speaks HTTP/1.1 only, as WebSocket does
	local string       // IP address of our end of the first connection
	found []Finding
}

// Examine runs the checks in order. A check that fails may end the run: without a connection there is only one
// finding. The error is about the URL.
func Examine(ctx context.Context, o Options) ([]Finding, error) {
	base, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &visit{o: o, base: base}
	v.http, v.http1 = v.client(true), v.client(false)
	defer v.http.CloseIdleConnections()
	defer v.http1.CloseIdleConnections()
	v.examine(ctx)
	return v.found, nil
}

// parse parses the URL of a server.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the URL %q: %w", text, err)
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return nil, fmt.Errorf("the URL %q is not one like https://chat.example.org", text)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("the URL %q has more than a host: a server is at the root of one", text)
	}
	u.Path = ""
	return u, nil
}

// client makes a client that trusts every certificate. checkCertificate judges the certificate; the other checks
// send no secret, and go on with a bad one.
func (v *visit) client(http2 bool) *http.Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	return &http.Client{ // no Timeout: with one, the body of a WebSocket response cannot be written to
		Transport: &http.Transport{
			DialContext: v.o.Dial, Protocols: protocols, ExpectContinueTimeout: time.Second, DisableCompression: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see the comment
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// note adds a finding.
func (v *visit) note(check string, s State, fix, format string, args ...any) {
	v.found = append(v.found, Finding{Check: check, State: s, Found: fmt.Sprintf(format, args...), Fix: fix})
}

// addr returns host:port of the server.
func (v *visit) addr() string {
	port := v.base.Port()
	if port == "" {
		port = v.base.Scheme // a dialer knows both as services
	}
	return net.JoinHostPort(v.base.Hostname(), port)
}
