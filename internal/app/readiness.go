package app

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// refusing tells whether the store refuses most commits of this node. A database whose
// disk is full still answers, so the store counts as writable, but each send is refused.
//
// It turns red when most commits of the last window seconds were refused, at least minFaults of them and in
// more than one of these seconds. So a single error changes nothing. It turns green when in a whole window none
// was refused and some were taken. If nobody sends any more, it turns green quietTime after the last refusal,
// because only a send can show whether the fault is over.
type refusing struct {
	every          time.Duration // from tick to tick; 0: a second
	taken, refused uint64        // as counted at the last tick
	recent         [window]tally
	at             int
	quiet          int // ticks since the last refusal
	red            atomic.Bool
}

// tally has the outcomes of the commits of one tick.
type tally struct{ taken, refused uint64 }

const (
	window    = 5  // ticks that decide
	minFaults = 3  // refusals in them, at least
	quietTime = 30 // ticks
)

// observe notes the counters at a tick, and tells whether red has changed.
func (r *refusing) observe(taken, refused uint64) (changed bool) {
	r.recent[r.at] = tally{taken - r.taken, refused - r.refused}
	r.taken, r.refused = taken, refused
	if r.quiet++; r.recent[r.at].refused > 0 {
		r.quiet = 0
	}
	r.at = (r.at + 1) % window
	var sum tally
	seconds := 0
	for _, t := range r.recent {
		sum.taken, sum.refused = sum.taken+t.taken, sum.refused+t.refused
		if t.refused > 0 {
			seconds++
		}
	}
	red := r.red.Load()
	switch {
	case !red:
		red = sum.refused >= minFaults && sum.refused > sum.taken && seconds > 1
	case sum.refused == 0 && sum.taken > 0, r.quiet >= quietTime:
		red = false
	}
	return r.red.Swap(red) != red
}

// watchCommits updates a.refusing until ctx ends.
func (a *App) watchCommits(ctx context.Context) error {
	t := time.NewTicker(cmp.Or(a.refusing.every, time.Second))
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil
		}
		switch changed, red := a.refusing.observe(a.convs.Commits()), a.refusing.red.Load(); {
		case changed && red:
			a.log.Error("most commits are refused: the server is not ready")
		case changed:
			a.log.Info("commits are taken again")
		}
	}
}

// notReady returns why the server should get no new clients; "": it should get them.
func (a *App) notReady() string {
	if err := a.store.behind(); err != nil {
		return err.Error()
	}
	switch err := a.store.Writable(); {
	case err != nil:
		return err.Error()
	case a.draining.Load(), a.away.Load(), a.cut.Load():
		return "draining"
	case a.refusing.red.Load():
		return "the store refuses most commits"
	}
	return ""
}

// ready answers 503 while the server should get no new clients, and otherwise 200; then degraded tells of
// damage in the store, or of inboxes that lag. Spec: P-10.5.
func (a *App) ready(w http.ResponseWriter, _ *http.Request) {
	if reason := a.notReady(); reason != "" {
		reply(w, http.StatusServiceUnavailable, map[string]any{"ready": false, "reason": reason})
		return
	}
	// One damaged block concerns a few conversations: the server stays in service.
	if d := a.store.Stats().Damage; len(d) > 0 {
		reply(w, http.StatusOK, map[string]any{"ready": true, "degraded": true, "damage": d,
			"fix": "stop the server and run petrel repair"})
		return
	}
	if lag, limit := a.convs.InboxLag(); lag > limit {
		reply(w, http.StatusOK, map[string]any{"ready": true, "degraded": true, "inboxes_behind_s": lag.Seconds()})
		return
	}
	reply(w, http.StatusOK, map[string]any{"ready": true})
}

// announceWhenReady announces the server as soon as /readyz says that it is ready. If it came earlier, a
// program that waits for the announcement would send to a server that takes nothing.
func (a *App) announceWhenReady(ctx context.Context) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	last := ""
	for {
		reason := a.notReady()
		if reason == "" {
			a.announce()
			return nil
		}
		if reason != last {
			a.log.Warn("server listens, but is not ready yet", "reason", reason)
			last = reason
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// goodbyeTime bounds the notice to the clients of a store that has failed.
const goodbyeTime = 500 * time.Millisecond

// sayGoodbye tells the clients that this server ends because its store has failed, and
// waits for the end of the gateway, for goodbyeTime at most. The server takes no more sends
// and answers none of the waiting ones: their outcome is unknown. Spec: P-1.6, P-9.3.
func (a *App) sayGoodbye(stopServing func(), served <-chan struct{}) {
	a.draining.Store(true)
	n := a.hub.SendAway()
	stopServing()
	select {
	case <-served:
		a.log.Info("clients were sent away", "sessions", n)
	case <-time.After(cmp.Or(a.goodbye, goodbyeTime)):
		a.log.Warn("some clients did not close in time", "sessions", n)
	}
}
