package passenger

import (
	"os"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
)

func TestMain(m *testing.M) {
	imtest.ServeChild()
	os.Exit(m.Run())
}
