package operator

import (
	"testing"
	"time"
)

// The values are those of RFC 6238, appendix B, cut to six digits.
func TestDigitsAreThoseOfTheRFC(t *testing.T) {
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := Digits(secret, time.Unix(at, 0)); got != want {
			t.Errorf("digits at %d: %s, want %s", at, got, want)
		}
	}
}

func TestDigitsHoldForAStepBeforeAndAfter(t *testing.T) {
	secret, now := []byte("12345678901234567890"), time.Unix(1111111110, 0)
	at := uint64(now.Unix() / 30)
	for ago, holds := range map[time.Duration]bool{-60 * time.Second: false, -30 * time.Second: true, 0: true, 30 * time.Second: true, 60 * time.Second: false} {
		if step := checkTOTP(secret, Digits(secret, now.Add(ago)), now, 0); (step != 0) != holds {
			t.Errorf("digits of %s later hold: step %d, want %t", ago, step, holds)
		}
	}
	if step := checkTOTP(secret, totp(secret, at), now, at); step != 0 {
		t.Errorf("digits hold again in step %d", step)
	}
	if step := checkTOTP(secret, "", now, 0); step != 0 {
		t.Errorf("no digits hold in step %d", step)
	}
}
