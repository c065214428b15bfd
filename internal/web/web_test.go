package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func serve(t *testing.T, o Options) *http.ServeMux {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	return mux
}

func get(mux *http.ServeMux, path string, header ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, res *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var inTags = regexp.MustCompile(`(?:src|href)="(/[^"]*)"`)

// Everything that the page names is there, is small enough, and is kept for a year if its
// name has a hash in it.
func TestPageNamesFilesThatAreServed(t *testing.T) {
	mux := serve(t, Options{})
	page := string(body(t, get(mux, "/")))
	names := inTags.FindAllStringSubmatch(page, -1)
	if len(names) < 3 {
		t.Fatalf("the page names %d files:\n%s", len(names), page)
	}
	script := 0
	for _, m := range names {
		res := get(mux, m[1], "Accept-Encoding", "gzip")
		b := body(t, res)
		hashed := strings.HasPrefix(m[1], hashedPath)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") == "" || len(b) == 0 {
			t.Errorf("%s: %s, type %q, %d bytes", m[1], res.Status, res.Header.Get("Content-Type"), len(b))
		}
		if got := res.Header.Get("Cache-Control"); hashed != strings.Contains(got, "immutable") {
			t.Errorf("%s: Cache-Control %q", m[1], got)
		}
		if path.Ext(m[1]) == ".js" {
			script += len(b)
		}
	}
	if script == 0 || script > 200_000 {
		t.Errorf("the first load has %d bytes of script, want at most 200000", script)
	}
	if strings.Contains(page, "<style") || strings.Contains(page, " style=") || regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(page) || strings.Contains(page, "://") {
		t.Errorf("the page has a script or a style in it, or names another server:\n%s", page)
	}
}

func TestPageIsAskedForAgain(t *testing.T) {
	mux := serve(t, Options{})
	res := get(mux, "/")
	if got := res.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control %q", got)
	}
	if again := get(mux, "/", "If-None-Match", res.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("the same page again: %s", again.Status)
	}
	if worker := get(mux, workerPath); worker.StatusCode != 200 || worker.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("the service worker: %s, Cache-Control %q", worker.Status, worker.Header.Get("Cache-Control"))
	}
}

func TestPolicyLetsNothingElseIn(t *testing.T) {
	policy := func(o Options) string { return get(serve(t, o), "/").Header.Get("Content-Security-Policy") }
	plain := policy(Options{})
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self';", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(plain, want) {
			t.Errorf("policy %q lacks %q", plain, want)
		}
	}
	if strings.Contains(plain, "unsafe") || strings.Contains(plain, "*") {
		t.Errorf("policy %q", plain)
	}
	with := policy(Options{
		FrameAncestors: []string{"https://shop.example.org"},
		Gateways: func() []string {
			return []string{"https://chat-1.example.org", "https://x; script-src *", "tcp://10.0.0.1:8081"}
		},
	})
	if !strings.Contains(with, "frame-ancestors https://shop.example.org") || !strings.Contains(with, "connect-src 'self' wss://chat-1.example.org") || strings.Contains(with, "*") {
		t.Errorf("policy %q", with)
	}
}

func TestPageSaysWhatHoldsForTheServer(t *testing.T) {
	mux := serve(t, Options{Name: `Acme "<b>" chat`, Registration: func(context.Context) string { return "closed" }})
	page := string(body(t, get(mux, "/")))
	if !strings.Contains(page, `content="Acme &#34;&lt;b&gt;&#34; chat"`) || !strings.Contains(page, `content="closed"`) || strings.Contains(page, "{{") {
		t.Errorf("page:\n%s", page)
	}
	if manifest := string(body(t, get(mux, manifestPath))); !strings.Contains(manifest, `"short_name": "Acme \"\u003cb\u003e\" chat"`) {
		t.Errorf("manifest:\n%s", manifest)
	}
}

// A browser gets the shortest form that it takes.
func TestFilesAreSentCompressed(t *testing.T) {
	mux := serve(t, Options{})
	var name string
	for _, m := range inTags.FindAllStringSubmatch(string(body(t, get(mux, "/"))), -1) {
		if path.Ext(m[1]) == ".js" {
			name = m[1]
		}
	}
	plain := body(t, get(mux, name))
	for _, c := range []struct{ accept, want string }{
		{"gzip, deflate, br, zstd", "br"}, {"gzip", "gzip"}, {"br;q=0, gzip;q=0.5", "gzip"}, {"deflate", ""}, {"", ""},
	} {
		res := get(mux, name, "Accept-Encoding", c.accept)
		b := body(t, res)
		if got := res.Header.Get("Content-Encoding"); got != c.want || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: Content-Encoding %q, want %q; Vary %q", c.accept, got, c.want, res.Header.Get("Vary"))
		}
		switch c.want {
		case "gzip":
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if unpacked, err := io.ReadAll(z); err != nil || !bytes.Equal(unpacked, plain) {
				t.Errorf("the gzip form is another file, %v", err)
			}
		case "br":
			if len(b) == 0 || len(b) >= len(plain)/2 {
				t.Errorf("the brotli form has %d bytes of %d", len(b), len(plain))
			}
		}
	}
}

// Pages of other origins load <petrel-chat>, and nothing else.
func TestElementIsServedToPagesOfAllOrigins(t *testing.T) {
	one := &fstest.MapFile{Data: []byte("1")}
	s, err := newSite(fstest.MapFS{"index.html": one, "assets/index-1.js": one, "embed/petrel-chat.js": one, "embed/assets/mount-1.js": one}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	s.Register(mux)
	for _, c := range []struct{ name, origin, cache string }{
		{"/embed/petrel-chat.js", "*", "no-cache"},
		{"/embed/assets/mount-1.js", "*", "public, max-age=31536000, immutable"},
		{"/assets/index-1.js", "", "public, max-age=31536000, immutable"},
		{"/", "", "no-cache"},
	} {
		h := get(mux, c.name, "Origin", "https://shop.example.org").Header
		if got := h.Get("Access-Control-Allow-Origin"); got != c.origin || h.Get("Cache-Control") != c.cache {
			t.Errorf("%s: Access-Control-Allow-Origin %q, want %q; Cache-Control %q, want %q", c.name, got, c.origin, h.Get("Cache-Control"), c.cache)
		}
	}
}

func TestBuildWithoutAPageIsRefused(t *testing.T) {
	if _, err := newSite(fstest.MapFS{"sw.js": {Data: []byte("1")}}, Options{}); err == nil || !strings.Contains(err.Error(), "make web") {
		t.Errorf("error %v", err)
	}
}

func TestThePageSaysTheLargestBody(t *testing.T) {
	for limit, want := range map[int]string{48 << 10: "49152", -1: "0"} {
		mux := serve(t, Options{Name: "Petrel", BodyBytes: func() int { return limit }})
		if page := string(body(t, get(mux, "/"))); !strings.Contains(page, `<meta name="petrel-body-bytes" content="`+want+`">`) {
			t.Errorf("a limit of %d bytes: the page does not say %s", limit, want)
		}
	}
}
