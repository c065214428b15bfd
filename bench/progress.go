package bench

import (
	"fmt"
	"io"
	"time"
)

// Progress is the state of a run, which it tells about once a second, or a note on a step of it. The rates are means
// since the Progress before.
type Progress struct {
	Phase      string        // what the run is doing
	Elapsed    time.Duration // since the generator began to run; 0 before
	Total      time.Duration // planned, without the drain; 0: not known, so that Draw shows an empty bar
	Offered    float64       // per second, as the other two
	Accepted   float64
	Delivered  float64
	P99        float64 // end to end, ms
	Unanswered int
	Open       int    // connections
	Note       string // instead of the numbers: a step of the run
}

// tell records the second that is over, and offers a Progress. If nobody has taken the last one, the new one is
// dropped.
func (g *generator) tell(now int64) {
	s := g.second(now)
	g.seconds = append(g.seconds, s)
	p := Progress{
		Phase: s.Phase, Elapsed: time.Duration(now - g.started), Offered: s.Offered, Accepted: s.Accepted,
		Delivered: s.Delivered,
		P99:       s.EndToEnd.P99, Unanswered: s.Unanswered, Open: s.Open,
	}
	if len(g.audit.senders) == 0 {
		p.Phase = "idle"
	}
	g.before, g.told = g.tally, now
	select {
	case g.progress <- p:
	default:
	}
}

// Draw returns a function that writes a line to w for each Progress. On a terminal a line of figures replaces the
// one before.
func Draw(w io.Writer, terminal bool) func(Progress) {
	open := false
	return func(p Progress) {
		line := p.Note
		if line == "" {
			line = p.line()
		}
		if !terminal {
			fmt.Fprintln(w, line)
			return
		}
		if p.Note != "" {
			if open {
				fmt.Fprintln(w)
			}
			open = false
			fmt.Fprintln(w, line)
			return
		}
		open = true
		fmt.Fprintf(w, "\r\x1b[K%s %s", p.bar(), line)
	}
}

func (p Progress) line() string {
	if p.Phase == "idle" {
		return fmt.Sprintf("%-7s %4.0fs  %s connections are open", p.Phase, p.Elapsed.Seconds(), count(float64(p.Open)))
	}
	return fmt.Sprintf("%-7s %4.0fs  offered %s/s  accepted %s/s  delivered %s/s  p99 %.2f ms  unanswered %d",
		p.Phase, p.Elapsed.Seconds(), count(p.Offered), count(p.Accepted), count(p.Delivered), p.P99, p.Unanswered)
}

func (p Progress) bar() string {
	const width = 16
	done := 0
	if p.Total > 0 {
		done = min(width, int(float64(width)*p.Elapsed.Seconds()/p.Total.Seconds()))
	}
	const full, empty = "################", "................"
	return "[" + full[:done] + empty[done:] + "]"
}

// count formats a number without digits after the point, with commas between the thousands.
func count(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
