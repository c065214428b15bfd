package app

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/internal/gateway"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/metrics"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/web"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// newAPI makes the services.
func (a *App) newAPI() *api.Server {
	return api.New(api.Options{
		Shared: len(a.store.Feeds()) > 1, // an embedded store has one, and no other node
		Log:    a.log, Store: a.store, Users: a.users, Convs: a.convs, Route: a.router, Inbox: a.sync, Reads: a.reads, Calls: a.calls, Pace: a.pace, Turns: a.turns, Stored: a.stored, Audit: a.audit,
		CloseUser: a.hub.CloseUser, CloseDevice: a.hub.CloseDevice, Sessions: a.hub.SessionsOf, PresenceChanged: a.presence.PolicyChanged, Settle: a.router.AwaitInboxes,
		Limits:       func() *petrelv1.ServerLimits { return toMessage(a.hub.Limits()) },
		Stats:        a.stats,
		CompactStore: a.compact,
		Checkpoint:   a.checkpoint,
		Redeemed: func() {
			a.redeemed.Store(true)
			if err := removeFile(filepath.Join(a.cfg.Store.Dir, setupFile)); err != nil {
				a.log.Warn("remove setup link failed", "err", err)
			}
		},
		BodyBytes:     func() int { return a.hub.Limits().BodyBytes },
		PageSize:      func() int { return int(a.cfg.Limits.HistoryMessages) },
		GroupsPerHour: int(a.cfg.Limits.GroupsPerH), MembersPerMinute: int(a.cfg.Limits.MembersPerMin), StrangersPerSecond: int(a.cfg.Limits.AnonymousCallsPerIPPerS),
		UnderWayBytes: int(a.budgets.Calls), Pressed: a.pressed.Load,
		Followers: min(32, a.files.Admin/2), // other calls need connections too
		Cluster:   a.operations(),
		Console:   a.consoleOf(),
		Refused:   a.noteCallRefused,
		Node:      string(a.node.bus.Self()), Version: a.o.Version,
		CallsOnly: !a.node.has(cluster.API),
		Ready:     func() bool { return a.notReady() == "" },
		Stopping:  func() bool { return a.draining.Load() && a.hub.Draining() }, // after the feeds are handed over
		BackEnds:  func() bool { return a.live.Load().Listen.BackEnds },
	})
}

// pages are those that both HTTP listeners have.
func (a *App) pages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, map[string]any{"ok": true}) })
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr) // as the proxies on the way have named it
		reply(w, http.StatusOK, map[string]any{
			"version": a.o.Version, "go": runtime.Version(), "protocol": map[string]int{"min": session.Version, "max": session.Version}, "nodes": a.nodeVersions(),
			"client": client, "host": r.Host,
		})
	})
	return mux
}

// publicHandler is everything on listen.http but the WebSocket.
func (a *App) publicHandler() http.Handler {
	mux := a.pages()
	mux.HandleFunc(gateway.Path, func(w http.ResponseWriter, _ *http.Request) { // it comes here when the gateway leaves it
		reply(w, http.StatusNotFound, map[string]any{"code": im.CodeNoMethod, "message": "this node takes no connections of clients: it has not the role gateway"})
	})
	if a.site != nil {
		a.site.Register(mux)
	}
	if a.console != nil {
		web.RedirectConsole(mux, a.adminURL)
	}
	return a.api.Handler(api.Public, mux)
}

// adminHandler is everything on listen.admin.
func (a *App) adminHandler() http.Handler {
	mux := a.pages()
	a.console.Register(mux)
	if a.cfg.Metrics.Enabled {
		mux.Handle("GET /metrics", a.guardMetrics(metrics.Handler(metrics.Set{
			Values: slices.Concat(a.values(), a.clusterValues(), a.reloadValues()), Times: a.times(), Counts: a.counts(),
		})))
	}
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace, "symbol": pprof.Symbol} {
		mux.Handle("GET /debug/pprof/"+path, a.api.RequireKey(h))
	}
	return a.api.Handler(api.Inside, mux)
}

// behind is why a database must not be used.
func (a *App) behind() error {
	if a.databases == nil {
		return nil
	}
	return a.databases.Behind()
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone otherwise
}

func (a *App) guardMetrics(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := a.live.Load().Metrics.Token
		if token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (a *App) values() []metrics.Value {
	return slices.Concat(a.ownValues(), a.memoryValues(), a.auditValues(), a.logValues())
}

func (a *App) logValues() []metrics.Value {
	if a.o.LogDropped == nil {
		return nil
	}
	return []metrics.Value{{
		Name: "petrel_log_lines_dropped_total", Help: "Lines of the log that were dropped, because the reader of the log was too slow or its disk full.", Counter: true,
		Read: func() float64 { return float64(a.o.LogDropped()) },
	}}
}

func (a *App) ownValues() []metrics.Value {
	count := func(f func() uint64) func() float64 { return func() float64 { return float64(f()) } }
	return []metrics.Value{
		{Name: "petrel_entries_stored_total", Help: "Entries that this node made durable.", Counter: true, Read: count(a.convs.Accepted)},
		{Name: "petrel_sends_repeated_total", Help: "Sends that were stored already and were answered with the first seq.", Counter: true, Read: count(a.convs.Repeats)},
		{Name: "petrel_events_delivered_total", Help: "Events that were put into outboxes.", Counter: true, Read: count(func() uint64 { return a.convs.Fanned().Delivered })},
		{Name: "petrel_signals_dropped_total", Help: "Signals that reached nobody, because there were too many, or because the store did not confirm which node owns the conversation.", Counter: true, Read: count(a.convs.SignalsDropped)},
		{Name: "petrel_presence_watched_users", Help: "Users whose presence sessions of this node watch.", Read: func() float64 { return float64(a.presence.Watching.Load()) }},
		{Name: "petrel_presence_told_total", Help: "Presences that were put into outboxes.", Counter: true, Read: count(a.presence.Told.Load)},
		{Name: "petrel_presence_dropped_total", Help: "Times of being online last that were not stored.", Counter: true, Read: count(a.presence.Dropped.Load)},
		{Name: "petrel_events_hinted_total", Help: "Events of which a session got only a hint.", Counter: true, Read: count(func() uint64 { return a.convs.Fanned().Hinted })},
		{Name: "petrel_events_lagged_total", Help: "Events that did not fit the outbox of a session, which has to sync.", Counter: true, Read: count(func() uint64 { return a.convs.Fanned().Lagged })},
		{Name: "petrel_commits_stale_total", Help: "Commits that the store refused, because another node had taken the feed over.", Counter: true, Read: count(a.convs.AppendsRefused)},
		{Name: "petrel_feeds_owned", Help: "Feeds that this node owns. The embedded store has one feed; PostgreSQL has one for each of the 256 partitions.", Read: func() float64 { return float64(len(a.convs.Owners())) }},
		{Name: "petrel_commits_total", Help: "Commits that this node made. One commit carries the sends that were waiting together.", Counter: true, Read: func() float64 { return float64(a.store.Stats().Commits) }},
		{Name: "petrel_checkpoints_total", Help: "Checkpoints that were made for backups of the embedded store.", Counter: true, Read: func() float64 { return float64(a.store.Stats().Checkpoints) }},
		{Name: "petrel_store_disk_bytes", Help: "Bytes that the store takes on disk.", Read: func() float64 { return float64(a.store.Stats().DiskBytes) }},
		{Name: "petrel_disk_free_bytes", Help: "Free bytes on the disk of store.dir. Below store.min_free the embedded store refuses sends.", Read: func() float64 {
			u, err := vfs.Default.GetDiskUsage(a.cfg.Store.Dir)
			if err != nil {
				return math.NaN()
			}
			return float64(u.AvailBytes)
		}},
		{Name: "petrel_build_info", Help: "1, with the version of the server and of Go.", Labels: map[string]string{"version": a.o.Version, "go": runtime.Version()}, Read: func() float64 { return 1 }},
		{Name: "petrel_disk_bytes", Help: "Size of the disk of store.dir in bytes.", Read: func() float64 {
			u, err := vfs.Default.GetDiskUsage(a.cfg.Store.Dir)
			if err != nil {
				return math.NaN()
			}
			return float64(u.TotalBytes)
		}},
		{Name: "petrel_store_writable", Help: "1 while the store takes writes, else 0.", Read: func() float64 {
			if a.store.Writable() != nil {
				return 0
			}
			return 1
		}},
		{Name: "petrel_store_mark_failures_total", Help: "Times that the file of store.mark could not be written.", Counter: true, Read: count(a.markFailures)},
		{Name: "petrel_store_damage_met_total", Help: "Times that a read, a compaction or the scrub met damaged data in the store.", Counter: true, Read: func() float64 { return float64(a.store.Stats().DamageMet) }},
		{Name: "petrel_store_damaged_places", Help: "Places of the store that cannot be read. The page /readyz names each, and petrel repair ends this.", Read: func() float64 { return float64(len(a.store.Stats().Damage)) }},
		{Name: "petrel_store_scrub_time_seconds", Help: "When the scrub last ended a pass over the whole store, Unix time; 0: never.", Read: func() float64 { return float64(a.store.Stats().ScrubMs) / 1000 }},
		{Name: "petrel_store_scrub_bytes_total", Help: "Bytes that the scrub has read.", Counter: true, Read: func() float64 { return float64(a.store.Stats().ScrubBytes) }},
		{Name: "petrel_store_scrub_found_total", Help: "Damaged files that the scrub has found.", Counter: true, Read: func() float64 { return float64(a.store.Stats().ScrubFound) }},
		{Name: "petrel_ready", Help: "1 while /readyz says that the server is ready, else 0.", Read: func() float64 {
			if a.notReady() != "" {
				return 0
			}
			return 1
		}},
		{Name: "petrel_commits_refused_total", Help: "Commits of this node that the store did not take, or whose outcome is unknown.", Counter: true, Read: count(func() uint64 { _, n := a.convs.Commits(); return n })},
		{Name: "petrel_connections", Help: "Connections of clients.", Read: func() float64 { return float64(a.gateway.Stats().Connections) }},
		{Name: "petrel_connections_limit", Help: "Most connections of clients: limits.connections, or what the limit of open files allows.", Read: func() float64 { return float64(a.hub.Limits().Connections) }},
		{Name: "petrel_inbox_resets_total", Help: "Times that feed entries with changes of membership were trimmed before the inboxes had taken the changes.", Counter: true, Read: count(a.inboxes.Resets)},
		{Name: "petrel_inboxes_behind_seconds", Help: "Age of the oldest change of membership that is not in the lists of conversations yet, in seconds. Beyond 30 s no conversation begins.", Read: func() float64 {
			lag, _ := a.convs.InboxLag()
			return lag.Seconds()
		}},
		{Name: "petrel_sessions", Help: "Sessions that are online on this node.", Read: func() float64 { return float64(a.hub.Sessions.Load()) }},
		{Name: "petrel_hellos_refused_total", Help: "Hellos that were refused.", Counter: true, Read: count(a.hub.Refused.Load)},
		{Name: "petrel_sends_waiting", Help: "Sends that are not answered yet.", Read: func() float64 { return float64(a.waiting()) }},
		{Name: "petrel_overviews_followed", Help: "Callers of GetOverview that are answered each second, such as a console that somebody looks at.", Read: func() float64 { return float64(a.api.Followers()) }},
		{Name: "petrel_reads_waiting", Help: "Syncs, pages of history and other reads that wait for a worker.", Read: func() float64 { return float64(a.reads.Waiting()) }},
		{Name: "petrel_cursor_moves_waiting", Help: "Moves of cursors that are not answered yet.", Read: func() float64 { return float64(a.convs.MovesWaiting()) }},
		{Name: "petrel_note_changes_waiting", Help: "Reactions and pins that are not answered yet.", Read: func() float64 { return float64(a.convs.NoteChangesWaiting()) }},
		{Name: "petrel_conversations_loaded", Help: "Conversations that are in memory.", Read: func() float64 { return float64(a.convs.Loaded()) }},
		{Name: "petrel_conversations_evicted_total", Help: "Conversations that left memory to make room for others.", Counter: true, Read: count(a.convs.Evicted)},
	}
}

// stats are the totals of GetStats.
func (a *App) stats() *petrelv1.Stats {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	var use syscall.Rusage
	cpu := 0.0
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) == nil {
		cpu = float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
	}
	st, fanned := a.store.Stats(), a.convs.Fanned()
	return &petrelv1.Stats{
		CpuS: cpu, RssBytes: residentBytes(), HeapBytes: mem.HeapInuse, Connections: uint64(max(0, a.hub.Sessions.Load())),
		Accepted: a.convs.Accepted(), Delivered: fanned.Delivered, Lagged: fanned.Lagged,
		Commits: st.Commits, DiskBytes: st.DiskBytes, TableBytes: st.TableBytes,
	}
}

// residentBytes is this process's resident memory; 0 where the system does not
// tell.
func residentBytes() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// limits maps the configuration to the hub's limits.
func limits(l *config.Limits, f *Files) session.Limits {
	return session.Limits{
		Connections: f.connections(l.Connections), ConnectionsPerUser: int(l.ConnectionsPerUser), ConnectionsPerIP: int(l.ConnectionsPerIP),
		NewPerIPPerSecond: int(l.NewConnectionsPerIPPerS), Unauthenticated: int(l.Unauthenticated), UnauthenticatedPerIP: int(l.UnauthenticatedPerIP),
		SendsPerSecond: int(l.SendsPerS), SendBurst: int(l.SendBurst), WindowSends: int(l.WindowSends), WindowBytes: int(l.WindowBytes), OutboxBytes: int(l.OutboxBytes),
		FrameBytesBeforeHello: int(l.HelloFrameBytes), BodyBytes: int(l.BodyBytes), HistoryMessages: int(l.HistoryMessages),
	}
}

func toMessage(l *session.Limits) *petrelv1.ServerLimits {
	return &petrelv1.ServerLimits{
		Connections: int64(l.Connections), ConnectionsPerUser: int64(l.ConnectionsPerUser), ConnectionsPerIp: int64(l.ConnectionsPerIP),
		NewConnectionsPerIpPerS: int64(l.NewPerIPPerSecond), Unauthenticated: int64(l.Unauthenticated), UnauthenticatedPerIp: int64(l.UnauthenticatedPerIP),
		SendsPerS: int64(l.SendsPerSecond), SendBurst: int64(l.SendBurst), WindowSends: int64(l.WindowSends), WindowBytes: int64(l.WindowBytes), OutboxBytes: int64(l.OutboxBytes),
	}
}

// changeLimits takes over what is not 0 in m on this node, and says what that has changed.
func (a *App) changeLimits(m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	a.limitsMu.Lock()
	defer a.limitsMu.Unlock()
	r := a.previewLimits(m)
	a.hub.SetLimits(a.limitsWith(m))
	return r
}

// previewLimits says what changeLimits would change.
func (a *App) previewLimits(m *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
	now := a.hub.Limits()
	l := a.limitsWith(m)
	before, after := toMessage(now).ProtoReflect(), toMessage(&l).ProtoReflect()
	r := &petrelv1.PreviewLimitsResponse{}
	fields := before.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		from, to := before.Get(f).Int(), after.Get(f).Int()
		if from == to {
			continue
		}
		text := "for new connections and requests, from now until the next start"
		if f.Name() == "connections" && to >= 0 && int64(a.gateway.Stats().Connections) > to {
			text = fmt.Sprintf("%d connections are open: they stay, and no new one gets in until there are fewer", a.gateway.Stats().Connections)
		}
		r.Changes = append(r.Changes, &petrelv1.LimitChange{Name: string(f.Name()), From: from, To: to, Text: text})
	}
	return r
}

// limitsWith are the limits with what is not 0 in m.
func (a *App) limitsWith(m *petrelv1.ServerLimits) session.Limits {
	l := *a.hub.Limits()
	set := func(to *int, n int64) {
		if n != 0 {
			*to = int(max(n, -1))
		}
	}
	if m.Connections != 0 {
		l.Connections = a.files.connections(m.Connections)
	}
	set(&l.ConnectionsPerUser, m.ConnectionsPerUser)
	set(&l.ConnectionsPerIP, m.ConnectionsPerIp)
	set(&l.NewPerIPPerSecond, m.NewConnectionsPerIpPerS)
	set(&l.Unauthenticated, m.Unauthenticated)
	set(&l.UnauthenticatedPerIP, m.UnauthenticatedPerIp)
	set(&l.SendsPerSecond, m.SendsPerS)
	set(&l.SendBurst, m.SendBurst)
	set(&l.WindowSends, m.WindowSends)
	set(&l.WindowBytes, m.WindowBytes)
	set(&l.OutboxBytes, m.OutboxBytes)
	return l
}
