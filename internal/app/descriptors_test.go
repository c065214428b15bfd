package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// childFiles is how many files a child process may have open that serves.
const childFiles = "PETREL_APP_TEST_FILES"

// serveWithFiles serves until its input ends. The first line that it prints is a token.
func serveWithFiles(dir, files string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	n, err := strconv.ParseUint(files, 10, 64)
	fail(err)
	fail(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}))
	cfg, err := config.Load(config.Source{Flags: map[string]string{
		"store.dir": dir, "listen.http": "127.0.0.1:0", "listen.tcp": "127.0.0.1:0", "listen.admin": "127.0.0.1:0", "store.ballast": "0", "store.min_free": "0", "store.cache": "16MiB",
		"limits.sends_per_s": "-1", "limits.connections_per_ip": "-1", "limits.unauthenticated_per_ip": "-1", "limits.new_connections_per_ip_per_s": "-1",
		"limits.connections": "-1", "limits.unauthenticated": "-1", "limits.hello_timeout": "10m",
	}})
	fail(err)
	ctx, stop := context.WithCancel(context.Background())
	a, err := New(ctx, cfg, Options{DiskStall: eventually.Limit, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Banner: os.Stdout})
	fail(err)
	issued, err := a.users.Create(ctx, "", []im.User{"alice"})
	fail(err)
	fmt.Println(issued[0].Token)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	fail(a.Run(ctx))
}

// limitedServer is a server in a process of its own.
type limitedServer struct {
	t         *testing.T
	pid       int
	token     string
	HTTP, TCP string
	Admin     string
	log       *output
}

// startWithFiles starts a server that may have so many files open.
func startWithFiles(t *testing.T, files int) *limitedServer {
	t.Helper()
	s := &limitedServer{t: t, log: &output{}}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFiles+"="+strconv.Itoa(files), childDir+"="+t.TempDir())
	cmd.Stderr = s.log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the server ends with %v, its log:\n%s", err, s.log)
		}
	})
	if lines.Scan() {
		s.token = lines.Text()
	}
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), s) != nil {
		t.Fatalf("the server says %q, then %q", s.token, lines.Text())
	}
	return s
}

// open is how many files the server has open.
func (s *limitedServer) open() int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	if err != nil {
		return 0 // this system does not tell
	}
	return len(list)
}

// limit is how many connections the server takes.
func (s *limitedServer) limit() int {
	s.t.Helper()
	_, rest, _ := strings.Cut(s.get("/metrics"), "\npetrel_connections_limit ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(line, 64)
	if err != nil || n <= 0 {
		s.t.Fatalf("petrel_connections_limit %q", line)
	}
	return int(n)
}

func (s *limitedServer) get(path string) string {
	s.t.Helper()
	c := http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + s.Admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s %s, %v", path, r.Status, b, err)
	}
	return string(b)
}

// connect opens a connection, and writes what is given at once.
func (s *limitedServer) connect(addr, first string) net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = nc.Close() })
	_, _ = io.WriteString(nc, first) // it may be refused already
	return nc
}

// A server with few files keeps those that the store and HTTP need, takes the connections
// for which the rest is enough, and tells all others so. Spec: P-9.1.
func TestEveryConnectionBeyondTheFilesGetsItsCode(t *testing.T) {
	for _, files := range []int{200, 1024} {
		t.Run(strconv.Itoa(files), func(t *testing.T) {
			if _, err := ShareFiles(uint64(files), load(t, t.TempDir())); err != nil { // with more processors there are more event loops
				t.Log(err) // TestTooFewFilesRefuseTheStart is about this
				return
			}
			s := startWithFiles(t, files)
			c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: "tcp://" + s.TCP, Codec: wire.Proto, Token: s.token})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			limit, beyond := s.limit(), 356
			for range limit - 1 { // they say nothing, and their hello timeout is far away
				s.connect(s.TCP, "")
			}
			eventually.True(t, "all that have room are taken", func() bool {
				return strings.Contains(s.get("/metrics"), fmt.Sprintf("\npetrel_connections %d\n", limit))
			})
			var over []net.Conn
			for i := range beyond {
				if i%2 == 0 {
					over = append(over, s.connect(s.TCP, `{"id":"1","hello":{}}`+"\n"))
				} else {
					over = append(over, s.connect(s.HTTP, "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
				}
				if i%20 == 0 { // what is there works meanwhile, the disk included
					if _, err := c.Send(t.Context(), &petrelv1.Send{User: "alice", ClientMsgId: fmt.Sprint(i), Body: &petrelv1.Send_Text{Text: "x"}}); err != nil {
						t.Fatal(err)
					}
				}
				if n := s.open(); n > files-8 {
					t.Errorf("%d of %d files are open", n, files)
				}
			}
			told := 0
			for _, nc := range over {
				_ = nc.SetReadDeadline(eventually.Deadline())
				b, _ := io.ReadAll(nc)
				if bytes.Contains(b, []byte(`"too_many_connections"`)) {
					told++
				}
			}
			if told != beyond {
				t.Errorf("%d of %d refused connections got their code", told, beyond)
			}
			s.get("/readyz")
			t.Logf("%d connections with %d files, %d files open", limit, files, s.open())
			if log := s.log.String(); strings.Contains(log, "too many open files") {
				t.Error("the server ran out of files")
			}
		})
	}
}

func TestTooFewFilesRefuseTheStart(t *testing.T) {
	need, cfg := 0, load(t, t.TempDir())
	for limit := uint64(16); ; limit++ {
		f, err := ShareFiles(limit, cfg)
		if err == nil {
			if f.Connections < minConnections || int(limit) != need || need > 400 {
				t.Errorf("%d files are enough: %+v, but the message says %d", limit, f, need)
			}
			break
		}
		if _, e := fmt.Sscanf(err.Error(), "the limit of open files is "+strconv.Itoa(int(limit))+", and the server needs at least %d; ulimit -n", &need); e != nil || need <= int(limit) {
			t.Fatalf("%d files: %v", limit, err)
		}
	}
	for _, limit := range []uint64{400, 1024, 4096, 65_536, 1 << 20, 1<<64 - 1} {
		f, err := ShareFiles(limit, cfg)
		if err != nil || f.Connections+f.Store+f.HTTP+f.HandOvers+f.Refusals >= int(f.Limit) {
			t.Errorf("%d files: %+v, %v", limit, f, err)
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFiles+"=100", childDir+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the limit of open files is 100, and the server needs at least ") {
		t.Errorf("with 100 files: %v, %s", err, out)
	}
}
