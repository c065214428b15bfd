package bench

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// inTasks returns parameters of a short run of a scenario that does one thing after the other.
func inTasks(f *fake, scenario string) Params {
	p := f.params(scenario)
	p.Lists = 0
	f.slow(500 * time.Microsecond)
	switch scenario {
	case Connections:
		p.Levels = 3
	case Login, Sync:
		p.Times = 2
	case Storm:
		p.Times, p.Rate, p.Connections = 3, 2000, 20
	case History:
		p.Rounds = 70 // more than a page
	}
	return p
}

func TestScenariosInTasksAreClean(t *testing.T) {
	for scenario, want := range map[string][]Task{
		Connections: {{Name: taskConnect, Size: 10, Count: 10}, {Name: taskConnect, Size: 20, Count: 10}, {Name: taskConnect, Size: 30, Count: 10}},
		Login:       {{Name: taskConnect, Size: 1, Count: 30}, {Name: taskConnect, Size: 2, Count: 30}},
		Storm:       {{Name: taskReturn, Size: 1, Count: 20}, {Name: taskReturn, Size: 2, Count: 20}, {Name: taskReturn, Size: 3, Count: 20}},
		Sync:        {{Name: taskConnect, Count: 3}, {Name: taskSyncAll, Count: 6}, {Name: taskSyncNone, Count: 6}, {Name: taskSyncSome, Count: 6}, {Name: taskHistory, Count: 12}},
		History:     {{Name: taskConnect, Count: 3}, {Name: taskHistory, Count: 24}},
	} {
		t.Run(scenario, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				r := mustRun(t, inTasks(f, scenario))
				if err := r.Clean(nil); err != nil {
					t.Fatalf("%v\n%s", err, text(r))
				}
				if len(r.Tasks) != len(want) {
					t.Fatalf("%d tasks, want %d:\n%s", len(r.Tasks), len(want), text(r))
				}
				for i, got := range r.Tasks {
					if w := want[i]; got.Name != w.Name || got.Size != w.Size || got.Count != w.Count || got.Latency.P50 <= 0 || got.PerS <= 0 {
						t.Errorf("task %d is %+v, want %+v", i, got, w)
					}
					if scenario == Connections && got.Answer <= 0 {
						t.Errorf("nobody has answered a ping: %+v", got)
					}
				}
				if r.Audit.Deliveries != r.Audit.Messages || r.Audit.Messages != f.accepted {
					t.Errorf("%d messages, %d deliveries, the server has %d", r.Audit.Messages, r.Audit.Deliveries, f.accepted)
				}
				if scenario == Storm && r.Latency.EndToEnd.P50 <= 0 {
					t.Errorf("nothing was measured:\n%s", text(r))
				}
			})
		})
	}
}

func TestWhatIsMissedInAStormIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.onRead = func(p *petrelv1.HistoryPage) {
			if n := len(p.Messages); n > 0 {
				p.Messages = p.Messages[:n-1]
			}
		}
		p := inTasks(f, Storm)
		r := mustRun(t, p)
		if r.Audit.Findings[checker.Lost] == 0 || r.Clean(nil) == nil {
			t.Errorf("got %+v", r.Audit.Findings)
		}
	})
}

func TestConnectionsThatEndWithoutAStormAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		cut := false
		f.onAck = func(*wireAck) {
			if !cut && f.accepted > 20 {
				cut = true
				for _, s := range f.sessions {
					s.conn.Close()
				}
			}
		}
		p := inTasks(f, Storm)
		p.Times, p.Seconds = 1, 0.5
		r, err := Run(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Clean(nil) == nil || len(r.Audit.Connections) == 0 || !r.Audit.Findings.Clean() {
			t.Errorf("connections lost: %v\n%s", r.Audit.Connections, text(r))
		}
	})
}

func TestLimitMeasuresSocketsAndTheLog(t *testing.T) {
	p := DefaultParams(Limit)
	p.Senders, p.Members, p.Seconds, p.Dir = 3, 5, 0.05, t.TempDir()
	r := mustRun(t, p)
	if len(r.Tasks) != 10 {
		t.Fatalf("%d tasks, want 10:\n%s", len(r.Tasks), text(r))
	}
	for _, task := range r.Tasks {
		if task.Count == 0 || task.PerS <= 0 || task.Latency.P50 <= 0 {
			t.Errorf("nothing was measured: %+v", task)
		}
	}
	// Each of the two receivers' frames counts, and each entry of a batch.
	if fan, log := r.Tasks[2], r.Tasks[9]; fan.Size != 4 || fan.Count%4 != 0 || log.Count%logBatch != 0 {
		t.Errorf("fan-out %+v, log %+v", fan, log)
	}
	if err := r.Clean(nil); err != nil {
		t.Error(err)
	}
}

// The floor has the run's connections, frames on their way and entries for a sync.
func TestFloorIsMeasuredWithWhatTheRunHas(t *testing.T) {
	const size = 100 + frameOverhead
	for name, c := range map[string]struct {
		change  func(p *Params)
		in, out shape
		batch   int
	}{
		Direct:     {func(p *Params) { p.Senders, p.Window = 200, 16 }, shape{200, 0, 16, size}, shape{200, 1, 16, size}, 3200},
		Group:      {func(p *Params) { p.Senders, p.Members, p.Window = 100, 500, 2 }, shape{100, 0, 2, size}, shape{1, 499, 200, size}, 200},
		Glide1:     {func(*Params) {}, shape{1000, 0, 1, size}, shape{1000, 1, 1, size}, 7}, // 15,385 a second, of which 7 are due in 0.5 ms
		OpenIMLoad: {func(*Params) {}, shape{1000, 0, 1, size}, shape{1000, 1, 1, size}, 1},
	} {
		p := DefaultParams(name)
		c.change(&p)
		if in, out, batch := p.floorShapes(0.5); in != c.in || out != c.out || batch != c.batch {
			t.Errorf("%s: in %+v, out %+v, %d entries; want %+v, %+v, %d", name, in, out, batch, c.in, c.out, c.batch)
		}
	}
}

func TestShareOfTheFloorIsThatOfOneMessageAndItsDeliveries(t *testing.T) {
	f := &Floor{Echo: Task{CPUEach: 2}, Log: Task{CPUEach: 1}, FanOut: Task{CPUEach: 0.5}}
	r := &Report{Accepted: 100, Delivered: 400}
	r.Server.AcceptedPerCPU = 50_000
	if f.compare(r); f.AcceptedPerCPU != 200_000 || f.Share != 0.25 {
		t.Errorf("got %+v, want 1e6/(2+1+4*0.5) and a quarter of it", f)
	}
}

func TestPeopleWhoComeAndGoLoseNothing(t *testing.T) {
	for _, scenario := range []string{Mixed, Soak} {
		t.Run(scenario, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				p := f.params(scenario)
				p.Routine = &Routine{Direct: 300, Group: 100, Members: 8, Logins: 200, Opens: 400}
				p.Connections, p.Speed, p.Seconds, p.Receipts = 30, 100, 1.5, false
				r := mustRun(t, p)
				if err := r.Clean(nil); err != nil {
					t.Fatalf("%v\n%s", err, text(r))
				}
				if p = r.Params; p.Peers != 3 || p.Members != 8 || p.circles() != 4 || math.Abs(p.Rate-333) > 1 {
					t.Errorf("the routine became %+v", p)
				}
				for i, name := range []string{taskSend, taskDelivered, taskReceipt, taskReturn, taskHistory} {
					if got := r.Tasks[i]; got.Name != name || got.Count == 0 && name != taskReceipt {
						t.Errorf("task %d is %+v, want some of %s", i, got, name)
					}
				}
				if d := r.Drift; (d != nil) != (scenario == Soak) {
					t.Errorf("%s has the drift %+v", scenario, d)
				}
			})
		})
	}
}

func TestAServerThatGrowsIsFound(t *testing.T) {
	var series []Second
	for i := range 100 {
		series = append(series, Second{Phase: "measure", Servers: Usage{RSSBytes: uint64(100+i) << 20}})
	}
	r := &Report{Scenario: Soak, Accepted: 1, Delivered: 1, Drift: drift(series)}
	if err := r.Clean(nil); err == nil || r.Drift.Memory != [2]float64{137 << 20, 187 << 20} {
		t.Errorf("%v, %+v", err, r.Drift)
	}
}
