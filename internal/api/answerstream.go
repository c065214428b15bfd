package api

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/petrel-im/petrel/internal/im"
)

// jsonLines is the content type that a caller names in the header Accept to get a stream of answers.
const jsonLines = "application/jsonl"

const (
	maxFollowers = 32
	followEvery  = time.Second
	followStall  = 10 * time.Second // for one line: a caller who takes nothing for so long has gone
)

// follows reports whether a call of m asks for a stream of answers.
func follows(m *method, h http.Header) bool {
	return m.follow && h.Get("Accept") == jsonLines && strings.HasPrefix(h.Get("Content-Type"), "application/json")
}

// Followers counts the callers with a stream of answers.
func (s *Server) Followers() int { return len(s.followers) }

// follow answers a call, and then calls the method again each second, until the caller has gone. It writes one line
// of JSON for each answer. A later request has the timeMs of the answer before as afterMs, and 1 as stepS; nothing
// else of the caller's body is kept. Each answer is that of a call of its own, so a caller who loses the right to
// call gets the refusal as the last line. After the first answer follow calls the function left, which releases
// what admit has counted for the body. Codes: too_many_connections, draining, and those of the method. Spec:
// P-10.11.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, left func()) {
	line := s.keep(r)
	left()
	if line.status == http.StatusOK {
		select {
		case s.followers <- struct{}{}:
			defer func() { <-s.followers }()
			line.header.Set("Content-Type", jsonLines)
			line.header.Set("X-Accel-Buffering", "no") // nginx would wait for more lines
		default:
			line = s.keepRefusal(r, &im.Error{Code: im.CodeTooManyConnections, RetryAfter: followStall})
		}
	}
	maps.Copy(w.Header(), line.header)
	w.WriteHeader(line.status)
	control := http.NewResponseController(w)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		// The server's deadline is for a whole answer. An error means that it cannot be changed: then it holds.
		_ = control.SetWriteDeadline(time.Now().Add(followStall))
		_, err := w.Write(append(bytes.TrimSpace(line.body.Bytes()), '\n'))
		if err != nil || line.status != http.StatusOK || control.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
			next := r.WithContext(r.Context())
			next.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"afterMs":"%d","stepS":1}`,
				gjson.GetBytes(line.body.Bytes(), "timeMs").Uint())))
			line = s.keep(next)
		case <-s.ending:
			line = s.keepRefusal(r, &im.Error{Code: im.CodeDraining})
		case <-r.Context().Done():
			return
		}
	}
}
