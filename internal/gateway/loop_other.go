//go:build !linux

package gateway

import (
	"errors"
	"net"

	"github.com/petrel-im/petrel/internal/im"
)

// On other systems every connection has its own goroutine, so these are empty.
type (
	loop     struct{}
	loopConn struct{ conn }
)

func newLoop(*Gateway) (*loop, error) { return nil, errors.ErrUnsupported }

func (l *loop) enroll(*loopConn, *net.TCPConn, []byte) error { return errors.ErrUnsupported }
func (l *loop) connections() int                             { return 0 }
func (l *loop) tickSoon()                                    {}
func (l *loop) endAll(func() *im.Error)                      {}
func (l *loop) stop()                                        {}

func (c *loopConn) put([]byte)    {}
func (c *loopConn) finish(bool)   {}
func (c *loopConn) busy(int) bool { return false }

// haveLoops says whether this system has event loops. They are made for epoll.
const haveLoops = false
