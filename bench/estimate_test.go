package bench

import (
	"math"
	"strings"
	"testing"
)

// someCosts returns costs from which figures can be reckoned by hand.
func someCosts() Costs {
	return Costs{Commit: 1000, CommitTime: 1, Send: 100, Delivery: 10, Receipt: 0, Login: 500, History: 200, Base: 0.01, Forward: 50, Postgres: 200,
		BaseBytes: 1 << 30, UserBytes: 2000, KernelBytes: 3000, DiskBytes: 60}
}

func TestEstimateIsItsFormulas(t *testing.T) {
	p := DefaultPlan()
	p.Users, p.Online, p.Load, p.Hours, p.Days = 36_000, 0.1, 0.5, 10, 100
	p.Routine = Routine{Direct: 900, Group: 100, Members: 11, Logins: 10, Opens: 100} // 3,600 people: as many in a second as each does in an hour
	c := someCosts()
	e := NewEstimate(p, c)
	sends, deliveries := 1000.0, 900.0+100*10
	receipts := 3600 * (1 - math.Exp(-900.0/3600) + 1 - math.Exp(-1000.0/3600))
	batch := 1 + (sends+receipts)/1000
	cores := sends*100e-6 + (sends+receipts)/batch*1000e-6 + deliveries*10e-6 + 10*500e-6 + 100*200e-6 + 0.01
	if math.Abs(e.Busy-cores) > 0.001 || e.Cores != math.Ceil(cores/0.5) || e.Nodes != 1 || e.Databases != 0 {
		t.Errorf("busy %g, want %g; cores %g, nodes %g, databases %g", e.Busy, cores, e.Cores, e.Nodes, e.Databases)
	}
	if e.Memory != 1<<30+3600*5000 || e.DiskDay != sends*3600*10*160 || e.Disk != 100*e.DiskDay {
		t.Errorf("memory %g, disk %g a day and %g", e.Memory, e.DiskDay, e.Disk)
	}
	if got := c.Cores(&p.Routine, 3600, 1); math.Abs(got-cores) > 1e-9 {
		t.Errorf("a run like that is said to need %g cores, want %g", got, cores)
	}
	var b strings.Builder
	if err := e.WriteText(&b); err != nil || !strings.Contains(b.String(), "commit_us") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestEstimateIsHeldAgainstARun(t *testing.T) {
	e, r := NewEstimate(DefaultPlan(), someCosts()), &Report{Scenario: Mixed, Seconds: 10, Params: DefaultParams(Mixed)}
	want := e.Costs.Cores(r.Params.Routine, r.Params.Connections, r.Params.Speed)
	r.Server.CPU = 20 * want // twice as much
	if err := e.Hold(r); err != nil || math.Abs(e.Against[0].Off+0.5) > 0.001 {
		t.Errorf("%v, %+v", err, e.Against)
	}
	if err := e.Hold(&Report{Scenario: Direct, Seconds: 1}); err == nil {
		t.Error("a run of direct was held against the costs of people")
	}
}

func TestManyUsersNeedSeveralNodesAndADatabase(t *testing.T) {
	p := DefaultPlan()
	p.Users = 1e8
	e := NewEstimate(p, someCosts())
	if e.Nodes < e.Connections/nodeConnections || e.Nodes*p.NodeCores < e.Cores || e.Databases < 1 {
		t.Errorf("%g connections and %g cores on %g nodes with %g databases", e.Connections, e.Cores, e.Nodes, e.Databases)
	}
	var forwarded float64
	for _, s := range e.Stages {
		if s.Name == "cluster" {
			forwarded = s.PerS
		}
	}
	if forwarded <= 0 {
		t.Error("no message goes to another node")
	}
}

func TestAPlanThatMakesNoSenseIsRefused(t *testing.T) {
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Online = 2 }, func(p *Plan) { p.Load = 0 }, func(p *Plan) { p.Routine = Routine{Members: 2} }, func(p *Plan) { p.Users = math.NaN() },
	} {
		p := DefaultPlan()
		if change(&p); p.Check() == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}
