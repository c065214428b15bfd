package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// awaitPace counts so many bytes of the body of a call of a user over HTTP, which waits if it comes
// early. Codes: rate_limited.
func (s *Server) awaitPace(ctx context.Context, c *call, bytes int) *im.Error {
	if !c.ofUser() {
		return nil
	}
	c.counted = max(bytes, rate.PerToken)
	wait, err := s.o.Pace.Take(s.o.Now(), c.caller.identity.Account, bytes)
	pause(ctx, wait)
	return err
}

// lengthOf is how many bytes a body will have; 0: that is not said.
func lengthOf(h http.Header) int {
	n, err := strconv.Atoi(h.Get("Content-Length"))
	if err != nil || n > maxRequestBytes { // which is refused
		return 0
	}
	return n
}

// pause waits, unless nobody waits for the answer any more.
func pause(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// countBytes has the next calls of a user wait for what a large request or answer costs.
func (s *Server) countBytes(c *call, bytes int) {
	if c.caller.key == nil && !c.caller.anonymous() {
		s.o.Pace.AddBytes(s.o.Now(), c.caller.identity.Account, bytes)
	}
}

// slowRefusals has a refusal wait, for up to a second, if many of its address have come before it:
// a client that asks again at once asks less often. Those of admin keys and of operators do not wait.
func (s *Server) slowRefusals(r *http.Request, c *call) {
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
