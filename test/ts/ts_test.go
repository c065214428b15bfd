// Package ts_test runs the tests of the TypeScript SDK: in Node, in Chromium, and against the
// real server.
package ts_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest"
)

// sdkTime is how long the tests may take. In CI, beside other packages, they took 138 s.
const sdkTime = 10 * time.Minute

func TestTypeScriptSDK(t *testing.T) {
	t.Parallel()
	sdk, err := filepath.Abs("../../sdk/ts")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sdk, "node_modules", "esbuild")); err != nil {
		t.Fatal("the packages of sdk/ts are missing; run `make test`, or: npm ci --prefix sdk/ts")
	}
	ctx, cancel := context.WithTimeout(t.Context(), sdkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "scripts/test.mjs")
	cmd.Dir, cmd.Env = sdk, append(os.Environ(), "PETREL_PROGRAM="+imtest.Program(t))
	cmd.WaitDelay = 10 * time.Second // what is left of a browser must not hold the pipe
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
