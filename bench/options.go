package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Option is a parameter that the user of a scenario chooses.
type Option struct {
	Name      string
	Help      string              // a word in backquotes stands for the value
	Of        func(p *Params) any // a pointer to it
	low, high float64             // of a number: what is allowed
}

// RoutineOptions are what people do in an hour.
var RoutineOptions = []string{"direct", "group", "group-members", "logins", "opens"}

const aLot = 1e9 // no bound that anybody meets

var options = []Option{
	{"scale", "share of the load, like 0.1; what you give by a flag of its own is taken as it is", func(p *Params) any { return &p.Scale }, 1e-9, 1000},
	{"senders", "users that send", func(p *Params) any { return &p.Senders }, 1, maxConnections},
	{"receivers", "users that receive", func(p *Params) any { return &p.Receivers }, 1, maxConnections},
	{"rounds", "", func(p *Params) any { return &p.Rounds }, 0, 1e6},
	{"members", "members of each group, all online", func(p *Params) any { return &p.Members }, 2, maxConnections},
	{"groups", "groups of the same members, to whom each sender writes in turn", func(p *Params) any { return &p.Groups }, 1, 10_000},
	{"connections", "connections to make", func(p *Params) any { return &p.Connections }, 1, maxConnections},
	{"clients", "clients, each of which sends and receives", func(p *Params) any { return &p.Connections }, 2, maxConnections},
	{"peers", "clients to whom each one writes in turn: the next ones", func(p *Params) any { return &p.Peers }, 1, 100},
	{"messages", "messages of all clients, after which the run ends", func(p *Params) any { return &p.Messages }, 1, aLot},
	{"times", "", func(p *Params) any { return &p.Times }, 1, 10_000},
	{"storms", "how often all connections are lost", func(p *Params) any { return &p.Times }, 1, 1000},
	{"steps", "steps in which the connections come; each is measured", func(p *Params) any { return &p.Levels }, 1, 1000},
	{"at-once", "clients that ask at a time", func(p *Params) any { return &p.AtOnce }, 1, 10_000},
	{"kill", "kill the server with SIGKILL and start it again, instead of cutting the connections", func(p *Params) any { return &p.Kill }, 0, 0},
	{"kill-every", "seconds after which the server is killed with SIGKILL and started again, while anybody sends (0: never)", func(p *Params) any { return &p.KillS }, 0, 3600},
	{"lists", "conversations in the list of each user; with 1 or more, each connection is a device that has logged in", func(p *Params) any { return &p.Lists }, 0, 1000},
	{"direct", "messages to one other user, of each user who is online, in an hour", func(p *Params) any { return &p.Routine.Direct }, 0, 1e6},
	{"group", "messages to a group, of each user who is online, in an hour", func(p *Params) any { return &p.Routine.Group }, 0, 1e6},
	{"group-members", "members of a group who are online", func(p *Params) any { return &p.Routine.Members }, 2, 100_000},
	{"logins", "times that each client goes away and comes back in an hour", func(p *Params) any { return &p.Routine.Logins }, 0, 1e6},
	{"opens", "conversations that each user opens in an hour, each with a page of history", func(p *Params) any { return &p.Routine.Opens }, 0, 1e6},
	{"speed", "how many times faster than people the clients are", func(p *Params) any { return &p.Speed }, 1e-6, 1e6},
	{"receipts", "receivers move their read cursors, at most once a second, and senders get the receipts", func(p *Params) any { return &p.Receipts }, 0, 0},
	{"size", "bytes in the text of a message", func(p *Params) any { return &p.Size }, MinSize, maxSize},
	{"window", "closed loop: messages that each sender may have without an ack", func(p *Params) any { return &p.Window }, 1, maxWindow},
	{"rate", "open loop: messages per second of all senders together; the latency of a message begins when it was due (0: closed loop)",
		func(p *Params) any { return &p.Rate }, 0, 1e7},
	{"interval", "milliseconds from one message of a client to the next: the `LEAST,MOST` of a random pause", func(p *Params) any { return &p.IntervalMS }, 0, 1e7},
	{"connect-every", "milliseconds from one new connection to the next (0: as fast as they are accepted)", func(p *Params) any { return &p.ConnectMS }, 0, 60_000},
	{"seconds", "seconds that are measured", func(p *Params) any { return &p.Seconds }, 1e-6, 86_400},
	{"warm-up", "seconds of load before the measurement", func(p *Params) any { return &p.WarmUp }, 0, 3600},
	{"codec", "proto or json", func(p *Params) any { return &p.Codec }, 0, 0},
	{"transport", "ws or tcp, or with TLS wss or tls", func(p *Params) any { return &p.Transport }, 0, 0},
	{"seed", "seed of the random texts and ids", func(p *Params) any { return &p.Seed }, 0, 0},
	{"nodes", "with --postgres: number of nodes to start, as one cluster; the receiver of a direct message is on another node than its sender",
		func(p *Params) any { return &p.Nodes }, 1, maxNodes},
	{"postgres", "keep everything in PostgreSQL: in a new database of the server at this `URL`; with auto, a PostgreSQL server is started for the run",
		func(p *Params) any { return &p.Postgres }, 0, 0},
	{"url", "`URL` of a running server to measure, whose admin key is needed (default: start a server)", func(p *Params) any { return &p.URL }, 0, 0},
	{"tcp-addr", "`HOST:PORT` of the TCP port of the server that --url names (default: its host, and port 8081)", func(p *Params) any { return &p.TCPAddr }, 0, 0},
	{"late", "seconds in which all clients have logged in, each at a random moment", func(p *Params) any { return &p.LateS }, 0, 3600},
	{"runs", "how often all of this is done, each time with new users", func(p *Params) any { return &p.Runs }, 1, 10_000},
	{"oplogs", "`DIR` in which the op log of each run stays, for petrel check", func(p *Params) any { return &p.OpLogs }, 0, 0},
	{"oplog", "write what every connection sent and saw to `FILE`, for petrel check: as JSON if it ends in .jsonl, else in a binary form. It costs the load generator CPU",
		func(p *Params) any { return &p.OpLog }, 0, 0},
	{"dir", "`DIR` in which the folder of the started server is made (default: the system's folder for temporary files)", func(p *Params) any { return &p.Dir }, 0, 0},
	{"serve", "`FLAG` for the started server, like --serve=--store-cache=8MiB; may be repeated", func(p *Params) any { return &p.ServeArgs }, 0, 0},
}

// OptionsOf are options by name; what stands after "=" is their help.
func OptionsOf(names ...string) (all []Option) {
	for _, name := range names {
		name, help, own := strings.Cut(name, "=")
		o := options[slices.IndexFunc(options, func(o Option) bool { return o.Name == name })]
		if own {
			o.Help = help
		}
		all = append(all, o)
	}
	return all
}

// All are the options of a scenario, those that others have too included.
func (s *Scenario) All() []Option {
	names := s.Options
	if !s.bare {
		names = append([]string{"scale", "codec", "transport", "seed", "postgres", "dir", "serve"}, names...)
	}
	if !s.bare && s.Name != Cluster { // which has nodes of its own, of several numbers
		names = append(names, "url", "tcp-addr", "nodes")
	}
	return OptionsOf(names...)
}

// check says whether the value in p is allowed.
func (o *Option) check(p *Params) error {
	var all []float64
	switch v := o.Of(p).(type) {
	case *int:
		all = []float64{float64(*v)}
	case *float64:
		all = []float64{*v}
	case *[]float64:
		all = *v
	}
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for _, v := range all {
		if !(v >= o.low && v <= o.high) { // NaN is neither
			return fmt.Errorf("%s is %s; allowed: %s to %s", o.Name, text(v), text(o.low), text(o.high))
		}
	}
	return nil
}
