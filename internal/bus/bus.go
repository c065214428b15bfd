// Package bus is the contract of the transport between nodes. It carries no
// truth: anything it loses is noticed by the stream numbers of the packages
// that use it, and repaired from the store. bus/localbus implements it inside
// one process; bustest decides whether an implementation is one.
package bus

import (
	"context"
	"errors"

	"github.com/petrel-im/petrel/internal/im"
)

// ErrNoNode is returned for a node that is not there.
var ErrNoNode = errors.New("no such node")

// MaxMessage is the largest payload in bytes.
const MaxMessage = 1 << 20

// Subject tells a node which of its handlers a message is for.
type Subject string

// Bus connects one node to the others and to itself.
type Bus interface {
	// Self is this node; Peers are the others that are reachable now.
	Self() im.Node
	Peers() []im.Node

	// Send hands a message to a node, itself included, without waiting for
	// it. It may be lost; messages of one sender to one node and subject that
	// arrive, arrive in order. payload may be reused on return.
	Send(to im.Node, s Subject, payload []byte) error

	// Request sends and waits for the handler's answer, until ctx ends. An
	// error of Request leaves open whether the handler ran.
	Request(ctx context.Context, to im.Node, s Subject, payload []byte) ([]byte, error)

	// Handle sets the handler of a subject; it is called once for each
	// subject, before Run. The handler runs on a goroutine of the bus, one
	// message of a sender at a time; reply is nil for a Send. payload is valid
	// during the call.
	Handle(s Subject, h func(from im.Node, payload []byte) (reply []byte))

	// Run delivers until ctx ends.
	Run(ctx context.Context) error
}
