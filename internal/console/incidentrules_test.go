package console

import (
	"testing"
	"time"
)

func TestDiskThatFillsIsSeenBeforeItIsFull(t *testing.T) {
	const (
		mib = 1 << 20
		gib = 1 << 30
	)
	for _, c := range []struct {
		name string
		free []uint64 // every five seconds
		left time.Duration
		soon bool
	}{
		{"nothing changes", []uint64{3 * gib, 3 * gib, 3 * gib, 3 * gib, 3 * gib}, 0, false},
		{"it is too early to say", []uint64{3 * gib, 2 * gib}, 0, false},
		{"something writes", []uint64{3 * gib, 3 * gib, 3*gib - gib/4, 3*gib - gib/2, 3*gib - 3*gib/4}, 53 * time.Second, true},
		{"a log is rotated", []uint64{3 * gib, 3 * gib, 3 * gib, 3*gib - gib/16, 3*gib - gib/16}, 0, false},
		{"it lasts for hours", []uint64{3000 * gib, 2999 * gib, 2998 * gib, 2997 * gib, 2996 * gib}, 0, false},
		{"there is more again", []uint64{2 * gib, gib, gib, gib, 3 * gib}, 0, false},
		{"a small disk loses some of it", []uint64{640 * mib, 625 * mib, 610 * mib, 600 * mib, 596 * mib}, 0, false},
		{"a small disk takes a ballast and a log", []uint64{640 * mib, 576 * mib, 576 * mib, 506 * mib, 506 * mib}, 0, false},
		{"something fills a small disk", []uint64{640 * mib, 600 * mib, 560 * mib, 520 * mib, 480 * mib}, 28 * time.Second, true},
		{"it is full", []uint64{3 * gib, 2 * gib, gib, gib / 2, gib / 8}, 0, false},
	} {
		var m minute
		begin := time.Unix(1_000_000, 0)
		for i, bytes := range c.free {
			at := begin.Add(time.Duration(i) * freeEvery)
			m.noteFree(at, bytes)
			m.noteFree(at.Add(time.Second), 1) // too soon for another one
		}
		if left, soon := m.fills(gib / 4); soon != c.soon || left.Round(time.Minute) != c.left.Round(time.Minute) {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, left, soon, c.left, c.soon)
		}
	}
	var m minute
	for i := range 10 * freeKept {
		m.noteFree(time.Unix(int64(i)*5, 0), gib)
	}
	if len(m.free) != freeKept || cap(m.free) > 2*freeKept {
		t.Errorf("%d values are kept, with room for %d", len(m.free), cap(m.free))
	}
}
