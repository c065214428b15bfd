package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// An overloaded run looks fast, because work that the server puts off costs it nothing. So overloaded names each
// of these bounds that the run exceeds.
const (
	lateAfter    = 10 * time.Millisecond // a message is late if the generator notices it this long after it was due
	lateShare    = 0.05                  // share of all messages that may be late
	backlogShare = 0.05                  // share of the offered messages that need not be accepted in the window
	backlogTime  = 0.1                   // s; messages of the last moments may still be under way
	// growth of the mean time to an ack, from the first quarter of the window to the last
	growthFactor  = 2
	growthAtLeast = 20 * time.Millisecond
)

// overloaded returns the signs that the run was too much for the server or the generator.
func (r *run) overloaded() (why []string) {
	if r.p.inTasks() && r.p.traffic() != people {
		return nil // the load comes in bursts, and clients repeat what the server puts off
	}
	g, rep := r.gen, r.report
	for _, code := range []im.Code{im.CodeOverloaded, im.CodeRateLimited} {
		if n := g.errors[string(code)] - g.asksPutOff[string(code)]; n > 0 {
			why = append(why, fmt.Sprintf("the server put off %s sends as %s", count(float64(n)), code))
		}
	}
	if !r.p.open() {
		return why // a closed loop offers what is accepted
	}
	away := 0.0 // s; messages due in the longest silence after a kill are sent later, and are no overload
	if rep.Kills != nil {
		away = rep.Kills.SilentLongest / 1000
	}
	if planned := r.p.lasts(); r.p.counted() && planned > 0 &&
		rep.Seconds > planned*(1+backlogShare)+slackSeconds(&r.p)+away+1 {
		why = append(why, fmt.Sprintf("the messages were due within %.0f s but took %.0f s", planned, rep.Seconds))
	}
	if left := float64(rep.Offered) - float64(rep.Accepted); left > max(backlogShare*float64(rep.Offered),
		backlogTime*r.p.Rate)+away*r.p.Rate {
		why = append(why, fmt.Sprintf("%s messages were due and %s were accepted, which is %.0f %%",
			count(float64(rep.Offered)), count(float64(rep.Accepted)),
			100*float64(rep.Accepted)/float64(rep.Offered)))
	}
	begin, end := g.ackTime.begin.value(), g.ackTime.end.value()
	if rep.Kills == nil && begin > 0 && end > growthFactor*begin && end-begin > growthAtLeast {
		why = append(why, fmt.Sprintf(
			"the mean time to an ack grew from %v in the first quarter of the run to %v in the last",
			begin.Round(time.Millisecond), end.Round(time.Millisecond)))
	}
	if late := float64(g.end.late - g.begin.late); late > lateShare*float64(rep.Offered) {
		why = append(why, fmt.Sprintf("the load generator was late with %.0f %% of the messages: it needs more CPU",
			100*late/float64(rep.Offered)))
	}
	return why
}

// slackSeconds returns how many seconds after the mean time the last client may be done, if clients write at
// random moments; otherwise 0.
func slackSeconds(p *Params) float64 {
	if len(p.IntervalMS) == 0 {
		return 0
	}
	low, high := p.IntervalMS[0]/1000, p.IntervalMS[1]/1000
	// the pause before the first message, and five standard deviations of the sum of the others
	return high + 5*(high-low)/math.Sqrt(12)*math.Sqrt(float64(p.quota()))
}
