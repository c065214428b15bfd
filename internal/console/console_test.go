package console

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// fill takes samples of n seconds, in which each second has rate entries, and ten acks that
// took as long as ack.
func fill(s *Samples, from time.Time, n int, rate uint64, ack time.Duration) time.Time {
	if s.Acks == nil {
		s.Acks, s.Commits = &measure.Histogram{}, &measure.Histogram{}
		s.Take(from, &Counters{})
	}
	c := s.last
	for range n {
		from = from.Add(time.Second)
		c.Accepted += rate
		c.RefusedFrames += 2
		c.RefusedSends++
		c.RefusedLogins += 3
		c.Connections = 7
		for range 10 {
			s.Acks.Observe(ack)
		}
		s.Take(from, &c)
	}
	return from
}

// A tick that comes late, behind a whole second, ends the second in which it was due: the sum
// of all nodes would have a hole.
func TestALateSampleLeavesNoHole(t *testing.T) {
	begun := time.Unix(1_795_262_400, 980_000_000)
	s := &Samples{}
	fill(s, begun, 1, 50, time.Millisecond)
	s.Take(begun.Add(2*time.Second+30*time.Millisecond), &Counters{})
	fill(s, begun.Add(2*time.Second), 2, 50, time.Millisecond)
	fill(s, begun.Add(7*time.Second), 1, 50, time.Millisecond) // it stood still: that is said
	var ends []int64
	for _, x := range s.Since(0, 1) {
		ends = append(ends, int64(x.TimeMs)/1000-begun.Unix())
	}
	if want := []int64{1, 2, 3, 4, 8}; !slices.Equal(ends, want) {
		t.Errorf("seconds %d, want %d", ends, want)
	}
}

func TestSamplesAreOfTheLastHour(t *testing.T) {
	begun := time.Unix(1_795_262_400, 0)
	s := &Samples{}
	at := fill(s, begun, Kept+100, 50, 3*time.Millisecond)
	all := s.Since(0, 1)
	if len(all) != Kept || all[0].TimeMs != uint64(at.Add(-(Kept-1)*time.Second).UnixMilli()) || all[Kept-1].TimeMs != uint64(at.UnixMilli()) {
		t.Fatalf("%d samples from %d to %d, want %d to %d", len(all), all[0].TimeMs, all[len(all)-1].TimeMs, Kept, at.UnixMilli())
	}
	x := all[5]
	if x.Accepted != 50 || x.Offered != 51 || x.Refused != 2 || x.RefusedSends != 1 || x.RefusedLogins != 3 || x.Connections != 7 {
		t.Errorf("a second: %+v", x)
	}
	if x.AckP50Ms < 1.6 || x.AckP99Ms > 3.2 { // the bucket from 1.6 to 3.2 ms
		t.Errorf("acks of 3 ms are %f and %f", x.AckP50Ms, x.AckP99Ms)
	}
	if later := s.Since(uint64(at.Add(-3*time.Second).UnixMilli()), 1); len(later) != 3 {
		t.Errorf("%d samples behind the fourth last", len(later))
	}
}

func TestStepsAreWholeAndTheSlowestCounts(t *testing.T) {
	begun := time.Unix(1_795_262_400, 0) // a multiple of 10
	s := &Samples{}
	at := fill(s, begun, 10, 50, time.Millisecond)
	at = fill(s, at, 5, 100, time.Millisecond)
	at = fill(s, at, 5, 100, 100*time.Millisecond)
	fill(s, at, 3, 100, time.Millisecond)
	all := s.Since(0, 10)
	if len(all) != 2 || all[0].Accepted != 50 || all[1].Accepted != 100 || all[1].TimeMs != uint64(begun.Add(20*time.Second).UnixMilli()) {
		t.Fatalf("steps: %v", all)
	}
	if all[0].AckP99Ms > 2 || all[1].AckP99Ms < 50 {
		t.Errorf("slowest acks: %f and %f", all[0].AckP99Ms, all[1].AckP99Ms)
	}
}

func TestTogetherEndsWithTheFirst(t *testing.T) {
	x := func(ms uint64, rate float32) *petrelv1.Sample {
		return &petrelv1.Sample{TimeMs: ms, Accepted: rate, AckP99Ms: rate, Nodes: 1}
	}
	all := Together([][]*petrelv1.Sample{{x(1000, 1), x(2000, 2), x(3000, 3)}, {x(1000, 10), x(2000, 20)}, nil})
	if len(all) != 2 || all[0].Accepted != 11 || all[1].Accepted != 22 || all[1].AckP99Ms != 20 || all[1].Nodes != 2 {
		t.Errorf("together: %v", all)
	}
}

func TestIncidentsLastSinceTheyBegan(t *testing.T) {
	var i Incidents
	now := time.UnixMilli(5000)
	note := func(codes ...string) (list []*petrelv1.Incident) {
		for _, c := range codes {
			list = append(list, &petrelv1.Incident{Code: c, Node: "n1", Severity: petrelv1.Verdict_VERDICT_DEGRADED})
		}
		i.Note(now, list)
		now = now.Add(time.Second)
		return list
	}
	note("a")
	if l := note("a", "b"); l[0].SinceMs != 5000 || l[1].SinceMs != 6000 || l[0].Link != "guide/console#a" {
		t.Errorf("since: %v", l)
	}
	note("b")
	l := note("a", "b")
	if l[0].SinceMs != 8000 || l[1].SinceMs != 6000 {
		t.Errorf("an incident that came back: %v", l)
	}
	l[0].Severity = petrelv1.Verdict_VERDICT_CRITICAL
	if v := Worst(l); v != petrelv1.Verdict_VERDICT_CRITICAL || l[0].Code != "a" {
		t.Errorf("verdict %s, first %s", v, l[0].Code)
	}
	if v := Worst(nil); v != petrelv1.Verdict_VERDICT_WELL {
		t.Errorf("verdict on nothing: %s", v)
	}
}

func refusal(at time.Time, user im.User, id string) *Refusal {
	return &Refusal{At: at, What: "send", Code: im.CodeRateLimited, Account: im.Account{Tenant: 1, User: user}, ClientMsgID: id, Address: netip.MustParseAddr("192.0.2.7")}
}

// A user who is refused a thousand times in a second leaves room for the refusals of others.
func TestGreedyUserWashesNobodyOut(t *testing.T) {
	var r Refusals
	now := time.Unix(1_795_262_400, 0)
	r.Note(refusal(now, "alice", "a1"))
	for i := range 10_000 {
		r.Note(refusal(now.Add(time.Duration(i/1000)*time.Second), "greedy", fmt.Sprint("g", i)))
	}
	now = now.Add(10 * time.Second)
	all := r.List(now, 5000, func(*Refusal) bool { return true })
	if len(all) != 1+10*apart || all[len(all)-1].ClientMsgID != "a1" {
		t.Fatalf("%d are kept, the oldest %+v", len(all), all[len(all)-1])
	}
	total := uint64(0)
	for _, x := range all {
		total += max(x.Count, 1)
	}
	if total != 10_001 {
		t.Errorf("%d refusals are counted", total)
	}
	if l := r.Loudest(now, 5); len(l) != 2 || l[0].Account.User != "greedy" || l[0].Count != 10_000 || l[1].Count != 1 {
		t.Errorf("the loudest: %+v", l)
	}
	if l := r.Loudest(now.Add(3*time.Minute), 5); len(l) != 0 {
		t.Errorf("the loudest of three minutes ago: %+v", l)
	}
}

func TestRefusalsOfAnAddressAreNotCountedForAnother(t *testing.T) {
	r, now := &Refusals{}, time.Unix(1_000_000, 0)
	of := func(i int) *Refusal {
		return &Refusal{At: now, Code: im.CodeUnauthenticated, Address: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
	}
	for range apart {
		r.Note(of(0))
	}
	for i := range keptRefusals { // they replace all of the first address
		r.Note(of(1 + i/apart))
	}
	r.Note(of(0))
	for i := range r.ring {
		if x := &r.ring[i]; x.Count > 0 && x.Address != of(0).Address {
			t.Fatalf("a refusal of the first address counts for %s", x.Address)
		}
	}
	if !slices.ContainsFunc(r.ring, func(x Refusal) bool { return x.Address == of(0).Address }) {
		t.Error("the refusal of the first address is not kept")
	}
}

func TestRefusalsAreOfTheLastHourAndBounded(t *testing.T) {
	var r Refusals
	now := time.Unix(1_795_262_400, 0)
	for i := range keptRefusals + 500 {
		r.Note(refusal(now.Add(time.Duration(i)*time.Second), im.User(fmt.Sprint("u", i)), "x"))
	}
	now = now.Add((keptRefusals + 499) * time.Second)
	all := r.List(now, 10_000, func(*Refusal) bool { return true })
	if len(all) != 3601 || all[0].Account.User != im.User(fmt.Sprint("u", keptRefusals+499)) {
		t.Errorf("%d are of the last hour, the newest of %s", len(all), all[0].Account.User)
	}
	if len(r.ring) != keptRefusals {
		t.Errorf("%d are kept", len(r.ring))
	}
	long := refusal(now, "u", strings.Repeat("x", 10_000))
	r.Note(long)
	if x := r.List(now, 1, func(*Refusal) bool { return true }); len(x[0].ClientMsgID) != maxText {
		t.Errorf("%d bytes of a text are kept", len(x[0].ClientMsgID))
	}
}

func TestLinesAreTheLastOnes(t *testing.T) {
	var l Lines
	log := slog.New(l.Keep(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))).With("node", "n1")
	for i := range keptLines + 10 {
		log.Info("line", "i", i)
	}
	log.Debug("nobody writes this")
	log.Warn("the last", "err", "a b", "long", strings.Repeat("x", 2000))
	all := l.List(5000, func(*Line) bool { return true })
	if len(all) != keptLines || all[0].Attrs != "node=n1 i=11" {
		t.Fatalf("%d lines, the first %+v", len(all), all[0])
	}
	last := all[len(all)-1]
	if last.Text != "the last" || !strings.HasPrefix(last.Attrs, `node=n1 err="a b" long=xxx`) || len(last.Attrs) > maxLine+3 {
		t.Errorf("the last line: %+v", last)
	}
	if some := l.List(3, func(x *Line) bool { return x.Level == slog.LevelInfo }); len(some) != 3 || some[2].Attrs != fmt.Sprintf("node=n1 i=%d", keptLines+9) {
		t.Errorf("some: %+v", some)
	}
}

func BenchmarkSince(b *testing.B) {
	s := &Samples{}
	at := fill(s, time.Unix(1_795_262_400, 0), Kept, 50, time.Millisecond)
	for name, after := range map[string]uint64{"hour": 0, "second": uint64(at.Add(-time.Second).UnixMilli())} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Since(after, 10)
			}
		})
	}
}

func TestIncidentsThatEndedAreKeptForADay(t *testing.T) {
	var i Incidents
	now := time.UnixMilli(1_800_000_000_000)
	note := func(after time.Duration, codes ...string) {
		var list []*petrelv1.Incident
		for _, c := range codes {
			list = append(list, &petrelv1.Incident{Code: c, Node: "n1", Text: c})
		}
		now = now.Add(after)
		i.Note(now, list)
	}
	begin := now
	note(0, "a", "b")
	note(time.Second, "b")
	if l := i.Past(0); len(l) != 1 || l[0].Code != "a" || l[0].EndedMs-l[0].SinceMs != 1000 {
		t.Fatalf("past: %v", l)
	}
	note(time.Second, "a", "b")
	note(time.Second) // a is back within a minute: it lasted
	l := i.Past(0)
	if len(l) != 2 || l[0].SinceMs != uint64(begin.UnixMilli()) || l[1].SinceMs != uint64(begin.UnixMilli()) {
		t.Errorf("an incident that came back: %v", l)
	}
	if l := i.Past(uint64(now.Add(time.Minute).UnixMilli())); len(l) != 0 {
		t.Errorf("behind their end: %v", l)
	}
	for n := range 3 * keptPast {
		note(2*backTime, "c")
		note(time.Second)
		if n%50 == 0 && len(i.Past(0)) > keptPast {
			t.Fatalf("%d are kept", len(i.Past(0)))
		}
	}
	note(25 * time.Hour)
	if l := i.Past(0); len(l) != 0 {
		t.Errorf("after a day: %d", len(l))
	}
}

func TestRefusalsAreGroupedByWhoAndCode(t *testing.T) {
	var r Refusals
	now := time.Unix(1_795_262_400, 0)
	for range 30 {
		r.Note(refusal(now, "alice", "a"))
		r.Note(refusal(now.Add(2*time.Second), "alice", "a"))
	}
	r.Note(refusal(now.Add(time.Second), "bob", "b"))
	all := Groups(r.List(now.Add(time.Minute), 1000, func(*Refusal) bool { return true }))
	if len(all) != 2 || all[0].Account.User != "alice" || all[0].Count != 60 || !all[0].First.Equal(now) || !all[0].At.Equal(now.Add(2*time.Second)) || all[1].Count != 1 {
		t.Errorf("groups: %+v", all)
	}
}

// A wrong login counts against its address, not against the user whom it names.
func TestWrongLoginsAreOfTheirAddress(t *testing.T) {
	var r Refusals
	now := time.Unix(1_795_262_400, 0)
	x := refusal(now, "alice", "")
	x.Named = true
	r.Note(x)
	if l := r.Loudest(now, 1); len(l) != 1 || l[0].Account.User != "" || l[0].Address != x.Address {
		t.Errorf("loudest: %+v", l)
	}
	if l := r.List(now, 1, func(*Refusal) bool { return true }); l[0].Account.User != "alice" {
		t.Errorf("listed: %+v", l)
	}
}
