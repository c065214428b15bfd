// Package proctest is for tests of programs that run in processes of their own: the server's
// program, free ports for it, and tests in Node that talk to it. It links nothing of the server,
// so such a test is built faster than one that imports imtest.
package proctest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePorts are addresses on the loopback that are the test's until it ends, also while nothing
// listens there: before a server's start, and between its kill and the next. They are below
// the ports that the system gives to a connection: one of another test would take
// such a port before the node listens there.
func FreePorts(t testing.TB, n int) []string {
	t.Helper()
	var addrs []string
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		// Whose port it is, the other tests see by the UDP port of the same number, which
		// no server uses, and which a test that is killed gives back.
		own, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue // another test has it
		}
		t.Cleanup(func() { _ = own.Close() }) // nothing was sent
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue // somebody who does not ask has it
		}
		defer func() { _ = l.Close() }() // nobody has connected
		if addrs = append(addrs, addr); len(addrs) == n {
			return addrs
		}
	}
	t.Fatalf("found %d of %d free ports", len(addrs), n)
	return nil
}
