package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// This file estimates capacity from the measured cost of each step of a message. The steps are those of
// WildfireChat: send, distribution, notification, push, pull. The questions are those of the tables of OpenIM:
// how many users there are, how many of them are online, and what they do.

// Costs has the measured cost of each step. Microseconds are CPU time of the servers.
type Costs struct {
	At      time.Time `json:"at"`
	Command string    `json:"command"`
	Machine Machine   `json:"machine"`
	Disk    Disk      `json:"disk"`

	Commit     float64 `json:"commit_us"`     // one commit, however many messages and receipts are in it
	CommitTime float64 `json:"commit_ms"`     // duration of one commit; messages that come during it share the next
	Send       float64 `json:"send_us"`       // one message, without its commit: in, numbered, stored, acked
	Delivery   float64 `json:"delivery_us"`   // one message to one connection
	Receipt    float64 `json:"receipt_us"`    // a move of a read cursor and its receipt to the sender, without a commit
	Login      float64 `json:"login_us"`      // a connection that says hello and syncs
	History    float64 `json:"history_us"`    // a page of a conversation
	Idle       float64 `json:"idle_us_per_s"` // a connection, for each second
	Base       float64 `json:"base_cores"`    // a server with nothing to do

	// cluster: to carry a message to an owner on another node, and its answer back
	Forward  float64 `json:"forward_us"`
	Postgres float64 `json:"postgres_us"` // cluster: CPU time of PostgreSQL for a message

	BaseBytes   float64 `json:"base_bytes"`       // memory of a server without connections
	UserBytes   float64 `json:"connection_bytes"` // memory of each connection, outside the kernel
	KernelBytes float64 `json:"kernel_bytes"`     // memory of each connection in the kernel, of one end
	DiskBytes   float64 `json:"disk_bytes"`       // of a message, without its text
}

//go:embed costs.json
var measuredCosts []byte

// DefaultCosts returns the costs in costs.json, which names the machine on which they were measured.
func DefaultCosts() (c Costs) {
	if err := json.Unmarshal(measuredCosts, &c); err != nil {
		panic(err) // the file is a part of the program
	}
	return c
}

// ReadCosts reads costs from the JSON of Costs, or of an Estimate.
func ReadCosts(file string) (c Costs, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	var e struct {
		Costs
		Of *Costs `json:"costs"`
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return c, fmt.Errorf("read %s: %w", file, err)
	}
	if e.Of != nil {
		e.Costs = *e.Of
	}
	if e.Costs.Send+e.Costs.Commit <= 0 {
		return c, fmt.Errorf("%s has no costs; petrel bench estimate --measure --json FILE writes them", file)
	}
	return e.Costs, nil
}

// Plan is the load for which capacity is estimated.
type Plan struct {
	Users     float64 `json:"users"`
	Online    float64 `json:"online"` // share of the users in the busiest hour: 0 to 1
	Routine   Routine `json:"routine"`
	Hours     float64 `json:"busy_hours"` // messages of a day, divided by those of its busiest hour
	Size      float64 `json:"size"`       // bytes of a text
	Days      float64 `json:"days"`       // for which messages are kept
	Load      float64 `json:"load"`       // share of the processors that may be in use in the busiest hour: 0 to 1
	NodeCores float64 `json:"node_cores"` // processors of one machine
}

// DefaultPlan returns a plan for a million users.
func DefaultPlan() Plan {
	return Plan{Users: 1e6, Online: 0.1, Routine: *usualRoutine(), Hours: 8, Size: 100, Days: 365, Load: 0.5,
		NodeCores: 8}
}

// Check reports errors of p.
func (p *Plan) Check() error {
	for _, v := range []struct {
		name           string
		is, least, top float64
	}{
		{"users", p.Users, 1, 1e10}, {"online", p.Online, 0, 1}, {"busy-hours", p.Hours, 0.1, 24},
		{"size", p.Size, 0, maxSize}, {"days", p.Days, 0, 1e5},
		{"load", p.Load, 0.01, 1}, {"node-cores", p.NodeCores, 1, 1024},
	} {
		if v.is < v.least || v.is > v.top || math.IsNaN(v.is) {
			return fmt.Errorf("%s is %g; allowed: %g to %g", v.name, v.is, v.least, v.top)
		}
	}
	return p.Routine.Check()
}

// Stage is one kind of work of a server.
type Stage struct {
	// send, commit, distribution, notification, receipts, push, pull, logins, idle, cluster
	Name    string  `json:"name"`
	PerS    float64 `json:"per_s"`
	CPUEach float64 `json:"cpu_us"`
	Cores   float64 `json:"cores"`
	Formula string  `json:"formula"`
}

// Estimate has the capacity that a plan needs.
type Estimate struct {
	Plan   Plan    `json:"plan"`
	Costs  Costs   `json:"costs"`
	Stages []Stage `json:"stages"`

	Connections float64 `json:"connections"`
	Busy        float64 `json:"busy_cores"`     // in use in the busiest hour, without the database
	Cores       float64 `json:"cores"`          // to have, so that the share Plan.Load of them is in use
	Nodes       float64 `json:"nodes"`          // machines of NodeCores; with one more, one of several may fail
	Batch       float64 `json:"per_commit"`     // messages and receipts in a commit
	Memory      float64 `json:"memory_bytes"`   // of all nodes together, with that of the kernel
	Out         float64 `json:"out_bits_per_s"` // to clients
	DiskDay     float64 `json:"disk_bytes_per_day"`
	Disk        float64 `json:"disk_bytes"`
	Databases   float64 `json:"databases"` // machines of NodeCores for PostgreSQL; 0: one node has its own store
	DatabaseCPU float64 `json:"database_cores"`

	Formulas []string `json:"formulas"` // of the figures that are not stages

	Against []Measured `json:"against,omitempty"` // runs of mixed and soak, each with its estimate
}

// Measured is a run and its estimate.
type Measured struct {
	Clients   int     `json:"clients"`
	Speed     float64 `json:"speed"`
	Sends     float64 `json:"sends_per_s"`
	Cores     float64 `json:"cores"`           // of the server, measured
	Estimated float64 `json:"estimated_cores"` // by the costs
	Off       float64 `json:"off"`             // estimate ÷ measurement − 1: 0.1 is a tenth too much
}

// Hold adds a run of mixed or soak to Against, with its estimate. Other runs, and overloaded ones, are an error.
func (e *Estimate) Hold(r *Report) error {
	p := &r.Params
	if p.Routine == nil || r.Seconds == 0 || r.Server.CPU == 0 {
		return fmt.Errorf("the costs cannot be compared with a run of %s, only with a run of mixed", r.Scenario)
	}
	if len(r.Overloaded) > 0 {
		return fmt.Errorf("a run of %s was overloaded: %s", r.Scenario, r.Overloaded[0])
	}
	m := Measured{Clients: p.Connections, Speed: p.Speed, Sends: r.AcceptedPerS,
		Cores: round(r.Server.CPU/r.Seconds, 1000), Estimated: round(e.Costs.Cores(p.Routine, p.Connections, p.Speed),
			1000)}
	m.Off = round(m.Estimated/m.Cores-1, 1000)
	e.Against = append(e.Against, m)
	return nil
}

const (
	frameOut = 130.0 // bytes of a delivery beside its text: frame, ids, WebSocket, TCP, IP, Ethernet
	// nodeConnections is the most that a node should have, if another one is to replace it within minutes.
	nodeConnections = 500_000
)

// NewEstimate estimates the needs of a plan.
func NewEstimate(p Plan, c Costs) *Estimate {
	e := &Estimate{Plan: p, Costs: c, Connections: math.Ceil(p.Users * p.Online)}
	// More nodes need more CPU, since they send more messages to each other. So the estimate is repeated until
	// the number of nodes does not grow any more.
	for e.Nodes = 1; ; {
		nodes := e.Nodes
		e.count()
		if e.Nodes <= nodes {
			e.Nodes = nodes
			break
		}
	}
	return e
}

// load is what connections do in a second.
type load struct{ sends, deliveries, receipts, logins, opens float64 }

// loadOf returns the load of a number of connections whose users do everything speed times as fast as people.
func loadOf(r *Routine, connections, speed float64) (l load) {
	each := connections * speed / 3600
	l.sends = each * (r.Direct + r.Group)
	others := math.Max(0, math.Min(float64(r.Members), connections)-1)
	l.deliveries = each * (r.Direct + r.Group*others)
	// A client sends its read cursor of a conversation at most once a second, if there is something new. A direct
	// conversation gets r.Direct messages an hour, a group as many from each other member as r.Group.
	direct, group := speed*r.Direct/3600, speed*r.Group*others/3600
	l.receipts = connections * (once(direct) + once(group))
	l.logins, l.opens = each*r.Logins, each*r.Opens
	return l
}

// once returns the probability of at least one event in a second, from the mean number of events in a second.
func once(rate float64) float64 { return 1 - math.Exp(-rate) }

// stages calls add for each stage of a load on a number of nodes. It returns how many messages and receipts a
// commit has.
func (c *Costs) stages(l load, connections, nodes float64, add func(name string, perS, each float64,
	formula string)) (batch float64) {
	entries := l.sends + l.receipts // a receipt is durable too
	batch = c.batch(entries / nodes)
	add("send", l.sends, c.Send, "sends × send_us")
	add("commit", entries/batch, c.Commit,
		"(sends + receipts) ÷ per_commit × commit_us; per_commit = 1 + (sends + receipts) ÷ nodes × commit_ms ÷ 1000")
	add("distribution", l.sends, 0, "0: a message is stored once, however many receive it")
	add("notification", l.deliveries, c.Delivery,
		"connections ÷ 3600 × (direct + group × (group_members − 1)) × delivery_us")
	add("receipts", l.receipts, c.Receipt,
		"connections × (1 − e^(−what comes in a second)) × receipt_us, for direct conversations and for groups")
	add("push", 0, 0, "0: no push provider is connected")
	add("pull", l.opens, c.History, "connections ÷ 3600 × opens × history_us")
	add("logins", l.logins, c.Login, "connections ÷ 3600 × logins × login_us")
	add("idle", connections, c.Idle, "connections × idle_us_per_s, and base_cores of each node")
	add("cluster", l.sends*(nodes-1)/nodes, c.Forward, "sends × (nodes − 1) ÷ nodes × forward_us")
	return batch
}

// batch returns how many entries a commit has: one, and those that came during the commit before it, at perS
// entries per second.
func (c *Costs) batch(perS float64) float64 { return 1 + perS*c.CommitTime/1e3 }

// Cores returns how many cores of one node are in use by connections whose users do everything speed times as
// fast as people.
func (c *Costs) Cores(r *Routine, connections int, speed float64) (cores float64) {
	n := float64(connections)
	c.stages(loadOf(r, n, speed), n, 1, func(_ string, perS, each float64, _ string) { cores += perS * each / 1e6 })
	return cores + c.Base
}

func (e *Estimate) count() {
	p, c := &e.Plan, &e.Costs
	l := loadOf(&p.Routine, e.Connections, 1)
	e.Stages, e.Busy = nil, c.Base*e.Nodes
	e.Batch = c.stages(l, e.Connections, e.Nodes, func(name string, perS, each float64, formula string) {
		s := Stage{Name: name, PerS: round(perS, 10), CPUEach: each, Cores: round(perS*each/1e6, 1000),
			Formula: formula}
		if name == "idle" {
			s.Cores = round(perS*each/1e6+c.Base*e.Nodes, 1000)
		}
		e.Stages = append(e.Stages, s)
		e.Busy += perS * each / 1e6
	})
	e.Batch, e.Busy = round(e.Batch, 100), round(e.Busy, 1000)
	e.Cores = math.Ceil(e.Busy / p.Load)
	e.Nodes = math.Max(math.Ceil(e.Cores/p.NodeCores), math.Ceil(e.Connections/nodeConnections))
	e.Memory = math.Round(e.Nodes*c.BaseBytes + e.Connections*(c.UserBytes+c.KernelBytes))
	e.Out = math.Round(8 * l.deliveries * (p.Size + frameOut))
	e.DiskDay = math.Round(l.sends * 3600 * p.Hours * (p.Size + c.DiskBytes))
	e.Disk = math.Round(e.DiskDay * p.Days)
	e.DatabaseCPU, e.Databases = 0, 0
	if e.Nodes > 1 {
		e.DatabaseCPU = round(l.sends*c.Postgres/1e6, 1000)
		e.Databases = math.Max(1, math.Ceil(e.DatabaseCPU/p.Load/p.NodeCores))
	}
	e.Formulas = []string{
		"connections = users × online",
		"cores = sum of the stages ÷ load",
		fmt.Sprintf("nodes = cores ÷ node_cores, at least one for %s connections", count(nodeConnections)),
		"memory = nodes × base_bytes + connections × (connection_bytes + kernel_bytes)",
		fmt.Sprintf("bits to clients = deliveries × (size + %.0f bytes of frame and headers) × 8", frameOut),
		"disk a day = sends × 3600 × busy_hours × (size + disk_bytes), × days for all",
		"databases = sends × postgres_us ÷ load ÷ node_cores, with more than one node",
	}
}

// WriteText writes the estimate for people.
func (e *Estimate) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	p, c := &e.Plan, &e.Costs
	line("users", "%s, of whom %.0f %% are online in the busiest hour: %s connections", count(p.Users), 100*p.Online,
		count(e.Connections))
	line("each", "%g messages to one other and %g to a group of %d who are online, %g logins, %g conversations opened in that hour", p.Routine.Direct, p.Routine.Group, p.Routine.Members, p.Routine.Logins, p.Routine.Opens)
	line("costs", "measured on %d × %s, commit %.8s, %s", c.Machine.Cores, c.Machine.CPU, c.Machine.Commit,
		c.At.Format("2006-01-02"))
	b.WriteString("\nstage         per second   CPU µs each     cores  formula\n")
	for _, s := range e.Stages {
		fmt.Fprintf(&b, "%-12s %11s %13.2f %9.3f  %s\n", s.Name, count(s.PerS), s.CPUEach, s.Cores, s.Formula)
	}
	b.WriteString("\n")
	line("cores", "%.2f in use, so %s with a load of %.0f %%", e.Busy, count(e.Cores), 100*p.Load)
	spare := ""
	if e.Nodes > 1 {
		spare = "; one more lets one of them fail"
	}
	line("nodes", "%s of %g cores%s", count(e.Nodes), p.NodeCores, spare)
	line("memory", "%.1f GB in all, %.1f GB on each node", e.Memory/(1<<30), e.Memory/e.Nodes/(1<<30))
	line("network", "%.0f Mbit/s to clients", e.Out/1e6)
	line("disk", "%.2f GB a day, %.0f GB in %g days", e.DiskDay/(1<<30), e.Disk/(1<<30), p.Days)
	if e.Databases > 0 {
		line("databases", "%s of %g cores for PostgreSQL, which uses %.2f", count(e.Databases), p.NodeCores,
			e.DatabaseCPU)
	} else {
		line("databases", "none: one node has its own store")
	}
	b.WriteString("\n")
	for _, f := range e.Formulas {
		b.WriteString(f + "\n")
	}
	if len(e.Against) > 0 {
		b.WriteString("\nclients  speed  sends per second  cores measured  estimated    off\n")
	}
	for _, m := range e.Against {
		fmt.Fprintf(&b, "%7s %6g %17s %15.3f %10.3f %+5.0f%%\n", count(float64(m.Clients)), m.Speed, count(m.Sends),
			m.Cores, m.Estimated, 100*m.Off)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// MeasureCosts measures the costs by short runs on this machine. The costs of a cluster stay as in c; so does the cost
// of a commit, if the runs do not show it. p has the scale, the folder, the program and the server's flags of the runs.
func MeasureCosts(ctx context.Context, p Params, c Costs) (Costs, error) {
	c.At, c.Command, c.Machine = time.Now().UTC().Truncate(time.Second), p.Command, describeMachine(true)
	m := &meter{ctx: ctx, p: p}
	idle := m.run(Connections, func(q *Params) { q.Connections, q.Seconds = int(4000*p.Scale), 20*p.Scale })
	none := m.run(Connections, func(q *Params) { q.Connections, q.Seconds = 1, 20*p.Scale })
	few := m.run(Direct, func(q *Params) { q.Senders, q.Receivers, q.Rate = m.users(1000), m.users(1000), 500 })
	many := m.run(Direct, func(q *Params) { q.Senders, q.Receivers, q.Rate = m.users(1000), m.users(1000), 4000 })
	// so many members that deliveries show in a short run too
	group := func(q *Params) { q.Members, q.Senders, q.Rate = max(100, m.users(100)), m.users(20), 100 }
	fan := m.run(Group, group)
	read := m.run(Group, func(q *Params) { group(q); q.Receipts = true })
	// many logins: CPU time is counted in steps of 10 ms
	come := m.run(Login, func(q *Params) { q.Connections, q.Lists, q.Times = max(400, m.users(2000)), 5, 2 })
	pull := m.run(History, func(q *Params) { q.Senders, q.Receivers, q.Rounds = m.users(20), m.users(400), 10 })
	if m.err != nil {
		return c, m.err
	}
	c.Disk = many.Disk
	empty, full := &none.Tasks[0], &idle.Tasks[0]
	c.Base = round(empty.IdleCPU, 10_000)
	c.Idle = round(math.Max(0, 1e6*(full.IdleCPU-empty.IdleCPU)/float64(full.Count)), 100)
	// both ends of each connection are on this machine, so the kernel has twice the memory of one
	c.UserBytes, c.KernelBytes = math.Max(0, full.UserBytes), round(math.Max(0, full.KernelBytes)/2, 10)
	c.BaseBytes = float64(none.Server.RSSBytes)
	c.DiskBytes = round(math.Max(0, many.Server.DiskBytesPerMessage-float64(many.Params.Size)), 10)
	// A message costs its own part and a share of its commit. Two rates with batches of different sizes separate
	// the two.
	each := func(r *Report) float64 { return 1e6 * (r.Server.CPU - c.Base*r.Seconds) / float64(r.Accepted) }
	part := func(r *Report) float64 { return 1 / math.Max(1, r.Server.MessagesPerCommit) }
	a, b := part(few), part(many)
	c.CommitTime = round(math.Max(0, 1e3*(1/b-1)/many.AcceptedPerS), 1000)
	if commit := (each(few) - each(many)) / (a - b); a-b > 0.05 && commit > 0 { // else c.Commit stays
		c.Commit = round(commit, 100)
	}
	message := each(many) - c.Commit*b // one send and one delivery
	n := float64(fan.Params.Members) - 1
	c.Delivery = (each(fan) - c.Commit*part(fan) - message) / (n - 1)
	// each(many) includes one delivery, so a delivery costs no more
	c.Delivery = round(math.Max(0, math.Min(c.Delivery, each(many))), 100)
	// if nothing is left for the send, all of it belongs to the commit
	if c.Send = round(message-c.Delivery, 100); c.Send < 0 {
		c.Send, c.Commit = 0, round(math.Max(0, (each(many)-c.Delivery)/b), 100)
	}
	moves := float64(read.CursorMoves) / (read.Seconds + read.Params.WarmUp) * read.Seconds // the warm-up has some too
	rate := read.AcceptedPerS
	commits := (rate+moves/read.Seconds)/c.batch(rate+moves/read.Seconds) - rate/c.batch(rate)
	c.Receipt = round(math.Max(0,
		(1e6*(read.Server.CPU-fan.Server.CPU*read.Seconds/fan.Seconds)-commits*read.Seconds*c.Commit)/moves), 100)
	c.Login, c.History = come.Tasks[1].CPUEach, pull.Tasks[1].CPUEach
	return c, nil
}

// meter makes runs. After one has failed, its method run returns empty reports.
type meter struct {
	ctx context.Context
	p   Params
	err error
}

// users scales a number of users by the scale of the measurement, to no less than 3.
func (m *meter) users(n int) int { return max(3, int(float64(n)*m.p.Scale)) }

func (m *meter) run(scenario string, change func(*Params)) *Report {
	p := DefaultParams(scenario)
	p.Seconds, p.WarmUp, p.Scale = 15*m.p.Scale, 3*m.p.Scale, m.p.Scale
	change(&p)
	p.Dir, p.ServeArgs, p.Executable, p.Progress, p.pause, p.Command = m.p.Dir, m.p.ServeArgs, m.p.Executable,
		m.p.Progress, m.p.pause, m.p.Command
	if m.err != nil {
		return &Report{}
	}
	r, err := Run(m.ctx, p)
	if err == nil && !r.Audit.Findings.Clean() {
		err = fmt.Errorf("the audit is not clean: %s", r.Audit.Findings)
	}
	if err != nil {
		m.err = fmt.Errorf("%s: %w", scenario, err)
	}
	return r
}
