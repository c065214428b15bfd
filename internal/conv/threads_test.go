package conv

import (
	"testing"

	"github.com/petrel-im/petrel/internal/im"
)

// A thread that a commit under way adds to stays in memory: the store does not have all
// of it yet.
func TestThreadsUnderWayStayInMemory(t *testing.T) {
	known := threads{1: {size: 7, pos: 3}, 2: {size: 8, pos: 4}}
	read := threads{}
	for q := range im.Seq(maxThreads) {
		read[10+q] = thread{}
	}
	known.add(read, 3)
	if _, ok := known[1]; ok || known[2].size != 8 || len(known) != maxThreads+1 {
		t.Errorf("of %d threads the one that is durable stays: %t, and the other has %d messages; want it to go, and 8", len(known), ok, known[2].size)
	}
}
