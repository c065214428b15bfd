package web

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
)

// ConsolePath is the path of the console. It is served at the address of operators only, so that the origin of
// the chat never holds the key of an operator.
const ConsolePath = "/admin/"

const (
	consoleFolder = "admin" // of the files that were built
	consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// Console serves the files of the console.
type Console struct {
	files map[string]file // by the path of the request, such as "/admin/assets/index-3f2a.js"
	index file
}

// NewConsole reads the files of the console that were built.
func NewConsole() (*Console, error) {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, err
	}
	return newConsole(dist)
}

func newConsole(dist fs.FS) (*Console, error) {
	c := &Console{files: map[string]file{}}
	err := fs.WalkDir(dist, consoleFolder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".br" || path.Ext(name) == ".gz" {
			return err
		}
		f, err := readFile(dist, name)
		if err == nil {
			c.files["/"+name] = f
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the files of the console: %w; run make web", err)
	}
	index, ok := c.files[ConsolePath+"index.html"]
	if !ok {
		return nil, fmt.Errorf("read the files of the console: there is no index.html; run make web")
	}
	c.index = index
	delete(c.files, ConsolePath+"index.html")
	return c, nil
}

// Register adds the console to mux: the path of each file, and the page at every other path under /admin/ but
// /admin/assets/, because the page keeps its view in its address. / and /admin redirect to it.
func (c *Console) Register(mux *http.ServeMux) {
	toConsole := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, ConsolePath, http.StatusFound) }
	mux.HandleFunc("GET /{$}", toConsole)
	mux.HandleFunc("GET /admin", toConsole)
	mux.HandleFunc("GET "+ConsolePath, c.serveIndex)
	mux.HandleFunc("GET "+ConsolePath+"assets/", http.NotFound) // for pages of an older release, whose files are gone
	for name, f := range c.files {
		mux.HandleFunc("GET "+name, func(w http.ResponseWriter, r *http.Request) { f.serve(w, r) })
	}
}

// serveIndex serves the page. It is not cached, because it names the present files.
func (c *Console) serveIndex(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", consolePolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
	send(w, r, "text/html; charset=utf-8", c.index.plain, tagOf(append([]byte(consolePolicy), c.index.plain...)))
}

// RedirectConsole redirects /admin/ at the address of the chat to the console at the address of operators, but
// only a browser on the host itself: others must not learn that address. operators returns the URL of that
// address, such as http://127.0.0.1:8082. It is called for each request; if its host is not a loopback one, there
// is no redirect.
func RedirectConsole(mux *http.ServeMux, operators func() string) {
	redirect := func(w http.ResponseWriter, r *http.Request) {
		to, err := url.Parse(operators())
		from, _, notPeer := net.SplitHostPort(r.RemoteAddr)
		asked := (&url.URL{Host: r.Host}).Hostname()
		if err != nil || notPeer != nil || !isLoopback(to.Hostname()) || !isLoopback(from) || !isLoopback(asked) ||
			forwarded(r) {
			http.NotFound(w, r)
			return
		}
		to.Path = r.URL.Path
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, to.String(), http.StatusFound)
	}
	mux.HandleFunc("GET /admin", redirect)
	mux.HandleFunc("GET "+ConsolePath, redirect)
}

// forwarded reports whether a proxy has sent the request. Then the browser may be on any host.
func forwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// isLoopback reports whether a host name or address means this host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
