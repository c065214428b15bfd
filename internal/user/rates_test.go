package user

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

func wantLimited(t *testing.T, what string, err error, code im.Code, least, most time.Duration) {
	t.Helper()
	e, ok := err.(*im.Error)
	if !ok || e.Code != code || e.RetryAfter < least || e.RetryAfter > most {
		t.Errorf("%s: %v; want %s, to wait %v to %v", what, err, code, least, most)
	}
}

// Spec: P-11.2.
func TestTriesAreLimited(t *testing.T) {
	now := time.UnixMilli(1795262400000)
	us := &Users{now: func() time.Time { return now }}
	alice := rateKey{what: rateLogin, account: im.Account{Tenant: 1, User: "alice"}}
	for i := range 5 {
		if err := us.allow(alice, 5, time.Minute); err != nil {
			t.Errorf("try %d: %v", i, err)
		}
	}
	wantLimited(t, "the sixth", us.allow(alice, 5, time.Minute), im.CodeRateLimited, 12*time.Second, 12*time.Second)
	for range 100 {
		if err := us.allow(alice, -1, time.Minute); err != nil {
			t.Errorf("no limit: %v", err)
		}
		if err := us.allow(rateKey{what: rateLoginIP, ip: block(netip.Addr{})}, 1, time.Minute); err != nil {
			t.Errorf("nobody: %v", err)
		}
	}
}

func TestAddressesOfOneHostCountAsOne(t *testing.T) {
	same := func(a, b string) bool { return block(netip.MustParseAddr(a)) == block(netip.MustParseAddr(b)) }
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

func TestHashesThatWaitAreBounded(t *testing.T) {
	h := newHasher()
	for range cap(h.slots) {
		if err := h.enter(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, maxWaitingHashes)
	for range maxWaitingHashes {
		go func() { done <- h.enter(ctx) }()
	}
	for end := time.Now().Add(10 * time.Second); h.waiting.Load() < maxWaitingHashes; {
		if time.Now().After(end) {
			t.Fatalf("%d wait", h.waiting.Load())
		}
		<-time.After(time.Millisecond)
	}
	wantLimited(t, "one more", h.enter(ctx), im.CodeOverloaded, time.Second, time.Minute)
	h.leave()
	if err := <-done; err != nil {
		t.Errorf("the first that waited: %v", err)
	}
	cancel()
	for range maxWaitingHashes - 1 {
		if err := <-done; err == nil {
			t.Error("one got in without room")
		}
	}
	if n := h.waiting.Load(); n != 0 {
		t.Errorf("%d wait behind the end", n)
	}
}

func TestCommonPasswordsOnTheListAreLongEnough(t *testing.T) {
	for _, p := range commonest {
		if len(p) < minPassword || p != strings.ToLower(p) {
			t.Errorf("%q would never be met", p)
		}
	}
}
