package pgstore

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialer makes connections that end when the other end has acknowledged nothing for d. A slow server still
// acknowledges; a network that is cut does not, and would keep a connection, and the goroutine that waits on
// it, for minutes.
func dialer(d time.Duration) *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: d / 2, Interval: d / 4, Count: 2},
		Control: func(network, _ string, c syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			var failed error
			err := c.Control(func(fd uintptr) {
				failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
			})
			return errors.Join(err, failed)
		},
	}
}
