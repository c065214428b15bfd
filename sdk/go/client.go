package petrel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Version is the name and version of this package. A client without Options.Client sends it to the server.
const Version = "petrel-go/0.1.0"

// Protocol is the version of the protocol that this package speaks. Spec: P-3.2.
const Protocol = 1

// Options name the server, the user and the settings of the connection. URL and Token must be set.
type Options struct {
	// URL is a scheme, host:port and, for WebSocket, a path. ws, wss, http and https mean WebSocket, whose path
	// is /v1/ws unless given; tcp and tls mean frames over TCP. The nodes of a cluster name further addresses.
	// After a lost connection the client tries those before this one. Spec: P-3.7.
	URL string
	// API is the URL of the server's HTTP API. "" derives it from URL, which works for WebSocket only.
	API   string
	Token TokenSource
	// Store keeps the state of the client across restarts; nil: memory only.
	Store *Store

	Device     string // id of this installation, at most 64 bytes; "": that of the store, or else a random one
	DeviceKind string // "phone", "desktop", "web", …; P-11.4
	Client     string // name and version of the application, for the operator's eyes; "": Version

	JSON    bool // speak JSON instead of protobuf
	TLS     *tls.Config
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	Log     *slog.Logger                                                      // nil: nothing is logged

	// Keep is how many of the newest entries of a conversation the client holds, in memory and in the store,
	// besides those that Older has loaded; 0 means 500. The oldest ones are dropped once there are an eighth
	// more. A client that is further behind drops the entries it has, and loads only the newest Keep. Since and
	// Older read the others.
	Keep int
	// Newest is how many entries of each conversation the first sync of a client loads; 0 means 20, negative
	// none. Of a conversation that appears later the client loads all entries, up to Keep.
	Newest int
	// ManualDelivered leaves the delivered cursor to the application, which calls MarkDelivered. Otherwise the
	// client moves it over the entries that it holds.
	ManualDelivered bool
}

const (
	defaultKeep   = 500
	defaultNewest = 20
)

// State is the state of the connection.
type State int

// The states of the connection.
const (
	Offline    State = iota // not running, or waiting before the next try
	Connecting              // until the welcome
	Live
)

func (s State) String() string { return [...]string{"offline", "connecting", "live"}[s] }

// Status is the state of the connection, with its user and server.
type Status struct {
	State  State
	User   string // known from the first welcome on
	Server string // name and version, known as long as User
	// History names the server's memory. When it changes, seqs that the
	// application has kept mean nothing any more. Spec: P-3.4.
	History string
	Synced  bool      // this connection has synced the whole list of conversations
	Err     error     // why it is offline; nil: it has not connected yet, or the context of Run has ended
	Retry   time.Time // time of the next try, while Offline
}

// Client is one device of a user. Any goroutine may call its methods at any time. A method that needs the server
// waits until Run has connected. The core holds the state and makes the decisions; the Client has the sockets,
// the store, the timers and the lock.
type Client struct {
	o     Options
	log   *slog.Logger
	http  *http.Client
	base  string        // URL of the HTTP API; "": not known
	wake  chan struct{} // capacity 1; a token means that Run has something to do
	slots chan struct{} // capacity maxAsked; full: requests of the application wait
	token *tokenCache

	mu      sync.Mutex // tier 1; guards the fields below
	core    *core
	running bool
	subs    map[*Subscription]struct{}
	links   map[uint64]*link // the open ones, by the number of the connection
	up      chan struct{}    // closed while the client is live; the end of the connection puts a new one here
	isUp    bool
}

// New makes a client and reads its store. The client connects when Run is called.
func New(o Options) (*Client, error) {
	if o.Token == nil {
		return nil, errors.New("make a client: no token source")
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	switch {
	case o.Newest == 0:
		o.Newest = min(defaultNewest, o.Keep)
	case o.Newest < 0:
		o.Newest = 0
	}
	if o.Client == "" {
		o.Client = Version
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.TLS = resumable(o.TLS)
	c := &Client{
		o: o, log: o.Log, base: o.API, wake: make(chan struct{}, 1), slots: make(chan struct{}, maxAsked),
		token: newTokenCache(o.Token),
		subs:  map[*Subscription]struct{}{}, links: map[uint64]*link{}, up: make(chan struct{}),
	}
	if c.base == "" && (strings.HasPrefix(u.Scheme, "ws") || strings.HasPrefix(u.Scheme, "http")) {
		c.base = strings.Replace(u.Scheme, "ws", "http", 1) + "://" + u.Host
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: o.TLS, DialContext: o.NetDial,
		ForceAttemptHTTP2: true}}
	c.core = newCore(coreOptions{
		url: o.URL, device: o.Device, deviceKind: o.DeviceKind, client: o.Client, json: o.JSON, stored: o.Store != nil,
		keep: o.Keep, newest: o.Newest, manualDelivered: o.ManualDelivered,
	}, rand.Float64, newID)
	var rows []Row
	if o.Store != nil {
		if rows, err = o.Store.Load(); err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
	}
	if err := c.core.open(rows); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return c, nil
}

// do applies an input to the core, and carries out at once those outputs that cannot block. Run does the others.
func (c *Client) do(input func(k *core)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.core
	k.now = time.Now()
	if k.live != nil {
		if l := c.links[k.live.conn]; l != nil {
			k.live.heard = l.begun.Add(time.Duration(l.heard.Load()))
			k.live.took(l.begun.Add(time.Duration(l.moved.Load())), l.took.Load())
		}
	}
	input(k)
	for _, f := range k.out.frames {
		if l := c.links[f.conn]; l != nil {
			l.push(f)
		}
	}
	for _, o := range k.out.settled {
		if o.handle != nil {
			close(o.handle.done)
		}
	}
	for _, line := range k.out.remarks {
		c.log.Warn("the client has a problem", "err", line)
	}
	if k.out.woken {
		signal(c.wake)
	}
	if up := k.live != nil; up != c.isUp {
		if c.isUp = up; up {
			close(c.up)
		} else {
			c.up = make(chan struct{})
		}
	}
	k.out.frames, k.out.settled, k.out.remarks, k.out.woken = k.out.frames[:0], nil, nil, false
}

// Run connects and keeps the client connected. It returns nil when ctx ends. It returns an error when it is
// running already, when the store has failed, or when a person has to act: the token is void, another device of
// the same kind has logged in, the server does not speak this protocol, or the store belongs to another user (an
// [*Error] in these four cases). When it returns, all its goroutines have ended and, unless the store failed,
// everything is written to the store. It may be called again. Spec: P-3.5, P-3.6.
func (c *Client) Run(ctx context.Context) error {
	busy := false
	c.do(func(*core) { busy, c.running = c.running, true })
	if busy {
		return errors.New("run a client: it is running")
	}
	err := c.run(ctx)
	c.http.CloseIdleConnections()
	c.do(func(k *core) { k.stop(err) })
	if werr := c.flush(); err == nil {
		err = werr
	}
	c.do(func(*core) { c.running = false })
	return err
}

// While calls Run and f at the same time, for programs that have an end: it ends Run when f returns. The ctx of f
// ends when Run does. If Run fails, While returns its error, else the result of f.
func (c *Client) While(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1) // one result
	go func() {
		defer stop()
		ended <- c.Run(ctx)
	}()
	err := f(ctx)
	stop()
	if run := <-ended; run != nil {
		return run
	}
	return err
}

// Status returns the present state of the connection.
func (c *Client) Status() (s Status) {
	c.do(func(k *core) { s = k.status })
	return s
}

// signal puts a token into a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
