package user_test

import (
	"context"
	"fmt"
	hashing "github.com/petrel-im/petrel/internal/password"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/argon2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
)

const password = "correct horse battery"

var (
	home  = netip.MustParseAddr("192.0.2.1")
	alice = im.Account{Tenant: im.DefaultTenant, User: "alice"}
)

func phone(n int) user.DeviceRef {
	return user.DeviceRef{ID: fmt.Sprint("phone-", n), Kind: "phone", Name: fmt.Sprint("Phone ", n)}
}

// people is a world without rates.
func people(t testing.TB, change ...func(*user.Options)) *world {
	w := newWorld(t)
	w.o.Rates = user.Rates{Logins: -1, LoginsPerIP: -1, Registrations: -1, LookUps: -1, Refreshes: -1}
	for _, f := range change {
		f(&w.o)
	}
	w.reopen()
	return w
}

func (w *world) register(u im.User, ref user.DeviceRef) *user.Login {
	w.t.Helper()
	l, err := w.users.Register(context.Background(), user.Newcomer{User: u, Password: password}, ref, home)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) logIn(u im.User, ref user.DeviceRef) *user.Login {
	w.t.Helper()
	l, err := w.users.LogIn(context.Background(), "", u, password, ref, home, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// mint logs in without the work of a password.
func (w *world) mint(u im.User, ref user.DeviceRef) *user.Login {
	w.t.Helper()
	l, err := w.users.Mint(context.Background(), "", u, ref, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) wantCode(what string, err error, want im.Code) {
	w.t.Helper()
	if err == nil || im.CodeOf(err) != want {
		w.t.Errorf("%s: %v; want %s", what, err, want)
	}
}

// wantAccess checks what a hello with an access token is told; "": it is let in.
func (w *world) wantAccess(what, token string, want im.Code) {
	w.t.Helper()
	id, err := w.users.AuthenticateSession(context.Background(), token)
	if want == "" && err == nil || want != "" && err != nil && im.CodeOf(err) == want && id == (user.Identity{}) {
		return
	}
	w.t.Errorf("%s: hello as %+v, %v; want %q", what, id, err, want)
}

// Spec: P-11.1.
func TestRegisterLogsTheFirstDeviceIn(t *testing.T) {
	w := people(t)
	l, err := w.users.Register(context.Background(), user.Newcomer{User: "alice", Password: password, DisplayName: "Alice 海燕"}, phone(1), home)
	if err != nil {
		t.Fatal(err)
	}
	if l.Account != alice || l.Device != "phone-1" || l.Number != 1 || len(l.Ended) != 0 ||
		!l.AccessExpires.Equal(w.now.Add(time.Hour)) || !l.RefreshExpires.Equal(w.now.Add(30*24*time.Hour)) ||
		!strings.HasPrefix(l.Access, "pt_default.alice.") || !strings.HasPrefix(l.Refresh, "pr_default.alice.") {
		t.Errorf("login %+v", l)
	}
	want := user.Identity{Account: alice, Device: "phone-1", Kind: "phone", Login: 1}
	if id, err := w.users.Authenticate(context.Background(), l.Access); err != nil || id != want {
		t.Errorf("its token is that of %+v, %v; want %+v", id, err, want)
	}
	w.wantRefused("the refresh token as access token", l.Refresh)
	info, err := w.users.Account(context.Background(), alice)
	if d := cmp.Diff(user.Info{User: "alice", DisplayName: "Alice 海燕", Created: w.now.UTC(), HasPassword: true, Source: "registration"}, info); d != "" || err != nil {
		t.Errorf("account, %v (-want +got):\n%s", err, d)
	}
	_, err = w.users.Register(context.Background(), user.Newcomer{User: "alice", Password: "another password"}, phone(2), home)
	w.wantCode("a taken id", err, im.CodeUserExists)
	w.token("", "bob")
	_, err = w.users.Register(context.Background(), user.Newcomer{User: "bob", Password: password}, phone(1), home)
	w.wantCode("an id that the operator made", err, im.CodeUserExists)
	w.reopen()
	if l := w.logIn("alice", phone(1)); l.Number != 2 {
		t.Errorf("the login behind a restart has number %d", l.Number)
	}
}

// Spec: P-11.1.
func TestRegisterRefusesWhatIsNotAllowed(t *testing.T) {
	w := people(t)
	for what, c := range map[string]struct {
		tenant    string
		user      im.User
		pw, shown string
		ref       user.DeviceRef
	}{
		"no user": {"", "", password, "", phone(1)}, "bad user": {"", "a/b", password, "", phone(1)},
		"long name": {"", "carol", password, strings.Repeat("x", 129), phone(1)}, "no device": {"", "carol", password, "", user.DeviceRef{Kind: "phone"}},
		"long device": {"", "carol", password, "", user.DeviceRef{ID: strings.Repeat("x", 65)}}, "long kind": {"", "carol", password, "", user.DeviceRef{ID: "d", Kind: strings.Repeat("x", 33)}},
		"long device name": {"", "carol", password, "", user.DeviceRef{ID: "d", Name: strings.Repeat("x", 65)}},
	} {
		_, err := w.users.Register(context.Background(), user.Newcomer{Tenant: c.tenant, User: c.user, Password: c.pw, DisplayName: c.shown}, c.ref, home)
		w.wantCode(what, err, im.CodeInvalid)
	}
	for u, pw := range map[im.User]string{"carol": "1234567", "carola": strings.Repeat("x", 1025), "carolina": "Password123", "caroline.smith": "Caroline.Smith"} {
		_, err := w.users.Register(context.Background(), user.Newcomer{User: u, Password: pw}, phone(1), home)
		w.wantCode(fmt.Sprintf("%s with the password %.20s", u, pw), err, im.CodeWeakPassword)
	}
	if ok, err := w.users.Exists(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "carol"}); ok || err != nil {
		t.Errorf("a refused call made a user: %t, %v", ok, err)
	}
	if _, err := w.users.Register(context.Background(), user.Newcomer{User: "carol", Password: strings.Repeat("y", 1024)}, user.DeviceRef{ID: strings.Repeat("x", 64)}, home); err != nil {
		t.Errorf("the longest that is allowed: %v", err)
	}
	closed := people(t, func(o *user.Options) { o.Registration = user.Closed })
	_, err := closed.users.Register(context.Background(), user.Newcomer{User: "carol", Password: password}, phone(1), home)
	closed.wantCode("registration is off", err, im.CodeForbidden)
}

func TestRegisterOfOneIdByManyAtOnceMakesOneUser(t *testing.T) {
	w := people(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[string]int{}
	for i := range 4 {
		wg.Go(func() {
			_, err := w.users.Register(context.Background(), user.Newcomer{User: "alice", Password: password}, phone(i), home)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				codes["ok"]++
			} else {
				codes[string(im.CodeOf(err))]++
			}
		})
	}
	wg.Wait()
	if d := cmp.Diff(map[string]int{"ok": 1, "user_exists": 3}, codes); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
}

// Nothing in an answer tells which users there are. Spec: P-11.2.
func TestEveryWrongLoginGetsTheSameAnswer(t *testing.T) {
	w := people(t)
	w.register("alice", phone(1))
	w.register("dave", phone(1))
	w.token("", "tokenonly")
	if _, err := w.users.Disable(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "dave"}); err != nil {
		t.Fatal(err)
	}
	var answers []string
	for _, c := range []struct {
		tenant string
		user   im.User
		pw     string
	}{{"", "alice", "wrong password"}, {"", "alice", ""}, {"", "alice", password + strings.Repeat("x", 2000)}, {"", "dave", "wrong password"}, {"", "nobody", password},
		{"", "tokenonly", password}, {"", "tokenonly", ""}, {"nowhere", "alice", password}, {"", "a/b", password}, {"", "", ""}} {
		l, err := w.users.LogIn(context.Background(), c.tenant, c.user, c.pw, phone(1), home, false)
		w.wantCode(fmt.Sprintf("%+v", c), err, im.CodeBadCredentials)
		if l != nil {
			t.Errorf("%+v: %+v", c, l)
		}
		answers = append(answers, fmt.Sprint(err))
	}
	if got := slices.Compact(answers); len(got) != 1 {
		t.Errorf("answers %q", got)
	}
}

// A login of a user who does not exist makes the same hash as one with a wrong password: it
// takes as long. The memory that the hash fills tells which one was made. Spec: P-11.2.
func TestLoginOfNobodyTakesAsLong(t *testing.T) {
	const kib = 4 << 10
	w := people(t, func(o *user.Options) { o.PasswordWork = hashing.Work{Memory: kib, Time: 1, Threads: 1} })
	w.register("alice", phone(1))
	for _, u := range []im.User{"alice", "nobody", "a/b"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := w.users.LogIn(context.Background(), "", u, "wrong password", phone(1), home, false)
		runtime.ReadMemStats(&after)
		w.wantCode(string(u), err, im.CodeBadCredentials)
		if hashes := (after.TotalAlloc - before.TotalAlloc) / (kib << 10); hashes != 1 {
			t.Errorf("the login of %q makes %d hashes, want 1", u, hashes)
		}
	}
}

func TestHashOfLessWorkIsMadeAnewAtALogin(t *testing.T) {
	w := people(t)
	w.o.PasswordWork = hashing.Work{} // the default
	w.reopen()
	salt := []byte("0123456789abcdef")
	old := fmt.Sprintf("$argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$%s", rawBase64(argon2.IDKey([]byte(password), salt, 1, 64, 1, 32)))
	w.put(store.Users, []byte("alice"), &storepb.User{Password: old})
	_, err := w.users.LogIn(context.Background(), "", "alice", "wrong password", phone(1), home, false)
	w.wantCode("wrong", err, im.CodeBadCredentials)
	if w.stored("alice").Password != old {
		t.Error("a wrong password changed the hash")
	}
	w.logIn("alice", phone(1))
	made := w.stored("alice").Password
	if !strings.HasPrefix(made, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hash %q", made)
	}
	w.logIn("alice", phone(1))
	if got := w.stored("alice").Password; got != made {
		t.Errorf("a hash of today's work was made anew: %q", got)
	}
}

// Spec: P-11.4.
func TestLoginOfTheSameDeviceVoidsItsEarlierTokens(t *testing.T) {
	w := people(t)
	one := w.mint("alice", phone(1))
	two := w.mint("alice", user.DeviceRef{ID: "phone-1", Kind: "phone"})
	if two.Number != 2 || !slices.Equal(two.Ended, []string{"phone-1"}) {
		t.Errorf("second login %+v", two)
	}
	w.wantAccess("first login", one.Access, im.CodeUnauthenticated)
	_, err := w.users.Refresh(context.Background(), one.Refresh, "")
	w.wantCode("refresh token of the first login", err, im.CodeUnauthenticated)
	w.wantAccess("second login", two.Access, "")
	devices, err := w.users.Devices(context.Background(), alice)
	if len(devices) != 1 || devices[0].Name != "Phone 1" || devices[0].Login != 2 || err != nil {
		t.Errorf("devices %+v, %v; want one that kept its name", devices, err)
	}
}

// Spec: P-11.4.
func TestLoginReplacesTheOtherDeviceOfItsKind(t *testing.T) {
	w := people(t)
	laptop := w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
	bare := w.mint("alice", user.DeviceRef{ID: "bare"})
	bob := w.mint("bob", phone(1))
	free := w.token("", "alice")
	one := w.mint("alice", phone(1))
	two := w.mint("alice", phone(2))
	if !slices.Equal(two.Ended, []string{"phone-1"}) {
		t.Errorf("ended %q, want phone-1", two.Ended)
	}
	w.wantAccess("replaced", one.Access, im.CodeReplaced)
	w.wantRefused("replaced, for a call", one.Access)
	_, err := w.users.Refresh(context.Background(), one.Refresh, "")
	w.wantCode("refresh token of the replaced one", err, im.CodeUnauthenticated)
	for what, token := range map[string]string{"new phone": two.Access, "other kind": laptop.Access, "no kind": bare.Access, "other user": bob.Access, "no device": free} {
		w.wantAccess(what, token, "")
	}
	again := w.mint("alice", phone(1))
	if !slices.Equal(again.Ended, []string{"phone-2", "phone-1"}) {
		t.Errorf("ended %q, want both phones", again.Ended)
	}
	w.wantAccess("back", again.Access, "")
	w.wantAccess("replaced in turn", two.Access, im.CodeReplaced)
	w.pass(2 * time.Hour)
	w.wantAccess("replaced and expired", two.Access, im.CodeReplaced)

	many := people(t, func(o *user.Options) { o.ManyPerKind = true })
	one, two = many.mint("alice", phone(1)), many.mint("alice", phone(2))
	if len(two.Ended) != 0 {
		t.Errorf("ended %q with many of a kind allowed", two.Ended)
	}
	many.wantAccess("one of many", one.Access, "")
	many.wantAccess("two of many", two.Access, "")
}

// F11: the login that gets the turn later has the higher number, and it is the only one
// that stays.
func TestF11TwoLoginsOfOneKindAtOnceLeaveTheHigherNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			w := people(t)
			w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
			open := w.store.hold()
			logins := make([]*user.Login, 2)
			var wg sync.WaitGroup
			for i := range logins {
				wg.Go(func() {
					l, err := w.users.Mint(context.Background(), "", "alice", phone(i), 0)
					if err != nil {
						t.Error(err)
					}
					logins[i] = l
				})
			}
			synctest.Wait()
			if n := len(w.store.in); n != 1 {
				t.Errorf("%d logins write at the same time, want 1", n)
			}
			open()
			wg.Wait()
			low, high := logins[0], logins[1]
			if low.Number > high.Number {
				low, high = high, low
			}
			if low.Number != 2 || high.Number != 3 || !slices.Equal(high.Ended, []string{low.Device}) || len(low.Ended) != 0 {
				t.Errorf("logins %+v and %+v", low, high)
			}
			w.wantAccess("the lower number", low.Access, im.CodeReplaced)
			w.wantAccess("the higher number", high.Access, "")
			w.reopen()
			w.wantAccess("the lower number behind a restart", low.Access, im.CodeReplaced)
			w.wantAccess("the higher number behind a restart", high.Access, "")
		}
	})
}

func TestTooManyDevicesForgetTheOldest(t *testing.T) {
	w := people(t)
	var logins []*user.Login
	for i := range 66 {
		logins = append(logins, w.mint("alice", user.DeviceRef{ID: fmt.Sprint("d", i)}))
	}
	for i, want := range map[int][]string{63: nil, 64: {"d0"}, 65: {"d1"}} {
		if got := logins[i].Ended; !slices.Equal(got, want) {
			t.Errorf("login %d ends %q, want %q", i, got, want)
		}
	}
	w.wantAccess("forgotten", logins[0].Access, im.CodeUnauthenticated)
	w.wantAccess("still known", logins[2].Access, "")
	if devices, err := w.users.Devices(context.Background(), alice); len(devices) != 64 || devices[0].ID != "d65" || err != nil {
		t.Errorf("%d devices, %v", len(devices), err)
	}
}

// Spec: P-11.3.
func TestAccessTokenEndsWithItsTime(t *testing.T) {
	w := people(t, func(o *user.Options) { o.AccessTTL = time.Minute })
	one := w.mint("alice", phone(1))
	long, err := w.users.Mint(context.Background(), "", "bob", phone(1), 30*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute - time.Millisecond)
	w.wantAccess("a millisecond before its end", one.Access, "")
	w.pass(time.Millisecond)
	w.wantAccess("expired", one.Access, im.CodeUnauthenticated)
	w.wantAccess("minted for long", long.Access, "")
	for _, ttl := range []time.Duration{-1, 30*24*time.Hour + 1} {
		_, err := w.users.Mint(context.Background(), "", "bob", phone(1), ttl)
		w.wantCode(ttl.String(), err, im.CodeInvalid)
	}
}

func TestMintMakesTenantAndUserButNoDisabledOneIn(t *testing.T) {
	w := people(t)
	l, err := w.users.Mint(context.Background(), "acme", "alice", phone(1), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.wantAccess("made", l.Access, "")
	if _, err := w.users.Disable(context.Background(), l.Account); err != nil {
		t.Fatal(err)
	}
	w.wantAccess("disabled", l.Access, im.CodeUserDisabled)
	_, err = w.users.Mint(context.Background(), "acme", "alice", phone(1), 0)
	w.wantCode("disabled", err, im.CodeUserDisabled)
	_, err = w.users.Create(context.Background(), "acme", []im.User{"bob", "alice"})
	w.wantCode("a token without a device, disabled", err, im.CodeForbidden)
	if b, err := w.users.Create(context.Background(), "acme", []im.User{"bob"}); err != nil || !b[0].Created {
		t.Errorf("bob was made beside a user who is disabled: %+v, %v", b, err)
	}
	if _, err := w.users.Enable(context.Background(), l.Account); err != nil {
		t.Fatal(err)
	}
	w.wantAccess("a token of before, of one who may log in again", l.Access, im.CodeRevoked)
}

// A token that is made while a revocation is on its way to the disk works when
// the revocation was first.
func TestTokenMadeBesideARevocationWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.token("", "alice")
		open := w.store.hold()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.users.Revoke(context.Background(), alice); err != nil {
				t.Error(err)
			}
		})
		<-w.store.in
		var token string
		wg.Go(func() {
			issued, err := w.users.Create(context.Background(), "", []im.User{"alice"})
			if err != nil {
				t.Error(err)
				return
			}
			token = issued[0].Token
		})
		synctest.Wait()
		open()
		wg.Wait()
		w.wantAccount(token, alice)
	})
}

// stored is a user's record.
func (w *world) stored(u im.User) *storepb.User {
	w.t.Helper()
	b, err := w.store.Record(context.Background(), store.Users, im.DefaultTenant, []byte(u))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.parse(b)
}

func (w *world) parse(value []byte) *storepb.User {
	w.t.Helper()
	rec := &storepb.User{}
	if err := rec.UnmarshalVT(value); err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// Spec: P-11.2.
func TestTriesAreLimitedForEachUserAndEachAddress(t *testing.T) {
	w := newWorld(t)
	try := func(u im.User, tenant, from string) error {
		_, err := w.users.LogIn(context.Background(), tenant, u, "wrong password", phone(9), netip.MustParseAddr(from), false)
		return err
	}
	w.register("alice", phone(1))
	for i, who := range []struct {
		user   im.User
		tenant string
	}{{"alice", ""}, {"nobody", ""}, {"a/b", ""}, {"alice", "nowhere"}} { // the same for all: limits tell nobody who is there
		from := fmt.Sprint("192.0.2.", i)
		for range 5 {
			w.wantCode("a try", try(who.user, who.tenant, from), im.CodeBadCredentials)
		}
		w.wantCode(fmt.Sprintf("the sixth of %v", who), try(who.user, who.tenant, from), im.CodeRateLimited)
		w.wantCode("from elsewhere", try(who.user, who.tenant, "203.0.113.9"), im.CodeBadCredentials)
	}
	for i := range 20 {
		w.wantCode("from one address", try(im.User(fmt.Sprint("u", i)), "", "198.51.100.1"), im.CodeBadCredentials)
	}
	w.wantCode("the 21st from one address", try("u", "", "198.51.100.1"), im.CodeRateLimited)
	w.pass(time.Minute)
	w.wantCode("a minute later", try("u", "", "198.51.100.1"), im.CodeBadCredentials)

	register := func(n int) error {
		_, err := w.users.Register(context.Background(), user.Newcomer{User: im.User(fmt.Sprint("r", n)), Password: password}, phone(1), netip.MustParseAddr("198.51.100.7"))
		return err
	}
	for i := range 10 {
		if err := register(i); err != nil {
			t.Fatal(err)
		}
	}
	w.wantCode("the 11th registration", register(10), im.CodeRateLimited)
	w.wantCode("a taken id is not told either", register(1), im.CodeRateLimited)
	l := w.mint("alice", phone(1))
	for range 60 {
		l = w.refresh(l.Refresh, "")
	}
	_, err := w.users.Refresh(context.Background(), l.Refresh, "")
	w.wantCode("the 61st refresh", err, im.CodeRateLimited)
	w.pass(time.Second)
	w.refresh(l.Refresh, "")
}

// The right password of a disabled user is answered with user_disabled, a wrong one as that of
// any other user.
func TestDisabledUserIsToldSoWithTheRightPasswordOnly(t *testing.T) {
	w := people(t)
	w.register("alice", phone(1))
	if _, err := w.users.Disable(context.Background(), alice); err != nil {
		t.Fatal(err)
	}
	_, err := w.users.LogIn(context.Background(), "", "alice", password, phone(1), home, false)
	w.wantCode("the right password", err, im.CodeUserDisabled)
	_, err = w.users.LogIn(context.Background(), "", "alice", "a wrong password", phone(1), home, false)
	w.wantCode("a wrong password", err, im.CodeBadCredentials)
}

// A login with the old password fails after the change of the password, however long the
// check of it took.
func TestLoginWithAPasswordThatIsChangedMeanwhileIsRefused(t *testing.T) {
	for want, change := range map[im.Code]func(w *world) error{
		im.CodeBadCredentials: func(w *world) error {
			_, err := w.users.SetPassword(context.Background(), alice, "a new password")
			return err
		},
		im.CodeUserDisabled: func(w *world) error { _, err := w.users.Disable(context.Background(), alice); return err },
	} {
		w := people(t)
		w.register("alice", phone(1))
		w.store.onRead(func(table store.Table) {
			if table == store.Users {
				w.store.onRead(nil)
				if err := change(w); err != nil {
					t.Error(err)
				}
			}
		})
		_, err := w.users.LogIn(context.Background(), "", "alice", password, phone(2), home, false)
		w.wantCode("changed meanwhile", err, want)
	}
}

// attackers are addresses in networks of IPv6, 50 in each.
func attackers() int { return intEnv("PETREL_ADDRESSES", 2000) }

func intEnv(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// An attacker who guesses from many addresses has few tries, and cannot keep a user out who
// logs in with a known device. Spec: P-11.2.
func TestStrangersDoNotLockAKnownDeviceOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register("alice", phone(1))
		w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
		tries := map[im.Code]int{}
		var mu sync.Mutex
		attack := func(from netip.Addr) {
			_, err := w.users.LogIn(context.Background(), "", "alice", "wrong password", user.DeviceRef{ID: "guessed"}, from, false)
			mu.Lock()
			defer mu.Unlock()
			tries[im.CodeOf(err)]++
		}
		var wg sync.WaitGroup
		work := make(chan netip.Addr)
		for range 8 { // a few of them wait for their turn
			wg.Go(func() {
				for from := range work {
					attack(from)
				}
			})
		}
		for i := range attackers() {
			site, in := i/50, i%50
			work <- netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(site >> 8), byte(site), 0, byte(in), 15: 1})
			if i%500 == 0 {
				if _, err := w.users.LogIn(context.Background(), "", "alice", password, phone(1), home, false); i < 5*500 && err != nil {
					t.Errorf("after %d tries of others alice cannot log in with her phone: %v", i, err)
				}
			}
		}
		close(work)
		wg.Wait()
		const most = 10*5 + 2 // at once, and those that came after a delay of 1.2 and 2.4 s
		if n := tries[im.CodeBadCredentials]; n != most || tries[im.CodeRateLimited] != attackers()-n {
			t.Errorf("the tries end with %v, want %d that look at the password", tries, most)
		}
		for range 30 { // from the address where she is
			attack(home)
		}
		w.logIn("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
	})
}

// A device that was revoked is known no more: a thief has it.
func TestRevokedDeviceIsNotKnown(t *testing.T) {
	w := newWorld(t)
	w.register("alice", phone(1))
	w.logIn("alice", user.DeviceRef{ID: "stolen"})
	if err := w.users.RevokeDevice(context.Background(), alice, "stolen"); err != nil {
		t.Fatal(err)
	}
	codes := map[im.Code]int{}
	for range 10 {
		_, err := w.users.LogIn(context.Background(), "", "alice", "wrong password", user.DeviceRef{ID: "stolen"}, netip.MustParseAddr("192.0.2.77"), false)
		codes[im.CodeOf(err)]++
	}
	if codes[im.CodeBadCredentials] != 5 {
		t.Errorf("ten tries end with %v, want 5 that look at the password, as for any stranger", codes)
	}
}
