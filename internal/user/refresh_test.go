package user_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/user"
)

func rawBase64(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }

func (w *world) refresh(token, requestID string) *user.Login {
	w.t.Helper()
	l, err := w.users.Refresh(context.Background(), token, requestID)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// wantReused checks that a refresh voids the device.
func (w *world) wantReused(what, token, requestID string) {
	w.t.Helper()
	l, err := w.users.Refresh(context.Background(), token, requestID)
	w.wantCode(what, err, im.CodeRefreshReused)
	if l == nil || l.Account != alice || !slices.Equal(l.Ended, []string{"phone-1"}) || l.Access+l.Refresh != "" {
		w.t.Errorf("%s: %+v; want the device whose sessions end", what, l)
	}
}

// Spec: P-11.3.
func TestRefreshGivesANewPair(t *testing.T) {
	w := people(t)
	one := w.mint("alice", phone(1))
	w.pass(30 * time.Minute)
	two := w.refresh(one.Refresh, "")
	if two.Access == one.Access || two.Refresh == one.Refresh || two.Device != "phone-1" || two.Number != 1 || len(two.Ended) != 0 ||
		!two.AccessExpires.Equal(w.now.Add(time.Hour)) || !two.RefreshExpires.Equal(w.now.Add(30*24*time.Hour)) {
		t.Errorf("refresh gives %+v behind %+v", two, one)
	}
	w.wantAccess("the access token of before, in its time", one.Access, "")
	w.wantAccess("the new one", two.Access, "")
	w.pass(30 * time.Minute)
	w.wantAccess("the access token of before, behind its time", one.Access, im.CodeUnauthenticated)
	three := w.refresh(two.Refresh, "r")
	w.pass(30 * 24 * time.Hour)
	_, err := w.users.Refresh(context.Background(), three.Refresh, "")
	w.wantCode("expired", err, im.CodeUnauthenticated)
}

// Spec: P-11.3.
func TestRefreshTokenUsedAgainVoidsTheDevice(t *testing.T) {
	for what, use := range map[string]func(w *world, one, two, three *user.Login) (token, requestID string){
		"the one before":                     func(_ *world, _, two, _ *user.Login) (string, string) { return two.Refresh, "" },
		"the one before, another request id": func(_ *world, _, two, _ *user.Login) (string, string) { return two.Refresh, "x" },
		"an older one":                       func(_ *world, one, _, _ *user.Login) (string, string) { return one.Refresh, "" },
		"an older one, its request id":       func(_ *world, one, _, _ *user.Login) (string, string) { return one.Refresh, "first" },
		"the one before, another request id, later": func(w *world, _, two, _ *user.Login) (string, string) {
			w.pass(30 * time.Minute)
			return two.Refresh, "x"
		},
		"behind a restart": func(w *world, _, two, _ *user.Login) (string, string) {
			w.reopen()
			return two.Refresh, ""
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := people(t)
			laptop := w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
			one := w.mint("alice", phone(1))
			two := w.refresh(one.Refresh, "first")
			three := w.refresh(two.Refresh, "second")
			w.wantAccess("before", three.Access, "")
			token, requestID := use(w, one, two, three)
			w.wantReused(what, token, requestID)
			for _, l := range []*user.Login{one, two, three} {
				w.wantAccess("of the device", l.Access, im.CodeRevoked)
			}
			_, err := w.users.Refresh(context.Background(), three.Refresh, "third")
			w.wantCode("the newest refresh token", err, im.CodeUnauthenticated)
			w.wantAccess("of another device", laptop.Access, "")
			w.wantAccess("logged in again", w.mint("alice", phone(1)).Access, "")
		})
	}
}

// A lost answer costs nothing, whenever the server restarts. Spec: P-11.3.
func TestRefreshRepeatedWithItsRequestIdGetsTheSameAnswer(t *testing.T) {
	w := people(t)
	one := w.mint("alice", phone(1))
	want := w.refresh(one.Refresh, "r1")
	for what, between := range map[string]func(){"at once": func() {}, "later": func() { w.pass(29 * time.Second) }, "behind a restart": w.reopen} {
		between()
		if d := cmp.Diff(want, w.refresh(one.Refresh, "r1")); d != "" {
			t.Errorf("%s (-first +again):\n%s", what, d)
		}
	}
	w.wantAccess("the answer", want.Access, "")
	next := w.refresh(want.Refresh, "r1") // the id is that of a token
	if next.Access == want.Access || next.Refresh == want.Refresh {
		t.Error("another token with the same request id got the same answer")
	}
	other := w.mint("bob", phone(1))
	if a, b := w.refresh(other.Refresh, "r1"), next; a.Access[len("pt_default.bob."):] == b.Access[len("pt_default.alice."):] {
		t.Error("two users got the same secret")
	}
}

// A device may be away for long after the answer was lost. Until it uses the new refresh token,
// the repeat is no theft. Spec: P-11.3.
func TestLostAnswerOfARefreshCostsNothingHoweverLongTheDeviceIsAway(t *testing.T) {
	w := people(t)
	one := w.mint("alice", phone(1))
	lost := w.refresh(one.Refresh, "r1")
	w.pass(24 * time.Hour)
	w.reopen()
	two := w.refresh(one.Refresh, "r1")
	if d := cmp.Diff(lost, two); d != "" {
		t.Errorf("after a day (-first +again):\n%s", d)
	}
	three := w.refresh(two.Refresh, "r2")
	w.wantAccess("the next", three.Access, "")
	w.wantReused("after the new refresh token was used", one.Refresh, "r1")
	w.wantAccess("of a device whose token was stolen", three.Access, im.CodeRevoked)
}

// records are those of all accounts, by table.
func (w *world) records() []store.RecordPut {
	w.t.Helper()
	var all []store.RecordPut
	for _, table := range []store.Table{store.Users, store.Devices, store.Tokens} {
		w.no(w.store.Records(context.Background(), table, im.DefaultTenant, nil, func(key, value []byte) bool {
			all = append(all, store.RecordPut{Table: table, Tenant: im.DefaultTenant, Key: bytes.Clone(key), Value: bytes.Clone(value)})
			return true
		}))
	}
	return all
}

// putBack makes the records of all accounts what they were.
func (w *world) putBack(then []store.RecordPut) {
	w.t.Helper()
	changes := slices.Clone(then)
	for _, now := range w.records() {
		if !slices.ContainsFunc(then, func(p store.RecordPut) bool { return p.Table == now.Table && bytes.Equal(p.Key, now.Key) }) {
			now.Value = nil
			changes = append(changes, now)
		}
	}
	w.no(w.store.Update(context.Background(), changes))
	w.reopen()
}

// After a backup was put back, the next login gets the number of one that the backup does
// not have. A holder of a token of that former login must not touch the new one. Spec:
// P-3.4, P-11.3.
func TestRefreshTokenOfALoginThatWasTakenBackHarmsNoOtherDevice(t *testing.T) {
	for name, dsn := range map[string]func(*testing.T) string{
		"embedded":   func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.Own(t, pgtest.Options{}).New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := people(t)
			w.close()
			w.dsn = dsn(t)
			w.open()
			w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
			then := w.records()
			lost := w.mint("alice", phone(1))
			w.putBack(then)
			tablet := w.mint("alice", user.DeviceRef{ID: "tablet", Kind: "tablet"})
			if tablet.Number != lost.Number {
				t.Fatalf("the login after the store was put back has number %d, and the one that it took back had %d; want the same", tablet.Number, lost.Number)
			}
			_, err := w.users.Refresh(context.Background(), lost.Refresh, "r")
			w.wantCode("the token of the login that was taken back", err, im.CodeUnauthenticated)
			w.wantAccess("of the device whose login has its number", tablet.Access, "")
			w.wantAccess("of the device refreshed", w.refresh(tablet.Refresh, "r").Access, "")
		})
	}
}

func TestRefreshRepeatedByManyAtOnceGetsOneAnswer(t *testing.T) {
	w := people(t)
	one := w.mint("alice", phone(1))
	got := make(chan string, 8)
	for range cap(got) {
		go func() {
			l, err := w.users.Refresh(context.Background(), one.Refresh, "r")
			if err != nil {
				got <- fmt.Sprint(err)
			} else {
				got <- l.Refresh
			}
		}()
	}
	var all []string
	for range cap(got) {
		all = append(all, <-got)
	}
	if len(slices.Compact(all)) != 1 || !strings.HasPrefix(all[0], "pr_") {
		t.Errorf("answers %q", all)
	}
}

// A token that was never issued must not void anything.
func TestForgedRefreshTokenHarmsNobody(t *testing.T) {
	w := people(t)
	w.token("acme", "alice")
	one := w.mint("alice", phone(1))
	two := w.refresh(one.Refresh, "")
	refused := func(what, token string) {
		t.Helper()
		l, err := w.users.Refresh(context.Background(), token, "r")
		if w.wantCode(what, err, im.CodeUnauthenticated); l != nil {
			t.Errorf("%s: %+v", what, l)
		}
	}
	for i := range one.Refresh {
		for _, c := range []byte{'A', '.', '_', one.Refresh[i] ^ 1} {
			if c != one.Refresh[i] {
				refused("altered", one.Refresh[:i]+string(rune(c))+one.Refresh[i+1:])
			}
		}
		refused("cut", one.Refresh[:i])
	}
	for what, token := range map[string]string{
		"of another user": strings.Replace(one.Refresh, ".alice.", ".bob.", 1), "of another tenant": strings.Replace(one.Refresh, "pr_default", "pr_acme", 1),
		"lengthened": one.Refresh + "A", "an access token": one.Access, "an access token as refresh token": "pr_" + one.Access[3:], "empty": "", "long": strings.Repeat("pr_", 1000),
	} {
		refused(what, token)
	}
	w.wantAccess("behind all that", two.Access, "")
	w.refresh(two.Refresh, "")
}

// Refreshing for ever leaves no more records than tokens that work.
func TestSpentTokensAreForgotten(t *testing.T) {
	w := people(t)
	l := w.mint("alice", phone(1))
	count := func() int {
		n := 0
		if err := w.store.Records(context.Background(), store.Tokens, im.DefaultTenant, nil, func(_, _ []byte) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := l.Access
	for range 15 {
		l = w.refresh(l.Refresh, "")
	}
	w.wantAccess("the first of sixteen", first, "")
	if n := count(); n != 16 {
		t.Errorf("%d records, want 16", n)
	}
	l = w.refresh(l.Refresh, "")
	w.wantAccess("the first of seventeen", first, im.CodeUnauthenticated)
	w.pass(2 * time.Hour)
	l = w.refresh(l.Refresh, "")
	if n := count(); n != 1 {
		t.Errorf("%d records when the others have expired, want 1", n)
	}
	w.mint("alice", phone(1))
	if n := count(); n != 1 {
		t.Errorf("%d records behind a new login, want 1", n)
	}
	w.wantAccess("of the login before", l.Access, im.CodeUnauthenticated)
}

func TestDisabledUserDoesNotRefresh(t *testing.T) {
	w := people(t)
	l := w.mint("alice", phone(1))
	if _, err := w.users.Disable(context.Background(), alice); err != nil {
		t.Fatal(err)
	}
	_, err := w.users.Refresh(context.Background(), l.Refresh, "")
	w.wantCode("disabled", err, im.CodeUserDisabled)
}
