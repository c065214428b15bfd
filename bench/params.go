package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/wire"
)

// Params are the parameters of a run. DefaultParams returns those of a scenario.
type Params struct {
	Scenario string `json:"scenario"`
	Shape    string `json:"shape"` // name of the published test whose load it is; empty: the load of the scenario
	// share of the load of the scenario, or of the published test; parameters that have a flag of their own are
	// not scaled
	Scale float64 `json:"scale"`

	Senders int `json:"senders"` // users that send; in a group they are among the members
	// direct: sender i writes to receiver i modulo their number; with rounds every sender writes to every one
	Receivers int `json:"receivers"`
	// messages of each sender to each receiver, group or next client; cluster: in each of two runs of which the
	// second one counts; 0: as many as there is time for
	Rounds  int `json:"rounds"`
	Members int `json:"members"` // group: all members, online
	Groups  int `json:"groups"`  // group: all with the same members; senders write to them in turn
	// users, each with a connection: of connections, login, storm, presence, and the scenarios whose clients all
	// send
	Connections int `json:"connections"`
	Peers       int `json:"peers"`    // if all clients send: to how many next clients each one writes, in turn
	Messages    int `json:"messages"` // openim-load: in all; openim-reliability: of each sender
	// login: how often each connection comes; storm: storms; sync: syncs of each kind by each receiver
	Times  int `json:"times"`
	Levels int `json:"levels"` // connections: in how many equal steps they come
	// login: how many come at a time; sync, read, presence: how many receivers ask at a time
	AtOnce int `json:"at_once"`
	// storm: kill the server and start it again, instead of cutting the connections
	Kill bool `json:"kill"`
	// direct, openim-reliability: seconds from one kill of the server to the next, while anybody sends; it is
	// started again; 0: no kills
	KillS float64 `json:"kill_s"`
	// connections, login, storm: conversations in the list of each user; above 0, each connection is a device
	// that has logged in; 0: it has a token without a device
	Lists   int      `json:"lists"`
	Routine *Routine `json:"routine,omitempty"` // mixed, soak: what each client does
	Speed   float64  `json:"speed"`             // mixed, soak: how many times as fast as people
	// openim-reliability: seconds within which each client logs in, at a random moment
	LateS float64 `json:"late_s"`
	// openim-reliability: how many runs, one after the other, each with users of its own
	Runs int `json:"runs"`
	// receivers move their read cursors, at most once a second, and senders get the receipts
	Receipts bool    `json:"receipts"`
	Size     int     `json:"size"`   // bytes of a text, at least MinSize
	Window   int     `json:"window"` // closed loop: how many unacked messages each sender may have
	Rate     float64 `json:"rate"`   // open loop: messages per second in all; 0: closed loop

	// open loop: the least and the longest time from one message of a sender to its next, in milliseconds; each
	// time is random between them. openim-reliability has one value
	IntervalMS []float64 `json:"interval_ms,omitempty"`
	// milliseconds from one connection to the next; 0: as fast as they are accepted
	ConnectMS float64 `json:"connect_every_ms"`

	// seconds that are measured; connections: idle time of each step before its memory is read; storm: calm
	// before each storm; limit: of each measurement
	Seconds float64 `json:"seconds"`
	WarmUp  float64 `json:"warm_up"` // seconds of load before those that are measured

	Codec     string `json:"codec"`     // proto or json
	Transport string `json:"transport"` // ws or tcp, or with TLS wss or tls
	Seed      uint64 `json:"seed"`      // of bodies, ids and masks

	// Nodes is how many servers the run starts, as one cluster; more than one need Postgres. Connections are
	// spread over them. In the scenario direct without rounds, and with no fewer receivers than senders, the receiver
	// of a message is on another node than its sender.
	Nodes int `json:"nodes"`
	// Postgres lets the servers that the run starts keep everything in PostgreSQL: in a new database of the
	// server at this URL, or, with "auto", of one that the run starts.
	Postgres string `json:"-"`

	// URL of a running server, http://host:port; empty: the run starts one.
	URL      string `json:"url"`
	TCPAddr  string `json:"tcp_addr"` // TCP address of a running server; empty: its host and port 8081
	AdminURL string `json:"-"`        // where operators reach a running server; empty: URL
	AdminKey string `json:"-"`        // of a running server

	OpLog string `json:"-"` // file for what every connection sent and saw, for the checker; empty: none
	// openim-reliability: folder in which the op log of each run stays; empty: none stays
	OpLogs     string   `json:"-"`
	Dir        string   `json:"-"`          // where the temporary folder of an own server is made; empty: the system's
	ServeArgs  []string `json:"serve_args"` // further arguments of an own server
	Executable string   `json:"-"`          // of an own server; empty: this program

	Command  string         `json:"-"` // command line of this run, for the report
	Progress func(Progress) `json:"-"` // gets figures about once a second and a note at every step; may be nil

	net   *sockets      // nil: those of the system
	pause time.Duration // for tests: how long servers must be idle, without the idle check; 0: calmFor
}

// MinSize is the least size of a text: that of the proof in it.
const MinSize = proofBytes

const (
	maxNodes       = 64
	maxWindow      = 1 << 14
	maxConnections = 1 << 20
	mostWatched    = 200 // P-13.5
	maxSize        = 48 << 10
)

// Check reports errors of p, and fills in derived parameters.
func (p *Params) Check() error {
	s := p.scenario()
	if s.Name == "" {
		var names []string
		for _, s := range scenarios {
			names = append(names, s.Name)
		}
		return fmt.Errorf("there is no scenario %q; the scenarios are %s", p.Scenario, strings.Join(names, ", "))
	}
	for _, o := range p.All() {
		if err := o.check(); err != nil {
			return err
		}
	}
	if p.Scenario == Storm { // half of them write to the other half
		p.Senders = p.Connections / 2
		p.Receivers = p.Connections - p.Senders
	}
	if p.Routine != nil {
		if err := p.Routine.Check(); err != nil {
			return err
		}
		p.follow(p.Routine)
	}
	switch {
	case p.Nodes < 1 || p.Nodes > maxNodes:
		return fmt.Errorf("nodes is %d; allowed: 1 to %d", p.Nodes, maxNodes)
	case p.Scenario == OpenIMReliability && (p.Connections < p.Senders+2 || len(p.IntervalMS) != 1):
		return fmt.Errorf("clients is %d; at least 2 more than the %d senders, with one interval", p.Connections,
			p.Senders)
	case p.Scenario == Group && p.Senders > p.Members:
		return fmt.Errorf("senders is %d; allowed: 1 to %d, the members", p.Senders, p.Members)
	case p.traffic() == ring && p.Connections < 2*p.Peers+1:
		return fmt.Errorf("clients is %d; with %d peers at least %d", p.Connections, p.Peers, 2*p.Peers+1)
	case (p.traffic() == ring || p.offline()) && p.quota() < 1:
		return fmt.Errorf("rounds is %d; at least 1", p.Rounds)
	case p.Scenario == Connections && p.Levels > p.Connections:
		return fmt.Errorf("steps is %d; allowed: 1 to %d, the connections", p.Levels, p.Connections)
	case p.Scenario == Presence && (p.Connections <= p.Receivers || p.Connections > p.Receivers+mostWatched):
		return fmt.Errorf("connections is %d; allowed: 1 to %d more than the receivers", p.Connections, mostWatched)
	case p.Scenario == Storm && (p.Connections < 2 || p.Rate == 0):
		return fmt.Errorf("the scenario %s is an open loop of two connections or more: --rate must be above 0", Storm)
	case p.Codec != "proto" && p.Codec != "json":
		return fmt.Errorf("there is no codec %q; the codecs are proto and json", p.Codec)
	case !slices.Contains([]string{"ws", "tcp", "wss", "tls"}, p.Transport):
		return fmt.Errorf("there is no transport %q; the transports are ws and tcp, and with TLS wss and tls",
			p.Transport)
	case p.traffic() == ring && (len(p.IntervalMS) != 2 || p.IntervalMS[0] <= 0 || p.IntervalMS[1] < p.IntervalMS[0]):
		return fmt.Errorf("the interval is %v; it goes from a time above 0 ms to one no shorter", p.IntervalMS)
	case p.KillS > 0 && p.Scenario != Direct && p.Scenario != OpenIMReliability:
		return fmt.Errorf("the scenario %s has no kill-every", p.Scenario)
	case (p.Kill || p.KillS > 0) && p.URL != "":
		return fmt.Errorf(
			"only a server that the run starts can be killed; leave --kill and --kill-every out with --url %s", p.URL)
	case p.KillS > 0 && p.Nodes > 1:
		return errors.New(
			"--kill-every needs one node: when a node of a cluster fails, its successor may push once more what it has pushed, and here that counts as a duplicate")
	case p.URL != "" && (p.Nodes > 1 || p.Postgres != ""):
		return fmt.Errorf("--nodes and --postgres are for servers that the run starts; leave them out with --url %s",
			p.URL)
	case p.Postgres == "" && p.Nodes > 1:
		return fmt.Errorf("%d nodes need --postgres: they share a database", p.Nodes)
	case p.URL != "" && p.AdminKey == "":
		return fmt.Errorf("a run against %s needs its admin key", p.URL)
	}
	return nil
}

func (p *Params) encoding() wire.Encoding {
	e := wire.Encoding{Codec: wire.Proto, Framing: wire.WebSocket}
	if p.Codec == "json" {
		e.Codec = wire.JSON
	}
	if p.Transport == "tcp" || p.Transport == "tls" {
		e.Framing = wire.TCP
	}
	return e
}

// node returns the number, from 0, of the server of connection i.
func (p *Params) node(i int) int {
	if p.Scenario == Direct && i >= p.Senders {
		i = (i-p.Senders)%p.Senders + 1 // the node after that of sender i - p.Senders
	}
	return i % p.Nodes
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
