package repeats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/repeats"
)

// logged is what a logger writes that sums up repeats.
func logged(t *testing.T, f func(log *slog.Logger)) []string {
	t.Helper()
	var b bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		h := repeats.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			h.Run(ctx)
			close(ended)
		}()
		f(slog.New(h))
		stop()
		<-ended
	})
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// A node that was removed was worth 1,305 lines in seven and a half minutes.
func TestNodeThatIsGoneIsAFewLines(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		for n := range 1305 {
			log.Warn("nats server reported an error", "err", fmt.Sprintf("Error trying to connect to route (attempt %d): dial tcp 10.0.0.3:6222: connect: connection refused", n+1))
			<-time.After(450 * time.Second / 1305)
		}
	})
	if len(lines) > 10 || !strings.Contains(lines[0], "attempt 1)") || strings.Contains(lines[0], "repeated") {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	total := 1
	for _, line := range lines[1:] {
		var n int
		if _, err := fmt.Sscanf(line[strings.Index(line, "repeated="):], "repeated=%d within=", &n); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		total += n
	}
	if total != 1305 {
		t.Errorf("%d lines were counted, of 1305", total)
	}
}

func TestOnlyTheSameLinesAreSummed(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		for range 3 {
			log.Info("node is back", "node", "a")
		}
		for feed := range 3 {
			log.Warn("feed is lost", "feed", feed)
		}
		log.Warn("node is gone", "node", "a", "took", time.Second)
		log.Warn("node is gone", "node", "b", "took", time.Second)
		log.With("node", "c").Warn("node is gone", "took", time.Second)
		log.WithGroup("g").Warn("node is gone", "node", "a")
		log.Error("node is gone", "node", "a", "took", time.Second)
		log.Warn("node is gone", "node", "a", "took", 2*time.Second) // the seventh of them, and the first that repeats
		log.Warn("failed", "err", errors.New("connection refused"))
		log.Warn("failed", "err", errors.New("no route to host"))
	})
	want := 3 + 3 + 5 + 2 + 1
	if len(lines) != want || !strings.Contains(lines[want-1], "node=a took=2s repeated=1 within=10s") {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, strings.Join(lines, "\n"))
	}
}

// A line is news again when it has not come for a while.
func TestLineThatComesBackIsWritten(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		for range 3 {
			log.Warn("disk does not answer")
			<-time.After(time.Minute)
		}
	})
	if len(lines) != 3 || strings.Contains(strings.Join(lines, ""), "repeated") {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// People look for the request ids that their clients show.
func TestLinesWithRequestIdsAreWrittenAFewTimes(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		for n := range 1000 {
			log.Error("call failed", "req", fmt.Sprint("r", n), "err", "the store is gone")
		}
	})
	if len(lines) != 11 || !strings.Contains(lines[9], "req=r9") || !strings.Contains(lines[10], "req=r999") || !strings.Contains(lines[10], "repeated=990") {
		t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// More different lines than are told apart are all written.
func TestManyDifferentLinesAreWritten(t *testing.T) {
	lines := logged(t, func(log *slog.Logger) {
		for range 2 {
			for n := range 2000 {
				log.Warn("x", "conv", fmt.Sprint("c", n))
			}
		}
	})
	if n := len(lines); n < 2000+976 {
		t.Errorf("%d lines", n)
	}
}
