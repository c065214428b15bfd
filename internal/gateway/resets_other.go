//go:build !linux

package gateway

import "net"

// resetMany does nothing here: Accept resets one after the other.
func (l *resettingListener) resetMany(int) (other net.Conn, done int) { return nil, 0 }
