package petrel

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// fake is a server for one user, alice, in the memory of a test. It does what
// the protocol says; a test makes it misbehave through its hooks.
type fake struct {
	t *testing.T

	mu        sync.Mutex
	history   string
	caps      []string
	window    *petrelv1.Window
	beat      uint32 // heartbeat, ms; 0: none
	convs     map[string]*fakeConv
	page      int // entries of a history page
	sessions  []*fakeSession
	hellos    []*petrelv1.Hello
	sent      []*petrelv1.Send // as they came
	cursors   []*petrelv1.MoveCursor
	signaled  []*petrelv1.SendSignal
	watched   [][]string
	watchedIn []string // the conversations of watches
	busy      bool     // the next watch is refused
	syncs     int
	tokens    []string // of the first sync of each session
	reads     int
	dials     []time.Time
	most      int // unanswered sends of a session, the highest number seen

	// Hooks; true: the frame has been dealt with.
	onHello func(*fakeSession, *petrelv1.ClientFrame) bool
	onSend  func(*fakeSession, *petrelv1.ClientFrame) bool
	onFrame func(*fakeSession, *petrelv1.ClientFrame) bool
	// push is what happens to an event; nil: it is sent.
	push func(*fakeSession, *petrelv1.Message)
}

type fakeConv struct {
	id, peer, title string
	profile         string              // version of that of peer
	log             []*petrelv1.Message // seq 1 at index 0
	first           uint64              // oldest entry left; 0: 1
	read            uint64
	readCounted     uint64
	notes           []*petrelv1.Note
}

type fakeSession struct {
	s        *fake
	conn     net.Conn
	mu       sync.Mutex // guards writes
	lagged   bool
	welcomed bool
	synced   bool
	open     int // unanswered sends that a hook keeps
}

func newFake(t *testing.T) *fake {
	return &fake{
		t: t, history: "h1", convs: map[string]*fakeConv{}, page: 50,
		window: &petrelv1.Window{Sends: 64, Bytes: 1 << 18},
	}
}

func (s *fake) conv(id, peer string) *fakeConv {
	v := &fakeConv{id: id, peer: peer, first: 1}
	s.convs[id] = v
	return v
}

func (v *fakeConv) head() uint64 { return uint64(len(v.log)) }

func (v *fakeConv) counted(seq uint64) uint64 {
	if seq == 0 {
		return 0
	}
	return v.log[seq-1].Counted
}

// add appends an entry; s.mu is held.
func (v *fakeConv) add(m *petrelv1.Message) *petrelv1.Message {
	m.Conv, m.Seq, m.TimeMs = v.id, v.head()+1, uint64(time.Now().UnixMilli())
	m.Counted = v.counted(v.head())
	if counts(m) {
		m.Counted++
	}
	if root := m.Rel.GetThread(); root != 0 {
		m.ThreadN = 1
		for _, other := range v.log {
			if other.Rel.GetThread() == root {
				m.ThreadN++
			}
		}
	}
	v.log = append(v.log, m)
	return m
}

// post appends an entry and pushes it to all sessions.
func (s *fake) post(conv string, m *petrelv1.Message) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m = s.convs[conv].add(m)
	for _, ss := range s.sessions {
		s.pushTo(ss, m)
	}
	return m.Seq
}

func (s *fake) pushTo(ss *fakeSession, m *petrelv1.Message) {
	switch {
	case !ss.welcomed || ss.lagged:
	case s.push != nil:
		s.push(ss, m)
	default:
		ss.event(m)
	}
}

func text(from, text string) *petrelv1.Message {
	return &petrelv1.Message{From: from, ClientMsgId: newID(), Body: &petrelv1.Message_Text{Text: text}}
}

func (ss *fakeSession) event(ms ...*petrelv1.Message) {
	ss.write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{Events: &petrelv1.Events{Messages: ms}}})
}

func (ss *fakeSession) write(f *petrelv1.ServerFrame) {
	b, err := f.MarshalVT()
	if err != nil {
		ss.s.t.Error(err)
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	_, _ = ss.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)) // a lost frame shows at the client
}

func (ss *fakeSession) fail(id uint64, e *petrelv1.Error) {
	ss.write(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Error{Error: e}})
}

// answer answers a call.
func (ss *fakeSession) answer(id uint64, response proto.Message) {
	b, err := proto.Marshal(response)
	if err != nil {
		ss.s.t.Error(err)
	}
	ss.write(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Answer{Answer: &petrelv1.Answer{Response: &petrelv1.Answer_Proto{Proto: b}}}})
}

func (ss *fakeSession) kick(k *petrelv1.Kick) {
	ss.write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: k}})
	_ = ss.conn.Close() // the client shows what it made of it
}

// dial is Options.NetDial. The session ends with its connection.
func (s *fake) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	mine, theirs := net.Pipe()
	ss := &fakeSession{s: s, conn: &buffered{Conn: mine, out: make(chan []byte, 1<<14), closed: make(chan struct{})}}
	go ss.conn.(*buffered).drain()
	s.mu.Lock()
	s.sessions = append(s.sessions, ss)
	s.dials = append(s.dials, time.Now())
	s.mu.Unlock()
	go ss.serve()
	return theirs, nil
}

// buffered is a socket with a buffer, which a pipe has not.
type buffered struct {
	net.Conn
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func (b *buffered) Write(p []byte) (n int, err error) {
	select {
	case <-b.closed:
		return 0, io.ErrClosedPipe
	default:
	}
	select {
	case b.out <- slices.Clone(p):
		return len(p), nil
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
}

func (b *buffered) drain() {
	for {
		select {
		case p := <-b.out:
			_, _ = b.Conn.Write(p) // a lost frame shows at the client
		case <-b.closed:
			for len(b.out) > 0 { // earlier writes go out
				_, _ = b.Conn.Write(<-b.out)
			}
			_ = b.Conn.Close()
			return
		}
	}
}

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (ss *fakeSession) serve() {
	s := ss.s
	br := bufio.NewReader(ss.conn)
	defer func() {
		_ = ss.conn.Close() // it has ended
		s.mu.Lock()
		s.sessions = slices.DeleteFunc(s.sessions, func(x *fakeSession) bool { return x == ss })
		s.mu.Unlock()
	}()
	for {
		var n [4]byte
		if _, err := io.ReadFull(br, n[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(n[:]))
		if _, err := io.ReadFull(br, b); err != nil {
			return
		}
		f := new(petrelv1.ClientFrame)
		if err := f.UnmarshalVT(b); err != nil {
			s.t.Errorf("decode a frame of the client: %v", err)
			return
		}
		s.mu.Lock()
		s.handle(ss, f)
		s.mu.Unlock()
	}
}

func (s *fake) handle(ss *fakeSession, f *petrelv1.ClientFrame) {
	if s.onFrame != nil && s.onFrame(ss, f) {
		return
	}
	switch b := f.Body.(type) {
	case *petrelv1.ClientFrame_Hello:
		s.hellos = append(s.hellos, b.Hello)
		if s.onHello != nil && s.onHello(ss, f) {
			return
		}
		ss.welcomed = true
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{
			Version: 1, User: "alice", Inbox: "inbox", HistoryId: s.history, Window: s.window, Capabilities: s.caps,
			HeartbeatMs: s.beat, HeartbeatMisses: 2, Limits: &petrelv1.Limits{FrameBytes: 65536, BodyBytes: 49152, HistoryMessages: uint32(s.page)},
		}}})
	case *petrelv1.ClientFrame_Sync:
		s.syncs++
		if !ss.synced {
			ss.synced = true
			s.tokens = append(s.tokens, string(b.Sync.Token))
		}
		ss.lagged = false
		p := &petrelv1.SyncPage{}
		known := string(b.Sync.Token)
		for _, id := range slices.Sorted(maps.Keys(s.convs)) {
			at := fmt.Sprintf("%s=%d;", id, s.convs[id].head())
			if !strings.Contains(known, at) { // it has changed
				p.Convs = append(p.Convs, s.convs[id].state(int(b.Sync.Newest)))
			}
			p.Token = append(p.Token, at...)
		}
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Sync{Sync: p}})
	case *petrelv1.ClientFrame_History:
		s.reads++
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_History{History: s.historyPage(b.History)}})
	case *petrelv1.ClientFrame_Send:
		s.sent = append(s.sent, b.Send)
		if s.onSend == nil || !s.onSend(ss, f) {
			ss.write(s.store(f))
		}
	case *petrelv1.ClientFrame_Cursor:
		s.cursors = append(s.cursors, b.Cursor)
		v := s.convs[b.Cursor.Conv]
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Cursor{Cursor: &petrelv1.CursorMoved{
			Conv: v.id, Delivered: b.Cursor.Delivered, Read: b.Cursor.Read, Mentions: v.mentions(max(v.read, b.Cursor.Read)), Head: v.head(),
		}}})
	case *petrelv1.ClientFrame_Focus:
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Focus{Focus: &petrelv1.Focused{}}})
	case *petrelv1.ClientFrame_Signal:
		s.signaled = append(s.signaled, b.Signal)
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Signal{Signal: &petrelv1.Signaled{}}})
	case *petrelv1.ClientFrame_Watch:
		s.watched, s.watchedIn = append(s.watched, b.Watch.Users), append(s.watchedIn, b.Watch.Conv)
		if s.busy {
			s.busy = false
			ss.fail(f.Id, &petrelv1.Error{Code: CodeRateLimited, Retryable: true, RetryAfterMs: 500})
			return
		}
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Watch{Watch: &petrelv1.Watching{}}})
	case *petrelv1.ClientFrame_Ping:
		ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Pong{Pong: &petrelv1.Pong{}}})
	}
}

func (v *fakeConv) state(newest int) *petrelv1.ConvState {
	st := &petrelv1.ConvState{
		Conv: v.id, Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Title: v.title, Peer: v.peer, PeerProfile: v.profile, Head: v.head(), Counted: v.counted(v.head()),
		FirstSeq: v.first, Joined: 1, Role: petrelv1.Role_ROLE_MEMBER, Read: v.read, ReadCounted: v.readCounted,
		Mentions: v.mentions(v.read),
	}
	if v.peer != "" {
		st.Kind = petrelv1.ConvKind_CONV_KIND_DIRECT
	}
	if n := len(v.log); newest > 0 {
		st.Newest = v.log[max(0, n-newest):]
		st.Notes = v.notesOf(st.Newest)
	}
	return st
}

// mentions are the entries above read that mention alice.
func (v *fakeConv) mentions(read uint64) (seqs []uint64) {
	for _, m := range v.log {
		if m.Seq > read && mentionsUser(m, "alice") {
			seqs = append(seqs, m.Seq)
		}
	}
	return seqs
}

// historyPage answers P-5.2.
func (s *fake) historyPage(q *petrelv1.GetHistory) *petrelv1.HistoryPage {
	v := s.convs[q.Conv]
	p := &petrelv1.HistoryPage{Conv: q.Conv, Head: v.head(), FirstSeq: v.first}
	limit := s.page
	if q.Limit > 0 {
		limit = min(limit, int(q.Limit))
	}
	from, to := max(q.After, v.first-1), v.head()
	if q.Before != 0 {
		to = min(to, q.Before-1)
		if to > from+uint64(limit) {
			from, p.More = to-uint64(limit), true
		}
	} else if to > from+uint64(limit) {
		to, p.More = from+uint64(limit), true
	}
	if from < to {
		p.Messages = v.log[from:to]
		p.CoveredFrom, p.CoveredTo, p.Notes = from+1, to, v.notesOf(p.Messages)
	}
	if q.OnlyNotes {
		p.Messages = nil
	}
	return p
}

// notesOf are the notes of some entries.
func (v *fakeConv) notesOf(ms []*petrelv1.Message) []*petrelv1.Note {
	var of []*petrelv1.Note
	for _, n := range v.notes {
		if len(ms) > 0 && n.Seq >= ms[0].Seq && n.Seq <= ms[len(ms)-1].Seq {
			of = append(of, n)
		}
	}
	return of
}

// store stores a send once and returns its ack; it is pushed to the others.
func (s *fake) store(f *petrelv1.ClientFrame) *petrelv1.ServerFrame {
	q := f.GetSend()
	id := q.Conv
	for _, v := range s.convs {
		if q.User != "" && v.peer == q.User {
			id = v.id
		}
	}
	if id == "" {
		id = "d-" + q.User
		s.conv(id, q.User)
	}
	v := s.convs[id]
	seq := uint64(0)
	for _, m := range v.log {
		if m.From == "alice" && m.ClientMsgId == q.ClientMsgId {
			seq = m.Seq
		}
	}
	if seq == 0 {
		m := entryOf(q)
		m.From = "alice"
		seq = v.add(m).Seq
	}
	a := &petrelv1.Ack{Seq: seq, TimeMs: v.log[seq-1].TimeMs}
	if q.Rel != nil {
		a.Counted, a.ThreadN = v.log[seq-1].Counted, v.log[seq-1].ThreadN
	}
	if q.User != "" {
		a.Conv = id
	}
	return &petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Ack{Ack: a}}
}

// client makes a client of s.
func (s *fake) client(o Options) *Client {
	s.t.Helper()
	o.URL, o.NetDial = "tcp://fake:1", s.dial
	if o.Token == nil {
		o.Token = StaticToken("pt_x")
	}
	c, err := New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// run runs c until stop is called, which returns what Run returned.
func run(c *Client) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// play runs a test in a bubble, where time is its own.
func play(t *testing.T, f func(t *testing.T, s *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newFake(t)) })
}

// pass lets time go on in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// cut ends all connections.
func (s *fake) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ss := range s.sessions {
		_ = ss.conn.Close() // the client shows what it made of it
	}
}

// shown are the texts of a conversation as the client shows them.
func shown(c *Client, conv string) string {
	out := []string{}
	for _, m := range c.Messages(conv, 0, 0) {
		if m.GetText() != "" {
			out = append(out, m.GetText())
		}
	}
	return fmt.Sprint(out)
}

func sendText(t *testing.T, c *Client, conv, text string) *Outgoing {
	t.Helper()
	o, err := c.Send(Draft{Conv: conv, Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
