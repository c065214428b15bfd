package bench

import (
	"net"

	"github.com/panjf2000/gnet/v2"
)

// relayServer passes frames on, by one event loop like those of the server: the bytes of one read go out in
// one write to each target.
type relayServer struct {
	gnet.BuiltinEventEngine
	shape
	client *gnet.Client
	conns  []gnet.Conn // by index; only the event loop uses them
}

func newRelayServer(s shape) (*relayServer, error) {
	r := &relayServer{shape: s, conns: make([]gnet.Conn, s.connections())}
	var err error
	// These are the options of the loops of internal/gateway.
	if r.client, err = gnet.NewClient(r, gnet.WithNumEventLoop(1), gnet.WithReadBufferCap(readBytes),
		gnet.WithTCPNoDelay(gnet.TCPDelay), gnet.WithLogger(noLog{})); err != nil {
		return nil, err
	}
	return r, r.client.Start()
}

// enroll has the loop take connection i over.
func (r *relayServer) enroll(i int, nc *net.TCPConn) error {
	_, err := r.client.EnrollContext(nc, i)
	return err
}

func (r *relayServer) stop() { _ = r.client.Stop() } // its sockets go with it

// OnOpen keeps a new connection. The event loop calls it.
func (r *relayServer) OnOpen(c gnet.Conn) (out []byte, action gnet.Action) {
	r.conns[c.Context().(int)] = c
	return nil, gnet.None
}

// OnTraffic writes the bytes that have come to each target of their sender. The event loop calls it.
func (r *relayServer) OnTraffic(c gnet.Conn) gnet.Action {
	b, err := c.Next(-1)
	if err != nil {
		return gnet.Close
	}
	from, to := r.targets(c.Context().(int))
	for _, other := range r.conns[from:to] {
		if _, err := other.Write(b); err != nil {
			return gnet.Close
		}
	}
	return gnet.None
}

// noLog discards the log lines of an event loop, which only report its start and its end.
type noLog struct{}

func (noLog) Debugf(string, ...any) {}
func (noLog) Infof(string, ...any)  {}
func (noLog) Warnf(string, ...any)  {}
func (noLog) Errorf(string, ...any) {}
func (noLog) Fatalf(string, ...any) {}
