package natsbus

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	routeUser = "petrel" // the name that goes with the secret

	startTime = 5 * time.Second // for the embedded server to listen
	routeTime = 2 * time.Second // for the first route to another node, longer than an attempt to connect

	// A route that leaves two pings unanswered at the third is closed and made anew: a cut that
	// has healed is not waited for by the old connection's timers. A link that is slow, and a
	// processor that is busy, answer in twice this time: both ends make a route anew at the same
	// moment, take the other's for a duplicate, and may do so again and again over a slow link.
	routePing = time.Second
)

// embed starts a server in this process: it listens for other nodes, and is
// reached from here without a socket, by a token that nobody else gets. (Without
// a port for clients the server would not start its routes; that one is on the
// loopback, any that is free.) It waits for the first route if one of
// the nodes to join is there; all of them may yet have to start.
func embed(ctx context.Context, o *Options) (s *server.Server, token string, err error) {
	so, err := serverOptions(o)
	if err != nil {
		return nil, "", err
	}
	there, err := knock(ctx, o, so.Cluster.Name)
	if err != nil {
		return nil, "", err
	}
	// The server that finds its address taken never ends.
	probe, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen for nodes: %w", err)
	}
	_ = probe.Close() // nothing was accepted
	if s, err = server.NewServer(so); err != nil {
		return nil, "", fmt.Errorf("set up the server for nodes on %s: %w", o.Listen, err)
	}
	l := &serverLog{log: o.Log}
	s.SetLoggerV2(l, false, false, false)
	s.Start()
	if err := ready(ctx, o, s, l, there); err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, "", err
	}
	return s, so.Authorization, nil
}

func serverOptions(o *Options) (*server.Options, error) {
	host, portText, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for nodes on %q: %w", o.Listen, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("listen for nodes on %q: %w", o.Listen, err)
	}
	if ip := net.ParseIP(host); o.Secret == "" && o.TLS == nil && host != "localhost" &&
		(ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf(
			"listen for nodes on %s: everybody who reaches this address could join; set cluster.secret, the same on every node", o.Listen)
	}
	so := &server.Options{
		// unlike the node's id never twice, so that we tell of that ourselves
		ServerName: fmt.Sprintf("%s-%x", o.self, o.Incarnation),
		Host:       "127.0.0.1", Port: server.RANDOM_PORT, Authorization: rand.Text(),
		NoSigs: true, NoSystemAccount: true,
		MaxPayload: maxMessage, MaxPending: maxWaitingBytes,
		Cluster: server.ClusterOpts{
			Name: "petrel-" + o.Cluster, Host: host, Port: int(port), Advertise: o.Advertise, NoAdvertise: true,
			PingInterval: routePing, MaxPingsOut: 2,
			PoolSize:       -1,            // further connections between two nodes would be for other accounts
			ConnectRetries: math.MaxInt32, // also to nodes that others told of: a cut may be long
		},
	}
	if port == 0 {
		so.Cluster.Port = server.RANDOM_PORT
	}
	if o.Secret != "" {
		so.Cluster.Username, so.Cluster.Password = routeUser, o.Secret
		so.CustomRouterAuthentication = &guard{secret: o.Secret, turn: make(chan struct{}, 1)}
	}
	if o.TLS != nil {
		so.Cluster.TLSConfig, so.Cluster.TLSTimeout = routeTLS(o.TLS), 2
	}
	for _, addr := range o.Routes {
		u := &url.URL{Scheme: "nats-route", Host: addr}
		if o.Secret != "" {
			u.User = url.UserPassword(routeUser, o.Secret)
		}
		so.Routes = append(so.Routes, u)
	}
	return so, nil
}

// guard admits the nodes that know the secret, and slows down who guesses: wrong ones are
// refused one after the other, four a second. The server closes who waits for longer than its
// limit for authentication, without an answer.
type guard struct {
	secret string
	turn   chan struct{} // capacity 1; full: the next wrong one waits, for patience at most
}

// hold is how long a wrong secret waits for its refusal.
const hold = time.Second / 4

func (g *guard) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if o.Username == routeUser && subtle.ConstantTimeCompare([]byte(o.Password), []byte(g.secret)) == 1 {
		return true
	}
	const patience = 10 * time.Second
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case g.turn <- struct{}{}:
		<-time.After(hold)
		<-g.turn
	case <-late.C:
	}
	return false
}

// routeTLS makes both ends of a route show a certificate.
func routeTLS(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if c.ClientCAs == nil {
		c.ClientCAs = c.RootCAs
	}
	return c
}

// ready waits until the server listens and, if somebody is there, has a route.
func ready(ctx context.Context, o *Options, s *server.Server, l *serverLog, there bool) error {
	end := time.Now().Add(startTime)
	for !s.ReadyForConnections(time.Millisecond) {
		switch err := l.failed(); {
		case err != nil:
			return fmt.Errorf("listen for nodes on %s: %w", o.Listen, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("listen for nodes on %s: not ready after %s", o.Listen, startTime)
		}
	}
	if !there {
		return nil
	}
	for end := time.Now().Add(routeTime); time.Now().Before(end) && s.NumRoutes() == 0; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// serverLog hands the server's log to ours, and keeps why it does not start.
type serverLog struct {
	log *slog.Logger

	mu    sync.Mutex // tier 0; guards the field below
	fault error      // the first one
}

func (l *serverLog) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

func (l *serverLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		l.fault = err
	}
}

// Errorf implements server.Logger.
func (l *serverLog) Errorf(format string, v ...any) {
	l.log.Warn("nats server reported an error", "err", fmt.Sprintf(format, v...))
}

// Fatalf implements server.Logger. The server does not go on; the process does.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.fail(fmt.Errorf(format, v...))
}

// Warnf implements server.Logger.
func (l *serverLog) Warnf(format string, v ...any) {
	l.log.Warn("nats server reported an error", "err", fmt.Sprintf(format, v...))
}

// Noticef implements server.Logger.
func (l *serverLog) Noticef(format string, v ...any) {
	l.log.Debug("nats server", "text", fmt.Sprintf(format, v...))
}

// Debugf implements server.Logger.
func (l *serverLog) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *serverLog) Tracef(string, ...any) {}
