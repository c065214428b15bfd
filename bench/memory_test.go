package bench

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// memory has sockets in memory, so that a run against a fake server goes by the fake time of a synctest bubble.
type memory struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener // by address
	all       []*memorySocket            // by fd
}

func newMemory() *memory { return &memory{listeners: map[string]*memoryListener{}} }

// sockets returns the sockets of a run in m.
func (m *memory) sockets() *sockets {
	return &sockets{
		dial: func(ctx context.Context, _ *net.Dialer, addr string) (net.Conn, error) { return m.dial(ctx, addr) },
		take: m.take, read: m.read, write: m.write, close: m.close, watch: m.watch,
	}
}

// memoryListener is a listener in memory.
type memoryListener struct {
	addr   memoryAddr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

func (m *memory) listen(addr string) *memoryListener {
	l := &memoryListener{addr: memoryAddr(addr), conns: make(chan net.Conn), closed: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listeners[addr] = l
	return l
}

func (l *memoryListener) Addr() net.Addr { return l.addr }

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) dial(ctx context.Context, addr string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[addr]
	m.mu.Unlock()
	if l == nil {
		return nil, errors.New("nobody listens on " + addr)
	}
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return &dialed{Conn: near}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dialed is a connection that the generator may take: after that, Close leaves it open.
type dialed struct {
	net.Conn
	taken bool
}

func (d *dialed) Close() error {
	if d.taken {
		return nil
	}
	return d.Conn.Close()
}

// memorySocket is a taken connection. Two goroutines carry its bytes.
type memorySocket struct {
	nc    net.Conn
	wrote chan struct{} // capacity 1
	gone  chan struct{} // closed with the socket

	mu      sync.Mutex
	in, out []byte
	ended   bool   // the server has closed
	come    func() // tells the watcher
}

func (m *memory) take(nc net.Conn) (int, error) {
	d := nc.(*dialed)
	d.taken = true
	s := &memorySocket{nc: d.Conn, wrote: make(chan struct{}, 1), gone: make(chan struct{}), come: func() {}}
	go s.receive()
	go s.transmit()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, s)
	return len(m.all) - 1, nil
}

func (s *memorySocket) receive() {
	for b := make([]byte, 64<<10); ; {
		n, err := s.nc.Read(b)
		s.mu.Lock()
		s.in = append(s.in, b[:n]...)
		s.ended = err != nil
		s.come()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *memorySocket) transmit() {
	for {
		select {
		case <-s.wrote:
		case <-s.gone:
			return
		}
		s.mu.Lock()
		out := s.out
		s.out = nil
		s.mu.Unlock()
		if _, err := s.nc.Write(out); err != nil {
			return
		}
	}
}

func (m *memory) socket(fd int) *memorySocket {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[fd]
}

func (m *memory) read(fd int, b []byte) (n int, again bool, err error) {
	s := m.socket(fd)
	s.mu.Lock()
	defer s.mu.Unlock()
	n = copy(b, s.in)
	s.in = s.in[n:]
	return n, n == 0 && !s.ended, nil
}

func (m *memory) write(fd int, b []byte) (n int, err error) {
	s := m.socket(fd)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out = append(s.out, b...); len(b) > 0 {
		poke(s.wrote)
	}
	return len(b), nil
}

func (m *memory) close(fd int) {
	s := m.socket(fd)
	s.mu.Lock()
	s.come = func() {}
	s.mu.Unlock()
	close(s.gone)
	_ = s.nc.Close() // never fails
}

// watch makes a set like that of the system, which reports each arrival once.
func (m *memory) watch() (watching, error) {
	var mu sync.Mutex
	come := map[int]ready{} // by connection
	some := make(chan struct{}, 1)
	return watching{
		add: func(fd, conn int) error {
			s := m.socket(fd)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.come = func() {
				mu.Lock()
				come[conn] = ready{conn: conn, readable: true, hangup: s.ended}
				mu.Unlock()
				poke(some)
			}
			if len(s.in) > 0 || s.ended {
				s.come()
			}
			return nil
		},
		wait: func(d time.Duration, out []ready) ([]ready, error) {
			limit := time.NewTimer(d)
			defer limit.Stop()
			select {
			case <-some:
			case <-limit.C:
			}
			mu.Lock()
			defer mu.Unlock()
			out = out[:0]
			for _, e := range come {
				out = append(out, e)
			}
			clear(come)
			return out, nil
		},
		pause: time.Sleep,
		close: func() {},
	}, nil
}

// poke fills a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
