package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/im"
)

// Request is one kind of question that a node asks another node, or itself. Question and answer are messages of a
// schema, so a node of an older release skips the fields that it does not know. An answer of more than MaxMessage
// becomes an error with the code internal.
type Request[Q, A proto.Message] struct {
	Subject Subject
	Timeout time.Duration // of Ask, unless the context ends before
}

// Reply is what one node has answered.
type Reply[A proto.Message] struct {
	Node   im.Node
	Answer A
	Err    error
}

// Serve makes f answer the requests of this kind. It is called once for each kind, before the bus runs. f must
// not block.
func (r Request[Q, A]) Serve(b Bus, f func(from im.Node, q Q) (A, error)) {
	r.ServeLater(b, func(from im.Node, q Q, reply func(A, error)) { reply(f(from, q)) })
}

// ServeLater is Serve for answers that take time: f returns at once, and reply is called once later, by any
// goroutine.
func (r Request[Q, A]) ServeLater(b Bus, f func(from im.Node, q Q, reply func(A, error))) {
	b.Handle(r.Subject, func(from im.Node, payload []byte, send func([]byte)) {
		reply := func(a A, err error) {
			if send != nil {
				send(encodeReply(r.Subject, a, err))
			}
		}
		q := empty[Q]()
		if err := unmarshal(payload, q); err != nil {
			var none A
			reply(none, fmt.Errorf("read request %s of %s: %w", r.Subject, from, err))
			return
		}
		f(from, q, reply)
	})
}

// Ask returns the answer of a node. If the node answers with an error, that is an *im.Error. After any other
// error it is unknown whether the node has done anything.
func (r Request[Q, A]) Ask(ctx context.Context, b Bus, to im.Node, q Q) (A, error) {
	var none A
	payload, err := marshal(q)
	if err != nil {
		return none, fmt.Errorf("write request %s: %w", r.Subject, err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if payload, err = b.Request(ctx, to, r.Subject, payload); err != nil {
		return none, fmt.Errorf("ask %s for %s: %w", to, r.Subject, err)
	}
	var reply buspb.Reply
	if err := reply.UnmarshalVT(payload); err != nil {
		return none, fmt.Errorf("read answer %s of %s: %w", r.Subject, to, err)
	}
	if e := reply.Error; e != nil {
		return none, &im.Error{
			Code: im.Code(e.Code), Message: e.Message, RetryAfter: time.Duration(e.RetryAfterMs) * time.Millisecond,
			Head: im.Seq(e.Head), From: im.Seq(e.From), To: im.Seq(e.To), User: im.User(e.User),
			Request: e.Request,
		}
	}
	a := empty[A]()
	if err := unmarshal(reply.Answer, a); err != nil {
		return none, fmt.Errorf("read answer %s of %s: %w", r.Subject, to, err)
	}
	return a, nil
}

// AskAll asks all nodes at the same time, and returns their answers in the order of nodes.
func (r Request[Q, A]) AskAll(ctx context.Context, b Bus, nodes []im.Node, q Q) []Reply[A] {
	replies := make([]Reply[A], len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			a, err := r.Ask(ctx, b, n, q)
			replies[i] = Reply[A]{n, a, err}
		})
	}
	wg.Wait()
	return replies
}

// Nodes returns this node and those that it reaches now.
func Nodes(b Bus) []im.Node { return append(b.Peers(), b.Self()) }

func encodeReply(s Subject, a proto.Message, err error) []byte {
	reply := &buspb.Reply{}
	if err == nil {
		reply.Answer, err = marshal(a)
	}
	if n := len(reply.Answer); err == nil && n > MaxMessage-replyHead {
		err = fmt.Errorf("answer %s: %d bytes: %w", s, n, ErrTooLarge)
	}
	if err != nil {
		e, ok := errors.AsType[*im.Error](err)
		if !ok {
			e = &im.Error{Code: im.CodeInternal, Message: err.Error()}
		}
		reply = &buspb.Reply{Error: &buspb.Error{
			Code: string(e.Code), Message: e.Message, RetryAfterMs: uint64(e.RetryAfter.Milliseconds()),
			Head: uint64(e.Head), From: uint64(e.From), To: uint64(e.To), User: string(e.User),
			Request: e.Request,
		}}
	}
	b, err := reply.MarshalVT()
	im.Assert(err == nil, "a reply does not encode")
	return b
}

// replyHead is the largest size of a reply without its answer, in bytes.
const replyHead = 16

// empty returns a new message of a generated type.
func empty[M proto.Message]() M {
	var none M
	m, ok := none.ProtoReflect().Type().New().Interface().(M)
	im.Assert(ok, "type %T is not generated", none)
	return m
}

// marshal and unmarshal use the generated code without reflection, if the message has it.

func marshal(m proto.Message) ([]byte, error) {
	if fast, ok := m.(interface{ MarshalVT() ([]byte, error) }); ok {
		return fast.MarshalVT()
	}
	return proto.Marshal(m)
}

func unmarshal(b []byte, m proto.Message) error {
	if fast, ok := m.(interface{ UnmarshalVT([]byte) error }); ok {
		return fast.UnmarshalVT(b)
	}
	return proto.Unmarshal(b, m)
}
