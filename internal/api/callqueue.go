package api

import (
	"context"

	"github.com/petrel-im/petrel/internal/im"
)

// ofUser reports whether a call of a user came over HTTP and has not had its turn. Calls over connections have
// had theirs.
func (c *call) ofUser() bool {
	return c.leaveQueue == nil && c.caller != nil && !c.caller.anonymous() && c.caller.key == nil
}

// begin makes a call of a user over HTTP wait for its turn among the calls of all users; calls over connections
// have had theirs. The turn lasts from the end of the body until the answer begins, so a client that writes or
// reads slowly does not hold one. A large body whose length was not announced first waits for the pace of its
// user. nil: the call has its turn, or needs none. Codes: overloaded, rate_limited.
func (s *Server) begin(ctx context.Context, c *call, body int) *im.Error {
	if more := body - c.counted; c.ofUser() && more > 0 {
		if err := s.awaitPace(ctx, c, more); err != nil {
			return err
		}
	}
	c.stream.waits(false)
	if s.o.Calls == nil || !c.ofUser() {
		return nil
	}
	leave, ok := s.o.Calls.Enter(ctx, c.caller.identity.Account)
	if !ok {
		return overloaded()
	}
	c.leaveQueue = leave
	return nil
}

// leave passes the turn on when the answer begins. From then on the stream waits for its client. It may be called
// more than once.
func (c *call) leave() {
	c.stream.waits(true)
	if c.leaveQueue != nil {
		c.leaveQueue()
	}
}
