package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
)

// Targets are what a run has to reach, besides a clean audit.
type Targets []target

type target struct {
	text  string
	key   targetKey
	op    string
	bound float64
}

// targetKey is a figure that can be compared.
type targetKey struct {
	name string
	kind figure
	of   func(*Report) float64
}

type figure uint8

const (
	number   figure = iota // 0 is a result
	rate                   // 0: was not measured
	duration               // the same; in milliseconds here, a target writes it with its unit
)

var targetKeys = []targetKey{
	{"p50", duration, func(r *Report) float64 { return r.Latency.EndToEnd.P50 }},
	{"p99", duration, func(r *Report) float64 { return r.Latency.EndToEnd.P99 }},
	{"p999", duration, func(r *Report) float64 { return r.Latency.EndToEnd.P999 }},
	{"ack_p50", duration, func(r *Report) float64 { return r.Latency.Ack.P50 }},
	{"ack_p99", duration, func(r *Report) float64 { return r.Latency.Ack.P99 }},
	{"ack_p999", duration, func(r *Report) float64 { return r.Latency.Ack.P999 }},
	{"fdatasync_p99", duration, func(r *Report) float64 { return r.Disk.Fdatasync.P99 }},
	finding(checker.Lost), finding(checker.Duplicate), finding(checker.Ghost), finding(checker.Refused), finding(checker.Reordered),
	finding(checker.Altered), finding(checker.Gap), finding(checker.Leaked),
	{"rejected", number, func(r *Report) float64 { return float64(r.Rejected) }},
	{"unknown", number, func(r *Report) float64 { return float64(r.Unknown) }},
	{"lagged", number, func(r *Report) float64 { return float64(r.Audit.Lagged) }},
	{"accepted_per_s", rate, func(r *Report) float64 { return r.AcceptedPerS }},
	{"delivered_per_s", rate, func(r *Report) float64 { return r.DeliveredPerS }},
	{"accepted_per_cpu_s", rate, func(r *Report) float64 { return r.Server.AcceptedPerCPU }},
	{"delivered_per_cpu_s", rate, func(r *Report) float64 { return r.Server.DeliveredPerCPU }},
	{"total_accepted_per_cpu_s", rate, func(r *Report) float64 { return r.Total.AcceptedPerCPU }},
	{"total_delivered_per_cpu_s", rate, func(r *Report) float64 { return r.Total.DeliveredPerCPU }},
	{"bytes_per_connection", rate, func(r *Report) float64 { return r.Server.BytesPerConnection }},
	{"disk_bytes_per_message", rate, func(r *Report) float64 { return r.Server.DiskBytesPerMessage }},
	{"messages_per_commit", rate, func(r *Report) float64 { return r.Server.MessagesPerCommit }},
}

func finding(c checker.Class) targetKey {
	return targetKey{c.String(), number, func(r *Report) float64 { return float64(r.Audit.Findings[c]) }}
}

// TargetKeys lists the figures that a target can name.
func TargetKeys() []string {
	names := make([]string, len(targetKeys))
	for i, k := range targetKeys {
		names[i] = k.name
	}
	return names
}

// ParseTargets reads targets like "p99<50ms,lost=0,accepted_per_cpu_s>80000".
// Comparisons are < <= > >= and =.
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
	for _, k := range targetKeys {
		if k.name == name {
			t.key = k
		}
	}
	if t.key.of == nil {
		return target{}, fmt.Errorf("there is no figure %q; the figures are %s", name, strings.Join(TargetKeys(), ", "))
	}
	value = strings.TrimSpace(value)
	if t.key.kind == duration {
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
		v := t.key.of(r)
		if v == 0 && t.key.kind != number {
			errs = append(errs, fmt.Errorf("target %s is missed: this run did not measure it", t.text))
			continue
		}
		if t.met(v) {
			continue
		}
		unit := ""
		if t.key.kind == duration {
			unit = " ms"
		}
		errs = append(errs, fmt.Errorf("target %s is missed: it is %s%s", t.text, strconv.FormatFloat(v, 'f', -1, 64), unit))
	}
	return errs
}
