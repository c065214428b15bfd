package user_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
)

// shown is a change of the display name.
func shown(name string) *user.ProfileChange { return &user.ProfileChange{DisplayName: &name} }

func handle(name string) *user.ProfileChange { return &user.ProfileChange{Handle: &name} }

// seen returns what a reader sees of alice.
func (w *world) seen(reader im.User) *user.Profile {
	w.t.Helper()
	all, err := w.users.Profiles(context.Background(), im.Account{Tenant: im.DefaultTenant, User: reader}, []im.User{"alice"})
	w.no(err)
	return all[0]
}

// A profile has the fields that its user has set, within the bounds. Spec: P-14.1.
func TestProfileHasBounds(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	w.token("", "alice")
	about := strings.Repeat("海", 140)
	fields := map[string]string{}
	for i := range 16 {
		fields[fmt.Sprint("field ", i)] = strings.Repeat("v", 512)
	}
	_, p, err := w.users.UpdateAccount(ctx, alice, &user.ProfileChange{About: &about, Fields: fields})
	w.no(err)
	if p.About != about || !maps.Equal(p.Fields, fields) {
		t.Errorf("the profile is %+v", p)
	}
	long, line := about+"x", "two\nlines"
	for what, ch := range map[string]*user.ProfileChange{
		"141 characters":             {About: &long},
		"a line break":               {About: &line},
		"a 17th field":               {Fields: map[string]string{"one more": "x"}},
		"a long name":                {Fields: map[string]string{strings.Repeat("n", 33): "x"}},
		"no name":                    {Fields: map[string]string{"": "x"}},
		"a long value":               {Fields: map[string]string{"field 1": strings.Repeat("v", 513)}},
		"a control character":        {Fields: map[string]string{"field 1": "a\x1b[2J"}},
		"a value that is no UTF-8":   {Fields: map[string]string{"field 1": "\xff"}},
		"an unknown field":           {Visibility: map[string]user.Visibility{"password": user.SeenByNobody}},
		"an unknown visibility":      {Visibility: map[string]user.Visibility{"about": 4}},
		"the visibility of the name": {Visibility: map[string]user.Visibility{"display_name": user.SeenByNobody}},
	} {
		_, _, err := w.users.UpdateAccount(ctx, alice, ch)
		w.wantCode(what, err, im.CodeInvalid)
	}
	_, p, err = w.users.UpdateAccount(ctx, alice, &user.ProfileChange{Fields: map[string]string{"field 1": "", "one more": "x"}})
	w.no(err)
	if _, there := p.Fields["field 1"]; there || p.Fields["one more"] != "x" || len(p.Fields) != 16 || p.About != about {
		t.Errorf("after one field in the place of another one the profile is %+v", p)
	}
}

// A hidden field is seen by its user alone, and its change does not change the version that others have.
// Spec: P-14.2, P-14.3.
func TestHiddenFieldsAreNotSeen(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	w.token("", "alice")
	w.token("", "bob")
	update := func(ch *user.ProfileChange) user.Profile {
		t.Helper()
		_, p, err := w.users.UpdateAccount(ctx, alice, ch)
		w.no(err)
		return p
	}
	about := "birds"
	before := w.seen("bob").Version
	update(&user.ProfileChange{DisplayName: &about, About: &about, Fields: map[string]string{"team": "sea"}})
	open := w.seen("bob")
	if open.About != "birds" || open.Fields["team"] != "sea" || open.Version == before {
		t.Errorf("bob sees %+v, before with version %s", open, before)
	}
	own := update(&user.ProfileChange{Visibility: map[string]user.Visibility{"about": user.SeenByNobody, "fields.team": user.SeenByNobody}})
	hidden := w.seen("bob")
	if hidden.About != "" || len(hidden.Fields) != 0 || hidden.Shown != "birds" || len(hidden.Visibility) != 0 || hidden.Version == open.Version {
		t.Errorf("bob sees hidden fields: %+v", hidden)
	}
	if own.About != "birds" || own.Fields["team"] != "sea" || len(own.Visibility) != 2 || own.Version == hidden.Version {
		t.Errorf("alice sees %+v of herself", own)
	}
	update(&user.ProfileChange{Fields: map[string]string{"team": ""}})
	update(&user.ProfileChange{Fields: map[string]string{"team": "sea"}})
	if now := w.seen("bob"); len(now.Fields) != 0 {
		t.Errorf("bob sees a hidden field that came back: %+v", now)
	}
	about = "fish"
	if now := update(&user.ProfileChange{About: &about}); now.Version == own.Version {
		t.Error("her own version is the same after a change")
	}
	if now := w.seen("bob"); now.Version != hidden.Version {
		t.Error("the change of a hidden field has changed the version that bob has")
	}
	about = ""
	update(&user.ProfileChange{DisplayName: &about, Fields: map[string]string{"team": ""}, Visibility: map[string]user.Visibility{"about": user.SeenByEverybody}, About: &about})
	if now := w.seen("bob"); now.Version != before {
		t.Errorf("the profile of the beginning has version %s, and had %s", now.Version, before)
	}
	_, err := w.users.Disable(ctx, alice)
	w.no(err)
	if p := w.seen("bob"); p != nil {
		t.Errorf("bob sees the profile of a disabled user: %+v", p)
	}
}

// One handle has one user, it looks like no name of another user, and who hides it is not found. Spec: P-14.1.
func TestHandleIsOfOneUser(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	for _, u := range []im.User{"alice", "bob", "carol", "stormy_p"} {
		w.token("", u)
	}
	bob := im.Account{Tenant: im.DefaultTenant, User: "bob"}
	set := func(a im.Account, name string) error {
		_, _, err := w.users.UpdateAccount(ctx, a, handle(name))
		return err
	}
	found := func(name string) im.User {
		i, _, err := w.users.Find(ctx, im.DefaultTenant, "", name)
		if im.CodeOf(err) == im.CodeNoUser {
			return ""
		}
		w.no(err)
		return i.User
	}
	for _, name := range []string{"ab", "Alice", "a b c", "a-b", strings.Repeat("a", 33), "админ", "admin", "4dmin"} {
		w.wantCode(name, set(alice, name), im.CodeInvalid)
	}
	w.no(set(alice, "sea.bird"))
	w.no(set(alice, "sea.bird"))
	for _, name := range []string{"sea.bird", "carol", "car0l", "alice", "stormy_p", "storrny_p"} {
		w.wantCode(name, set(bob, name), im.CodeHandleTaken)
	}
	w.no(set(bob, "bob"))
	if found("sea.bird") != "alice" || found("bob") != "bob" || found("sea") != "" || found("SEA.BIRD") != "" {
		t.Errorf("found %q, %q, %q", found("sea.bird"), found("bob"), found("sea"))
	}
	_, _, err := w.users.UpdateAccount(ctx, alice, &user.ProfileChange{Visibility: map[string]user.Visibility{"handle": user.SeenByNobody}})
	w.no(err)
	if found("sea.bird") != "" {
		t.Error("a hidden handle is found")
	}
	_, err = w.users.Create(ctx, "", []im.User{"sea.bird"}) // whose id is her handle
	w.no(err)
	w.no(set(im.Account{Tenant: im.DefaultTenant, User: "sea.bird"}, "sea.bird"))
	_, _, err = w.users.UpdateAccount(ctx, im.Account{Tenant: im.DefaultTenant, User: "sea.bird"}, &user.ProfileChange{Visibility: map[string]user.Visibility{"handle": user.SeenByEverybody}})
	w.no(err)
	if found("sea.bird") != "sea.bird" || w.seen("alice").Handle != "" {
		t.Errorf("the handle finds %q, and alice has %q", found("sea.bird"), w.seen("alice").Handle)
	}
	w.wantCode("the id of another user", set(alice, "sea.bird"), im.CodeHandleTaken)
	w.no(set(alice, "sea.gull"))
	_, err = w.users.Create(ctx, "", []im.User{"ALICE"})
	w.no(err)
	w.no(set(alice, "petrels"))
	w.no(set(bob, "sea.gull"))
	w.no(set(bob, ""))
	w.no(set(alice, "sea.gull"))
	_, err = w.users.Register(ctx, user.Newcomer{User: "sea.gull", Password: "correct horse battery"}, user.DeviceRef{ID: "d"}, netip.Addr{})
	w.wantCode("an id like a handle", err, im.CodeUserExists)
	w.wantCode("carol's handle of her own id is hers", set(bob, "carol"), im.CodeHandleTaken)
	w.no(set(bob, "5ea.gul1"))
	w.no(set(bob, ""))
	strict := true
	_, err = w.users.SetRegistration(ctx, "", user.Open, &strict)
	w.no(err)
	w.wantCode("a handle that reads as another one", set(bob, "5ea.gul1"), im.CodeHandleTaken)
	w.wantCode("a handle that reads as an id", set(bob, "_carol"), im.CodeHandleTaken)
}

// The back end sets many profiles at once, all or none, and a repeat changes nothing. Fields that only the back end
// changes are refused to users. Spec: P-14.6.
func TestBackEndSetsProfiles(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	var users []im.User
	var changes []*user.ProfileChange
	for i := range 1000 {
		users = append(users, im.User(fmt.Sprintf("u%03d", i)))
		changes = append(changes, shown(fmt.Sprint("User ", i)))
	}
	_, err := w.users.Create(ctx, "", users)
	w.no(err)
	changed, err := w.users.SetProfiles(ctx, im.DefaultTenant, users, changes)
	w.no(err)
	if !slices.Equal(changed, users) {
		t.Errorf("%d of 1,000 profiles changed", len(changed))
	}
	changed, err = w.users.SetProfiles(ctx, im.DefaultTenant, users, changes)
	w.no(err)
	if len(changed) != 0 {
		t.Errorf("a repeat has changed %d profiles", len(changed))
	}
	list, _, err := w.users.ListNamed(ctx, im.DefaultTenant, "user 99", nil, false, 0)
	w.no(err)
	if len(list) != 11 {
		t.Errorf("%d users are found by the new name, want 11", len(list))
	}
	pair := []im.User{"u000", "u001"}
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, pair, []*user.ProfileChange{handle("twins"), handle("twins")})
	w.wantCode("one handle for two", err, im.CodeHandleTaken)
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, []im.User{"u000", "nobody"}, []*user.ProfileChange{handle("first"), shown("x")})
	w.wantCode("a user who does not exist", err, im.CodeNoUser)
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, []im.User{"u000", "u000"}, changes[:2])
	w.wantCode("a user twice", err, im.CodeInvalid)
	if _, _, err := w.users.Find(ctx, im.DefaultTenant, "", "first"); im.CodeOf(err) != im.CodeNoUser {
		t.Errorf("a refused call has given a handle: %v", err)
	}

	_, err = w.users.SetProfileRules(ctx, "", []string{"display_name", "fields.team", "handle"})
	w.no(err)
	u0 := im.Account{Tenant: im.DefaultTenant, User: "u000"}
	for what, ch := range map[string]*user.ProfileChange{
		"the name": shown("Mallory"), "the handle": handle("mallory"), "a field": {Fields: map[string]string{"team": "x"}},
		"who sees the handle": {Visibility: map[string]user.Visibility{"handle": user.SeenByNobody}},
	} {
		_, _, err := w.users.UpdateAccount(ctx, u0, ch)
		w.wantCode(what, err, im.CodeForbidden)
	}
	about := "mine"
	_, _, err = w.users.UpdateAccount(ctx, u0, &user.ProfileChange{About: &about, Fields: map[string]string{"hobby": "x"}})
	w.no(err)
	_, err = w.users.SetRegistration(ctx, "", user.Open, nil)
	w.no(err)
	newcomer := user.Newcomer{User: "newcomer", Password: "correct horse battery", DisplayName: "Nina"}
	_, err = w.users.Register(ctx, newcomer, user.DeviceRef{ID: "d"}, netip.Addr{})
	w.wantCode("a name at the registration", err, im.CodeForbidden)
	_, err = w.users.SetProfiles(ctx, im.DefaultTenant, users[:1], []*user.ProfileChange{shown("Anna")})
	w.no(err)
	_, err = w.users.SetProfileRules(ctx, "", []string{"fields"})
	w.no(err)
	_, _, err = w.users.UpdateAccount(ctx, u0, &user.ProfileChange{Fields: map[string]string{"hobby": "x"}})
	w.wantCode("any field", err, im.CodeForbidden)
	_, err = w.users.SetProfileRules(ctx, "", []string{"password"})
	w.wantCode("an unknown field", err, im.CodeInvalid)
}

// Distinct users count: who asks again for the same user pays nothing, and without a look-up left those who were
// looked up are still told. Spec: P-14.4.
func TestLookUpsCountDistinctUsers(t *testing.T) {
	w := people(t, func(o *user.Options) { o.Rates.LookUps = 30 })
	var users []im.User
	for i := range 40 {
		users = append(users, im.User(fmt.Sprint("u", i)))
	}
	if later, wait := w.users.TakeLookUps(alice, users[:20]); len(later) != 0 || wait != 0 {
		t.Fatalf("of 20 users %v have to wait for %s", later, wait)
	}
	if later, wait := w.users.TakeLookUps(alice, users); fmt.Sprint(later) != "[30 31 32 33 34 35 36 37 38 39]" || wait != 2*time.Second {
		t.Errorf("of 40 users, 20 of them again, %v have to wait for %s; want the last ten, 2s", later, wait)
	}
	again := slices.Concat(users[35:], users[:30])
	if later, _ := w.users.TakeLookUps(alice, again); fmt.Sprint(later) != "[0 1 2 3 4]" {
		t.Errorf("of 5 new users and 30 who were looked up %v have to wait", later)
	}
	if later, _ := w.users.TakeLookUps(im.Account{Tenant: im.DefaultTenant, User: "bob"}, users); len(later) != 10 {
		t.Errorf("of another user's 40 look-ups %d have to wait, want 10", len(later))
	}
}

// A user asks without a look-up for the profiles of those with whom they share a conversation. Spec: P-14.4.
func TestAcquaintancesCostNoLookUp(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	ids := im.NewIDs(w.store.Info().Secret)
	group := im.Key{Tenant: im.DefaultTenant, Conv: im.NewGroupID()}
	w.member(group, "alice", 1)
	w.member(group, "bob", 1)
	w.member(group, "former", 0)
	w.member(im.Key{Tenant: im.DefaultTenant, Conv: ids.Direct(im.DefaultTenant, "alice", "peer")}, "alice", 1)
	users := []im.User{"alice", "bob", "former", "peer", "stranger"}
	for what, c := range map[string]struct {
		reader im.User
		in     im.Key
		want   string
	}{
		"a member":                      {"alice", group, "[true true false true false]"},
		"a member without conversation": {"alice", im.Key{}, "[true false false true false]"},
		"a former member":               {"former", group, "[false false true false false]"},
		"a stranger":                    {"mallory", group, "[false false false false false]"},
	} {
		got, err := w.users.Acquaintances(ctx, im.Account{Tenant: im.DefaultTenant, User: c.reader}, c.in, users)
		w.no(err)
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s knows %v, want %s", what, got, c.want)
		}
	}
}

// member stores the record of a member.
func (w *world) member(key im.Key, u im.User, role uint32) {
	w.t.Helper()
	feed := w.store.FeedOf(im.PartitionOf(key.Conv))
	epoch, pos, err := w.store.Takeover(context.Background(), feed, 1)
	w.no(err)
	done := make(chan error, 1)
	w.store.Append(&store.Batch{Feed: feed, Epoch: epoch, Holder: 1, From: pos, Entry: &storepb.FeedEntry{Items: []*storepb.FeedItem{{Tenant: uint32(key.Tenant), Conv: key.Conv[:]}}},
		Members: []store.MemberPut{{Conv: key, User: u, Record: &storepb.Member{Role: role}}}}, func(err error) { done <- err })
	w.no(<-done)
}
