package session

import "github.com/petrel-im/petrel/internal/conv"

// Limits bound the resources that one connection, user or address can take of the server. A negative value means
// no limit. Spec: P-9.
type Limits struct {
	Connections          int
	ConnectionsPerUser   int
	ConnectionsPerIP     int
	NewPerIPPerSecond    int
	Unauthenticated      int
	UnauthenticatedPerIP int

	SendsPerSecond int // of one session, on average
	SendBurst      int
	WindowSends    int // sends of one connection that have no answer yet
	WindowBytes    int
	OutboxBytes    int // bytes that wait for one connection

	FrameBytesBeforeHello int
	BodyBytes             int // of one text or data; wire.FrameLimit derives the largest frame from it
	HistoryMessages       int // of one page
}

// pageSize returns how many messages a page of the history has at most.
func (l *Limits) pageSize() int {
	if l.HistoryMessages <= 0 || l.HistoryMessages > conv.MaxPage {
		return conv.MaxPage
	}
	return l.HistoryMessages
}

// maxRequests is how many requests of one session may be under way at the same
// time. The welcome names it. Spec: P-2.2.
const maxRequests = 16

// Pings and refused frames of one session, in a second and at once. One token of their bucket
// stands for unmeteredStep of them, so a session that pings now and then needs no bucket.
const (
	unmeteredPerSecond = 100
	unmeteredBurst     = 1000
	unmeteredStep      = 50
	unmeteredBytes     = 4 << 10 // each 4 KiB of such a frame count as a further frame: an event loop decodes them
)

// maxMoves is how many moves of cursors of one session may be unanswered. A client
// may mark many conversations as read at once, and each move can take a second.
const maxMoves = 256

// maxFocus is how many conversations a focus may name.
const maxFocus = 1000
