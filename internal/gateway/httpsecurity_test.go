package gateway

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// Pages of the origins that may connect may call the API. Spec: P-12.6.
func TestPagesCallFromTheOriginsThatMayConnect(t *testing.T) {
	called := 0
	s := serve(t, Options{
		Names:          Access{Origins: []string{"https://app.example.org"}},
		ExposedHeaders: []string{"Petrel-Error"},
		Handler:        http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called++ }),
	}, noLimits())
	ask := func(method, origin string, header http.Header) (int, http.Header) {
		r, err := http.NewRequest(method, "http://"+s.HTTPAddr().String()+"/petrel.v1.AuthService/Login", nil)
		must(t, err)
		for k, v := range header {
			r.Header[k] = v
		}
		r.Header.Set("Origin", origin)
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		must(t, res.Body.Close())
		return res.StatusCode, res.Header
	}
	preflight := http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,connect-protocol-version,content-type"}}
	for origin, may := range map[string]bool{
		"https://app.example.org": true, "http://" + s.HTTPAddr().String(): true,
		"https://evil.example": false, "null": false, "https://app.example.org.evil.example": false,
	} {
		status, h := ask(http.MethodOptions, origin, preflight)
		if got := h.Get("Access-Control-Allow-Origin"); (got == origin) != may || !may && got != "" {
			t.Errorf("%s asks whether it may call: %d, allowed is %q", origin, status, got)
		}
		if may && (h.Get("Access-Control-Allow-Headers") == "" || h.Get("Access-Control-Allow-Methods") == "" || h.Get("Access-Control-Max-Age") == "") {
			t.Errorf("%s may call, but not as the SDKs do: %v", origin, h)
		}
		_, h = ask(http.MethodPost, origin, nil)
		if got := h.Get("Access-Control-Allow-Origin"); (got == origin) != may || !may && got != "" {
			t.Errorf("%s calls, and may read is %q", origin, got)
		}
		if got := h.Get("Access-Control-Expose-Headers"); may && got == "" {
			t.Errorf("%s cannot read the code of an error", origin)
		}
		if got := h.Get("Access-Control-Allow-Credentials"); got != "" {
			t.Errorf("%s may use what the browser has stored: %q", origin, got)
		}
	}
	if n := strings.Count(s.logs.String(), "pages of an origin that is not in listen.origins are refused"); n != 1 {
		t.Errorf("the log names a refused origin %d times, want 1:\n%s", n, s.logs.String())
	}
	if called != 5 {
		t.Errorf("%d calls came through, want 5: a preflight is none", called)
	}
}

// A page of the server whose proxy changes the Host header is refused with that, and so is one of an origin
// that is missing in listen.origins. Each is logged once.
func TestARefusedOriginSaysWhatIsMissing(t *testing.T) {
	const proxyChanged, originMissing = "a proxy on the way has to pass on", "add the origin to listen.origins"
	for _, c := range []struct {
		origin, host string
		hosts        []string
		answer, log  string
	}{
		{"https://chat.example.org", "127.0.0.1:8080", []string{"chat.example.org"}, proxyChanged, "has another name or port"},
		{"https://chat.example.org:8443", "chat.example.org", []string{"*.example.org"}, proxyChanged, "has another name or port"},
		{"https://shop.example.com", "chat.example.org", []string{"chat.example.org"}, originMissing, "not in listen.origins are refused"},
		{"http://localhost:3000", "localhost:8080", nil, originMissing, "not in listen.origins are refused"},
		{"https://shop.example.com", "chat.example.org", []string{"*"}, originMissing, "not in listen.origins are refused"},
		{"null", "chat.example.org", []string{"*"}, originMissing, "not in listen.origins are refused"},
	} {
		var log strings.Builder
		g := &Gateway{log: slog.New(slog.NewTextHandler(&log, nil))}
		g.SetAccess(Access{Hosts: c.hosts})
		for range 2 {
			e := g.checkUpgrade(&http.Request{Host: c.host, URL: &url.URL{Path: Path}, Header: http.Header{"Origin": {c.origin}}})
			if e == nil || e.Code != im.CodeForbidden || !strings.Contains(e.Error(), c.answer) {
				t.Errorf("%s at %s, whose names are %v: %v, want %q", c.origin, c.host, c.hosts, e, c.answer)
			}
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), c.log) || !strings.Contains(log.String(), "origin="+c.origin) {
			t.Errorf("%s at %s, whose names are %v: the log is %s", c.origin, c.host, c.hosts, log.String())
		}
	}
}

// A page of the server itself has its scheme, host and port. Spec: P-12.6.
func TestOwnPagesHaveSchemeHostAndPort(t *testing.T) {
	for _, c := range []struct {
		origins    []string
		plain, tls bool
	}{
		{nil, true, true},
		{[]string{""}, true, true},
		{[]string{"https://chat.example.org:8080"}, true, true}, // a proxy may end TLS
		{[]string{"HTTPS://Chat.example.org:8080"}, true, true},
		{[]string{"http://chat.example.org:8080"}, true, false},
		{[]string{"https://chat.example.org"}, false, false},
		{[]string{"https://chat.example.org:8081"}, false, false},
		{[]string{"https://evil.example@chat.example.org:8080"}, false, false},
		{[]string{"https://chat.example.org:8080/"}, false, false},
		{[]string{"chrome-extension://chat.example.org:8080"}, false, false},
		{[]string{"ftp://chat.example.org:8080"}, false, false},
		{[]string{"//chat.example.org:8080"}, false, false},
		{[]string{"null"}, false, false},
		{[]string{"https://chat.example.org:8080", "https://evil.example"}, false, false},
		{[]string{"https://evil.example", "https://app.example.org"}, false, false},
		{[]string{"https://app.example.org"}, true, true},
	} {
		for _, config := range []*tls.Config{nil, {}} {
			g := &Gateway{o: Options{TLS: config}}
			g.access.Store(&Access{Origins: []string{"https://app.example.org"}})
			want := c.plain
			if config != nil {
				want = c.tls
			}
			r := &http.Request{Host: "chat.example.org:8080", Header: http.Header{}}
			if c.origins != nil {
				r.Header["Origin"] = c.origins
			}
			if got := g.originAllowed(r); got != want {
				t.Errorf("origins %q, TLS here %t: may come %t, want %t", c.origins, config != nil, got, want)
			}
		}
	}
}

// Spec: P-12.6.
func TestTLSIsModernAndStays(t *testing.T) {
	var o Options
	client := withTLS(t, &o)
	cert := o.TLS.Certificates[0]
	o.TLS = TLSConfig(func() *tls.Certificate { return &cert })
	s := serve(t, o, noLimits())
	s.dial(wire.TCP)
	for name, c := range map[string]*tls.Config{
		"TLS 1.1": {MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		"CBC":     {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}},
		"RSA":     {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_CBC_SHA}},
	} {
		c.RootCAs, c.ServerName = client.RootCAs, client.ServerName
		for _, addr := range []string{s.HTTPAddr().String(), s.TCPAddr().String()} {
			if nc, err := tls.Dial("tcp", addr, c); err == nil {
				t.Errorf("%s: %s takes it", name, addr)
				_ = nc.Close()
			}
		}
	}
	for host, want := range map[string]string{"10.1.2.3": "max-age=31536000", "localhost": "", "127.0.0.1": ""} {
		r, err := http.NewRequest(http.MethodGet, "https://"+s.HTTPAddr().String()+"/x", nil)
		must(t, err)
		r.Host = host
		s.SetAccess(Access{Hosts: []string{"*"}})
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: client}}).Do(r)
		must(t, err)
		must(t, res.Body.Close())
		if got := res.Header.Get("Strict-Transport-Security"); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

// A browser shows no answer of the server as a page, nor within one.
func TestBrowsersMakeNothingOfAnswers(t *testing.T) {
	s := serve(t, Options{}, noLimits())
	for _, c := range []struct{ method, path, host string }{
		{http.MethodGet, "/", ""}, {http.MethodGet, Path, ""}, {http.MethodPost, "/petrel.v1.AuthService/Login", ""}, {http.MethodTrace, "/", ""}, {http.MethodGet, "/", "evil.example"},
	} {
		r, err := http.NewRequest(c.method, "http://"+s.HTTPAddr().String()+c.path, nil)
		must(t, err)
		r.Host = c.host
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		must(t, res.Body.Close())
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s %s of %q: %s %q, want %q", c.method, c.path, c.host, name, got, want)
			}
		}
	}
}
