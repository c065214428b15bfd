//go:build !linux

package bench

import (
	"errors"
	"time"
)

var errLinuxOnly = errors.New("petrel bench needs Linux: its load generator is built on epoll")

type poller struct{}

type ready struct {
	conn                       int
	readable, writable, hangup bool
}

func newPoller() (*poller, error)                            { return nil, errLinuxOnly }
func (*poller) pause(time.Duration)                          {}
func (*poller) close()                                       {}
func (*poller) add(int, int) error                           { return errLinuxOnly }
func (*poller) wait(time.Duration, []ready) ([]ready, error) { return nil, errLinuxOnly }
func readSocket(int, []byte) (n int, again bool, err error)  { return 0, false, errLinuxOnly }
func writeSocket(int, []byte) (n int, err error)             { return 0, errLinuxOnly }
func closeSocket(int)                                        {}
