//go:build unix

package proctest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// hangs is after how long a process of Node is taken for one that hangs. A slow machine takes minutes.
const hangs = 30 * time.Minute

// NodeTests runs the TypeScript tests of a folder with Node.js, and gives them the server's program. dir is
// relative to the folder of the test. With names, it runs only files with one of these in their names; -NAME leaves
// out those with NAME.
func NodeTests(t *testing.T, dir string, names ...string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".installed")); err != nil {
		t.Fatalf("the packages of %s are missing; run `make test`", dir)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"scripts/test.mjs"}, names...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PETREL_PROGRAM="+Program(t))
	cmd.WaitDelay = 10 * time.Second // a remaining browser process must not keep the pipe open
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%v of CPU", cpu.Round(100*time.Millisecond))
}
