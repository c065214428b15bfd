package conv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const (
	member = petrelv1.Role_ROLE_MEMBER
	admin  = petrelv1.Role_ROLE_ADMIN
	owner  = petrelv1.Role_ROLE_OWNER
)

func ref(u string, role petrelv1.Role) *petrelv1.MemberRef {
	return &petrelv1.MemberRef{User: u, Role: role}
}

// ranked is a group of an owner olga, the admins adam and anna, and the members
// mia and max; ex was removed.
func (w *world) ranked() im.Key {
	w.t.Helper()
	n := groups.Add(1)
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.KeyedGroupID(im.DefaultTenant, fmt.Sprint("group ", n))}
	s := by("olga", entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{
		ref("olga", owner), ref("adam", admin), ref("anna", admin), ref("mia", 0), ref("max", member), ref("ex", 0),
	}}))
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: "crew"}
	w.mustSend(s)
	w.mustSend(by("adam", kick(key, "ex", "ex")))
	return key
}

// by makes a send a user's.
func by(u im.User, s *conv.Send) *conv.Send {
	s.Entry.From = string(u)
	return s
}

func rename(key im.Key, k, title string) *conv.Send {
	s := &conv.Send{Conv: key, Keyed: true}
	s.Entry.ClientMsgId = k
	s.Entry.Body = &petrelv1.Message_Profile{Profile: &petrelv1.Profile{Title: title}}
	return s
}

// members lists who is in a group, as "user" and the first letters of their role.
func (w *world) members(key im.Key) string {
	w.t.Helper()
	var all []string
	for after, more := im.User(""), true; more; {
		var page []*petrelv1.MemberRef
		var err error
		page, more, err = w.memberPage(context.Background(), key, "", after, 2)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range page {
			all = append(all, r.User+":"+r.Role.String()[len("ROLE_"):][:2])
			after = im.User(r.User)
		}
	}
	return strings.ToLower(strings.Join(all, " "))
}

// at reads one entry, as the operator.
func (w *world) at(key im.Key, q im.Seq) *petrelv1.Message {
	w.t.Helper()
	p, err := w.page(context.Background(), key, "", &convpb.GetHistory{After: uint64(q - 1), Limit: 1})
	if err != nil || len(p.Rows) != 1 {
		w.t.Fatalf("read %s seq %d: %v", key, q, err)
	}
	m := &petrelv1.Message{}
	if err := wire.ParseMessage(p.Rows[0], m); err != nil {
		w.t.Fatal(err)
	}
	return m
}

// Spec: P-8.8.
func TestRolesDecideWhoMayChangeAGroup(t *testing.T) {
	w := newWorld(t)
	key := w.ranked()
	const everybody = "adam:ad anna:ad max:me mia:me olga:ow"
	if got := w.members(key); got != everybody {
		t.Fatalf("members %s, want %s", got, everybody)
	}
	head := im.Seq(len(w.history(key, "")))
	changes := map[string]struct {
		s     func(k string) *conv.Send
		code  map[im.User]im.Code // of those who may not; the others are told invalid or may
		allow []im.User
	}{
		"rename": {s: func(k string) *conv.Send { return rename(key, k, k) }, allow: []im.User{"adam", "olga"}},
		"add":    {s: func(k string) *conv.Send { return add(key, k, im.User("new"+k)) }, allow: []im.User{"adam", "olga"}},
		"add an admin": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("new"+k, admin)}})
		}, allow: []im.User{"olga"}},
		"add an owner": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("new"+k, owner)}})
		}},
		"remove an admin":   {s: func(k string) *conv.Send { return kick(key, k, "anna") }, allow: []im.User{"olga"}},
		"remove the owner":  {s: func(k string) *conv.Send { return kick(key, k, "olga") }},
		"remove a member":   {s: func(k string) *conv.Send { return kick(key, k, "max") }, allow: []im.User{"adam", "olga"}},
		"leave for another": {s: func(k string) *conv.Send { return entry(key, k, &petrelv1.MemberChange{Left: []string{"max"}}) }},
		"make an admin": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("mia", admin)}})
		}, allow: []im.User{"olga"}},
		"unmake an admin": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("anna", member)}})
		}, allow: []im.User{"olga"}},
		"hand over": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("anna", owner)}})
		}, allow: []im.User{"olga"}},
		"unmake the owner": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("olga", admin)}})
		}},
		"dissolve": {s: func(k string) *conv.Send { return entry(key, k, &petrelv1.MemberChange{Dissolved: true}) }, allow: []im.User{"olga"}},
		"remove and dismiss": {s: func(k string) *conv.Send {
			return entry(key, k, &petrelv1.MemberChange{Removed: []string{"max", "anna"}})
		}, allow: []im.User{"olga"}},
	}
	for what, c := range changes {
		for _, u := range []im.User{"mia", "adam", "olga", "ex", "stranger"} {
			allowed := false
			for _, a := range c.allow {
				allowed = allowed || a == u
			}
			if allowed {
				continue
			}
			want := im.CodeForbidden
			if u == "ex" || u == "stranger" {
				want = im.CodeNotMember
			}
			t.Run(what+" by "+string(u), func(t *testing.T) { wantCode(t, w.send(by(u, c.s(what+string(u)))), want) })
		}
	}
	if got := w.members(key); got != everybody || im.Seq(len(w.history(key, ""))) != head {
		t.Errorf("after refusals the group is %s at %d, want %s at %d", got, len(w.history(key, "")), everybody, head)
	}
	for what, c := range changes { // each in a group of its own
		for _, u := range c.allow {
			key = w.ranked()
			t.Run(what+" by "+string(u), func(t *testing.T) { w.mustSend(by(u, c.s(what+string(u)))) })
		}
	}
	key = w.ranked()
	w.mustSend(by("max", entry(key, "leave", &petrelv1.MemberChange{Left: []string{"max"}})))
}

func TestOwnershipIsHandedOverInOneEntry(t *testing.T) {
	w := newWorld(t)
	for i, roles := range [][]*petrelv1.MemberRef{
		{ref("mia", owner)}, {ref("mia", owner), ref("olga", admin)}, {ref("olga", admin), ref("mia", owner)},
	} {
		key := w.ranked()
		q := w.mustSend(by("olga", entry(key, "hand", &petrelv1.MemberChange{Roles: roles})))
		if got, want := w.members(key), "adam:ad anna:ad max:me mia:ow olga:ad"; got != want {
			t.Errorf("%d: members %s, want %s", i, got, want)
		}
		if got := w.at(key, q).GetMembers(); len(got.Roles) != 2 {
			t.Errorf("%d: the entry says %v", i, got)
		}
		wantCode(t, w.send(by("olga", entry(key, "back", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("olga", owner)}}))), im.CodeForbidden)
		wantCode(t, w.send(by("mia", entry(key, "none", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("ex", owner), ref("mia", admin)}}))), im.CodeInvalid)
		wantCode(t, w.send(by("mia", entry(key, "two", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("max", owner), ref("adam", owner)}}))), im.CodeInvalid)
		w.mustSend(entry(key, "operator", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("zoe", owner)}}))
		if got, want := w.members(key), "adam:ad anna:ad max:me mia:ad olga:ad zoe:ow"; got != want {
			t.Errorf("%d: members %s, want %s", i, got, want)
		}
	}
}

func TestOwnerLeavesAsTheLast(t *testing.T) {
	w := newWorld(t)
	key := w.ranked()
	leave := func(u im.User, k string) *conv.Send {
		return by(u, entry(key, k, &petrelv1.MemberChange{Left: []string{string(u)}}))
	}
	wantCode(t, w.send(leave("olga", "early")), im.CodeForbidden)
	for _, u := range []im.User{"adam", "anna", "mia", "max"} {
		w.mustSend(leave(u, "leave"))
	}
	w.mustSend(leave("olga", "last"))
	if got := w.members(key); got != "" {
		t.Errorf("members %s, want none", got)
	}
	wantCode(t, w.send(message(key, "olga", "more", -1, "x")), im.CodeNotMember)
	w.restart()
	wantCode(t, w.send(message(key, "olga", "more", -1, "x")), im.CodeNotMember)
}

func TestDissolvedGroupIsReadOnly(t *testing.T) {
	w := newWorld(t)
	key := w.ranked()
	w.mustSend(message(key, "mia", "m", -1, "hello"))
	mia := w.online("mia")
	q := w.mustSend(by("olga", entry(key, "end", &petrelv1.MemberChange{Dissolved: true})))
	if got := w.at(key, q).GetMembers(); !got.Dissolved || len(got.Removed)+len(got.Left) > 0 {
		t.Errorf("the entry says %v", got)
	}
	if got := mia.got(); !cmp.Equal(got, []string{fmt.Sprint(q, ":members")}) {
		t.Errorf("mia was pushed %v", got)
	}
	for range 2 {
		for _, u := range []im.User{"olga", "adam", "mia"} {
			wantCode(t, w.send(message(key, u, "late", -1, "x")), im.CodeNotMember)
			st, err := w.look(context.Background(), key, u)
			if err != nil || st.Role != 0 || st.Head != uint64(q) || len(w.history(key, u)) != int(q) {
				t.Errorf("%s: %+v, %v, reads %d; want nobody who reads up to %d", u, st, err, len(w.history(key, u)), q)
			}
		}
		left, err := w.convs.Owners()[0].Leavers(context.Background(), key, q)
		if err != nil || len(left) != 5 {
			t.Errorf("with it left %v, %v", left, err)
		}
		w.restart()
	}
	// A repeat is answered as before.
	if again := w.mustSend(by("olga", entry(key, "end", &petrelv1.MemberChange{Dissolved: true}))); again != q {
		t.Errorf("repeated: seq %d, want %d", again, q)
	}
	wantCode(t, w.send(entry(key, "again", &petrelv1.MemberChange{Dissolved: true})), im.CodeInvalid)
	wantCode(t, w.send(entry(key, "and", &petrelv1.MemberChange{Dissolved: true, Left: []string{"mia"}})), im.CodeInvalid)
	// Nor does the operator wake it up.
	wantCode(t, w.send(entry(key, "back", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("mia", 0)}})), im.CodeForbidden)
}

func TestEntryHoldsWhatReallyChanged(t *testing.T) {
	w := newWorld(t)
	key := w.ranked()
	asked := &petrelv1.MemberChange{
		Added: []*petrelv1.MemberRef{ref("mia", 0), ref("new", 0), ref("new", 0), ref("ex", 0)}, Removed: []string{"stranger", "max", "max"},
	}
	q := w.mustSend(by("adam", entry(key, "mixed", asked)))
	want := `added:{user:"new" role:ROLE_MEMBER} added:{user:"ex" role:ROLE_MEMBER} removed:"max"`
	if got := strings.ReplaceAll(w.at(key, q).GetMembers().String(), "  ", " "); got != want {
		t.Errorf("the entry says %s, want %s", got, want)
	}
	// A repeat is known by what was asked.
	for range 2 {
		if again := w.mustSend(by("adam", entry(key, "mixed", asked))); again != q {
			t.Errorf("repeated: seq %d, want %d", again, q)
		}
		wantCode(t, w.send(by("adam", entry(key, "mixed", w.at(key, q).GetMembers()))), im.CodeConflict)
		w.restart()
	}
	wantCode(t, w.send(by("adam", entry(key, "nothing", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("mia", 0)}, Removed: []string{"stranger"}}))), im.CodeInvalid)
	wantCode(t, w.send(by("adam", add(key, "who", "nobody"))), im.CodeNoUser)
	if got, want := w.members(key), "adam:ad anna:ad ex:me mia:me new:me olga:ow"; got != want {
		t.Errorf("members %s, want %s", got, want)
	}
}

func TestTitleIsRenamedWithItsEntry(t *testing.T) {
	w := newWorld(t)
	key := w.ranked()
	title := func() string {
		st, err := w.look(context.Background(), key, "mia")
		if err != nil {
			t.Fatal(err)
		}
		return st.Title
	}
	q := w.mustSend(by("adam", rename(key, "1", "boat")))
	if got := w.at(key, q).GetProfile().GetTitle(); got != "boat" || title() != "boat" {
		t.Errorf("the entry says %q, the conversation %q", got, title())
	}
	wantCode(t, w.send(by("olga", rename(key, "2", "boat"))), im.CodeInvalid)
	wantCode(t, w.send(by("olga", rename(key, "3", strings.Repeat("x", 257)))), im.CodeInvalid)
	if again := w.mustSend(by("adam", rename(key, "1", "boat"))); again != q {
		t.Errorf("repeated: seq %d, want %d", again, q)
	}
	w.mustSend(rename(key, "4", strings.Repeat("x", 256)))
	w.restart()
	if got := title(); got != strings.Repeat("x", 256) {
		t.Errorf("after a restart the title is %q", got)
	}
	direct := message(im.Key{Tenant: im.DefaultTenant, Conv: im.DirectID(im.DefaultTenant, "mia", "max")}, "mia", "k", -1, "hi")
	direct.Peer = "max"
	w.mustSend(direct)
	wantCode(t, w.send(by("mia", rename(direct.Conv, "5", "us"))), im.CodeForbidden)
	wantCode(t, w.send(by("mia", add(direct.Conv, "6", "adam"))), im.CodeForbidden)
}

func TestUserMakesAGroupOnce(t *testing.T) {
	w := newWorld(t)
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.KeyedGroupID(im.DefaultTenant, "made once")}
	create := func(from im.User, title string, refs ...*petrelv1.MemberRef) *conv.Send {
		s := by(from, entry(key, "r:1", &petrelv1.MemberChange{Added: refs}))
		s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: title}
		return s
	}
	wantCode(t, w.send(create("mia", "boat", ref("mia", admin))), im.CodeForbidden)
	wantCode(t, w.send(create("mia", "boat", ref("max", owner), ref("mia", 0))), im.CodeForbidden)
	wantCode(t, w.send(create("mia", "boat", ref("max", owner), ref("mia", owner))), im.CodeInvalid)
	wantCode(t, w.send(create("mia", "boat", ref("mia", owner), ref("nobody", 0))), im.CodeNoUser)
	wantCode(t, w.send(create("mia", "boat")), im.CodeInvalid)
	for range 2 {
		for range 2 {
			if q := w.mustSend(create("mia", "boat", ref("mia", owner), ref("max", 0))); q != 1 {
				t.Errorf("seq %d, want 1", q)
			}
		}
		wantCode(t, w.send(create("mia", "ship", ref("mia", owner), ref("max", 0))), im.CodeConflict)
		wantCode(t, w.send(create("mia", "boat", ref("mia", owner))), im.CodeConflict)
		wantCode(t, w.send(create("max", "boat", ref("max", owner))), im.CodeConflict)
		w.restart()
	}
	if got := w.members(key); got != "max:me mia:ow" || len(w.history(key, "mia")) != 1 {
		t.Errorf("members %s, %d entries", got, len(w.history(key, "mia")))
	}
}

func TestMembersAreForMembers(t *testing.T) {
	w := newWorld(t)
	key := w.ranked()
	for _, u := range []im.User{"ex", "stranger"} {
		if _, _, err := w.memberPage(context.Background(), key, u, "", 0); im.CodeOf(err) != im.CodeNotMember {
			t.Errorf("%s is told the members: %v", u, err)
		}
	}
	unknown := im.Key{Tenant: im.DefaultTenant, Conv: im.KeyedGroupID(im.DefaultTenant, "unknown")}
	if _, _, err := w.memberPage(context.Background(), unknown, "", "", 0); im.CodeOf(err) != im.CodeNoConversation {
		t.Errorf("the members of no conversation: %v", err)
	}
	for _, c := range []struct {
		after im.User
		limit int
		want  string
		more  bool
	}{
		{"", 0, "adam anna max mia olga", false}, {"", 5, "adam anna max mia olga", false}, {"", 4, "adam anna max mia", true},
		{"anna", 1, "max", true}, {"b", 2, "max mia", true}, {"ex", 9, "max mia olga", false}, {"olga", 3, "", false}, {"z", 3, "", false},
	} {
		page, more, err := w.memberPage(context.Background(), key, "mia", c.after, c.limit)
		var users []string
		for _, r := range page {
			users = append(users, r.User)
		}
		if got := strings.Join(users, " "); err != nil || got != c.want || more != c.more {
			t.Errorf("%d behind %q: %s, more %v, %v; want %s, more %v", c.limit, c.after, got, more, err, c.want, c.more)
		}
	}
}

func TestGroupOfTenThousand(t *testing.T) {
	w := newWorld(t)
	var refs []*petrelv1.MemberRef
	for i := range conv.MaxMembers {
		refs = append(refs, ref(fmt.Sprint("user", i*7919%conv.MaxMembers), 0))
	}
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.KeyedGroupID(im.DefaultTenant, "large")}
	s := entry(key, "create", &petrelv1.MemberChange{Added: append(refs, refs[:100]...)})
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
	w.mustSend(s)
	wantCode(t, w.send(add(key, "one more", "zoe")), im.CodeInvalid)
	w.mustSend(kick(key, "one less", "user77"))
	w.mustSend(add(key, "instead", "zoe"))
	w.restart()
	n := 0
	for after, more := im.User(""), true; more; n++ {
		var page []*petrelv1.MemberRef
		page, more, _ = w.memberPage(context.Background(), key, "zoe", after, 0)
		for _, r := range page {
			if im.User(r.User) <= after || r.User == "user77" {
				t.Fatalf("%s behind %s", r.User, after)
			}
			after = im.User(r.User)
		}
	}
	if n != 10 {
		t.Errorf("%d pages, want 10", n)
	}
}
