// Package chat is the terminal client behind `petrel chat`: a screen of
// conversations and messages on the Go SDK, and a plain mode of lines for pipes.
//
// The client knows, the view shows: whatever changed, the view reads a snapshot
// and draws it. It holds nothing of the protocol.
package chat
