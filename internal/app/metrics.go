package app

import (
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/bus/natsbus"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/metrics"
	"github.com/petrel-im/petrel/internal/store/pgstore"
)

func (a *App) values() []metrics.Value {
	return slices.Concat(a.ownValues(), a.memoryValues(), a.auditValues(), a.logValues())
}

func (a *App) logValues() []metrics.Value {
	if a.o.LogDropped == nil {
		return nil
	}
	return []metrics.Value{{
		Name:    "petrel_log_lines_dropped_total",
		Help:    "Lines of the log that were dropped, because the reader of the log was too slow or its disk full.",
		Counter: true,
		Read:    func() float64 { return float64(a.o.LogDropped()) },
	}}
}

func (a *App) ownValues() []metrics.Value {
	count := func(f func() uint64) func() float64 { return func() float64 { return float64(f()) } }
	return []metrics.Value{
		{Name: "petrel_entries_stored_total", Help: "Entries that this node made durable.", Counter: true,
			Read: count(a.convs.Accepted)},
		{Name: "petrel_sends_repeated_total",
			Help: "Sends that were stored already and were answered with the first seq.", Counter: true,
			Read: count(a.convs.Repeats)},
		{Name: "petrel_events_delivered_total", Help: "Events that were put into outboxes.", Counter: true,
			Read: count(func() uint64 { return a.convs.Fanned().Delivered })},
		{Name: "petrel_signals_dropped_total",
			Help: "Signals that reached nobody, because there were too many, or because the store did not confirm which node owns the conversation.", Counter: true, Read: count(a.convs.SignalsDropped)},
		{Name: "petrel_presence_watched_users", Help: "Users whose presence sessions of this node watch.",
			Read: func() float64 { return float64(a.presence.Watching.Load()) }},
		{Name: "petrel_presence_told_total", Help: "Presences that were put into outboxes.", Counter: true,
			Read: count(a.presence.Sent.Load)},
		{Name: "petrel_presence_dropped_total", Help: "Times of being online last that were not stored.", Counter: true,
			Read: count(a.presence.Dropped.Load)},
		{Name: "petrel_events_hinted_total", Help: "Events of which a session got only a hint.", Counter: true,
			Read: count(func() uint64 { return a.convs.Fanned().Hinted })},
		{Name: "petrel_events_lagged_total",
			Help: "Events that did not fit the outbox of a session, which has to sync.", Counter: true,
			Read: count(func() uint64 { return a.convs.Fanned().Lagged })},
		{Name: "petrel_commits_stale_total",
			Help: "Commits that the store refused, because another node had taken the feed over.", Counter: true,
			Read: count(a.convs.StaleBatches)},
		{Name: "petrel_feeds_owned",
			Help: "Feeds that this node owns. The embedded store has one feed; PostgreSQL has one for each of the 256 partitions.", Read: func() float64 { return float64(len(a.convs.Owners())) }},
		{Name: "petrel_commits_total",
			Help:    "Commits that this node made. One commit carries the sends that were waiting together.",
			Counter: true, Read: func() float64 { return float64(a.store.Stats().Commits) }},
		{Name: "petrel_checkpoints_total", Help: "Checkpoints that were made for backups of the embedded store.",
			Counter: true, Read: func() float64 { return float64(a.store.Stats().Checkpoints) }},
		{Name: "petrel_store_disk_bytes", Help: "Bytes that the store takes on disk.",
			Read: func() float64 { return float64(a.store.Stats().DiskBytes) }},
		{Name: "petrel_disk_free_bytes",
			Help: "Free bytes on the disk of store.dir. Below store.min_free the embedded store refuses sends.",
			Read: func() float64 { return known(a.disk().AvailBytes) }},
		{Name: "petrel_build_info", Help: "1, with the version of the server and of Go.",
			Labels: map[string]string{"version": a.o.Version, "go": runtime.Version()},
			Read:   func() float64 { return 1 }},
		{Name: "petrel_disk_bytes", Help: "Size of the disk of store.dir in bytes.",
			Read: func() float64 { return known(a.disk().TotalBytes) }},
		{Name: "petrel_store_writable", Help: "1 while the store takes writes, else 0.", Read: func() float64 {
			if a.store.Writable() != nil {
				return 0
			}
			return 1
		}},
		{Name: "petrel_store_mark_failures_total", Help: "Times that the file of store.mark could not be written.",
			Counter: true, Read: count(a.store.markFailures)},
		{Name: "petrel_store_damage_met_total",
			Help: "Times that a read, a compaction or the scrub met damaged data in the store.", Counter: true,
			Read: func() float64 { return float64(a.store.Stats().DamageMet) }},
		{Name: "petrel_store_damaged_places",
			Help: "Places of the store that cannot be read. The page /readyz names each, and petrel repair ends this.",
			Read: func() float64 { return float64(len(a.store.Stats().Damage)) }},
		{Name: "petrel_store_scrub_time_seconds",
			Help: "When the scrub last ended a pass over the whole store, Unix time; 0: never.",
			Read: func() float64 { return float64(a.store.Stats().ScrubMs) / 1000 }},
		{Name: "petrel_store_scrub_bytes_total", Help: "Bytes that the scrub has read.", Counter: true,
			Read: func() float64 { return float64(a.store.Stats().ScrubBytes) }},
		{Name: "petrel_store_scrub_found_total", Help: "Damaged files that the scrub has found.", Counter: true,
			Read: func() float64 { return float64(a.store.Stats().ScrubFound) }},
		{Name: "petrel_ready", Help: "1 while /readyz says that the server is ready, else 0.", Read: func() float64 {
			if a.notReady() != "" {
				return 0
			}
			return 1
		}},
		{Name: "petrel_commits_refused_total",
			Help: "Commits of this node that the store did not take, or whose outcome is unknown.", Counter: true,
			Read: count(func() uint64 { _, n := a.convs.Commits(); return n })},
		{Name: "petrel_connections", Help: "Connections of clients.",
			Read: func() float64 { return float64(a.gateway.Stats().Connections) }},
		{Name: "petrel_connections_limit",
			Help: "Most connections of clients: limits.connections, or what the limit of open files allows.",
			Read: func() float64 { return float64(a.hub.Limits().Connections) }},
		{Name: "petrel_inbox_resets_total",
			Help: "Times that feed entries with changes of membership were trimmed before the inboxes had taken the changes.", Counter: true, Read: count(a.inboxes.Resets)},
		{Name: "petrel_inboxes_behind_seconds",
			Help: "Age of the oldest change of membership that is not in the lists of conversations yet, in seconds. Beyond 30 s no conversation begins.", Read: func() float64 {
				lag, _ := a.convs.InboxLag()
				return lag.Seconds()
			}},
		{Name: "petrel_sessions", Help: "Sessions that are online on this node.",
			Read: func() float64 { return float64(a.hub.Sessions.Load()) }},
		{Name: "petrel_hellos_refused_total", Help: "Hellos that were refused.", Counter: true,
			Read: count(a.hub.Refused.Load)},
		{Name: "petrel_sends_waiting", Help: "Sends that are not answered yet.",
			Read: func() float64 { return float64(a.waiting()) }},
		{Name: "petrel_overviews_followed",
			Help: "Callers of GetOverview that are answered each second, such as a console that somebody looks at.",
			Read: func() float64 { return float64(a.api.Followers()) }},
		{Name: "petrel_reads_waiting", Help: "Syncs, pages of history and other reads that wait for a worker.",
			Read: func() float64 { return float64(a.reads.Waiting()) }},
		{Name: "petrel_cursor_moves_waiting", Help: "Moves of cursors that are not answered yet.",
			Read: func() float64 { return float64(a.convs.MovesWaiting()) }},
		{Name: "petrel_note_changes_waiting", Help: "Reactions and pins that are not answered yet.",
			Read: func() float64 { return float64(a.convs.NoteChangesWaiting()) }},
		{Name: "petrel_conversations_loaded", Help: "Conversations that are in memory.",
			Read: func() float64 { return float64(a.convs.Loaded()) }},
		{Name: "petrel_conversations_evicted_total", Help: "Conversations that left memory to make room for others.",
			Counter: true, Read: count(a.convs.Evicted)},
	}
}

// known converts a value of which 0 means that it is not known: then it returns NaN.
func known(n uint64) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(n)
}

// times returns the histograms of durations.
func (a *App) times() []metrics.Times {
	one := func(h *measure.Histogram) map[string]*measure.Histogram { return map[string]*measure.Histogram{"": h} }
	return []metrics.Times{
		{Name: "petrel_ack_seconds", Help: "Time from a send on a connection of this node to its ack.",
			Of: one(&a.hub.Meter.Acks)},
		{Name: "petrel_commit_seconds", Help: "Time that the store takes to make a commit of this node durable.",
			Of: one(a.convs.CommitTimes())},
		{Name: "petrel_request_seconds",
			Help: "Time from a request on a connection (hello, sync, history, focus, call) to its answer, unless it was refused.", Label: "request", Of: a.hub.Requests},
		{Name: "petrel_call_seconds",
			Help: "Time of a call of the API, over HTTP or a connection, from the end of its request to its answer.", Label: "method", Of: a.api.Calls},
	}
}

// counts returns the counters by outcome.
func (a *App) counts() []metrics.Counts {
	logins := maps.Clone(a.api.Logins)
	logins["token"] = a.hub.Hellos
	return []metrics.Counts{
		{Name: "petrel_refusals_total",
			Help: "Refusals by code: of calls of the API, and of frames on connections. A call over a connection is both.", Labels: [2]string{"of", "code"},
			Of: map[string]*measure.Counts{"call": a.api.Refusals, "frame": a.hub.Meter.Refusals}},
		{Name: "petrel_connections_ended_total",
			Help:   "Connections that the server ended, by the code that the client was told.",
			Labels: [2]string{"", "code"}, Of: map[string]*measure.Counts{"": a.gateway.EndedFor}},
		{Name: "petrel_connections_refused_total",
			Help:   "Connections that were refused: by a limit, with its option, or for another reason, with its code.",
			Labels: [2]string{"", "reason"}, Of: map[string]*measure.Counts{"": a.gateway.RefusedFor}},
		{Name: "petrel_logins_total",
			Help: "Logins by way and outcome: with a password or a JWT, by registration, refresh, or a token that a back end minted. The way token is a connection that says hello.", Labels: [2]string{"way", "outcome"}, Of: logins},
	}
}

// clusterValues returns the figures of a node of a cluster; on an embedded store there are none.
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
		gauge("petrel_nodes_alive", "Nodes whose heartbeats arrive, this one included.", func() (alive int) {
			for _, x := range n.cluster.Status().Nodes {
				if x.Alive {
					alive++
				}
			}
			return alive
		}),
		gauge("petrel_nodes_unreachable",
			"Nodes whose heartbeats arrive in the database, but which do not answer on the bus.",
			func() int { return len(n.cluster.Status().Unreachable) }),
		gauge("petrel_feeds_unowned", "Feeds that no node is known to own. Sends to conversations of such a feed wait.",
			func() int { return len(n.cluster.Status().Unowned) }),
		gauge("petrel_feeds_misplaced", "Feeds that a node owns other than the one that should.",
			func() int { return n.cluster.Status().Misplaced }),
		gauge("petrel_sends_forwarded_waiting",
			"Sends that this node has passed to owners on other nodes and that are not answered yet.",
			a.router.Carrying),
		counter("petrel_feed_takeovers_total", "Times that this node took a feed over.", &n.cluster.Takeovers),
		counter("petrel_feeds_lost_total",
			"Times that this node lost a feed, because a commit was stale or its outcome is unknown.",
			&n.cluster.Losses),

		counter("petrel_stream_frames_sent_total",
			"Frames sent to other nodes. A frame that is sent again counts again.", &n.streams.SentFrames),
		counter("petrel_stream_frames_applied_total", "Frames from other nodes that were applied here.",
			&n.streams.AppliedFrames),
		counter("petrel_stream_repeats_total", "Times that another node asked for a frame again, because it was lost.",
			&n.streams.Again),
		counter("petrel_stream_hints_total",
			"Stream hints sent to other nodes instead of frames that were not kept any more.", &n.streams.Hinted),
		counter("petrel_stream_resets_total",
			"Times that another node was told that frames are lost for good, so it checked everything itself.",
			&n.streams.Resets),
		counter("petrel_stream_garbled_total", "Stream packets from other nodes that could not be read.",
			&n.streams.Garbled),

		counter("petrel_fanout_frames_total", "Frames from other nodes with events or with answers to sends.",
			&n.fan.Frames),
		counter("petrel_fanout_hints_total",
			"Frames with events or answers that arrived as stream hints, because the frame was not kept any more.",
			&n.fan.Hints),
		counter("petrel_fanout_missed_total",
			"Sessions that had to sync, because events from another node may have been lost.", &n.fan.Missed),
		counter("petrel_fanout_garbled_total",
			"Frames from other nodes about events, answers or online users that could not be read.", &n.fan.Garbled),
		counter("petrel_fanout_too_large_total",
			"Deliveries to another node that went as hints, because a frame cannot be that large.", &n.fan.TooLarge),
	}
	if b, ok := n.bus.(*natsbus.Bus); ok {
		values = append(values,
			counter("petrel_bus_sent_total", "Messages and answers that this node sent on the bus.", &b.Sent),
			counter("petrel_bus_sent_bytes_total", "Bytes of the messages and answers that this node sent on the bus.",
				&b.SentBytes),
			counter("petrel_bus_received_total", "Messages and answers from other nodes that arrived on the bus.",
				&b.Received),
			counter("petrel_bus_received_bytes_total",
				"Bytes of the messages and answers from other nodes that arrived on the bus.", &b.ReceivedBytes),
			counter("petrel_bus_dropped_total",
				"Messages from other nodes that were dropped, because too many were waiting already.", &b.Dropped),
			counter("petrel_bus_garbled_total", "Messages from other nodes that could not be read.", &b.Garbled),
			counter("petrel_bus_reconnects_total", "Times that this node connected to the NATS server again.",
				&b.Reconnects),
		)
	}
	for i := range a.store.databases.Databases() {
		values = append(values, a.databaseValues(i)...)
	}
	return values
}

// databaseValues returns the figures of one database.
func (a *App) databaseValues(i int) []metrics.Value {
	labels := map[string]string{"database": strconv.Itoa(i + 1)}
	value := func(name, help string, read func(f *pgstore.Figures) float64) metrics.Value {
		return metrics.Value{Name: name, Help: help, Labels: labels, Counter: strings.HasSuffix(name, "_total"),
			Read: func() float64 {
				f := a.store.databases.Figures(i)
				return read(&f)
			}}
	}
	return []metrics.Value{
		value("petrel_database_up", "1 while the database answers commits in time, else 0.",
			func(f *pgstore.Figures) float64 {
				if f.Up {
					return 1
				}
				return 0
			}),
		value("petrel_database_partitions", "Partitions that the database holds.",
			func(f *pgstore.Figures) float64 { return float64(f.Partitions) }),
		value("petrel_database_feeds_owned", "Feeds of the partitions in this database that this node owns.",
			func(*pgstore.Figures) float64 { return float64(a.ownedIn(i)) }),
		value("petrel_database_commits_total", "Commits of this node in this database.",
			func(f *pgstore.Figures) float64 { return float64(f.Commits) }),
		value("petrel_database_statements_total",
			"SQL statements that carried the commits. One statement can carry commits of several feeds.",
			func(f *pgstore.Figures) float64 { return float64(f.Statements) }),
		value("petrel_database_statement_seconds_total",
			"Time that this node waited for the SQL statements that carry commits.",
			func(f *pgstore.Figures) float64 { return f.Busy.Seconds() }),
		value("petrel_database_statements_unknown_total",
			"SQL statements with commits whose outcome is unknown, because the connection was lost before the answer.",
			func(f *pgstore.Figures) float64 { return float64(f.Unknown) }),
		value("petrel_database_generation",
			"Generation of the database that this node uses. It rises by one when a failover is noticed.",
			func(f *pgstore.Figures) float64 { return float64(f.Generation) }),
		value("petrel_database_refused_total",
			"Connections that this node refused, because the database has a lower generation than is known.",
			func(f *pgstore.Figures) float64 { return float64(f.Refused) }),
		value("petrel_database_values_damaged_total",
			"Values that this node read and that do not have the checksum with which each was stored.",
			func(f *pgstore.Figures) float64 { return float64(f.Damaged) }),
	}
}

// ownedIn counts the feeds of a database's partitions that this node owns.
func (a *App) ownedIn(database int) (n int) {
	for _, ow := range a.convs.Owners() {
		if a.store.databases.Holds(database, ow.Feed()) {
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

// nodeVersions returns the nodes as this one sees them.
func (a *App) nodeVersions() []nodeVersion {
	list := []nodeVersion{}
	if a.node.cluster == nil {
		n := a.stateAlone().Nodes[0]
		return append(list, nodeVersion{Node: n.Node, Roles: "gateway,conv,api", Version: n.Version, Alive: true,
			Partitions: int(n.Owned)})
	}
	for _, n := range a.node.cluster.Status().Nodes {
		list = append(list, nodeVersion{
			Node: string(n.Node), Roles: n.Roles.String(), Version: n.Release, Alive: n.Alive, Draining: n.Draining,
			Partitions: len(n.Feeds), LagMs: n.Silent.Milliseconds(),
		})
	}
	return list
}
