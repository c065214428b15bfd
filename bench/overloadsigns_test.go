package bench

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnOverloadedRunSaysSo(t *testing.T) {
	lasted := func(begin, end time.Duration) func(*run) {
		return func(r *run) {
			l := r.gen.ackTime
			l.from, l.to, l.planned = 0, int64(time.Second), int64(time.Second)
			for i := range int64(1000) {
				l.record(i*1e6, i*1e6+int64(begin)+(int64(end)-int64(begin))*i/1000, 1)
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func(r *run)
		want string // nothing: the run is not overloaded
	}{
		{"all is accepted", func(*run) {}, ""},
		{"some is under way at the end", func(r *run) { r.report.Accepted = 960 }, ""},
		{"a tenth is not accepted", func(r *run) { r.report.Accepted = 890 }, "1,000 messages were due and 890 were accepted, which is 89 %"},
		{"a tenth is not accepted in a closed loop", func(r *run) { r.report.Accepted, r.p.Rate = 890, 0 }, ""},
		{"sends are put off", func(r *run) { r.gen.errors["overloaded"] = 3 }, "the server put off 3 sends as overloaded"},
		{"sends are too many", func(r *run) { r.gen.errors["rate_limited"], r.p.Rate = 1000, 0 }, "the server put off 1,000 sends as rate_limited"},
		{"acks take as long as before", lasted(30*time.Millisecond, 40*time.Millisecond), ""},
		{"acks take a little longer", lasted(time.Millisecond, 9*time.Millisecond), ""},
		{"acks take longer and longer", lasted(0, 400*time.Millisecond), "the mean time to an ack grew from 50ms in the first quarter of the run to 350ms in the last"},
		{"the generator is late", func(r *run) { r.gen.begin.late, r.gen.end.late = 50, 150 }, "the load generator was late with 10 % of the messages: it needs more CPU"},
		{"the generator was late in the warm-up", func(r *run) { r.gen.begin.late, r.gen.end.late = 500, 510 }, ""},
	} {
		r := &run{p: Params{Rate: 1000}, report: &Report{Scenario: Connections, Params: Params{Scenario: Connections}, Offered: 1000, Accepted: 1000}, gen: &generator{errors: map[string]uint64{}, ackTime: newLatency()}}
		c.do(r)
		r.report.Overloaded = r.overloaded()
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if !slices.Equal(r.report.Overloaded, want) {
			t.Errorf("%s: %q, want %q", c.name, r.report.Overloaded, want)
		}
		if err := r.report.Clean(nil); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: clean: %v", c.name, err)
		}
	}
}

func TestAServerThatCannotKeepUpMakesAnOverloadedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.slow(5 * time.Millisecond) // 200 frames of each connection in a second
		p := f.params(Direct)
		p.Rate, p.Seconds, p.WarmUp = 4000, 0.5, 0
		r := mustRun(t, p)
		if !slices.ContainsFunc(r.Overloaded, func(s string) bool { return strings.Contains(s, "were accepted, which is 20 %") }) || !r.Audit.Findings.Clean() {
			t.Errorf("%q\n%s", r.Overloaded, text(r))
		}
	})
}
