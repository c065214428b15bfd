package bench

import (
	"fmt"
	"slices"
)

// Check is one criterion of a counted run, modelled on the tests of WildfireChat: messages are counted exactly, the
// server is idle soon after the end, and the CPU time that it uses is steady.
type Check struct {
	Name string  `json:"name"` // a key of checkTexts
	Want float64 `json:"want"`
	Got  float64 `json:"got"`
	OK   bool    `json:"ok"`
}

// checkTexts describe the checks.
var checkTexts = map[string]string{
	"acked":     "messages are acked, as many as were to be sent",
	"stored":    "messages are in the histories, each once",
	"delivered": "messages have reached their receivers",
	"watcher":   "messages have reached the receiver that watches",
	"idle":      "cores at most are in use 5 s after the end",
	"steady":    "of the median of the server's CPU is used in at least 9 of 10 seconds",
}

func (c Check) String() string {
	return fmt.Sprintf("%s %s, found %s", number(c.Want), checkTexts[c.Name], number(c.Got))
}

// FailedCheck is the error of a check that was not met.
type FailedCheck struct{ Check }

func (f FailedCheck) Error() string { return "a check has failed: " + f.String() }

const (
	steadyShare   = 0.5
	steadySeconds = 20 // least number of whole seconds of load for the check
)

// checks returns the checks of a counted run. mine is the number of messages of the run that were found in the
// histories.
func (r *run) checks(mine uint64) (all []Check) {
	p, g := &r.p, r.gen
	exact := func(name string, want, got uint64) {
		all = append(all, Check{name, float64(want), float64(got), want == got})
	}
	planned := uint64(p.planned())
	if p.Scenario == Cluster {
		planned *= 2 // the warm-up sends as much
	}
	exact("acked", planned, g.tally.accepted)
	if p.offline() {
		exact("stored", planned, g.tally.delivered) // pushed to the watcher, or read by the others
	} else {
		exact("stored", planned, mine)
		receivers := uint64(1)
		if p.traffic() == groups {
			receivers = uint64(p.Members - 1)
		}
		exact("delivered", planned*receivers, g.tally.delivered)
	}
	for _, c := range g.conns[p.Senders : p.Senders+p.watchers()] {
		exact("watcher", uint64(p.Senders*p.Rounds), c.got)
	}
	if r.own() && p.Scenario != Cluster && p.pause == 0 {
		limit := idleCPU * float64(len(r.nodes))
		all = append(all, Check{"idle", limit, round(r.stillBusy, 100), r.stillBusy <= limit})
	}
	if share, ok := r.steady(); ok {
		all = append(all, Check{"steady", steadyShare, share, share >= steadyShare})
	}
	return all
}

// steady returns the CPU that a second used at the 10th percentile, as a share of the median. ok is false if the
// run was too short, or its load uneven.
func (r *run) steady() (share float64, ok bool) {
	var used []float64
	// whole seconds of load
	from, to := float64(r.gen.begin.at-r.gen.started)/1e9+1, float64(r.sent-r.gen.started)/1e9-1
	for _, s := range r.report.Series {
		if s.At > from && s.At < to {
			used = append(used, s.Servers.CPU+s.Servers.PostgresCPU)
		}
	}
	// with random pauses and with kills the load is uneven
	if len(used) < steadySeconds || len(r.p.IntervalMS) > 0 || r.p.KillS > 0 {
		return 0, false
	}
	slices.Sort(used)
	return round(used[len(used)/10]/used[len(used)/2], 100), true
}
