package user_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"github.com/petrel-im/petrel/internal/operator"
	hashing "github.com/petrel-im/petrel/internal/password"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow is a store whose updates a test can hold up.
type slow struct {
	store.Store
	mu   sync.Mutex
	held chan struct{}     // nil: open
	in   chan struct{}     // capacity 16; a token for every update that waits
	read func(store.Table) // behind the look-up of a record; nil: nothing
	err  error             // of updates; nil: they are made
}

func (s *slow) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// onRead sets what happens behind the look-up of a record, or of several, and, with the table 0, of a conversation.
func (s *slow) onRead(f func(store.Table)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = f
}

func (s *slow) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	v, err := s.Store.Record(ctx, t, tenant, key)
	s.mu.Lock()
	f := s.read
	s.mu.Unlock()
	if f != nil {
		f(t)
	}
	return v, err
}

func (s *slow) Records(ctx context.Context, t store.Table, tenant im.Tenant, prefix []byte, fn func(key, value []byte) bool) error {
	err := s.Store.Records(ctx, t, tenant, prefix, fn)
	s.mu.Lock()
	f := s.read
	s.mu.Unlock()
	if f != nil {
		f(t)
	}
	return err
}

func (s *slow) Conversation(ctx context.Context, c im.Key) (*storepb.Conversation, error) {
	rec, err := s.Store.Conversation(ctx, c)
	s.mu.Lock()
	f := s.read
	s.mu.Unlock()
	if f != nil {
		f(0)
	}
	return rec, err
}

func (s *slow) Update(ctx context.Context, puts []store.RecordPut) error {
	s.mu.Lock()
	held, err := s.held, s.err
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if held != nil {
		s.in <- struct{}{}
		<-held
	}
	// As on a disk: a caller who goes away does not stop what is being written.
	if err := s.Store.Update(context.WithoutCancel(ctx), puts); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *slow) hold() (open func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := make(chan struct{})
	s.held = ch
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = nil
		close(ch)
	}
}

// cheap is the work of the hashes of most tests: the least that argon2 takes.
var cheap = hashing.Work{Memory: 8, Time: 1, Threads: 1}

// world is the accounts of a store in memory, or of a database.
type world struct {
	t         testing.TB
	fs        vfs.FS
	dsn       string // of the database; "": there is none
	store     *slow
	users     *user.Users
	operators *operator.Operators
	shared    bool         // the operators are those of one of several nodes
	o         user.Options // but for Now
	mu        sync.Mutex
	now       time.Time
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, fs: vfs.NewMem(), now: time.UnixMilli(1795262400000), o: user.Options{Registration: user.Open, PasswordWork: cheap}}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	w.t.Helper()
	var st store.Store
	var err error
	if w.dsn != "" {
		st, err = pgstore.Open(context.Background(), pgstore.Options{DSNs: []string{w.dsn}})
	} else {
		st, err = pebblestore.Open(pebblestore.Options{Dir: "data", FS: w.fs, CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = &slow{Store: st, in: make(chan struct{}, 16)}
	now := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	}
	w.o.Now = now
	if w.users, err = user.New(context.Background(), w.o, w.store); err != nil {
		w.t.Fatal(err)
	}
	w.operators = w.newOperators(w.users)
}

func (w *world) newOperators(us *user.Users) *operator.Operators {
	return operator.New(operator.Options{Now: w.o.Now, Logins: w.o.Rates.Logins, LoginsPerIP: w.o.Rates.LoginsPerIP, Shared: w.shared}, w.store, us)
}

func (w *world) close() {
	if err := w.store.Close(); err != nil {
		w.t.Errorf("close store: %v", err)
	}
}

func (w *world) reopen() {
	w.t.Helper()
	w.close()
	w.open()
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// token makes a user, or a further token of one.
func (w *world) token(tenant string, u im.User) string {
	w.t.Helper()
	issued, err := w.users.Create(context.Background(), tenant, []im.User{u})
	if err != nil || len(issued) != 1 || issued[0].User != u {
		w.t.Fatalf("create %s of tenant %q: %+v, %v", u, tenant, issued, err)
	}
	return issued[0].Token
}

func (w *world) tenant(name string) im.Tenant {
	w.t.Helper()
	n, err := w.users.Tenant(context.Background(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) wantAccount(token string, want im.Account) {
	w.t.Helper()
	if got, err := w.users.Authenticate(context.Background(), token); err != nil || got != (user.Identity{Account: want, Epoch: got.Epoch}) {
		w.t.Errorf("the token of %s is that of %+v, %v", want, got, err)
	}
}

func (w *world) wantRefused(what, token string) {
	w.t.Helper()
	if got, err := w.users.Authenticate(context.Background(), token); im.CodeOf(err) != im.CodeUnauthenticated || err == nil || got != (user.Identity{}) {
		w.t.Errorf("%s: %q is %+v, %v; want %s", what, token, got, err, im.CodeUnauthenticated)
	}
}

func TestTokenNamesItsUser(t *testing.T) {
	w := newWorld(t)
	for _, tenant := range []string{"", "default", "acme", "a_b@c+d-e"} {
		for _, u := range []im.User{"alice", "a.b", ".", "..", "a..b.", "x@example.org", im.User(strings.Repeat("u", im.MaxUser))} {
			token := w.token(tenant, u)
			w.wantAccount(token, im.Account{Tenant: w.tenant(tenant), User: u})
			if !strings.HasPrefix(token, "pt_") || len(token) < 43+len("pt_") {
				t.Errorf("token %q", token)
			}
		}
	}
	if w.tenant("") != im.DefaultTenant || w.tenant("default") != im.DefaultTenant {
		t.Error("the default tenant has another number")
	}
}

func TestTokenAlteredInOneCharacterIsRefused(t *testing.T) {
	w := newWorld(t)
	w.token("acme", "bob") // a tenant and users that an altered token could meet
	for _, u := range []im.User{"a.b", "alice"} {
		token := w.token("", u)
		for i := range token {
			for _, c := range []byte{'A', 'b', '.', '_', '0', token[i] ^ 1, token[i] ^ 0x20} {
				if c != token[i] {
					w.wantRefused("altered", token[:i]+string(rune(c))+token[i+1:])
				}
			}
			w.wantRefused("shortened", token[:i]+token[i+1:])
			w.wantRefused("cut", token[:i])
		}
		for _, more := range []string{"A", "=", ".", " ", "\n", "\x00"} {
			w.wantRefused("lengthened", token+more)
			w.wantRefused("prefixed", more+token)
		}
		w.wantAccount(token, im.Account{Tenant: im.DefaultTenant, User: u})
	}
}

func TestTokenIsOfItsTenantOnly(t *testing.T) {
	w := newWorld(t)
	one, two := w.token("acme", "alice"), w.token("globex", "alice")
	w.wantRefused("token under another tenant", strings.Replace(one, "pt_acme.", "pt_globex.", 1))
	w.wantRefused("token under the default tenant", strings.Replace(one, "pt_acme.", "pt_default.", 1))
	w.wantRefused("token under no tenant", strings.Replace(one, "pt_acme.", "pt_.", 1))
	w.wantAccount(one, im.Account{Tenant: w.tenant("acme"), User: "alice"})
	w.wantAccount(two, im.Account{Tenant: w.tenant("globex"), User: "alice"})
	if ok, err := w.users.Exists(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}); ok || err != nil {
		t.Errorf("the default tenant has a user of another one: %t, %v", ok, err)
	}
}

func TestGarbageIsNoToken(t *testing.T) {
	w := newWorld(t)
	secret := w.token("", "alice")[len("pt_default.alice."):]
	for _, s := range []string{"", "pt_", "pt_.", "pt_..", "pt_default", "pt_default.", "pt_default..", "pt_default.alice", "pt_default.alice.", "pt_default.." + secret,
		"pk_" + secret, "PT_default.alice." + secret, secret, "pt_nobody.alice." + secret, "pt_default.bob." + secret, strings.Repeat("x", 1<<16),
		"pt_default.alice." + strings.Repeat("A", 1<<16), "pt_\xff.alice." + secret} {
		w.wantRefused("garbage", s)
	}
}

// Spec: P-3.5.
func TestRevokeEndsEveryTokenOfOneUser(t *testing.T) {
	w := newWorld(t)
	phone, laptop, bob, other := w.token("", "alice"), w.token("", "alice"), w.token("", "bob"), w.token("acme", "alice")
	alice := im.Account{Tenant: im.DefaultTenant, User: "alice"}
	for range 2 {
		if err := w.users.Revoke(context.Background(), alice); err != nil {
			t.Fatal(err)
		}
		w.wantRefused("revoked", phone)
		w.wantRefused("revoked", laptop)
		w.wantAccount(bob, im.Account{Tenant: im.DefaultTenant, User: "bob"})
		w.wantAccount(other, im.Account{Tenant: w.tenant("acme"), User: "alice"})
		w.reopen()
	}
	w.wantRefused("revoked before a restart", phone)
	w.wantAccount(w.token("", "alice"), alice)
	if err := w.users.Revoke(context.Background(), im.Account{Tenant: 1, User: "nobody"}); im.CodeOf(err) != im.CodeNoUser {
		t.Errorf("revoke of nobody: %v", err)
	}
}

func TestTokenEndsWithItsTime(t *testing.T) {
	w := newWorld(t)
	token := w.token("", "alice")
	sum := sha256.Sum256([]byte(token))
	w.mu.Lock()
	until := uint64(w.now.UnixMilli()) + 1000
	w.mu.Unlock()
	w.put(store.Tokens, sum[:], &storepb.Token{User: "alice", ExpiresMs: until})
	w.pass(999 * time.Millisecond)
	w.wantAccount(token, im.Account{Tenant: im.DefaultTenant, User: "alice"})
	w.pass(time.Millisecond)
	w.wantRefused("expired", token)
}

func TestDisabledUserIsRefused(t *testing.T) {
	w := newWorld(t)
	token := w.token("", "alice")
	w.put(store.Users, []byte("alice"), &storepb.User{Disabled: true})
	_, err := w.users.Authenticate(context.Background(), token)
	w.wantCode("disabled", err, im.CodeUserDisabled)
}

// marshaler is a record.
type marshaler interface{ MarshalVT() ([]byte, error) }

func (w *world) put(table store.Table, key []byte, m marshaler) {
	w.t.Helper()
	b, err := m.MarshalVT()
	if err == nil {
		err = w.store.Update(context.Background(), []store.RecordPut{{Table: table, Tenant: im.DefaultTenant, Key: key, Value: b}})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// Damage is not a wrong token: the client would throw a good one away.
func TestDamagedRecordIsNotAWrongToken(t *testing.T) {
	w := newWorld(t)
	token := w.token("", "alice")
	err := w.store.Update(context.Background(), []store.RecordPut{{Table: store.Users, Tenant: im.DefaultTenant, Key: []byte("alice"), Value: []byte{0xff}}})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := w.users.Authenticate(context.Background(), token); err == nil || im.CodeOf(err) != im.CodeInternal {
		t.Errorf("%+v, %v; want an error of the server", a, err)
	}
}

func TestFurtherTokenOfAnExistingUser(t *testing.T) {
	w := newWorld(t)
	issued, err := w.users.Create(context.Background(), "", []im.User{"alice", "bob", "alice"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.users.Create(context.Background(), "", []im.User{"carol", "bob"})
	if err != nil {
		t.Fatal(err)
	}
	issued = append(issued, again...)
	var got []string
	seen := map[string]bool{}
	for _, i := range issued {
		got = append(got, fmt.Sprint(i.User, " ", i.Created))
		w.wantAccount(i.Token, im.Account{Tenant: im.DefaultTenant, User: i.User})
		if seen[i.Token] {
			t.Errorf("the same token twice")
		}
		seen[i.Token] = true
	}
	if d := cmp.Diff([]string{"alice true", "bob true", "alice false", "carol true", "bob false"}, got); d != "" {
		t.Errorf("issued (-want +got):\n%s", d)
	}
}

func TestOneBadUserMakesNobody(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []im.User{"", "a b", "a/b", im.User(strings.Repeat("x", 65)), "\xff"} {
		if issued, err := w.users.Create(context.Background(), "newtenant", []im.User{"alice", bad}); im.CodeOf(err) != im.CodeInvalid || err == nil || issued != nil {
			t.Errorf("user %q: %v, %v", bad, issued, err)
		}
	}
	if _, err := w.users.Tenant(context.Background(), "newtenant"); err == nil {
		t.Error("a refused call has made a tenant")
	}
}

func TestUserMadeByManyAtOnceIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	results := make([]user.Issued, 20)
	for i := range results {
		wg.Go(func() {
			issued, err := w.users.Create(context.Background(), "acme", []im.User{"alice"})
			if err != nil {
				t.Error(err)
				return
			}
			results[i] = issued[0]
		})
	}
	wg.Wait()
	created := 0
	for _, r := range results {
		w.wantAccount(r.Token, im.Account{Tenant: w.tenant("acme"), User: "alice"})
		if r.Created {
			created++
		}
	}
	if created != 1 {
		t.Errorf("made %d times", created)
	}
}

func TestTenantsSurviveAReopen(t *testing.T) {
	w := newWorld(t)
	want := map[string]im.Tenant{"": im.DefaultTenant, "default": im.DefaultTenant}
	numbers := map[im.Tenant]bool{im.DefaultTenant: true}
	for i := range 5 {
		name := fmt.Sprint("tenant-", i)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if _, err := w.users.EnsureTenant(context.Background(), name); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want[name] = w.tenant(name)
		if numbers[want[name]] {
			t.Errorf("tenant %s has number %d, which another one has", name, want[name])
		}
		numbers[want[name]] = true
		if i == 2 {
			w.reopen()
		}
	}
	w.reopen()
	for name, n := range want {
		if got := w.tenant(name); got != n {
			t.Errorf("tenant %q has number %d after a restart, had %d", name, got, n)
		}
	}
	for _, bad := range []string{"a.b", "a b", "a/b", strings.Repeat("x", 33), "\xff"} {
		if _, err := w.users.EnsureTenant(context.Background(), bad); err == nil || im.CodeOf(err) != im.CodeInvalid {
			t.Errorf("tenant %q: %v", bad, err)
		}
	}
	if _, err := w.users.Tenant(context.Background(), "nobody"); err == nil || im.CodeOf(err) != im.CodeInvalid {
		t.Errorf("unknown tenant: %v", err)
	}
}

// A number that was given out is known, also when nobody waited for it: two
// tenants with one number would see each other.
func TestTenantOfACallerWhoWentAwayKeepsItsNumber(t *testing.T) {
	w := newWorld(t)
	open := w.store.hold()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.users.EnsureTenant(ctx, "acme") // nobody waits for the answer
	}()
	<-w.store.in
	cancel()
	open()
	<-done
	want := map[string]im.Tenant{}
	for _, name := range []string{"globex", "acme"} {
		n, err := w.users.EnsureTenant(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		want[name] = n
	}
	w.reopen()
	if a, g := w.tenant("acme"), w.tenant("globex"); a == g || a != want["acme"] || g != want["globex"] {
		t.Errorf("tenants have the numbers %d and %d, had %v", a, g, want)
	}
}

// Nothing that was shown once is on the disk, in no file of the store.
func TestSecretsAreNotStored(t *testing.T) {
	w := newWorld(t)
	code, err := w.operators.OpenSetup(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	key, err := w.operators.Redeem(context.Background(), code, "")
	if err != nil {
		t.Fatal(err)
	}
	token := w.token("", "alice")
	secrets := map[string]string{"setup code": code, "admin key": key[len("pk_"):], "token": token[strings.LastIndexByte(token, '.')+1:]}
	w.close()
	found := false
	each(t, w.fs, "data", func(name string, b []byte) {
		found = found || bytes.Contains(b, []byte("alice"))
		for what, s := range secrets {
			if len(s) < 40 || bytes.Contains(b, []byte(s)) || bytes.Contains(b, []byte(s[:20])) {
				t.Errorf("%s holds the %s", name, what)
			}
		}
	})
	if !found {
		t.Error("not even the user's name was found: this looks at the wrong place")
	}
	w.open()
}

func each(t *testing.T, fs vfs.FS, dir string, f func(name string, b []byte)) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name := fs.PathJoin(dir, n)
		if st, err := fs.Stat(name); err != nil {
			t.Fatal(err)
		} else if st.IsDir() {
			each(t, fs, name, f)
			continue
		}
		r, err := fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close() // was only read
		f(name, b)
	}
}

// A disk that does not answer holds up changes, not logins.
func TestLoginDoesNotWaitForAChange(t *testing.T) {
	for name, change := range map[string]func(w *world, code string) error{
		"revoke": func(w *world, _ string) error { return w.users.Revoke(context.Background(), alice) },
		"tenant": func(w *world, _ string) error {
			_, err := w.users.EnsureTenant(context.Background(), "new")
			return err
		},
		"redeem": func(w *world, code string) error {
			_, err := w.operators.Redeem(context.Background(), code, "")
			return err
		},
		"create": func(w *world, _ string) error {
			_, err := w.users.Create(context.Background(), "", []im.User{"bob"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				token := w.token("", "alice")
				code, err := w.operators.OpenSetup(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				open := w.store.hold()
				changed := make(chan error, 1)
				go func() { changed <- change(w, code) }()
				<-w.store.in
				login := make(chan error, 1)
				go func() { _, err := w.users.Authenticate(context.Background(), token); login <- err }()
				synctest.Wait()
				select {
				case err := <-login:
					if err != nil && (name != "revoke" || im.CodeOf(err) != im.CodeUnauthenticated) {
						t.Errorf("login: %v", err)
					}
				default:
					t.Error("a login waits for the disk")
					defer func() { <-login }()
				}
				open()
				if err := <-changed; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
