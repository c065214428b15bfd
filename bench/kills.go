package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file kills the server of a run again and again while it sends (--kill-every). Connections come back as in
// a storm: they send unanswered messages again under the same ids, and read missed messages.

// Kills are what kills of the server have done to a run.
type Kills struct {
	Each          []Kill  `json:"each"`
	SilentMedian  float64 `json:"silent_median_ms"` // median of Kill.Silent
	SilentLongest float64 `json:"silent_longest_ms"`
	// sends that were made once more under the same ids: they had no answer when their connection ended, or were put
	// off
	SentAgain uint64 `json:"sent_again"`
	// syncs and pages of history that the server put off when all came back, each of which was asked for again
	AskedAgain uint64 `json:"asked_again"`
	// open loop: messages that were due and not sent when their sender came back. They leave late, and their latency
	// begins when they were due
	PutOff uint64 `json:"put_off"`
}

// Kill is one kill with SIGKILL, after which the server was started again.
type Kill struct {
	At   float64 `json:"at_s"`    // in seconds since the load began, as in the series
	Back float64 `json:"back_ms"` // until all connections were back
	// the longest time between two acks that overlaps the time from the kill until all were back; 0: less than
	// shortestSilence
	Silent float64 `json:"silent_ms"`
	Again  uint64  `json:"again"` // tries to connect that failed, each of which was made again
}

// shortestSilence is the shortest time without an ack that is recorded.
const shortestSilence = 50 * time.Millisecond

// span is a stretch of time on the generator's clock, in ns.
type span struct{ from, to int64 }

// killed is a kill: its span lasts until all connections were back.
type killed struct {
	span
	again uint64
}

// killer says when the next kill is due.
type killer struct {
	due   <-chan time.Time // nil: there is no further kill
	ended <-chan struct{}  // closed when the server has ended by itself; nil if due is
}

// nextKill sets the time of the next kill, KillS after the last one. Without KillS it does nothing.
func (r *run) nextKill(last time.Time) {
	if r.p.KillS > 0 {
		r.killer = killer{time.After(time.Until(last.Add(seconds(r.p.KillS)))), r.nodes[0].ended}
	}
}

// kill kills the server, starts it again and returns when all connections are back. If no send was acked since all were
// back from the last kill, it only puts this one off by shortestSilence: otherwise kills could stop all progress.
func (r *run) kill(ctx context.Context) error {
	began, at := time.Now(), r.gen.now()
	since := r.gen.started + 1 // lastAck begins there
	if n := len(r.killed); n > 0 {
		since = r.killed[n-1].to
	}
	if r.gen.lastAck.Load() < since {
		r.killer.due = time.After(shortestSilence)
		return nil
	}
	r.killer = killer{}
	task, err := r.storm.once(ctx, len(r.killed)+1)
	if err != nil {
		return err
	}
	r.killed = append(r.killed, killed{span{at, r.gen.now()}, task.Again})
	r.nextKill(began)
	return nil
}

// kills returns the effects of the kills; nil for a run without any. The generator has ended.
func (r *run) kills() *Kills {
	if r.p.KillS == 0 {
		return nil
	}
	g := r.gen
	silences := g.silences
	if g.unanswered > 0 { // the last silence has no end
		silences = append(silences, span{g.lastAck.Load(), g.now()})
	}
	all := &Kills{Each: []Kill{}, SentAgain: g.sentAgain, PutOff: g.putOff}
	for _, n := range g.asksPutOff {
		all.AskedAgain += n
	}
	var silent []float64
	for _, k := range r.killed {
		longest := int64(0)
		for _, s := range silences {
			if s.to > k.from && s.from < k.to {
				longest = max(longest, s.to-s.from)
			}
		}
		silent = append(silent, round(ms(longest), 10))
		all.Each = append(all.Each, Kill{At: round(float64(k.from-g.started)/1e9, 1000),
			Back: round(ms(k.to-k.from), 10), Silent: silent[len(silent)-1], Again: k.again})
	}
	if slices.Sort(silent); len(silent) > 0 {
		all.SilentMedian, all.SilentLongest = silent[len(silent)/2], silent[len(silent)-1]
	}
	return all
}

// text writes the kills for people.
func (k *Kills) text(line func(name, format string, args ...any)) {
	line("killed", "%d times, with SIGKILL: no send was acked for %.2f s in the median, %.2f s at most", len(k.Each),
		k.SilentMedian/1000, k.SilentLongest/1000)
	var at []string
	for _, one := range k.Each[:min(10, len(k.Each))] {
		at = append(at, fmt.Sprintf("%.1f s", one.At))
	}
	if more := len(k.Each) - len(at); more > 0 {
		at = append(at, fmt.Sprintf("and %d times more", more))
	}
	if len(at) > 0 {
		line("", "at %s", strings.Join(at, ", "))
	}
	line("", "%s sends were made again under the same ids", count(float64(k.SentAgain)))
	if k.AskedAgain > 0 {
		line("", "%s syncs and pages of history were put off when all came back, and asked for again",
			count(float64(k.AskedAgain)))
	}
	if k.PutOff > 0 {
		line("", "%s messages were due while their senders were away, and left late; their latency includes the delay, which does not count as overload", count(float64(k.PutOff)))
	}
}
