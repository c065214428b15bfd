package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The scenarios. Those that do what somebody has published are named after it: see
// published.json.
const (
	Direct     = "direct"      // senders write to receivers, one to one
	DirectSend = "direct-send" // every sender writes to every receiver, of whom all but one are offline
	Group      = "group"       // some members of groups write, all are online
	Cluster    = "cluster"     // every sender writes to every receiver, none of whom is online
	Glide1     = "glide-1"     // every client writes to the next one, at moments of its own
	Glide2     = "glide-2"     // the same with more clients, who come one after the other
	OpenIMLoad = "openim-load" // many clients are online, and each writes now and then

	Connections = "connections" // more and more connections are authenticated and idle
	Login       = "login"       // connections come, some at a time, again and again
	Storm       = "storm"       // all connections are lost at once and come back, while half of them write to the others
	Sync        = "sync"        // receivers ask for their lists of conversations, again and again
	History     = "read"        // receivers read their conversations page by page
	Mixed       = "mixed"       // clients do what people do, in proportion
	Soak        = "soak"        // the same for long; the server must not grow, nor get slower
	Limit       = "limit"       // what the machine does without a chat server
)

var scenarios = []string{Direct, DirectSend, Group, Cluster, Glide1, Glide2, OpenIMLoad, Connections, Login, Storm, Sync, History, Mixed, Soak, Limit}

// shapes are the published tests that a scenario does in place of its own, by name.
var shapes = map[string]map[string]func(*Params){
	Direct: {
		"wildfire": func(p *Params) { p.Senders, p.Receivers, p.Rounds, p.Size = 200, 1000, 50, 36 },
	},
	Group: {
		"wildfire-100":  func(p *Params) { p.Senders, p.Members, p.Groups, p.Rounds, p.Size = 50, 100, 100, 20, 36 },
		"wildfire-200":  func(p *Params) { p.Senders, p.Members, p.Groups, p.Rounds, p.Size = 100, 200, 100, 10, 36 },
		"wildfire-1000": func(p *Params) { p.Senders, p.Members, p.Groups, p.Rounds, p.Size = 100, 1000, 100, 2, 36 },
	},
}

// Shapes are the names of the shapes of a scenario.
func Shapes(scenario string) []string {
	var names []string
	for name := range shapes[scenario] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// DefaultParams are the parameters of a scenario as its figures are taken.
func DefaultParams(scenario string) Params {
	p := Params{Scenario: scenario, Scale: 1, Nodes: 1, Groups: 1, Size: 100, Seconds: 10, WarmUp: 2, Window: 16, Codec: "proto", Transport: "ws", Seed: 1}
	switch scenario {
	case Direct:
		p.Senders, p.Receivers = 200, 200
	case DirectSend:
		p.Senders, p.Receivers, p.Rounds, p.Size, p.WarmUp = 200, 1000, 50, 36, 0
	case Group:
		p.Senders, p.Members = 4, 1000
	case Connections:
		p.Connections, p.Levels, p.Seconds, p.WarmUp, p.Window = 10_000, 1, 15, 0, 0
	case Login:
		p.Connections, p.Times, p.AtOnce, p.Lists, p.WarmUp, p.Window = 5000, 3, 32, 20, 0, 0
	case Storm:
		p.Connections, p.Times, p.Rate, p.Seconds = 5000, 3, 1000, 5
	case Sync:
		p.Senders, p.Receivers, p.Rounds, p.Times, p.AtOnce, p.WarmUp = 100, 200, 1, 20, 32, 0
	case History:
		p.Senders, p.Receivers, p.Rounds, p.AtOnce, p.WarmUp = 20, 200, 250, 32, 0
	case Mixed, Soak:
		p.Connections, p.Routine, p.Speed, p.Receipts, p.Seconds = 2000, usualRoutine(), 60, true, 60
		if scenario == Soak {
			p.Seconds = 3600
		}
	case Limit:
		p.Senders, p.Members, p.Seconds, p.WarmUp = 200, 1000, 2, 0
	case Cluster:
		p.Senders, p.Receivers, p.Rounds, p.Size, p.Postgres = 200, 201, 20, 36, OwnPostgres
		p.WarmUp = 0
	case Glide1:
		p.Connections, p.Peers, p.Rounds, p.IntervalMS = 2000, 1, 600, []float64{60, 200}
	case Glide2:
		p.Connections, p.Peers, p.Rounds, p.IntervalMS, p.ConnectMS = 10_000, 1, 800, []float64{50, 100}, 10
	case OpenIMLoad:
		p.Connections, p.Peers, p.Messages, p.IntervalMS = 20_000, 10, 25_000_000, []float64{50_000, 100_000}
	}
	return p
}

// ShapeParams are the parameters of a scenario that does as a published test did; "" is the
// scenario's own shape.
func ShapeParams(scenario, shape string) (Params, error) {
	p := DefaultParams(scenario)
	if shape == "" {
		return p, nil
	}
	change := shapes[scenario][shape]
	if change == nil {
		return p, fmt.Errorf("there is no shape %q of %s; the shapes are %s", shape, scenario, strings.Join(Shapes(scenario), ", "))
	}
	p.Shape, p.WarmUp = shape, 0
	change(&p)
	return p, nil
}

// Scaled is p with a share of the load. What is counted is scaled in this order, so that the
// shape lasts: the rounds, then the groups or the receivers, then the senders. A run by time
// has fewer users, and so have the scenarios whose clients write at moments of their own.
func (p Params) Scaled(by float64) Params {
	p.Scale *= by
	// some takes a part of n and returns what is still to be taken elsewhere.
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

// traffic is who writes to whom.
type traffic int

const (
	pairs  traffic = iota // sender i to receiver i, modulo the receivers
	mesh                  // every sender to every receiver
	groups                // senders to groups of which all are members
	ring                  // every client to the next ones
	people                // every client to the next ones, and to a group
	idle                  // nobody writes
)

func (p *Params) traffic() traffic {
	switch p.Scenario {
	case Connections, Login, Limit:
		return idle
	case Storm:
		return pairs
	case Mixed, Soak:
		return people
	case Group:
		return groups
	case Glide1, Glide2, OpenIMLoad:
		return ring
	case Direct:
		if p.Rounds == 0 {
			return pairs
		}
	}
	return mesh
}

// quota is how many messages each sender sends; 0: as many as there is time for.
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

// counted tells whether a run ends by its messages, not by time.
func (p *Params) counted() bool { return p.quota() > 0 }

// planned is how many messages the measured part of a counted run sends.
func (p *Params) planned() int { return p.quota() * p.senders() }

// offline tells whether receivers come when everything is sent.
func (p *Params) offline() bool {
	return p.Scenario == DirectSend || p.Scenario == Cluster || p.Scenario == Sync || p.Scenario == History
}

// inTasks tells whether a run does one thing after the other: see driveTasks.
func (p *Params) inTasks() bool {
	switch p.Scenario {
	case Connections, Login, Storm, Sync, History, Mixed, Soak:
		return true
	}
	return false
}

// watchers are the first receivers, who are online even so.
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

// open tells whether messages are due at moments that no answer delays.
func (p *Params) open() bool { return p.Rate > 0 || len(p.IntervalMS) > 0 }

// lasts is for how long, in seconds, the measured part of a run is to last; 0: as long as it takes.
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

// connections counts those the run makes.
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
