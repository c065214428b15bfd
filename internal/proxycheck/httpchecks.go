package proxycheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
)

// forged is an address that nobody has (RFC 5737). Requests claim it in the headers of proxies.
const forged = "203.0.113.253"

// largest is the size of the largest request of the API, in bytes, as gRPC frames it.
const largest = 1<<20 + 5

// recipes says where the guide has files for proxies.
const recipes = "docs/guide/proxies.md has whole files for nginx, HAProxy and Caddy"

// answered is the answer to a request.
type answered struct {
	status int
	proto  int // major version of HTTP
	header http.Header
	body   []byte // its first 64 KiB
	code   im.Code
	text   string // of the error of Petrel
}

// from returns the status of the answer, and the name of the server from the header Server if there is one.
func (a *answered) from() string {
	if s := a.header.Get("Server"); s != "" {
		return fmt.Sprintf("%d by %q", a.status, s)
	}
	return fmt.Sprint(a.status)
}

// ask makes a request and returns the answer.
func (v *visit) ask(ctx context.Context, method, path string, h http.Header, body io.Reader) (*answered, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, v.base.String()+path, body)
	if err != nil {
		return nil, err
	}
	q.Header = h
	res, err := v.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // the needed part was read
	return read(res)
}

// read reads the first 64 KiB of an answer, and the code and text of an error of Petrel in it.
func read(res *http.Response) (*answered, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	a := &answered{status: res.StatusCode, proto: res.ProtoMajor, header: res.Header, body: body,
		code: im.Code(res.Header.Get("Petrel-Error"))}
	var e struct{ Code, PetrelCode, Message string }
	if json.Unmarshal(body, &e) == nil && e.Code != "" {
		a.text = e.Message
		if a.code == "" {
			a.code = im.Code(e.Code)
		}
	}
	return a, nil
}

// seen is the answer of a server to a request for its version.
type seen struct {
	Version  string
	Protocol map[string]int
	Client   string // IP address under which the server sees the client
	Host     string // the Host header of the request
}

// version asks the server for its version and for how it sees this client. It reports whether the other checks can
// be made: a server of Petrel that is not older than this command has answered.
func (v *visit) version(ctx context.Context) (*seen, bool) {
	const check = "server"
	a, err := v.ask(ctx, http.MethodGet, "/version", http.Header{"X-Forwarded-For": {forged},
		"Forwarded": {"for=" + forged}, "X-Real-Ip": {forged}}, nil)
	if err != nil {
		v.note(check, Fail, "look whether the proxy runs and reaches the server", "%v", err)
		return nil, false
	}
	var s seen
	isPetrel := json.Unmarshal(a.body, &s) == nil && s.Protocol != nil
	switch {
	case a.status == http.StatusOK && isPetrel && s.Client == "":
		v.note(check, Fail, "use the doctor of the server's release", "version %s is older than this command", s.Version)
	case a.status == http.StatusOK && isPetrel:
		v.note(check, OK, "", "Petrel %s answers", s.Version)
		v.checkReadiness(ctx)
		return &s, true
	case a.code == im.CodeForbidden:
		v.note("host name", Fail,
			"add the name to listen.hosts, or have the proxy pass Host on as the client sent it; "+recipes, "%s",
			a.text)
	case a.status/100 == 3:
		v.note(check, Fail, "give --through the address that clients have in the end", "requests are sent on to %s",
			a.header.Get("Location"))
	case a.status == http.StatusBadGateway, a.status == http.StatusGatewayTimeout,
		a.status == http.StatusServiceUnavailable:
		v.note(check, Fail, "look whether the server runs (`petrel doctor` on its host), and whether the proxy has the address of listen.http", "the proxy does not reach the server: it answers %s", a.from())
	default:
		v.note(check, Fail, "have the proxy pass everything on to listen.http of the server; "+recipes,
			"/version is answered with %s, and not by Petrel", a.from())
	}
	return nil, false
}

// checkReadiness adds a finding if the server is not ready.
func (v *visit) checkReadiness(ctx context.Context) {
	a, err := v.ask(ctx, http.MethodGet, "/readyz", http.Header{}, nil)
	if err != nil || a.status == http.StatusOK {
		return // other checks find faults on the way
	}
	v.note("readiness", Warn, "the console and the log of the server say what to do", "the server is not ready: %s",
		bytes.TrimSpace(a.body))
}

// checkHost compares the Host header that the server got with the host of the URL.
func (v *visit) checkHost(s *seen) {
	const check = "host name"
	if !strings.EqualFold(s.Host, v.base.Host) {
		v.note(check, Fail, "have the proxy pass Host on as the client sent it, with its port (nginx: proxy_set_header Host $http_host); "+recipes,
			"requests for %s come to the server as ones for %s: it refuses its own pages", v.base.Host, s.Host)
		return
	}
	v.note(check, OK, "", "requests come to the server as ones for %s", s.Host)
}

// checkClient adds a finding about the address under which the server sees this client.
func (v *visit) checkClient(s *seen) {
	const check = "client address"
	a, err := netip.ParseAddr(s.Client)
	switch {
	case s.Client == forged:
		v.note(check, Fail, "have the proxy overwrite X-Forwarded-For, or add to it, and name in listen.trusted_proxies your proxies only",
			"the server believes a client that names itself in a header: a client that writes X-Forwarded-For has the limits of another address")
	case s.Client == v.local:
		v.note(check, OK, "", "the server takes this client for %s, which it is", s.Client)
	case err != nil || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast():
		v.note(check, Warn, "if that is the proxy: have it set X-Forwarded-For to the address of the client, and name it in listen.trusted_proxies; the log of the server says which is missing",
			"the server takes this client for %s, and here it is %s: clients behind a proxy that does not name them share the limits of one address", s.Client, v.local)
	default:
		v.note(check, OK, "", "the server takes this client for %s; here it is %s", s.Client, v.local)
	}
}

// checkBodies sends a call of the largest size. Nobody is logged in, so the server refuses it.
func (v *visit) checkBodies(ctx context.Context) {
	const check = "large requests"
	body := `{"requestId":"` + strings.Repeat("x", largest-len(`{"requestId":""}`)) + `"}`
	a, err := v.ask(ctx, http.MethodPost, "/petrel.v1.AccountService/GetAccount",
		http.Header{"Content-Type": {"application/json"}, "Expect": {"100-continue"}}, strings.NewReader(body))
	switch {
	case err != nil:
		v.note(check, Fail, "look at the log of the proxy, and at its limit for bodies", "a call of 1 MiB: %v", err)
	case a.code != "":
		v.note(check, OK, "", "a call of 1 MiB comes to the server")
	case a.status == http.StatusRequestEntityTooLarge:
		v.note(check, Fail, "let the proxy take bodies of 2 MiB (nginx: client_max_body_size 2m)",
			"a call of 1 MiB is too large for the proxy: it answers %s", a.from())
	default:
		v.note(check, Fail, "have the proxy pass everything on to listen.http of the server; "+recipes,
			"a call is answered with %s, and not by Petrel", a.from())
	}
}

// checkOperators checks that the proxy passes nothing on to listen.admin.
func (v *visit) checkOperators(ctx context.Context) {
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		a, err := v.ask(ctx, http.MethodGet, path, http.Header{}, nil)
		if err == nil && (a.status == http.StatusUnauthorized ||
			a.status == http.StatusOK && bytes.Contains(a.body, []byte("petrel_"))) {
			v.note("operators", Fail, "have the proxy pass nothing on to listen.admin",
				"%s is answered with %s: strangers reach the address of operators", path, a.from())
			return
		}
	}
	v.note("operators", OK, "", "the address of operators is not behind this one")
}

// checkGRPC asks for the health of the server by gRPC, which needs HTTP/2 all the way.
func (v *visit) checkGRPC(ctx context.Context) {
	const check = "gRPC"
	if v.base.Scheme != "https" {
		return // without TLS clients of gRPC need settings of their own
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// five zero bytes are an empty message of gRPC
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, v.base.String()+"/grpc.health.v1.Health/Check",
		bytes.NewReader(make([]byte, 5)))
	if err != nil {
		v.note(check, Warn, "look at the URL", "%v", err)
		return
	}
	q.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
	res, err := v.http.Do(q)
	if err != nil {
		v.note(check, Warn, "look at the log of the proxy; only back ends that use gRPC need it", "%v", err)
		return
	}
	defer func() { _ = res.Body.Close() }() // it was read
	a, err := read(res)
	switch {
	case res.ProtoMajor < 2:
		v.note(check, Warn, "offer HTTP/2 (nginx: listen 443 ssl http2); browsers are faster by it, and gRPC needs it",
			"the proxy speaks HTTP/1.1 only")
	case err != nil:
		v.note(check, Warn, "look at the log of the proxy; only back ends that use gRPC need it", "%v", err)
	case res.Trailer.Get("Grpc-Status") == "0" || res.Header.Get("Grpc-Status") == "0":
		v.note(check, OK, "", "HTTP/2 and gRPC come to the server")
	default:
		v.note(check, Warn, "have the proxy speak HTTP/2 to the server for gRPC (nginx: grpc_pass); only back ends that use gRPC need it; "+recipes, "calls by gRPC do not come to the server: the proxy answers %s", a.from())
	}
}
