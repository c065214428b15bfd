package bench

import (
	"fmt"
	"io"
	"strings"
)

// Table compares the runs of a cluster, one for each number of nodes.
type Table struct {
	Runs []*Report `json:"runs"`
}

// WriteText writes the table for people. A share is the number of messages per CPU-second, in percent of that of
// the first run: once for the nodes alone, once with PostgreSQL.
func (t *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	b.WriteString(
		"nodes  messages       s  per second  per CPU-s of the nodes   share  with PostgreSQL   share  per commit  audit\n")
	for _, r := range t.Runs {
		share := func(of func(*Report) float64) float64 {
			if first := of(t.Runs[0]); first > 0 {
				return 100 * of(r) / first
			}
			return 0
		}
		fmt.Fprintf(&b, "%5d %9s %7.1f %11s %23s %6.0f%% %16s %6.0f%% %11.1f  %s, %s read\n", r.Params.Nodes,
			count(float64(r.Accepted)), r.Seconds,
			count(r.AcceptedPerS), count(r.Server.AcceptedPerCPU),
			share(func(r *Report) float64 { return r.Server.AcceptedPerCPU }),
			count(r.Total.AcceptedPerCPU), share(func(r *Report) float64 { return r.Total.AcceptedPerCPU }),
			r.Server.MessagesPerCommit,
			r.Audit.Findings, count(float64(r.Audit.Deliveries)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
