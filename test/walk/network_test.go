package walk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A network is what lies between one device and the server. Steps of a walk tell it what
// happens to the frames that come next.
type network struct {
	addr string // of the server
	json bool

	mu    sync.Mutex // tier 0; guards the fields below and the armed, frozen and dead of lines
	armed map[fault]int
	lines map[*line]struct{} // that are open
	down  bool               // the device goes: nothing is held any more
	done  map[fault]int      // how many times each fault has happened
}

// A fault is what may happen to a frame.
type fault int

const (
	dropEvents     fault = iota // a push is lost; the server may lose one at any time (P-6.1)
	doubleFrame                 // a frame comes twice
	holdFrame                   // a frame comes after those that follow it
	dropAnswer                  // an answer is lost with the connection
	cutBeforeWrite              // a frame of the client is lost with the connection
	cutAfterWrite               // the answer to a frame is lost with the connection
	staleFrame                  // a frame comes over a connection that the client has given up
	lateFrame                   // a frame of the client arrives over such a connection
	faults
)

func newNetwork(addr string, json bool) *network {
	return &network{addr: addr, json: json, armed: map[fault]int{}, lines: map[*line]struct{}{}, done: map[fault]int{}}
}

// dial is NetDial of the device.
func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.addr)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, n: n, changed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines[l] = struct{}{}
	return l, nil
}

// arm has the next frames that a fault can happen to meet it.
func (n *network) arm(f fault, times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.armed[f] += times
}

// takeLocked uses up one time of a fault.
func (n *network) takeLocked(f fault) bool {
	if n.armed[f] == 0 {
		return false
	}
	n.armed[f]--
	n.done[f]++
	return true
}

func (n *network) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for l := range n.lines {
		lines = append(lines, fmt.Sprintf("frozen %v, left %v, %d frames to the server wait", l.frozen, l.left, len(l.sent)))
	}
	return fmt.Sprintf("armed %v, connections %q", n.armed, lines)
}

// cut ends all connections of the device.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.lines {
		if !l.frozen {
			l.cutLocked()
		}
	}
}

// freeze stops all that the device sends and gets now, in both directions.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.lines {
		l.frozen = true
		l.wakeLocked()
	}
}

// thaw has it go on, also on connections that the device has given up meanwhile.
func (n *network) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.lines {
		if l.frozen {
			l.frozen = false
			l.flushLocked()
			l.wakeLocked()
		}
	}
}

// isFrozen tells whether anything is held.
func (n *network) isFrozen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.lines {
		if l.frozen {
			return true
		}
	}
	return false
}

// isLeft tells whether the device has given up a connection that is frozen.
func (n *network) isLeft() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.lines {
		if l.frozen && l.left {
			return true
		}
	}
	return false
}

// heal ends every fault.
func (n *network) heal() {
	n.mu.Lock()
	clear(n.armed)
	n.mu.Unlock()
	n.thaw()
}

// goDown has every connection end at once, so that the device can end.
func (n *network) goDown() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for l := range n.lines {
		l.cutLocked()
	}
}

// goUp: the device runs again.
func (n *network) goUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
	clear(n.armed)
}

// line is one connection. One goroutine reads, and another one writes.
type line struct {
	net.Conn
	n *network

	frozen  bool // guarded by n.mu
	over    bool // guarded by n.mu: cut
	left    bool // guarded by n.mu: the client has closed it
	changed chan struct{}
	sent    [][]byte // guarded by n.mu: written while it was frozen

	in   []byte   // of the reader: came, and is no whole frame yet
	out  []byte   // of the reader: frames for the client
	held [][]byte // of the reader: frames that come after others
	cuts int      // of the reader: frames until the connection ends; 0: none
}

// holdTime is how long a frame waits for another one that may overtake it.
const holdTime = 5 * time.Millisecond

var errCut = errors.New("the walk has cut the connection")

func (l *line) wakeLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
	_ = l.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes the reader, which sets another one
}

func (l *line) cutLocked() {
	l.over, l.frozen = true, false
	delete(l.n.lines, l)
	_ = l.Conn.Close() // this is how
	l.wakeLocked()
}

// Close: the client gives the connection up. Frozen bytes come later, as from a socket that
// is slow to die.
func (l *line) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.left = true
	if !l.frozen || l.n.down {
		l.cutLocked()
	}
	return nil
}

func (l *line) Read(b []byte) (int, error) {
	for {
		if len(l.out) > 0 {
			k := copy(b, l.out)
			l.out = l.out[k:]
			return k, nil
		}
		if err := l.more(); err != nil {
			return 0, err
		}
	}
}

// more waits for frames.
func (l *line) more() error {
	l.n.mu.Lock()
	over, frozen, left, changed := l.over, l.frozen, l.left, l.changed
	if !over && !frozen {
		if waits := len(l.in); waits > 0 { // it came while the line was frozen
			if l.passLocked(); len(l.in) < waits {
				l.n.mu.Unlock()
				return nil
			}
		}
		deadline := time.Time{}
		if len(l.held) > 0 || l.cuts > 0 || left {
			deadline = time.Now().Add(holdTime)
		}
		_ = l.Conn.SetReadDeadline(deadline) // an error shows at the read
	}
	l.n.mu.Unlock()
	switch {
	case over:
		return errCut
	case frozen:
		<-changed
		return nil
	}
	var buf [16 << 10]byte
	k, err := l.Conn.Read(buf[:])
	l.in = append(l.in, buf[:k]...)
	if k == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return l.quiet()
	}
	if err != nil && k == 0 {
		return err
	}
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.frozen {
		return nil // it comes when that is over
	}
	l.passLocked()
	return nil
}

// quiet: nothing comes for a moment.
func (l *line) quiet() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.frozen {
		return nil
	}
	l.releaseLocked()
	if l.cuts > 0 || l.left && len(l.out) == 0 {
		l.cutLocked()
	}
	l.passLocked()
	return nil
}

func (l *line) releaseLocked() {
	for _, f := range l.held {
		l.out = append(l.out, f...)
	}
	l.held = nil
}

// passLocked gives whole frames to the client, with the faults that are armed.
func (l *line) passLocked() {
	for !l.over {
		f := l.frame()
		if f == nil {
			return
		}
		if l.left {
			l.n.done[staleFrame]++
			l.out = append(l.out, l.kick()...)
		}
		if l.cuts > 0 {
			if l.cuts--; l.cuts == 0 {
				l.cutLocked()
				return
			}
		}
		switch kind := l.kind(f); {
		case kind == event && l.n.takeLocked(dropEvents):
			continue
		case kind == answer && l.n.takeLocked(dropAnswer):
			l.cuts = 3
			continue
		case kind != other && l.n.takeLocked(doubleFrame):
			l.out = append(append(l.out, f...), f...)
		case kind != other && l.n.takeLocked(holdFrame):
			l.held = append(l.held, f)
			continue
		default:
			l.out = append(l.out, f...)
		}
		if len(l.held) > 0 && (len(l.held) > 2 || f[len(f)/2]%2 == 0) {
			l.releaseLocked()
		}
	}
}

// kick is what a server may say on a connection that the client has given up: that another
// login has taken the place of this one. A client that takes it for the word of its newer
// connection ends.
func (l *line) kick() []byte {
	if l.n.json {
		return []byte(`{"kick":{"code":"replaced"}}` + "\n")
	}
	f := &petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Kick{Kick: &petrelv1.Kick{Code: petrel.CodeReplaced}}}
	b, _ := f.MarshalVT() // it is always the same frame
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// frame cuts the next frame off what has come; nil: it is not whole yet.
func (l *line) frame() []byte {
	size := 0
	if l.n.json {
		size = bytes.IndexByte(l.in, '\n') + 1
	} else if len(l.in) >= 4 {
		size = 4 + int(binary.BigEndian.Uint32(l.in))
	}
	if size == 0 || size > len(l.in) {
		return nil
	}
	f := slices.Clone(l.in[:size])
	l.in = l.in[size:]
	return f
}

// kind of a frame of the server.
type kind int

const (
	other kind = iota // must come as it is: a welcome, an error, a kick, a ping
	event
	answer
)

// kind is looked at only while something is armed.
func (l *line) kind(f []byte) kind {
	if !slices.ContainsFunc([]fault{dropEvents, doubleFrame, holdFrame, dropAnswer}, func(x fault) bool { return l.n.armed[x] > 0 }) {
		return other
	}
	frame := new(petrelv1.ServerFrame)
	if l.n.json {
		switch {
		case bytes.HasPrefix(f, []byte(`{"events":`)):
			return event
		case bytes.Contains(f[:min(len(f), 40)], []byte(`"error":`)), bytes.Contains(f[:min(len(f), 40)], []byte(`"welcome":`)), !bytes.HasPrefix(f, []byte(`{"id":`)):
			return other
		}
		return answer
	}
	if err := frame.UnmarshalVT(f[4:]); err != nil {
		return other
	}
	switch frame.Body.(type) {
	case *petrelv1.ServerFrame_Events:
		return event
	case *petrelv1.ServerFrame_Ack, *petrelv1.ServerFrame_History, *petrelv1.ServerFrame_Sync, *petrelv1.ServerFrame_Cursor,
		*petrelv1.ServerFrame_Focus, *petrelv1.ServerFrame_Answer:
		return answer
	}
	return other
}

// Write is called with a whole frame.
func (l *line) Write(b []byte) (int, error) {
	l.n.mu.Lock()
	before, after := false, false
	switch {
	case l.over:
		l.n.mu.Unlock()
		return 0, errCut
	case l.frozen:
		l.sent = append(l.sent, slices.Clone(b))
		l.n.mu.Unlock()
		return len(b), nil
	case l.n.takeLocked(cutBeforeWrite):
		before = true
	case l.n.takeLocked(cutAfterWrite):
		after = true
	}
	l.n.mu.Unlock()
	if before {
		b = b[:len(b)/2] // in the middle of the frame
	}
	k, err := l.Conn.Write(b)
	if before || after {
		l.n.mu.Lock()
		l.cutLocked()
		l.n.mu.Unlock()
		return k, io.ErrUnexpectedEOF
	}
	return k, err
}

// flushLocked writes what the client has written while the line was frozen, before it writes
// anything else.
func (l *line) flushLocked() {
	for _, b := range l.sent {
		if l.left {
			l.n.done[lateFrame]++
		}
		if _, err := l.Conn.Write(b); err != nil {
			break // the reader learns of it
		}
	}
	l.sent = nil
}
