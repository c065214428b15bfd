package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// A browser on this machine reaches the address of operators, whatever page it
// shows. Spec: P-10.8.
func TestPagesOfStrangersReachNoOperatorsAddress(t *testing.T) {
	served := 0
	a, err := NewAdmin(AdminOptions{
		Addr: "127.0.0.1:0", TLS: TLSConfig(func() *tls.Certificate { return nil }), Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
		Access: func() *Access { return &Access{Origins: []string{"https://app.example.org"}} }, MaxHTTP: 4, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	if a.TLS() {
		t.Error("TLS on a loopback address: no certificate is for that")
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	own := "http://" + a.Addr().String()
	for _, c := range []struct {
		name, method, host string
		header             http.Header
		want               int
	}{
		{"the CLI", http.MethodPost, "", nil, 200},
		{"its own page", http.MethodPost, "", http.Header{"Origin": {own}}, 200},
		{"a page that may connect as a client", http.MethodPost, "", http.Header{"Origin": {"https://app.example.org"}}, 403},
		{"a page of a stranger", http.MethodPost, "", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"the same, as the browser says it", http.MethodPost, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"a name of a stranger", http.MethodGet, "evil.example", nil, 403},
		{"a link on a page of a stranger", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}, 200},
		{"an image on a page of a stranger", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, 403},
		{"a page of a stranger that reads", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"cors"}}, 403},
		{"its own page reads", http.MethodGet, "", http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"cors"}}, 200},
	} {
		r, err := http.NewRequest(c.method, own+"/x", nil)
		must(t, err)
		r.Host = c.host
		for k, v := range c.header {
			r.Header[k] = v
		}
		before := served
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != c.want || (served > before) != (c.want == 200) || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s, %v", c.name, res.Status, res.Header)
		}
	}
	if _, err := NewAdmin(AdminOptions{Addr: a.Addr().String()}); err == nil || !strings.Contains(err.Error(), "--listen-admin") {
		t.Errorf("a taken address: %v", err)
	}
	stop()
	must(t, <-ended)
}
