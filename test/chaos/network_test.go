package chaos

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// network carries the connections between the processes, and loses what it is
// told to: the bytes of one direction stand still, as under a firewall that
// drops, and new connections say nothing.
type network struct {
	t     *testing.T
	nodes []*node

	mu      sync.Mutex // tier 0; guards the fields below
	cut     map[direction]bool
	changed chan struct{} // closed, and made anew, when cut changes
	open    []io.Closer
	closed  bool
}

// direction is that of bytes from one process to another; nil is the database.
type direction struct{ from, to *node }

// cuttable leads all connections of the nodes over a network.
func cuttable(w *world) {
	n := &network{t: w.t, cut: map[direction]bool{}, changed: make(chan struct{})}
	w.t.Cleanup(n.close)
	n.nodes, w.net = w.nodes, n
	fronts := map[*node]string{}
	for _, to := range w.nodes {
		fronts[to] = n.listen(func() string { return to.bus }, nil, to)
	}
	databases := map[*node]string{}
	for _, from := range w.nodes {
		var ports []int
		for _, port := range w.ports {
			addr := n.listen(func() string { return fmt.Sprintf("127.0.0.1:%d", port) }, from, nil)
			_, text, _ := net.SplitHostPort(addr) // of a listener
			p, _ := strconv.Atoi(text)            // the same
			ports = append(ports, p)
		}
		databases[from] = through(ports[0], ports[1])
	}
	w.databases = func(n *node) string { return databases[n] }
	w.cluster = func(n *node) string {
		join := ""
		for _, o := range w.nodes {
			if o != n {
				join += fmt.Sprintf("%q,", fronts[o])
			}
		}
		return fmt.Sprintf("listen = %q\nadvertise = %q\njoin = [%s]\nsecret = %q", n.bus, fronts[n], join, secret)
	}
}

// set cuts, or heals.
func (n *network) set(cut bool, all ...direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range all {
		n.cut[d] = cut
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// pass returns when bytes may go; false: never.
func (n *network) pass(d direction) bool {
	for {
		n.mu.Lock()
		cut, closed, changed := n.cut[d], n.closed, n.changed
		n.mu.Unlock()
		if closed || !cut {
			return !closed
		}
		<-changed
	}
}

func (n *network) keep(c io.Closer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = append(n.open, c)
	return !n.closed
}

func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	close(n.changed)
	n.changed = make(chan struct{})
	open := n.open
	n.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it is given up
	}
}

// listen makes an address that leads to another one. from nil: whoever comes
// is found out.
func (n *network) listen(target func() string, from, to *node) string {
	n.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.keep(ln)
	go func() { // ends with the listener
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go n.carry(c, target(), from, to)
		}
	}()
	return ln.Addr().String()
}

// carry joins a connection with its target, until either end closes it.
func (n *network) carry(c net.Conn, target string, from, to *node) {
	defer c.Close()
	if from == nil {
		if from = n.caller(c); from == nil {
			return
		}
	}
	if !n.keep(c) || !n.pass(direction{from, to}) {
		return
	}
	s, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer s.Close()
	if !n.keep(s) {
		return
	}
	ended := make(chan struct{}, 2)
	move := func(dst, src net.Conn, d direction) {
		defer func() { ended <- struct{}{} }()
		buf := make([]byte, 32<<10)
		for {
			k, err := src.Read(buf)
			if err != nil || !n.pass(d) {
				return
			}
			if _, err := dst.Write(buf[:k]); err != nil {
				return
			}
		}
	}
	go move(s, c, direction{from, to})
	go move(c, s, direction{to, from})
	<-ended
}

// caller is the node whose process holds the other end of c; nil: none of them.
func (n *network) caller(c net.Conn) *node {
	local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
	inode := socketOf(remote.Port, local.Port)
	if inode == "" {
		return nil
	}
	for _, o := range n.nodes {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", o.pid())) // the pattern is right
		for _, fd := range fds {
			if l, err := os.Readlink(fd); err == nil && l == "socket:["+inode+"]" {
				return o
			}
		}
	}
	return nil
}

// socketOf is the inode of the connection between two ports of the loopback.
func socketOf(local, remote int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(table) // none: not found
		for line := range strings.SplitSeq(string(b), "\n") {
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", local)) && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", remote)) {
				return f[9]
			}
		}
	}
	return ""
}
