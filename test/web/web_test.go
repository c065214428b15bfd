// Package web_test runs what tests of the web chat need no browser.
package web_test

import (
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/proctest"
)

// `make pages` runs all of them, in Chromium against the real server.
func TestWebChat(t *testing.T) {
	t.Parallel()
	proctest.NodeTests(t, "../../web", "src/", "contrast.test", "elementStyles.test")
}
