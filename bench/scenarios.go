package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// The names of the scenarios, beside Quick and OpenIMReliability. Published tests that some of them repeat are in
// published.json.
const (
	Direct      = "direct"
	DirectSend  = "direct-send"
	Group       = "group"
	Cluster     = "cluster"
	Glide1      = "glide-1"
	Glide2      = "glide-2"
	OpenIMLoad  = "openim-load"
	Connections = "connections"
	Login       = "login"
	Storm       = "storm"
	Sync        = "sync"
	History     = "read"
	Presence    = "presence"
	Mixed       = "mixed"
	Soak        = "soak"
	Limit       = "limit"
)

// Scenario is a kind of run, as data. The steps that are not data are in (*run).steps.
type Scenario struct {
	Name, Short, Example string
	Long                 string   // empty: Short, and a text that is the same for all these scenarios
	options              []string // names of its own options; a text after "=" is the help in place of the usual one

	params  func(*Params)            // sets the parameters that differ from the defaults
	shapes  map[string]func(*Params) // the published tests that it does in place of its own, by name
	traffic traffic
	offline bool // the receivers connect when everything is sent
	tasks   bool // its report has tasks: its steps, or the kinds of work of its clients
	bare    bool // has only its own options, not those that scenarios share
}

// traffic is the pattern of senders and receivers.
type traffic int

const (
	pairs  traffic = iota // sender i to receiver i, modulo the receivers
	mesh                  // every sender to every receiver
	groups                // senders to groups of which all are members
	ring                  // every client to the next ones
	people                // every client to the next ones, and to a group
	idle                  // nobody writes
)

const (
	helpList  = "senders=users that send; each receiver has a conversation with every one"
	helpRound = "messages of each sender to each receiver"
)

var mixedOptions = append([]string{"clients=users, all online but for moments", "speed", "warm-up", "seconds",
	"receipts", "size"},
	RoutineOptions...)

// Scenarios returns all scenarios.
func Scenarios() []Scenario { return scenarios }

var scenarios = []Scenario{
	{
		Name: Direct, Short: "Senders write to receivers, one to one",
		Example: "  petrel bench direct --window 1\n  petrel bench direct --rate 20000 --target \"p99<5ms,lost=0\" --json -\n" +
			"  petrel bench direct --url http://127.0.0.1:8080 --seconds 30",
		options: []string{"senders", "receivers", "kill-every", "size", "window", "connect-every", "receipts", "rate",
			"warm-up", "seconds", "oplog",
			"rounds=" + helpRound +
				", after which the run ends; every sender writes to every receiver (0: each to one, for --seconds)"},
		params: func(p *Params) { p.Senders, p.Receivers = 200, 200 },
		shapes: map[string]func(*Params){"wildfire": func(p *Params) {
			p.Senders, p.Receivers, p.Rounds, p.Size = 200,
				1000, 50, 36
		}},
	},
	{
		Name: DirectSend, Short: "Senders write to receivers who are offline, and who read everything later",
		Example: "  petrel bench direct-send\n  petrel bench direct-send --scale 0.01 --html direct-send.html",
		options: []string{"senders", "rounds", "size", "window",
			"receivers=users that receive; one is online and watches, the others come after everything was sent"},
		params:  func(p *Params) { p.Senders, p.Receivers, p.Rounds, p.Size, p.WarmUp = 200, 1000, 50, 36, 0 },
		traffic: mesh, offline: true,
	},
	{
		Name: Group, Short: "Senders write to groups whose members are online",
		Example: "  petrel bench group --members 1000 --senders 4\n  petrel bench group --shape wildfire-200",
		options: []string{"members", "senders=members that send", "groups", "size", "window", "receipts", "rate",
			"warm-up", "seconds", "oplog",
			"rounds=messages of each sender to each group, after which the run ends (0: for --seconds)"},
		params: func(p *Params) { p.Senders, p.Members = 4, 1000 },
		shapes: map[string]func(*Params){
			"wildfire-100": func(p *Params) {
				p.Senders, p.Members, p.Groups, p.Rounds, p.Size = 50, 100, 100, 20,
					36
			},
			"wildfire-200": func(p *Params) {
				p.Senders, p.Members, p.Groups, p.Rounds, p.Size = 100, 200, 100, 10,
					36
			},
			"wildfire-1000": func(p *Params) {
				p.Senders, p.Members, p.Groups, p.Rounds, p.Size = 100, 1000, 100, 2,
					36
			},
		},
		traffic: groups,
	},
	{
		Name: Connections, Short: "Clients connect, log in and stay idle",
		Example: "  petrel bench connections --connections 15000 --steps 3 --seconds 60",
		options: []string{"connections", "lists", "steps", "connect-every",
			"seconds=seconds for which the connections of each step are idle before their memory is read"},
		params:  func(p *Params) { p.Connections, p.Levels, p.Seconds, p.WarmUp = 10_000, 1, 15, 0 },
		traffic: idle, tasks: true,
	},
	{
		Name: Login, Short: "Clients log in, some at a time, again and again",
		Example: "  petrel bench login --connections 10000 --lists 100",
		options: []string{"connections", "lists", "times=how often each client comes",
			"at-once=clients that come at a time"},
		params:  func(p *Params) { p.Connections, p.Times, p.AtOnce, p.Lists, p.WarmUp = 5000, 3, 32, 20, 0 },
		traffic: idle, tasks: true,
	},
	{
		Name: Storm, Short: "All connections are lost at once and come back",
		Example: "  petrel bench storm --connections 15000 --storms 20\n  petrel bench storm --kill",
		options: []string{"connections", "lists", "storms", "kill", "size",
			"warm-up=seconds of load before the first storm",
			"seconds=seconds before each storm, and after the last one",
			"rate=messages per second that half of the clients write to the other half, also while connections are lost"},
		params: func(p *Params) { p.Connections, p.Times, p.Rate, p.Seconds = 5000, 3, 1000, 5 }, tasks: true,
	},
	{
		Name: Sync, Short: "Clients ask for their lists of conversations",
		Example: "  petrel bench sync --senders 500",
		options: []string{helpList, "receivers=users that sync", "times=syncs of each kind by each receiver",
			"at-once", "size", "window"},
		params: func(p *Params) {
			p.Senders, p.Receivers, p.Rounds, p.Times, p.AtOnce, p.WarmUp = 100, 200, 1, 20, 32, 0
		},
		traffic: mesh, offline: true, tasks: true,
	},
	{
		Name: History, Short: "Clients read their conversations page by page",
		Example: "  petrel bench read --rounds 1000",
		options: []string{helpList, "receivers=users that read", "rounds=messages in each conversation", "at-once",
			"size", "window"},
		params:  func(p *Params) { p.Senders, p.Receivers, p.Rounds, p.AtOnce, p.WarmUp = 20, 200, 250, 32, 0 },
		traffic: mesh, offline: true, tasks: true,
	},
	{
		Name: Presence, Short: "Clients watch who of others comes online",
		Example: "  petrel bench presence --receivers 2000",
		options: []string{"receivers=users that watch",
			"connections=all users: those who watch, and up to 200 whom they watch", "at-once"},
		params:  func(p *Params) { p.Receivers, p.Connections, p.AtOnce, p.WarmUp = 500, 600, 32, 0 },
		traffic: idle, tasks: true,
	},
	{
		Name: Mixed, Short: "Clients do what people do: write, read, come and go",
		Example: "  petrel bench mixed --clients 5000 --speed 30",
		options: mixedOptions,
		params: func(p *Params) {
			p.Connections, p.Routine, p.Speed, p.Receipts, p.Seconds = 2000, usualRoutine(), 60, true, 60
		},
		traffic: people, tasks: true,
	},
	{
		Name: Soak, Short: "The same for long: the server must not grow",
		Example: "  petrel bench soak --seconds 28800",
		options: mixedOptions,
		params: func(p *Params) {
			p.Connections, p.Routine, p.Speed, p.Receipts, p.Seconds = 2000, usualRoutine(), 60, true, 3600
		},
		traffic: people, tasks: true,
	},
	{
		Name: Quick, Short: "See in 20 seconds what the server does: send, group, reconnect, check",
		Example: "  petrel bench quick\n  petrel bench quick --html quick.html",
		Long: "Starts servers of its own in temporary folders and shows in about 20 seconds what they do: people write to each other, a\n" +
			"group has 500 members, the server is killed with SIGKILL while clients of the Go SDK write, and they come back. Every\n" +
			"message is followed to everybody who should get it. If one was lost, doubled, invented or out of order, the command ends\n" +
			"with exit code 6.",
		options: []string{"scale", "seconds=seconds of each of the first two parts", "dir", "serve"},
		params:  func(p *Params) { p.Seconds = 3 },
		traffic: idle, bare: true,
	},
	{
		Name:  OpenIMReliability,
		Short: "Clients log in late and write to each other: what was acked is what was received",
		Example: "  petrel bench openim-reliability\n  petrel bench openim-reliability --runs 100 --late 5 --json reliability.json\n" +
			"  petrel bench openim-reliability --kill-every 2",
		Long: "Does what the reliability test of OpenIM does, with clients of the Go SDK. Each logs in at a random moment. Some write to\n" +
			"others at random, and to a group of which they are no members, which must be refused. What each client sent, was answered\n" +
			"and has shown goes into an op log, and the checker holds it against the history: see petrel check --help. If anything\n" +
			"was lost, doubled, invented or out of order, or a message has no ack, the command ends with exit code 6. It starts a server of its own\n" +
			"in a temporary folder.",
		options: []string{"clients=users, with a client each", "senders=clients that send; the others only receive",
			"messages=messages of each sender",
			"interval=milliseconds from one message of a sender to the next (0: as many as have answers)", "late",
			"kill-every", "runs",
			"seed=seed of the moments, the receivers and the texts", "oplogs", "dir", "serve"},
		params: func(p *Params) {
			p.Connections, p.Senders, p.Messages = 50, 25, 4000 // as OpenIM publishes
			p.IntervalMS, p.LateS, p.Runs = []float64{1}, 30, 1
		},
		traffic: idle, bare: true,
	},
	{
		Name: Limit, Short: "Measure what this machine does without a chat server",
		Long: "Measures what this machine does without a chat server: frames that one event loop, of the kind that the server has, sends\n" +
			"back or sends on to many, and a log with a sync of the disk for all entries that have come meanwhile. It does so with one\n" +
			"frame of each sender on its way, and with --window. No chat server can do more with the same sockets and the same disk.\n" +
			"The scenarios that send measure this before each run with their own numbers, and show what share of it the server has reached.",
		Example: "  petrel bench limit\n  petrel bench limit --members 10000 --size 1000 --html limit.html",
		options: []string{"scale", "dir", "senders=connections that send",
			"members=of the fan-out: the sender, and connections that receive", "size", "window",
			"seconds=seconds of each measurement"},
		params:  func(p *Params) { p.Senders, p.Members, p.Seconds, p.WarmUp = 200, 1000, 2, 0 },
		traffic: idle, bare: true,
	},
	{
		Name: Glide1, Short: "2,000 clients write to each other, each at moments of its own",
		Example: "  petrel bench glide-1 --scale 0.2",
		options: []string{"clients", "peers", "interval",
			"rounds=messages of each client to each of its peers, after which the run ends", "size", "connect-every",
			"oplog"},
		params:  func(p *Params) { p.Connections, p.Peers, p.Rounds, p.IntervalMS = 2000, 1, 600, []float64{60, 200} },
		traffic: ring,
	},
	{
		Name: Glide2, Short: "10,000 clients come one after the other and write to each other",
		Example: "  petrel bench glide-2 --scale 0.2",
		options: []string{"clients", "peers", "interval",
			"rounds=messages of each client to each of its peers, after which the run ends", "size", "connect-every",
			"oplog"},
		params: func(p *Params) {
			p.Connections, p.Peers, p.Rounds, p.IntervalMS, p.ConnectMS = 10_000, 1, 800, []float64{50, 100}, 10
		},
		traffic: ring,
	},
	{
		Name: OpenIMLoad, Short: "20,000 clients are online, and each writes about once a minute",
		Example: "  petrel bench openim-load --messages 60000 --postgres auto --nodes 2",
		options: []string{"clients", "peers", "interval", "messages", "size", "connect-every", "oplog"},
		params: func(p *Params) {
			p.Connections, p.Peers, p.Messages, p.IntervalMS = 20_000, 10, 25_000_000, []float64{50_000, 100_000}
		},
		traffic: ring,
	},
	{
		Name: Cluster, Short: "Compare clusters of several sizes",
		Long: "Compares clusters of several sizes. For each size it starts a PostgreSQL server, or makes a database in the one that\n" +
			"--postgres names, and starts that many nodes. Each sender writes to each receiver while the receivers are offline.\n" +
			"A first run warms up, a second one is measured. The CPU time of the nodes and of the database counts until they have\n" +
			"nothing left to do. Then the receivers come online and read every message of both runs. If a message was lost,\n" +
			"doubled, invented or out of order, the command ends with exit code 6.",
		Example: "  petrel bench cluster --nodes 1,2,3,4\n  petrel bench cluster --nodes 1,4 --rounds 5 --json cluster.json",
		options: []string{"senders", "receivers=users that receive; they come online after everything was sent",
			"size", "window",
			"rounds=" + helpRound + "; once in the warm-up, and again in the measured run"},
		params: func(p *Params) {
			p.Senders, p.Receivers, p.Rounds, p.Size, p.Postgres, p.WarmUp = 200, 201, 20, 36, OwnPostgres, 0
		},
		traffic: mesh, offline: true,
	},
}

// scenario returns the scenario of p; one without a name if there is none.
func (p *Params) scenario() Scenario {
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == p.Scenario })
	if i < 0 {
		return Scenario{}
	}
	return scenarios[i]
}

// Shapes returns the names of the shapes of a scenario.
func Shapes(scenario string) []string {
	p := Params{Scenario: scenario}
	return slices.Sorted(maps.Keys(p.scenario().shapes))
}

// DefaultParams returns the parameters of a scenario if no flag changes them.
func DefaultParams(scenario string) Params {
	p := Params{Scenario: scenario, Scale: 1, Nodes: 1, Groups: 1, Size: 100, Seconds: 10, WarmUp: 2, Window: 16,
		Codec: "proto", Transport: "ws", Seed: 1}
	if change := p.scenario().params; change != nil {
		change(&p)
	}
	return p
}

// ShapeParams returns the parameters of a scenario in the shape of a published test; "" is the scenario's own
// shape.
func ShapeParams(scenario, shape string) (Params, error) {
	p := DefaultParams(scenario)
	if shape == "" {
		return p, nil
	}
	change := p.scenario().shapes[shape]
	if change == nil {
		return p, fmt.Errorf("there is no shape %q of %s; the shapes are %s", shape, scenario,
			strings.Join(Shapes(scenario), ", "))
	}
	p.Shape, p.WarmUp = shape, 0
	change(&p)
	return p, nil
}

// Scaled returns p with a share of the load. In the pattern mesh, and for groups with rounds, it scales the rounds. If
// rounding leaves a factor below 1, that scales the groups, or the receivers and then the senders. Of other runs it
// scales the number of users, and Params.Messages if the scenario has it.
func (p Params) Scaled(by float64) Params {
	p.Scale *= by
	// some scales n, to no less than least, and returns the factor that is left for other counts.
	some := func(n *int, by float64, least int) float64 {
		was := float64(*n)
		*n = max(least, int(math.Round(was*by)))
		return was * by / float64(*n)
	}
	switch p.traffic() {
	case mesh:
		by = some(&p.Rounds, by, 1)
		by = some(&p.Receivers, min(1, by), 2)
		some(&p.Senders, min(1, by), 2)
	case pairs:
		if p.Scenario == Storm {
			some(&p.Connections, by, 2)
			break
		}
		some(&p.Senders, by, 1)
		some(&p.Receivers, by, 1)
	case groups:
		if p.counted() {
			some(&p.Groups, min(1, some(&p.Rounds, by, 1)), 1)
		} else {
			some(&p.Members, by, p.Senders+1)
		}
	case ring:
		if p.Messages > 0 {
			some(&p.Messages, by, 1)
		}
		some(&p.Connections, by, 2*p.Peers+1)
	case people:
		some(&p.Connections, by, 2)
	case idle:
		some(&p.Connections, by, 1)
	}
	return p
}

func (p *Params) traffic() traffic {
	s := p.scenario()
	if s.traffic == pairs && p.Rounds > 0 {
		return mesh
	}
	return s.traffic
}

// quota returns the number of messages of each sender; 0: as many as there is time for.
func (p *Params) quota() int {
	switch p.traffic() {
	case mesh:
		return p.Rounds * p.Receivers
	case groups:
		return p.Rounds * p.Groups
	case ring:
		if p.Messages > 0 {
			return (p.Messages + p.Connections - 1) / p.Connections
		}
		return p.Rounds
	}
	return 0
}

// counted tells whether a run sends a number of messages, not for a time.
func (p *Params) counted() bool { return p.quota() > 0 }

// planned returns the number of messages in the measured part of a counted run.
func (p *Params) planned() int { return p.quota() * p.senders() }

// offline tells whether the receivers connect when everything is sent.
func (p *Params) offline() bool { return p.scenario().offline }

// inTasks tells whether a run reports tasks: its steps, or the kinds of work of its clients.
func (p *Params) inTasks() bool { return p.scenario().tasks }

// watchers returns how many receivers, the first ones, are online while the others are offline.
func (p *Params) watchers() int {
	if p.Scenario == DirectSend {
		return 1
	}
	return 0
}

// comeBack tells whether connections that end come back.
func (p *Params) comeBack() bool {
	return p.Scenario == Storm || p.traffic() == people || p.KillS > 0
}

// open tells whether the run is an open loop: messages are due at fixed moments, and answers delay none.
func (p *Params) open() bool { return p.Rate > 0 || len(p.IntervalMS) > 0 }

// lasts returns the planned time, in seconds, of the measured part of a run; 0: as long as it takes.
func (p *Params) lasts() float64 {
	switch {
	case len(p.IntervalMS) > 0:
		return float64(p.quota()) * (p.IntervalMS[0] + p.IntervalMS[1]) / 2 / 1000
	case p.counted() && p.Rate > 0:
		return float64(p.planned()) / p.Rate
	case p.counted():
		return 0
	}
	return p.Seconds
}

// connections returns the number of connections that the run makes.
func (p *Params) connections() int {
	switch p.traffic() {
	case pairs, mesh:
		return p.Senders + p.Receivers
	case groups:
		return p.Members
	}
	return p.Connections
}

func (p *Params) senders() int {
	switch p.traffic() {
	case idle:
		return 0
	case ring, people:
		return p.Connections
	}
	return p.Senders
}
