// Package proctest is for tests of programs that run in processes of their own: the server's program, free ports
// for it, and tests in Node that talk to it. It links nothing of the server, so such a test is built faster than
// one that imports imtest.
package proctest

import (
	"fmt"
	"testing"

	"github.com/petrel-im/petrel/internal/process"
)

// FreePorts reserves n ports of the loopback until the end of the test, and returns their addresses. See
// process.FreePort.
func FreePorts(t testing.TB, n int) (addrs []string) {
	t.Helper()
	for range n {
		port, own, err := process.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = own.Close() }) // nothing was sent
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return addrs
}
