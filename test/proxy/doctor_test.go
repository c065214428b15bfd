package proxy

import (
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/proxycheck"
)

// findings are what `petrel doctor --through` finds, by check.
func (w *world) findings() map[string]proxycheck.Finding {
	w.t.Helper()
	found, err := proxycheck.Examine(w.t.Context(), proxycheck.Options{URL: "https://" + name, Dial: w.dial("127.0.0.2"), Roots: w.trust})
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]proxycheck.Finding{}
	for _, f := range found {
		all[f.Check] = f
	}
	return all
}

// passesTheDoctor: nothing is wrong on the way to the server.
func (w *world) passesTheDoctor() {
	w.t.Helper()
	all := w.findings()
	for check, f := range all {
		if f.State != proxycheck.OK {
			w.t.Errorf("doctor --through: %s: %+v", check, f)
		}
	}
	if len(all) != 8 {
		w.t.Errorf("doctor --through has %d findings, want 8: %v", len(all), all)
	}
}

// Each line of the recipe that matters is changed, as people have it wrong.
func TestDoctorFindsWhatAProxyDoesWrong(t *testing.T) {
	t.Parallel()
	w := start(t, &kinds[0])
	for _, c := range []struct {
		line, wrong string // of the recipe
		check       string
		state       proxycheck.State
		text        string
	}{
		{"proxy_set_header Host $http_host;", "", "host name", proxycheck.Fail, `"petrel" is none of the server's names`},
		{"proxy_set_header Host $http_host;", "proxy_set_header Host localhost;", "host name", proxycheck.Fail, "as ones for localhost"},
		{"proxy_set_header X-Forwarded-For $remote_addr;", "", "client address", proxycheck.Fail, "believes a client that names itself"},
		{"proxy_set_header X-Forwarded-For $remote_addr;", `proxy_set_header X-Forwarded-For "";`, "client address", proxycheck.Warn, "here it is 127.0.0.2"},
		{"proxy_set_header Upgrade $http_upgrade;", "", "WebSocket", proxycheck.Fail, "proxy_set_header Upgrade"},
		{"proxy_http_version 1.1;", "", "WebSocket", proxycheck.Fail, "proxy_http_version 1.1"},
		{"location = /v1/ws {", "location = /v1/ws { return 404;", "WebSocket", proxycheck.Fail, "not by Petrel"},
		{"client_max_body_size 2m;", "", "large requests", proxycheck.Fail, "client_max_body_size"},
		{"client_max_body_size 2m;", "client_max_body_size 512k;", "large requests", proxycheck.Fail, `413 by "nginx`},
		{"grpc_pass grpc://petrel_grpc;", "proxy_pass http://petrel;", "gRPC", proxycheck.Warn, "grpc_pass"},
		{"ssl http2;", "ssl;", "gRPC", proxycheck.Warn, "HTTP/2"},
		{"server_name chat.example.org;", "server_name other.example.org;", "TLS", proxycheck.Fail, "no site of this name"},
	} {
		w.rewrite(c.line, "# here\n"+c.wrong)
		var all map[string]proxycheck.Finding
		if !eventually.Holds(func() bool {
			all = w.findings()
			f := all[c.check]
			return f.State == c.state && strings.Contains(f.Found+" / "+f.Fix, c.text)
		}) {
			t.Errorf("%q in the place of %q: %v, want %s %s with %q", c.wrong, c.line, all, c.check, c.state, c.text)
		}
		w.rewrite("# here\n"+c.wrong, c.line)
	}
}
