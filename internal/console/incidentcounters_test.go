package console

import (
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

func TestPasswordAttackIsToldFromMistakes(t *testing.T) {
	for _, x := range []struct {
		right, wrong uint64
		want         bool
	}{{0, 0, false}, {10, wrongLogins - 1, false}, {0, wrongLogins, true}, {4 * wrongLogins, wrongLogins, true}, {5 * wrongLogins, wrongLogins, false}, {100, 420, true}} {
		c := counted{right: x.right, wrong: x.wrong}
		if got := c.guessing(); got != x.want {
			t.Errorf("%d right and %d wrong: %t, want %t", x.right, x.wrong, got, x.want)
		}
	}
}

func TestSpikeIsOfACodeWithoutAnIncidentOfItsOwn(t *testing.T) {
	was := counted{accepted: 1000, refused: 50, refusedWith: map[im.Code]uint64{im.CodeRateLimited: 50}}
	for _, x := range []struct {
		code     im.Code
		n        uint64
		accepted uint64
		want     im.Code
	}{
		{im.CodeRateLimited, manyRefusals - 1, 0, ""},
		{im.CodeRateLimited, manyRefusals, 0, im.CodeRateLimited},
		{im.CodeRateLimited, manyRefusals, 100 * manyRefusals, ""}, // a part of what is accepted
		{im.CodeOverloaded, manyRefusals, 0, ""},
		{im.CodeDiskFull, manyRefusals, 0, ""},
		{im.CodeBadCredentials, manyRefusals, 0, ""},
	} {
		now := counted{accepted: was.accepted + x.accepted, refused: was.refused + x.n, refusedWith: map[im.Code]uint64{im.CodeRateLimited: 50}}
		now.refusedWith[x.code] += x.n
		d := now.since(&was)
		if code, _ := d.spike(); code != x.want {
			t.Errorf("%d of %s beside %d: %q, want %q", x.n, x.code, x.accepted, code, x.want)
		}
	}
}

func TestBackupIsDueByTheTimesOfTheOthers(t *testing.T) {
	const day = 24 * time.Hour
	begin := time.Unix(1_800_000_000, 0)
	for _, x := range []struct {
		made []time.Duration
		want time.Duration
	}{
		{[]time.Duration{0}, 8 * day},
		{[]time.Duration{0, day}, 3 * day},
		{[]time.Duration{0, 3 * day}, 9 * day},
		{[]time.Duration{0, 7 * day}, 15 * day},
		{[]time.Duration{0, time.Hour}, time.Hour + 2*day},
	} {
		var made []time.Time
		for _, d := range x.made {
			made = append(made, begin.Add(d))
		}
		if got := backupDue(made).Sub(begin); got != x.want {
			t.Errorf("%v: due after %v, want %v", x.made, got, x.want)
		}
	}
}
