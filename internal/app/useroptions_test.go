package app

import (
	"net/netip"
	"testing"

	"github.com/petrel-im/petrel/internal/config"
)

// A proxy on the same host brings strangers to a listener on the loopback. So an option that is
// for strangers or for proxies closes registration.
func TestRegistrationIsOpenOnlyWhereNoOtherHostComes(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(c *config.Config)
		want bool
	}{
		{"on the loopback", func(*config.Config) {}, true},
		{"on all addresses", func(c *config.Config) { c.Listen.HTTP = ":8080" }, false},
		{"TCP on all addresses", func(c *config.Config) { c.Listen.TCP = ":8082" }, false},
		{"names", func(c *config.Config) { c.Listen.Hosts = []string{"chat.example.org"} }, false},
		{"proxies", func(c *config.Config) {
			c.Listen.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		}, false},
		{"addresses for clients", func(c *config.Config) { c.Cluster.Addresses = []string{"https://chat.example.org"} }, false},
	} {
		cfg := &config.Config{}
		cfg.Listen.HTTP, cfg.Listen.TCP = "127.0.0.1:8080", "127.0.0.1:8082"
		c.set(cfg)
		var a App
		a.live.Store(cfg)
		if got := a.loopbackOnly(); got != c.want {
			t.Errorf("%s: open is %t, want %t", c.name, got, c.want)
		}
	}
}
