package pebblestore

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The log warns before sends are refused, once for each time that the space falls.
func TestLogWarnsBeforeTheDiskIsFull(t *testing.T) {
	var log strings.Builder
	var free uint64
	s := &space{log: slog.New(slog.NewTextHandler(&log, nil)), fs: vfs.NewMem(), limit: 100, free: func() (uint64, error) { return free, nil }, files: func() (uint64, error) { return 2 * minFreeFiles, nil }}
	for _, c := range []struct {
		free uint64
		want string // in the line that is new; empty: there is none
	}{
		{1000, ""}, {200, ""}, {199, "getting full"}, {150, ""}, {99, "level=ERROR"}, {110, ""}, {140, "space again"}, {210, ""}, {199, ""}, {250, ""}, {180, "getting full"},
	} {
		log.Reset()
		free = c.free
		s.check()
		if got := log.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("with %d free of a limit of 100 the log says %q, want %q", c.free, got, c.want)
		}
	}
}
