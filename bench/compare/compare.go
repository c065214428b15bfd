package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/perf/benchmath"

	"github.com/petrel-im/petrel/bench"
)

// confidence is the confidence of the ranges of medians, and of the verdict that two sets differ.
const confidence = 0.95

// enough is the least number of runs of each set for a verdict: with fewer, even the clearest order of all
// runs happens by chance more often than once in 20 times.
const enough = 4

// Comparison compares two sets of runs of one scenario, figure by figure.
type Comparison struct {
	Scenario string   `json:"scenario"`
	Old      []Run    `json:"old"`
	New      []Run    `json:"new"`
	Figures  []Figure `json:"figures"`
	// conditions that are not the same in all runs; each of them may be the reason for the differences
	Conditions []Difference `json:"conditions"`
}

// Figure is one figure in both sets.
type Figure struct {
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Old     Summary `json:"old"`
	New     Summary `json:"new"`
	Percent float64 `json:"percent"` // by how many percent the new median is above the old one; 0 if that is 0
	P       float64 `json:"p"`       // probability that runs of one and the same program differ so much
	Verdict Verdict `json:"verdict"`
}

// Summary is a figure in one set.
type Summary struct {
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // start of the range in which the median lies with a confidence of 95 %
	High   float64 `json:"high"` // its end; with few runs the range is that of all values
}

// Verdict is the result of comparing two medians.
type Verdict string

// The verdicts.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Same         Verdict = "no difference shown"
	TooFewRuns   Verdict = "too few runs" // for a verdict
	shownNowhere Verdict = ""             // in at least one of the sets no run has measured the figure; it is not shown
)

// Difference is a condition that is not the same in all runs.
type Difference struct {
	Name string   `json:"name"`
	Old  []string `json:"old"` // the values that it has, in JSON
	New  []string `json:"new"`
}

// Compare compares two sets of repeated runs. All must be of one scenario.
func Compare(old, new []Run) (*Comparison, error) {
	if len(old) == 0 || len(new) == 0 {
		return nil, fmt.Errorf("a comparison needs reports on both sides: there are %d and %d", len(old), len(new))
	}
	c := &Comparison{Scenario: old[0].Report.Scenario, Old: old, New: new}
	for _, r := range slices.Concat(old, new) {
		if r.Report.Scenario != c.Scenario {
			return nil, fmt.Errorf("%s is of the scenario %s, %s of %s: only runs of one scenario can be compared",
				old[0].File, c.Scenario, r.File, r.Report.Scenario)
		}
	}
	for _, f := range bench.Figures() {
		if one := compareFigure(f, old, new); one.Verdict != shownNowhere {
			c.Figures = append(c.Figures, one)
		}
	}
	c.Conditions = conditions(old, new)
	return c, nil
}

func compareFigure(f bench.Figure, old, new []Run) Figure {
	values := func(runs []Run) *benchmath.Sample {
		var all []float64
		for _, r := range runs {
			if v, measured := f.Measured(r.Report); measured {
				all = append(all, v)
			}
		}
		thresholds := benchmath.DefaultThresholds
		return benchmath.NewSample(all, &thresholds)
	}
	a, b := values(old), values(new)
	out := Figure{Name: f.Name, Unit: f.Unit}
	if len(a.Values) == 0 || len(b.Values) == 0 {
		return out
	}
	out.Old, out.New = summary(a), summary(b)
	if out.Old.Median != 0 {
		out.Percent = 100 * (out.New.Median - out.Old.Median) / out.Old.Median
	}
	out.P = benchmath.AssumeNothing.Compare(a, b).P
	switch {
	case out.Old == out.New || out.Old.Median == out.New.Median:
		out.Verdict = Same
	case min(len(a.Values), len(b.Values)) < enough:
		out.Verdict = TooFewRuns
	case out.P >= 1-confidence:
		out.Verdict = Same
	case (out.New.Median > out.Old.Median) == f.LargerBetter:
		out.Verdict = Better
	default:
		out.Verdict = Worse
	}
	return out
}

func summary(s *benchmath.Sample) Summary {
	n := len(s.Values)
	out := Summary{Runs: n, Low: s.Values[0], High: s.Values[n-1]}
	m := benchmath.AssumeNothing.Summary(s, confidence)
	out.Median = m.Center
	if m.Confidence >= confidence && m.Lo >= out.Low && m.Hi <= out.High { // else too few runs
		out.Low, out.High = m.Lo, m.Hi
	}
	return out
}

// conditions lists the conditions that differ between the sets, or within one.
func conditions(old, new []Run) (found []Difference) {
	a, b := conditionsOf(old), conditionsOf(new)
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	for name := range names {
		if d := (Difference{name, a[name], b[name]}); len(d.Old) != 1 || !reflect.DeepEqual(d.Old, d.New) {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// conditionsOf returns the values of each condition of the runs.
func conditionsOf(runs []Run) map[string][]string {
	all := map[string][]string{}
	for _, r := range runs {
		for _, part := range []any{r.Report.Params, r.Report.Machine} {
			b, _ := json.Marshal(part) // cannot fail: it was read from JSON
			var fields map[string]json.RawMessage
			_ = json.Unmarshal(b, &fields)
			for name, v := range fields {
				if !slices.Contains(all[name], string(v)) {
					all[name] = append(all[name], string(v))
				}
			}
		}
	}
	for _, values := range all {
		slices.Sort(values)
	}
	return all
}

// WriteText writes the comparison for people.
func (c *Comparison) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\told, %d runs\t\tnew, %d runs\t\tchange\tp\t\t\n", c.Scenario, len(c.Old), len(c.New))
	for _, f := range c.Figures {
		if f.Old.High == 0 && f.New.High == 0 {
			continue // it counts what should not happen, and did not
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%+.1f %%\t%.3f\t%s\t\n", f.Name, number(f.Old.Median), spread(f.Old),
			number(f.New.Median), spread(f.New), f.Percent, f.P, f.Verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, d := range c.Conditions {
		fmt.Fprintf(w, "differs: %s was %s, is %s\n", d.Name, strings.Join(d.Old, ", "), strings.Join(d.New, ", "))
	}
	return nil
}

func spread(s Summary) string { return "(" + number(s.Low) + " to " + number(s.High) + ")" }

// number writes a figure with three digits, or all before the point.
func number(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
