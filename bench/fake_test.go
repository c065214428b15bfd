package bench

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// someStore makes ids like those of a store.
var someStore = im.NewIDs([16]byte{1})

// fake is a server that keeps everything in memory and reads and writes frames by internal/wire. Its hooks let it do
// wrong.
type fake struct {
	petrelv1connect.UnimplementedAdminServiceHandler
	url, tcp string
	net      *sockets // by which it is reached

	mu       sync.Mutex
	users    map[string]string // token → user
	convs    map[string]*fakeConv
	sessions map[string]*fakeSession // by user
	limits   *petrelv1.ServerLimits
	set      []*petrelv1.ServerLimits // calls of SetLimits
	accepted uint64

	// Hooks that do wrong, called under mu. A hook that is nil does nothing.
	onSend func(s *petrelv1.Send) *im.Error                                  // instead of an ack
	onPush func(to *fakeSession, conv string, seq uint64, row []byte) []byte // what is pushed instead of the row
	onAck  func(a *wire.Ack)
	onRead func(p *petrelv1.HistoryPage)
	putOff int    // pages of history, of those that are asked for next
	stall  func() // waits before a frame is looked at
}

type fakeConv struct {
	members []string
	rows    [][]byte
	k       map[string]uint64
}

type fakeSession struct {
	user   string
	enc    wire.Encoding
	conn   net.Conn
	lagged bool
	synced bool

	mu   sync.Mutex
	out  []byte
	wake chan struct{} // capacity 1
}

// newFake returns a fake server in the bubble of the test.
func newFake(t *testing.T) *fake {
	m := newMemory()
	f := serveFake(t, m.listen("fake:80"), m.listen("fake:81"))
	f.net = m.sockets()
	return f
}

// newFakeOnLoopback returns a fake server on sockets of the system.
func newFakeOnLoopback(t *testing.T) *fake {
	var l [2]net.Listener
	for i := range l {
		var err error
		if l[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	f := serveFake(t, l[0], l[1])
	f.net = system()
	return f
}

// serveFake serves HTTP and frames until the test ends.
func serveFake(t *testing.T, web, frames net.Listener) *fake {
	f := &fake{
		users: map[string]string{}, convs: map[string]*fakeConv{}, sessions: map[string]*fakeSession{},
		limits: &petrelv1.ServerLimits{Connections: 10000, ConnectionsPerIp: 10, NewConnectionsPerIpPerS: -1, Unauthenticated: 100, UnauthenticatedPerIp: 100,
			SendsPerS: 10, SendBurst: 40, WindowSends: 64, WindowBytes: 256 << 10},
	}
	var wg sync.WaitGroup
	mux := http.NewServeMux()
	mux.Handle(petrelv1connect.NewAdminServiceHandler(f))
	mux.HandleFunc("/v1/ws", func(w http.ResponseWriter, r *http.Request) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(sum[:]))
		wg.Go(func() { f.serve(c, rw.Reader, wire.WebSocket) })
	})
	server := &http.Server{Handler: mux}
	wg.Go(func() { _ = server.Serve(web) }) // until it is closed
	wg.Go(func() {
		for {
			c, err := frames.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.serve(c, bufio.NewReader(c), wire.TCP) })
		}
	})
	f.url, f.tcp = "http://"+web.Addr().String(), frames.Addr().String()
	t.Cleanup(func() {
		frames.Close()
		f.mu.Lock()
		for _, s := range f.sessions {
			s.conn.Close()
		}
		f.mu.Unlock()
		server.Close()
		wg.Wait()
	})
	return f
}

// params returns parameters for a small run of a scenario against f.
func (f *fake) params(scenario string) Params {
	p := DefaultParams(scenario)
	p.URL, p.TCPAddr, p.AdminKey, p.net = f.url, f.tcp, "pk_test", f.net
	p.Senders, p.Receivers, p.Members, p.Connections = 4, 3, 12, 30
	p.Seconds, p.WarmUp = 0.1, 0.05
	return p
}

// slow makes f handle a frame of each connection every d.
func (f *fake) slow(d time.Duration) { f.stall = func() { <-time.After(d) } }

// brief returns parameters for a run of some hundred messages, and makes f handle a frame of each connection
// every 0.5 ms.
func (f *fake) brief(scenario string) Params {
	p := f.params(scenario)
	p.Seconds, p.WarmUp = 0.08, 0
	f.slow(500 * time.Microsecond)
	return p
}

type wireAck = wire.Ack

func (f *fake) serve(c net.Conn, r *bufio.Reader, framing wire.Framing) {
	s := &fakeSession{conn: c, wake: make(chan struct{}, 1), enc: wire.Encoding{Framing: framing}}
	defer c.Close()
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	wg.Go(func() {
		for {
			select {
			case <-s.wake:
			case <-done:
				return
			}
			s.mu.Lock()
			out := s.out
			s.out = nil
			s.mu.Unlock()
			if _, err := c.Write(out); err != nil {
				c.Close()
				return
			}
		}
	})
	for first := true; ; first = false {
		codec, b, err := readClientFrame(r, framing)
		if err != nil {
			return
		}
		if first {
			s.enc.Codec = codec
		}
		frame := &petrelv1.ClientFrame{}
		if e := wire.Decode(s.enc.Codec, b, frame); e != nil {
			panic("the generator sent a frame that does not decode: " + e.Error())
		}
		if f.stall != nil {
			f.stall()
		}
		f.frame(s, frame)
	}
}

func readClientFrame(r *bufio.Reader, framing wire.Framing) (wire.Codec, []byte, error) {
	if framing == wire.TCP {
		b, err := r.Peek(1)
		if err != nil {
			return 0, nil, err
		}
		if b[0] == '{' {
			line, err := r.ReadBytes('\n')
			return wire.JSON, line, err
		}
		var n [4]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return 0, nil, err
		}
		out := make([]byte, binary.BigEndian.Uint32(n[:]))
		_, err = io.ReadFull(r, out)
		return wire.Proto, out, err
	}
	var h [2]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	if h[1]&0x80 == 0 || h[0]&0xF0 != 0x80 {
		panic("the generator sent a frame that is not masked or not whole")
	}
	n := uint64(h[1] & 127)
	for _, l := range []struct{ mark, bytes int }{{126, 2}, {127, 8}} {
		if int(h[1]&127) == l.mark {
			var b [8]byte
			if _, err := io.ReadFull(r, b[8-l.bytes:]); err != nil {
				return 0, nil, err
			}
			n = binary.BigEndian.Uint64(b[:])
		}
	}
	var mask [4]byte
	if _, err := io.ReadFull(r, mask[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	for i := range b {
		b[i] ^= mask[i&3]
	}
	return map[byte]wire.Codec{1: wire.JSON, 2: wire.Proto}[h[0]&15], b, nil
}

// write queues bytes for the session.
func (s *fakeSession) write(b []byte) {
	s.mu.Lock()
	s.out = append(s.out, b...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *fakeSession) answer(f *petrelv1.ServerFrame) { s.write(wire.AppendFrame(nil, s.enc, f)) }

func (f *fake) frame(s *fakeSession, c *petrelv1.ClientFrame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch b := c.Body.(type) {
	case *petrelv1.ClientFrame_Hello:
		s.user = f.users[b.Hello.Token]
		f.sessions[s.user] = s
		s.answer(&petrelv1.ServerFrame{Id: c.Id, Body: &petrelv1.ServerFrame_Welcome{Welcome: &petrelv1.Welcome{
			Version: 1, User: s.user, Window: &petrelv1.Window{Sends: uint32(f.limits.WindowSends), Bytes: uint32(f.limits.WindowBytes)},
		}}})
	case *petrelv1.ClientFrame_Sync:
		news := s.lagged || !s.synced
		s.synced, s.lagged = true, false
		page := &petrelv1.SyncPage{Token: []byte("t")}
		for id, v := range f.convs {
			if !news {
				break // all was told already
			}
			for _, m := range v.members {
				if m == s.user {
					page.Convs = append(page.Convs, &petrelv1.ConvState{Conv: id, Head: uint64(len(v.rows))})
				}
			}
		}
		s.answer(&petrelv1.ServerFrame{Id: c.Id, Body: &petrelv1.ServerFrame_Sync{Sync: page}})
	case *petrelv1.ClientFrame_History:
		if f.putOff > 0 {
			f.putOff--
			s.answer(&petrelv1.ServerFrame{Id: c.Id, Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(&im.Error{Code: im.CodeOverloaded, RetryAfter: time.Millisecond})}})
			return
		}
		s.answer(&petrelv1.ServerFrame{Id: c.Id, Body: &petrelv1.ServerFrame_History{History: f.page(b.History)}})
	case *petrelv1.ClientFrame_Send:
		f.send(s, c.Id, b.Send)
	case *petrelv1.ClientFrame_Pong:
	case *petrelv1.ClientFrame_Ping:
		s.answer(&petrelv1.ServerFrame{Id: c.Id, Body: &petrelv1.ServerFrame_Pong{Pong: &petrelv1.Pong{}}})
	default:
		panic(fmt.Sprintf("the generator sent %T", b))
	}
}

func (f *fake) page(h *petrelv1.GetHistory) *petrelv1.HistoryPage {
	v := f.convs[h.Conv]
	p := &petrelv1.HistoryPage{Conv: h.Conv, Head: uint64(len(v.rows))}
	const limit = 60
	for q := h.After + 1; q <= p.Head && len(p.Messages) < limit; q++ {
		m := &petrelv1.Message{}
		if err := wire.ParseMessage(v.rows[q-1], m); err != nil {
			panic(err)
		}
		p.Messages = append(p.Messages, m)
		p.More = q < p.Head
	}
	if f.onRead != nil {
		f.onRead(p)
	}
	return p
}

func (f *fake) send(s *fakeSession, id uint64, m *petrelv1.Send) {
	if f.onSend != nil {
		if e := f.onSend(m); e != nil {
			s.answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(e)}})
			return
		}
	}
	ack := wire.Ack{ID: id, TimeMs: 1}
	conv := m.Conv
	if m.User != "" {
		conv = someStore.Direct(1, im.User(s.user), im.User(m.User)).String()
		ack.Conv = conv
		if f.convs[conv] == nil { // a first entry by nobody, as a server may write it
			f.convs[conv] = &fakeConv{members: []string{s.user, m.User}, k: map[string]uint64{}}
			f.store(nil, conv, &petrelv1.Message{Body: &petrelv1.Message_Members{Members: &petrelv1.MemberChange{}}})
		}
	}
	v := f.convs[conv]
	if ack.Seq = v.k[s.user+m.ClientMsgId]; ack.Seq == 0 {
		if m.After == nil {
			panic("the generator sent no after")
		}
		if *m.After > uint64(len(v.rows)) {
			s.answer(&petrelv1.ServerFrame{Id: id, Body: &petrelv1.ServerFrame_Error{Error: wire.ErrorFrame(&im.Error{Code: im.CodeAfterAhead})}})
			return
		}
		f.accepted++
		ack.Seq = f.store(s, conv, &petrelv1.Message{From: s.user, ClientMsgId: m.ClientMsgId, Body: &petrelv1.Message_Text{Text: m.GetText()}})
		v.k[s.user+m.ClientMsgId] = ack.Seq
	}
	if f.onAck != nil {
		f.onAck(&ack)
	}
	s.write(wire.AppendAck(nil, s.enc, ack))
}

// store appends an entry and pushes it to everybody but the session it is from.
func (f *fake) store(from *fakeSession, conv string, m *petrelv1.Message) uint64 {
	v := f.convs[conv]
	m.Conv, m.Seq, m.TimeMs = conv, uint64(len(v.rows)+1), 1795262400000
	row := wire.AppendMessage(nil, m)
	v.rows = append(v.rows, row)
	for _, u := range v.members {
		to := f.sessions[u]
		if to == nil || to == from || to.lagged || !to.synced {
			continue
		}
		pushed := row
		if f.onPush != nil {
			if pushed = f.onPush(to, conv, m.Seq, row); pushed == nil || to.lagged {
				continue
			}
		}
		to.write(wire.AppendEvents(nil, to.enc, splitRows(pushed)))
	}
	return m.Seq
}

// splitRows splits rows that were put together.
func splitRows(b []byte) (rows [][]byte) {
	for len(b) > 0 {
		n, k := binary.Uvarint(b[1:])
		end := 1 + k + int(n)
		rows = append(rows, b[:end])
		b = b[end:]
	}
	return rows
}

// sends tells whether a session is one of the first n of a run.
func (s *fakeSession) sends(n int) bool {
	_, number, _ := strings.Cut(strings.TrimPrefix(s.user, "bench-"), "-")
	i, err := strconv.Atoi(number)
	return err == nil && i < n
}

// lag tells a session that it lags.
func (s *fakeSession) lag() {
	s.lagged = true
	s.answer(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}})
}

func (f *fake) CreateUsers(_ context.Context, r *connect.Request[petrelv1.CreateUsersRequest]) (*connect.Response[petrelv1.CreateUsersResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &petrelv1.CreateUsersResponse{}
	for _, u := range r.Msg.Users {
		f.users["pt_"+u] = u
		out.Tokens = append(out.Tokens, &petrelv1.UserToken{User: u, Token: "pt_" + u, Created: true})
	}
	return connect.NewResponse(out), nil
}

func (f *fake) CreateGroup(_ context.Context, r *connect.Request[petrelv1.AdminCreateGroupRequest]) (*connect.Response[petrelv1.AdminCreateGroupResponse], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := &fakeConv{k: map[string]uint64{}}
	for _, m := range r.Msg.Members {
		v.members = append(v.members, m.User)
	}
	id := im.NewGroupID().String()
	f.convs[id] = v
	f.store(nil, id, &petrelv1.Message{Body: &petrelv1.Message_Members{Members: &petrelv1.MemberChange{Added: r.Msg.Members}}})
	return connect.NewResponse(&petrelv1.AdminCreateGroupResponse{Conv: id, Created: true}), nil
}

func (f *fake) GetHistory(_ context.Context, r *connect.Request[petrelv1.AdminGetHistoryRequest]) (*connect.Response[petrelv1.HistoryPage], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return connect.NewResponse(f.page(r.Msg.History)), nil
}

func (f *fake) GetLimits(context.Context, *connect.Request[petrelv1.GetLimitsRequest]) (*connect.Response[petrelv1.ClusterLimits], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return connect.NewResponse(&petrelv1.ClusterLimits{Nodes: []*petrelv1.NodeLimits{{Limits: proto.CloneOf(f.limits)}}}), nil
}

func (f *fake) SetLimits(_ context.Context, r *connect.Request[petrelv1.ServerLimits]) (*connect.Response[petrelv1.ClusterLimits], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = append(f.set, r.Msg)
	if w := r.Msg.WindowSends; w != 0 {
		f.limits.WindowSends = w
	}
	return connect.NewResponse(&petrelv1.ClusterLimits{}), nil
}

func (f *fake) GetStats(_ context.Context, r *connect.Request[petrelv1.GetStatsRequest]) (*connect.Response[petrelv1.Stats], error) {
	if !strings.HasPrefix(r.Header().Get("Authorization"), "Bearer pk_") {
		return nil, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("no key"))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return connect.NewResponse(&petrelv1.Stats{CpuS: ownCPU().all(), RssBytes: 1 << 20, Accepted: f.accepted, Commits: f.accepted / 2, DiskBytes: f.accepted * 100}), nil
}
