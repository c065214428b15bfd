package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// awaitPace counts bytes of the body of a user's call over HTTP, and delays a call that comes too early.
// Codes: rate_limited.
func (s *Server) awaitPace(ctx context.Context, c *call, bytes int) *im.Error {
	if !c.ofUser() {
		return nil
	}
	c.counted = max(bytes, rate.PerToken)
	wait, err := s.o.Pace.Take(s.o.Now(), c.caller.identity.Account, bytes)
	pause(ctx, wait)
	return err
}

// lengthOf returns the announced length of a body; 0: there is none, or it is too large and will be refused.
func lengthOf(h http.Header) int {
	n, err := strconv.Atoi(h.Get("Content-Length"))
	if err != nil || n > maxRequestBytes { // a longer body is refused
		return 0
	}
	return n
}

// pause waits until the time is over or the caller has gone.
func pause(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// countBytes delays the next calls of a user by the cost of an answer of so many bytes.
func (s *Server) countBytes(c *call, bytes int) {
	if c.caller.key == nil && !c.caller.anonymous() {
		s.o.Pace.AddBytes(s.o.Now(), c.caller.identity.Account, bytes)
	}
}

// delayRefusal delays a refusal by up to a second if its address has had many. So a client that retries at once
// retries less often. It does not delay refusals on listen.admin, nor those to a caller whom the gate has let in
// with an admin key.
func (s *Server) delayRefusal(r *http.Request, c *call) {
	if c.inside || c.caller != nil && c.caller.key != nil {
		return
	}
	n := s.o.StrangersPerSecond
	l := rate.Per(n, time.Second, strangerBurst*n)
	wait := s.admission.refusals.Reserve(s.o.Now(), time.Second, c.remote, l)
	if wait > time.Second {
		wait = rate.Late()
	}
	pause(r.Context(), wait)
}
