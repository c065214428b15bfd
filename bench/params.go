package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/petrel-im/petrel/internal/wire"
)

// The scenarios.
const (
	Direct  = "direct"  // senders write to receivers, each pair in its own direct conversation
	Group   = "group"   // some members of one group write, all are online
	Cluster = "cluster" // every sender writes to every receiver, none of whom is online

	Connections = "connections" // more and more connections are authenticated and idle
	Login       = "login"       // connections come, some at a time, again and again
	Storm       = "storm"       // all connections are lost at once and come back, while some write
	Sync        = "sync"        // receivers ask for their lists of conversations, again and again
	History     = "history"     // receivers read their conversations page by page
	Limit       = "limit"       // what the machine does without a chat server
)

// Params are what a run does. DefaultParams fills in those of a scenario.
type Params struct {
	Scenario string `json:"scenario"`

	Senders     int     `json:"senders"`     // users that send; in a group they are among the members
	Receivers   int     `json:"receivers"`   // direct: sender i writes to receiver i modulo this; cluster: every sender writes to every one
	Rounds      int     `json:"rounds"`      // login: how often each connection comes; storm: storms; sync: syncs of each kind by each receiver; history: messages of each sender to each receiver; cluster: messages of each sender to each receiver, in each of two runs of which the second one counts
	Members     int     `json:"members"`     // group: all of them, online
	Connections int     `json:"connections"` // connections, login, storm: how many; connections: at the last step
	Steps       int     `json:"steps"`       // connections: in how many equal steps they come
	AtOnce      int     `json:"at_once"`     // login: how many come at a time; sync, history: how many receivers ask at a time
	Kill        bool    `json:"kill"`        // storm: by a kill of the server, which is started again; else by the network
	Lists       int     `json:"lists"`       // connections, login, storm: conversations in the list of each user, whose connection is then a device that has logged in; 0: a bare token
	Receipts    bool    `json:"receipts"`    // receivers tell once a second how far they have read, and senders are told
	Size        int     `json:"size"`        // bytes of a text, at least MinSize
	Window      int     `json:"window"`      // closed loop: unacked messages of each sender
	Rate        float64 `json:"rate"`        // open loop: messages per second in all; 0: closed loop

	Seconds float64 `json:"seconds"` // measured; connections: idle time of each step before its memory is read; storm: calm between two; limit: of each measurement
	WarmUp  float64 `json:"warm_up"` // seconds of load before

	Codec     string `json:"codec"`     // proto or json
	Transport string `json:"transport"` // ws or tcp
	Seed      uint64 `json:"seed"`      // of bodies, ids and masks

	// Nodes are how many servers of its own a run starts, as one cluster; they
	// need Postgres. Connections are spread over them, and the receiver of a
	// direct message is never on its sender's node.
	Nodes int `json:"nodes"`
	// Postgres has own servers keep everything in PostgreSQL: in a new database
	// of the one with this URL, or, with "auto", of one that the run starts.
	Postgres string `json:"-"`

	// URL of a running server, http://host:port; empty: the run starts one.
	URL      string `json:"url"`
	TCPAddr  string `json:"tcp_addr"` // of a running server; empty: its host and port 8081
	AdminURL string `json:"-"`        // where operators reach a running server; empty: URL
	AdminKey string `json:"-"`        // of a running server

	OpLog      string   `json:"-"`          // file for what every connection saw, for the checker; empty: none
	Dir        string   `json:"-"`          // where the temporary folder of an own server is made; empty: the system's
	ServeArgs  []string `json:"serve_args"` // further arguments of an own server
	Executable string   `json:"-"`          // of an own server; empty: this program

	Command  string         `json:"-"` // that asks for this run, for the report
	Progress func(Progress) `json:"-"` // is told once a second and at every step; may be nil

	pause  time.Duration // how long servers must have nothing to do; 0: calmFor
	quiet  time.Duration // silence that ends the drain; 0: drainQuiet
	enough func() bool   // the measured window goes on until this says so; nil: it ends by time alone
}

// MinSize is the least size of a text: what the proof in it takes.
const MinSize = proofBytes

// scenarios are those of Params.
var scenarios = []string{Direct, Group, Cluster, Connections, Login, Storm, Sync, History, Limit}

// DefaultParams are the parameters of a scenario as its figures are taken.
func DefaultParams(scenario string) Params {
	p := Params{Scenario: scenario, Nodes: 1, Size: 100, Seconds: 10, WarmUp: 2, Codec: "proto", Transport: "ws", Seed: 1}
	switch scenario {
	case Direct:
		p.Senders, p.Receivers, p.Window = 200, 200, 16
	case Group:
		p.Senders, p.Members, p.Window = 4, 1000, 16
	case Connections:
		p.Connections, p.Steps, p.Seconds, p.WarmUp = 10_000, 1, 15, 0
	case Login:
		p.Connections, p.Rounds, p.AtOnce, p.Lists = 5000, 3, 32, 20
	case Storm:
		p.Connections, p.Rounds, p.Rate, p.Seconds = 5000, 3, 1000, 5
	case Sync:
		p.Senders, p.Receivers, p.Rounds, p.Window, p.AtOnce = 100, 200, 20, 16, 32
	case History:
		p.Senders, p.Receivers, p.Rounds, p.Window, p.AtOnce = 20, 200, 250, 16, 32
	case Limit:
		p.Senders, p.Members, p.Window, p.Seconds = 200, 1000, 16, 2
	case Cluster:
		p.Senders, p.Receivers, p.Rounds, p.Window, p.Size, p.Postgres = 200, 201, 20, 16, 36, OwnPostgres
		p.WarmUp = 0
	}
	return p
}

const (
	maxNodes       = 64
	maxWindow      = 1 << 14
	maxConnections = 1 << 20
	maxSize        = 48 << 10
)

// Check says what is wrong with p.
func (p *Params) Check() error {
	between := func(name string, v, low, high int) error {
		if v < low || v > high {
			return fmt.Errorf("%s is %d; allowed: %d to %d", name, v, low, high)
		}
		return nil
	}
	checks := []error{between("nodes", p.Nodes, 1, maxNodes)}
	switch p.Scenario {
	case Cluster:
		checks = append(checks, between("senders", p.Senders, 1, 10_000), between("receivers", p.Receivers, 1, 10_000), between("rounds", p.Rounds, 1, 10_000))
	case Direct:
		checks = append(checks, between("senders", p.Senders, 1, maxConnections), between("receivers", p.Receivers, 1, maxConnections))
	case Group:
		checks = append(checks, between("members", p.Members, 2, maxConnections), between("senders", p.Senders, 1, p.Members))
	case Connections, Login, Storm:
		checks = append(checks, between("connections", p.Connections, 1, maxConnections), between("lists", p.Lists, 0, 1000))
		switch p.Scenario {
		case Connections:
			checks = append(checks, between("steps", p.Steps, 1, min(1000, p.Connections)))
		case Login:
			checks = append(checks, between("rounds", p.Rounds, 1, 1000), between("at-once", p.AtOnce, 1, 10_000))
		case Storm:
			checks = append(checks, between("connections", p.Connections, 2, maxConnections), between("storms", p.Rounds, 1, 1000))
			if p.Rate == 0 {
				return fmt.Errorf("the scenario %s is an open loop: --rate must be above 0", Storm)
			}
			if p.Kill && p.URL != "" {
				return fmt.Errorf("only a server that the run starts can be killed; leave --kill out with --url %s", p.URL)
			}
		}
	case Sync, History:
		checks = append(checks, between("senders", p.Senders, 1, 10_000), between("receivers", p.Receivers, 1, maxConnections), between("rounds", p.Rounds, 1, 10_000),
			between("at-once", p.AtOnce, 1, 10_000))
	case Limit:
		checks = append(checks, between("senders", p.Senders, 1, 8000), between("members", p.Members, 2, 15_000))
	default:
		return fmt.Errorf("there is no scenario %q; the scenarios are %s", p.Scenario, strings.Join(scenarios, ", "))
	}
	if p.senders() > 0 || p.Scenario == Limit {
		checks = append(checks, between("size", p.Size, MinSize, maxSize))
		if p.Rate == 0 {
			checks = append(checks, between("window", p.Window, 1, maxWindow))
		}
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	switch {
	case p.Codec != "proto" && p.Codec != "json":
		return fmt.Errorf("there is no codec %q; the codecs are proto and json", p.Codec)
	case p.Transport != "ws" && p.Transport != "tcp":
		return fmt.Errorf("there is no transport %q; the transports are ws and tcp", p.Transport)
	case p.Seconds <= 0 || p.Seconds > 86400:
		return fmt.Errorf("seconds is %g; allowed: above 0, up to 86400", p.Seconds)
	case p.WarmUp < 0 || p.WarmUp > 3600:
		return fmt.Errorf("warm-up is %g; allowed: 0 to 3600 seconds", p.WarmUp)
	case p.Rate < 0 || p.Rate > 1e7:
		return fmt.Errorf("rate is %g; allowed: 0 to 10,000,000 messages per second", p.Rate)
	case p.URL != "" && (p.Nodes > 1 || p.Postgres != ""):
		return fmt.Errorf("--nodes and --postgres are for servers that the run starts; leave them out with --url %s", p.URL)
	case p.Postgres == "" && p.Nodes > 1:
		return fmt.Errorf("%d nodes need --postgres: they share a database", p.Nodes)
	case p.Rate != 0 && p.comeLater():
		return fmt.Errorf("the scenario %s is a closed loop", p.Scenario)
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
	if p.Transport == "tcp" {
		e.Framing = wire.TCP
	}
	return e
}

// connections counts those the run makes.
func (p *Params) connections() int {
	switch p.Scenario {
	case Direct, Cluster, Sync, History:
		return p.Senders + p.Receivers
	case Group:
		return p.Members
	}
	return p.Connections
}

// comeLater tells whether the receivers connect when the senders have sent.
func (p *Params) comeLater() bool {
	return p.Scenario == Cluster || p.Scenario == Sync || p.Scenario == History
}

// node is the server to which connection i goes.
func (p *Params) node(i int) int {
	if p.Scenario == Direct && i >= p.Senders {
		i = (i-p.Senders)%p.Senders + 1 // not its sender's
	}
	return i % p.Nodes
}

func (p *Params) senders() int {
	switch p.Scenario {
	case Connections, Login, Limit:
		return 0
	case Storm:
		return p.Connections / 2
	}
	return p.Senders
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
