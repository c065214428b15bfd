// Package bus is the contract of the transport between nodes, which may lose messages. A receiver notices a loss
// by the frame numbers of bus/stream, and a caller by the missing answer; the store has the data itself. Clusters
// run on bus/natsbus. bus/localbus is the bus inside one process, for tests and for a cluster of one node.
// bustest has the tests that every implementation must pass.
package bus

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
)

// ErrNoNode is returned for a node that cannot be reached.
var ErrNoNode = errors.New("no such node")

// ErrTooLarge is returned for a payload, or an answer, of more than MaxMessage.
var ErrTooLarge = errors.New("too large")

// MaxMessage is the largest payload, and the largest answer, in bytes: with what
// a bus adds it fits into the 1 MiB that a NATS server takes by default.
const MaxMessage = 1<<20 - 1<<10

// Subject tells a node which of its handlers a message is for.
type Subject string

// Handler serves the messages of a subject. It runs on a goroutine of the bus, for one message of a sender at a
// time. It owns payload. For a Send reply is nil. For a Request the handler, or any goroutine later, may call
// reply once, which takes over its argument.
type Handler func(from im.Node, payload []byte, reply func([]byte))

// Answering makes a Handler of a function that returns its answer.
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

	// Send sends a message to a node, also to this one, and does not wait for it. The message may be lost. Of one
	// sender, messages to the same node and subject do not overtake each other. payload may be reused on return.
	Send(to im.Node, s Subject, payload []byte) error

	// Request sends a message and waits for the handler's answer, until ctx ends. A subject without a handler has
	// an empty answer at once. After an error of Request it is unknown whether the handler ran.
	Request(ctx context.Context, to im.Node, s Subject, payload []byte) ([]byte, error)

	// Handle sets the handler of a subject. It is called before Run, once for each subject.
	Handle(s Subject, h Handler)

	// Run delivers messages until ctx ends.
	Run(ctx context.Context) error
}
