package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// Listener is one of the listeners on which the services are served.
type Listener uint8

const (
	Public Listener = iota // listen.http: for clients, and for back ends with an admin key
	Inside                 // listen.admin: for operators
)

// forOperators reports whether a method is served on the listener Inside only.
func (m *method) forOperators() bool {
	switch m.scope {
	case scopeServer, scopeBackup, scopeAdmin:
		return true
	}
	return m.inside
}

// rejectReason returns the reason for which a listener does not serve a method; nil: it does. Spec: P-10.8.
func (s *Server) rejectReason(on Listener, m *method) *im.Error {
	switch {
	case on == Inside && (m.access == aKey || m.inside):
		return nil
	case on == Inside:
		return im.Errorf(im.CodeNoMethod,
			"this is the address of operators; the methods of users are served on listen.http")
	case m.forOperators():
		return im.Errorf(im.CodeNoMethod,
			"operators call this method on listen.admin, by default http://127.0.0.1:8082 on the host of the server")
	case s.o.CallsOnly:
		return im.Errorf(im.CodeNoMethod, "this node does not serve the API: it does not have the role api")
	case m.access == aKey && !s.o.BackEnds():
		return im.Errorf(im.CodeNoMethod,
			"the server serves this method on listen.admin only, as listen.back_ends says")
	}
	return nil
}

// Handler serves the methods of a listener, the pages about them, and the handlers in rest.
func (s *Server) Handler(on Listener, rest *http.ServeMux) http.Handler {
	if on == Inside {
		rest.HandleFunc("GET /setup", toEnrollment)
	}
	s.toolsOfGRPC(on, rest)
	rest.HandleFunc("GET /openapi.json", serveDescription)
	rest.HandleFunc("GET /docs", serveDocs)
	// The web chat has the root, if it is served.
	if _, taken := rest.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}}); taken != "" {
		return s.handle(on, rest)
	}
	rest.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs", http.StatusFound)
	})
	return s.handle(on, rest)
}

func (s *Server) handle(on Listener, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, on, next) })
}

// RequireKey passes a request on to h if it has an admin key, or the token of a session, with the scope server
// for all tenants. h is on the listener Inside. Spec: P-10.2.
func (s *Server) RequireKey(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _, err := s.o.Operators.AuthenticateOperator(r.Context(), bearer(r.Header))
		if err == nil && (!key.Covers(scopeServer) || key.Tenant != 0) {
			err = im.Errorf(im.CodeForbidden, "this needs a key for all tenants with the scope %s", scopeServer)
		}
		if err != nil {
			s.refuse(&answer{ResponseWriter: w}, r, s.asCode(r.Context(), r.URL.Path, err))
			return
		}
		rate.Vouch(r.Context())
		h.ServeHTTP(w, r)
	})
}

// bearer returns the credential of a request; "" if there is none.
func bearer(h http.Header) string {
	if scheme, rest, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return rest
	}
	return ""
}

// ExposedHeaders returns the headers of answers that pages may read, because the bodies lack their values.
func ExposedHeaders() []string { return []string{errorHeader, "Request-Id", "Retry-After"} }
