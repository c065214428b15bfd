package bench

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Second is what one second of a run showed. In a run that is planned for more than an hour it is longer than a second.
// A figure that is not known is 0.
type Second struct {
	At         float64     `json:"at_s"`  // its end, in seconds since the load began
	Phase      string      `json:"phase"` // warm-up, measure, drain, or after: a counted run has sent everything
	Offered    float64     `json:"offered_per_s"`
	Accepted   float64     `json:"accepted_per_s"`
	Delivered  float64     `json:"delivered_per_s"`
	Unanswered int         `json:"unanswered"`  // sends on their way at its end
	Open       int         `json:"connections"` // at its end
	Ack        Percentiles `json:"ack_ms"`      // of the sends that were answered in it
	EndToEnd   Percentiles `json:"end_to_end_ms"`
	// end to end: messages by latency, on the rungs of Report.Ladder; after a second with more than 20,000 records
	// of latencies, only every 16th record is counted
	Rungs []int64 `json:"rungs"`

	Servers Usage `json:"servers"`
}

// Usage has the resources that the servers of a run, their database and the generator used in one second.
type Usage struct {
	CPU          float64 `json:"cpu"`           // cores
	PostgresCPU  float64 `json:"postgres_cpu"`  // cores
	GeneratorCPU float64 `json:"generator_cpu"` // cores
	RSSBytes     uint64  `json:"rss_bytes"`
	DiskBytes    uint64  `json:"disk_bytes"` // of the store
	Pauses       float64 `json:"pauses_ms"`  // time for which the garbage collector stopped a server
	// time of one commit, up to the sync of the disk or the answer of the database
	CommitP50 float64 `json:"commit_p50_ms"`
	CommitP99 float64 `json:"commit_p99_ms"`
}

// phaseName returns the name of the phase.
func (g *generator) phaseName() string {
	if g.toldSpent && g.at < draining {
		return "after"
	}
	return [...]string{"warm-up", "measure", "after", "drain"}[g.at]
}

// second returns the second that ends now. It empties the latencies that it has read.
func (g *generator) second(now int64) Second {
	d, t := float64(now-g.told)/1e9, g.tally
	s := Second{
		At:         round(float64(now-g.started)/1e9, 1000),
		Phase:      g.phaseName(),
		Offered:    round(float64(t.offered-g.before.offered)/d, 10),
		Accepted:   round(float64(t.accepted-g.before.accepted)/d, 10),
		Delivered:  round(float64(t.delivered-g.before.delivered)/d, 10),
		Unanswered: g.unanswered, Open: g.open + int(g.coming.Load()),
	}
	s.Ack, _ = g.ackTime.recent()
	s.EndToEnd, s.Rungs = g.endToEnd.recent()
	return s
}

// watch reads the usage of the servers, at the end of each second of the generator.
type watch struct {
	r     *run
	due   chan time.Duration // ends of seconds, since the load began; capacity 1: one that does not fit is left out
	ended chan struct{}
	used  map[time.Duration]Usage // by the end of the second; to be read after stop
	last  reading
}

// reading is the state of the counters at one moment.
type reading struct {
	at                    time.Time
	server, postgres, own float64             // seconds of CPU since the start
	pauses                float64             // seconds
	commits               map[float64]float64 // by bound in seconds: commits that took no longer
	memory, disk          uint64
}

// newWatch begins to watch the servers of r.
func newWatch(r *run) *watch {
	w := &watch{r: r, due: make(chan time.Duration, 1), ended: make(chan struct{}), used: map[time.Duration]Usage{}}
	go w.run() // stop waits for it
	return w
}

// stop ends the watch and waits for it.
func (w *watch) stop() {
	close(w.due)
	<-w.ended
}

func (w *watch) run() {
	defer close(w.ended)
	w.last = w.read()
	for at := range w.due {
		now := w.read()
		w.used[at] = now.since(w.last)
		w.last = now
	}
}

// tell passes the progress of the generator on, and lets the watch read the usage of that second.
func (r *run) tell(p Progress) {
	r.p.Progress(p)
	select {
	case r.watch.due <- p.Elapsed.Round(time.Millisecond):
	default:
	}
}

// series returns the run, second by second. The generator and the watch have ended.
func (r *run) series() []Second {
	for i := range r.gen.seconds {
		s := &r.gen.seconds[i]
		s.Servers = r.watch.used[time.Duration(math.Round(s.At*1e3))*time.Millisecond]
	}
	return r.gen.seconds
}

func (w *watch) read() reading {
	var m mark
	w.r.takeCPU(&m)
	resident, _ := w.r.serverMemory()
	n := reading{at: time.Now(), own: m.ownCPU.all(), postgres: m.pgCPU, memory: resident,
		commits: map[float64]float64{}}
	for _, c := range m.serverCPU {
		n.server += c.all()
	}
	if w.r.p.Scenario == Connections {
		return n // the answers would be a part of the memory that it measures
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, op := range w.r.ops {
		figures, err := op.metrics(ctx)
		if err != nil {
			continue // a server without metrics counts as 0
		}
		if !w.r.own() {
			n.server += figures.sum("process_cpu_seconds_total")
			n.memory += uint64(figures.sum("process_resident_memory_bytes"))
		}
		n.pauses += figures.sum("go_gc_duration_seconds")
		if stored := uint64(figures.sum("petrel_store_disk_bytes")); w.r.p.Postgres == "" {
			n.disk += stored
		} else {
			n.disk = max(n.disk, stored) // of the database, which they share
		}
		for bound, count := range figures.below("petrel_commit_seconds") {
			n.commits[bound] += count
		}
	}
	return n
}

// since returns the usage from an earlier reading to this one. A count of pauses or commits that has fallen shows that
// a server was killed in between; then it is taken from 0.
func (n reading) since(before reading) Usage {
	d := n.at.Sub(before.at).Seconds()
	for bound, count := range n.commits {
		if count < before.commits[bound] {
			before.commits = nil
			break
		}
	}
	if n.pauses < before.pauses {
		before.pauses = 0
	}
	commits := map[float64]float64{}
	for bound, count := range n.commits {
		commits[bound] = count - before.commits[bound]
	}
	return Usage{
		CPU: round((n.server-before.server)/d, 1000), PostgresCPU: round((n.postgres-before.postgres)/d, 1000),
		GeneratorCPU: round((n.own-before.own)/d, 1000),
		RSSBytes:     n.memory, DiskBytes: n.disk, Pauses: round(1e3*(n.pauses-before.pauses), 1000),
		CommitP50: round(1e3*quantile(commits, 0.5), 1000), CommitP99: round(1e3*quantile(commits, 0.99), 1000),
	}
}

// quantile estimates the quantile q of values. below has the number of values up to each bound; within a bucket,
// values are taken to be spread evenly. Without values it returns 0.
func quantile(below map[float64]float64, q float64) float64 {
	bounds := slices.Sorted(maps.Keys(below))
	if len(bounds) == 0 {
		return 0
	}
	wanted, low, count := q*below[bounds[len(bounds)-1]], 0.0, 0.0
	for _, high := range bounds {
		if n := below[high]; n >= wanted && n > count {
			if math.IsInf(high, 1) {
				return low
			}
			return low + (high-low)*(wanted-count)/(n-count)
		}
		low, count = high, below[high]
	}
	return 0
}

// exported are the figures of a server, from its GET /metrics.
type exported map[string]*dto.MetricFamily

// metrics reads the figures of a server.
func (o *operator) metrics(ctx context.Context) (exported, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	a, err := o.http.Do(q)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics of %s: HTTP status %d", o.url, a.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(a.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", o.url, err)
	}
	return families, nil
}

// sum adds up a figure over its labels; of a summary, its sum.
func (e exported) sum(name string) (v float64) {
	for _, m := range e[name].GetMetric() {
		v += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetSummary().GetSampleSum()
	}
	return v
}

// below adds up a histogram over its labels: the number of values up to each bound.
func (e exported) below(name string) map[float64]float64 {
	all := map[float64]float64{}
	for _, m := range e[name].GetMetric() {
		for _, b := range m.GetHistogram().GetBucket() {
			all[b.GetUpperBound()] += float64(b.GetCumulativeCount()) // the last one is infinite
		}
	}
	return all
}
