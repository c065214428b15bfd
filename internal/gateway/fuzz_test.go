package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/wire"
)

// FuzzConnection covers the input that strangers write before anybody knows who they are: frames on both
// transports, the PROXY header, and the headers by which requests are let in. kind chooses one of them.
func FuzzConnection(f *testing.F) {
	for _, b := range []string{
		string(slices.Concat(masked(text, `{"a":1}`), masked(opText, `{`), masked(fin|opPing, "p"), masked(fin, `}`))),
		string(masked(bin, strings.Repeat("x", 3000))),
		string([]byte{bin, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}),
		string([]byte{text, 2, '{', '}'}),
	} {
		f.Add(byte(0), []byte(b), uint64(1))
	}
	f.Add(byte(1), []byte("{\"a\":1}\n{}\n"), uint64(1))
	f.Add(byte(1), append(lengthFrame("abc"), lengthFrame(strings.Repeat("x", 3000))...), uint64(2))
	f.Add(byte(1), []byte("GET /"), uint64(3))
	f.Add(byte(2), proxyHeader("198.51.100.1:4711"), uint64(0))
	f.Add(byte(2), proxyHeader("[2001:db8::5]:1", 1, 2, 3), uint64(0))
	f.Add(byte(3), []byte(`for=203.0.113.7, For="198.51.100.1:80" ; proto=https`), uint64(0))
	f.Add(byte(3), []byte(`for="[2001:db8::5]:80"`), uint64(0))
	f.Add(byte(3), []byte(`for="`), uint64(0)) // names nobody
	f.Add(byte(4), []byte("203.0.113.7, 198.51.100.1,10.0.0.2"), uint64(0))
	f.Add(byte(5), []byte("chat.example.org:8080"), uint64(0))
	f.Fuzz(func(t *testing.T, kind byte, b []byte, seed uint64) {
		switch kind % 6 {
		case 0:
			splitsDoNotMatter(t, wire.WebSocket, b, seed)
		case 1:
			splitsDoNotMatter(t, wire.TCP, b, seed)
		case 2:
			client, ok, err := readProxyHeader(bytes.NewReader(b))
			if ok && (err != nil || !client.IsValid()) {
				t.Errorf("%x: %s, %v", b, client, err)
			}
		case 3:
			proxyIsNeverTheClient(t, forwarded, string(b))
		case 4:
			proxyIsNeverTheClient(t, xForwardedFor, string(b))
		case 5:
			access := Access{Hosts: []string{"chat.example.org", "*.example.net"}}
			if host := string(b); access.isOwnName(host, true) && !strings.Contains(strings.ToLower(host), "example") && hostName(host) != "" && !isLoopback(hostName(host)) {
				t.Errorf("the name %q is taken for the server's", host)
			}
		}
	})
}

// proxyIsNeverTheClient checks that a header of the client does not decide who the client
// is: the proxy adds the address it sees at the end, and this one counts.
func proxyIsNeverTheClient(t *testing.T, header, written string) {
	const client = "198.51.100.1"
	g := &Gateway{o: Options{ProxyHeader: header}, log: slog.New(slog.DiscardHandler)}
	g.SetAccess(Access{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	added := client
	if header == forwarded {
		added = "for=" + client
	}
	r := &http.Request{URL: &url.URL{Path: "/"}, RemoteAddr: "10.0.0.1:1", Header: http.Header{header: {written, added}}}
	g.setClient(r)
	if a := r.RemoteAddr; a != client+":0" && !(header == forwarded && a == "10.0.0.1:1") { // quotes that nobody can read: the proxy itself
		t.Errorf("%s: %q makes the client %s", header, written, a)
	}
}
