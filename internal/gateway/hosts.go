package gateway

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
)

// Access has the host names of the server, the origins of pages that may call it, and the trusted
// proxies. It may change while the server runs.
type Access struct {
	// Hosts are names of the server, like chat.example.org. *.example.org is every
	// name below example.org, and * is every name.
	Hosts []string

	// Origins are the origins of pages that may call the server, like https://chat.example.org,
	// beside the server's own. "*" is any.
	Origins []string

	// Proxies are the peers that are trusted to name their clients.
	Proxies []netip.Prefix
}

// isOwnName reports whether the name in a Host header is one of this server. loopback: the server listens on an
// address that only this machine reaches.
//
// A foreign page can point a name of its own to an address that only the browser reaches (DNS rebinding). For the
// browser the page and the server then have one origin, so the page may read the answers. The Host header has the
// foreign name. A foreign name is not an IP address, and it has a dot, because nobody outside can register a name
// without one. So a server that others reach accepts IP addresses and names without a dot. Spec: P-12.6.
func (a *Access) isOwnName(hostport string, loopback bool) bool {
	name := hostName(hostport)
	if name == "" || isLoopback(name) {
		return true // browsers always send a name; health checks of HTTP/1.0 may not
	}
	if !loopback {
		if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
			return true
		}
	}
	return a.named(name)
}

// named reports whether Hosts covers a name, which is in lower case.
func (a *Access) named(name string) bool {
	for _, h := range a.Hosts {
		h = strings.ToLower(h)
		below, all := strings.CutPrefix(h, "*")
		if h == name || all && (below == "" || strings.HasSuffix(name, below) && len(name) > len(below)) {
			return true
		}
	}
	return false
}

// hostName is the name in a Host header, in lower case, without its port.
func hostName(hostport string) string {
	name := hostport
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// isLoopback reports whether a name always stands for the machine that resolves it.
func isLoopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// onLoopback reports whether only this machine can reach a listener.
func onLoopback(addr net.Addr) bool {
	a, ok := addr.(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// checkHost refuses requests for foreign names, and logs the first.
func checkHost(access func() *Access, loopback bool, log *slog.Logger, listener string,
	next http.Handler) http.Handler {
	var once sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !access().isOwnName(r.Host, loopback) {
			once.Do(func() { logStrangeHost(log, listener, r.Host) })
			e := im.Errorf(im.CodeForbidden,
				"%.100q is none of the server's names; the operator can add it to listen.hosts, or a proxy on the way has to pass on the Host header of the client", hostName(r.Host))
			writeError(w, e.Code.Info().HTTP, e)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// logStrangeHost logs the first request for a foreign name.
func logStrangeHost(log *slog.Logger, listener, host string) {
	log.Warn("requests for a host name that is none of the server's are refused; if it is one, add it to listen.hosts; if a proxy has put it into the Host header, have the proxy pass on what the client sent; this is said once", "listener", listener, "host", hostName(host))
}
