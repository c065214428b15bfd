package bench

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
)

func TestAScheduleIsFixedAndDealtInTurn(t *testing.T) {
	p := newPace(1000, 3000, 7)
	last, n := int64(0), uint64(0)
	for now := int64(0); now < int64(2*time.Second); now += 1_234_567 {
		p.advance(now, func(s int) {
			due := p.sentAt(s, p.of(s))
			if want := 1000 + int64(float64(n)*1e9/3000); s != int(n%7) || max(due-want, want-due) > 1 || due > now || due < last {
				t.Fatalf("arrival %d is message %d of sender %d, due at %d, want %d; it is %d, the last was %d", n, p.of(s), s, due, want, now, last)
			}
			last = due
			n++
		})
		if p.next() <= now {
			t.Fatalf("at %d the next arrival is due at %d", now, p.next())
		}
	}
	if n < 5990 || n > 6000 {
		t.Errorf("%d arrivals in 2 s, want 6000", n)
	}
}

func TestClocksGiveEverySenderMomentsOfItsOwn(t *testing.T) {
	const low, high, quota = 60 * time.Millisecond, 200 * time.Millisecond, 50
	for _, seed := range []uint64{1, 2} {
		p := newClocks(1000, seed, 20, float64(low), float64(high), quota)
		all, taken, last := uint64(0), make([]uint64, 20), make([]int64, 20)
		for now := int64(0); now < int64(15*time.Second); now += int64(7 * time.Millisecond) {
			n, late := p.advance(now, func(int) {})
			if all += n; late > 0 {
				t.Fatalf("%d of %d were noticed late", late, n)
			}
			for s := range taken {
				for ; taken[s] < p.of(s); taken[s]++ {
					at := p.sentAt(s, taken[s]+1)
					if pause := time.Duration(at - last[s]); at > now || taken[s] > 0 && (pause < low || pause > high) {
						t.Fatalf("message %d of sender %d was due at %d, it is %d, the one before was at %d", taken[s]+1, s, at, now, last[s])
					}
					last[s] = at
				}
			}
		}
		if all != 20*quota || p.next() < int64(time.Hour) || last[0] == last[1] {
			t.Errorf("%d were due, want %d; the next one at %d; the last ones at %v", all, 20*quota, p.next(), last)
		}
	}
}

func TestALateMessageCountsFromWhenItWasDue(t *testing.T) {
	p := newPace(0, 1000, 1) // due at 0, 1, 2 … ms
	l := newLatency()
	l.from, l.to = 0, int64(time.Second)
	answered := int64(500 * time.Millisecond) // all at once, behind a stall
	p.advance(answered, func(int) {})
	for n := uint64(1); n <= 500; n++ {
		l.record(p.sentAt(0, n), answered, 1)
	}
	got := percentiles(l.all)
	if got.P50 < 249 || got.P50 > 252 || got.P99 < 494 || got.P99 > 500 {
		t.Errorf("percentiles %+v, want half the stall and nearly all of it", got)
	}
}

func TestOnlyMessagesOfTheWindowAreMeasured(t *testing.T) {
	l := newLatency()
	l.from, l.to = 100, 200
	for _, sent := range []int64{99, 200, 1000} {
		l.record(sent, sent+5_000_000, 1)
	}
	if l.all.TotalCount() != 0 {
		t.Errorf("%d were measured", l.all.TotalCount())
	}
	l.record(150, 150+int64(time.Hour), 1) // sent in it, arrived long behind it
	if l.all.TotalCount() != 1 || percentiles(l.all).P50 < 119_000 {
		t.Errorf("%d were measured: %+v", l.all.TotalCount(), percentiles(l.all))
	}
}

func TestTargets(t *testing.T) {
	r := &Report{Scenario: Direct, Accepted: 1, Delivered: 1,
		Latency: Latency{EndToEnd: Percentiles{P50: 1, P99: 20, P999: 60}}, Server: Server{AcceptedPerCPU: 90_000}}
	cases := []struct {
		targets string
		missed  int
	}{
		{"", 0},
		{"p99<50ms,lost=0,accepted_per_cpu_s>80000", 0},
		{" p99 <= 20ms , p50>=1ms", 0},
		{"p99<20ms", 1},
		{"p99<19999us,p999<0.05s,lost=0", 2},
		{"accepted_per_cpu_s>90000", 1},
		{"accepted_per_cpu_s>=90_000", 0},
		{"lost>0", 1},
		{"delivered_per_cpu_s<5", 1}, // was not measured
		{"ack_p99<1s", 1},            // the same
	}
	for _, c := range cases {
		ts, err := ParseTargets(c.targets)
		if err != nil {
			t.Errorf("%q: %v", c.targets, err)
		} else if got := ts.check(r); len(got) != c.missed {
			t.Errorf("%q: %v, want %d missed", c.targets, got, c.missed)
		} else if err := r.Clean(ts); (err == nil) != (c.missed == 0) {
			t.Errorf("%q: Clean says %v", c.targets, err)
		}
	}
	for _, bad := range []string{"p99<50", "p99<x", "speed>1", "p99", "lost=", "lost=none", "lost=NaN", "p99<-1ms", ","} {
		if ts, err := ParseTargets(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, ts)
		}
	}
}

func TestACleanReportHasMessagesAndNoFindings(t *testing.T) {
	good := Report{Scenario: Direct, Accepted: 1, Delivered: 1}
	if err := good.Clean(nil); err != nil {
		t.Error(err)
	}
	for name, r := range map[string]Report{
		"nothing measured": {Scenario: Direct},
		"a loss":           {Scenario: Direct, Accepted: 1, Delivered: 1, Audit: Audit{Findings: checker.Findings{checker.Lost: 1}}},
		"a duplicate":      {Scenario: Direct, Accepted: 1, Delivered: 1, Audit: Audit{Findings: checker.Findings{checker.Duplicate: 1}}},
		"a ghost":          {Scenario: Direct, Accepted: 1, Delivered: 1, Audit: Audit{Findings: checker.Findings{checker.Ghost: 1}}},
		"a reorder":        {Scenario: Direct, Accepted: 1, Delivered: 1, Audit: Audit{Findings: checker.Findings{checker.Reordered: 1}}},
		"a connection":     {Scenario: Connections, Audit: Audit{Connections: []string{"connection 3: kicked: slow_consumer"}}},
	} {
		if r.Clean(nil) == nil {
			t.Errorf("a report with %s is clean", name)
		}
	}
}

func TestWrongParametersAreNamed(t *testing.T) {
	for name, change := range map[string]func(*Params){
		"scenario": func(p *Params) { p.Scenario = "x" }, "senders": func(p *Params) { p.Senders = 0 },
		"size": func(p *Params) { p.Size = MinSize - 1 }, "window": func(p *Params) { p.Window = 0 },
		"codec": func(p *Params) { p.Codec = "xml" }, "transport": func(p *Params) { p.Transport = "udp" },
		"rate": func(p *Params) { p.Rate = -1 }, "seconds": func(p *Params) { p.Seconds = 0 }, "url": func(p *Params) { p.URL = "http://x" },
	} {
		p := DefaultParams(Direct)
		if err := p.Check(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		change(&p)
		if p.Check() == nil {
			t.Errorf("a wrong %s is taken", name)
		}
	}
	p := DefaultParams(Group)
	if p.Senders = p.Members + 1; p.Check() == nil {
		t.Error("more senders than members are taken")
	}
}
