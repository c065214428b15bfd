package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// call is one request on its way.
type call struct {
	id     string
	remote netip.Addr // of the caller; the zero value: not known
	inside bool       // it came to the address of operators
	caller *caller    // set by a session, else by the gate
	stream *stream    // of HTTP/2; nil: it has none
	err    *im.Error  // how it ended, if it was refused

	leaveQueue func() // gives its turn among the calls of users to another; nil: it has had none

	changes []audit.Detail // what it has changed, for the audit log: see changed

	refused   *caller   // whom the gate did not let past, if it knows; else nil
	counted   int       // bytes of its body that the pace of its user has taken
	overdrawn *im.Error // its body was too much, with all others under way or before; else nil
	answer    int       // bytes that its answer was counted with, until it is written
	reached   bool      // our code was: what Connect found before that is about what the caller sent
}

type callKey struct{}

// callOf is the call of a context. A context without one belongs to no request.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// changed has the audit log say what a call has changed: a value before and after it. What
// is the same is left out.
func changed(ctx context.Context, name, before, after string) {
	if before != after {
		c := callOf(ctx)
		c.changes = append(c.changes, audit.Detail{Name: "before." + name, Value: before},
			audit.Detail{Name: "after." + name, Value: after})
	}
}

// serve is around everything that is served on HTTP but the WebSocket: it names
// the request, refuses secrets in the URL, and gives the errors that Connect
// finds by itself the form of all others. Other requests go to next.
// Spec: P-12.2, P-12.3.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, on Listener, next http.Handler) {
	c := &call{id: randomID(), remote: addrOf(r.RemoteAddr), inside: on == Inside}
	w.Header().Set("Request-Id", c.id)
	leaveStream, ok := s.enterStream(on, w, r, c)
	if !ok {
		refuseStream(w)
		return
	}
	defer leaveStream()
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	a := &answer{ResponseWriter: w, begun: c.leave, refuses: func() { s.slowRefusals(r, c) }}
	defer c.leave()
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.log.ErrorContext(r.Context(), "request panicked", "req", c.id, "err", fmt.Sprint(p), "stack",
				string(debug.Stack()))
			s.refuse(a, r, &im.Error{Code: im.CodeInternal, Request: c.id})
		}
	}()
	m, known := table[strings.TrimPrefix(r.URL.Path, "/")]
	switch {
	case wire.SecretInQuery(r.URL.RawQuery):
		s.refuse(a, r, im.Errorf(im.CodeTokenInURL,
			"the URL has a token in it, which would end up in logs; send it in the header Authorization"))
	case known && s.turnedAway(on, &m) != nil:
		s.refuse(a, r, s.turnedAway(on, &m))
	case known && !m.forOperators() && s.o.Stopping():
		w.Header().Set("Connection", "close") // the next call of this client, or proxy, goes elsewhere
		s.refuse(a, r, &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second})
	case known:
		w.Header().Set("Cache-Control", "no-store") // there are tokens in answers, and messages
		if m.slow {
			// An error means that the connection cannot; the time is up then as for others.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}
		leave, err := s.admit(w, r, m)
		if err != nil {
			s.refuse(a, r, s.asCode(r.Context(), r.URL.Path, err))
			return
		}
		defer leave()
		defer s.releaseAnswer(c)
		if follows(&m, r.Header) {
			s.follow(w, r, leave)
			return
		}
		s.invoke(a, r)
	case strings.HasPrefix(r.URL.Path, "/petrel."):
		s.refuse(a, r, &im.Error{Code: im.CodeNoMethod})
	default:
		next.ServeHTTP(w, r)
	}
}

// invoke serves a method.
func (s *Server) invoke(a *answer, r *http.Request) {
	a.ours, a.read = true, &requestBody{ReadCloser: r.Body}
	r.Body = a.read
	s.services.ServeHTTP(a, r)
	c := callOf(r.Context())
	c.leave()
	if (a.held || c.err != nil) && a.refuses != nil {
		a.refuses()
	}
	s.finish(a, r)
	if r.ProtoMajor == 2 {
		// The answer waits here for a client that reads nothing, while it counts. An error means
		// that the connection is over.
		_ = http.NewResponseController(a.ResponseWriter).Flush()
	}
}

// refuse ends a request with e in the protocol it came in.
func (s *Server) refuse(a *answer, r *http.Request, e *im.Error) {
	if a.wrote {
		return // it has an answer, or a part of one
	}
	if !a.ours && a.refuses != nil { // of a call, invoke has waited
		a.refuses()
	}
	callOf(r.Context()).err = e
	s.count(r.Context(), e)
	a.drop()
	_ = s.errors.Write(a, r, asConnect(e)) // the caller is gone otherwise
	a.complete(e)
}

// requestBody remembers why a body could not be read to its end.
type requestBody struct {
	io.ReadCloser
	err error
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// answer is the answer to a call. It gives errors the status of the catalogue.
// It holds back errors that are none of ours, for finish to replace, and those in
// JSON, for complete to say more.
type answer struct {
	http.ResponseWriter
	ours   bool         // the request is a call
	read   *requestBody // of a call
	wrote  bool         // the status has left
	held   bool         // an error of Connect's own is being held back
	inJSON bool         // an error of ours is, in the JSON of Connect
	kept   int          // its status
	status int          // 0: that of the code
	body   bytes.Buffer // and its body
	begun  func()       // called before anything of it leaves; nil: nothing is

	refuses func() // called before a refusal ends; nil: nothing is
}

// Unwrap gives http.ResponseController what is below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader begins the answer.
func (a *answer) WriteHeader(status int) {
	if a.wrote || a.held || a.inJSON {
		return
	}
	code := im.Code(a.Header().Get(errorHeader))
	if a.ours && status >= 400 && code == "" {
		a.held, a.kept = true, status
		return
	}
	switch {
	case a.status != 0:
		status = a.status
	case status >= 400 && code != "":
		status = code.Info().HTTP
	}
	if status >= 400 && code != "" && a.Header().Get("Content-Type") == "application/json" {
		a.inJSON, a.kept = true, status
		return
	}
	a.wrote = true
	if a.begun != nil {
		a.begun()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer.
func (a *answer) Write(b []byte) (int, error) {
	if a.held || a.inJSON {
		return a.body.Write(b)
	}
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// Flush sends what was written. A gRPC answer that is only an error is not: its
// trailers are looked at first.
func (a *answer) Flush() {
	if a.wrote {
		_ = http.NewResponseController(a.ResponseWriter).Flush() // best effort, as net/http does
	}
}

// drop forgets an answer that has not left.
func (a *answer) drop() {
	a.held, a.inJSON, a.ours = false, false, false
	a.body.Reset()
	for k := range a.Header() {
		if strings.HasPrefix(k, http.TrailerPrefix) || strings.HasPrefix(k, "Grpc-") || k == "Content-Type" ||
			k == "Content-Encoding" || k == "Trailer" {
			a.Header().Del(k)
		}
	}
}

// finish replaces an error that Connect has found by itself.
func (s *Server) finish(a *answer, r *http.Request) {
	code, message, found := a.refusal()
	if !found {
		a.complete(callOf(r.Context()).err)
		return
	}
	var e *im.Error
	switch {
	case callOf(r.Context()).overdrawn != nil:
		e = callOf(r.Context()).overdrawn
	case a.kept == http.StatusMethodNotAllowed:
		a.status, e = a.kept, im.Errorf(im.CodeInvalid, "a call must be a POST")
	case a.kept == http.StatusUnsupportedMediaType:
		a.status, e = a.kept, im.Errorf(im.CodeInvalid,
			"the content type %.100q is not known here; for JSON send application/json", r.Header.Get("Content-Type"))
	default:
		if code == connect.CodeResourceExhausted {
			e = tooLarge(bodyLimit(table[strings.TrimPrefix(r.URL.Path, "/")]))
		} else if a.read.err != nil { // of HTTP: a chunk without a length, for example, or a peer that is gone
			e = im.Errorf(im.CodeInvalid, "the body of the request cannot be read to its end")
		} else if e = ofConnect(code, message); e == nil && !callOf(r.Context()).reached {
			e = im.Errorf(im.CodeInvalid, "%s", message)
		} else if e == nil {
			e = s.asCode(r.Context(), r.URL.Path, fmt.Errorf("%s: %s", code, message))
		}
	}
	s.refuse(a, r, e)
}

// refusal is an error of Connect's own, if the answer is one.
func (a *answer) refusal() (code connect.Code, message string, found bool) {
	if a.held {
		var body struct {
			Code    connect.Code `json:"code"`
			Message string       `json:"message"`
		}
		if json.Unmarshal(a.body.Bytes(), &body) != nil {
			body.Code = connect.CodeInvalidArgument // without a body: it was no call
		}
		return body.Code, body.Message, true
	}
	// gRPC says how a call ended in trailers, which are headers until they leave.
	for _, prefix := range []string{"", http.TrailerPrefix} {
		h := func(name string) string { return a.Header().Get(prefix + name) }
		if n, err := strconv.Atoi(h("Grpc-Status")); err == nil && n != 0 && h(errorHeader) == "" {
			message, err := url.PathUnescape(h("Grpc-Message"))
			if err != nil {
				message = ""
			}
			return connect.Code(n), message, true
		}
	}
	return 0, "", false
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
