// Package ts_test runs the tests of the TypeScript SDK: in Node, in Chromium, and against the
// real server.
package ts_test

import (
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// `make rules` breaks the rules of the SDK.
func TestTypeScriptSDK(t *testing.T) {
	t.Parallel()
	proctest.NodeTests(t, "../../sdk/ts", "-broken")
}
