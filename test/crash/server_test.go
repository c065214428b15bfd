package crash

import (
	"bytes"
	"cmp"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/imtest/proctest"
	"github.com/petrel-im/petrel/internal/wire"
)

// server is the process that is killed, on one folder and two fixed ports.
type server struct {
	t                *testing.T
	bin, dir         string
	http, tcp, admin string   // addresses
	mark             string   // file of store.mark; "": there is none
	log              string   // level; "": warn
	stderr           *os.File // nil: the output of the process
	procs            string   // file that takes the process into a cgroup; "": it stays in that of the test
	env              []string // added to the environment of the process
	memory           string   // memory.total; "": what there is
	run              *process
}

// process is one life of the server.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer  // read once done is closed
	done   chan struct{} // closed when it has ended; err is set before
	err    error
}

func newServer(t *testing.T) *server {
	s := newServerAt(t, filepath.Join(t.TempDir(), "data"))
	t.Cleanup(func() {
		if s.run != nil {
			s.kill()
		}
	})
	return s
}

// newServerAt is a server that does not run, on the folder dir.
func newServerAt(t *testing.T, dir string) *server {
	addrs := proctest.FreePorts(t, 3)
	return &server{t: t, bin: proctest.Program(t), dir: dir, http: addrs[0], tcp: addrs[1], admin: addrs[2]}
}

// launch starts the process and does not wait for it.
func (s *server) launch() {
	s.t.Helper()
	p := &process{cmd: exec.Command(s.bin, "serve"), done: make(chan struct{})}
	if s.procs != "" {
		p.cmd = exec.Command("sh", "-c", `echo $$ >"$0" && exec "$@"`, s.procs, s.bin, "serve")
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if s.stderr != nil {
		p.cmd.Stderr = s.stderr
	}
	p.cmd.Dir = filepath.Dir(s.dir)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PETREL_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env,
		"PETREL_LISTEN__HTTP="+s.http, "PETREL_LISTEN__TCP="+s.tcp, "PETREL_LISTEN__ADMIN="+s.admin, "PETREL_STORE__DIR="+s.dir, "PETREL_STORE__MARK="+s.mark, "PETREL_LOG__LEVEL="+cmp.Or(s.log, "warn"),
		"PETREL_LIMITS__SENDS_PER_S=-1", "PETREL_LIMITS__SEND_BURST=-1", "PETREL_LIMITS__NEW_CONNECTIONS_PER_IP_PER_S=-1",
		"PETREL_LIMITS__UNAUTHENTICATED_PER_IP=-1", "PETREL_MEMORY__TOTAL="+cmp.Or(s.memory, "0"),
	)
	p.cmd.Env = append(p.cmd.Env, s.env...)
	if err := p.cmd.Start(); err != nil {
		s.t.Fatalf("start petrel: %v", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	s.run = p
}

// start starts the process and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	s.launch()
	c := &http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually.True(s.t, "petrel is ready", func() bool {
		if s.run.ended() {
			s.t.Fatalf("petrel ended at its start: %v\n%s", s.run.err, s.run.output.String())
		}
		r, err := c.Get("http://" + s.http + "/readyz")
		if err != nil {
			return false
		}
		_ = r.Body.Close() // only the status counts
		return r.StatusCode == http.StatusOK
	})
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process at once, wherever it is. One that has ended by itself
// is a fault.
func (s *server) kill() {
	s.t.Helper()
	if s.run.ended() {
		s.t.Errorf("petrel ended by itself: %v\n%s", s.run.err, s.run.output.String())
	}
	_ = s.run.cmd.Process.Signal(syscall.SIGKILL) // ended: nothing to kill
	<-s.run.done
	s.run.check(s.t)
	s.run = nil
}

// end asks the process to end, as Ctrl-C does.
func (s *server) end() {
	s.t.Helper()
	_ = s.run.cmd.Process.Signal(syscall.SIGTERM) // ended: shows in err
	<-s.run.done
	if s.run.err != nil {
		s.t.Errorf("petrel ended with: %v\n%s", s.run.err, s.run.output.String())
	}
	s.run.check(s.t)
	s.run = nil
}

// check looks for what no life of a server may print.
func (p *process) check(t *testing.T) {
	t.Helper()
	if out := p.output.String(); strings.Contains(out, "panic:") || strings.Contains(out, "fatal error:") || strings.Contains(out, "goroutine ") {
		t.Errorf("petrel printed:\n%s", out)
	}
}

func (s *server) url(f wire.Framing) string {
	if f == wire.TCP {
		return "tcp://" + s.tcp
	}
	return "ws://" + s.http
}
