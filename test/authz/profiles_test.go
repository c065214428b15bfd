package authz

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The table has the price of GetUsers, and the code of each other request about a profile. The caller
// names the group that the target is in. Spec: P-14.3, P-14.4, P-14.6.
//
//	free     the profile without a look-up
//	counted  the profile for a look-up
//	unknown  no such user, for a look-up
var profileRows = []struct {
	caller                                                              string
	getUsers, getUser, byHandle, update, members, setProfiles, setRules string
}{
	{"anonymous", "U", "U", "U", "U", "U", "U", "U"},
	{"other", "counted", "ok", "ok", "ok", "NC", "U", "U"},
	{"peer", "free", "ok", "ok", "ok", "NC", "U", "U"}, // of a direct conversation, in no group with the target
	{"left", "counted", "ok", "ok", "ok", "NM", "U", "U"},
	{"member", "free", "ok", "ok", "ok", "ok", "U", "U"},
	{"blocked", "free", "ok", "ok", "ok", "ok", "U", "U"}, // a member whom the target blocks
	{"blocker", "free", "ok", "ok", "ok", "ok", "U", "U"}, // a member who blocks the target
	{"blockedStranger", "counted", "ok", "ok", "ok", "NC", "U", "U"},
	{"disabled", "UD", "UD", "UD", "UD", "UD", "U", "U"},
	{"revoked", "U", "U", "U", "U", "U", "U", "U"},
	{"foreign", "unknown", "NU", "NU", "ok", "NC", "U", "U"},
	{"noscope", "U", "U", "U", "U", "U", "F", "F"},
	{"users", "U", "U", "U", "U", "U", "ok", "ok"},       // a key with the scope of these methods alone
	{"users of acme", "U", "U", "U", "U", "U", "F", "F"}, // the same, of another tenant
}

func TestWhoSeesAProfile(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{Config: map[string]string{"accounts.look_ups_per_min": "1"}})
	for _, row := range profileRows {
		t.Run(row.caller, func(t *testing.T) {
			for what, want := range map[string]string{"GetUsers": row.getUsers, "GetUser": row.getUser, "handle": row.byHandle,
				"UpdateAccount": row.update, "ListMembers": row.members, "SetProfiles": row.setProfiles, "SetProfileRules": row.setRules} {
				w := newWorld(t, srv, "member")
				w.credential = w.profileCaller(row.caller)
				if got := w.askProfile(what); got != want && got != codes[want] {
					t.Errorf("%s by %s: %s, want %s", what, row.caller, got, want)
				}
			}
		})
	}
}

// profileCaller makes a caller stand as a row says to member2, the target.
func (w *world) profileCaller(caller string) string {
	w.t.Helper()
	switch caller {
	case "noscope":
		return w.makeKey("noscope", "messages").Key
	case "users":
		return w.makeKey("users", "users").Key
	case "users of acme":
		r, err := w.srv.Admin.CreateKey(w.t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: "acme", Tenant: "acme", Scopes: []string{"users"}}))
		if err != nil {
			w.t.Fatal(err)
		}
		return r.Msg.Key
	case "peer":
		token := w.mint("", "other")
		w.direct("other", "member2")
		return token
	case "blocked":
		w.block("member2", "member")
		return w.mint("", "member")
	case "blocker":
		w.block("member", "member2")
		return w.mint("", "member")
	case "blockedStranger":
		token := w.mint("", "other")
		w.block("member2", "other")
		return token
	case "disabled":
		token := w.mint("", "member")
		if _, err := w.srv.Admin.DisableUser(w.t.Context(), connect.NewRequest(&petrelv1.DisableUserRequest{User: w.name("member")})); err != nil {
			w.t.Fatal(err)
		}
		return token
	}
	return w.credentialOf(caller)
}

// direct has a user write to another one.
func (w *world) direct(from, to string) (conv string) {
	w.t.Helper()
	s := w.send()
	s.Conv, s.User = "", w.name(to)
	r, err := w.srv.Admin.SendAs(w.t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{From: w.name(from), Send: s}))
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Msg.Conv
}

// block has a user block another one.
func (w *world) block(by, whom string) {
	w.t.Helper()
	p := &prober{t: w.t, srv: w.srv, credential: w.mint("", by), http: w.srv.HTTP()}
	q := &petrelv1.ChangeSettingsRequest{User: w.name(whom), Values: map[string]string{"blocked": "1"}}
	if got := p.call(account+"ChangeSettings", q); !strings.HasPrefix(got, "200") {
		w.t.Fatalf("%s blocks %s: %s", by, whom, got)
	}
}

// askProfile asks for the profile of member2 in one way, or changes one.
func (w *world) askProfile(what string) string {
	w.t.Helper()
	target := w.name("member2")
	switch what {
	case "GetUsers":
		p := &prober{t: w.t, srv: w.srv, credential: w.credential, http: w.srv.HTTP()}
		q := &petrelv1.GetUsersRequest{Users: []*petrelv1.UserVersion{{User: target}}, Conv: w.conv}
		if code := w.call(account+"GetUsers", q); code != "ok" {
			return code
		}
		got := p.call(account+"GetUsers", q) // once more: it costs nothing more
		left := w.call(account+"GetUser", &petrelv1.GetUserRequest{User: w.name("owner")})
		switch counted := left == "rate_limited"; {
		case strings.Contains(got, "unknown") && counted:
			return "unknown"
		case strings.Contains(got, `"user":"`+target) && counted:
			return "counted"
		case strings.Contains(got, `"user":"`+target) && left == "ok":
			return "free"
		}
		return fmt.Sprintf("%s, and then a look-up: %s", got, left)
	case "GetUser":
		return w.call(account+"GetUser", &petrelv1.GetUserRequest{User: target})
	case "handle":
		return w.call(account+"GetUser", &petrelv1.GetUserRequest{Handle: w.handle()})
	case "UpdateAccount":
		return w.call(account+"UpdateAccount", &petrelv1.UpdateAccountRequest{About: new("x")})
	case "ListMembers":
		return w.call(convs+"ListMembers", &petrelv1.ListMembersRequest{Conv: w.conv, Profiles: true})
	case "SetProfiles":
		return w.call(admin+"SetProfiles", &petrelv1.SetProfilesRequest{Profiles: []*petrelv1.ProfileChange{{User: target, About: new("x")}}})
	default:
		return w.call(admin+"SetProfileRules", &petrelv1.SetProfileRulesRequest{Tenant: "default", Managed: []string{"fields.badge"}})
	}
}

// twins are two users who differ in one thing: the first one blocks the caller. Both have the same profile and
// let everybody see when they are online, both are in the caller's group, and both have written to the caller.
func (w *world) twins() []string {
	w.t.Helper()
	both := []string{"member2", "admin"}
	for _, u := range both {
		w.direct(u, "member")
		p := &prober{t: w.t, srv: w.srv, credential: w.mint("", u), http: w.srv.HTTP()}
		q := &petrelv1.SetPresencePolicyRequest{Policy: petrelv1.PresencePolicy_PRESENCE_POLICY_EVERYBODY}
		if got := p.call(account+"SetPresencePolicy", q); !strings.HasPrefix(got, "200") {
			w.t.Fatal(got)
		}
	}
	w.sameProfile(both, "Robin")
	w.block(both[0], "member")
	return both
}

// sameProfile gives users the same profile, but for the handles.
func (w *world) sameProfile(users []string, name string) {
	w.t.Helper()
	for _, u := range users {
		w.setProfiles(&petrelv1.ProfileChange{User: w.name(u), DisplayName: &name, About: new("here and there"),
			Handle: new(w.handleOf(u)), Fields: map[string]string{"city": "Bergen", "team": name},
			Visibility: map[string]petrelv1.Visibility{"fields.city": petrelv1.Visibility_VISIBILITY_NOBODY}})
	}
}

func (w *world) handleOf(user string) string { return user + strings.ReplaceAll(w.suffix, "-", "_") }

// ofProfiles are the ways to ask for one user's profile.
func (w *world) ofProfiles() []question {
	users := func(name string) []*petrelv1.UserVersion { return []*petrelv1.UserVersion{{User: name}} }
	var list []question
	for name, m := range map[string]func(user string) (string, proto.Message){
		"GetUsers": func(u string) (string, proto.Message) {
			return "GetUsers", &petrelv1.GetUsersRequest{Users: users(w.name(u))}
		},
		"GetUsers of a group": func(u string) (string, proto.Message) {
			return "GetUsers", &petrelv1.GetUsersRequest{Users: users(w.name(u)), Conv: w.conv}
		},
		"GetUser": func(u string) (string, proto.Message) { return "GetUser", &petrelv1.GetUserRequest{User: w.name(u)} },
		"GetUser by handle": func(u string) (string, proto.Message) {
			return "GetUser", &petrelv1.GetUserRequest{Handle: w.handleOf(u)}
		},
	} {
		list = append(list, question{name, func(p *prober, user string) string {
			method, request := m(user)
			return w.anonymous(p.call(account+method, request), user)
		}})
	}
	return list
}

var elevenMark = regexp.MustCompile(`"(version|profile|peerProfile)": *"[\w-]{11}"`)

// anonymous is an answer without what differs between any two users.
func (w *world) anonymous(answer, user string) string {
	answer = strings.NewReplacer(w.name(user), "USER", w.handleOf(user), "HANDLE").Replace(answer)
	answer = regexp.MustCompile(`"(createdMs|timeMs|lastMs)": *"\d+"`).ReplaceAllString(answer, `"$1":"TIME"`)
	answer = regexp.MustCompile(`"conv": *"d[\w-]{20}"`).ReplaceAllString(answer, `"conv":"DIRECT"`)
	return strings.ReplaceAll(elevenMark.ReplaceAllString(answer, `"$1":"VERSION"`), ": ", ":")
}

// A user who is blocked is told the same of the profile of the user who blocks them as of one who does not:
// by every method, by presences, by syncs and by lists of members, also of changes after the block. What it
// costs: TestWhoSeesAProfile. Spec: P-5.4, P-14.3.
func TestNoProfileTellsThatAUserBlocks(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	w := newWorld(t, srv, "member")
	twins := w.twins()
	p := newProber(t, srv, w.credential)
	conn, err := wiretest.Open(t.Context(), wiretest.Options{URL: srv.URL(wire.TCP), Codec: wire.JSON})
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() }) // the test is over
		err = conn.Hello(t.Context(), &petrelv1.Hello{VersionMin: 1, VersionMax: 1, Token: w.credential, Capabilities: []string{"cursor", "presence", "profiles"}})
	}
	if err == nil {
		_, err = conn.Write(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Watch{Watch: &petrelv1.SetWatch{Users: []string{w.name(twins[0]), w.name(twins[1])}, Conv: w.conv}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{} // versions
	for _, when := range []string{"at once", "after a change"} {
		presences := w.awaitProfiles(conn, twins, told)
		if presences[0] != presences[1] {
			t.Errorf("presence %s of the user who blocks: %s, of the other one: %s", when, presences[0], presences[1])
		}
		for _, q := range w.ofProfiles() {
			blocker, other := q.ask(p, twins[0]), q.ask(p, twins[1])
			if blocker != other || !strings.Contains(blocker, "VERSION") {
				t.Errorf("%s %s, of the user who blocks:\n%s\nof the other one:\n%s", q.name, when, blocker, other)
			}
		}
		states := w.syncedWith(conn, twins, told)
		if states[0] != states[1] {
			t.Errorf("sync %s with the user who blocks:\n%s\nwith the other one:\n%s", when, states[0], states[1])
		}
		members := p.call(convs+"ListMembers", &petrelv1.ListMembersRequest{Conv: w.conv, Profiles: true})
		for _, u := range twins {
			if !strings.Contains(members, `"`+told[u]+`"`) {
				t.Errorf("members %s: %s, without version %s of %s", when, members, told[u], u)
			}
		}
		w.sameProfile(twins, "Dove") // another time it changes nothing
	}
}

// awaitProfiles waits until the watcher is told another version than those in told of each of some users, and returns
// their presences without what differs between any two users.
func (w *world) awaitProfiles(conn *wiretest.Conn, users []string, told map[string]string) []string {
	w.t.Helper()
	got := make([]string, len(users))
	for got[0] == "" || got[1] == "" {
		f, err := conn.Recv(eventually.Context(w.t))
		if err != nil {
			w.t.Fatalf("presences of %v: got %q, then %v", users, got, err)
		}
		for _, x := range f.GetEvents().GetPresences() {
			for i, u := range users {
				if x.User == w.name(u) && x.Profile != "" && x.Profile != told[u] {
					told[u], got[i] = x.Profile, w.anonymous(protojson.Format(x), u)
				}
			}
		}
	}
	return got
}

// syncedWith returns the states of the direct conversations with some users, without what differs between any two users.
func (w *world) syncedWith(conn *wiretest.Conn, users []string, told map[string]string) []string {
	w.t.Helper()
	page, err := conn.Sync(eventually.Context(w.t), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	got := make([]string, len(users))
	for _, c := range page.Convs {
		for i, u := range users {
			if c.Peer != w.name(u) {
				continue
			}
			if c.PeerProfile != told[u] {
				w.t.Errorf("sync with %s: version %q, and the presence has %q", u, c.PeerProfile, told[u])
			}
			got[i] = w.anonymous(protojson.Format(c), u)
		}
	}
	return got
}

// Time does not tell either: see TestNoTimeTellsThatAConversationExists.
func TestNoTimeTellsThatAUserBlocks(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	w := newWorld(t, srv, "member")
	twins := w.twins()
	judgeTimes(t, newProber(t, srv, w.credential), w.ofProfiles(), []pair{{"who blocks the caller", twins[0], twins[1]}}, timesEach())
}

// A hidden handle finds nobody, as one that nobody has, and costs the same look-up. Spec: P-14.3.
func TestAHiddenHandleFindsNobody(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{Config: map[string]string{"accounts.look_ups_per_min": "1"}})
	var answers []string
	for _, handle := range []string{"", "nobody.has.it"} {
		w := newWorld(t, srv, "other")
		if handle == "" {
			handle = w.handle()
			w.setProfiles(&petrelv1.ProfileChange{User: w.name("member2"), Visibility: map[string]petrelv1.Visibility{"handle": petrelv1.Visibility_VISIBILITY_NOBODY}})
		}
		p := newProber(t, srv, w.credential)
		got := p.call(account+"GetUser", &petrelv1.GetUserRequest{Handle: handle})
		got, _, _ = strings.Cut(got, `"details"`) // the same once more
		answers = append(answers, strings.ReplaceAll(got, handle, "HANDLE")+", then "+w.call(account+"GetUser", &petrelv1.GetUserRequest{User: w.name("owner")}))
	}
	if answers[0] != answers[1] || !strings.HasSuffix(answers[0], "rate_limited") {
		t.Errorf("a hidden handle: %s\none that nobody has: %s", answers[0], answers[1])
	}
}
