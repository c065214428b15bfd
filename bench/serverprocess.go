package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a server that the run has started, on a folder of its own.
type child struct {
	HTTP  string `json:"http"` // addresses it listens on
	TCP   string `json:"tcp"`
	Admin string `json:"admin"`
	PID   int    `json:"pid"`

	executable string
	conf       string // its configuration file
	dir        string // its data folder
	cancel     context.CancelFunc
	ended      chan struct{} // closed after err was set
	err        error
	log        tail

	// Sums over the killed servers that it replaces.
	before            cpuTime
	accepted, commits uint64
}

const (
	startLimit = 20 * time.Second
	stopLimit  = 20 * time.Second // between the request to stop and the kill
)

// startChild starts executable in folder dir, with its data in the folder data of it, and waits until it listens. The
// server gets conf, args and free addresses of the loopback; the environment and other files do not configure it.
func startChild(ctx context.Context, executable, dir, conf string, args []string) (*child, error) {
	dir, err := filepath.Abs(dir) // the server runs in it
	if err != nil {
		return nil, fmt.Errorf("prepare a server: %w", err)
	}
	file := filepath.Join(dir, "petrel.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return nil, fmt.Errorf("prepare a server: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &child{executable: executable, conf: conf, dir: filepath.Join(dir, "data"), cancel: cancel,
		ended: make(chan struct{})}
	words := []string{"serve", "--config", file, "--data", c.dir, "--listen-http", "127.0.0.1:0", "--listen-tcp",
		"127.0.0.1:0", "--listen-admin", "127.0.0.1:0"}
	cmd := exec.CommandContext(ctx, executable, append(words, args...)...)
	cmd.Dir = dir
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "PETREL_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	cmd.SysProcAttr = endWithParent()
	cmd.Stderr = &c.log
	out, in := io.Pipe()
	cmd.Stdout = in
	started := make(chan error)
	go func() { // ends with the server; stop waits for it
		runtime.LockOSThread() // the child ends with the thread that started it
		defer close(c.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
		_ = in.Close() // never fails
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", executable, err)
	}
	if err := c.readAddresses(out); err != nil {
		c.stop()
		return nil, fmt.Errorf("start a server: %w\n%s", err, c.log.String())
	}
	return c, nil
}

// readAddresses waits for the line with the server's addresses. It starts a goroutine that discards the further output.
func (c *child) readAddresses(out *io.PipeReader) error {
	line := make(chan []byte, 1) // there is one line
	go func() {                  // ends with the server's output
		r := bufio.NewReader(out)
		b, _ := r.ReadBytes('\n')
		line <- b
		_, _ = io.Copy(io.Discard, r)
	}()
	select {
	case b := <-line:
		if err := json.Unmarshal(b, c); err != nil || c.HTTP == "" || c.Admin == "" {
			return fmt.Errorf("the first line of its output is not the one with its addresses: %.200q", b)
		}
		return nil
	case <-c.ended:
		return fmt.Errorf("it ended: %w", c.err)
	case <-time.After(startLimit):
		return fmt.Errorf("it does not listen after %s", startLimit)
	}
}

// stop ends the server and waits for it. It may be called again.
func (c *child) stop() {
	c.cancel()
	<-c.ended
}

// kill ends the server as kill -9 does, and waits for it.
func (c *child) kill() {
	if p, err := os.FindProcess(c.PID); err == nil {
		_ = p.Kill() // an error says that it has ended already
	}
	c.stop()
}

// killNode ends server i as kill -9 does, and starts it again at the same addresses and with the raised limits. The new
// child keeps the counts and the CPU time of the killed one.
func (r *run) killNode(ctx context.Context, i int) error {
	c := r.nodes[i]
	did, err := r.stats(ctx)
	if err != nil {
		return err
	}
	used, _ := processCPU(c.PID)
	c.kill()
	r.mu.Lock()
	c.before = cpuTime{c.before.user + used.user, c.before.system + used.system}
	r.mu.Unlock()
	r.hangUp()
	args := append(slices.Clone(r.p.ServeArgs), "--listen-http", c.HTTP, "--listen-tcp", c.TCP, "--listen-admin",
		c.Admin)
	for _, l := range r.report.Raised { // or it would put off clients that are back before the limits are raised
		if l.Limit != "window_bytes" { // may be more than a server starts with
			args = append(args, fmt.Sprintf("--limits-%s=%d", strings.ReplaceAll(l.Limit, "_", "-"), l.To))
		}
	}
	// only child.stop ends the server, not the end of ctx
	again, err := startChild(context.WithoutCancel(ctx), c.executable, filepath.Dir(c.dir), c.conf, args)
	if err != nil {
		return err
	}
	again.before, again.accepted, again.commits = c.before, did[i].Accepted, did[i].Commits
	r.mu.Lock()
	r.nodes[i] = again
	r.mu.Unlock()
	_, _, err = r.ops[i].raise(ctx, r.p.needs()) // the new process has the limits of its configuration
	return err
}

// setupCode waits for the file setup-link in the server's folder, and returns its one-time code.
func (c *child) setupCode(ctx context.Context) (string, error) {
	name := filepath.Join(c.dir, "setup-link")
	for {
		b, err := os.ReadFile(name)
		if err == nil {
			_, code, ok := bytes.Cut(bytes.TrimSpace(b), []byte("#k="))
			if !ok {
				return "", fmt.Errorf("read %s: there is no code in it", name)
			}
			return string(code), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the setup link: %w", err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-c.ended:
			return "", fmt.Errorf("the server ended: %w\n%s", c.err, c.log.String())
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// tail keeps the end of its input, at least the last tailBytes of it.
type tail struct {
	mu sync.Mutex // tier 0; guards b
	b  []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if len(t.b) > 2*tailBytes {
		t.b = append(t.b[:0], t.b[len(t.b)-tailBytes:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
