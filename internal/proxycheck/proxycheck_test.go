package proxycheck

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest"
)

// look returns the findings of a look at a server.
func look(t *testing.T, o Options) map[string]Finding {
	t.Helper()
	found, err := Examine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Finding{}
	for _, f := range found {
		if _, twice := all[f.Check]; twice || f.Found == "" || f.State != OK && f.Fix == "" {
			t.Errorf("%+v: want one finding of each check, with what to do about it", f)
		}
		all[f.Check] = f
	}
	return all
}

// wants compares a finding with its state and a part of what it says.
func wants(t *testing.T, of map[string]Finding, check string, s State, text string) {
	t.Helper()
	if f := of[check]; f.State != s || !strings.Contains(f.Found+" / "+f.Fix, text) {
		t.Errorf("%s: %+v, want %s with %q; all: %v", check, f, s, text, of)
	}
}

func TestWayWithoutProxiesIsFound(t *testing.T) {
	s := imtest.Start(t, imtest.Options{TLS: true})
	roots := s.TLS().RootCAs
	all := look(t, Options{URL: s.BaseURL() + "/", Roots: roots})
	for _, check := range []string{"TLS", "server", "host name", "client address", "WebSocket", "large requests", "operators", "gRPC"} {
		wants(t, all, check, OK, "")
	}
	if len(all) != 8 {
		t.Errorf("%d findings, want 8: %v", len(all), all)
	}
}

func TestCertificatesAreJudgedAsClientsDo(t *testing.T) {
	s := imtest.Start(t, imtest.Options{TLS: true})
	roots := s.TLS().RootCAs
	_, port, _ := strings.Cut(s.BaseURL(), "//127.0.0.1:")
	leaf := func() *x509.Certificate {
		res, err := s.HTTP().Get(s.BaseURL() + "/version")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close() // only its certificate counts
		return res.TLS.PeerCertificates[0]
	}()
	at := func(d time.Duration) func() time.Time {
		return func() time.Time { return leaf.NotAfter.Add(d) }
	}
	wants(t, look(t, Options{URL: s.BaseURL(), Roots: x509.NewCertPool()}), "TLS", Fail, "the whole chain")
	wants(t, look(t, Options{URL: s.BaseURL(), Roots: roots, Now: at(time.Hour)}), "TLS", Fail, "renew it")
	wants(t, look(t, Options{URL: s.BaseURL(), Roots: roots, Now: at(-50 * time.Hour)}), "TLS", Warn, "in 2 days")
	wants(t, look(t, Options{URL: "https://127.0.0.2:" + port, Roots: roots, Dial: s.HTTP().Transport.(*http.Transport).DialContext}), "connection", Fail, "refused")
	plain := imtest.Start(t, imtest.Options{})
	wants(t, look(t, Options{URL: strings.Replace(plain.BaseURL(), "http:", "https:", 1)}), "TLS", Fail, "speaks no TLS")
}

func TestWhatAnswersIsNamed(t *testing.T) {
	for _, c := range []struct {
		what   string
		answer http.HandlerFunc
		text   string
	}{
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://www.example.org/", http.StatusFound)
		}, "sent on to https://www.example.org/"},
		{"a proxy without a server", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "nginx/1.22.1")
			w.WriteHeader(http.StatusBadGateway)
		}, `does not reach the server: it answers 502 by "nginx/1.22.1"`},
		{"another site", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<title>hi</title>")) }, "not by Petrel"},
		{"another API", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"version":"3"}`)) }, "not by Petrel"},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			defer s.Close()
			all := look(t, Options{URL: s.URL})
			wants(t, all, "server", Fail, c.text)
			if len(all) != 1 {
				t.Errorf("more is found behind it: %v", all)
			}
		})
	}
}

func TestAddressOfOperatorsIsFound(t *testing.T) {
	s := imtest.Start(t, imtest.Options{})
	wants(t, look(t, Options{URL: s.AdminURL()}), "operators", Fail, "listen.admin")
}

func TestURLIsThatOfAChat(t *testing.T) {
	for _, url := range []string{"", "chat.example.org", "wss://chat.example.org", "https://", "https://chat.example.org/chat", "https://u:p@chat.example.org", "https://chat.example.org?x=1", "https://[::1"} {
		if _, err := Examine(t.Context(), Options{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
