package chaos

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/process"
	"github.com/petrel-im/petrel/internal/wire"
)

// node is a server of the cluster: `petrel serve --config` on addresses that
// stay the same over its lives.
type node struct {
	t                     *testing.T
	name, dir             string
	http, tcp, admin, bus string // addresses
	netns                 string // in which its processes run; empty: the test's
	config                string // file

	mu   sync.Mutex // tier 0; guards the field below
	life *life      // nil: it does not run
}

// life is one process.
type life struct {
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has ended; err is set before
	err  error
}

func newNode(t *testing.T, name string) *node {
	addrs := proctest.FreePorts(t, 4)
	return &node{t: t, name: name, dir: filepath.Join(t.TempDir(), name), http: addrs[0], tcp: addrs[1], bus: addrs[2], admin: addrs[3]}
}

// configure writes the file that the node reads at its next start.
func (n *node) configure(dsn, cluster string) {
	n.t.Helper()
	text := fmt.Sprintf(`
[listen]
http = %q
tcp = %q
admin = %q
insecure_plaintext = true
[store]
postgres = %q
dir = %q
[cluster]
node = %q
addresses = [%q]
%s
[limits]
sends_per_s = -1
send_burst = -1
connections_per_user = -1
connections_per_ip = -1
new_connections_per_ip_per_s = -1
unauthenticated_per_ip = -1
[log]
level = "debug"
`, n.http, n.tcp, n.admin, dsn, n.dir, n.name, "ws://"+n.http, cluster)
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		n.t.Fatal(err)
	}
	n.config = filepath.Join(n.dir, "petrel.toml")
	if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// launch starts a process and does not wait for it.
func (n *node) launch() {
	n.t.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	args := []string{proctest.Program(n.t), "serve", "--config", n.config}
	if n.netns != "" {
		args = append([]string{"ip", "netns", "exec", n.netns}, args...) // becomes the server: its pid is the server's
	}
	l := &life{cmd: exec.Command(args[0], args[1:]...), log: log, done: make(chan struct{})}
	l.cmd.Stdout, l.cmd.Stderr, l.cmd.Dir = log, log, n.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PETREL_") {
			l.cmd.Env = append(l.cmd.Env, v)
		}
	}
	if err := l.cmd.Start(); err != nil {
		n.t.Fatalf("start %s: %v", n.name, err)
	}
	go func() { // ends with the process, which the test ends
		l.err = l.cmd.Wait()
		_ = l.log.Close() // the process has its own
		close(l.done)
	}()
	n.mu.Lock()
	n.life = l
	n.mu.Unlock()
}

func (n *node) running() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// pid of the process; 0: there is none.
func (n *node) pid() int {
	if l := n.running(); l != nil {
		return l.cmd.Process.Pid
	}
	return 0
}

// awaitReady waits until the node says that it is ready.
func (n *node) awaitReady() {
	n.t.Helper()
	l := n.running()
	if !eventually.Holds(func() bool {
		select {
		case <-l.done:
			n.t.Fatalf("%s ended at its start: %v\n%s", n.name, l.err, n.tail(20))
		default:
		}
		return n.ready()
	}) {
		n.t.Fatalf("%s is not ready after %v\n%s", n.name, eventually.Limit, n.tail(40))
	}
}

// probe asks a node whether it is ready, and for its metrics. One that stands still gives no answer.
var probe = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (n *node) ready() bool {
	r, err := probe.Get("http://" + n.http + "/readyz")
	if err != nil {
		return false
	}
	_ = r.Body.Close() // only the status counts
	return r.StatusCode == http.StatusOK
}

func (n *node) start() {
	n.t.Helper()
	n.launch()
	n.awaitReady()
}

// kill ends the process at once. One that has ended by itself is a fault.
func (n *node) kill() {
	n.t.Helper()
	l := n.running()
	select {
	case <-l.done:
		n.t.Errorf("%s ended by itself: %v\n%s", n.name, l.err, n.tail(60))
	default:
	}
	_ = l.cmd.Process.Signal(syscall.SIGKILL) // ended: nothing to kill
	<-l.done
	n.forget()
}

// hasEnded waits until the process has ended.
func (l *life) hasEnded() bool {
	return eventually.Holds(func() bool {
		select {
		case <-l.done:
			return true
		default:
			return false
		}
	})
}

// end asks the process to end, as an operator does who drains it.
func (n *node) end() {
	n.t.Helper()
	l := n.running()
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // ended: shows in err
	if !l.hasEnded() {
		n.t.Errorf("%s does not end\n%s", n.name, n.tail(60))
		_ = l.cmd.Process.Signal(syscall.SIGKILL) // it is given up
		<-l.done
	}
	if l.err != nil {
		n.t.Errorf("%s ended with: %v\n%s", n.name, l.err, n.tail(60))
	}
	n.forget()
}

func (n *node) forget() {
	n.mu.Lock()
	n.life = nil
	n.mu.Unlock()
}

// pause stops the process where it is, or lets it go on.
func (n *node) pause(stop bool) {
	n.t.Helper()
	p := n.running().cmd.Process
	if stop {
		if err := process.Freeze(p.Pid); err != nil {
			n.t.Errorf("pause %s: %v", n.name, err)
		}
	} else if err := p.Signal(syscall.SIGCONT); err != nil {
		n.t.Errorf("signal %s: %v", n.name, err)
	}
}

func (n *node) url(f wire.Framing) string {
	if f == wire.TCP {
		return "tcp://" + n.tcp
	}
	return "ws://" + n.http
}

func (n *node) base() string { return "http://" + n.http }

// operators is where operators reach the node.
func (n *node) operators() string { return "http://" + n.admin }

// metric reads a value of /metrics; -1: the node does not tell.
func (n *node) metric(name string) float64 {
	r, err := probe.Get(n.operators() + "/metrics")
	if err != nil {
		return -1
	}
	defer r.Body.Close()
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				return -1
			}
			return v
		}
	}
	return -1
}

// tail is the end of what the node has printed, over all its lives.
func (n *node) tail(lines int) string {
	b, _ := os.ReadFile(filepath.Join(n.dir, "log")) // none: it printed nothing
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// check looks for what no life of a server may print.
func (n *node) check() {
	n.t.Helper()
	b, _ := os.ReadFile(filepath.Join(n.dir, "log")) // none: it printed nothing
	for _, bad := range []string{"panic:", "fatal error:", "\ngoroutine "} {
		if at := strings.Index(string(b), bad); at >= 0 {
			n.t.Errorf("%s printed:\n%s", n.name, b[at:min(len(b), at+4000)])
			return
		}
	}
}
