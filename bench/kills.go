package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A run whose server is killed again and again while it sends (--kill-every). Its connections
// come back as in a storm: what has no answer is sent again under the same ids, and what was
// missed is read.

// Kills are what kills of the server have done to a run.
type Kills struct {
	Each          []Kill  `json:"each"`
	SilentMedian  float64 `json:"silent_median_ms"` // of each
	SilentLongest float64 `json:"silent_longest_ms"`
	SentAgain     uint64  `json:"sent_again"`  // sends that were made once more under the same ids: they had no answer when their connection ended, or were put off
	AskedAgain    uint64  `json:"asked_again"` // syncs and pages of history that the server put off when all came back, each of which was asked for again
	PutOff        uint64  `json:"put_off"`     // open loop: messages that were due and not sent when their sender came back. They leave late, and their latency begins when they were due
}

// Kill is one kill with SIGKILL, after which the server was started again.
type Kill struct {
	At     float64 `json:"at_s"`      // in seconds since the first message, as in the series
	Back   float64 `json:"back_ms"`   // until all connections were back
	Silent float64 `json:"silent_ms"` // for so long no send was acked: from the last ack before it to the first one after it. 0: less than shortestSilence
	Again  uint64  `json:"again"`     // tries to connect that failed, each of which was made again
}

// shortestSilence is how long no ack comes before that is noted.
const shortestSilence = 50 * time.Millisecond

// span is a time of the generator's clock, in ns.
type span struct{ from, to int64 }

// killed is a kill, and how long it took until all were back.
type killed struct {
	span
	again uint64
}

// killer kills the server of a run again and again.
type killer struct {
	*storm
	due   <-chan time.Time // when the next kill is; nil: there is none
	ended <-chan struct{}  // closed when the server has ended by itself; nil with due
	stop  func()           // has nobody come back any more
}

// begin waits for the first kill, if there are to be any.
func (k *killer) begin(ctx context.Context, r *run) {
	if r.p.KillS > 0 {
		k.storm, k.stop = r.bringBack(ctx)
		k.wait(time.Now())
	}
}

// wait waits for the next kill, after one at a moment.
func (k *killer) wait(last time.Time) {
	k.due, k.ended = time.After(time.Until(last.Add(seconds(k.p.KillS)))), k.nodes[0].ended
}

// owes tells whether a run that is long enough for a kill had none: the machine may stand
// still when it is due.
func (k *killer) owes() bool {
	return k.due != nil && len(k.killed) == 0 && k.p.KillS < k.p.lasts()
}

// end ends the kills. It may be called again, and without a begin.
func (k *killer) end() {
	if k.due, k.ended = nil, nil; k.stop != nil {
		k.stop()
	}
}

// died is the error of a server that nobody has killed.
func (k *killer) died() error {
	c := k.nodes[0]
	return fmt.Errorf("the server has ended by itself: %w\n%s", c.err, c.log.String())
}

// kill kills the server, starts it again and returns when all are back. It puts a kill off until
// a send was acked, after the last kill: a server that is killed before it answers gets nowhere.
func (k *killer) kill(ctx context.Context) error {
	began, at := time.Now(), k.gen.now()
	since := k.gen.started + 1 // lastAck begins there
	if n := len(k.killed); n > 0 {
		since = k.killed[n-1].to
	}
	if k.gen.lastAck.Load() < since {
		k.due = time.After(shortestSilence)
		return nil
	}
	task, err := k.once(ctx, len(k.killed)+1)
	if err != nil {
		return err
	}
	k.killed = append(k.killed, killed{span{at, k.gen.now()}, task.Again})
	k.say("kill %d: all back after %.2f s", task.Size, task.Seconds)
	k.wait(began)
	return nil
}

// kills says what the kills of the run have done. The generator has ended.
func (r *run) kills() *Kills {
	if r.p.KillS == 0 {
		return nil
	}
	g := r.gen
	silences := g.silences
	if g.unanswered > 0 { // the last one has no end
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
		all.Each = append(all.Each, Kill{At: round(float64(k.from-g.started)/1e9, 1000), Back: round(ms(k.to-k.from), 10), Silent: silent[len(silent)-1], Again: k.again})
	}
	if slices.Sort(silent); len(silent) > 0 {
		all.SilentMedian, all.SilentLongest = silent[len(silent)/2], silent[len(silent)-1]
	}
	return all
}

// text writes the kills for people.
func (k *Kills) text(line func(name, format string, args ...any)) {
	line("killed", "%d times, with SIGKILL: no send was acked for %.2f s in the median, %.2f s at most", len(k.Each), k.SilentMedian/1000, k.SilentLongest/1000)
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
		line("", "%s syncs and pages of history were put off when all came back, and asked for again", count(float64(k.AskedAgain)))
	}
	if k.PutOff > 0 {
		line("", "%s messages were due while their senders were away, and left late; their latency has all of it, and it counts as no overload", count(float64(k.PutOff)))
	}
}
