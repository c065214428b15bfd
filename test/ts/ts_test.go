// Package ts_test runs the tests of the TypeScript SDK: in Node, in Chromium, and against the
// real server.
package ts_test

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// They take 46 s of CPU, 19 s of them in Chromium. In CI, beside other packages, that was 138 s.
func TestTypeScriptSDK(t *testing.T) {
	t.Parallel()
	proctest.NodeTests(t, "../../sdk/ts", 10*time.Minute)
}
