package user_test

import (
	"context"
	"github.com/petrel-im/petrel/internal/operator"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
)

func (w *world) setup() string {
	w.t.Helper()
	code, err := w.operators.OpenSetup(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return code
}

func (w *world) wantClosed(what, code string) {
	w.t.Helper()
	if key, err := w.operators.Redeem(context.Background(), code, ""); err == nil || im.CodeOf(err) != im.CodeSetupClosed || key != "" {
		w.t.Errorf("%s: %q, %v; want %s", what, key, err, im.CodeSetupClosed)
	}
}

func (w *world) wantAdmin(key string, want bool) {
	w.t.Helper()
	k, err := w.operators.AuthenticateKey(context.Background(), key)
	if got := err == nil && k.Covers(operator.ScopeAdmin); got != want || err != nil && im.CodeOf(err) != im.CodeUnauthenticated {
		w.t.Errorf("%q is the admin key %+v, %v; want %t", key, k, err, want)
	}
}

// Spec: P-10.1.
func TestSetupCodeMakesOneKey(t *testing.T) {
	w := newWorld(t)
	w.wantClosed("nothing is open", "")
	code := w.setup()
	for _, bad := range []string{"", code[:len(code)-1], code + "A", strings.ToLower(code), "A" + code[1:] + ""} {
		if bad != code {
			w.wantClosed("wrong code", bad)
		}
	}
	key, err := w.operators.Redeem(context.Background(), code, "") // wrong ones have not used it up
	if err != nil {
		t.Fatal(err)
	}
	w.wantAdmin(key, true)
	w.wantClosed("used", code)
	w.wantClosed("empty behind use", "")
	if again := w.setup(); again != "" {
		t.Errorf("a store with an admin key opens the setup: %q", again)
	}
	w.reopen()
	if again := w.setup(); again != "" {
		t.Errorf("a restarted store with an admin key opens the setup: %q", again)
	}
	w.wantAdmin(key, true)
	w.wantClosed("of the life before", code)
}

func TestSetupCodeRedeemedByManyAtOnceWorksOnce(t *testing.T) {
	for range 10 {
		w := newWorld(t)
		code := w.setup()
		var wg sync.WaitGroup
		keys := make([]string, 16)
		for i := range keys {
			wg.Go(func() { keys[i], _ = w.operators.Redeem(context.Background(), code, "") }) // the losers get no key
		}
		wg.Wait()
		n := 0
		for _, k := range keys {
			if k != "" {
				n++
				w.wantAdmin(k, true)
			}
		}
		if n != 1 {
			t.Fatalf("one code made %d keys", n)
		}
	}
}

func TestSetupCodeEndsWithItsTime(t *testing.T) {
	w := newWorld(t)
	code := w.setup()
	w.pass(operator.SetupTime)
	w.wantClosed("expired", code)
	code = w.setup()
	w.pass(operator.SetupTime - time.Millisecond)
	if _, err := w.operators.Redeem(context.Background(), code, ""); err != nil {
		t.Errorf("a millisecond before its end: %v", err)
	}
}

func TestNewSetupCodeEndsTheOneBefore(t *testing.T) {
	w := newWorld(t)
	zero := w.setup()
	w.reopen()
	one, two := w.setup(), w.setup()
	if one == two {
		t.Error("the same code twice")
	}
	w.wantClosed("of another start", zero)
	w.wantClosed("replaced", one)
	if _, err := w.operators.Redeem(context.Background(), two, ""); err != nil {
		t.Error(err)
	}
}

// Spec: P-10.1.
func TestLostAnswerOfRedemptionIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	code := w.setup()
	w.wantClosed("wrong, with an id", code[1:]+"A")
	keys := make([]string, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() { keys[i], _ = w.operators.Redeem(context.Background(), code, "one") }) // a key that is "" is an error below
	}
	wg.Wait()
	w.wantAdmin(keys[0], true)
	for _, k := range keys {
		if k != keys[0] || k == "" {
			t.Errorf("repeats of one redemption: %q", keys)
		}
	}
	for _, q := range [][2]string{{code, "two"}, {code, ""}, {code[1:] + "A", "one"}} {
		if _, err := w.operators.Redeem(context.Background(), q[0], q[1]); im.CodeOf(err) != im.CodeSetupClosed || err == nil {
			t.Errorf("code %q with the id %q: %v, want setup_closed", q[0], q[1], err)
		}
	}
}

func TestOnlyAdminKeysAreAdminKeys(t *testing.T) {
	w := newWorld(t)
	key, err := w.operators.Redeem(context.Background(), w.setup(), "")
	if err != nil {
		t.Fatal(err)
	}
	token := w.token("", "alice")
	for i := range key {
		w.wantAdmin(key[:i]+string(rune(key[i]^1))+key[i+1:], false)
	}
	for _, bad := range []string{"", "pk_", key[:len(key)-1], key + "A", key + "\n", token, "pk_" + token[len("pt_"):], key[len("pk_"):], "pt_" + key[len("pk_"):], strings.Repeat("pk_", 1000)} {
		w.wantAdmin(bad, false)
	}
	w.wantRefused("an admin key", key)
}
