//go:build unix

package imtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Program builds the server's program, as users run it, and returns its path.
// The tests of all packages share it: `go build` leaves a program alone that is
// up to date.
func Program(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("build petrel: %v", err)
	}
	return path
}

var program = sync.OnceValues(func() (string, error) { return BuildProgram(os.Getenv("GOFLAGS")) })

// BuildProgram builds the server's program with flags, as in GOFLAGS, and returns its path.
func BuildProgram(flags string) (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "build", "test")
	if _, after, ok := strings.Cut(flags, "-overlay="); ok { // another program, which goes with its overlay
		file, _, _ := strings.Cut(after, " ")
		dir = filepath.Join(filepath.Dir(file), "program")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Without the lock, the tests of two packages would build at the same time, and
	// one would replace the program while the other one starts it.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }() // frees the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	path := filepath.Join(dir, "petrel")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", path, "github.com/petrel-im/petrel/cmd/petrel")
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}

// execute starts the server's program, and does not wait until it listens.
func (s *Server) execute(flags map[string]string) error {
	if s.http == "" {
		at := FreePorts(s.t, 3)
		s.http, s.tcp, s.admin = at[0], at[1], at[2]
	}
	flags["listen.http"], flags["listen.tcp"], flags["listen.admin"] = s.http, s.tcp, s.admin
	cmd := exec.Command(Program(s.t), "serve")
	cmd.Dir = filepath.Dir(s.Dir)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PETREL_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	for option, value := range flags {
		cmd.Env = append(cmd.Env, "PETREL_"+strings.ToUpper(strings.ReplaceAll(option, ".", "__"))+"="+value)
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stop = func() { _ = cmd.Process.Signal(syscall.SIGTERM) } // it may have ended
	s.kill = func() { _ = cmd.Process.Kill() }                  // the same
	ended := s.ended
	go func() { ended <- cmd.Wait() }()
	return nil
}
