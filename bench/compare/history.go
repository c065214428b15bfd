package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/petrel-im/petrel/bench"
)

// History has the runs of a folder: series of like runs, in the order of time.
type History struct {
	Series []Series `json:"series"`
}

// Series are runs of one scenario with the same parameters on machines of one kind.
type Series struct {
	Scenario string       `json:"scenario"`
	Machine  string       `json:"machine"`
	Params   bench.Params `json:"params"`
	Runs     []Run        `json:"runs"` // the oldest first
}

// NewHistory groups runs into series. The runs are in the order of time, as Load returns them.
func NewHistory(runs []Run) *History {
	h, of := &History{}, map[string]int{}
	for _, r := range runs {
		params, _ := json.Marshal(r.Report.Params) // cannot fail: they were read from JSON
		machine := fmt.Sprintf("%d × %s", r.Report.Machine.Cores, r.Report.Machine.CPU)
		key := machine + string(params)
		i, known := of[key]
		if !known {
			i = len(h.Series)
			of[key] = i
			h.Series = append(h.Series, Series{Scenario: r.Report.Scenario, Machine: machine, Params: r.Report.Params})
		}
		h.Series[i].Runs = append(h.Series[i].Runs, r)
	}
	return h
}

// columns are the names of the figures that a line shows.
var columns = []string{"accepted_per_s", "accepted_per_cpu_s", "delivered_per_cpu_s", "p50", "p99",
	"bytes_per_connection", "disk_bytes_per_message"}

// WriteText writes the history for people: a table for each series, with the columns that at least one of its runs has
// measured.
func (h *History) WriteText(w io.Writer) error {
	for i, s := range h.Series {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s on %s\n", s.Scenario, s.Machine)
		var shown []bench.Figure
		for _, f := range bench.Figures() {
			for _, r := range s.Runs {
				if _, ok := f.Measured(r.Report); ok && slices.Contains(columns, f.Name) {
					shown = append(shown, f)
					break
				}
			}
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "when\tcommit\taudit\t")
		for _, f := range shown {
			fmt.Fprintf(t, "%s\t", f.Name)
		}
		fmt.Fprintln(t)
		for _, r := range s.Runs {
			audit := "clean"
			if r.Report.Clean(nil) != nil {
				audit = "red"
			}
			fmt.Fprintf(t, "%s\t%.8s\t%s\t", r.Report.At.Format("2006-01-02 15:04"),
				strings.TrimSuffix(r.Report.Machine.Commit, "+"), audit)
			for _, f := range shown {
				v, ok := f.Measured(r.Report)
				if !ok {
					fmt.Fprint(t, "\t")
					continue
				}
				fmt.Fprintf(t, "%s\t", number(v))
			}
			fmt.Fprintln(t)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
