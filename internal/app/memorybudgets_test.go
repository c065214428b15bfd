package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/config"
)

func TestMemoryIsSharedOut(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		name  string
		total int64
		set   config.Config
		want  Budgets
	}{
		{"a small container", 256 * mib, config.Config{}, Budgets{256 * mib, 16 * mib, 8 * mib, 16 * mib, 16 * mib}},
		{"the smallest", 64 * mib, config.Config{}, Budgets{64 * mib, 8 * mib, 2 * mib, 4 * mib, 4 * mib}},
		{"a machine", 2 * gib, config.Config{}, Budgets{2 * gib, 128 * mib, 64 * mib, 64 * mib, 64 * mib}},
		{"a large machine", 64 * gib, config.Config{}, Budgets{64 * gib, 256 * mib, 256 * mib, 64 * mib, 64 * mib}},
		{"less of a large machine", 64 * gib, config.Config{Memory: config.Memory{TotalBytes: 4 * gib}}, Budgets{4 * gib, 256 * mib, 128 * mib, 64 * mib, 64 * mib}},
		{
			"what is set", 64 * gib,
			config.Config{Store: config.Store{CacheBytes: 20 * mib}, Memory: config.Memory{ConversationBytes: 3 * mib}},
			Budgets{64 * gib, 20 * mib, 3 * mib, 64 * mib, 64 * mib},
		},
	} {
		if d := cmp.Diff(c.want, ShareMemory(c.total, &c.set)); d != "" {
			t.Errorf("%s: -want +got\n%s", c.name, d)
		}
	}
	if b := ShareMemory(0, &config.Config{}); b.Total < 64*mib {
		t.Errorf("this machine is said to have %d bytes of memory", b.Total)
	}
}
