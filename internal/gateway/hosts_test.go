package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// Spec: P-12.6.
func TestNamesOfTheServer(t *testing.T) {
	a := Access{Hosts: []string{"chat.example.org", "*.pods.example.org"}}
	for _, c := range []struct {
		host              string
		loopback, outside bool // ours on a listener of this machine only, and on another one
	}{
		{"localhost", true, true}, {"LocalHost.:8080", true, true}, {"127.0.0.1:8080", true, true}, {"127.8.8.8", true, true}, {"[::1]:8080", true, true}, {"[::1]", true, true},
		{"chat.example.org", true, true}, {"Chat.Example.org:443", true, true}, {"a.pods.example.org", true, true}, {"a.b.pods.example.org", true, true},
		{"pods.example.org", false, false}, {".pods.example.org", false, false}, {"chat.example.org.evil.example", false, false}, {"evilchat.example.org", false, false},
		{"evil.example", false, false}, {"localhost.evil.example", false, false}, {"127.0.0.1.nip.io", false, false},
		{"10.0.0.7:8080", false, true}, {"[2001:db8::1]:8080", false, true}, {"0.0.0.0", false, true}, {"petrel:8080", false, true},
		{"", true, true}, // HTTP/1.0 without a name: no browser
	} {
		if got := a.isOwnName(c.host, true); got != c.loopback {
			t.Errorf("%q on a loopback address: ours %t, want %t", c.host, got, c.loopback)
		}
		if got := a.isOwnName(c.host, false); got != c.outside {
			t.Errorf("%q on another address: ours %t, want %t", c.host, got, c.outside)
		}
	}
	if every := (Access{Hosts: []string{"*"}}); !every.isOwnName("evil.example", true) {
		t.Error("* is not every name")
	}
}

// The page of a stranger that lets evil.example stand for this machine gets
// nothing, by WebSocket neither. Spec: P-12.6.
func TestNameOfAStrangerGetsNothing(t *testing.T) {
	served := 0
	s := serve(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })}, noLimits())
	ask := func(path, host string, header http.Header) int {
		r, err := http.NewRequest(http.MethodGet, "http://"+s.HTTPAddr().String()+path, nil)
		must(t, err)
		r.Host, r.Header = host, header
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		must(t, err)
		must(t, res.Body.Close())
		return res.StatusCode
	}
	upgrade := http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}, "Sec-Websocket-Version": {"13"}, "Origin": {"http://evil.example:8080"}}
	for range 3 {
		if status := ask("/v1/ws", "evil.example:8080", upgrade); status != http.StatusForbidden {
			t.Errorf("a WebSocket: %d", status)
		}
		if status := ask("/version", "evil.example:8080", nil); status != http.StatusForbidden || served != 0 {
			t.Errorf("a page: %d", status)
		}
	}
	if n := strings.Count(s.logs.String(), "listen.hosts"); n != 1 {
		t.Errorf("the log names listen.hosts %d times, want 1", n)
	}
	s.SetAccess(Access{Hosts: []string{"evil.example"}}) // at run time
	if status := ask("/version", "evil.example:8080", nil); status != http.StatusOK || served != 1 {
		t.Errorf("a name that was added: %d", status)
	}
}
