package process

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePort reserves a TCP port of 127.0.0.1 until own is closed, also while nothing listens there: before a
// server's start, and between its kill and its next start. The port is below those that the system gives to
// connections: a connection of another process could take one of these before the server listens there.
func FreePort() (port int, own io.Closer, err error) {
	for range 1000 {
		port = 10000 + rand.IntN(20000)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		// The UDP port of the same number marks the port as taken: no server uses it, and the
		// kernel frees it when the process is killed.
		udp, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue // another process has it
		}
		l, err := net.Listen("tcp", addr)
		if err == nil {
			_ = l.Close() // nobody has connected
			return port, udp, nil
		}
		_ = udp.Close() // a process that does not use FreePort has it
	}
	return 0, nil, errors.New("find a free port: 1,000 of the ports from 10000 to 29999 are taken")
}
