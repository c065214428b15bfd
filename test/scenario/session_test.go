package scenario

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// session is one client of a scenario, over all its connections. The
// goroutine of the test drives it; take runs beside it for each connection.
type session struct {
	w    *world
	name string
	user *user          // nil: admin
	turn int            // of the nodes, for the next connection
	srv  *imtest.Server // of the newest connection

	conn      *wiretest.Conn
	greeted   bool
	asked     bool // something was sent before the welcome: it or the end will come
	lastID    uint64
	pending   map[uint64]*sent // sends of this connection without an answer
	requests  map[uint64]bool  // other requests without an answer
	ponged    uint64           // id of the last pong
	syncToken []byte           // of the last sync
	earlier   []byte           // the same, of the history id before
	heads     map[string]uint64
	seen      map[string]map[uint64]bool // entries this session was told, by conversation
	lines     map[pace][]string          // rendered and not expected yet

	stored    map[string]uint64       // heads that any session knew when this one connected: a new owner may push up to these
	logged    *petrelv1.LoginResponse // tokens of the device; nil: those of the user
	spent     string                  // the refresh token that was used last
	kind      string                  // of the device; "": by the session's name
	onConn    bool                    // API calls go over the connection
	mayLag    bool                    // more is sent than the server queues for a session that gets no core for a moment
	historyID string                  // of what the session remembers

	changed chan struct{} // capacity 1; a token: the fields below changed

	mu     sync.Mutex // tier 0; guards the fields below
	frames []*petrelv1.ServerFrame
	ended  error // why the connection ended
	window window
	gate   chan struct{} // nil: reading; else closed when reading goes on
	done   chan struct{} // closed when take has returned
}

func newSession(w *world, name string, u *user) *session {
	s := &session{w: w, name: name, user: u, turn: len(w.sessions), lines: map[pace][]string{}, changed: make(chan struct{}, 1)}
	s.forget()
	return s
}

// forget drops what the session remembers of conversations.
func (s *session) forget() {
	s.syncToken, s.heads, s.seen = nil, map[string]uint64{}, map[string]map[uint64]bool{}
}

// window counts what is unanswered, as the welcome of the server bounds it.
type window struct {
	sends, bytes int
	size         map[uint64]int // by frame id
}

// firstID keeps the ids of the session apart from those of wiretest.Conn.
const firstID = 1 << 32

// open connects without a hello. small: little room in the socket, for a
// client that will stop reading.
func (s *session) open(small bool) {
	w := s.w
	w.t.Helper()
	if s.conn != nil {
		w.fatalf("%s is connected already", s.name)
	}
	srv := s.nextNode()
	s.srv = srv
	o := wiretest.Options{URL: srv.URL(w.way.framing), Codec: w.way.codec, TLS: srv.TLS(), Queue: 16}
	if small {
		o.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetReadBuffer(64 << 10) // less than a segment of the loopback makes every segment wait for a timer
			}
			return c, err
		}
	}
	conn, err := wiretest.Open(w.deadline(), o)
	if err != nil {
		w.fatalf("%s connects: %v", s.name, err)
	}
	s.conn, s.greeted, s.asked, s.lastID = conn, false, false, firstID
	s.pending, s.requests = map[uint64]*sent{}, map[uint64]bool{}
	s.mu.Lock()
	s.frames, s.ended, s.gate, s.done = nil, nil, nil, make(chan struct{})
	s.window = window{size: map[uint64]int{}}
	done := s.done
	s.mu.Unlock()
	go s.take(conn, done)
}

// connect says hello as the session's user.
func (s *session) connect(small bool) {
	s.w.t.Helper()
	s.open(small)
	err := s.conn.Hello(s.w.deadline(), s.hello())
	if err != nil {
		s.w.fatalf("%s: %v", s.name, err)
	}
	s.stored = map[string]uint64{}
	for _, other := range s.w.sessions {
		for conv, head := range other.heads {
			s.stored[conv] = max(s.stored[conv], head)
		}
	}
	s.welcome(s.conn.Welcome)
}

func (s *session) hello() *petrelv1.Hello {
	d := s.device()
	return &petrelv1.Hello{
		VersionMin: wiretest.Version, VersionMax: wiretest.Version, Token: s.token(),
		Device: d.Id, DeviceKind: d.Kind, Client: "scenario", Capabilities: s.w.offers,
	}
}

// device is what the session's name says: "alice/phone2" is one of kind phone.
func (s *session) device() *petrelv1.DeviceRef {
	d := &petrelv1.DeviceRef{Id: strings.ReplaceAll(s.name, "/", "-"), Kind: s.kind, Name: s.name}
	if _, kind, ok := strings.Cut(s.name, "/"); ok && d.Kind == "" {
		d.Kind = strings.TrimRight(kind, "0123456789")
	}
	switch d.Kind {
	case "":
		d.Kind = "desktop"
	case "none":
		d.Kind = ""
	}
	return d
}

// token is the device's access token, or else the user's.
func (s *session) token() string {
	if s.logged != nil {
		return s.logged.AccessToken
	}
	return s.user.token
}

// welcome takes what the server says of itself. Another history id voids what
// the session remembers (P-3.4).
func (s *session) welcome(w *petrelv1.Welcome) {
	s.greeted = true
	if s.historyID != "" && s.historyID != w.HistoryId {
		s.earlier = s.syncToken
		s.forget()
	}
	s.historyID = w.HistoryId
	s.conn.Welcome = w
	s.user.inbox = w.Inbox
}

// take moves what arrives into frames, while the session reads.
func (s *session) take(conn *wiretest.Conn, done chan struct{}) {
	defer close(done)
	for {
		s.mu.Lock()
		gate := s.gate
		s.mu.Unlock()
		if gate != nil {
			<-gate // close opens it too
		}
		f, err := conn.Recv(context.Background()) // ends with the connection
		s.mu.Lock()
		if err != nil {
			s.ended = err
		} else {
			s.frames = append(s.frames, f)
			s.window.answered(f)
		}
		s.mu.Unlock()
		select {
		case s.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (w *window) add(id uint64, size int) {
	w.sends++
	w.bytes += size
	w.size[id] = size
}

func (w *window) answered(f *petrelv1.ServerFrame) {
	if size, ok := w.size[f.Id]; ok && f.Id != 0 {
		delete(w.size, f.Id)
		w.sends--
		w.bytes -= size
	}
}

// close ends the connection from our side; frames that came are kept.
func (s *session) close() {
	if s.conn == nil {
		return
	}
	s.read(true)
	_ = s.conn.Close() // the server may have closed it
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	<-done
	s.conn = nil
	s.render() // what came before the end
}

// read makes the session read from its socket or not.
func (s *session) read(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on && s.gate != nil:
		close(s.gate)
		s.gate = nil
	case !on && s.gate == nil:
		s.gate = make(chan struct{})
	}
}

// live tells whether the session can be asked for a pong.
func (s *session) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && s.greeted && s.ended == nil && s.gate == nil
}

// await waits until ok; it is asked again whenever something arrives.
func (s *session) await(what string, ok func() bool) {
	s.w.t.Helper()
	for !ok() {
		early := time.NewTimer(isLost)
		select {
		case <-s.changed:
		case <-early.C:
			if s.w.machine.Stood() > s.w.stood {
				s.w.fatalf("the machine stood still, and %s does not get: %s", s.name, what)
			}
			eventually.Receive(s.w.t, fmt.Sprintf("%s:%d: %s gets %s", s.w.file, s.w.line, s.name, what), s.changed)
		}
		early.Stop()
	}
}

// put adds a line of what the session got.
func (s *session) put(format string, a ...any) {
	l := fmt.Sprintf(format, a...)
	s.lines[s.paceOf(l)] = append(s.lines[s.paceOf(l)], l)
}

// next is the next line of a pace, which should be want.
func (s *session) next(p pace, want string) string {
	s.w.t.Helper()
	if s.user != nil && p != "ok" { // a call over HTTP is answered when the command returns
		s.await(want, func() bool { s.render(); return len(s.lines[p]) > 0 })
	}
	if len(s.lines[p]) == 0 {
		s.w.fatalf("%s got nothing, want: %s", s.name, want)
	}
	l := s.lines[p][0]
	s.lines[p] = s.lines[p][1:]
	return l
}

// barrier waits until everything the server had for this connection is here.
func (s *session) barrier() {
	s.w.t.Helper()
	if s.conn == nil {
		return
	}
	id := s.id()
	if _, err := s.conn.Write(&petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}}); err != nil {
		return // its end is a line
	}
	s.await("a pong", func() bool { s.render(); return s.ponged >= id || s.conn == nil || s.isOver() })
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended != nil && len(s.frames) == 0
}

func (s *session) id() uint64 {
	s.lastID++
	return s.lastID
}

// waitGreeted waits for what a hello or something in its place leads to.
func (s *session) waitGreeted() {
	s.w.t.Helper()
	s.await("a welcome or the end", func() bool { s.render(); return s.greeted || s.conn == nil })
}

// ask writes a request whose answer is a line.
func (s *session) ask(f *petrelv1.ClientFrame) {
	f.Id = s.id()
	s.requests[f.Id] = true
	_, _ = s.conn.Write(f) // a connection that has ended shows as a line
}

// reading tells whether the session takes what comes.
func (s *session) reading() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate == nil
}

// waitAnswered waits until nothing of this connection is unanswered, and every answer is rendered.
func (s *session) waitAnswered() {
	s.w.t.Helper()
	s.await("answers", func() bool {
		s.render()
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.window.sends == 0 && len(s.requests) == 0 && len(s.frames) == 0 || s.ended != nil
	})
}

// post writes a send as soon as the window has room for it.
func (s *session) post(x *sent) {
	f := s.frame(x)
	size := f.SizeVT() * 2 // JSON is larger
	s.await("room in the window", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		room := s.conn.Welcome.GetWindow()
		if s.ended != nil || !s.greeted { // no room was announced; the answer of the server is the point
			return true
		}
		if s.window.sends >= int(room.GetSends()) || s.window.bytes > 0 && s.window.bytes+size > int(room.GetBytes()) {
			return false
		}
		s.window.add(f.Id, size)
		return true
	})
	_, _ = s.conn.Write(f) // a connection that has ended shows as a line
}

func (s *session) frame(x *sent) *petrelv1.ClientFrame {
	if s.conn == nil {
		s.w.fatalf("%s is not connected", s.name)
	}
	id := s.id()
	s.pending[id] = x
	s.w.ledger.attempted(x)
	return &petrelv1.ClientFrame{Id: id, Body: &petrelv1.ClientFrame_Send{Send: x.frame}}
}

// endLine is the line for the end of a connection. The error of a broken socket is not in
// it: that is chance.
func endLine(err error) string {
	var c *wiretest.Closed
	if !errors.As(err, &c) {
		return "closed: " + err.Error()
	}
	l := "closed"
	if c.Kick != nil {
		l = "kicked " + c.Kick.Code
		if c.Kick.Reconnect != im.Code(c.Kick.Code).Info().Reconnect {
			l += " with another reconnect than the catalogue says"
		}
		if c.Code != 0 && c.Reason != c.Kick.Code {
			l += " reason=" + c.Reason
		}
	}
	if c.Code != 0 && c.Code != 1006 {
		l += " close=" + itoa(c.Code)
	}
	return l
}
