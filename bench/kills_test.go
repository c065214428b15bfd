package bench

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestASilenceBelongsToTheKillThatItIsAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := int64(time.Second)
		r := &run{p: Params{KillS: 5}, gen: &generator{started: s, sentAgain: 9, putOff: 4, silences: []span{{2 * s, 2*s + s/2}, {6*s - s/10, 7 * s}, {7*s + s/5, 7*s + s/2}, {15 * s, 17 * s}}}}
		r.killed = []killed{{span{6 * s, 8 * s}, 3}, {span{11 * s, 12 * s}, 0}, {span{16 * s, 18 * s}, 0}}
		k := r.kills()
		want := []Kill{{At: 5, Back: 2000, Silent: 1100, Again: 3}, {At: 10, Back: 1000}, {At: 15, Back: 2000, Silent: 2000}}
		if !slices.Equal(k.Each, want) || k.SilentMedian != 1100 || k.SilentLongest != 2000 || k.SentAgain != 9 || k.PutOff != 4 {
			t.Errorf("got %+v, want %+v", k, want)
		}
		r.gen.unanswered, r.gen.base = 1, time.Now().Add(-time.Hour)
		r.gen.lastAck.Store(17 * s)
		if k := r.kills(); k.SilentLongest < 3e6 {
			t.Errorf("nothing is acked any more, and the longest silence is %g ms", k.SilentLongest)
		}
		var b strings.Builder
		if err := (&Report{Kills: k}).WriteText(&b); err != nil || !strings.Contains(b.String(), "3 times, with SIGKILL: no send was acked for 1.10 s in the median, 2.00 s at most") || !strings.Contains(b.String(), "4 messages were due") {
			t.Errorf("%v:\n%s", err, b.String())
		}
		if err := (&Report{Kills: &Kills{}}).Clean(nil); err == nil || !strings.Contains(err.Error(), "never killed") {
			t.Errorf("a run without a kill: %v", err)
		}
	})
}

func TestAKillIsNoOverload(t *testing.T) {
	for _, c := range []struct {
		accepted uint64
		silent   float64
		want     int
	}{{700, 200, 0}, {700, 0, 1}, {600, 200, 1}} {
		p := Params{Scenario: Direct, Rate: 1000}
		r := &run{p: p, report: &Report{Params: p, Offered: 1000, Accepted: c.accepted, Kills: &Kills{SilentLongest: c.silent}}, gen: &generator{errors: map[string]uint64{}, ackTime: newLatency()}}
		r.gen.ackTime.begin.add(1e6, 1)
		r.gen.ackTime.end.add(1e9, 1) // of what was due during a kill
		if why := r.overloaded(); len(why) != c.want {
			t.Errorf("%d of 1,000 accepted, %g ms without an ack: %q", c.accepted, c.silent, why)
		}
	}
}

func TestKillsAreRefusedWhereTheyCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Params){
		"needs one node":     func(p *Params) { p.Nodes, p.Postgres = 3, OwnPostgres },
		"only a server that": func(p *Params) { p.URL, p.AdminKey = "http://127.0.0.1:1", "pk" },
		"has no kill-every":  func(p *Params) { *p = DefaultParams(Group); p.KillS = 1 },
		"kill-every is -1":   func(p *Params) { p.KillS = -1 },
	} {
		p := DefaultParams(Direct)
		p.KillS = 1
		if change(&p); p.Check() == nil || !strings.Contains(p.Check().Error(), want) {
			t.Errorf("%v, want %q", p.Check(), want)
		}
	}
}

// A send that was put off is sent again when its connection is back, and not once more at the end of its pause:
// the second ack would answer nothing.
func TestWhatWasPutOffIsSentOnceWhenItsConnectionIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		tries := map[string]int{}
		f.onSend = func(s *petrelv1.Send) *im.Error {
			if tries[s.ClientMsgId]++; tries[s.ClientMsgId] == 1 {
				return &im.Error{Code: im.CodeOverloaded, RetryAfter: 200 * time.Millisecond}
			}
			return nil
		}
		p := inTasks(f, Storm)
		p.Times, p.Seconds, p.Rate = 5, 0.2, 500
		if r := mustRun(t, p); !r.Audit.Findings.Clean() || r.Unknown > 0 || len(tries) == 0 {
			t.Errorf("%d messages:\n%s", len(tries), text(r))
		}
	})
}
