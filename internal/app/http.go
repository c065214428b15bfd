package app

import (
	"crypto/subtle"
	"encoding/json"
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
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/cluster"
	"github.com/petrel-im/petrel/internal/gateway"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/metrics"
	"github.com/petrel-im/petrel/internal/report"
	"github.com/petrel-im/petrel/internal/session"
	"github.com/petrel-im/petrel/internal/web"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// newAPI makes the services.
func (a *App) newAPI() *api.Server {
	return api.New(api.Options{
		Shared: a.shared(),
		Log:    a.log, Store: a.store.Store, Users: a.users, Operators: a.staff, Convs: a.convs, Route: a.router,
		Inbox: a.sync, Reports: report.New(a.store.Store, nil),
		Reads: a.reads, Calls: a.calls, Pace: a.pace, Turns: a.turns, Stored: a.stored,
		Audit:     a.audit,
		CloseUser: a.hub.CloseUser, Announce: a.hub.Announce, CloseDevice: a.hub.CloseDevice,
		Sessions:    a.hub.SessionsOf,
		UserChanged: a.presence.UserChanged, Settle: a.router.AwaitInboxes,
		Limits:       func() *petrelv1.ServerLimits { return toMessage(a.hub.Limits()) },
		Stats:        a.stats,
		CompactStore: a.store.compact,
		Checkpoint:   a.store.checkpoint,
		Redeemed: func() {
			a.redeemed.Store(true)
			if err := removeFile(filepath.Join(a.cfg.Store.Dir, setupFile)); err != nil {
				a.log.Warn("remove setup link failed", "err", err)
			}
		},
		BodyBytes:     func() int { return a.hub.Limits().BodyBytes },
		PageSize:      func() int { return int(a.cfg.Limits.HistoryMessages) },
		GroupsPerHour: int(a.cfg.Limits.GroupsPerH), MembersPerMinute: int(a.cfg.Limits.MembersPerMin),
		StrangersPerSecond: int(a.cfg.Limits.AnonymousCallsPerIPPerS),
		UnderWayBytes:      int(a.budgets.Calls), Pressed: a.pressed.Load,
		Followers: min(32, a.files.Admin/2), // other calls need connections too
		Cluster:   a.operations(),
		Console:   a.consoleOf(),
		Refused:   a.noteCallRefused,
		Node:      string(a.node.bus.Self()), Version: a.o.Version,
		CallsOnly: !a.node.has(cluster.API),
		Ready:     func() bool { return a.notReady() == "" },
		Stopping:  func() bool { return a.draining.Load() && a.hub.Draining() }, // the feeds are handed over
		BackEnds:  func() bool { return a.live.Load().Listen.BackEnds },
	})
}

// pages returns the pages of both HTTP listeners.
func (a *App) pages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"ok": true})
	})
	mux.HandleFunc("GET /readyz", a.ready)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr) // as the proxies on the way have named it
		reply(w, http.StatusOK, map[string]any{
			"version": a.o.Version, "go": runtime.Version(),
			"protocol": map[string]int{"min": session.Version, "max": session.Version}, "nodes": a.nodeVersions(),
			"client": client, "host": r.Host,
		})
	})
	return mux
}

// publicHandler serves everything on listen.http except the WebSocket.
func (a *App) publicHandler() http.Handler {
	mux := a.pages()
	// without the role gateway, the gateway passes requests for the WebSocket on
	mux.HandleFunc(gateway.Path, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, map[string]any{"code": im.CodeNoMethod,
			"message": "this node takes no connections of clients: it does not have the role gateway"})
	})
	if a.site != nil {
		a.site.Register(mux)
	}
	if a.operators != nil {
		web.RedirectConsole(mux, a.adminURL)
	}
	return a.api.Handler(api.Public, mux)
}

// adminHandler serves everything on listen.admin.
func (a *App) adminHandler() http.Handler {
	mux := a.pages()
	a.operators.Register(mux)
	if a.cfg.Metrics.Enabled {
		mux.Handle("GET /metrics", a.guardMetrics(metrics.Handler(metrics.Set{
			Values: slices.Concat(a.values(), a.clusterValues(), a.reloadValues()), Times: a.times(),
			Counts: a.counts(),
		})))
	}
	for path, h := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "trace": pprof.Trace,
		"symbol": pprof.Symbol} {
		mux.Handle("GET /debug/pprof/"+path, a.api.RequireKey(h))
	}
	return a.api.Handler(api.Inside, mux)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client is gone
}

func (a *App) guardMetrics(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := a.live.Load().Metrics.Token
		if token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")),
			[]byte("Bearer "+token)) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// stats returns the figures for GetStats.
func (a *App) stats() *petrelv1.Stats {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	st, fanned := a.store.Stats(), a.convs.Fanned()
	return &petrelv1.Stats{
		CpuS: cpuTime().Seconds(), RssBytes: residentBytes(), HeapBytes: mem.HeapInuse,
		Connections: uint64(max(0, a.hub.Sessions.Load())),
		Accepted:    a.convs.Accepted(), Delivered: fanned.Delivered, Lagged: fanned.Lagged,
		Commits: st.Commits, DiskBytes: st.DiskBytes, TableBytes: st.TableBytes,
	}
}

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &use) != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// disk returns the usage of the disk of store.dir; zero: not known.
func (a *App) disk() vfs.DiskUsage {
	u, err := vfs.Default.GetDiskUsage(a.cfg.Store.Dir)
	if err != nil {
		return vfs.DiskUsage{}
	}
	return u
}

// residentBytes returns this process's resident memory; 0 where the system does not report it.
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
