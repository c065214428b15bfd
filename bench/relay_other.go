//go:build !linux

package bench

import "net"

type relayServer struct{}

func newRelayServer(shape) (*relayServer, error)    { return nil, errLinuxOnly }
func (*relayServer) enroll(int, *net.TCPConn) error { return errLinuxOnly }
func (*relayServer) stop()                          {}
