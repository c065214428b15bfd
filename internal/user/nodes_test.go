package user_test

import (
	"context"
	"errors"
	"fmt"
	"github.com/petrel-im/petrel/internal/operator"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
)

// node is a further node on the store of a world.
func (w *world) node() *user.Users {
	w.t.Helper()
	us, err := user.New(context.Background(), w.o, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return us
}

// otherOperators are those of a further node.
func (w *world) otherOperators() *operator.Operators { return w.newOperators(w.node()) }

// sharedWorld is one of several nodes.
func sharedWorld(t *testing.T) *world {
	w := people(t)
	w.shared = true
	w.reopen()
	return w
}

// between does f once, behind the next reading of a table by somebody else.
func (w *world) between(table store.Table, f func()) {
	var done atomic.Bool // reads may be under way at the same time
	w.store.onRead(func(t store.Table) {
		if t == table && done.CompareAndSwap(false, true) {
			f()
		}
	})
	w.t.Cleanup(func() {
		if !done.Load() {
			w.t.Error("nothing came between")
		}
	})
}

func (w *world) no(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Error(err)
	}
}

// F11: two logins of one kind on two nodes have two numbers, and only the
// higher one stays.
func TestF11LoginsOnTwoNodesHaveTwoNumbers(t *testing.T) {
	for what, table := range map[string]store.Table{"user": store.Users, "devices": store.Devices} {
		t.Run("behind the reading of "+what, func(t *testing.T) {
			w := people(t)
			b := w.node()
			w.mint("alice", user.DeviceRef{ID: "laptop", Kind: "desktop"})
			var low *user.Login
			w.between(table, func() {
				var err error
				low, err = b.Mint(context.Background(), "", "alice", phone(2), 0)
				w.no(err)
			})
			high := w.mint("alice", phone(1))
			if low.Number != 2 || high.Number != 3 || !slices.Equal(high.Ended, []string{"phone-2"}) {
				t.Errorf("logins %+v and %+v", low, high)
			}
			w.wantAccess("the lower number", low.Access, im.CodeReplaced)
			w.wantAccess("the higher number", high.Access, "")
		})
	}
}

// Spec: P-11.3.
func TestRefreshTokenWorksOnceOnTwoNodes(t *testing.T) {
	for what, ids := range map[string][2]string{"without request ids": {"", ""}, "with two": {"r", "s"}, "repeated": {"r", "r"}} {
		t.Run(what, func(t *testing.T) {
			w := people(t)
			b := w.node()
			one := w.mint("alice", phone(1))
			var first *user.Login
			w.between(store.Devices, func() {
				var err error
				first, err = b.Refresh(context.Background(), one.Refresh, ids[0])
				w.no(err)
			})
			second, err := w.users.Refresh(context.Background(), one.Refresh, ids[1])
			if ids[0] == ids[1] && ids[0] != "" {
				if d := cmp.Diff(first, second); d != "" || err != nil {
					t.Errorf("repeated: %v (-first +second):\n%s", err, d)
				}
				w.wantAccess("what both have", first.Access, "")
				return
			}
			w.wantCode("used again", err, im.CodeRefreshReused)
			w.wantAccess("what the first one got", first.Access, im.CodeRevoked)
			_, err = b.Refresh(context.Background(), first.Refresh, "")
			w.wantCode("its refresh token", err, im.CodeUnauthenticated)
		})
	}
}

// If two nodes change one account at the same time, both changes stay.
func TestNoChangeOfAnAccountIsLost(t *testing.T) {
	type nodes struct {
		*world
		b    *user.Users
		l    *user.Login
		late *user.Login // made by change
	}
	for what, c := range map[string]struct {
		table   store.Table
		between func(n *nodes) error // on another node, behind the reading of the table
		change  func(n *nodes) error
		want    func(n *nodes)
	}{
		"a name, a disabling": {store.Users,
			func(n *nodes) error { _, err := n.b.Disable(context.Background(), alice); return err },
			func(n *nodes) error {
				_, _, err := n.users.UpdateAccount(context.Background(), alice, shown("Alice"))
				return err
			},
			func(n *nodes) {
				if i, err := n.users.Get(context.Background(), alice); err != nil || !i.Disabled || i.DisplayName != "Alice" {
					n.t.Errorf("%+v, %v", i, err)
				}
				n.wantAccess("disabled", n.l.Access, im.CodeUserDisabled)
			}},
		"a disabling, a name": {store.Devices,
			func(n *nodes) error {
				_, _, err := n.b.UpdateAccount(context.Background(), alice, shown("Alice"))
				return err
			},
			func(n *nodes) error { _, err := n.users.Disable(context.Background(), alice); return err },
			func(n *nodes) {
				if i, err := n.users.Get(context.Background(), alice); err != nil || !i.Disabled || i.DisplayName != "Alice" {
					n.t.Errorf("%+v, %v", i, err)
				}
			}},
		"a device's name, its revocation": {store.Devices,
			func(n *nodes) error { return n.b.RevokeDevice(context.Background(), alice, "phone-1") },
			func(n *nodes) error {
				_, err := n.users.RenameDevice(context.Background(), alice, "phone-1", "mine")
				return err
			},
			func(n *nodes) { n.wantAccess("revoked", n.l.Access, im.CodeRevoked) }},
		"a refresh, a disabling": {store.Devices,
			func(n *nodes) error { _, err := n.b.Disable(context.Background(), alice); return err },
			func(n *nodes) error {
				_, err := n.users.Refresh(context.Background(), n.l.Refresh, "")
				n.wantCode("refresh", err, im.CodeUserDisabled)
				_, err = n.users.Enable(context.Background(), alice)
				return err
			},
			func(n *nodes) { n.wantAccess("disabled and back", n.l.Access, im.CodeRevoked) }},
		"a disabling, a login": {store.Devices,
			func(n *nodes) (err error) {
				n.late, err = n.b.Mint(context.Background(), "", "alice", phone(2), 0)
				return err
			},
			func(n *nodes) error {
				_, err := n.users.Disable(context.Background(), alice)
				n.no(err)
				_, err = n.users.Enable(context.Background(), alice)
				return err
			},
			func(n *nodes) { n.wantAccess("the login between", n.late.Access, im.CodeRevoked) }},
		"a login, a revocation": {store.Users,
			func(n *nodes) error { return n.b.Revoke(context.Background(), alice) },
			func(n *nodes) (err error) {
				n.late, err = n.users.Mint(context.Background(), "", "alice", user.DeviceRef{ID: "laptop"}, 0)
				return err
			},
			func(n *nodes) {
				n.wantAccess("a login behind the revocation", n.late.Access, "")
				n.wantAccess("one before it", n.l.Access, im.CodeRevoked)
				if rec := n.stored("alice"); rec.Epoch != 1 || rec.Logins != 2 {
					n.t.Errorf("user %v", rec)
				}
			}},
		"the client of a hello, a revocation": {store.Devices,
			func(n *nodes) error { // the first look only says that there is something to note
				n.between(store.Devices, func() { n.no(n.b.RevokeDevice(context.Background(), alice, "phone-1")) })
				return nil
			},
			func(n *nodes) error {
				id := user.Identity{Account: alice, Device: "phone-1", Login: n.l.Number}
				return n.users.NoteClient(context.Background(), id, "client/1")
			},
			func(n *nodes) { n.wantAccess("revoked", n.l.Access, im.CodeRevoked) }},
		"a token, a revocation": {store.Users,
			func(n *nodes) error { return n.b.Revoke(context.Background(), alice) },
			func(n *nodes) error { n.wantAccount(n.token("", "alice"), alice); return nil },
			func(n *nodes) {
				n.wantAccess("one before it", n.l.Access, im.CodeRevoked)
				if e := n.stored("alice").Epoch; e != 1 {
					n.t.Errorf("epoch %d", e)
				}
			}},
	} {
		t.Run(what, func(t *testing.T) {
			n := &nodes{world: people(t)}
			n.b, n.l = n.node(), n.mint("alice", phone(1))
			n.between(c.table, func() { n.no(c.between(n)) })
			n.no(c.change(n))
			c.want(n)
		})
	}
}

func TestUserMadeOnTwoNodesIsMadeOnce(t *testing.T) {
	w := people(t)
	b := w.node()
	var theirs []user.Issued
	w.between(store.Users, func() {
		var err error
		theirs, err = b.Create(context.Background(), "", []im.User{"bob", "alice"})
		w.no(err)
	})
	ours, err := w.users.Create(context.Background(), "", []im.User{"alice", "carol", "alice"})
	if err != nil || ours[0].Created || !ours[1].Created || ours[2].Created || !theirs[0].Created || !theirs[1].Created {
		t.Fatalf("made %+v and %+v, %v", ours, theirs, err)
	}
	for _, i := range slices.Concat(ours, theirs) {
		w.wantAccount(i.Token, im.Account{Tenant: im.DefaultTenant, User: i.User})
	}
	fresh := people(t)
	b = fresh.node()
	fresh.between(store.Users, func() { // the look before the hash is made
		fresh.between(store.Users, func() {
			_, err := b.Register(context.Background(), user.Newcomer{User: "alice", Password: "another password"}, phone(2), home)
			fresh.no(err)
		})
	})
	_, err = fresh.users.Register(context.Background(), user.Newcomer{User: "alice", Password: password}, phone(1), home)
	fresh.wantCode("registered on another node", err, im.CodeUserExists)
	_, err = fresh.users.LogIn(context.Background(), "", "alice", "another password", phone(2), home, false)
	fresh.no(err)
}

// Two tenants with one number would see each other, and what one node made the
// others know.
func TestTenantsOfTwoNodes(t *testing.T) {
	w := people(t)
	b := w.node()
	w.between(store.Tenants, func() {
		_, err := b.EnsureTenant(context.Background(), "globex")
		w.no(err)
		_, err = b.EnsureTenant(context.Background(), "initech")
		w.no(err)
	})
	_, err := w.users.EnsureTenant(context.Background(), "acme")
	w.no(err)
	w.between(store.Settings, func() {
		_, err := b.EnsureTenant(context.Background(), "hooli")
		w.no(err)
	})
	n, err := w.users.EnsureTenant(context.Background(), "hooli")
	w.no(err)
	numbers := map[im.Tenant]string{im.DefaultTenant: "default"}
	for _, name := range []string{"globex", "initech", "acme", "hooli"} {
		one, two := w.tenant(name), im.Tenant(0)
		two, err = b.Tenant(context.Background(), name)
		if err != nil || one != two || numbers[one] != "" || name == "hooli" && n != one {
			t.Errorf("tenant %s has the numbers %d and %d (%q), %v", name, one, two, numbers[one], err)
		}
		numbers[one] = name
	}
	// A node that was there before them.
	issued, err := b.Create(context.Background(), "umbrella", []im.User{"alice"})
	w.no(err)
	if id, err := w.users.Authenticate(context.Background(), issued[0].Token); err != nil || id.Account.User != "alice" || numbers[id.Account.Tenant] != "" {
		t.Errorf("a token of a tenant that another node has made: %+v, %v", id, err)
	}
	_, made, err := w.newOperators(b).CreateKey(context.Background(), "ci", "soylent", []string{"users"})
	w.no(err)
	keys, err := w.operators.Keys(context.Background())
	if err != nil || len(keys) != 1 || cmp.Diff(made, keys[0]) != "" || made.TenantName != "soylent" {
		t.Errorf("keys %+v, %v; want %+v", keys, err, made)
	}
}

func TestSetupOfTwoNodesMakesOneKey(t *testing.T) {
	open := func(t *testing.T) (w *world, b *operator.Operators, ours, theirs string) {
		w = sharedWorld(t)
		b = w.otherOperators()
		ours, theirs = w.setup(), ""
		theirs, err := b.OpenSetup(context.Background())
		w.no(err)
		return w, b, ours, theirs
	}
	t.Run("any node takes the code of any", func(t *testing.T) {
		w, b, ours, theirs := open(t)
		key, err := w.operators.Redeem(context.Background(), theirs, "")
		w.no(err)
		w.wantAdmin(key, true)
		w.wantClosed("the other code", ours)
		if _, err := b.Redeem(context.Background(), ours, ""); im.CodeOf(err) != im.CodeSetupClosed || err == nil {
			t.Errorf("the other code on the other node: %v", err)
		}
	})
	t.Run("two codes at once", func(t *testing.T) {
		w, b, ours, theirs := open(t)
		w.between(store.Tokens, func() {
			_, err := b.Redeem(context.Background(), theirs, "")
			w.no(err)
		})
		w.wantClosed("too late", ours)
	})
	t.Run("opened behind the first key", func(t *testing.T) {
		w := sharedWorld(t)
		b := w.otherOperators()
		w.between(store.Tokens, func() {
			code, err := b.OpenSetup(context.Background())
			w.no(err)
			_, err = b.Redeem(context.Background(), code, "")
			w.no(err)
		})
		if code := w.setup(); code != "" {
			t.Errorf("opened %q", code)
		}
	})
}

func TestLastAdminKeyStaysOnTwoNodes(t *testing.T) {
	w := people(t)
	b := w.otherOperators()
	_, one, err := w.operators.CreateKey(context.Background(), "one", "", []string{operator.ScopeAdmin})
	w.no(err)
	_, two, err := b.CreateKey(context.Background(), "two", "", []string{operator.ScopeAdmin})
	w.no(err)
	w.between(store.Tokens, func() { w.no(b.RevokeKey(context.Background(), one.ID)) })
	w.wantCode("the last one", w.operators.RevokeKey(context.Background(), two.ID), im.CodeInvalid)
}

// Two nodes act on one account at once. Numbers are unique, a refresh token works once, and
// one device of a kind stays.
func TestAccountUnderFireOnTwoNodes(t *testing.T) {
	w := people(t)
	nodes := []*user.Users{w.users, w.node()}
	family := w.mint("alice", user.DeviceRef{ID: "tablet"})
	w.token("", "carol")
	const each = 30
	var mu sync.Mutex
	numbers := map[uint64]int{}
	var refreshed, reused, revokes int
	tenants := map[im.Tenant]int{}
	var wg sync.WaitGroup
	for i, us := range nodes {
		for j := range each {
			ctx := context.Background()
			wg.Go(func() {
				l, err := us.Mint(ctx, "", "alice", phone(i*each+j), 0)
				w.no(err)
				mu.Lock()
				defer mu.Unlock()
				numbers[l.Number]++
			})
			wg.Go(func() {
				_, err := us.Refresh(ctx, family.Refresh, "")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					refreshed++
				} else if im.CodeOf(err) == im.CodeRefreshReused {
					reused++
				}
			})
			wg.Go(func() {
				w.no(us.Revoke(ctx, im.Account{Tenant: im.DefaultTenant, User: "carol"}))
				mu.Lock()
				defer mu.Unlock()
				revokes++
			})
			wg.Go(func() {
				n, err := us.EnsureTenant(ctx, fmt.Sprint("tenant", i, "-", j))
				w.no(err)
				mu.Lock()
				defer mu.Unlock()
				tenants[n]++
			})
		}
	}
	wg.Wait()
	if len(numbers) != 2*each || len(tenants) != 2*each {
		t.Errorf("%d numbers of logins, %d of tenants; want %d of each", len(numbers), len(tenants), 2*each)
	}
	if refreshed != 1 || reused != 1 {
		t.Errorf("the token worked %d times, and %d times it ended the device", refreshed, reused)
	}
	if e := w.stored("carol").Epoch; e != uint64(revokes) {
		t.Errorf("%d revocations, epoch %d", revokes, e)
	}
	phones := 0
	devices, err := w.users.Devices(context.Background(), alice)
	w.no(err)
	for _, d := range devices {
		if d.Kind == "phone" && !d.Revoked {
			phones++
			if d.Login != 2*each+1 {
				t.Errorf("the phone that stays has number %d", d.Login)
			}
		}
	}
	if phones != 1 {
		t.Errorf("%d phones stay", phones)
	}
}

// A record that changes each time is given up on, and said.
func TestChangeThatIsAlwaysTooLateIsOverloaded(t *testing.T) {
	w := people(t)
	w.mint("alice", phone(1))
	n := 0
	w.store.onRead(func(table store.Table) {
		if table == store.Users {
			rec := w.store.Store
			v, err := rec.Record(context.Background(), store.Users, im.DefaultTenant, []byte("alice"))
			w.no(err)
			n++
			u := w.parse(v)
			u.DisplayName = fmt.Sprint(n)
			v, err = u.MarshalVT()
			w.no(err)
			w.no(rec.Update(context.Background(), []store.RecordPut{{Table: store.Users, Tenant: im.DefaultTenant, Key: []byte("alice"), Value: v}}))
		}
	})
	_, _, err := w.users.UpdateAccount(context.Background(), alice, shown("never"))
	w.wantCode("always too late", err, im.CodeOverloaded)
	if n < 5 || n > 50 {
		t.Errorf("%d tries", n)
	}
}

// Everything that ends tokens is told, when it is durable or may be.
func TestWhoseTokensEndIsTold(t *testing.T) {
	var mu sync.Mutex
	var told []im.Account
	w := people(t, func(o *user.Options) {
		o.Changed = func(a im.Account) { mu.Lock(); defer mu.Unlock(); told = append(told, a) }
	})
	ctx := context.Background()
	l := w.register("alice", phone(1))
	var one *user.Login
	for _, c := range []struct {
		what string
		told int
		do   func() error
	}{
		{"a login that ends none", 0, func() error { _, err := w.users.Mint(ctx, "", "alice", user.DeviceRef{ID: "laptop"}, 0); return err }},
		{"a name", 0, func() error { _, _, err := w.users.UpdateAccount(ctx, alice, shown("Alice")); return err }},
		{"a login of a further phone", 1, func() error { one = w.logIn("alice", phone(2)); return nil }},
		{"a login of the same one", 1, func() error { one = w.logIn("alice", phone(2)); return nil }},
		{"a refresh", 0, func() error { w.refresh(one.Refresh, ""); return nil }},
		{"a refresh with a token that was used", 1, func() error {
			_, err := w.users.Refresh(ctx, one.Refresh, "")
			w.wantCode("reused", err, im.CodeRefreshReused)
			return nil
		}},
		{"the same of a void device", 0, func() error {
			_, err := w.users.Refresh(ctx, one.Refresh, "")
			w.wantCode("void", err, im.CodeUnauthenticated)
			return nil
		}},
		{"a device's name", 0, func() error { _, err := w.users.RenameDevice(ctx, alice, "laptop", "x"); return err }},
		{"a revoked device", 1, func() error { return w.users.RevokeDevice(ctx, alice, "laptop") }},
		{"a changed password", 1, func() error {
			_, err := w.users.ChangePassword(ctx, alice, password, "another password", "")
			return err
		}},
		{"a wrong password", 0, func() error {
			_, err := w.users.ChangePassword(ctx, alice, password, "another password", "")
			w.wantCode("wrong", err, im.CodeBadCredentials)
			return nil
		}},
		{"one that the operator sets", 1, func() error { _, err := w.users.SetPassword(ctx, alice, password); return err }},
		{"a disabling", 1, func() error { _, err := w.users.Disable(ctx, alice); return err }},
		{"its end", 0, func() error { _, err := w.users.Enable(ctx, alice); return err }},
		{"a revocation", 1, func() error { return w.users.Revoke(ctx, alice) }},
		{"one of unknown outcome", 1, func() error {
			w.store.fail(errors.New("connection lost"))
			defer w.store.fail(nil)
			if err := w.users.Revoke(ctx, alice); err == nil {
				t.Error("no error")
			}
			return nil
		}},
		{"a full disk", 0, func() error {
			w.store.fail(store.ErrFull)
			defer w.store.fail(nil)
			w.wantCode("full", w.users.Revoke(ctx, alice), im.CodeDiskFull)
			return nil
		}},
		{"a database out of reach", 0, func() error {
			w.store.fail(store.ErrStalled)
			defer w.store.fail(nil)
			w.wantCode("stalled", w.users.Revoke(ctx, alice), im.CodeStoreStalled)
			return nil
		}},
	} {
		told = nil
		w.no(c.do())
		if len(told) != c.told || c.told == 1 && told[0] != alice {
			t.Errorf("%s: told %v, want %d times", c.what, told, c.told)
		}
	}
	w.wantAccess("the first token", l.Access, im.CodeRevoked)
}
