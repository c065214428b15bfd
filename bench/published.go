package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Published is a test that somebody has published, and what came out of it. All of them are in published.json: a new
// one is an entry there, and a scenario or a shape in scenarios.go.
type Published struct {
	ID       string            `json:"id"`
	Scenario string            `json:"scenario"` // the scenario of ours that does the same
	Shape    string            `json:"shape,omitempty"`
	System   string            `json:"system"`
	Size     string            `json:"size"`       // what it sent
	Hardware string            `json:"hardware"`   // as its publisher names it
	Cores    float64           `json:"cores"`      // of the server and its database
	Busy     float64           `json:"busy_cores"` // of Cores, in use during the test; 0: it is not published
	Source   string            `json:"source"`     // address of the publication
	Figures  []PublishedFigure `json:"figures"`
	Habits   []string          `json:"habits"` // keys of Habits: what its clients do that makes its figures look better
}

// PublishedFigure is a figure that was published, under a name of Figures.
type PublishedFigure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// Habits are texts by key. Each says what clients of published tests do or leave out, unlike those of this load
// generator.
var Habits = map[string]string{
	"send_only":        "the clients that send take no messages in",
	"one_watcher":      "one receiver of all looks at what it gets",
	"no_receipts":      "no client tells what it has received or read",
	"counts_only":      "clients count messages and do not look for repeats: a lost one and a doubled one cancel out",
	"ack_before_store": "a send is answered when it is in a queue, before the database has it",
	"no_store":         "nothing is stored: a wait of 20 ms stands in for the database",
	"peak":             "the figure is the peak, not the mean of the run",
}

//go:embed published.json
var publishedJSON []byte

// AllPublished returns the published tests, in the order of published.json.
func AllPublished() []Published { return slices.Clone(published()) }

// published reads the published tests once: each command of bench shows some in its help.
var published = sync.OnceValue(func() []Published {
	var all []Published
	d := json.NewDecoder(bytes.NewReader(publishedJSON))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		panic(fmt.Sprintf("published.json: %v", err)) // the file is a part of the program
	}
	return all
})

// Beside is a published test next to the run that did the same.
type Beside struct {
	Published
	Compared []Compared `json:"compared"`
}

// Compared is one figure of both tests. Rates are also divided by the cores of the machine, and by the cores in
// use, which gives the rate per CPU-second. A value that is not known is 0.
type Compared struct {
	Name          string  `json:"name"`
	Unit          string  `json:"unit"`
	Theirs        float64 `json:"theirs"`
	TheirsPerCore float64 `json:"theirs_per_core"`
	TheirsPerCPU  float64 `json:"theirs_per_cpu_s"`
	Ours          float64 `json:"ours"`
	// the load generator has a part of the cores, if it is on the same machine
	OursPerCore float64 `json:"ours_per_core"`
	OursPerCPU  float64 `json:"ours_per_cpu_s"`
}

// beside compares r with the tests of its scenario and shape.
func (r *Report) beside() (all []Beside) {
	for _, p := range AllPublished() {
		// no published test kills its server
		if p.Scenario != r.Scenario || p.Shape != r.Params.Shape || r.Kills != nil {
			continue
		}
		b := Beside{Published: p, Compared: []Compared{}}
		for _, f := range p.Figures {
			i := slices.IndexFunc(figures, func(known Figure) bool { return known.Name == f.Name })
			if i < 0 {
				panic("published.json: there is no figure " + f.Name) // the file is a part of the program
			}
			ours, measured := figures[i].Measured(r)
			if !measured {
				continue
			}
			c := Compared{Name: f.Name, Unit: figures[i].Unit, Theirs: f.Value, Ours: ours}
			if c.Unit == perSecond {
				c.divide(&p, r)
			}
			b.Compared = append(b.Compared, c)
		}
		all = append(all, b)
	}
	return all
}

// divide divides both rates by the number of cores, and by the cores that were in use, as far as these are known.
func (c *Compared) divide(p *Published, r *Report) {
	c.TheirsPerCore = round(c.Theirs/p.Cores, 10)
	if p.Busy > 0 {
		c.TheirsPerCPU = round(c.Theirs/p.Busy, 10)
	}
	if r.Machine.Cores > 0 {
		c.OursPerCore = round(c.Ours/float64(r.Machine.Cores), 10)
	}
	cpu := r.Server.CPU
	if r.Total.CPU > 0 {
		cpu = r.Total.CPU
	}
	if cpu > 0 {
		c.OursPerCPU = round(c.Ours*r.Seconds/cpu, 10)
	}
}

// text writes a published test and ours for people.
func (b *Beside) text(line func(name, format string, args ...any)) {
	line("published", "%s, %s: %s; %s", b.System, b.Size, b.Hardware, b.Source)
	or := func(v float64) string {
		if v == 0 {
			return "–"
		}
		return number(v)
	}
	for _, c := range b.Compared {
		if c.Unit != perSecond {
			line("", "%-17s theirs %s %s   ours %s %s", c.Name, number(c.Theirs), c.Unit, number(c.Ours), c.Unit)
			continue
		}
		line("", "%-17s theirs %s, per core %s, per CPU-second %s   ours %s, per core %s, per CPU-second %s", c.Name,
			or(c.Theirs), or(c.TheirsPerCore), or(c.TheirsPerCPU), or(c.Ours), or(c.OursPerCore), or(c.OursPerCPU))
	}
	var habits []string
	for _, h := range b.Habits {
		habits = append(habits, Habits[h])
	}
	line("", "there: %s", strings.Join(habits, "; "))
}

// number formats whole numbers and those from 100 on without digits after the point, others with three digits.
func number(v float64) string {
	if v >= 100 || v == float64(int64(v)) {
		return count(v)
	}
	return fmt.Sprintf("%.3g", v)
}
