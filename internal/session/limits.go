package session

import "github.com/petrel-im/petrel/internal/conv"

// Limits bound what one connection, user or address can make the server hold. A
// negative value means no limit. Spec: P-9.
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

	FrameBytes            int
	FrameBytesBeforeHello int
	BodyBytes             int
	HistoryMessages       int // of one page
}

// pageSize is how many messages a page of the history has at most.
func (l *Limits) pageSize() int {
	if l.HistoryMessages <= 0 || l.HistoryMessages > conv.MaxPage {
		return conv.MaxPage
	}
	return l.HistoryMessages
}

// maxRequests is how many requests of one session may be under way at the same
// time.
const maxRequests = 16

// maxMoves is how many moves of cursors of one session may be unanswered. A client
// may mark many conversations as read at once, and each move can take a second.
const maxMoves = 256

// maxFocus is how many conversations a focus may name.
const maxFocus = 1000

// bucket is a token bucket for the sends of one session.
type bucket struct {
	tokens float32
	last   int64 // Unix milliseconds
}

// take returns whether a send may pass, and if not, in how many milliseconds one
// may.
func (b *bucket) take(nowMs int64, perSecond, burst int) (bool, int64) {
	if perSecond < 0 || burst < 0 {
		return true, 0
	}
	if b.last == 0 {
		b.tokens = float32(burst)
	} else if nowMs > b.last {
		b.tokens = min(float32(burst), b.tokens+float32(nowMs-b.last)*float32(perSecond)/1000)
	}
	b.last = nowMs
	if b.tokens >= 1 {
		b.tokens--
		return true, 0
	}
	return false, int64((1-b.tokens)*1000/float32(max(perSecond, 1))) + 1
}
