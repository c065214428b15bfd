package petrel

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// contactServer answers the calls of ContactService when the test says so.
type contactServer struct {
	*fake
	seq   uint64   // of the newest entry
	asked []string // method, request id, request
	ids   []uint64
}

func withContacts(s *fake) *contactServer {
	s.caps = []string{capCall}
	p := &contactServer{fake: s, seq: 10}
	s.onFrame = func(_ *fakeSession, f *petrelv1.ClientFrame) bool {
		method, isContact := strings.CutPrefix(f.GetCall().GetMethod(), contactService)
		if !isContact {
			return false
		}
		q := map[string]proto.Message{"RequestContact": new(petrelv1.RequestContactRequest),
			"SetRemark": new(petrelv1.SetRemarkRequest)}[method]
		if q == nil {
			q = new(petrelv1.ContactRequest)
		}
		if err := proto.Unmarshal(f.GetCall().GetProto(), q); err != nil {
			s.t.Error(err)
		}
		text := func(name string) string {
			d := q.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
			if d == nil {
				return ""
			}
			return q.ProtoReflect().Get(d).String()
		}
		p.ids = append(p.ids, f.Id)
		p.asked = append(p.asked, strings.Join([]string{text("request_id"), method, text("user"), text("handle"), text("greeting"), text("remark")}, "/"))
		return true
	}
	return p
}

// set pushes an entry with the settings of a user.
func (p *contactServer) set(user string, values ...string) {
	all := map[string]string{settingContact: "", settingSent: "", settingReceived: ""}
	for i := 0; i < len(values); i += 2 {
		all[values[i]] = values[i+1]
	}
	p.mu.Lock()
	p.seq++
	p.sessions[len(p.sessions)-1].event(&petrelv1.Message{Conv: "inbox", Seq: p.seq, Body: &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{
		Entry: &petrelv1.InboxEntry_Settings{Settings: &petrelv1.InboxSettings{User: user, Values: all}}}}})
	p.mu.Unlock()
	synctest.Wait()
}

// last returns the session and the id of the newest call.
func (p *contactServer) last() (*fakeSession, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sessions[len(p.sessions)-1], p.ids[len(p.ids)-1]
}

// answered is the end of a method of Contacts.
type answered struct {
	contact *petrelv1.Contact
	err     error
}

// start calls a method of Contacts, and waits until the server has the call.
func start(f func() (*petrelv1.Contact, error)) <-chan answered {
	end := make(chan answered, 1) // one end
	go func() {
		c, err := f()
		end <- answered{c, err}
	}()
	synctest.Wait()
	return end
}

// give answers the newest call, and returns the end of the method.
func (p *contactServer) give(end <-chan answered, c *petrelv1.Contact) *petrelv1.Contact {
	p.t.Helper()
	ss, id := p.last()
	ss.answer(id, c)
	got := <-end
	if got.err != nil || !proto.Equal(got.contact, c) {
		p.t.Errorf("the answer: got %v, %v, want %v", got.contact, got.err, c)
	}
	return got.contact
}

// seen are the contacts that the client has: the user, then since, sent and received, then remark and greeting.
func seen(c *Client) string {
	var out []string
	for _, x := range c.Contacts().List() {
		if c.Contacts().Get(x.User) != x {
			return "Get and List differ for " + x.User
		}
		out = append(out, fmt.Sprintf("%s %d %d %d %q %q", x.User, x.SinceMs, x.SentMs, x.ReceivedMs, x.Remark, x.Greeting))
	}
	return strings.Join(out, "; ")
}

func playContacts(t *testing.T, f func(t *testing.T, p *contactServer, c *Client)) {
	t.Helper()
	play(t, func(t *testing.T, s *fake) {
		p := withContacts(s)
		c := s.client(Options{})
		stop := run(c)
		synctest.Wait()
		f(t, p, c)
		expect(t, "run", stop(), nil)
	})
}

// Spec: S-21.1, P-14.7.
func TestContactsAreWhatTheSettingsOfUsersSay(t *testing.T) {
	playContacts(t, func(t *testing.T, p *contactServer, c *Client) {
		expect(t, "at first", seen(c), "")
		p.set("dave", settingContact, "1700000000000 Dave from  work")
		p.set("bob", settingContact, "1")
		p.set("carol", settingSent, "2 hello")
		p.set("erin", settingReceived, "3 it is me")
		p.set("frank", settingBlocked, "1")
		p.set("heidi", settingSent, "4 mine", settingReceived, "5 theirs")
		p.set("ivan", settingContact, "soon")
		p.set("judy", settingContact, "99999999999999999999")
		expect(t, "contacts", seen(c), `bob 1 0 0 "" ""; carol 0 2 0 "" "hello"; dave 1700000000000 0 0 "Dave from  work" ""; `+
			`erin 0 0 3 "" "it is me"; heidi 0 4 5 "" "theirs"`)
		for _, u := range []string{"frank", "ivan", "judy", "nobody", ""} {
			if got := c.Contacts().Get(u); got != nil {
				t.Errorf("%q is %v", u, got)
			}
		}
		p.set("carol")
		p.set("erin", settingContact, "6")
		expect(t, "later", seen(c), `bob 1 0 0 "" ""; dave 1700000000000 0 0 "Dave from  work" ""; erin 6 0 0 "" ""; heidi 0 4 5 "" "theirs"`)
	})
}

// Spec: S-21.2.
func TestAnAnswerShowsAContactUntilTheEntryComes(t *testing.T) {
	playContacts(t, func(t *testing.T, p *contactServer, c *Client) {
		p.set("carol", settingContact, "1 Caro")
		sub := c.Subscribe()
		_ = sub.Take()
		dave := &petrelv1.Contact{User: "dave", SentMs: 3, Greeting: "it is Alice"}
		p.give(start(func() (*petrelv1.Contact, error) {
			return c.Contacts().AskByHandle(t.Context(), "davy", "it is Alice")
		}), dave)
		synctest.Wait()
		expect(t, "told", sub.Take().Account, true)
		shown := c.Contacts().Get("dave")
		if !proto.Equal(shown, dave) {
			t.Errorf("dave is %v", shown)
		}
		p.set("dave", settingSent, "3 it is Alice")
		if c.Contacts().Get("dave") != shown {
			t.Error("the entry of the change has replaced a contact that is the same")
		}
		p.give(start(func() (*petrelv1.Contact, error) { return c.Contacts().Remove(t.Context(), "carol") }), &petrelv1.Contact{User: "carol"})
		expect(t, "removed", seen(c), `dave 0 3 0 "" "it is Alice"`)
		p.set("carol", settingContact, "4")
		expect(t, "made contacts again", seen(c), `carol 4 0 0 "" ""; dave 0 3 0 "" "it is Alice"`)
	})
}

// Spec: S-21.2.
func TestAnOldAnswerChangesNoContact(t *testing.T) {
	playContacts(t, func(t *testing.T, p *contactServer, c *Client) {
		end := start(func() (*petrelv1.Contact, error) { return c.Contacts().Accept(t.Context(), "bob") })
		p.set("bob", settingContact, "3")
		p.set("bob", settingContact, "3 from another device")
		p.give(end, &petrelv1.Contact{User: "bob", SinceMs: 3})
		expect(t, "after the entries", seen(c), `bob 3 0 0 "from another device" ""`)

		end = start(func() (*petrelv1.Contact, error) { return c.Contacts().Ask(t.Context(), "carol", "") })
		p.cut()
		pass(time.Minute)
		expect(t, "calls", len(p.asked), 3)
		expect(t, "the repeat", p.asked[2], p.asked[1])
		p.give(end, &petrelv1.Contact{User: "carol", SentMs: 4}) // another device has withdrawn it meanwhile
		expect(t, "after the sync", c.Contacts().Get("carol"), (*petrelv1.Contact)(nil))
	})
}

// Spec: S-21.3.
func TestAContactIsTheSameUntilItChanges(t *testing.T) {
	playContacts(t, func(t *testing.T, p *contactServer, c *Client) {
		p.set("bob", settingContact, "1 Bobby")
		p.set("carol", settingSent, "2 hello")
		list := c.Contacts().List()
		bob, carol := list[0], list[1]
		p.set("bob", settingContact, "1 Bobby")
		p.set("frank", settingBlocked, "1")
		if now := c.Contacts().List(); now[0] != bob || now[1] != carol || c.Contacts().Get("bob") != bob {
			t.Errorf("a contact that is the same is another one: %v", now)
		}
		p.set("carol")
		p.set("bob", settingContact, "1 Robert")
		expect(t, "later", seen(c), `bob 1 0 0 "Robert" ""`)
		expect(t, "the first list", fmt.Sprint(list[0].Remark, list[1].SentMs, list[0] == bob), "Bobby2 true")
	})
}

// Spec: P-12.4, P-14.8.
func TestActsOnContactsAreCalls(t *testing.T) {
	playContacts(t, func(t *testing.T, p *contactServer, c *Client) {
		k, ctx := c.Contacts(), context.Background()
		for _, act := range []func() (*petrelv1.Contact, error){
			func() (*petrelv1.Contact, error) { return k.Ask(ctx, "bob", "hi") },
			func() (*petrelv1.Contact, error) { return k.AskByHandle(ctx, "bobby", "") },
			func() (*petrelv1.Contact, error) { return k.Accept(ctx, "bob") },
			func() (*petrelv1.Contact, error) { return k.Refuse(ctx, "bob") },
			func() (*petrelv1.Contact, error) { return k.Withdraw(ctx, "bob") },
			func() (*petrelv1.Contact, error) { return k.Remove(ctx, "bob") },
			func() (*petrelv1.Contact, error) { return k.SetRemark(ctx, "bob", "Bobby") },
			func() (*petrelv1.Contact, error) { return k.AcceptMessages(ctx, "bob") },
			func() (*petrelv1.Contact, error) { return k.RefuseMessages(ctx, "bob") },
		} {
			end := start(act)
			ss, id := p.last()
			ss.fail(id, &petrelv1.Error{Code: CodeNoContact})
			expect(t, "code", CodeOf((<-end).err), CodeNoContact)
		}
		var got []string
		ids := map[string]bool{}
		for _, q := range p.asked {
			id, rest, _ := strings.Cut(q, "/")
			ids[id] = true
			got = append(got, rest)
		}
		want := []string{"RequestContact/bob//hi/", "RequestContact//bobby//", "AcceptContact/bob///", "RefuseContact/bob///",
			"WithdrawContact/bob///", "RemoveContact/bob///", "SetRemark/bob///Bobby",
			"AcceptMessages/bob///", "RefuseMessages/bob///"}
		if !reflect.DeepEqual(got, want) || len(ids) != len(want) || ids[""] {
			t.Errorf("calls: got %q with the request ids %v, want %q", got, ids, want)
		}
	})
}

// Spec: S-21.4, P-14.12.
func TestMessagesOfStrangersShowInTheirConversation(t *testing.T) {
	play(t, func(t *testing.T, s *fake) {
		s.conv("d1", "bob").add(text("bob", "hi"))
		p, c := withContacts(s), s.client(Options{})
		stop := run(c)
		synctest.Wait()
		first := func() string {
			v, _ := c.Conversation("d1")
			return v.Personal.FirstMessages
		}
		expect(t, "before", first(), "")
		p.set("bob", settingFirst, "1700000000000")
		expect(t, "they wait", first(), "waiting")
		expect(t, "bob is no contact", seen(c), "")
		p.mu.Lock()
		m := s.convs["d1"].add(text("bob", "@alice"))
		m.Rel = &petrelv1.Relations{Mentions: []string{"alice"}}
		p.sessions[len(p.sessions)-1].event(m)
		p.mu.Unlock()
		synctest.Wait()
		v, _ := c.Conversation("d1")
		expect(t, "mentions", len(v.Mentions), 0)
		end := start(func() (*petrelv1.Contact, error) { return c.Contacts().RefuseMessages(context.Background(), "bob") })
		p.give(end, &petrelv1.Contact{User: "bob", MessagesMs: 1700000000000, MessagesRefused: true})
		expect(t, "by the answer", first(), "refused")
		p.set("bob", settingFirst, "1700000000000 refused")
		expect(t, "refused", first(), "refused")
		end = start(func() (*petrelv1.Contact, error) { return c.Contacts().AcceptMessages(context.Background(), "bob") })
		p.give(end, &petrelv1.Contact{User: "bob"})
		expect(t, "accepted", first(), "")
		expect(t, "run", stop(), nil)
	})
}
