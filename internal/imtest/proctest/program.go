//go:build unix

package proctest

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

// Program builds the server's program, as users run it, and returns its path. The tests of all packages share it:
// `go build` does nothing if the program is up to date.
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
	if _, after, ok := strings.Cut(flags, "-overlay="); ok { // a changed program, which is built beside its overlay
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
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", path,
		"github.com/petrel-im/petrel/cmd/petrel")
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}
