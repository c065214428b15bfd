// Package way watches one message on its way through a server of one node, and
// holds docs/architecture.md to what it sees.
//
// The way are the functions of internal/ that run, or wait on the stack of one
// that runs, from the moment a client in a direct conversation with another one
// sends a message until the other one has it and the first one has its ack; the
// conversation is in memory, and both clients are connected by plain WebSocket.
// To see them, the test builds a copy of the server in which every function
// begins with a note of its stack (go test -overlay; the server itself has no
// hook), sends many messages one after the other, and keeps what happens for
// each of them, so that sweepers and heartbeats are left out; so are goroutines
// that do the same while no message is sent. Generated code is not looked at.
//
// A leg is what one function at the bottom of a goroutine's stack does; from each
// leg to the next one the message is handed over.
//
// go test -v -run Page ./test/way prints what is seen.
package way
