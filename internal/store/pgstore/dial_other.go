//go:build !linux

package pgstore

import (
	"net"
	"time"
)

// dialer makes connections that end when the other end is silent for d while nothing is being sent. The
// system bounds how long sent bytes may stay unacknowledged.
func dialer(d time.Duration) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: d / 2, Interval: d / 4, Count: 2}}
}
