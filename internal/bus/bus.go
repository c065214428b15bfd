// Package bus is the contract of the transport between nodes, which may lose messages. Receivers
// notice a loss by the numbers of the streams of bus/stream, callers by a missing answer, and the
// store has the truth. Clusters run on bus/natsbus. bus/localbus is a bus inside one process, of
// tests and of a cluster of one node. bustest decides whether an implementation is one.
package bus

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
)

// ErrNoNode is returned for a node that is not there.
var ErrNoNode = errors.New("no such node")

// ErrTooLarge is returned for a payload, or an answer, of more than MaxMessage.
var ErrTooLarge = errors.New("too large")

// MaxMessage is the largest payload, and the largest answer, in bytes: with what
// a bus adds it fits into the 1 MiB that a NATS server takes by default.
const MaxMessage = 1<<20 - 1<<10

// Subject tells a node which of its handlers a message is for.
type Subject string

// Handler serves the messages of a subject. It runs on a goroutine of the bus,
// one message of a sender at a time. payload is the handler's. reply is nil for a
// Send; for a Request it may be called once, later too, from any goroutine, and
// takes its argument over.
type Handler func(from im.Node, payload []byte, reply func([]byte))

// Answering makes a Handler of a function that has its answer at once.
func Answering(f func(from im.Node, payload []byte) []byte) Handler {
	return func(from im.Node, payload []byte, reply func([]byte)) {
		if r := f(from, payload); reply != nil {
			reply(r)
		}
	}
}

// Bus connects one node to the others and to itself.
type Bus interface {
	// Self is this node; Peers are the others that are reachable now.
	Self() im.Node
	Peers() []im.Node

	// Send hands a message to a node, itself included, without waiting for
	// it. It may be lost; messages of one sender to one node and subject that
	// arrive, arrive in order. payload may be reused on return.
	Send(to im.Node, s Subject, payload []byte) error

	// Request sends and waits for the handler's answer, until ctx ends. A
	// subject without a handler answers at once, with nothing. An error of Request leaves
	// open whether the handler ran.
	Request(ctx context.Context, to im.Node, s Subject, payload []byte) ([]byte, error)

	// Handle sets the handler of a subject; it is called once for each
	// subject, before Run.
	Handle(s Subject, h Handler)

	// Run delivers until ctx ends.
	Run(ctx context.Context) error
}
