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
	Value     any     // a pointer to the parameter
	low, high float64 // of a number: the least and the highest that is allowed
	Help      string  // a word in backquotes stands for the value
}

// RoutineOptions are the names of the options that set the fields of a Routine.
var RoutineOptions = []string{"direct", "group", "group-members", "logins", "opens"}

const aLot = 1e9 // stands for no bound

// table returns all options. Their values point into p; if p.Routine is nil, those of a routine have no effect.
func (p *Params) table() []Option {
	people := p.Routine
	if people == nil {
		people = &Routine{}
	}
	return []Option{
		{"scale", &p.Scale, 1e-9, 1000,
			"share of the load, like 0.1; parameters with a flag of their own are not scaled"},
		{"senders", &p.Senders, 1, maxConnections, "users that send"},
		{"receivers", &p.Receivers, 1, maxConnections, "users that receive"},
		{"rounds", &p.Rounds, 0, 1e6, ""},
		{"members", &p.Members, 2, maxConnections, "members of each group, all online"},
		{"groups", &p.Groups, 1, 10_000, "groups of the same members, to whom each sender writes in turn"},
		{"connections", &p.Connections, 1, maxConnections, "connections to make"},
		{"clients", &p.Connections, 2, maxConnections, "clients, each of which sends and receives"},
		{"peers", &p.Peers, 1, 100, "clients to whom each one writes in turn: the next ones"},
		{"messages", &p.Messages, 1, aLot, "messages of all clients, after which the run ends"},
		{"times", &p.Times, 1, 10_000, ""},
		{"storms", &p.Times, 1, 1000, "how often all connections are lost"},
		{"steps", &p.Levels, 1, 1000, "steps in which the connections come; each is measured"},
		{"at-once", &p.AtOnce, 1, 10_000, "clients that ask at a time"},
		{"kill", &p.Kill, 0, 0,
			"kill the server with SIGKILL and start it again, instead of cutting the connections"},
		{"kill-every", &p.KillS, 0, 3600,
			"seconds after which the server is killed with SIGKILL and started again, while anybody sends (0: " +
				"never)"},
		{"lists", &p.Lists, 0, 1000,
			"conversations in the list of each user; with 1 or more, each connection is a device that has logged in"},
		{"direct", &people.Direct, 0, 1e6, "messages to one other user, of each user who is online, in an hour"},
		{"group", &people.Group, 0, 1e6, "messages to a group, of each user who is online, in an hour"},
		{"group-members", &people.Members, 2, 100_000, "members of a group who are online"},
		{"logins", &people.Logins, 0, 1e6, "times that each client goes away and comes back in an hour"},
		{"opens", &people.Opens, 0, 1e6,
			"conversations that each user opens in an hour, each with a page of history"},
		{"speed", &p.Speed, 1e-6, 1e6, "how many times faster than people the clients are"},
		{"receipts", &p.Receipts, 0, 0,
			"receivers move their read cursors, at most once a second, and senders get the receipts"},
		{"size", &p.Size, MinSize, maxSize, "bytes in the text of a message"},
		{"window", &p.Window, 1, maxWindow, "closed loop: messages that each sender may have without an ack"},
		{"rate", &p.Rate, 0, 1e7,
			"open loop: messages per second of all senders together; the latency of a message begins when it was " +
				"due (0: closed loop)"},
		{"interval", &p.IntervalMS, 0, 1e7,
			"milliseconds from one message of a client to the next: the `LEAST,MOST` of a random pause"},
		{"connect-every", &p.ConnectMS, 0, 60_000,
			"milliseconds from one new connection to the next (0: as fast as they are accepted)"},
		{"seconds", &p.Seconds, 1e-6, 86_400, "seconds that are measured"},
		{"warm-up", &p.WarmUp, 0, 3600, "seconds of load before the measurement"},
		{"codec", &p.Codec, 0, 0, "proto or json"},
		{"transport", &p.Transport, 0, 0, "ws or tcp, or with TLS wss or tls"},
		{"seed", &p.Seed, 0, 0, "seed of the random texts and ids"},
		{"nodes", &p.Nodes, 1, maxNodes,
			"with --postgres: number of nodes to start, as one cluster; the receiver of a direct message is on " +
				"another node than its sender"},
		{"postgres", &p.Postgres, 0, 0,
			"keep everything in PostgreSQL: in a new database of the server at this `URL`; with auto, a " +
				"PostgreSQL server is started for the run"},
		{"url", &p.URL, 0, 0,
			"`URL` of a running server to measure, whose admin key is needed (default: start a server)"},
		{"tcp-addr", &p.TCPAddr, 0, 0,
			"`HOST:PORT` of the TCP port of the server that --url names (default: its host, and port 8081)"},
		{"late", &p.LateS, 0, 3600, "seconds in which all clients have logged in, each at a random moment"},
		{"runs", &p.Runs, 1, 10_000, "how often all of this is done, each time with new users"},
		{"oplogs", &p.OpLogs, 0, 0, "`DIR` in which the op log of each run stays, for petrel check"},
		{"oplog", &p.OpLog, 0, 0,
			"write what every connection sent and saw to `FILE`, for petrel check. It costs the load generator CPU"},
		{"dir", &p.Dir, 0, 0,
			"`DIR` in which the folder of the started server is made (default: the system's folder for temporary " +
				"files)"},
		{"serve", &p.ServeArgs, 0, 0,
			"`FLAG` for the started server, like --serve=--store-cache=8MiB; may be repeated"},
	}
}

// Options returns the options of p with these names. After a name, "=" and a text replace its help.
func (p *Params) Options(names ...string) (all []Option) {
	table := p.table()
	for _, name := range names {
		name, help, own := strings.Cut(name, "=")
		o := table[slices.IndexFunc(table, func(o Option) bool { return o.Name == name })]
		if own {
			o.Help = help
		}
		all = append(all, o)
	}
	return all
}

// All returns the options of the scenario, with those that it shares with others.
func (p *Params) All() []Option {
	s := p.scenario()
	names := s.options
	if !s.bare {
		names = append([]string{"scale", "codec", "transport", "seed", "postgres", "dir", "serve"}, names...)
	}
	if !s.bare && s.Name != Cluster { // the command of Cluster has a --nodes for several numbers
		names = append(names, "url", "tcp-addr", "nodes")
	}
	return p.Options(names...)
}

// check returns an error if the value has a number that is not allowed. It does not judge texts.
func (o *Option) check() error {
	var all []float64
	switch v := o.Value.(type) {
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
