// Package web serves the web chat, and the console of operators at an address of its own: the built files of
// the folder web/, which are embedded in the program. Both pages talk to the server through its API alone.
package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed all:dist
var built embed.FS

// Options are the operator's settings of the web chat.
type Options struct {
	// Name stands in titles and on the page where people log in; empty: Petrel.
	Name string
	// FrameAncestors are origins of pages that may show the chat in a frame; none: no page may.
	FrameAncestors []string
	// Gateways are addresses besides the page's own that clients may be sent to, like
	// https://chat-1.example.org. It is called for each page. nil: there are none.
	Gateways func() []string
	// Registration returns who may make an account: open, invitation or closed. It is called for each page.
	// nil: open.
	Registration func(context.Context) string
	// BodyBytes is the largest text of a message, in bytes. It is called for each page; nil: the
	// page does not say.
	BodyBytes func() int
}

// Site serves the files of the web chat.
type Site struct {
	o     Options
	files map[string]file // by the path of the request, such as "/assets/index-3f2a.js"
	index string          // the page, with placeholders for the values of this server
}

// file is one file in the forms in which it can be sent.
type file struct {
	kind       string // of its content
	plain      []byte
	brotli     []byte // empty: there is none
	gzip       []byte // empty: there is none
	tag        string // ETag
	everLiving bool   // its name has the hash of its content
	forAll     bool   // pages of any origin may load it
}

const (
	indexPath    = "/index.html"
	workerPath   = "/sw.js"
	manifestPath = "/manifest.webmanifest"
	embedPath    = "/embed/"  // <petrel-chat>, for pages of other origins
	hashedPath   = "/assets/" // Vite puts the hash of the content into the names of the files in folders of this name
)

// New reads the built files.
func New(o Options) (*Site, error) {
	dist, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, err
	}
	return newSite(dist, o)
}

func newSite(dist fs.FS, o Options) (*Site, error) {
	if o.Name == "" {
		o.Name = "Petrel"
	}
	s := &Site{o: o, files: map[string]file{}}
	err := fs.WalkDir(dist, ".", func(name string, d fs.DirEntry, err error) error {
		if name == consoleFolder {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || path.Ext(name) == ".br" || path.Ext(name) == ".gz" {
			return err
		}
		f, err := readFile(dist, name)
		if err == nil {
			s.files["/"+name] = f
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the files of the web chat: %w", err)
	}
	index, ok := s.files[indexPath]
	if !ok {
		return nil, fmt.Errorf("read the files of the web chat: there is no index.html; run make web")
	}
	delete(s.files, indexPath)
	s.index = string(index.plain)
	return s, s.nameManifest()
}

// nameManifest puts the name into the manifest of the installed page.
func (s *Site) nameManifest() error {
	m, ok := s.files[manifestPath]
	if !ok {
		return nil
	}
	name, err := json.Marshal(s.o.Name)
	if err != nil {
		return err
	}
	m.plain = bytes.ReplaceAll(m.plain, []byte(`"{{name}}"`), name)
	m.tag, m.brotli, m.gzip = tagOf(m.plain), nil, nil
	s.files[manifestPath] = m
	return nil
}

func readFile(dist fs.FS, name string) (file, error) {
	f := file{
		kind:       mime.TypeByExtension(path.Ext(name)),
		everLiving: strings.Contains("/"+name, hashedPath),
		forAll:     strings.HasPrefix("/"+name, embedPath),
	}
	if path.Ext(name) == ".webmanifest" {
		f.kind = "application/manifest+json"
	}
	var err error
	if f.plain, err = fs.ReadFile(dist, name); err != nil {
		return f, err
	}
	f.tag = tagOf(f.plain)
	f.brotli, _ = fs.ReadFile(dist, name+".br") // small files have no such form
	f.gzip, _ = fs.ReadFile(dist, name+".gz")
	return f, nil
}

func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// Register adds the pages to mux: / and the path of each file.
func (s *Site) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.serveIndex)
	for name, f := range s.files {
		mux.HandleFunc("GET "+name, func(w http.ResponseWriter, r *http.Request) { s.serveFile(w, r, name, f) })
	}
}

// serveIndex serves the page, with the values of this server in it, so that it can be drawn without further
// requests. It is not cached, because it names the present files.
func (s *Site) serveIndex(w http.ResponseWriter, r *http.Request) {
	registration := "open"
	if s.o.Registration != nil {
		registration = s.o.Registration(r.Context())
	}
	body := 0
	if s.o.BodyBytes != nil {
		body = max(0, s.o.BodyBytes())
	}
	page := strings.NewReplacer("{{name}}", html.EscapeString(s.o.Name), "{{registration}}",
		html.EscapeString(registration), "{{body-bytes}}", strconv.Itoa(body)).Replace(s.index)
	h := w.Header()
	h.Set("Content-Security-Policy", s.policy())
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	send(w, r, "text/html; charset=utf-8", []byte(page), tagOf([]byte(page+h.Get("Content-Security-Policy"))))
}

// policy returns the Content-Security-Policy of the page: it may load files of this server, and connect to this
// server and the other nodes. The HTML of the page contains no script and no style.
func (s *Site) policy() string {
	connect := []string{"'self'"}
	if s.o.Gateways != nil {
		for _, g := range s.o.Gateways() {
			if scheme, host, _ := strings.Cut(g, "://"); socketOf[scheme] != "" && isSource(host) {
				connect = append(connect, socketOf[scheme]+"://"+host)
			}
		}
	}
	ancestors := []string{"'none'"}
	if len(s.o.FrameAncestors) > 0 {
		ancestors = s.o.FrameAncestors
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; manifest-src 'self'; worker-src 'self'; " +
		"connect-src " + strings.Join(connect, " ") + "; base-uri 'none'; form-action 'none'; frame-ancestors " +
		strings.Join(ancestors, " ")
}

// socketOf maps the scheme of an address to that of its WebSocket.
var socketOf = map[string]string{"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}

// isSource reports whether a host can stand in a policy: none of its characters ends a directive.
func isSource(host string) bool {
	return host != "" && !strings.ContainsFunc(host, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(".-:[]", c)
	})
}

func (s *Site) serveFile(w http.ResponseWriter, r *http.Request, name string, f file) {
	h := w.Header()
	// These files are the same for everybody. Without the headers no page of another origin could load a module;
	// listen.origins decides which pages may connect.
	if f.forAll {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	if name == workerPath { // the worker fetches for the page, so it has the policy of the page
		h.Set("Content-Security-Policy", s.policy())
	}
	f.serve(w, r)
}

// serve sends the file in the smallest form that the reader accepts.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if f.everLiving {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	content, tag := f.plain, f.tag
	if len(f.gzip) > 0 {
		h.Add("Vary", "Accept-Encoding")
		switch accepted := r.Header.Get("Accept-Encoding"); {
		case len(f.brotli) > 0 && accepts(accepted, "br"):
			h.Set("Content-Encoding", "br")
			content, tag = f.brotli, `"br-`+tag[1:]
		case accepts(accepted, "gzip"):
			h.Set("Content-Encoding", "gzip")
			content, tag = f.gzip, `"gzip-`+tag[1:]
		}
	}
	send(w, r, f.kind, content, tag)
}

// accepts reports whether a header Accept-Encoding names a coding, and does not exclude it with q=0.
func accepts(header, coding string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, rest, _ := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		_, weight, given := strings.Cut(rest, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
		return !given || err == nil && q > 0
	}
	return false
}

func send(w http.ResponseWriter, r *http.Request, kind string, content []byte, tag string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("ETag", tag)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content) // an error means that the reader is gone
}
