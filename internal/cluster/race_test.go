//go:build race

package cluster

import (
	"flag"
	"os"
	"runtime"
	"testing"
)

// The race detector of Go 1.26 crashes when timers of a synctest bubble fire
// on two processors at once (golang/go#78156). It finds races on one as well.
func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1)
	*seeds = min(*seeds, 4)
	os.Exit(m.Run())
}
