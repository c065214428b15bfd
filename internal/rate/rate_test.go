package rate

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/petrel-im/petrel/internal/im"
)

var begin = time.UnixMilli(1795262400000)

func TestBucketGivesWhatTheRateSays(t *testing.T) {
	var b Bucket
	now, five := begin, Per(5, time.Minute, 5)
	take := func(what string, want time.Duration) {
		t.Helper()
		if wait := b.Take(now, five); wait != want {
			t.Errorf("%s: waits %v, want %v", what, wait, want)
		}
	}
	for range 5 {
		take("of a full bucket", 0)
	}
	for range 3 { // being refused costs nothing
		take("the sixth", 12*time.Second)
	}
	now = now.Add(12*time.Second - time.Millisecond)
	take("a millisecond too early", time.Millisecond)
	now = now.Add(time.Millisecond - time.Microsecond)
	take("a microsecond too early", time.Millisecond) // not 0, which a client reads as no time
	now = now.Add(time.Microsecond)
	take("when it was told", 0)
	take("at once again", 12*time.Second)
	if now = now.Add(time.Minute - time.Nanosecond); b.Full(now) {
		t.Error("the bucket is full a nanosecond before the minute is over")
	}
	if now = now.Add(time.Nanosecond); !b.Full(now) {
		t.Error("the bucket is not full after a minute")
	}
	now = now.Add(time.Hour)
	for range 5 {
		take("after an hour", 0)
	}
	take("a full bucket has no more than five", 12*time.Second)
}

func TestBurstIsApartFromTheRate(t *testing.T) {
	var b Bucket
	now, n := begin, 0
	for b.Take(now, Per(10, time.Second, 3)) == 0 {
		n++
	}
	if n != 3 {
		t.Errorf("%d at once, want 3", n)
	}
	for range 1000 { // 10 s
		now = now.Add(10 * time.Millisecond)
		if b.Take(now, Per(10, time.Second, 3)) == 0 {
			n++
		}
	}
	if n != 103 {
		t.Errorf("%d in 10 s, want 103", n)
	}
	if wait := b.Take(now, Per(10, time.Second, 30)); wait != 0 { // raised at run time
		t.Errorf("with a higher burst it waits %v", wait)
	}
}

func TestClockThatIsSetBackLocksNobodyOut(t *testing.T) {
	var b Bucket
	l := Per(10, time.Second, 3)
	for range 3 {
		b.Take(begin, l)
	}
	now := begin.Add(-time.Hour)
	if wait := b.Take(now, l); wait != 100*time.Millisecond {
		t.Errorf("an hour earlier it waits %v, want as with an empty bucket", wait)
	}
	for range 3 {
		now = now.Add(100 * time.Millisecond)
		if wait := b.Take(now, l); wait != 0 {
			t.Errorf("then it waits %v", wait)
		}
	}
}

// stepped is t with another wall clock, and the same monotonic one, as after a step.
func stepped(t time.Time, by time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&t)) // the seconds stand in bits 30 to 62, above the nanoseconds
	*wall += uint64(int64(by/time.Second) << 30)
	return t
}

func TestStepsOfTheWallClockChangeNoBucket(t *testing.T) {
	const year = 365 * 24 * time.Hour
	l := Per(10, time.Second, 3)
	for _, step := range []time.Duration{-year, -time.Hour, -time.Minute, time.Minute, year} {
		var b Bucket
		var table Table[string]
		now := origin.Add(56 * year) // it has a monotonic reading
		take := func(at time.Time) (time.Duration, error) { return b.Take(at, l), table.Take(at, "alice", l) }
		for range 2 {
			if wait, err := take(now); wait != 0 || err != nil {
				t.Fatalf("a full bucket waits %v, %v", wait, err)
			}
		}
		then := stepped(now, step)
		if d := then.Round(0).Sub(now.Round(0)); d != step || then.Sub(now) != 0 {
			t.Fatalf("the wall clock has made a step of %v and the monotonic one of %v, want %v and 0", d, then.Sub(now), step)
		}
		if wait, err := take(then); wait != 0 || err != nil {
			t.Errorf("after a step of %v the third token waits %v, %v", step, wait, err)
		}
		if wait, err := take(then); wait != 100*time.Millisecond || im.CodeOf(err) != im.CodeRateLimited {
			t.Errorf("after a step of %v the fourth token waits %v, %v; want 100 ms", step, wait, err)
		}
	}
}

func TestLimitsAtTheEdge(t *testing.T) {
	for _, c := range []struct {
		name string
		l    Limit
		want int // of 1000 tries
	}{
		{"no rate", Per(-1, time.Second, 5), 1000},
		{"no burst", Per(5, time.Second, -1), 1000},
		{"none at all", Per(0, time.Second, 5), 0},
		{"burst of none", Per(5, time.Second, 0), 0},
		{"rate of 0 without a burst", Per(0, time.Second, -1), 1000},
		{"most that is configured", Per(1, time.Hour, 1<<40), 1000},
		{"one a nanosecond", Per(1<<40, time.Second, 1<<40), 1000},
		{"one for ever", Limit{maxRoom, 1}, 1},
		{"more than fits", Limit{maxRoom / 2, 1 << 40}, 2},
	} {
		var b Bucket
		var keyed Table[int]
		n, m := 0, 0
		for range 1000 {
			if b.Take(begin, c.l) == 0 {
				n++
			}
			if keyed.Take(begin, 7, c.l) == nil {
				m++
			}
		}
		if n != c.want || m != c.want {
			t.Errorf("%s: a bucket gives %d, one of a table %d, want %d", c.name, n, m, c.want)
		}
	}
}

func wantLimited(t *testing.T, what string, err error, code im.Code) {
	t.Helper()
	if e, ok := err.(*im.Error); !ok || e.Code != code || e.RetryAfter < time.Millisecond || e.RetryAfter > time.Minute {
		t.Errorf("%s: %v; want %s and a time", what, err, code)
	}
}

func TestKeysHaveBucketsOfTheirOwn(t *testing.T) {
	var all Table[string]
	one := Per(1, time.Minute, 1)
	for _, user := range []string{"alice", "bob"} {
		if err := all.Take(begin, user, one); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		wantLimited(t, user, all.Take(begin, user, one), im.CodeRateLimited)
	}
	wantLimited(t, "an hour earlier", all.Take(begin.Add(-time.Hour), "bob", one), im.CodeRateLimited)
	if err := all.Take(begin.Add(time.Minute-time.Hour), "bob", one); err != nil {
		t.Errorf("a minute after the clock was set back: %v", err)
	}
}

// A table that is full forgets buckets, and refuses nobody for it.
func TestFullTableTurnsNobodyAway(t *testing.T) {
	var all Table[int]
	now, five := begin, Per(5, time.Minute, 5)
	const victim = -1 // whose bucket is empty
	for range 5 {
		if err := all.Take(now, victim, five); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * MaxBuckets {
		if err := all.Take(now, i, five); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if len(all.slots) != MaxBuckets {
		t.Errorf("%d slots, want %d", len(all.slots), MaxBuckets)
	}
	// Those who took one token each have not won a try for whom has none left.
	wantLimited(t, "the emptiest bucket", all.Take(now, victim, five), im.CodeRateLimited)
}

// A table has room for the buckets that are in use, and for few more: it grows with
// them, forgets none of them, and shrinks when they are full again.
func TestTableIsAsLargeAsItsUse(t *testing.T) {
	const keys = 4_000 // of 10,000 a set of eight is too small for nine in one run of 25
	var all Table[int]
	now, one := begin, Per(1, time.Minute, 1)
	for i := range keys { // some of them at any time
		if err := all.Take(now, i, Per(1, time.Millisecond, 1)); err != nil {
			t.Fatal(err)
		}
		if err := all.Take(now, i, Limit{Every: -1}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Millisecond)
	}
	if n := len(all.slots); n != minBuckets {
		t.Errorf("one bucket is in use at a time, and the table has %d, want %d", n, minBuckets)
	}
	for i := range keys {
		if err := all.Take(now, i, one); err != nil {
			t.Fatal(err)
		}
	}
	for i := range keys {
		wantLimited(t, fmt.Sprint("key ", i, " of a table that has grown"), all.Take(now, i, one), im.CodeRateLimited)
	}
	if n := len(all.slots); n < keys || n > MaxBuckets {
		t.Errorf("%d buckets are in use, and the table has %d", keys, n)
	}
	now = now.Add(30 * time.Second)
	if err := all.Take(now, -1, one); err != nil {
		t.Fatal(err)
	}
	now = now.Add(50 * time.Second) // the others are full again
	if err := all.Take(now, -2, one); err != nil {
		t.Fatal(err)
	}
	if n := len(all.slots); n != minBuckets {
		t.Errorf("two buckets are in use, and the table has %d, want %d", n, minBuckets)
	}
	wantLimited(t, "a key of a table that has shrunk", all.Take(now, -1, one), im.CodeRateLimited)
}

// A user who only asks is not refused either for the time by which the clock was set back.
func TestClockThatIsSetBackLocksNobodyOutWhoAsks(t *testing.T) {
	var all Table[string]
	one := Per(1, time.Minute, 1)
	if err := all.Take(begin, "alice", one); err != nil {
		t.Fatal(err)
	}
	wantLimited(t, "an hour earlier", all.Ready(begin.Add(-time.Hour), "alice", one), im.CodeRateLimited)
	if err := all.Ready(begin.Add(time.Minute-time.Hour), "alice", one); err != nil {
		t.Errorf("a minute after the clock was set back: %v", err)
	}
}

// Nobody who knows the code knows which keys share their places.
func TestTableIsKeyedByASecret(t *testing.T) {
	var a, b Table[int]
	_, _ = a.Take(begin, 0, Per(1, time.Hour, 1)), b.Take(begin, 0, Per(1, time.Hour, 1))
	if at := func(t *Table[int]) int { return slices.IndexFunc(t.slots, func(s slot) bool { return s.hash != 0 }) }; a.seed == b.seed || at(&a) == at(&b) && a.slots[at(&a)] == b.slots[at(&b)] {
		t.Error("two tables keep a key in the same way")
	}
}

func TestTakeAllTakesAllOrNothing(t *testing.T) {
	var all Table[string]
	one, two := Per(1, time.Minute, 1), Per(2, time.Minute, 2)
	claims := []Claim[string]{{"narrow", two, 1}, {"wide", one, 0}}
	if err := all.TakeAll(begin, claims...); err != nil {
		t.Fatal(err)
	}
	wantLimited(t, "wide has none", all.TakeAll(begin, claims...), im.CodeRateLimited)
	if err := all.Take(begin, "narrow", two); err != nil {
		t.Errorf("narrow has paid for what wide refused: %v", err)
	}
}

func TestReservedTokenComesWithinItsTime(t *testing.T) {
	var all Table[string]
	l, most := Per(60, time.Minute, 1), 2500*time.Millisecond
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		if wait := all.Reserve(begin, most, Claim[string]{Key: "alice", Limit: l}); wait != want {
			t.Errorf("try %d waits %v, want %v", i, wait, want)
		}
	}
	if wait := all.Reserve(begin.Add(time.Second), most, Claim[string]{Key: "alice", Limit: l}); wait != 2*time.Second {
		t.Errorf("a second later it waits %v, want 2s", wait)
	}
}

// One /48 has 65,536 networks that each count as an address. Together they have
// 16 times what one has, and all other networks have what they had.
func TestIPv6IsCountedInSteps(t *testing.T) {
	network := func(i int) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 0, byte(i >> 8), byte(i), 9: 1})
	}
	five := Per(5, time.Minute, 5)
	for _, c := range []struct {
		name string
		of   func(i int) netip.Addr
		want int
	}{
		{"one address", func(int) netip.Addr { return network(0) }, 5},
		{"addresses of a /64", func(i int) netip.Addr { a := network(0).As16(); a[15] = byte(i); return netip.AddrFrom16(a) }, 5},
		{"networks of a /56", func(i int) netip.Addr { return network(i % 256) }, 4 * 5},
		{"networks of a /48", network, 16 * 5},
		{"IPv4", func(int) netip.Addr { return netip.MustParseAddr("192.0.2.1") }, 5},
		{"IPv4 within IPv6", func(i int) netip.Addr {
			if i%2 == 0 {
				return netip.MustParseAddr("::ffff:192.0.2.1")
			}
			return netip.MustParseAddr("192.0.2.1")
		}, 5},
	} {
		var all Addresses
		n := 0
		for i := range 1 << 12 {
			if all.Take(begin, c.of(i), five) == nil {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, n, c.want)
		}
		for _, other := range []string{"2001:db8:1::1", "192.0.2.2"} {
			if err := all.Take(begin, netip.MustParseAddr(other), five); err != nil {
				t.Errorf("%s are used up, and %s gets none: %v", c.name, other, err)
			}
		}
	}
	var all Addresses
	for range 10 {
		if err := all.Take(begin, netip.Addr{}, five); err != nil {
			t.Errorf("nobody: %v", err)
		}
	}
}

func TestAddressesOfOneHostCountAsOne(t *testing.T) {
	same := func(a, b string) bool { return Host(netip.MustParseAddr(a)) == Host(netip.MustParseAddr(b)) }
	for _, c := range []struct {
		a, b string
		want bool
	}{{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false}, {"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true}, {"2001:db8::1", "2001:db8:0:1::1", false}, {"fe80::1%a", "fe80::2%b", true}} {
		if same(c.a, c.b) != c.want {
			t.Errorf("%s and %s count as one: %t", c.a, c.b, !c.want)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	var k Bucket
	l := Per(1000, time.Second, 1<<30)
	for b.Loop() {
		k.Take(begin, l)
	}
}

func BenchmarkTable(b *testing.B) {
	var all Table[int]
	l := Per(1000, time.Second, 1<<30)
	for i := 0; b.Loop(); i++ {
		_ = all.Take(begin, i&1023, l)
	}
}

// A request of a higher cost takes several tokens at once, or none, and waits for all of
// them.
func TestClaimOfSeveralTokens(t *testing.T) {
	var all Table[string]
	l := Per(60, time.Minute, 100)
	for i, c := range []struct {
		tokens int
		want   time.Duration
	}{{60, 0}, {50, 10 * time.Second}, {40, 0}, {0, time.Second}, {100, 100 * time.Second}} {
		if wait := all.Reserve(begin, 0, Claim[string]{"alice", l, c.tokens}); wait != c.want {
			t.Errorf("%d: %d tokens wait %v, want %v", i, c.tokens, wait, c.want)
		}
	}
	if wait := all.Reserve(begin.Add(time.Minute), 0, Claim[string]{"alice", l, 60}); wait != 0 {
		t.Errorf("60 tokens wait %v after a minute", wait)
	}
}
