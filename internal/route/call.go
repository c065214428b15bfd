package route

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/stream"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/route/routepb"
	"github.com/petrel-im/petrel/internal/store"
)

const maxCalls = 256 // of other nodes, served at a time

var calls = bus.Request[*routepb.Call, *routepb.Answer]{Subject: "conv.call", Timeout: callTime}

// message is a pointer to T, and a message of the schema.
type message[T any] interface {
	*T
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// caller asks other nodes, and answers them.
type caller struct {
	owners
	bus       bus.Bus
	streams   *stream.Streams
	nodes     *fanout.Nodes
	questions map[string]question // by name: those that this node answers
	serving   *tasks              // the calls of other nodes
}

// question is a kind of question, with the function that answers it to other nodes.
type question struct {
	name   string // of the message that asks
	answer func(ctx context.Context, o *owners, by conv.Query, request []byte) ([]byte, error)
}

// byName makes the table of questions. No two may have the same name, by
// which a call of another node says what it asks.
func byName(list []question) map[string]question {
	all := map[string]question{}
	for _, q := range list {
		_, twice := all[q.name]
		im.Assert(!twice, "two questions are called %s", q.name)
		all[q.name] = q
	}
	return all
}

// nameOf returns the name of a question, and checks that the table has it. A forgotten
// question would otherwise be answered on one node, and fail only between nodes.
func (c *caller) nameOf(question reflect.Type) string {
	_, ok := c.questions[question.Name()]
	im.Assert(ok, "question %s is not in Router.answers", question.Name())
	return question.Name()
}

// ofOwner makes a question that a method of conv.Owner answers.
func ofOwner[Q, A any, PQ message[Q], PA message[A]](f func(*conv.Owner, context.Context, conv.Query, PQ) (PA,
	error)) question {
	return ofNode(func(ctx context.Context, o *owners, by conv.Query, q PQ) (PA, error) {
		ow, err := o.here(ctx, o.convs.FeedOf(by.Conv.Conv))
		if err != nil {
			return nil, err
		}
		return f(ow, ctx, by, q)
	})
}

// ofNode makes a question that f answers, without a look-up of an Owner.
func ofNode[Q, A any, PQ message[Q], PA message[A]](f func(context.Context, *owners, conv.Query, PQ) (PA,
	error)) question {
	return question{reflect.TypeFor[Q]().Name(), func(ctx context.Context, o *owners, by conv.Query,
		request []byte) ([]byte, error) {
		q := PQ(new(Q))
		if err := q.UnmarshalVT(request); err != nil {
			return nil, fmt.Errorf("read question %T: %w", q, err)
		}
		a, err := f(ctx, o, by, q)
		if err != nil {
			return nil, err
		}
		return a.MarshalVT()
	}}
}

// ask calls f on the Owner here, or asks the node that owns the conversation, and repeats that until there is an
// answer or ctx ends.
func ask[Q, A any, PQ message[Q], PA message[A]](ctx context.Context, c *caller, by conv.Query,
	f func(*conv.Owner, context.Context, conv.Query, PQ) (PA, error), q PQ) (PA, error) {
	c.nameOf(reflect.TypeFor[Q]())
	feed := c.convs.FeedOf(by.Conv.Conv)
	for {
		var a PA
		ow, err := c.here(ctx, feed)
		if err == nil {
			a, err = f(ow, ctx, by, q)
		}
		if errors.Is(err, conv.ErrNotOwner) {
			a, err = request[Q, A, PQ, PA](ctx, c, feed, by, q)
		}
		if !errors.Is(err, conv.ErrNotOwner) {
			return a, conv.Shown(err)
		}
		if err := c.wait(ctx, feed); err != nil {
			return nil, err
		}
	}
}

// request asks the node that owns a feed. ErrNotOwner: there is no such node, it is not the owner,
// or it did not answer.
func request[Q, A any, PQ message[Q], PA message[A]](ctx context.Context, c *caller, f store.Feed, by conv.Query,
	q PQ) (PA, error) {
	name := c.nameOf(reflect.TypeFor[Q]())
	node, _, ok := c.elsewhere(f)
	if !ok {
		return nil, conv.ErrNotOwner
	}
	payload, err := q.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("write question %T: %w", q, err)
	}
	if payload, err = c.call(ctx, node, &routepb.Call{
		Tenant: uint32(by.Conv.Tenant), Conv: by.Conv.Conv[:], User: string(by.User), Question: name, Request: payload,
	}); err != nil {
		return nil, err
	}
	a := PA(new(A))
	if err := a.UnmarshalVT(payload); err != nil {
		return nil, fmt.Errorf("read answer %T of %s: %w", a, node, err)
	}
	return a, nil
}

// call sends a call and returns the answer. ErrNotOwner: the node does not own the feed, or did not answer.
func (c *caller) call(ctx context.Context, to im.Node, m *routepb.Call) ([]byte, error) {
	// The owner answers when it has applied the announcement of every session in the online table
	// here. Otherwise an entry that is committed between the answer and the announcement would be
	// neither in the answer nor pushed.
	mark := c.nodes.Mark(to)
	m.Mark = &routepb.Mark{Stream: mark.Stream, Num: mark.Num}
	a, err := calls.Ask(ctx, c.bus, to, m)
	if e, answered := errors.AsType[*im.Error](err); answered && e.Code != codeNotOwner {
		return nil, e
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, conv.ErrNotOwner)
	}
	return a.Answer, nil
}

// receive answers a call of another node, in a task.
func (c *caller) receive(from im.Node, m *routepb.Call, reply func(*routepb.Answer, error)) {
	if len(m.Conv) != len(im.ConvID{}) {
		reply(nil, c.outside(fmt.Errorf("read call of %s: a conversation of %d bytes", from, len(m.Conv))))
		return
	}
	began := c.serving.start(callTime, func(ctx context.Context) {
		a, err := c.serve(ctx, from, m)
		switch {
		case errors.Is(err, conv.ErrNotOwner), err != nil && errors.Is(ctx.Err(), context.Canceled): // this node ends
			err = errNotOwner()
		case err != nil:
			err = c.outside(err)
		}
		reply(&routepb.Answer{Answer: a}, err)
	})
	switch {
	case began:
	case c.serving.life.Err() != nil:
		reply(nil, errNotOwner())
	default:
		reply(nil, errBusy())
	}
}

// codeNotOwner says that a node does not own the feed of a call. It stays between nodes.
const codeNotOwner im.Code = "not_owner"

func errNotOwner() *im.Error { return &im.Error{Code: codeNotOwner} }

func errBusy() *im.Error {
	return &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
}

// outside returns err as a caller on another node sees it, and logs errors that are not meant for callers.
func (c *caller) outside(err error) *im.Error {
	if e, ok := errors.AsType[*im.Error](conv.Shown(err)); ok {
		return e
	}
	c.log.Error("answer call failed", "err", err)
	return &im.Error{Code: im.CodeInternal}
}

// serve answers a call. First it waits until the announcements of the
// asking node up to the call's mark have been applied, see call.
func (c *caller) serve(ctx context.Context, from im.Node, m *routepb.Call) ([]byte, error) {
	if b := m.Mark; b != nil {
		if err := c.streams.WaitApplied(ctx, from, stream.Mark{Stream: b.Stream, Num: b.Num}); err != nil {
			return nil, conv.ErrNotOwner
		}
	}
	q, ok := c.questions[m.Question]
	if !ok {
		return nil, fmt.Errorf("serve question %s: this node does not know it", m.Question)
	}
	by := conv.Query{Conv: im.Key{Tenant: im.Tenant(m.Tenant), Conv: im.ConvID(m.Conv)}, User: im.User(m.User),
		Node: from}
	return q.answer(ctx, &c.owners, by, m.Request)
}
