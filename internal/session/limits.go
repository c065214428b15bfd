package session

// Limits bound what one connection, user or address can make the server hold.
// A negative value means no limit. Spec: P-9.
type Limits struct {
	Connections          int
	ConnectionsPerUser   int
	ConnectionsPerIP     int
	NewPerIPPerSecond    int
	Unauthenticated      int
	UnauthenticatedPerIP int

	SendsPerSecond int // of one session, on average
	SendBurst      int
	WindowSends    int // unanswered, of one connection
	WindowBytes    int
	OutboxBytes    int // waiting for one connection

	FrameBytes            int
	FrameBytesBeforeHello int
	BodyBytes             int
	HistoryMessages       int // of one page
}

// bucket is a token bucket for one session's sends.
type bucket struct {
	tokens float32
	last   int64 // Unix milliseconds
}

// take reports whether a send may pass, and if not, in how many milliseconds
// one may.
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
