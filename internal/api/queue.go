package api

import (
	"context"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// enterQueue has a call of a user over HTTP wait for its turn among the calls of all users, which
// those over connections do before they come here. It has its turn from the end of its body until
// its answer begins: a client that writes or reads slowly takes none. Codes: overloaded.
func (s *Server) enterQueue(ctx context.Context) error {
	c := callOf(ctx)
	c.stream.waits(false)
	if s.o.Calls == nil || c.leaveQueue != nil || c.caller == nil || c.caller.anonymous() || c.caller.key != nil {
		return nil
	}
	leave, ok := s.o.Calls.Enter(ctx, c.caller.identity.Account)
	if !ok {
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	c.leaveQueue = leave
	return nil
}

// leave lets other calls have their turns: the answer begins. It may be called more than once.
func (c *call) leave() {
	c.stream.waits(true)
	if c.leaveQueue != nil {
		c.leaveQueue()
	}
}
