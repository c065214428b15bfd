package conv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
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
	w.T.Helper()
	key := convtest.NewGroup()
	s := by("olga", convtest.Entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{
		ref("olga", owner), ref("adam", admin), ref("anna", admin), ref("mia", 0), ref("max", member), ref("ex", 0),
	}}))
	s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: "crew"}
	w.MustSend(s)
	w.MustSend(by("adam", convtest.Kick(key, "ex", "ex")))
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
	s.Entry.Body = &petrelv1.Message_Group{Group: &petrelv1.GroupChange{Title: title}}
	return s
}

// members lists who is in a group, as "user" and the first letters of their role.
func (w *world) members(key im.Key) string {
	w.T.Helper()
	var all []string
	for after, more := im.User(""), true; more; {
		var page []*petrelv1.MemberRef
		var err error
		page, more, err = w.memberPage(key, "", after, 2)
		if err != nil {
			w.T.Fatal(err)
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
	w.T.Helper()
	p, err := w.page(key, "", &convpb.GetHistory{After: uint64(q - 1), Limit: 1})
	if err != nil || len(p.Rows) != 1 {
		w.T.Fatalf("read %s seq %d: %v", key, q, err)
	}
	m := &petrelv1.Message{}
	if err := wire.ParseMessage(p.Rows[0], m); err != nil {
		w.T.Fatal(err)
	}
	return m
}

// Spec: P-8.8.
func TestRolesDecideWhoMayChangeAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
			"add":    {s: func(k string) *conv.Send { return convtest.Add(key, k, im.User("new"+k)) }, allow: []im.User{"adam", "olga"}},
			"add an admin": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("new"+k, admin)}})
			}, allow: []im.User{"olga"}},
			"add an owner": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("new"+k, owner)}})
			}},
			"remove an admin":  {s: func(k string) *conv.Send { return convtest.Kick(key, k, "anna") }, allow: []im.User{"olga"}},
			"remove the owner": {s: func(k string) *conv.Send { return convtest.Kick(key, k, "olga") }},
			"remove a member":  {s: func(k string) *conv.Send { return convtest.Kick(key, k, "max") }, allow: []im.User{"adam", "olga"}},
			"leave for another": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Left: []string{"max"}})
			}},
			"make an admin": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("mia", admin)}})
			}, allow: []im.User{"olga"}},
			"unmake an admin": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("anna", member)}})
			}, allow: []im.User{"olga"}},
			"hand over": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("anna", owner)}})
			}, allow: []im.User{"olga"}},
			"unmake the owner": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("olga", admin)}})
			}},
			"dissolve": {s: func(k string) *conv.Send { return convtest.Entry(key, k, &petrelv1.MemberChange{Dissolved: true}) }, allow: []im.User{"olga"}},
			"remove and dismiss": {s: func(k string) *conv.Send {
				return convtest.Entry(key, k, &petrelv1.MemberChange{Removed: []string{"max", "anna"}})
			}, allow: []im.User{"olga"}},
		}
		for what, c := range changes {
			for _, u := range []im.User{"mia", "adam", "olga", "ex", "outsider"} {
				allowed := false
				for _, a := range c.allow {
					allowed = allowed || a == u
				}
				if allowed {
					continue
				}
				want := im.CodeForbidden
				switch u {
				case "ex":
					want = im.CodeNotMember
				case "outsider":
					want = im.CodeNoConversation
				}
				if r := w.Send(by(u, c.s(what+string(u)))); r.Err == nil || r.Err.Code != want {
					t.Errorf("%s by %s: answer %+v, want code %s", what, u, r, want)
				}
			}
		}
		if got := w.members(key); got != everybody || im.Seq(len(w.history(key, ""))) != head {
			t.Errorf("after refusals the group is %s at %d, want %s at %d", got, len(w.history(key, "")), everybody, head)
		}
		for what, c := range changes { // each in a group of its own
			for _, u := range c.allow {
				key = w.ranked()
				if r := w.Send(by(u, c.s(what+string(u)))); r.Err != nil {
					t.Errorf("%s by %s is refused: %v", what, u, r.Err)
				}
			}
		}
		key = w.ranked()
		w.MustSend(by("max", convtest.Entry(key, "leave", &petrelv1.MemberChange{Left: []string{"max"}})))
	})
}

func TestOwnershipIsHandedOverInOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i, roles := range [][]*petrelv1.MemberRef{
			{ref("mia", owner)}, {ref("mia", owner), ref("olga", admin)}, {ref("olga", admin), ref("mia", owner)},
		} {
			key := w.ranked()
			q := w.MustSend(by("olga", convtest.Entry(key, "hand", &petrelv1.MemberChange{Roles: roles})))
			if got, want := w.members(key), "adam:ad anna:ad max:me mia:ow olga:ad"; got != want {
				t.Errorf("%d: members %s, want %s", i, got, want)
			}
			if got := w.at(key, q).GetMembers(); len(got.Roles) != 2 {
				t.Errorf("%d: the entry says %v", i, got)
			}
			convtest.WantCode(t, w.Send(by("olga", convtest.Entry(key, "back", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("olga", owner)}}))), im.CodeForbidden)
			convtest.WantCode(t, w.Send(by("mia", convtest.Entry(key, "none", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("ex", owner), ref("mia", admin)}}))), im.CodeInvalid)
			convtest.WantCode(t, w.Send(by("mia", convtest.Entry(key, "two", &petrelv1.MemberChange{Roles: []*petrelv1.MemberRef{ref("max", owner), ref("adam", owner)}}))), im.CodeInvalid)
			w.MustSend(convtest.Entry(key, "operator", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("zoe", owner)}}))
			if got, want := w.members(key), "adam:ad anna:ad max:me mia:ad olga:ad zoe:ow"; got != want {
				t.Errorf("%d: members %s, want %s", i, got, want)
			}
		}
	})
}

func TestOwnerLeavesAsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		leave := func(u im.User, k string) *conv.Send {
			return by(u, convtest.Entry(key, k, &petrelv1.MemberChange{Left: []string{string(u)}}))
		}
		convtest.WantCode(t, w.Send(leave("olga", "early")), im.CodeForbidden)
		for _, u := range []im.User{"adam", "anna", "mia", "max"} {
			w.MustSend(leave(u, "leave"))
		}
		w.MustSend(leave("olga", "last"))
		if got := w.members(key); got != "" {
			t.Errorf("members %s, want none", got)
		}
		convtest.WantCode(t, w.Send(convtest.Message(key, "olga", "more", -1, "x")), im.CodeNotMember)
		w.restart()
		convtest.WantCode(t, w.Send(convtest.Message(key, "olga", "more", -1, "x")), im.CodeNotMember)
	})
}

func TestDissolvedGroupIsReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		w.MustSend(convtest.Message(key, "mia", "m", -1, "hello"))
		mia := w.Online("mia")
		q := w.MustSend(by("olga", convtest.Entry(key, "end", &petrelv1.MemberChange{Dissolved: true})))
		if got := w.at(key, q).GetMembers(); !got.Dissolved || len(got.Removed)+len(got.Left) > 0 {
			t.Errorf("the entry says %v", got)
		}
		if got := mia.Got(); !cmp.Equal(got, []string{fmt.Sprint(q, ":members")}) {
			t.Errorf("mia was pushed %v", got)
		}
		for range 2 {
			for _, u := range []im.User{"olga", "adam", "mia"} {
				convtest.WantCode(t, w.Send(convtest.Message(key, u, "late", -1, "x")), im.CodeNotMember)
				st, err := w.look(key, u)
				if err != nil || st.Role != 0 || st.Head != uint64(q) || len(w.history(key, u)) != int(q) {
					t.Errorf("%s: %+v, %v, reads %d; want nobody who reads up to %d", u, st, err, len(w.history(key, u)), q)
				}
			}
			left, err := w.owner().Leavers(context.Background(), key, q)
			if err != nil || len(left) != 5 {
				t.Errorf("with it left %v, %v", left, err)
			}
			w.restart()
		}
		// A repeat is answered as before.
		if again := w.MustSend(by("olga", convtest.Entry(key, "end", &petrelv1.MemberChange{Dissolved: true}))); again != q {
			t.Errorf("repeated: seq %d, want %d", again, q)
		}
		convtest.WantCode(t, w.Send(convtest.Entry(key, "again", &petrelv1.MemberChange{Dissolved: true})), im.CodeInvalid)
		convtest.WantCode(t, w.Send(convtest.Entry(key, "and", &petrelv1.MemberChange{Dissolved: true, Left: []string{"mia"}})), im.CodeInvalid)
		// Nor does the operator wake it up.
		convtest.WantCode(t, w.Send(convtest.Entry(key, "back", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("mia", 0)}})), im.CodeForbidden)
	})
}

func TestEntryHoldsWhatReallyChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		asked := &petrelv1.MemberChange{
			Added: []*petrelv1.MemberRef{ref("mia", 0), ref("new", 0), ref("new", 0), ref("ex", 0)}, Removed: []string{"outsider", "max", "max"},
		}
		q := w.MustSend(by("adam", convtest.Entry(key, "mixed", asked)))
		want := `added:{user:"new" role:ROLE_MEMBER} added:{user:"ex" role:ROLE_MEMBER} removed:"max"`
		if got := strings.ReplaceAll(w.at(key, q).GetMembers().String(), "  ", " "); got != want {
			t.Errorf("the entry says %s, want %s", got, want)
		}
		// A repeat is known by what was asked.
		for range 2 {
			if again := w.MustSend(by("adam", convtest.Entry(key, "mixed", asked))); again != q {
				t.Errorf("repeated: seq %d, want %d", again, q)
			}
			convtest.WantCode(t, w.Send(by("adam", convtest.Entry(key, "mixed", w.at(key, q).GetMembers()))), im.CodeConflict)
			w.restart()
		}
		convtest.WantCode(t, w.Send(by("adam", convtest.Entry(key, "nothing", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("mia", 0)}, Removed: []string{"outsider"}}))), im.CodeInvalid)
		convtest.WantCode(t, w.Send(by("adam", convtest.Add(key, "who", "nobody"))), im.CodeNoUser)
		if got, want := w.members(key), "adam:ad anna:ad ex:me mia:me new:me olga:ow"; got != want {
			t.Errorf("members %s, want %s", got, want)
		}
	})
}

func TestTitleIsRenamedWithItsEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		title := func() string {
			st, err := w.look(key, "mia")
			if err != nil {
				t.Fatal(err)
			}
			return st.Title
		}
		q := w.MustSend(by("adam", rename(key, "1", "boat")))
		if got := w.at(key, q).GetGroup().GetTitle(); got != "boat" || title() != "boat" {
			t.Errorf("the entry says %q, the conversation %q", got, title())
		}
		convtest.WantCode(t, w.Send(by("olga", rename(key, "2", "boat"))), im.CodeInvalid)
		convtest.WantCode(t, w.Send(by("olga", rename(key, "3", strings.Repeat("x", 257)))), im.CodeInvalid)
		if again := w.MustSend(by("adam", rename(key, "1", "boat"))); again != q {
			t.Errorf("repeated: seq %d, want %d", again, q)
		}
		w.MustSend(rename(key, "4", strings.Repeat("x", 256)))
		w.restart()
		if got := title(); got != strings.Repeat("x", 256) {
			t.Errorf("after a restart the title is %q", got)
		}
		direct := convtest.Message(im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "mia", "max")}, "mia", "k", -1, "hi")
		direct.Peer = "max"
		w.MustSend(direct)
		convtest.WantCode(t, w.Send(by("mia", rename(direct.Conv, "5", "us"))), im.CodeForbidden)
		convtest.WantCode(t, w.Send(by("mia", convtest.Add(direct.Conv, "6", "adam"))), im.CodeForbidden)
	})
}

func TestUserMakesAGroupOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, "made once")}
		create := func(from im.User, title string, refs ...*petrelv1.MemberRef) *conv.Send {
			s := by(from, convtest.Entry(key, "r:1", &petrelv1.MemberChange{Added: refs}))
			s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: title}
			return s
		}
		convtest.WantCode(t, w.Send(create("mia", "boat", ref("mia", admin))), im.CodeForbidden)
		convtest.WantCode(t, w.Send(create("mia", "boat", ref("max", owner), ref("mia", 0))), im.CodeForbidden)
		convtest.WantCode(t, w.Send(create("mia", "boat", ref("max", owner), ref("mia", owner))), im.CodeInvalid)
		convtest.WantCode(t, w.Send(create("mia", "boat", ref("mia", owner), ref("nobody", 0))), im.CodeNoUser)
		convtest.WantCode(t, w.Send(create("mia", "boat")), im.CodeInvalid)
		for range 2 {
			for range 2 {
				if q := w.MustSend(create("mia", "boat", ref("mia", owner), ref("max", 0))); q != 1 {
					t.Errorf("seq %d, want 1", q)
				}
			}
			convtest.WantCode(t, w.Send(create("mia", "ship", ref("mia", owner), ref("max", 0))), im.CodeConflict)
			convtest.WantCode(t, w.Send(create("mia", "boat", ref("mia", owner))), im.CodeConflict)
			convtest.WantCode(t, w.Send(create("max", "boat", ref("max", owner))), im.CodeConflict)
			w.restart()
		}
		if got := w.members(key); got != "max:me mia:ow" || len(w.history(key, "mia")) != 1 {
			t.Errorf("members %s, %d entries", got, len(w.history(key, "mia")))
		}
	})
}

func TestMembersAreForMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.ranked()
		for u, want := range map[im.User]im.Code{"ex": im.CodeNotMember, "outsider": im.CodeNoConversation} {
			if _, _, err := w.memberPage(key, u, "", 0); im.CodeOf(err) != want {
				t.Errorf("%s asks for the members: %v, want %s", u, err, want)
			}
		}
		unknown := im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, "unknown")}
		if _, _, err := w.memberPage(unknown, "", "", 0); im.CodeOf(err) != im.CodeNoConversation {
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
			page, more, err := w.memberPage(key, "mia", c.after, c.limit)
			var users []string
			for _, r := range page {
				users = append(users, r.User)
			}
			if got := strings.Join(users, " "); err != nil || got != c.want || more != c.more {
				t.Errorf("%d behind %q: %s, more %v, %v; want %s, more %v", c.limit, c.after, got, more, err, c.want, c.more)
			}
		}
	})
}

func TestGroupOfTenThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var refs []*petrelv1.MemberRef
		for i := range conv.MaxMembers {
			refs = append(refs, ref(fmt.Sprint("user", i*7919%conv.MaxMembers), 0))
		}
		key := im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, "large")}
		s := convtest.Entry(key, "create", &petrelv1.MemberChange{Added: append(refs, refs[:100]...)})
		s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		w.MustSend(s)
		convtest.WantCode(t, w.Send(convtest.Add(key, "one more", "zoe")), im.CodeInvalid)
		w.MustSend(convtest.Kick(key, "one less", "user77"))
		w.MustSend(convtest.Add(key, "instead", "zoe"))
		w.restart()
		n := 0
		for after, more := im.User(""), true; more; n++ {
			var page []*petrelv1.MemberRef
			page, more, _ = w.memberPage(key, "zoe", after, 0)
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
	})
}
