//go:build race

package cluster

import (
	"os"
	"runtime"
	"testing"
)

// The race detector of Go 1.26 crashes when timers of a synctest bubble fire
// on two processors at once (golang/go#78156). It finds races on one as well.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}
