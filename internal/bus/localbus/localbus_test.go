package localbus_test

import (
	"testing"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/bus/bustest"
	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/im"
)

func TestLocalBusIsABus(t *testing.T) {
	bustest.Run(t, func(t *testing.T) func(im.Node) bus.Bus {
		net := localbus.New()
		return func(n im.Node) bus.Bus {
			b, err := net.Join(n)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	})
}
