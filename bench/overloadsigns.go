package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

// An overloaded run looks fast: work that the server puts off costs it nothing. So the report names each of
// these bounds that the run exceeds.
const (
	lateAfter    = 10 * time.Millisecond // the generator notices a message that is due
	lateShare    = 0.05                  // of all messages
	backlogShare = 0.05                  // of what was offered, and was not accepted in the window
	backlogTime  = 0.1                   // s; what is under way at the end is no backlog
	// of the mean time to an ack, from the first quarter of the window to the last
	growthFactor  = 2
	growthAtLeast = 20 * time.Millisecond
)

// overloaded returns the signs that the run was too much for the server or the generator.
func (r *run) overloaded() (why []string) {
	if r.p.inTasks() && r.p.traffic() != people {
		return nil // the load comes in bursts, and what is put off is sent again
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
	away := 0.0 // seconds: what was due while the server was away is sent when it is back, and no overload
	if rep.Kills != nil {
		away = rep.Kills.SilentLongest / 1000
	}
	if planned := r.p.lasts(); r.p.counted() && planned > 0 &&
		rep.Seconds > planned*(1+backlogShare)+longestPause(&r.p)+away+1 {
		why = append(why, fmt.Sprintf("all was due within %.0f s and took %.0f s", planned, rep.Seconds))
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

// longestPause returns how much later than the mean, in seconds, the last of many clients may be done that
// write at random moments.
func longestPause(p *Params) float64 {
	if len(p.IntervalMS) == 0 {
		return 0
	}
	low, high := p.IntervalMS[0]/1000, p.IntervalMS[1]/1000
	// the first message, and five deviations of the others
	return high + 5*(high-low)/math.Sqrt(12)*math.Sqrt(float64(p.quota()))
}
