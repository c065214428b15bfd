package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
)

// OpenIMReliability is the scenario after the reliability test that OpenIM publishes: clients log in late, each
// at a random moment, and some of them write to the others. The received messages must be the acked ones. The
// clients are those of the Go SDK.
const OpenIMReliability = "openim-reliability"

// ReliabilityReport is what a run of OpenIMReliability found.
type ReliabilityReport struct {
	Scenario string    `json:"scenario"`
	At       time.Time `json:"at"`
	Command  string    `json:"command"`
	Params   Params    `json:"params"`
	Machine  Machine   `json:"machine"`
	Seconds  float64   `json:"seconds"` // of all runs, without reading the histories and judging

	Kills     uint64 `json:"kills"`     // of the server, with SIGKILL
	Tried     uint64 `json:"tried"`     // messages to one other user
	Failed    uint64 `json:"failed"`    // of Tried: ended without an ack
	Strangers uint64 `json:"strangers"` // sends to a group by users who are no members
	Refused   uint64 `json:"refused"`   // of Strangers: refused
	// of Strangers: refused after an attempt without an answer, so that the client cannot know the outcome
	// (P-4.8)
	Unknowable uint64         `json:"unknowable"`
	Judged     checker.Report `json:"judged"` // by the checker, of all runs together
}

const (
	reliabilityWindow   = 256         // about how many messages a client may have without an answer
	strangerEvery       = 100         // for so many messages, a sender sends one to a group of others
	reliabilityPatience = time.Minute // after this and LateS without progress, the run ends as it is
)

// RunReliability makes the runs that p describes. It returns a report also of runs with findings.
func RunReliability(ctx context.Context, p Params) (*ReliabilityReport, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if p.Progress == nil {
		p.Progress = func(Progress) {}
	}
	p.ServeArgs = append([]string{}, p.ServeArgs...) // an empty list in the report, not null
	dir, err := os.MkdirTemp(p.Dir, "petrel-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the server: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // nobody needs it any more
	load := DefaultParams(Direct)
	load.Senders, load.Receivers, load.Window = p.Connections, p.Connections, 0
	load.Dir, load.ServeArgs, load.Executable, load.Progress = p.Dir, p.ServeArgs, p.Executable, p.Progress
	server := &run{p: load, report: &Report{}}
	defer server.stop()
	if err := server.startServers(ctx, dir); err != nil {
		return nil, err
	}
	defer server.hangUp()
	if err := server.raise(ctx); err != nil {
		return nil, err
	}
	report := &ReliabilityReport{Scenario: OpenIMReliability, At: time.Now().UTC().Truncate(time.Second),
		Command: p.Command, Params: p, Machine: describeMachine(true)}
	for n := range p.Runs {
		server.say("run %d of %d", n+1, p.Runs)
		if err := report.once(ctx, server, cmp.Or(p.OpLogs, dir), n); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// once makes run n and adds its result. Its op log is a file in the folder logs, and stays there if that is
// Params.OpLogs.
func (r *ReliabilityReport) once(ctx context.Context, server *run, logs string, n int) error {
	x := &reliability{run: server, p: r.Params, n: n, seen: map[string]map[string]uint64{}, direct: map[string][2]int{},
		heads: map[string]uint64{}}
	file, err := os.Create(filepath.Join(logs, fmt.Sprintf("%s-%d.ops", OpenIMReliability, n+1)))
	if err != nil {
		return fmt.Errorf("make the op log: %w", err)
	}
	defer func() {
		_ = file.Close() // it was read to its end
		if r.Params.OpLogs == "" {
			_ = os.Remove(file.Name()) // its folder goes too
		}
	}()
	x.log = checker.NewWriter(file)
	begun := time.Now()
	if err := x.play(ctx); err != nil {
		return err
	}
	r.Seconds = round(r.Seconds+time.Since(begun).Seconds(), 10)
	if err := x.readBack(ctx); err != nil {
		return err
	}
	if err := x.log.Flush(); err != nil {
		return fmt.Errorf("write the op log: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	found, err := checker.Check([]checker.Log{{Name: file.Name(), Reader: file}},
		checker.Options{Dir: filepath.Dir(file.Name())})
	if err != nil {
		return err
	}
	r.Judged.Add(found)
	r.Kills += x.kills
	r.Tried += x.tried.Load()
	r.Failed += x.failed.Load()
	r.Strangers += x.strangers.Load()
	r.Refused += x.refused.Load()
	r.Unknowable += x.unknowable.Load()
	return nil
}

// Clean returns the errors of the runs: findings of the checker, a server that should be killed and never was, messages
// without an ack, messages to a group of others that were not refused, or op logs that do not fit the counts.
func (r *ReliabilityReport) Clean() error {
	var errs []error
	if f := r.Judged.Findings; !f.Clean() {
		errs = append(errs, fmt.Errorf("the audit is not clean: %s", f))
	}
	if r.Params.KillS > 0 && r.Kills == 0 {
		errs = append(errs, errors.New("the server was never killed: let it be killed more often"))
	}
	if r.Failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d messages have no ack", r.Failed, r.Tried))
	}
	if n := r.Refused + r.Unknowable; n < r.Strangers {
		errs = append(errs, fmt.Errorf("%d of %d messages to a group of others were not refused", r.Strangers-n,
			r.Strangers))
	}
	if j := r.Judged; j.Acked+r.Failed != r.Tried || j.Due < 2*j.Acked || j.WithHistory != j.Conversations ||
		j.WithMembers != j.Conversations {
		errs = append(errs, fmt.Errorf("the op logs are not those of the runs: %+v", j.Sums))
	}
	return errors.Join(errs...)
}

// WriteText writes the report for people.
func (r *ReliabilityReport) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	p, j := r.Params, r.Judged
	line("clients", "%d, who log in at random moments of %g s; %d of them write to the others, %d times, in %.1f s",
		p.Connections, p.LateS, p.Senders, p.Runs, r.Seconds)
	if p.KillS > 0 {
		line("server", "killed %d times, with SIGKILL", r.Kills)
	}
	line("tried", "%s   acked %s   failed %d   (OpenIM publishes: 100,000, 99,997, 3)", count(float64(r.Tried)),
		count(float64(j.Acked)), r.Failed)
	line("refused", "%s of %s messages to a group of others; %d of the refusals answered a repeat",
		count(float64(r.Refused+r.Unknowable)), count(float64(r.Strangers)), r.Unknowable)
	line("shown", "%s entries as new; %s had to be shown", count(float64(j.Deliveries)), count(float64(j.Due)))
	line("history", "%s entries of %s conversations", count(float64(j.Entries)), count(float64(j.WithHistory)))
	for _, c := range checker.Classes() {
		line(c.String(), "%s", j.Verdict(c))
	}
	for _, x := range j.Witnesses {
		line("", "%s", x)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
