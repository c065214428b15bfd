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

	// routePing is the interval of the pings on a route. A route with two unanswered pings is closed at the third
	// and made again, so that after a cut nobody waits for the timers of the old connection. An answer that takes
	// longer than twice this time, over a slow link or from a busy processor, has a cost: both ends make a new
	// route at the same moment, take the other's for a duplicate, and may do so again and again.
	routePing = time.Second
)

// embed starts a server in this process. The server listens for other nodes. This process reaches it without a
// socket, by a token that nobody else gets. (The server starts its routes only if it also has a port for clients:
// any free one on the loopback.) If one of the nodes to join is there, embed waits for the first route; perhaps
// all of them have yet to start.
func embed(ctx context.Context, o *Options) (s *server.Server, token string, err error) {
	so, err := serverOptions(o)
	if err != nil {
		return nil, "", err
	}
	there, err := knock(ctx, o, so.Cluster.Name)
	if err != nil {
		return nil, "", err
	}
	// A server that finds its address taken would never end.
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
		// Unlike the node's id, this name is never used twice. So Bus.met finds a second process with the id,
		// not the server.
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

// guard admits the nodes that know the secret, and slows down guessing: wrong secrets are refused one after the
// other, four a second. The server closes a connection that waits longer than its limit for authentication,
// without an answer.
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

// ready waits until the server listens and, if another node is there, for a route to it, at most routeTime.
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

// serverLog passes the server's log on to ours, and keeps the error with which the server does not start.
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

// Fatalf implements server.Logger. The server ends; the process does not.
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
