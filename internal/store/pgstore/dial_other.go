//go:build !linux

package pgstore

import (
	"net"
	"time"
)

// dialer makes connections that end when the other end is silent for d and
// nothing is under way; what the system does with the rest is its own affair.
func dialer(d time.Duration) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: d / 2, Interval: d / 4, Count: 2}}
}
