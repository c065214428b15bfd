package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// call is one request.
type call struct {
	id     string
	remote netip.Addr // of the caller; the zero value: not known
	inside bool       // it came to the address of operators
	caller *caller    // set by Call for a session, else by the gate
	stream *stream    // of HTTP/2; nil: it has none
	err    *im.Error  // why it was refused; nil: it was not

	leaveQueue func() // passes on its turn among the calls of users; nil: it has not had one

	changes []audit.Detail // what it has changed, for the audit log: see recordChange

	refused   *caller   // the caller whom the gate refused; nil: none, or not known
	counted   int       // bytes of its body that the pace of its user has taken
	overdrawn *im.Error // why its body was not read, or it got no turn; else nil
	answer    int       // bytes reserved for its answer until that is written
	reached   bool      // our code was reached: errors that Connect found earlier are about the request
}

type callKey struct{}

// callOf returns the call of a context. A context without one belongs to no request.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// recordChange records, for the audit log, a value before and after the call. Equal values are left out.
func recordChange(ctx context.Context, name, before, after string) {
	if before != after {
		c := callOf(ctx)
		c.changes = append(c.changes, audit.Detail{Name: "before." + name, Value: before},
			audit.Detail{Name: "after." + name, Value: after})
	}
}

// serve handles all HTTP requests but those for the WebSocket. It gives each an id, refuses secrets in the URL,
// and gives errors of Connect the form of all others. A request that calls no method goes to next. Spec: P-12.2,
// P-12.3.
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
	a := &answer{ResponseWriter: w, begun: c.leave, refuses: func() { s.delayRefusal(r, c) }}
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
	case known && s.rejectReason(on, &m) != nil:
		s.refuse(a, r, s.rejectReason(on, &m))
	case known && !m.forOperators() && s.o.Stopping():
		w.Header().Set("Connection", "close") // so that the client, or proxy, sends its next call elsewhere
		s.refuse(a, r, &im.Error{Code: im.CodeDraining, RetryAfter: 2 * time.Second})
	case known:
		w.Header().Set("Cache-Control", "no-store") // answers have tokens and messages in them
		if m.slow {
			// An error means that the deadline of the connection cannot be changed: then the server's own holds.
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

// invoke serves a call of a method, and completes its answer.
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
		// Flush waits for a slow client, while the answer is still counted. An error means that the connection is
		// over.
		_ = http.NewResponseController(a.ResponseWriter).Flush()
	}
}

// refuse ends a request with e, in the protocol of the request, unless a part of an answer is written.
func (s *Server) refuse(a *answer, r *http.Request, e *im.Error) {
	if a.wrote {
		return // it has an answer, or a part of one
	}
	if !a.ours && a.refuses != nil { // for a call, invoke has called it
		a.refuses()
	}
	callOf(r.Context()).err = e
	s.count(r.Context(), e)
	a.drop()
	_ = s.errors.Write(a, r, asConnect(e)) // the caller is gone otherwise
	a.complete(e)
}

// requestBody keeps the error of a body that could not be read to its end.
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

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
