package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Quick is the scenario that shows a server in twenty seconds: people write to each other, a group has many
// members, the server is killed and its clients come back, and the checker judges what everybody saw.
const Quick = "quick"

// Story is the report of the scenario Quick.
type Story struct {
	Runs      []*Report          `json:"runs"` // one to one, and a group
	Reconnect *ReliabilityReport `json:"reconnect"`
}

const (
	quickRate     = 5000
	quickMembers  = 500
	quickClients  = 20
	quickMessages = 150
)

// quickParts returns the parameters of the three runs of the story. It checks all of them, before the first run begins.
func (p *Params) quickParts() (parts []Params, err error) {
	for _, scenario := range []string{Direct, Group, OpenIMReliability} {
		one := DefaultParams(scenario)
		switch scenario {
		case Direct:
			one.Rate = quickRate * p.Scale
		case Group:
			one.Members = quickMembers
		case OpenIMReliability:
			one.Connections, one.Senders, one.Messages = quickClients, quickClients/2,
				max(40, int(quickMessages*p.Scale))
			one.IntervalMS, one.LateS, one.KillS = []float64{20}, 1, 1.5
		}
		if scenario != OpenIMReliability {
			one.Seconds, one.WarmUp = p.Seconds, min(1, p.Seconds)
			one = one.Scaled(p.Scale)
		}
		one.Dir, one.ServeArgs, one.Executable, one.Command, one.Progress = p.Dir, p.ServeArgs, p.Executable, p.Command,
			p.Progress
		if err := one.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", scenario, err)
		}
		parts = append(parts, one)
	}
	return parts, nil
}

// RunQuick runs the scenario, with servers of its own.
func RunQuick(ctx context.Context, p Params) (*Story, error) {
	parts, err := p.quickParts()
	if err != nil {
		return nil, err
	}
	s := &Story{}
	for _, one := range parts[:2] {
		r, err := Run(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Scenario, err)
		}
		s.Runs = append(s.Runs, r)
	}
	if s.Reconnect, err = RunReliability(ctx, parts[2]); err != nil {
		return nil, fmt.Errorf("%s: %w", OpenIMReliability, err)
	}
	return s, nil
}

// ReadStory reads a story from a file that WriteJSON has written. A file with something else is an error.
func ReadStory(file string) (*Story, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s Story
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(s.Runs) != 2 || s.Reconnect == nil {
		return nil, fmt.Errorf("%s is no report of the scenario %s", file, Quick)
	}
	return &s, nil
}

// Clean returns the errors of all parts.
func (s *Story) Clean() error {
	errs := []error{s.Reconnect.Clean()}
	for _, r := range s.Runs {
		errs = append(errs, r.Clean(nil))
	}
	return errors.Join(errs...)
}

// WriteText writes the story for people: a sentence for each part.
func (s *Story) WriteText(w io.Writer) error {
	var b strings.Builder
	say := func(title, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s %s\n", title, fmt.Sprintf(format, args...))
	}
	pairs, group, back := s.Runs[0], s.Runs[1], s.Reconnect
	e := pairs.Latency.EndToEnd
	say("one to one", "%d people wrote to %d others, %s messages a second, each due at its time. Half arrived within %.2f ms, 99 %% within %.2f ms.",
		pairs.Params.Senders, pairs.Params.Receivers, count(pairs.AcceptedPerS), e.P50, e.P99)
	say("", "Each was on the disk before its sender got an answer. One second of the server's CPU does %s of them.",
		count(pairs.Server.AcceptedPerCPU))
	say("a group", "%d of %d members wrote as fast as answers came: %s messages a second, and %s deliveries.",
		group.Params.Senders, group.Params.Members, count(group.AcceptedPerS), count(group.DeliveredPerS))
	say("", "One second of the server's CPU does %s deliveries.", count(group.Server.DeliveredPerCPU))
	say("reconnect", "%d clients of the Go SDK logged in, %d of them wrote. The server was killed %d times with SIGKILL and started again.",
		back.Params.Connections, back.Params.Senders, back.Kills)
	say("", "%s messages were tried, %s acked, %d failed; %s of %s to a group of strangers were refused.",
		count(float64(back.Tried)),
		count(float64(back.Judged.Acked)), back.Failed, count(float64(back.Refused+back.Unknowable)),
		count(float64(back.Strangers)))
	var messages, deliveries, read uint64
	for _, r := range s.Runs {
		messages, deliveries, read = messages+r.Audit.Messages, deliveries+r.Audit.Deliveries, read+r.Audit.HistoryRead
	}
	say("the checker", "followed %s messages to %s screens, and read %s entries back from the histories.",
		count(float64(messages+back.Judged.Acked)),
		count(float64(deliveries+back.Judged.Deliveries)), count(float64(read+back.Judged.Entries)))
	if err := s.Clean(); err != nil {
		for line := range strings.Lines(err.Error()) {
			say("", "%s", strings.TrimSpace(line))
		}
	} else {
		say("", "Nothing was lost, doubled, invented, altered or out of order.")
	}
	m := pairs.Machine
	say("machine", "%d × %s, %s; one sync of the disk %.2f ms", m.Cores, m.CPU, m.Go, pairs.Disk.Fdatasync.P50)
	_, err := io.WriteString(w, b.String())
	return err
}
