package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

// builtConsole is as Vite leaves it, beside the chat.
func builtConsole() fstest.MapFS {
	return fstest.MapFS{
		"index.html":                  {Data: []byte("<title>chat</title>")},
		"admin/index.html":            {Data: []byte(`<script src="/admin/assets/index-1.js"></script>`)},
		"admin/assets/index-1.js":     {Data: []byte("run()")},
		"admin/assets/index-1.js.gz":  {Data: []byte("packed")},
		"admin/assets/index-1.css":    {Data: []byte("a{}")},
		"admin/assets/index-1.css.br": {Data: []byte("packed")},
	}
}

func consoleMux(t *testing.T) *http.ServeMux {
	t.Helper()
	c, err := newConsole(builtConsole())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	c.Register(mux)
	return mux
}

// The page is at each address that it writes, is asked for again each time, and may load
// nothing but the files of the server: no script and no style stands in it.
func TestConsoleIsServedAtAllItsAddresses(t *testing.T) {
	mux := consoleMux(t)
	for _, at := range []string{"/admin/", "/admin/users", "/admin/users/alice", "/admin/enroll"} {
		res := get(mux, at)
		if res.StatusCode != http.StatusOK || !strings.Contains(string(body(t, res)), "index-1.js") {
			t.Errorf("%s: status %d, want the page", at, res.StatusCode)
		}
		policy := res.Header.Get("Content-Security-Policy")
		if policy != consolePolicy || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", at, policy)
		}
		if got := res.Header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s: Cache-Control %q, want no-cache", at, got)
		}
	}
	if res := get(mux, "/admin/assets/index-1.js", "Accept-Encoding", "gzip"); res.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a hashed file: %v", res.Header)
	}
	if res := get(mux, "/admin/assets/index-0.js"); res.StatusCode != http.StatusNotFound {
		t.Errorf("a file of an older release: status %d, want 404", res.StatusCode)
	}
	for _, at := range []string{"/", "/admin"} {
		if res := get(mux, at); res.StatusCode != http.StatusFound || res.Header.Get("Location") != ConsolePath {
			t.Errorf("%s: status %d to %q", at, res.StatusCode, res.Header.Get("Location"))
		}
	}
}

// The address of the chat has no file of the console.
func TestChatServesNoFileOfTheConsole(t *testing.T) {
	s, err := newSite(builtConsole(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	for _, at := range []string{"/admin/", "/admin/index.html", "/admin/assets/index-1.js"} {
		if res := get(mux, at); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", at, res.StatusCode)
		}
	}
}

// Only a browser on the host itself is told where the operators are.
func TestConsoleIsShownFromTheChatOnThisHostOnly(t *testing.T) {
	for _, c := range []struct {
		name, operators, host, from, header string
		want                                string
	}{
		{name: "this host", operators: "http://127.0.0.1:8082", host: "localhost:8080", from: "127.0.0.1:5000", want: "http://127.0.0.1:8082/admin/users"},
		{name: "IPv6", operators: "https://[::1]:8082", host: "[::1]:8080", from: "[::1]:5000", want: "https://[::1]:8082/admin/users"},
		{name: "another host", operators: "http://127.0.0.1:8082", host: "localhost:8080", from: "10.0.0.9:5000"},
		{name: "another name, as after a change of DNS", operators: "http://127.0.0.1:8082", host: "chat.example.org", from: "127.0.0.1:5000"},
		{name: "a proxy on this host", operators: "http://127.0.0.1:8082", host: "localhost", from: "127.0.0.1:5000", header: "X-Forwarded-For"},
		{name: "operators elsewhere", operators: "http://10.0.0.1:8082", host: "localhost:8080", from: "127.0.0.1:5000"},
	} {
		mux := http.NewServeMux()
		RedirectConsole(mux, func() string { return c.operators })
		r := httptest.NewRequest(http.MethodGet, "/admin/users", nil)
		r.Host, r.RemoteAddr = c.host, c.from
		if c.header != "" {
			r.Header.Set(c.header, "10.0.0.9")
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if got := w.Header().Get("Location"); got != c.want || (c.want == "") != (w.Code == http.StatusNotFound) {
			t.Errorf("%s: status %d to %q, want %q", c.name, w.Code, got, c.want)
		}
	}
}
