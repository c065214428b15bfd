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

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Version is the name and version that a client gives of this package.
const Version = "petrel-go/0.1.0"

// Protocol is the version of the protocol that this package speaks. Spec: P-3.2.
const Protocol = 1

// Options say which server, as whom, and how. URL and Token must be set.
type Options struct {
	// URL is ws://, wss://, http:// or https:// (WebSocket; the path /v1/ws is
	// added when there is none), or tcp:// or tls://, and host:port. A cluster
	// tells of further addresses, which are tried before this one when the
	// connection is lost. Spec: P-3.7.
	URL string
	// API is the address of the server's HTTP API; "": the host of URL, which
	// there is for WebSocket only.
	API   string
	Token TokenSource
	// Store keeps what must outlive the process; nil: nothing does.
	Store *Store

	Device     string // id of this installation, at most 64 bytes; "": the store's, made at random once
	DeviceKind string // "phone", "desktop", "web", …; P-11.4
	Client     string // name and version of the application, for the operator's eyes

	JSON    bool // speak JSON instead of protobuf
	TLS     *tls.Config
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	Log     *slog.Logger                                                      // nil: nothing is logged

	// Keep is how many of the newest entries of a conversation are held, in
	// memory and in the store; 0 means 500. A client that is further behind
	// begins anew that far below the head; Since and Older reach the rest.
	Keep int
	// Newest is how many entries of a conversation are loaded when the client
	// first meets it; 0 means 20, negative none.
	Newest int
	// ManualDelivered leaves it to the application to call MarkDelivered.
	// Otherwise the client does, for what it holds.
	ManualDelivered bool
}

const (
	defaultKeep   = 500
	defaultNewest = 20

	firstWait = time.Second // after a lost connection, P-3.6
	maxWait   = 30 * time.Second
)

// State is that of the connection.
type State int

// The states of a client.
const (
	Offline    State = iota // not running, or waiting before the next try
	Connecting              // until the welcome
	Live
)

func (s State) String() string { return [...]string{"offline", "connecting", "live"}[s] }

// Status is how the client is connected.
type Status struct {
	State  State
	User   string // known from the first welcome on
	Server string // name and version, as User
	// History names the server's memory. When it changes, seqs that the
	// application has kept mean nothing any more. Spec: P-3.4.
	History string
	Synced  bool      // the list of conversations is that of the server
	Err     error     // why it is offline; nil: it was not connected yet, or ended by its context
	Retry   time.Time // of the next try while Offline
}

// Client is one device of a user. All methods may be called by any goroutine
// at any time; what needs the server waits for Run.
type Client struct {
	o     Options
	log   *slog.Logger
	http  *http.Client
	base  string        // of the HTTP API; "": none known
	wake  chan struct{} // capacity 1; a token means that Run has something to store, send or tell
	slots chan struct{} // capacity maxAsked; full: requests of the application wait
	token *tokenCache
	where places

	mu        sync.Mutex // tier 1; guards the fields below
	running   bool
	status    Status
	changed   Change // since the last flush
	subs      map[*Subscription]struct{}
	meta      meta
	convs     map[string]*conv
	direct    map[string]string // other user → direct conversation
	lanes     map[string]*lane
	ready     []*lane              // may have something to send
	sending   map[string]*Outgoing // by client message id, not settled
	composed  uint64               // number of the newest message composed
	toSync    []*Outgoing          // written, but not durable yet
	moves     []*conv              // have cursors to move
	focus     *petrelv1.SetFocus   // nil: all
	live      *live                // nil: not connected
	pageLimit int                  // entries of a history page; 0: the server's
	alarm     time.Time            // when Run has to look again; zero: never
	up        chan struct{}        // closed when live is set; made anew when it ends
	unread    unreadTotals
	incoming  incoming
	lossy     lossy
	settings  settings

	rows      map[string][]byte // to be written; nil: to be removed
	dirty     map[*conv]struct{}
	asking    map[*conv]struct{} // with quotes to be asked for
	metaDirty bool
}

// meta is what the store knows besides conversations and messages.
type meta struct {
	User    string `json:"user"`
	Device  string `json:"device"`
	History string `json:"history"` // the history id that all else belongs to
	Inbox   string `json:"inbox"`
	Token   []byte `json:"token"`  // of the newest sync page that was applied
	Synced  bool   `json:"synced"` // a whole sync was applied: what shows up now is new
}

// New makes a client and reads its store. It does nothing before Run.
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
		o: o, log: o.Log, base: o.API, wake: make(chan struct{}, 1), slots: make(chan struct{}, maxAsked), token: newTokenCache(o.Token), where: newPlaces(o.URL),
		subs: map[*Subscription]struct{}{}, convs: map[string]*conv{}, direct: map[string]string{},
		lanes: map[string]*lane{}, sending: map[string]*Outgoing{}, up: make(chan struct{}),
		rows: map[string][]byte{}, dirty: map[*conv]struct{}{}, asking: map[*conv]struct{}{},
		unread: unreadTotals{by: map[string]unreadIn{}}, settings: settings{}, incoming: incoming{positions: map[string]position{}},
	}
	if c.base == "" && (strings.HasPrefix(u.Scheme, "ws") || strings.HasPrefix(u.Scheme, "http")) {
		c.base = strings.Replace(u.Scheme, "ws", "http", 1) + "://" + u.Host
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: o.TLS, DialContext: o.NetDial, ForceAttemptHTTP2: true}}
	if o.Store != nil {
		if err := c.load(); err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
	}
	if o.Device != "" {
		c.meta.Device = o.Device
	}
	if c.meta.Device == "" {
		c.meta.Device = newID()
		c.metaDirty = true
	}
	return c, nil
}

// Run connects and keeps the client connected until ctx ends, which is no
// error, or a person has to act: the token is void, another device has taken
// the place of this one, the server does not speak this protocol (an [*Error]
// in all these cases), or the store failed. It returns when nothing of it runs
// any more, with everything written to the store; it may be called again.
// Spec: P-3.5, P-3.6.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errors.New("run a client: it is running")
	}
	c.running = true
	c.mu.Unlock()
	err := c.run(ctx)
	c.http.CloseIdleConnections()
	c.mu.Lock()
	c.setStatus(Status{State: Offline, User: c.status.User, Server: c.status.Server, History: c.status.History, Err: err})
	c.mu.Unlock()
	if werr := c.flush(); err == nil {
		err = werr
	}
	c.mu.Lock()
	c.running = false
	c.mu.Unlock()
	return err
}

// While runs the client while f runs, for programs that have an end. The ctx of
// f ends when Run does; if Run ended with an error, that is While's, else it is
// what f returned.
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

func (c *Client) run(ctx context.Context) error {
	refused, asked := "", false // the token that the last hello was refused with, and whether another one was asked for
	for wait := firstWait; ; {
		welcomed, err := c.connect(ctx, refused)
		if ctx.Err() != nil {
			return nil
		}
		e := refusal(err)
		if welcomed {
			wait, refused, asked = firstWait, "", false
			c.where.lost(e != nil && e.Code == CodeDraining)
		}
		switch {
		case errors.Is(err, errStore):
			return err
		case e != nil && e.Code == CodeUnauthenticated && !asked:
			refused, asked = c.token.last(), true // another one may do, at once
			continue
		case e != nil && !e.Retryable:
			return err
		case !welcomed && c.where.failed():
			continue // another gateway may take it
		}
		pause := wait/2 + rand.N(wait/2+1)
		if e != nil && e.RetryAfter > 0 {
			pause = e.RetryAfter + rand.N(e.RetryAfter)
		}
		wait = min(2*wait, maxWait)
		c.log.InfoContext(ctx, "offline", "err", err, "took", pause)
		if err := c.rest(ctx, err, pause); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// errStore wraps a failure of the store: the client stops.
var errStore = errors.New("the store of the client failed")

// rest waits before the next try and meanwhile keeps the store up to date.
func (c *Client) rest(ctx context.Context, why error, pause time.Duration) error {
	c.mu.Lock()
	c.setStatus(Status{State: Offline, User: c.status.User, Server: c.status.Server, History: c.status.History, Err: why, Retry: time.Now().Add(pause)})
	c.mu.Unlock()
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		if err := c.flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			return nil
		case <-c.wake:
		}
	}
}

// connect makes one connection and serves it until it ends; the error says
// why it ended.
func (c *Client) connect(ctx context.Context, refused string) (welcomed bool, err error) {
	c.mu.Lock()
	c.setStatus(Status{State: Connecting, User: c.status.User, Server: c.status.Server, History: c.status.History})
	c.mu.Unlock()
	if err := c.flush(); err != nil {
		return false, err
	}
	token, err := c.token.get(ctx, refused)
	if err != nil {
		return false, fmt.Errorf("get a token: %w", err)
	}
	l, err := dialLink(ctx, &c.o, c.where.now())
	if err != nil {
		return false, err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx) })
	defer running.Wait()
	defer stop()
	w, err := c.hello(ctx, l, token)
	if err != nil {
		return false, err
	}
	c.where.welcomed(w.Gateways)
	return true, c.serve(ctx, l, w)
}

// hello introduces the client and waits for the welcome. Spec: P-3.1.
func (c *Client) hello(ctx context.Context, l *link, token string) (*petrelv1.Welcome, error) {
	c.mu.Lock()
	h := &petrelv1.Hello{
		VersionMin: Protocol, VersionMax: Protocol, Token: token, Device: c.meta.Device, DeviceKind: c.o.DeviceKind, Client: c.o.Client,
		Capabilities: []string{capEdit, capCursor, capFocus, capNewest, capCall, capRel, capSignal, capPresence, capNotes, capPersonal, capMentions},
	}
	c.mu.Unlock()
	b, err := l.encode(&petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Hello{Hello: h}})
	if err != nil {
		return nil, fmt.Errorf("encode the hello: %w", err)
	}
	l.push(b)
	timeout := time.NewTimer(dialTimeout)
	defer timeout.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			return nil, errors.New("the server does not answer the hello")
		case f, ok := <-l.frames:
			if !ok {
				return nil, fmt.Errorf("say hello: %w", l.ended())
			}
			switch b := f.Body.(type) {
			case *petrelv1.ServerFrame_Welcome:
				return b.Welcome, nil
			case *petrelv1.ServerFrame_Error:
				return nil, fromWire(b.Error)
			case *petrelv1.ServerFrame_Kick:
				return nil, fromKick(b.Kick)
			}
		}
	}
}

func fromKick(k *petrelv1.Kick) *Error {
	return &Error{
		Code: k.Code, Message: k.Message, Retryable: k.Reconnect,
		RetryAfter: time.Duration(k.ReconnectAfterMs) * time.Millisecond,
	}
}

// Status is how the client is connected now.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// setStatus notes a new status; c.mu is held.
func (c *Client) setStatus(s Status) {
	c.status = s
	c.changed.Status = true
}

// notify wakes Run.
func (c *Client) notify() { signal(c.wake) }

// signal leaves a token in a channel of capacity 1, unless one is there already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// alarmAt makes Run look again at t at the latest; c.mu is held.
func (c *Client) alarmAt(t time.Time) {
	if c.alarm.IsZero() || t.Before(c.alarm) {
		c.alarm = t
	}
}
