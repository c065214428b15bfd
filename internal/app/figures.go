package app

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/metrics"
	"github.com/petrel-im/petrel/internal/store/pgstore"
)

// clusterValues are those of a node among others; an embedded store has none.
func (a *App) clusterValues() []metrics.Value {
	n := &a.node
	if n.cluster == nil {
		return nil
	}
	gauge := func(name, help string, read func() int) metrics.Value {
		return metrics.Value{Name: name, Help: help, Read: func() float64 { return float64(read()) }}
	}
	counter := func(name, help string, c *atomic.Uint64) metrics.Value {
		return metrics.Value{Name: name, Help: help, Counter: true, Read: func() float64 { return float64(c.Load()) }}
	}
	values := []metrics.Value{
		gauge("petrel_nodes_alive", "Nodes with heartbeats, this one included.", func() (alive int) {
			for _, x := range n.cluster.Status().Nodes {
				if x.Alive {
					alive++
				}
			}
			return alive
		}),
		gauge("petrel_nodes_unreachable", "Nodes with heartbeats that are not on the bus.", func() int { return len(n.cluster.Status().Unreachable) }),
		gauge("petrel_partitions_unowned", "Partitions that nobody is known to serve.", func() int { return len(n.cluster.Status().Unowned) }),
		gauge("petrel_partitions_misplaced", "Partitions that another node owns than should.", func() int { return n.cluster.Status().Misplaced }),
		gauge("petrel_sends_forwarded_waiting", "Sends for partitions of other nodes, not answered.", a.router.Forwarding),
		counter("petrel_takeovers_total", "Partitions that this node took over.", &n.cluster.Takeovers),
		counter("petrel_partitions_lost_total", "Partitions whose owner here was thrown away, after a commit that was stale or of unknown outcome.", &n.cluster.Losses),

		counter("petrel_stream_frames_sent_total", "Frames sent to other nodes, repeats included.", &n.streams.SentFrames),
		counter("petrel_stream_frames_applied_total", "Frames of other nodes that were applied.", &n.streams.AppliedFrames),
		counter("petrel_stream_repeats_total", "Times that another node wanted something again.", &n.streams.Again),
		counter("petrel_stream_hints_total", "Hints sent to other nodes instead of frames that were not kept.", &n.streams.Hinted),
		counter("petrel_stream_resets_total", "Times that another node was told to look for itself.", &n.streams.Resets),
		counter("petrel_stream_garbled_total", "Packets of other nodes that made no sense.", &n.streams.Garbled),

		counter("petrel_fanout_frames_total", "Frames of other nodes with events or answers.", &n.fan.Told),
		counter("petrel_fanout_hints_total", "Those of them that had become hints.", &n.fan.Hints),
		counter("petrel_fanout_missed_total", "Sessions that had to look for what they missed.", &n.fan.Missed),
		counter("petrel_fanout_garbled_total", "Frames of other nodes that made no sense.", &n.fan.Garbled),
		counter("petrel_fanout_too_large_total", "Deliveries that went as hints because they fit no frame.", &n.fan.TooLarge),
	}
	if b, ok := n.bus.(*natsbus.Bus); ok {
		values = append(values,
			counter("petrel_bus_sent_total", "Messages and answers to other nodes.", &b.Sent),
			counter("petrel_bus_sent_bytes_total", "Their bytes.", &b.SentBytes),
			counter("petrel_bus_received_total", "Messages and answers of other nodes.", &b.Received),
			counter("petrel_bus_received_bytes_total", "Their bytes.", &b.ReceivedBytes),
			counter("petrel_bus_dropped_total", "Messages that found too many others waiting.", &b.Dropped),
			counter("petrel_bus_garbled_total", "Messages that could not be read.", &b.Garbled),
			counter("petrel_bus_reconnects_total", "Times that the connection to the NATS server was made anew.", &b.Reconnects),
		)
	}
	for i := range a.databases.Databases() {
		values = append(values, a.databaseValues(i)...)
	}
	return values
}

// databaseValues are those of the partitions in one database.
func (a *App) databaseValues(i int) []metrics.Value {
	labels := map[string]string{"database": strconv.Itoa(i + 1)}
	value := func(name, help string, read func(f *pgstore.Figures) float64) metrics.Value {
		return metrics.Value{Name: name, Help: help, Labels: labels, Counter: strings.HasSuffix(name, "_total"), Read: func() float64 {
			f := a.databases.Figures(i)
			return read(&f)
		}}
	}
	return []metrics.Value{
		value("petrel_database_up", "1 while the database takes commits in time.", func(f *pgstore.Figures) float64 {
			if f.Up {
				return 1
			}
			return 0
		}),
		value("petrel_database_partitions", "Partitions that the database holds.", func(f *pgstore.Figures) float64 { return float64(f.Partitions) }),
		value("petrel_database_partitions_owned", "Those of them that this node owns.", func(*pgstore.Figures) float64 { return float64(a.ownedIn(i)) }),
		value("petrel_database_commits_total", "Commits of partitions.", func(f *pgstore.Figures) float64 { return float64(f.Commits) }),
		value("petrel_database_statements_total", "Statements that committed them.", func(f *pgstore.Figures) float64 { return float64(f.Statements) }),
		value("petrel_database_statement_seconds_total", "Time in those statements.", func(f *pgstore.Figures) float64 { return f.Busy.Seconds() }),
		value("petrel_commits_unknown_total", "Statements whose outcome the database did not tell.", func(f *pgstore.Figures) float64 { return float64(f.Unknown) }),
	}
}

// ownedIn is how many partitions this node owns of those in a database.
func (a *App) ownedIn(database int) (n int) {
	for _, ow := range a.convs.Owners() {
		if a.databases.Holds(database, ow.Feed()) {
			n++
		}
	}
	return n
}

// nodeVersion is a node as /version shows it, to anybody: without addresses.
type nodeVersion struct {
	Node       string `json:"node"`
	Roles      string `json:"roles"`
	Version    string `json:"version"`
	Alive      bool   `json:"alive"`
	Draining   bool   `json:"draining"`
	Partitions int    `json:"partitions"` // that it owns
	LagMs      int64  `json:"lag_ms"`     // since its heartbeat was seen to move
}

// nodeVersions are the nodes as this one sees them.
func (a *App) nodeVersions() []nodeVersion {
	list := []nodeVersion{}
	if a.node.cluster == nil {
		n := a.stateAlone().Nodes[0]
		return append(list, nodeVersion{Node: n.Node, Roles: "gateway,conv,api", Version: n.Version, Alive: true, Partitions: int(n.Owned)})
	}
	for _, n := range a.node.cluster.Status().Nodes {
		list = append(list, nodeVersion{
			Node: string(n.Node), Roles: n.Roles.String(), Version: n.Release, Alive: n.Alive, Draining: n.Draining,
			Partitions: len(n.Feeds), LagMs: n.Silent.Milliseconds(),
		})
	}
	return list
}
