// Package web_test runs the tests of the web chat: in Node, and in Chromium against the real
// server, with the files that are in the program.
package web_test

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// The units, and of what needs a browser the conversations. `make pages` runs all of it.
func TestWebChat(t *testing.T) {
	t.Parallel()
	proctest.NodeTests(t, "../../web", 5*time.Minute, "src/", "chat.test", "broken.test", "contrast.test", "elementStyles.test")
}
