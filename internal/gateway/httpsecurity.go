package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	connectcors "connectrpc.com/cors"
	"github.com/rs/cors"

	"github.com/petrel-im/petrel/internal/im"
)

// originAllowed reports whether the Origin of a request is allowed. Browsers send it with each WebSocket request
// and each call of a foreign page, so such a page cannot use data that the browser has stored for us. A page of the
// server has its host and port, and the scheme https if the server speaks TLS. If it does not, a proxy may have
// ended TLS, so both schemes are allowed.
func (g *Gateway) originAllowed(r *http.Request) bool {
	all := r.Header.Values("Origin")
	switch {
	case len(all) == 0 || len(all) == 1 && all[0] == "":
		return true // not a browser
	case len(all) > 1:
		return false // it is unknown which one counts
	}
	for _, o := range g.access.Load().Origins {
		if o == "*" || strings.EqualFold(o, all[0]) {
			return true
		}
	}
	scheme, host, _ := strings.Cut(all[0], "://")
	switch {
	case strings.EqualFold(scheme, "https"):
	case strings.EqualFold(scheme, "http") && g.o.TLS == nil:
	default:
		return false
	}
	return host != "" && strings.EqualFold(host, r.Host)
}

// checkOrigin returns the error for a page of a forbidden origin, nil for others. It logs the first one, because
// the browser does not tell the page the reason. It also refuses a page of the server itself if a proxy has put
// another name into the Host header.
func (g *Gateway) checkOrigin(r *http.Request) *im.Error {
	if g.originAllowed(r) {
		return nil
	}
	origin := fmt.Sprintf("%.100s", r.Header.Get("Origin"))
	_, host, _ := strings.Cut(origin, "://")
	access := g.access.Load()
	if name := hostName(host); name != "" && access.named(name) && !slices.Contains(access.Hosts, "*") {
		g.logOnce(slog.LevelWarn,
			"pages of the server are refused, because the Host header of their requests has another name "+
				"or port: a proxy on the way has to pass on what the client sent", "origin", origin, "host", r.Host)
		return im.Errorf(im.CodeForbidden,
			"pages of %q may not connect to %.100q; a proxy on the way has to pass on the Host header of the client, with its port, or the operator adds the origin to listen.origins", origin, r.Host)
	}
	g.logOnce(slog.LevelWarn,
		"pages of an origin that is not in listen.origins are refused; if they are yours, add it there",
		"origin", origin)
	return im.Errorf(im.CodeForbidden, "pages of %q may not connect; the operator can add the origin to listen.origins",
		origin)
}

// preflightSeconds is how long a browser remembers that a page may call.
const preflightSeconds = 7200 // browsers cut longer times

// allowOrigins lets pages of the allowed origins call the API too, by the headers of CORS. There are no cookies,
// so a page needs a token of its own. Spec: P-12.6.
func (g *Gateway) allowOrigins(api http.Handler) http.Handler {
	return cors.New(cors.Options{
		AllowOriginVaryRequestFunc: func(r *http.Request, _ string) (bool, []string) {
			return g.checkOrigin(r) == nil,
				nil
		},
		AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: append(connectcors.AllowedHeaders(), "Authorization"),
		ExposedHeaders: append(connectcors.ExposedHeaders(), g.o.ExposedHeaders...),
		MaxAge:         preflightSeconds,
	}).Handler(api)
}

// setSecurityHeaders has browsers take an answer only for what its content type says, run and load nothing for
// it, show it in no frame, and send no Referer from it. Pages of the server set headers of their own.
//
// With TLS it also has browsers use only TLS from now on. A browser keeps this for all ports of a name, so it is
// left out for the loopback, where other programs answer without TLS.
func setSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy",
			"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		if r.TLS != nil && !isLoopback(hostName(r.Host)) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// TLSConfig returns the TLS configuration of all listeners. It calls certificate at every handshake, so a new one
// takes effect at once.
func TLSConfig(certificate func() *tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Of TLS 1.2 only suites with forward secrecy and authenticated encryption.
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
	}
}
