package compare

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/bench"
)

// report writes one of a run with this p99 and this rate.
func report(t *testing.T, dir, name string, p99, perCPU float64, change func(*bench.Report)) {
	t.Helper()
	r := &bench.Report{Scenario: bench.Direct, At: time.Unix(int64(len(name)), 0), Accepted: 1, Delivered: 1,
		Latency: bench.Latency{EndToEnd: bench.Percentiles{P99: p99}}, Server: bench.Server{AcceptedPerCPU: perCPU}}
	if change != nil {
		change(r)
	}
	f, err := os.Create(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bench.WriteJSON(f, r), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, p99, perCPU []float64, change func(*bench.Report)) []Run {
	t.Helper()
	dir := t.TempDir()
	for i := range p99 {
		report(t, dir, strings.Repeat("x", i+1), p99[i], perCPU[i], change)
	}
	runs, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestComparisonSaysWhatRepeatedRunsShow(t *testing.T) {
	low, high, wide := []float64{10, 11, 12, 13}, []float64{20, 21, 22, 23}, []float64{9, 14, 10, 15}
	for _, c := range []struct {
		name        string
		old, new    []float64
		p99, perCPU Verdict
	}{
		{"larger", low, high, Worse, Better},
		{"smaller", high, low, Better, Worse},
		{"within what they vary", low, wide, Same, Same},
		{"the same", low, low, Same, Same},
		{"three runs", low[:3], high[:3], TooFewRuns, TooFewRuns},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Compare(set(t, c.old, c.old, nil), set(t, c.new, c.new, nil))
			if err != nil {
				t.Fatal(err)
			}
			verdicts := map[string]Verdict{}
			for _, f := range got.Figures {
				verdicts[f.Name] = f.Verdict
			}
			if verdicts["p99"] != c.p99 || verdicts["accepted_per_cpu_s"] != c.perCPU {
				t.Errorf("p99 is %q, want %q; accepted_per_cpu_s is %q, want %q", verdicts["p99"], c.p99, verdicts["accepted_per_cpu_s"], c.perCPU)
			}
			if v, ok := verdicts["bytes_per_connection"]; ok {
				t.Errorf("a figure that no run has measured is %q", v)
			}
			if verdicts["lost"] != Same {
				t.Errorf("nothing was lost in either: %q", verdicts["lost"])
			}
			var text strings.Builder
			if err := got.WriteText(&text); err != nil || !strings.Contains(text.String(), string(c.p99)) || strings.Contains(text.String(), "lost") {
				t.Errorf("%v, the text is\n%s", err, &text)
			}
		})
	}
}

func TestComparisonNamesOtherConditions(t *testing.T) {
	other := func(r *bench.Report) { r.Params.Codec = "json" }
	got, err := Compare(set(t, []float64{1}, []float64{1}, nil), set(t, []float64{1}, []float64{1}, other))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Conditions) != 1 || got.Conditions[0].Name != "codec" || fmt.Sprint(got.Conditions[0]) != `{codec [""] ["json"]}` {
		t.Errorf("the conditions differ in %v", got.Conditions)
	}
	group := func(r *bench.Report) { r.Scenario = bench.Group }
	if _, err := Compare(set(t, []float64{1}, []float64{1}, nil), set(t, []float64{1}, []float64{1}, group)); err == nil || !strings.Contains(err.Error(), "one scenario") {
		t.Errorf("two scenarios were compared: %v", err)
	}
	if _, err := Compare(nil, set(t, []float64{1}, []float64{1}, nil)); err == nil {
		t.Error("nothing was compared with something")
	}
}

func TestLoadTellsReportsFromOtherFiles(t *testing.T) {
	dir := t.TempDir()
	report(t, dir, "b", 1, 1, nil)
	report(t, dir, "aaa", 2, 2, nil) // later
	for name, content := range map[string]string{"package.json": `{"name":"other"}`, "torn.json": `{"scenario":`, "notes.txt": "-"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Load(dir)
	if err != nil || len(runs) != 2 || runs[0].Report.Latency.EndToEnd.P99 != 1 {
		t.Errorf("%d reports, %v; want two, the oldest first", len(runs), err)
	}
	for _, name := range []string{"package.json", "torn.json"} {
		if _, err := Load(filepath.Join(dir, name)); !errors.As(err, new(*NoReportError)) {
			t.Errorf("%s: %v, want that it is no report", name, err)
		}
	}
	if _, err := Load(filepath.Join(dir, "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

func TestHistoryKeepsWhatIsNotAlikeApart(t *testing.T) {
	json := func(r *bench.Report) { r.Params.Codec = "json" }
	runs := append(set(t, []float64{1, 2}, []float64{1000, 2000}, nil), set(t, []float64{3}, []float64{3000}, json)...)
	h := NewHistory(runs)
	if len(h.Series) != 2 || len(h.Series[0].Runs) != 2 || len(h.Series[1].Runs) != 1 {
		t.Fatalf("the series are %+v", h.Series)
	}
	var text strings.Builder
	if err := h.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if s := text.String(); !strings.Contains(s, "accepted_per_cpu_s") || strings.Contains(s, "bytes_per_connection") || strings.Index(s, "1000") > strings.Index(s, "2000") {
		t.Errorf("the text is\n%s", s)
	}
}
