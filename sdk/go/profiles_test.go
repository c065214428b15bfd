package petrel

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// people is a fake server's store of profiles.
type people struct {
	s       *fake
	of      map[string]string // versions by user; users without one do not exist
	asked   []string          // requests: the conversation, then users with the versions that the client has
	later   map[string]bool
	refuse  *petrelv1.Error // the next answer
	sick    string          // a request with this user is invalid
	hold    bool            // answers wait for release
	whole   bool            // answers have also profiles that the client has
	waiting []func()
}

// withPeople makes s offer profiles.
func withPeople(s *fake, users ...string) *people {
	s.caps = []string{capCall, capPresence, capProfiles}
	p := &people{s: s, of: map[string]string{}, later: map[string]bool{}}
	for _, u := range users {
		p.of[u] = "1"
	}
	s.onFrame = p.frame
	return p
}

func (p *people) frame(ss *fakeSession, f *petrelv1.ClientFrame) bool {
	call := f.GetCall()
	q := new(petrelv1.GetUsersRequest)
	if call == nil || call.Method != "petrel.v1.AccountService/GetUsers" {
		return false
	}
	if err := proto.Unmarshal(call.GetProto(), q); err != nil {
		p.s.t.Error(err)
	}
	names, sick := []string{}, false
	for _, x := range q.Users {
		names = append(names, x.User+x.Version)
		sick = sick || x.User == p.sick
	}
	p.asked = append(p.asked, strings.TrimSpace(q.Conv+" "+strings.Join(names, ",")))
	r := &petrelv1.GetUsersResponse{}
	for _, x := range q.Users {
		switch v := p.of[x.User]; {
		case p.later[x.User]:
			r.Later, r.RetryAfterMs = append(r.Later, x.User), 60_000
		case v == "":
			r.Unknown = append(r.Unknown, x.User)
		case v != x.Version || p.whole:
			r.Users = append(r.Users, &petrelv1.Account{User: x.User, DisplayName: strings.ToUpper(x.User), Version: v})
		}
	}
	answer := func() { ss.answer(f.Id, r) }
	switch refused := p.refuse; {
	case sick:
		ss.fail(f.Id, &petrelv1.Error{Code: CodeInvalid})
	case refused != nil:
		p.refuse = nil
		ss.fail(f.Id, refused)
	case p.hold:
		p.waiting = append(p.waiting, answer)
	default:
		answer()
	}
	return true
}

// release sends the answers that wait.
func (p *people) release() {
	p.hold = false
	for _, answer := range p.waiting {
		answer()
	}
	p.waiting = nil
	synctest.Wait()
}

// requests returns the requests since it was called last.
func (p *people) requests() string {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	got := strings.Join(p.asked, "; ")
	p.asked = nil
	return got
}

// tell pushes a presence with the version of a profile.
func (p *people) tell(user, version string) {
	p.s.sessions[len(p.s.sessions)-1].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Events{
		Events: &petrelv1.Events{Presences: []*petrelv1.Presence{{User: user, Profile: version}}}}})
	pass(time.Second)
}

// versions are the versions that the client has; "-": it does not know the user, "none": there is no such user.
func versions(c *Client, users ...string) string {
	var out []string
	for _, u := range users {
		switch p, known := c.Profiles().Get(u); {
		case p != nil:
			out = append(out, p.Version)
		case known:
			out = append(out, "none")
		default:
			out = append(out, "-")
		}
	}
	return strings.Join(out, " ")
}

// Wishes go out together, each user once, with the conversation in which the user costs no look-up. Spec: P-14.4.
func TestWishesForProfilesAreGathered(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob", "carol", "dave")
		c := s.client(Options{})
		c.Profiles().Want("g1", "bob") // before the client is live
		stop := run(c)
		synctest.Wait()
		c.Profiles().Want("g1", "carol", "bob")
		c.Profiles().Want("", "dave")
		c.Profiles().Want("g2", "eve")
		sub := c.Subscribe()
		_ = sub.Take()
		pass(time.Second)
		expect(t, "requests", p.requests(), "g2 eve,dave; g1 bob,carol")
		expect(t, "known", fmt.Sprint(versions(c, "bob", "carol", "dave", "eve"), sub.Take().Profiles), "1 1 1 nonetrue")
		var many []string
		for i := range 250 {
			many = append(many, fmt.Sprint("u", i))
		}
		c.Profiles().Want("g1", many...)
		pass(time.Second)
		sizes := []int{}
		for _, q := range p.asked {
			sizes = append(sizes, strings.Count(q, ",")+1)
		}
		expect(t, "users of each request", sizes, []int{100, 100, 50})
		expect(t, "run", stop(), nil)
	})
}

// A profile that was confirmed lately is not asked for again, another one with the version that the client has.
// While it stays the same it is the same pointer. Spec: P-14.2.
func TestAProfileIsTheSameUntilItsVersionChanges(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob")
		c := s.client(Options{})
		stop := run(c)
		want := func(when, requests string) *petrelv1.Account {
			t.Helper()
			c.Profiles().Want("", "bob")
			pass(time.Second)
			expect(t, when, p.requests(), requests)
			got, _ := c.Profiles().Get("bob")
			return got
		}
		first := want("at first", "bob")
		sub := c.Subscribe()
		_ = sub.Take()
		want("at once", "")
		pass(profileIsFresh)
		if got := want("later", "bob1"); got != first || sub.Take().Profiles {
			t.Errorf("a profile of the same version is another one: got %p, want %p", got, first)
		}
		p.whole = true
		pass(profileIsFresh)
		if got := want("told again", "bob1"); got != first || sub.Take().Profiles {
			t.Errorf("a profile of the same version is another one: got %p, want %p", got, first)
		}
		p.of["bob"] = "2"
		pass(profileIsFresh)
		if got := want("after a change", "bob1"); got == first || got.Version != "2" || !sub.Take().Profiles {
			t.Errorf("after a change: got %v", got)
		}
		expect(t, "first is as it was", first.Version, "1")
		expect(t, "run", stop(), nil)
	})
}

// A version that a presence, a sync or a list of members tells makes the client ask, if it has another one. A server
// that was put back tells an older one, which is as good. Spec: P-14.2, P-14.5.
func TestAnotherVersionIsAskedFor(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob", "carol")
		v := s.conv("d1", "bob")
		v.profile = "1"
		getUsers := s.onFrame
		s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
			if !strings.HasSuffix(f.GetCall().GetMethod(), "/ListMembers") {
				return getUsers(ss, f)
			}
			ss.answer(f.Id, &petrelv1.ListMembersResponse{Members: []*petrelv1.MemberRef{{User: "bob"}, {User: "carol"}},
				Profiles: []string{p.of["bob"], p.of["carol"]}})
			return true
		}
		c := s.client(Options{})
		c.Watch("g1", "bob", "eve")
		stop := run(c)
		c.Profiles().Want("g1", "bob", "carol")
		pass(time.Second)
		p.requests()
		check := func(when, requests, want string) {
			t.Helper()
			pass(time.Second)
			expect(t, when, fmt.Sprint(p.requests(), ": ", versions(c, "bob", "carol")), requests+": "+want)
		}
		expect(t, "watched", fmt.Sprint(s.watched, s.watchedIn), "[[bob eve]] [g1]")
		p.tell("bob", "1")
		p.tell("eve", "1")
		check("the same version, and that of a user whom nobody wants", "", "1 1")
		pass(profileIsFresh)
		c.Profiles().Want("g1", "bob")
		check("a wish for a profile with the version of the presence", "", "1 1")
		p.of["bob"] = "2"
		p.tell("bob", "2")
		check("a presence", "g1 bob1", "2 1")
		got, _ := c.Presence("bob")
		d, _ := c.Conversation("d1")
		expect(t, "shown", got.Profile+" "+d.PeerProfile, "2 2")
		p.of["bob"] = "1" // as before
		p.tell("bob", "1")
		check("an older version", "g1 bob2", "1 1")

		p.of["bob"], v.profile = "3", "3"
		s.mu.Lock()
		v.add(text("bob", "hi"))
		s.sessions[0].write(&petrelv1.ServerFrame{Body: &petrelv1.ServerFrame_Lagged{Lagged: &petrelv1.Lagged{}}})
		s.mu.Unlock()
		check("a sync", "g1 bob1", "3 1")
		p.of["carol"] = "2"
		if _, err := c.Members(t.Context(), "g1"); err != nil {
			t.Fatal(err)
		}
		check("a list of members", "g1 carol1", "3 2")

		p.hold = true
		p.of["carol"] = "3"
		_, _ = c.Members(t.Context(), "g1")
		pass(time.Second)
		p.of["carol"] = "4"
		_, _ = c.Members(t.Context(), "g1")
		p.release()
		check("a version that is told during the request", "g1 carol2; g1 carol3", "3 4")
		p.tell("bob", "never")
		p.tell("bob", "never")
		check("a version that no answer has", "g1 bob3", "3 4")
		expect(t, "run", stop(), nil)
	})
}

// Users for whom no look-up is left are asked for after the wait. So is a
// request that the server refuses for the moment. Users who do not exist are asked for once. Spec: P-14.4.
func TestLaterAndUnknownUsers(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob", "carol", "dave")
		p.later = map[string]bool{"carol": true, "dave": true}
		c := s.client(Options{})
		stop := run(c)
		check := func(when, requests, want string) {
			t.Helper()
			expect(t, when, fmt.Sprint(p.requests(), ": ", versions(c, "bob", "carol", "dave", "nobody")), requests+": "+want)
		}
		c.Profiles().Want("", "bob", "carol", "dave", "nobody")
		pass(time.Second)
		check("at first", "nobody,dave,carol,bob", "1 - - none")
		c.Profiles().Want("", "carol", "nobody")
		pass(50 * time.Second)
		check("too early", "", "1 - - none")
		clear(p.later)
		c.Profiles().Want("g1", "dave")
		pass(time.Second)
		check("too early in a conversation", "", "1 - - none")
		pass(10 * time.Second)
		check("after the wait", "g1 dave,carol", "1 1 1 none")
		p.of["nobody"] = "1"
		pass(profileIsFresh)
		c.Profiles().Want("", "nobody")
		pass(time.Second)
		check("unknown", "", "1 1 1 none")

		p.refuse = &petrelv1.Error{Code: CodeRateLimited, Retryable: true, RetryAfterMs: 30_000}
		c.Profiles().Want("", "eve")
		pass(29 * time.Second)
		expect(t, "refused", p.requests(), "eve")
		pass(2 * time.Second)
		expect(t, "after the wait", p.requests(), "eve")
		p.hold = true
		c.Profiles().Want("", "fay")
		pass(time.Second)
		p.hold, p.waiting = false, nil
		s.cut()
		pass(10 * time.Second)
		expect(t, "a connection that ended before the answer", p.requests(), "fay; fay")
		expect(t, "run", stop(), nil)
	})
}

// One id that the server refuses takes no others with it.
func TestAnInvalidUserIsUnknown(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob", "carol")
		p.sick = "b d"
		c := s.client(Options{})
		stop := run(c)
		c.Profiles().Want("", "bob", "b d", "carol", "\xff")
		pass(time.Second)
		expect(t, "known", versions(c, "bob", "b d", "carol", "\xff"), "1 none 1 none")
		p.requests()
		p.of["bob"] = "2"
		pass(profileIsFresh)
		c.Profiles().Want("", "bob", "b d", "carol", "\xff")
		pass(time.Second)
		expect(t, "the next time", p.requests()+" "+versions(c, "bob"), "carol1,bob1 2")
		expect(t, "run", stop(), nil)
	})
}

// Another history id drops the profiles, and an answer of before. Wishes without an answer stay. Spec: P-3.4, P-14.2.
func TestAnotherHistoryDropsProfiles(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob", "carol")
		p.later["carol"] = true
		c := s.client(Options{})
		stop := run(c)
		c.Profiles().Want("", "bob", "carol", "nobody")
		pass(time.Second)
		p.requests()
		sub := c.Subscribe()
		_ = sub.Take()
		clear(p.later)
		s.history = "h2"
		s.cut()
		pass(10 * time.Second)
		expect(t, "after the change", fmt.Sprint(p.requests(), ": ", versions(c, "bob", "carol", "nobody"), sub.Take().Profiles),
			"carol: - 1 -true")
		c.Profiles().Want("", "bob")
		pass(time.Second)
		expect(t, "wanted again", p.requests()+": "+versions(c, "bob"), "bob: 1")

		p.hold = true
		c.Profiles().Want("g1", "bob", "dave")
		pass(time.Second)
		c.do(func(k *core) { k.forget() }) // as when the server has gone back
		p.of["dave"] = "2"
		p.release()
		pass(time.Second)
		expect(t, "an answer of before", p.requests()+": "+versions(c, "dave"), "g1 dave; g1 dave: 2")
		expect(t, "run", stop(), nil)
	})
}

// The client remembers those who were wanted last. One more than it holds drops an eighth of them.
func TestProfilesAreBounded(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s)
		c := s.client(Options{})
		stop := run(c)
		var all []string
		for i := range maxProfiles {
			all = append(all, fmt.Sprint("u", i))
			p.of[all[i]] = "1"
		}
		c.Profiles().Want("", all...)
		pass(time.Minute)
		p.requests()
		c.Profiles().Want("", "u0", "x", "y")
		pass(time.Second)
		expect(t, "asked", p.requests(), "y,x,u01")
		expect(t, "known", versions(c, "u0", "u1", "u1251", "u1252", "u9999"), "1 - - 1 1")
		c.do(func(k *core) { expect(t, "remembered", len(k.profiles.of), maxProfiles-maxProfiles/8+1) })
		expect(t, "run", stop(), nil)
	})
}

// A server without the capability is asked nothing.
func TestAServerWithoutProfilesIsNotAsked(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		p := withPeople(s, "bob")
		s.caps = []string{capCall, capPresence}
		c := s.client(Options{})
		c.Watch("g1", "bob")
		stop := run(c)
		c.Profiles().Want("", "bob")
		pass(time.Minute)
		expect(t, "asked", fmt.Sprint(p.requests(), s.watchedIn), "[]")
		expect(t, "run", stop(), nil)
	})
}
