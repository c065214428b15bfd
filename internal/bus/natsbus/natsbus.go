// Package natsbus is the bus between processes, on NATS core: embedded in each node, with routes between the
// nodes, or an external server. Each node has one NATS subject for messages and one for answers, whatever their
// bus.Subject. On one more subject, which all share, each node announces twice a second that it is there.
package natsbus

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/buspb"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/im"
)

const (
	maxMessage = 1 << 20 // bytes, with the head; what a NATS server takes by default

	// The bounds of the messages of one subscription that wait for this node's handlers. Further ones are
	// dropped and counted.
	maxWaiting      = 64 << 10 // messages
	maxWaitingBytes = 64 << 20

	// dialTime is how long an external server may take to answer. An attempt that is under way when a cut heals
	// may last as long.
	dialTime = 2 * time.Second
)

// Options tell a node how to find the others. Either URL or Listen is set.
type Options struct {
	Cluster     string // its name, the same on all its nodes and no other ones; letters, digits, - and _
	Incarnation uint64 // of this process; 0: random
	Process     string // where this process runs, for people
	Log         *slog.Logger
	Beacon      time.Duration // between two announcements; 500 ms. A node silent for more than six is no peer

	// URL names an external server, or several with commas between them. A user and password, or a token, are
	// part of it.
	URL         string
	Credentials string // a file with a user's JWT and seed, for the external server
	Listen      string // host:port where the embedded server listens for other nodes; port 0: any
	Advertise   string // host:port where others reach it; "": Listen
	Routes      []string
	Secret      string // of the routes, the same on every node

	// TLS is for the connection to the external server, or for the routes: both ends of a route show a
	// certificate that the roots of the other end have signed. SetRoots replaces the roots.
	TLS *tls.Config

	self im.Node
}

// Bus is the bus of one node.
type Bus struct {
	o        Options
	self     im.Node
	local    *localbus.Bus  // carries messages of the node to itself, also while it reaches no other one
	server   *server.Server // nil: it is an external one
	token    string         // with which this process connects to server
	conn     *nats.Conn
	roots    atomic.Pointer[x509.CertPool] // roots for the certificate of the external server
	handlers map[bus.Subject]bus.Handler   // set before Run
	ended    sync.WaitGroup                // the goroutines of the subscriptions
	rival    chan error                    // capacity 1: the first one ends the node
	subs     []*nats.Subscription          // set before the beacons of Run
	// question is the number of the last request. It starts at random, so that answers to a former process
	// match none.
	question atomic.Uint64

	mu      sync.Mutex // tier 0; guards the fields below
	serving bool
	peers   map[im.Node]*peer
	asked   map[uint64]chan *buspb.Answer // capacity 1

	Sent, SentBytes         atomic.Uint64 // messages and answers to other nodes, and announcements
	Received, ReceivedBytes atomic.Uint64
	Dropped                 atomic.Uint64 // messages that came while as many waited as may wait
	Garbled                 atomic.Uint64 // messages that could not be read
	Reconnects              atomic.Uint64 // to the external server
}

var _ bus.Bus = (*Bus)(nil)

var (
	// ErrRefused is returned when the other nodes, or the NATS server, refuse
	// the secret, the password or the certificate.
	ErrRefused = errors.New("refused")

	// ErrOtherCluster is returned when the nodes to join are another cluster.
	ErrOtherCluster = errors.New("another cluster")

	// ErrInUse is returned when another process has the node's id.
	ErrInUse = errors.New("in use")
)

var nameRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Join connects a node to its cluster. When it returns, no other process has the node's id, and its peers are
// known; messages come only when Run is called. Join takes a little longer than one Beacon. Errors: ErrInUse,
// ErrRefused, ErrOtherCluster; others are of the network.
func Join(ctx context.Context, self im.Node, o Options) (*Bus, error) {
	if !nameRule.MatchString(o.Cluster) || !nameRule.MatchString(string(self)) {
		return nil, fmt.Errorf("join cluster %q as %q: a name has 1 to 64 letters, digits, - and _", o.Cluster, self)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Beacon == 0 {
		o.Beacon = 500 * time.Millisecond
	}
	if o.Incarnation == 0 {
		o.Incarnation = random()
	}
	o.self = self
	local, err := localbus.New().Join(self)
	if err != nil {
		return nil, err
	}
	b := &Bus{
		o: o, self: self, local: local, handlers: map[bus.Subject]bus.Handler{}, rival: make(chan error, 1),
		peers: map[im.Node]*peer{}, asked: map[uint64]chan *buspb.Answer{},
	}
	b.question.Store(random())
	if err := b.connect(ctx); err != nil {
		b.close()
		return nil, err
	}
	if err := b.listen(ctx); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])
}

func (b *Bus) connect(ctx context.Context) error {
	opts := []nats.Option{
		nats.Name("petrel " + string(b.self)), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1), // without a connection a message is lost at once
		nats.PingInterval(700 * time.Millisecond), nats.MaxPingsOutstanding(2), nats.Timeout(dialTime),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectHandler(func(*nats.Conn) { b.Reconnects.Add(1); b.o.Log.Info("connected to nats again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				b.o.Log.Warn("connection to nats lost", "err", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			b.o.Log.Warn("nats reported an error", "err", err)
		}),
	}
	addr := b.o.URL
	if addr == "" {
		s, token, err := embed(ctx, &b.o)
		if err != nil {
			return err
		}
		b.server, b.token = s, token
		opts = append(opts, nats.InProcessServer(s), nats.Token(token))
	} else {
		if b.o.TLS != nil {
			b.roots.Store(b.o.TLS.RootCAs)
			opts = append(opts, nats.Secure(b.o.TLS), func(o *nats.Options) error {
				o.RootCAsCB = func() (*x509.CertPool, error) { return b.roots.Load(), nil }
				return nil
			})
		}
		if b.o.Credentials != "" {
			opts = append(opts, nats.UserCredentials(b.o.Credentials))
		}
	}
	var err error
	if b.conn, err = nats.Connect(addr, opts...); err != nil {
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return fmt.Errorf("connect to nats at %s: %w: give its user and password, or token, in the URL", bare(addr),
				ErrRefused)
		}
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which has the password
		}
		return fmt.Errorf("connect to nats at %s: %w", bare(addr), err)
	}
	if n := b.conn.MaxPayload(); n < maxMessage {
		return fmt.Errorf(
			"connect to nats at %s: the server takes messages of at most %d bytes; set its max_payload to %d or more",
			bare(addr), n, maxMessage)
	}
	return nil
}

// bare returns the hosts of a list of URLs, without users, passwords and tokens.
func bare(urls string) string {
	var all []string
	for s := range strings.SplitSeq(urls, ",") {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil && u.Host != "" {
			all = append(all, u.Host)
		} else {
			all = append(all, s[strings.LastIndex(s, "@")+1:])
		}
	}
	return strings.Join(all, ", ")
}

// SetRoots replaces the roots for the certificates of the other nodes, or of the external server. They are used
// for connections that begin after that. The bus must have TLS.
func (b *Bus) SetRoots(roots *x509.CertPool) error {
	if b.server == nil {
		b.roots.Store(roots)
		return nil
	}
	o := b.o
	o.TLS = o.TLS.Clone()
	o.TLS.RootCAs, o.TLS.ClientCAs = roots, roots
	so, err := serverOptions(&o)
	if err != nil {
		return err
	}
	so.Authorization = b.token
	if err := b.server.ReloadOptions(so); err != nil {
		return fmt.Errorf("take over other roots for the routes: %w", err)
	}
	return nil
}

// ClusterAddr returns the address where the embedded server listens for other nodes, as host:port; "" with an
// external server.
func (b *Bus) ClusterAddr() string {
	if b.server == nil {
		return ""
	}
	return b.server.ClusterAddr().String()
}

// Self implements bus.Bus.
func (b *Bus) Self() im.Node { return b.self }

// Handle implements bus.Bus.
func (b *Bus) Handle(s bus.Subject, h bus.Handler) {
	b.handlers[s] = h
	b.local.Handle(s, h)
}

// Send implements bus.Bus. While the external server is not reached, it returns an error for every node but this
// one.
func (b *Bus) Send(to im.Node, s bus.Subject, payload []byte) error {
	if to == b.self {
		return b.local.Send(to, s, payload)
	}
	_, err := b.send(to, s, 0, payload)
	return err
}

// send sends a message to a node, and returns the peer that it was sent to. question is 0 for a Send.
func (b *Bus) send(to im.Node, s bus.Subject, question uint64, payload []byte) (*peer, error) {
	if len(payload) > bus.MaxMessage {
		return nil, fmt.Errorf("send %s to %s: %d bytes: %w", s, to, len(payload), bus.ErrTooLarge)
	}
	b.mu.Lock()
	p := b.peers[to]
	b.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("send %s to %s: %w", s, to, bus.ErrNoNode)
	}
	m := buspb.Message{From: string(b.self), Subject: string(s), Request: question, Payload: payload}
	if err := b.publish(p.subject, m.SizeVT(), m.MarshalToSizedBufferVT); err != nil {
		return nil, fmt.Errorf("send %s to %s: %w", s, to, err)
	}
	return p, nil
}

// buffers hold messages while they are written: []byte.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (b *Bus) publish(subject string, size int, marshal func([]byte) (int, error)) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	*buf = slices.Grow((*buf)[:0], size)[:size]
	if _, err := marshal(*buf); err != nil {
		return err
	}
	if err := b.conn.Publish(subject, *buf); err != nil { // copies
		return err
	}
	b.Sent.Add(1)
	b.SentBytes.Add(uint64(size))
	return nil
}

// Request implements bus.Bus.
func (b *Bus) Request(ctx context.Context, to im.Node, s bus.Subject, payload []byte) ([]byte, error) {
	if to == b.self {
		return b.local.Request(ctx, to, s, payload)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("request %s of %s: %w", s, to, err)
	}
	question, answer := b.question.Add(1), make(chan *buspb.Answer, 1)
	b.mu.Lock()
	b.asked[question] = answer
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.asked, question)
		b.mu.Unlock()
	}()
	p, err := b.send(to, s, question, payload)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		if a.TooLarge {
			return nil, fmt.Errorf("request %s of %s: answer: %w", s, to, bus.ErrTooLarge)
		}
		return a.Payload, nil
	case <-p.gone:
		return nil, fmt.Errorf("request %s of %s: %w", s, to, bus.ErrNoNode)
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s of %s: %w", s, to, ctx.Err())
	}
}

func (b *Bus) subjectOf(n im.Node) string { return "petrel." + b.o.Cluster + ".node." + string(n) }
func (b *Bus) answerSubjectOf(n im.Node) string {
	return "petrel." + b.o.Cluster + ".answer." + string(n)
}
func (b *Bus) presenceSubject() string { return "petrel." + b.o.Cluster + ".nodes" }

// subscribe calls f for each message on a NATS subject, one at a time.
func (b *Bus) subscribe(subject string, f func(data []byte)) error {
	b.ended.Add(1)
	sub, err := b.conn.Subscribe(subject, func(m *nats.Msg) {
		b.Received.Add(1)
		b.ReceivedBytes.Add(uint64(len(m.Data)))
		f(m.Data)
	})
	if err != nil {
		b.ended.Done()
		return fmt.Errorf("subscribe %s: %w", subject, err)
	}
	sub.SetClosedHandler(func(string) { b.ended.Done() })
	if err := sub.SetPendingLimits(maxWaiting, maxWaitingBytes); err != nil {
		return fmt.Errorf("subscribe %s: %w", subject, err)
	}
	b.subs = append(b.subs, sub)
	return nil
}

// serve hands a message to its handler.
func (b *Bus) serve(data []byte) {
	var m buspb.Message
	if err := m.UnmarshalVTUnsafe(data); err != nil || m.From == "" {
		b.Garbled.Add(1)
		return
	}
	h := b.handlers[bus.Subject(m.Subject)]
	from := im.Node(strings.Clone(m.From)) // may be kept longer than the message
	if m.Request == 0 {
		if h != nil {
			h(from, m.Payload, nil)
		}
		return
	}
	reply := func(r []byte) { b.answer(from, m.Request, r) }
	if h == nil {
		reply(nil)
		return
	}
	h(from, m.Payload, reply)
}

// answer sends an answer. If it is lost, the request ends with its context.
func (b *Bus) answer(to im.Node, question uint64, payload []byte) {
	a := buspb.Answer{Request: question, Payload: payload}
	if len(payload) > bus.MaxMessage {
		a = buspb.Answer{Request: question, TooLarge: true}
	}
	if err := b.publish(b.answerSubjectOf(to), a.SizeVT(), a.MarshalToSizedBufferVT); err != nil {
		b.o.Log.Debug("answer lost", "node", to, "err", err)
	}
}

func (b *Bus) answered(data []byte) {
	a := &buspb.Answer{}
	if err := a.UnmarshalVTUnsafe(data); err != nil {
		b.Garbled.Add(1)
		return
	}
	b.mu.Lock()
	answer := b.asked[a.Request]
	b.mu.Unlock()
	select {
	case answer <- a: // the channel is nil if nobody waits any more
	default:
	}
}

// Run implements bus.Bus. It ends with ErrInUse when another process takes the
// node's id.
func (b *Bus) Run(ctx context.Context) error {
	defer b.close()
	if err := b.subscribe(b.subjectOf(b.self), b.serve); err != nil {
		return err
	}
	b.mu.Lock()
	b.serving = true
	b.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	local, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { _ = b.local.Run(local) }) // ends without an error
	beat := time.NewTicker(b.o.Beacon)
	defer beat.Stop()
	for {
		b.announce(buspb.Presence_SERVING)
		select {
		case <-beat.C:
			b.age()
		case err := <-b.rival:
			return err
		case <-ctx.Done():
			b.announce(buspb.Presence_LEFT)
			_ = b.conn.FlushTimeout(100 * time.Millisecond) // else the others notice the silence
			return nil
		}
	}
}

// close ends everything that Join began.
func (b *Bus) close() {
	if b.conn != nil {
		b.conn.Close()
		b.ended.Wait()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, p := range b.peers {
		close(p.gone)
		delete(b.peers, n)
	}
}
