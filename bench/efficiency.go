package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/checker"
)

// On one machine, several nodes share its processors, and each has only a part of the load. So what a
// cluster costs is seen only beside what the same machine does with as many servers that know nothing
// of each other.

// Efficiency is a cluster of some nodes beside that. Each Work has the load of the cluster, but Alone.
type Efficiency struct {
	Nodes   int  `json:"nodes"`
	Cluster Work `json:"cluster"`
	Alone   Work `json:"alone"` // one server with as much load as one node of the cluster has
	Apart   Work `json:"apart"` // as many servers as the cluster has nodes, at the same time, each with its own database and its part of the load

	OfAlone float64 `json:"of_alone"` // messages of the cluster per CPU-second of its nodes, as a share of the server's alone: 0 to 1
	OfApart float64 `json:"of_apart"` // and of those apart
}

// Work is what a second of CPU has done.
type Work struct {
	Accepted          uint64           `json:"accepted"`
	AcceptedPerCPU    float64          `json:"accepted_per_cpu_s"`       // of the nodes, or servers
	TotalPerCPU       float64          `json:"total_accepted_per_cpu_s"` // with their databases
	MessagesPerCommit float64          `json:"messages_per_commit"`
	Findings          checker.Findings `json:"findings"`
}

// work adds up what some runs have done.
func work(runs []*Report) (w Work) {
	cpu, total, commits := 0.0, 0.0, uint64(0)
	for _, r := range runs {
		w.Accepted += r.Accepted
		cpu += r.Server.CPU
		total += r.Total.CPU
		for _, n := range r.Nodes {
			commits += n.Commits
		}
		for class, n := range r.Audit.Findings {
			w.Findings[class] += n
		}
	}
	for _, q := range []struct {
		to *float64
		by float64
	}{{&w.AcceptedPerCPU, cpu}, {&w.TotalPerCPU, total}, {&w.MessagesPerCommit, float64(commits)}} {
		if q.by > 0 {
			*q.to = round(float64(w.Accepted)/q.by, 10)
		}
	}
	return w
}

// MeasureEfficiency puts a run of the scenario Cluster with several nodes beside one server, and as many
// servers as it has nodes. Those are processes of this program, or p.Executable.
func MeasureEfficiency(ctx context.Context, cluster *Report, p Params) (*Efficiency, error) {
	e := &Efficiency{Nodes: p.Nodes, Cluster: work([]*Report{cluster})}
	if p.Progress == nil {
		p.Progress = func(Progress) {}
	}
	for _, side := range []struct {
		to *Work
		n  int
	}{{&e.Alone, 1}, {&e.Apart, p.Nodes}} {
		p.Progress(Progress{Phase: "prepare", Note: fmt.Sprintf("%d of the servers that make no cluster, each with %d senders", side.n, max(1, p.Senders/p.Nodes))})
		runs, err := standalone(ctx, p, side.n)
		if err != nil {
			return nil, err
		}
		*side.to = work(runs)
	}
	if e.Alone.AcceptedPerCPU > 0 && e.Apart.AcceptedPerCPU > 0 {
		e.OfAlone = round(e.Cluster.AcceptedPerCPU/e.Alone.AcceptedPerCPU, 1000)
		e.OfApart = round(e.Cluster.AcceptedPerCPU/e.Apart.AcceptedPerCPU, 1000)
	}
	return e, nil
}

// Clean says whether anything was found in the books of the servers that make no cluster.
func (e *Efficiency) Clean() error {
	var errs []error
	for name, w := range map[string]Work{"alone": e.Alone, "apart": e.Apart} {
		if !w.Findings.Clean() {
			errs = append(errs, fmt.Errorf("the audit of the servers %s is not clean: %s", name, w.Findings))
		}
	}
	return errors.Join(errs...)
}

// standalone has n processes at a time do the scenario with one node each, and with a node's part of the
// senders of p.
func standalone(ctx context.Context, p Params, n int) ([]*Report, error) {
	if p.Executable == "" {
		var err error
		if p.Executable, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
	}
	dir, err := os.MkdirTemp(p.Dir, "petrel-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the reports: %w", err)
	}
	defer os.RemoveAll(dir)
	args := []string{"bench", Cluster, "--nodes", "1", "--senders", strconv.Itoa(max(1, p.Senders/p.Nodes)), "--receivers", strconv.Itoa(p.Receivers),
		"--rounds", strconv.Itoa(p.Rounds), "--size", strconv.Itoa(p.Size), "--window", strconv.Itoa(p.Window), "--codec", p.Codec, "--transport", p.Transport,
		"--postgres", p.Postgres}
	if p.Dir != "" {
		args = append(args, "--dir", p.Dir)
	}
	for _, s := range p.ServeArgs {
		args = append(args, "--serve", s)
	}
	runs, errs := make([]*Report, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			runtime.LockOSThread() // the process ends with the thread that started it
			defer runtime.UnlockOSThread()
			file := filepath.Join(dir, fmt.Sprintf("%d.json", i))
			c := exec.CommandContext(ctx, p.Executable, slices.Concat(args, []string{"--seed", strconv.Itoa(i + 1), "--json", file})...)
			c.SysProcAttr = endWithParent()
			if out, err := c.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("a server apart: %w: %s", err, lastLines(out))
				return
			}
			runs[i], errs[i] = oneReport(file)
		})
	}
	wg.Wait()
	return runs, errors.Join(errs...)
}

// lastLines are the last ones of what a program has written.
func lastLines(out []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// oneReport reads the report of a table of one.
func oneReport(file string) (*Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var t Table
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(t.Runs) != 1 {
		return nil, fmt.Errorf("%s has %d reports, want 1", file, len(t.Runs))
	}
	return t.Runs[0], nil
}

// writeEfficiency writes the table for people.
func writeEfficiency(b *strings.Builder, all []*Efficiency) {
	if len(all) == 0 {
		return
	}
	b.WriteString("\nnodes  per CPU-s of the nodes  of one server with one node's load  of as many servers apart  per commit: cluster  alone  apart\n")
	for _, e := range all {
		fmt.Fprintf(b, "%5d %23s %20s, %10.0f%% %16s, %6.0f%% %19.1f %6.1f %6.1f\n", e.Nodes, count(e.Cluster.AcceptedPerCPU), count(e.Alone.AcceptedPerCPU), 100*e.OfAlone,
			count(e.Apart.AcceptedPerCPU), 100*e.OfApart, e.Cluster.MessagesPerCommit, e.Alone.MessagesPerCommit, e.Apart.MessagesPerCommit)
	}
}
