package bench

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/checker"
)

// small returns parameters of a scenario and shape with which a run against f takes a second.
func small(t *testing.T, f *fake, scenario, shape string, by float64) Params {
	t.Helper()
	p, err := ShapeParams(scenario, shape)
	if err != nil {
		t.Fatal(err)
	}
	p = p.Scaled(by)
	p.URL, p.TCPAddr, p.AdminKey, p.net = f.url, f.tcp, "pk_test", f.net
	return p
}

func TestScenariosThatCountDoAllOfTheirShape(t *testing.T) {
	for _, c := range []struct {
		scenario, shape string
		by              float64
		change          func(*Params)
		accepted        uint64
		deliveries      uint64
		checks          string
	}{
		{DirectSend, "", 2e-5, func(p *Params) { p.Rounds = 2 }, 2 * 2 * 100, 2 * 2 * 100, "acked stored watcher"},
		{Direct, "wildfire", 2e-5, func(p *Params) { p.Receivers = 5 }, 5 * 100, 5 * 100, "acked stored delivered"},
		{Group, "wildfire-100", 1e-3, func(*Params) {}, 2 * 50, 2 * 50 * 99, "acked stored delivered"},
		{Group, "wildfire-200", 2e-3, func(*Params) {}, 2 * 100, 2 * 100 * 199, "acked stored delivered"},
		{Glide1, "", 0.01, func(p *Params) { p.Rounds, p.IntervalMS = 5, []float64{6, 20} }, 20 * 5, 20 * 5, "acked stored delivered"},
		{Glide2, "", 0.002, func(p *Params) { p.Rounds, p.IntervalMS, p.ConnectMS = 8, []float64{5, 10}, 1 }, 20 * 8, 20 * 8, "acked stored delivered"},
		{OpenIMLoad, "", 0.002, func(p *Params) { p.Messages, p.IntervalMS = 400, []float64{5, 10} }, 400, 400, "acked stored delivered"},
	} {
		t.Run(c.scenario+c.shape, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				p := small(t, f, c.scenario, c.shape, c.by)
				c.change(&p)
				r := mustRun(t, p)
				if r.Clean(nil) != nil {
					t.Fatalf("%v\n%s", r.Clean(nil), text(r))
				}
				var names []string
				for _, k := range r.Checks {
					names = append(names, k.Name)
				}
				if r.Accepted != c.accepted || f.accepted != c.accepted || r.Audit.Deliveries != c.deliveries || strings.Join(names, " ") != c.checks {
					t.Errorf("%d of %d were accepted, %d reached their receivers, checks %v; want %d, %d, %s\n%s", r.Accepted, f.accepted, r.Audit.Deliveries, names, c.accepted, c.deliveries, c.checks, text(r))
				}
				if len(r.Published) != 1 || len(r.Published[0].Compared) == 0 || r.Published[0].Compared[0].OursPerCore == 0 || !strings.Contains(text(r), r.Published[0].Source) {
					t.Errorf("what is published stands beside it as %+v\n%s", r.Published, text(r))
				}
				if s := fmt.Sprintf("%s %% of the full size", number(100*c.by)); !strings.Contains(text(r), s) {
					t.Errorf("the report does not say %q:\n%s", s, text(r))
				}
			})
		})
	}
}

func TestAMessageThatDoesNotArriveFailsTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.onPush = onePush(2, func(*fakeSession, []byte) []byte { return nil })
		p := small(t, f, Direct, "wildfire", 2e-5)
		r := mustRun(t, p)
		i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == "delivered" })
		if i < 0 || r.Checks[i].OK || r.Checks[i].Got != r.Checks[i].Want-1 || r.Audit.Findings[checker.Lost] != 1 {
			t.Errorf("checks %v, findings %v", r.Checks, r.Audit.Findings)
		}
		if err := r.Clean(nil); err == nil || !strings.Contains(err.Error(), "a check has failed: ") {
			t.Errorf("clean: %v", err)
		}
	})
}

func TestWhatIsStoredTwiceFailsTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		twice := false
		f.onAck = func(*wireAck) {
			for _, v := range f.convs {
				if !twice && len(v.rows) > 1 {
					twice = true
					v.rows = append(v.rows, v.rows[len(v.rows)-1])
				}
			}
		}
		p := small(t, f, Direct, "wildfire", 2e-5)
		if r := mustRun(t, p); r.Clean(nil) == nil || !twice {
			t.Errorf("the run is clean:\n%s", text(r))
		}
	})
}

func TestScaledKeepsTheShape(t *testing.T) {
	for _, c := range []struct {
		scenario, shape string
		by              float64
		want            func(p *Params) []int
		is              []int
	}{
		{DirectSend, "", 1, func(p *Params) []int { return []int{p.Senders, p.Receivers, p.Rounds} }, []int{200, 1000, 50}},
		{DirectSend, "", 0.1, func(p *Params) []int { return []int{p.Senders, p.Receivers, p.Rounds} }, []int{200, 1000, 5}},
		{DirectSend, "", 0.001, func(p *Params) []int { return []int{p.Senders, p.Receivers, p.Rounds} }, []int{200, 50, 1}},
		{Group, "wildfire-1000", 0.5, func(p *Params) []int { return []int{p.Senders, p.Members, p.Groups, p.Rounds} }, []int{100, 1000, 100, 1}},
		{Group, "wildfire-1000", 0.05, func(p *Params) []int { return []int{p.Senders, p.Members, p.Groups, p.Rounds} }, []int{100, 1000, 10, 1}},
		{Group, "", 0.1, func(p *Params) []int { return []int{p.Senders, p.Members, p.Groups, p.Rounds} }, []int{4, 100, 1, 0}},
		{Direct, "", 0.5, func(p *Params) []int { return []int{p.Senders, p.Receivers, p.Rounds} }, []int{100, 100, 0}},
		{Glide2, "", 0.3, func(p *Params) []int { return []int{p.Connections, p.Rounds, p.Messages} }, []int{3000, 800, 0}},
		{OpenIMLoad, "", 0.5, func(p *Params) []int { return []int{p.Connections, p.quota(), p.Messages} }, []int{10_000, 1250, 12_500_000}},
		{Connections, "", 0.01, func(p *Params) []int { return []int{p.Connections} }, []int{100}},
	} {
		p, err := ShapeParams(c.scenario, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		p = p.Scaled(c.by)
		if got := c.want(&p); !slices.Equal(got, c.is) || p.Scale != c.by {
			t.Errorf("%s %s × %g: %v at scale %g, want %v", c.scenario, c.shape, c.by, got, p.Scale, c.is)
		}
		if err := p.Check(); err != nil {
			t.Errorf("%s %s × %g: %v", c.scenario, c.shape, c.by, err)
		}
	}
	if _, err := ShapeParams(Direct, "round"); err == nil {
		t.Error("there is a shape that there is not")
	}
}

func TestEachPublishedTestHasAScenarioThatDoesIt(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range AllPublished() {
		params, err := ShapeParams(p.Scenario, p.Shape)
		if err != nil || params.scenario().Name == "" || seen[p.ID] {
			t.Errorf("%s: scenario %q, shape %q: %v", p.ID, p.Scenario, p.Shape, err)
		}
		seen[p.ID] = true
		if total := count(float64(params.planned())); !strings.Contains(p.Size, total) {
			t.Errorf("%s sends %q, ours %s", p.ID, p.Size, total)
		}
		if p.Cores == 0 || !strings.HasPrefix(p.Source, "https://") || p.Hardware == "" || p.System == "" {
			t.Errorf("%s does not say by whom, on what, or where: %+v", p.ID, p)
		}
		for _, f := range p.Figures {
			if !slices.ContainsFunc(Figures(), func(known Figure) bool { return known.Name == f.Name }) {
				t.Errorf("%s has a figure %q", p.ID, f.Name)
			}
		}
		for _, h := range p.Habits {
			if Habits[h] == "" {
				t.Errorf("%s has a habit %q", p.ID, h)
			}
		}
	}
}

func TestFiguresStandBesideThosePublishedPerCoreAndPerCPUSecond(t *testing.T) {
	r := &Report{Scenario: Group, Params: Params{Shape: "wildfire-100"}, Seconds: 10, AcceptedPerS: 4000, DeliveredPerS: 400_000, Server: Server{CPU: 8}, Machine: Machine{Cores: 2}}
	got := r.beside()
	want := []Compared{
		{"accepted_per_s", "1/s", 1340, 83.8, 83.8, 4000, 2000, 5000},
		{"delivered_per_s", "1/s", 134_000, 8375, 8375, 400_000, 200_000, 500_000},
	}
	if len(got) != 1 || !slices.Equal(got[0].Compared, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.Total.CPU = 16 // with a database
	if got = r.beside(); got[0].Compared[0].OursPerCPU != 2500 {
		t.Errorf("with a database: %+v", got[0].Compared[0])
	}
}

func TestARunThatNeedsMoreFilesSaysSo(t *testing.T) {
	for _, c := range []struct {
		change func(*Params)
		want   string
	}{
		{func(p *Params) { p.Connections = 1 << 20 }, "raise the limit (ulimit -n"},
		{func(p *Params) { p.IntervalMS = []float64{5, 2} }, "interval"},
		{func(p *Params) { p.Transport = "quic" }, "transport"},
	} {
		p := DefaultParams(OpenIMLoad)
		p.Connections, p.URL, p.AdminKey = 100, "http://127.0.0.1:1", "pk"
		c.change(&p)
		if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestTheStoryHasASentenceForEachPart(t *testing.T) {
	s := &Story{Runs: []*Report{{Scenario: Direct, Accepted: 1, Delivered: 1}, {Scenario: Group, Accepted: 1, Delivered: 1}}, Reconnect: &ReliabilityReport{}}
	var b bytes.Buffer
	if err := s.WriteText(&b); err != nil || s.Clean() != nil {
		t.Fatalf("%v, %v", err, s.Clean())
	}
	for _, part := range []string{"one to one", "a group", "reconnect", "the checker", "Nothing was lost"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, b.String())
		}
	}
	s.Runs[1].Audit.Findings[checker.Lost] = 1
	b.Reset()
	if err := s.WriteText(&b); err != nil || s.Clean() == nil || strings.Contains(b.String(), "Nothing was lost") || !strings.Contains(b.String(), "lost 1") {
		t.Errorf("%v of a story with a loss:\n%s", err, b.String())
	}
}
