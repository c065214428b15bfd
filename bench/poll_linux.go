package bench

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller is an epoll set, edge-triggered. Reads and writes go to the kernel without the Go scheduler: they
// never block, and the two calls that would inform it cost as much as a small read.
type poller struct {
	fd     int
	call   func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno)
	events [256]unix.EpollEvent
}

// ready is a connection with something to do.
type ready struct {
	conn               int
	readable, writable bool
	hangup             bool // the other side sends nothing more
}

// newPoller makes an empty set, and sets the timer slack of the calling thread to 1 µs, so that its pauses are exact.
// Only that thread may call wait and pause.
func newPoller() (*poller, error) {
	const exact = 1000 // ns; by default the kernel adds up to 50 µs
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, exact, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("set timer slack: %w", err)
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	p := &poller{fd: fd, call: unix.Syscall6}
	if runtime.GOMAXPROCS(0) > 1 {
		// Waits are short, and other goroutines have a processor to run on. If the scheduler knew of each wait,
		// it would look for its end every 20 µs, which costs a tenth of the CPU of the generator.
		p.call = unix.RawSyscall6
	}
	return p, nil
}

func (p *poller) close() { _ = unix.Close(p.fd) } // nothing is lost with it

// add watches a non-blocking socket. wait names it by conn.
func (p *poller) add(fd, conn int) error {
	// The set always watches for writable edges, too. They come together with readable ones, and alone only for a
	// new socket and after a write that did not fit. So no call is needed to turn them on and off.
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(conn)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("watch connection %d: %w", conn, err)
	}
	return nil
}

// wait blocks for at most d and returns the ready connections, in the memory of out. A signal ends the wait early.
func (p *poller) wait(d time.Duration, out []ready) ([]ready, error) {
	ts := unix.NsecToTimespec(int64(max(d, 0)))
	n, _, errno := p.call(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno == unix.EINTR {
		return out[:0], nil
	}
	if errno == unix.ENOSYS { // before Linux 5.11: whole milliseconds
		m, err := unix.EpollWait(p.fd, p.events[:], int((d+time.Millisecond-1)/time.Millisecond))
		if err == unix.EINTR {
			return out[:0], nil
		}
		if err != nil {
			return nil, fmt.Errorf("wait for connections: %w", err)
		}
		n = uintptr(m)
	} else if errno != 0 {
		return nil, fmt.Errorf("wait for connections: %w", errno)
	}
	out = out[:0]
	for i := range p.events[:n] {
		e := &p.events[i]
		const end = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
		out = append(out, ready{int(e.Fd), e.Events&(unix.EPOLLIN|end) != 0, e.Events&unix.EPOLLOUT != 0,
			e.Events&end != 0})
	}
	return out, nil
}

// pause sleeps for d, or less if a signal comes.
func (p *poller) pause(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_, _, _ = p.call(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0, 0, 0, 0) // a signal ends it early
}

// readSocket reads without blocking. again says that nothing is there now. If n is 0 without again and without an
// error, the other side has closed.
func readSocket(fd int, b []byte) (n int, again bool, err error) {
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			0, 0, 0)
		switch errno {
		case 0:
			return int(r), false, nil
		case unix.EINTR: // the edge will not come again
		case unix.EAGAIN:
			return 0, true, nil
		default:
			return 0, false, errno
		}
	}
}

// writeSocket writes without blocking and returns the number of written bytes.
func writeSocket(fd int, b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		case unix.EAGAIN: // a writable edge comes when there is room
			return 0, nil
		default:
			return 0, errno
		}
	}
}

func closeSocket(fd int) { _ = unix.Close(fd) } // nobody misses the unsent bytes
