package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
)

// Targets are the goals of a run, besides a clean audit.
type Targets []target

type target struct {
	text  string
	key   Figure
	op    string
	bound float64
}

// Figure is a figure by which runs are compared. A target can name it.
type Figure struct {
	Name         string
	Unit         string // ms, 1/s, bytes, messages; empty: it counts what should not happen, so 0 is a result
	LargerBetter bool
	of           func(*Report) float64 // 0 with a unit: the run did not measure it
}

const (
	milliseconds = "ms" // a target gives the bound of such a figure with its unit, like 50ms or 2s
	perSecond    = "1/s"
)

var figures = []Figure{
	{"p50", milliseconds, false, func(r *Report) float64 { return r.Latency.EndToEnd.P50 }},
	{"p90", milliseconds, false, func(r *Report) float64 { return r.Latency.EndToEnd.P90 }},
	{"p99", milliseconds, false, func(r *Report) float64 { return r.Latency.EndToEnd.P99 }},
	{"p999", milliseconds, false, func(r *Report) float64 { return r.Latency.EndToEnd.P999 }},
	{"max", milliseconds, false, func(r *Report) float64 { return r.Latency.EndToEnd.Max }},
	{"mean", milliseconds, false, func(r *Report) float64 { return r.Latency.EndToEnd.Mean }},
	{"ack_p50", milliseconds, false, func(r *Report) float64 { return r.Latency.Ack.P50 }},
	{"ack_p90", milliseconds, false, func(r *Report) float64 { return r.Latency.Ack.P90 }},
	{"ack_p99", milliseconds, false, func(r *Report) float64 { return r.Latency.Ack.P99 }},
	{"ack_p999", milliseconds, false, func(r *Report) float64 { return r.Latency.Ack.P999 }},
	{"ack_mean", milliseconds, false, func(r *Report) float64 { return r.Latency.Ack.Mean }},
	{"fdatasync_p99", milliseconds, false, func(r *Report) float64 { return r.Disk.Fdatasync.P99 }},
	finding(checker.Lost), finding(checker.Duplicate), finding(checker.Ghost), finding(checker.Refused),
	finding(checker.Reordered),
	finding(checker.Altered), finding(checker.Gap), finding(checker.Leaked),
	{"rejected", "", false, func(r *Report) float64 { return float64(r.Rejected) }},
	{"unknown", "", false, func(r *Report) float64 { return float64(r.Unknown) }},
	{"lagged", "", false, func(r *Report) float64 { return float64(r.Audit.Lagged) }},
	{"accepted_per_s", perSecond, true, func(r *Report) float64 { return r.AcceptedPerS }},
	{"delivered_per_s", perSecond, true, func(r *Report) float64 { return r.DeliveredPerS }},
	{"accepted_per_cpu_s", perSecond, true, func(r *Report) float64 { return r.Server.AcceptedPerCPU }},
	{"delivered_per_cpu_s", perSecond, true, func(r *Report) float64 { return r.Server.DeliveredPerCPU }},
	{"total_accepted_per_cpu_s", perSecond, true, func(r *Report) float64 { return r.Total.AcceptedPerCPU }},
	{"total_delivered_per_cpu_s", perSecond, true, func(r *Report) float64 { return r.Total.DeliveredPerCPU }},
	{"bytes_per_connection", "bytes", false, func(r *Report) float64 { return r.Server.BytesPerConnection }},
	{"disk_bytes_per_message", "bytes", false, func(r *Report) float64 { return r.Server.DiskBytesPerMessage }},
	{"messages_per_commit", "messages", true, func(r *Report) float64 { return r.Server.MessagesPerCommit }},
}

// Figures returns all figures, in the order in which reports show them.
func Figures() []Figure { return figures }

// Measured returns the figure of a run, and whether the run has measured it.
func (f Figure) Measured(r *Report) (float64, bool) {
	v := f.of(r)
	return v, v != 0 || f.Unit == ""
}

func finding(c checker.Class) Figure {
	return Figure{c.String(), "", false, func(r *Report) float64 { return float64(r.Audit.Findings[c]) }}
}

// TargetKeys lists the figures that a target can name.
func TargetKeys() []string {
	names := make([]string, len(figures))
	for i, f := range figures {
		names[i] = f.Name
	}
	return names
}

// ParseTargets parses targets like "p99<50ms,lost=0,accepted_per_cpu_s>80000". Comparisons are < <= > >= and =.
func ParseTargets(s string) (Targets, error) {
	var all Targets
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		t, err := parseTarget(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", part, err)
		}
		all = append(all, t)
	}
	return all, nil
}

func parseTarget(s string) (target, error) {
	at := strings.IndexAny(s, "<>=")
	if at < 0 {
		return target{}, fmt.Errorf("there is no comparison; write it like p99<50ms")
	}
	t := target{text: s, op: s[at : at+1]}
	value := s[at+1:]
	if rest, ok := strings.CutPrefix(value, "="); ok && t.op != "=" {
		t.op, value = t.op+"=", rest
	}
	name := strings.TrimSpace(s[:at])
	for _, f := range figures {
		if f.Name == name {
			t.key = f
		}
	}
	if t.key.of == nil {
		return target{}, fmt.Errorf("there is no figure %q; the figures are %s", name, strings.Join(TargetKeys(), ", "))
	}
	value = strings.TrimSpace(value)
	if t.key.Unit == milliseconds {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return target{}, fmt.Errorf("%q is not a time; write it with its unit, like 50ms", value)
		}
		t.bound = ms(int64(d))
		return t, nil
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(value, "_", ""), 64)
	if err != nil || math.IsNaN(v) {
		return target{}, fmt.Errorf("%q is not a number", value)
	}
	t.bound = v
	return t, nil
}

// String returns the text that ParseTargets reads.
func (ts Targets) String() string {
	texts := make([]string, len(ts))
	for i, t := range ts {
		texts[i] = t.text
	}
	return strings.Join(texts, ",")
}

func (t target) met(v float64) bool {
	switch t.op {
	case "<":
		return v < t.bound
	case "<=":
		return v <= t.bound
	case ">":
		return v > t.bound
	case ">=":
		return v >= t.bound
	}
	return v == t.bound
}

func (ts Targets) check(r *Report) (errs []error) {
	for _, t := range ts {
		v, measured := t.key.Measured(r)
		if !measured {
			errs = append(errs, fmt.Errorf("target %s is missed: this run did not measure it", t.text))
			continue
		}
		if t.met(v) {
			continue
		}
		unit := ""
		if t.key.Unit == milliseconds {
			unit = " ms"
		}
		errs = append(errs, fmt.Errorf("target %s is missed: it is %s%s", t.text, strconv.FormatFloat(v, 'f', -1, 64),
			unit))
	}
	return errs
}
