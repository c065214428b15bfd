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
	all, _, err := w.users.Profiles(context.Background(), im.Account{Tenant: im.DefaultTenant, User: reader}, nil, []im.User{"alice"})
	w.no(err)
	if len(all) == 0 {
		return nil
	}
	return &all[0]
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

// A field for contacts is seen by those whom the user has as contacts: the user decides, not the reader. Each of them has
// the same version, which is that of others if the field is empty. Spec: P-14.2, P-14.3.
func TestContactsSeeWhatIsForThem(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	for _, u := range []im.User{"alice", "bob", "carol", "dave"} {
		w.token("", u)
	}
	about, none := "birds", ""
	update := func(ch *user.ProfileChange) {
		t.Helper()
		_, _, err := w.users.UpdateAccount(ctx, alice, ch)
		w.no(err)
	}
	w.contact("alice", true, "bob", false)
	w.contact("alice", false, "carol", true)
	w.contact("alice", true, "dave", true)
	update(&user.ProfileChange{About: &about, Fields: map[string]string{"team": "sea", "unit": "A"},
		Visibility: map[string]user.Visibility{"about": user.SeenByContacts, "fields.team": user.SeenByContacts, "fields.unit": user.SeenByNobody}})
	bob, carol, dave := w.seen("bob"), w.seen("carol"), w.seen("dave")
	if bob.About != "birds" || fmt.Sprint(bob.Fields) != "map[team:sea]" || dave.Version != bob.Version {
		t.Errorf("a contact sees %+v, another one has version %s", bob, dave.Version)
	}
	if carol.About != "" || len(carol.Fields) > 0 || carol.Version == bob.Version || carol.Version != w.seen("eve").Version {
		t.Errorf("a user who has alice as a contact, and whom she does not have, sees %+v", carol)
	}
	if own := w.seen("alice"); own.About != "birds" || len(own.Fields) != 2 {
		t.Errorf("alice sees %+v of herself", own)
	}
	for reader, want := range map[im.User]string{"bob": bob.Version, "carol": carol.Version, "alice": w.seen("alice").Version} {
		a := im.Account{Tenant: im.DefaultTenant, User: reader}
		_, p, err := w.users.Find(ctx, a, "alice", "")
		w.no(err)
		got, err := w.users.VersionsOf(ctx, a, []im.User{"bob", "alice", "nobody"})
		w.no(err)
		if p.Version != want || got[1] != want || got[2] != "" {
			t.Errorf("%s finds version %s, is told %v, want %s", reader, p.Version, got, want)
		}
	}
	_, is, err := w.users.Facts(ctx, alice)
	w.no(err)
	if is != (user.ProfileVersions{ForOthers: carol.Version, ForContacts: bob.Version, Own: w.seen("alice").Version}) {
		t.Errorf("the versions are %+v", is)
	}
	have, err := w.users.HaveAsContact(ctx, im.Account{Tenant: im.DefaultTenant, User: "carol"}, []im.User{"alice", "bob"})
	w.no(err)
	if have[0] || have[1] {
		t.Errorf("who has carol as a contact: %v, want nobody", have)
	}
	w.contact("alice", false, "bob", true)
	w.contact("alice", true, "carol", false)
	if was := bob; w.seen("bob").Version != carol.Version || w.seen("carol").Version != was.Version {
		t.Error("after alice has one contact for another one, they do not see what the other one saw")
	}
	update(&user.ProfileChange{About: &none, Fields: map[string]string{"team": ""}})
	if w.seen("carol").Version != w.seen("bob").Version {
		t.Error("two users who see the same have different versions")
	}
}

// A profile is told only to a reader who has another version. Spec: P-14.2.
func TestProfilesThatDiffer(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	w.token("", "alice")
	w.token("", "bob")
	reader := im.Account{Tenant: im.DefaultTenant, User: "carol"}
	all, unknown, err := w.users.Profiles(ctx, reader, nil, []im.User{"alice", "nobody", "bob"})
	w.no(err)
	if len(all) != 2 || all[1].User != "bob" || all[1].Version == "" || fmt.Sprint(unknown) != "[nobody]" {
		t.Fatalf("all profiles are %+v, unknown %v", all, unknown)
	}
	has := map[im.User]string{"alice": all[0].Version, "bob": "another"}
	all, unknown, err = w.users.Profiles(ctx, reader, has, []im.User{"alice", "bob"})
	w.no(err)
	if len(all) != 1 || all[0].User != "bob" || len(unknown) > 0 {
		t.Errorf("the profiles that differ are %+v, unknown %v; want that of bob", all, unknown)
	}
}

// A handle for contacts finds its user for them alone; it looks like one that nobody has to all others. Spec: P-14.3.
func TestHandleForContacts(t *testing.T) {
	ctx := context.Background()
	w := people(t, func(*user.Options) {})
	for _, u := range []im.User{"alice", "bob", "carol"} {
		w.token("", u)
	}
	w.contact("alice", true, "bob", false)
	w.contact("alice", false, "carol", true)
	name := "sea.bird"
	_, _, err := w.users.UpdateAccount(ctx, alice, &user.ProfileChange{Handle: &name, Visibility: map[string]user.Visibility{"handle": user.SeenByContacts}})
	w.no(err)
	find := func(reader im.User, handle string) (im.User, string) {
		i, p, err := w.users.Find(ctx, im.Account{Tenant: im.DefaultTenant, User: reader}, "", handle)
		if err != nil {
			w.wantCode(string(reader)+" looks for "+handle, err, im.CodeNoUser)
			return "", strings.ReplaceAll(err.Error(), handle, "X")
		}
		return i.User, p.Handle
	}
	if u, h := find("bob", name); u != "alice" || h != name {
		t.Errorf("a contact finds %q with handle %q", u, h)
	}
	if u, _ := find("alice", name); u != "alice" {
		t.Errorf("alice finds %q by her handle", u)
	}
	var reads []store.Table
	w.store.onRead(func(t store.Table) { reads = append(reads, t) })
	_, hidden := find("carol", name)
	hidden += fmt.Sprint(" after the reads ", reads)
	reads = nil
	if _, free := find("carol", "sea.gull"); hidden != free+fmt.Sprint(" after the reads ", reads) {
		t.Errorf("a stranger gets %q, and of a handle that nobody has %q after the reads %v", hidden, free, reads)
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
		i, _, err := w.users.Find(ctx, im.Account{Tenant: im.DefaultTenant, User: "carol"}, "", name)
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
	if _, _, err := w.users.Find(ctx, alice, "", "first"); im.CodeOf(err) != im.CodeNoUser {
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
	w.append(key, &store.Batch{Members: []store.MemberPut{{Conv: key, User: u, Record: &storepb.Member{Role: role}}}})
}

// contact stores whether each of two users has the other one as a contact.
func (w *world) contact(one im.User, has bool, other im.User, hasOne bool) {
	w.t.Helper()
	side := func(u im.User, has bool) *storepb.Side {
		s := &storepb.Side{User: string(u)}
		if has {
			s.ContactMs = 1
		}
		return s
	}
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.NewIDs(w.store.Info().Secret).Direct(im.DefaultTenant, one, other)}
	w.append(key, &store.Batch{Convs: []store.ConvPut{{Conv: key,
		Record: &storepb.Conversation{Sides: []*storepb.Side{side(one, has), side(other, hasOne)}}}}})
}

// append commits a batch of one conversation.
func (w *world) append(key im.Key, b *store.Batch) {
	w.t.Helper()
	feed := w.store.FeedOf(im.PartitionOf(key.Conv))
	epoch, pos, err := w.store.Takeover(context.Background(), feed, 1)
	w.no(err)
	done := make(chan error, 1)
	b.Feed, b.Epoch, b.Holder, b.From = feed, epoch, 1, pos
	b.Entry = &storepb.FeedEntry{Items: []*storepb.FeedItem{{Tenant: uint32(key.Tenant), Conv: key.Conv[:]}}}
	w.store.Append(b, func(err error) { done <- err })
	w.no(<-done)
}
