package session_test

import (
	"testing"
	"unsafe"

	"github.com/petrel-im/petrel/internal/session"
)

// TestAnIdleSessionIsSmall: with a byte more Go takes 32 bytes more for each connection.
// State that only some sessions use, like signals, is behind a pointer.
func TestAnIdleSessionIsSmall(t *testing.T) {
	t.Parallel()
	const class = 288 // bytes; the objects of one size of Go's heap
	if n := unsafe.Sizeof(session.Session{}); n > class {
		t.Errorf("a session takes %d bytes, want at most %d", n, class)
	}
}
