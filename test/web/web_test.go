// Package web_test runs the tests of the web chat: in Node, and in Chromium against the real
// server, with the files that are in the program.
package web_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest"
)

// webTime is how long the tests may take. In CI, beside other packages, they took 50 s.
const webTime = 5 * time.Minute

func TestWebChat(t *testing.T) {
	t.Parallel()
	web, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(web, "node_modules", "playwright-core")); err != nil {
		t.Fatal("the packages of web are missing; run `make test`, or: npm ci --prefix web")
	}
	ctx, cancel := context.WithTimeout(t.Context(), webTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "scripts/test.mjs")
	cmd.Dir, cmd.Env = web, append(os.Environ(), "PETREL_PROGRAM="+imtest.Program(t))
	cmd.WaitDelay = 10 * time.Second // what is left of a browser must not hold the pipe
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
