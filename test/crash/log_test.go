package crash

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// A log that nobody takes, or whose reader is gone, holds nothing up: requests are answered,
// and the server ends when it is told to.
func TestTheReaderOfTheLogCostsNobodyAnything(t *testing.T) {
	for what, gone := range map[string]bool{"it reads nothing": false, "it is gone": true} {
		t.Run(what, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			s := newServer(t)
			s.log, s.stderr = "debug", w
			s.start()
			_ = w.Close() // of this process
			if gone {
				_ = r.Close()
			}
			// Each of these connections is a line. A pipe takes 64 KiB of them.
			for range 1000 {
				c := s.dial()
				_, _ = c.Write([]byte("no frame\n")) // shows below
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				_ = c.Close() // the server has ended it
			}
			if n := s.dropped(); (n > 0) != gone {
				t.Errorf("%d lines are dropped", n)
			}
			s.end()
		})
	}
}

// dial connects to the server by TCP.
func (s *server) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.tcp)
	if err == nil {
		err = c.SetDeadline(eventually.Deadline())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// dropped is how many lines of the log were dropped.
func (s *server) dropped() int {
	s.t.Helper()
	c := &http.Client{Timeout: eventually.Limit}
	a, err := c.Get("http://" + s.admin + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, a.Body); err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(b.String(), "\npetrel_log_lines_dropped_total ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if err != nil {
		s.t.Fatalf("metrics have %q: %v", line, err)
	}
	return n
}
