package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
)

// Report is what a run found. Three rates are never mixed: offered counts the messages that senders wanted to
// send, accepted those that were acked and so are durable, delivered those that receivers got. Counts are those
// of the measured window, unless a field says something else. A figure that the scenario does not measure is 0.
type Report struct {
	Scenario string    `json:"scenario"`
	At       time.Time `json:"at"`
	Command  string    `json:"command"` // the command line that makes the same run; empty: no command made it
	Params   Params    `json:"params"`
	Raised   []Raised  `json:"raised_limits"`

	Seconds   float64 `json:"seconds"` // length of the measured window, as measured
	Offered   uint64  `json:"offered"`
	Accepted  uint64  `json:"accepted"`
	Delivered uint64  `json:"delivered"`
	Rejected  uint64  `json:"rejected"`
	Unknown   uint64  `json:"unknown"` // messages of the whole run without an answer at its end

	Published []Beside `json:"published,omitempty"` // published tests of the same load, compared with this run
	Checks    []Check  `json:"checks,omitempty"`    // of a run that sends a number of messages, not for a time
	Tasks     []Task   `json:"tasks,omitempty"`     // steps of the scenario, or kinds of work that its clients do
	Kills     *Kills   `json:"kills,omitempty"`     // of a run whose server is killed again and again
	Drift     *Drift   `json:"drift,omitempty"`     // of the scenario soak
	// what the machine does without a chat server; of runs that only send, and have started their server
	Floor *Floor `json:"floor,omitempty"`

	// signs that the load was too much for the server or the generator; empty: there is none
	Overloaded []string `json:"overloaded"`

	CursorMoves uint64 `json:"cursor_moves"` // durable moves of cursors in the whole run

	AcceptedPerS  float64 `json:"accepted_per_s"`
	DeliveredPerS float64 `json:"delivered_per_s"`

	Audit   Audit   `json:"audit"`
	Latency Latency `json:"latency_ms"`

	Server    Server    `json:"server"`
	Nodes     []Node    `json:"nodes,omitempty"`    // the servers that the run started; Server is their sum
	Postgres  *Postgres `json:"postgres,omitempty"` // the database of the run's own servers
	Total     Total     `json:"total"`
	Generator Generator `json:"generator"`
	Disk      Disk      `json:"disk"`
	Machine   Machine   `json:"machine"`

	Ladder []float64 `json:"ladder_ms"` // the bounds of the rungs in the series
	Series []Second  `json:"series"`    // an element for each second, warm-up and drain included
}

// Audit is what the audit of the whole run found, warm-up and drain included.
type Audit struct {
	Findings    checker.Findings  `json:"findings"`
	Messages    uint64            `json:"messages"`         // acked messages
	Deliveries  uint64            `json:"deliveries"`       // first arrivals, pushed or read
	HistoryRead uint64            `json:"history_read"`     // entries read back and compared at the end
	Lagged      uint64            `json:"lagged"`           // Lagged frames, after each of which a connection synced
	Errors      map[string]uint64 `json:"errors"`           // error frames by code
	Connections []string          `json:"connections_lost"` // lost connections, with the reason; not those of a storm
	Witnesses   []checker.Witness `json:"witnesses"`        // the first findings of each class
}

// Latency has times in milliseconds: from the moment when a message was sent, or, in an open loop, was due. In a
// closed loop, end to end is measured on the connections that send, and on one of 25 of those that only receive.
type Latency struct {
	Ack           Percentiles `json:"ack"`
	EndToEnd      Percentiles `json:"end_to_end"`
	AckCurve      []Point     `json:"ack_curve"`
	EndToEndCurve []Point     `json:"end_to_end_curve"`
}

// Server is what the run cost the server.
type Server struct {
	CPU float64 `json:"cpu_s"` // in the measured window
	// the part of CPU outside the kernel; 0 for a server that the run did not start
	User               float64 `json:"user_s"`
	RSSBytes           uint64  `json:"rss_bytes"` // at the end of the measured window
	AcceptedPerCPU     float64 `json:"accepted_per_cpu_s"`
	DeliveredPerCPU    float64 `json:"delivered_per_cpu_s"`
	BytesPerConnection float64 `json:"bytes_per_connection"`
	// growth of the compacted tables in the whole run, for each acked message. The log is of bounded size and
	// does not count. 0 for PostgreSQL, and for a server that the run did not start
	DiskBytesPerMessage float64 `json:"disk_bytes_per_message"`
	MessagesPerCommit   float64 `json:"messages_per_commit"`
}

// Node is the share of one server in the cost of a run.
type Node struct {
	CPU float64 `json:"cpu_s"`
	// entries that this node stored as an owner, whichever node their senders were connected to; also those that
	// the server makes itself
	Accepted uint64 `json:"accepted"`
	Commits  uint64 `json:"commits"`
}

// Postgres is the database of a run, and what the run cost it.
type Postgres struct {
	Version string   `json:"version"`
	CPU     float64  `json:"cpu_s"`     // of all its processes, in the measured window; 0: it runs on another machine
	Commit  SyncTime `json:"commit_ms"` // time of a commit like that of one message, on one connection, before the run
	// how often a feed got another owner in the whole run; the new owner pushes the newest commits again
	Moves int64 `json:"moves"`
}

// Total is the cost of the servers and their database together. All is 0 if there is no database on this machine.
type Total struct {
	CPU             float64 `json:"cpu_s"`
	AcceptedPerCPU  float64 `json:"accepted_per_cpu_s"`
	DeliveredPerCPU float64 `json:"delivered_per_cpu_s"`
}

// Generator is what the run cost the generator. On loopback the kernel charges it for a part of the network work
// of the server: a read of the generator also delivers the TCP acknowledgement to the server, and frees the
// acknowledged bytes.
type Generator struct {
	CPU  float64 `json:"cpu_s"`  // in the measured window
	User float64 `json:"user_s"` // the part of CPU outside the kernel
}

// WriteJSON writes v as reports are written: indented, and with < and > as they are.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Clean returns the errors of the run, nil if there are none: findings of the audit, overload, lost connections,
// drift, a server that should be killed and never was, failed checks, missed targets, receivers who came later and
// did not read just what was acked, or that nothing was measured.
func (r *Report) Clean(targets Targets) error {
	var errs []error
	if f := r.Audit.Findings; !f.Clean() {
		errs = append(errs, fmt.Errorf("the audit is not clean: %s", f))
	}
	for _, why := range r.Overloaded {
		errs = append(errs, fmt.Errorf("the run was overloaded: %s", why))
	}
	if n := len(r.Audit.Connections); n > 0 {
		errs = append(errs, fmt.Errorf("%d connections ended during the run, the first: %s", n, r.Audit.Connections[0]))
	}
	if r.Drift != nil {
		errs = append(errs, r.Drift.problem())
	}
	if r.Kills != nil && len(r.Kills.Each) == 0 {
		errs = append(errs, errors.New("the server was never killed: let it be killed more often"))
	}
	for _, c := range r.Checks {
		if !c.OK {
			errs = append(errs, FailedCheck{c})
		}
	}
	if a := r.Audit; r.Params.offline() && (a.Messages == 0 || a.Deliveries != a.Messages) {
		errs = append(errs, fmt.Errorf("%d messages were acked, the receivers read %d", a.Messages, a.Deliveries))
	} else if r.Params.traffic() != idle && !r.Params.offline() && (r.Accepted == 0 || r.Delivered == 0) {
		errs = append(errs, fmt.Errorf("nothing was measured: %d accepted, %d delivered", r.Accepted, r.Delivered))
	}
	return errors.Join(append(errs, targets.check(r)...)...)
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	for _, why := range r.Overloaded {
		line("OVERLOADED", "%s", why)
	}
	if s := r.Params.Scale; s != 0 && s != 1 {
		line("scale", "%s %% of the full size", number(100*s))
	}
	if r.Scenario == Connections {
		line("connections", "%s idle for %.0f s, %.0f bytes of server memory each",
			count(float64(r.Params.Connections)), r.Params.Seconds, r.Server.BytesPerConnection)
	}
	writeTasks(&b, r.Tasks)
	if r.Accepted > 0 || r.Offered > 0 {
		line("offered", "%s in %.1f s", count(float64(r.Offered)), r.Seconds)
		line("accepted", "%s/s durable   %s per server CPU-second   rejected %d   unknown %d",
			count(r.AcceptedPerS), count(r.Server.AcceptedPerCPU), r.Rejected, r.Unknown)
		if !r.Params.offline() {
			line("delivered", "%s/s   %s per server CPU-second", count(r.DeliveredPerS),
				count(r.Server.DeliveredPerCPU))
		}
		for _, l := range []struct {
			name string
			p    Percentiles
		}{{"ack", r.Latency.Ack}, {"end to end", r.Latency.EndToEnd}} {
			if l.p == (Percentiles{}) {
				continue
			}
			line(l.name, "p50 %.2f   p99 %.2f   p99.9 %.2f ms", l.p.P50, l.p.P99, l.p.P999)
		}
	}
	if r.Kills != nil {
		r.Kills.text(line)
	}
	if r.Scenario == Limit {
		line("disk", "fdatasync p50 %.2f   p99 %.2f ms", r.Disk.Fdatasync.P50, r.Disk.Fdatasync.P99)
		_, err := io.WriteString(w, b.String())
		return err
	}
	server := fmt.Sprintf("cpu %.2f s", r.Server.CPU)
	for _, part := range []struct {
		format string
		v      float64
	}{
		{", %.2f of it outside the kernel", r.Server.User}, {"   memory %.0f MB",
			float64(r.Server.RSSBytes) / (1 << 20)},
		{"   %.1f messages per commit", r.Server.MessagesPerCommit},
		{"   %.0f bytes on disk per message", r.Server.DiskBytesPerMessage},
	} {
		if part.v != 0 { // was measured
			server += fmt.Sprintf(part.format, part.v)
		}
	}
	line("server", "%s", server)
	if pg := r.Postgres; pg != nil {
		line("postgres", "version %s   cpu %.2f s   one commit p50 %.2f   p99 %.2f ms", pg.Version, pg.CPU,
			pg.Commit.P50, pg.Commit.P99)
	}
	if t := r.Total; t.CPU > 0 {
		line("together", "cpu %.2f s   %s accepted, %s delivered per CPU-second", t.CPU, count(t.AcceptedPerCPU),
			count(t.DeliveredPerCPU))
	}
	if len(r.Nodes) > 1 {
		for i, n := range r.Nodes {
			line(fmt.Sprintf("node %d", i+1), "cpu %.2f s   %s stored in %s commits", n.CPU, count(float64(n.Accepted)),
				count(float64(n.Commits)))
		}
	}
	if d := r.Drift; d != nil {
		line("drift", "memory %.0f to %.0f MB, ack p99 %.2f to %.2f ms, %.2f to %.2f cores, from the second quarter to the last", d.Memory[0]/(1<<20), d.Memory[1]/(1<<20), d.Ack[0], d.Ack[1], d.CPU[0], d.CPU[1])
	}
	if f := r.Floor; f != nil {
		line("floor", "%s messages like these per CPU-second with nothing but sockets and a log; the server has %.0f %% of that", count(f.AcceptedPerCPU), 100*f.Share)
	}
	line("generator", "cpu %.2f s, %.2f of it outside the kernel", r.Generator.CPU, r.Generator.User)
	if r.Generator.CPU > max(r.Server.CPU, r.Total.CPU)/2 {
		line("", "the generator used more than half as much CPU as the servers")
	}
	if r.Disk != (Disk{}) {
		line("disk", "fdatasync p50 %.2f   p99 %.2f ms", r.Disk.Fdatasync.P50, r.Disk.Fdatasync.P99)
	}
	for _, l := range r.Raised {
		line("raised", "%s from %d to %s", l.Limit, l.From, unlimited(l.To))
	}
	if r.Params.Receipts {
		line("cursors", "%s moves, durable", count(float64(r.CursorMoves)))
	}
	if pg := r.Postgres; pg != nil && pg.Moves > 0 {
		line("owners", "%d feeds changed hands during the run", pg.Moves)
	}
	line("audit", "%s   of %s messages, %s deliveries; %s read back; lagged %d", r.Audit.Findings,
		count(float64(r.Audit.Messages)),
		count(float64(r.Audit.Deliveries)), count(float64(r.Audit.HistoryRead)), r.Audit.Lagged)
	if n := r.Audit.Messages; n >= 3 && r.Audit.Findings.Clean() {
		line("", "0 of %s acked messages are lost: at most %.2g %% are, at 95 %%", count(float64(n)),
			100*checker.AtMost(n))
	}
	for _, c := range r.Checks {
		verdict := "met"
		if !c.OK {
			verdict = "FAILED"
		}
		line("check", "%-6s %s", verdict, c)
	}
	for i := range r.Published {
		r.Published[i].text(line)
	}
	for _, s := range r.Audit.Connections[:min(3, len(r.Audit.Connections))] {
		line("", "%s", s)
	}
	for _, w := range r.Audit.Witnesses {
		line("", "%s", w)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func unlimited(v int64) string {
	if v < 0 {
		return "none"
	}
	return fmt.Sprint(v)
}
