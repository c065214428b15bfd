package store

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowHeadComesBackWithItsWirePart(t *testing.T) {
	for _, h := range []RowHead{
		{},
		{Flags: RowKeyed | RowWithheld, Pos: 1, After: 127, MAC: 1},
		{Flags: 0xff, Pos: 128, After: 1 << 40, MAC: math.MaxUint64},
		{Pos: math.MaxUint64, After: math.MaxUint64},
		{Flags: RowHides, Pos: math.MaxUint64, After: math.MaxUint64, Hidden: [2]uint64{math.MaxUint64, math.MaxUint64}},
		{Flags: RowHides, Hidden: [2]uint64{0, 300}},
	} {
		for _, wire := range []string{"", "\x0a\x00", "\x0a\x03abc"} {
			b := AppendRowHead([]byte("before"), h)[6:]
			if len(b) > MaxRowHead {
				t.Errorf("%+v: %d bytes, more than MaxRowHead %d", h, len(b), MaxRowHead)
			}
			got, rest, err := SplitRow(append(b, wire...))
			if err != nil {
				t.Fatalf("%+v: %v", h, err)
			}
			if d := cmp.Diff(h, got); d != "" || string(rest) != wire {
				t.Errorf("-want +got:\n%s\nwire part %q, want %q", d, rest, wire)
			}
		}
	}
}

func TestCutRowIsCorrupt(t *testing.T) {
	for _, flags := range []byte{0, RowHides} {
		cutRow(t, AppendRowHead(nil, RowHead{Flags: flags, Pos: 1 << 20, After: 300, Hidden: [2]uint64{1, 1 << 10}, MAC: 5}))
	}
}

func cutRow(t *testing.T, b []byte) {
	for n := range b {
		if _, _, err := SplitRow(b[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d of %d bytes: got error %v, want %v", n, len(b), err, ErrCorrupt)
		}
	}
	b[0]++
	if _, _, err := SplitRow(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("unknown format: got error %v, want %v", err, ErrCorrupt)
	}
}

// Repairs replace lost rows, so no other flag may say that a row is one.
func TestOnlyALostRowIsLost(t *testing.T) {
	for bit := range 8 {
		flag := byte(1) << bit
		if got := IsLost(AppendRowHead(nil, RowHead{Flags: flag})); got != (flag == RowLost) {
			t.Errorf("flags %08b: lost %t", flag, got)
		}
	}
	if all := RowKeyed + RowRewritten + RowWithheld + RowLost + RowRelated + RowHides + RowEditWithheld; all != 0b1111111 {
		t.Errorf("two flags have one bit: %08b", all)
	}
}
