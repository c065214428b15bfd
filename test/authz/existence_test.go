package authz

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/api"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// naming says what each text in a request names. A new text of the schema needs a line
// here: the tests below try every text that names something, with a thing that exists and
// one that does not.
var naming = map[string]string{
	"conv": "conversation", "convs": "conversation",
	"user": "user", "users": "user",
	"tenant": "tenant",
	"token":  "token", "refresh_token": "token", // of the hello, of Exchange and of Refresh: they begin with a tenant

	// Things of the caller alone.
	"device": "own", "method": "own", "id": "own", "invitation": "own",

	// These name nothing.
	"title": "", "name": "", "display_name": "", "password": "", "old_password": "", "new_password": "", "request_id": "", "key": "", "value": "",
	"client_msg_id": "", "type": "", "text": "", "emoji": "", "client": "", "device_kind": "", "kind": "", "capabilities": "", "json": "", "after": "",
	"code": "", "needs": "", "secret": "", "digits": "", "about": "", "version": "", "greeting": "", "remark": "",

	"mentions": "user", "from": "user",

	// By a handle a user is found, and nobody gets one that is taken: TestAHiddenHandleFindsNobody.
	"handle": "handle",
}

// texts calls f for every text in m that is set or, of the schema alone, could be.
func texts(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool, f func(protoreflect.FieldDescriptor)) {
	if seen[d.FullName()] {
		return
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		switch fd := d.Fields().Get(i); {
		case fd.Kind() == protoreflect.StringKind:
			f(fd)
		case fd.Message() != nil:
			texts(fd.Message(), seen, f)
		}
	}
}

// ofUsers are the methods that need no admin key, with their requests.
func ofUsers(f func(name string, m protoreflect.MethodDescriptor)) {
	services(func(name string, m protoreflect.MethodDescriptor) {
		if kind, _ := api.Credential(name); kind != "key" {
			f(name, m)
		}
	})
}

// Nobody can add a text to a request and forget to say what it names.
func TestEveryTextOfARequestIsClassified(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	check := func(fd protoreflect.FieldDescriptor) {
		if _, ok := naming[string(fd.Name())]; !ok {
			t.Errorf("%s: say in naming what it names, so that the tests of existence try it", fd.FullName())
		}
	}
	ofUsers(func(_ string, m protoreflect.MethodDescriptor) { texts(m.Input(), seen, check) })
	texts((&petrelv1.ClientFrame{}).ProtoReflect().Descriptor(), seen, check)
}

// put sets the texts of a message that name a kind of things, and tells whether there are
// any.
func put(m protoreflect.Message, what, value string) bool {
	found := false
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		named := fd.Kind() == protoreflect.StringKind && naming[string(fd.Name())] == what
		switch {
		case named && fd.IsList():
			for i := range v.List().Len() {
				v.List().Set(i, protoreflect.ValueOfString(value))
			}
			found = true
		case named:
			m.Set(fd, protoreflect.ValueOfString(value))
			found = true
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				found = put(v.List().Get(i).Message(), what, value) || found
			}
		case fd.Message() != nil && !fd.IsMap():
			found = put(v.Message(), what, value) || found
		}
		return true
	})
	return found
}

// takes tells whether a request has a place for a kind of things.
func takes(d protoreflect.MessageDescriptor, what string) bool {
	found := false
	texts(d, map[protoreflect.FullName]bool{}, func(fd protoreflect.FieldDescriptor) { found = found || naming[string(fd.Name())] == what })
	return found
}

// prober asks as one user, by HTTP and by frames of one connection.
type prober struct {
	t          testing.TB
	srv        *imtest.Server
	credential string
	http       *http.Client
	conn       net.Conn
	in         *bufio.Reader
	id         uint64
}

func newProber(t testing.TB, srv *imtest.Server, credential string) *prober {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p := &prober{t: t, srv: srv, credential: credential, http: &http.Client{Timeout: eventually.Limit, Transport: transport}}
	if credential == "" {
		return p
	}
	var err error
	if p.conn, err = net.DialTimeout("tcp", strings.TrimPrefix(srv.URL(wire.TCP), "tcp://"), eventually.Limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.conn.Close() })
	p.in = bufio.NewReader(p.conn)
	hello := &petrelv1.Hello{VersionMin: 1, VersionMax: 1, Token: credential, Capabilities: []string{"edit", "cursor", "focus", "newest", "call", "rel", "notes", "mentions", "presence", "profiles"}}
	if got := p.frame(&petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Hello{Hello: hello}}); got.GetWelcome() == nil {
		t.Fatalf("hello: %v", got)
	}
	return p
}

// frame sends a frame and returns its answer.
func (p *prober) frame(f *petrelv1.ClientFrame) *petrelv1.ServerFrame {
	p.t.Helper()
	p.id++
	f.Id = p.id
	b, err := protojson.Marshal(f)
	if err == nil {
		err = p.conn.SetDeadline(eventually.Deadline())
	}
	if err == nil {
		_, err = p.conn.Write(append(b, '\n'))
	}
	for err == nil {
		var line []byte
		if line, err = p.in.ReadBytes('\n'); err != nil {
			break
		}
		var a petrelv1.ServerFrame
		if err = protojson.Unmarshal(line, &a); err == nil && a.Id == f.Id {
			a.Id = 0
			return &a
		}
	}
	p.t.Fatalf("no answer to %v: %v", f, err)
	return nil
}

// call calls a method by JSON and returns status and body.
func (p *prober) call(method string, m proto.Message) string {
	p.t.Helper()
	body, err := protojson.Marshal(m)
	if err != nil {
		p.t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.srv.BaseURL()+"/"+method, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if p.credential != "" {
		q.Header.Set("Authorization", "Bearer "+p.credential)
	}
	r, err := p.http.Do(q)
	if err != nil {
		p.t.Fatalf("call %s: %v", method, err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatalf("call %s: %v", method, err)
	}
	if strings.HasSuffix(method, "/ChangeSettings") && r.StatusCode == http.StatusOK {
		text = []byte("a seq of the own inbox") // which counts the calls
	}
	return fmt.Sprintf("%d %s %s", r.StatusCode, r.Header.Get("Retry-After"), text)
}

// question is one way to ask for a thing: a method or a frame.
type question struct {
	name string
	ask  func(p *prober, thing string) string // the answer, without what differs between two calls
}

// questions lists the ways to ask for a kind of things, made of the rows of the matrix.
// Every method and frame whose request has a place for the kind is in it.
func questions(t *testing.T, w *world, what string) []question {
	t.Helper()
	var list []question
	ofUsers(func(name string, m protoreflect.MethodDescriptor) {
		if !takes(m.Input(), what) {
			return
		}
		row, ok := methods[name]
		if !ok {
			t.Fatalf("method %s has no row in the matrix", name)
		}
		for i, request := range variants(row.request(w), what) {
			list = append(list, question{fmt.Sprintf("%s %d", name, i), func(p *prober, thing string) string {
				m := fresh(request)
				if !put(m.ProtoReflect(), what, thing) {
					t.Fatalf("%s: the row of the matrix names no %s", name, what)
				}
				return strings.ReplaceAll(p.call(name, m), thing, "THING")
			}})
		}
	})
	for name, row := range frames {
		for i, request := range variants(row.request(w), what) {
			if !put(proto.Clone(request).ProtoReflect(), what, "x") || strings.HasPrefix(name, "hello") {
				continue
			}
			list = append(list, question{fmt.Sprintf("frame %s %d", name, i), func(p *prober, thing string) string {
				m := fresh(request).(*petrelv1.ClientFrame)
				put(m.ProtoReflect(), what, thing)
				return strings.ReplaceAll(protojson.Format(p.frame(m)), thing, "THING")
			}})
		}
	}
	slices.SortFunc(list, func(a, b question) int { return strings.Compare(a.name, b.name) })
	return list
}

// fresh is a copy of a request that repeats no earlier one.
func fresh(m proto.Message) proto.Message {
	m = proto.Clone(m)
	switch x := m.(type) {
	case *petrelv1.Send:
		x.ClientMsgId = fmt.Sprintf("x%d", worlds.Add(1))
	case *petrelv1.ClientFrame:
		if x.GetSend() != nil {
			x.GetSend().ClientMsgId = fmt.Sprintf("x%d", worlds.Add(1))
		}
	}
	return m
}

// variants are requests like m that could be answered in other ways: with each place
// that could be at, below and above a head, and with a place for the kind of things where
// the row of the matrix uses another one.
func variants(m proto.Message, what string) []proto.Message {
	switch x := m.(type) {
	case *petrelv1.Send:
		var list []proto.Message
		for _, after := range []*uint64{nil, new(uint64), proto.Uint64(1), proto.Uint64(3), proto.Uint64(1 << 40)} {
			c := proto.CloneOf(x)
			c.After = after
			if what == "user" {
				c.Conv, c.User = "", "x"
			}
			list = append(list, c)
		}
		return list
	case *petrelv1.GetHistory:
		return []proto.Message{
			x, &petrelv1.GetHistory{Conv: x.Conv, Before: 1 << 40}, &petrelv1.GetHistory{Conv: x.Conv, Around: 1 << 40}, &petrelv1.GetHistory{Conv: x.Conv, AtMs: 1 << 50},
		}
	case *petrelv1.MoveCursor:
		return []proto.Message{x, &petrelv1.MoveCursor{Conv: x.Conv, Read: 1 << 40}, &petrelv1.MoveCursor{Conv: x.Conv, Delivered: 1 << 40}}
	case *petrelv1.ReportRequest:
		if what == "user" {
			return []proto.Message{&petrelv1.ReportRequest{User: "x", Reason: x.Reason}}
		}
	case *petrelv1.ClientFrame:
		if x.GetSend() == nil {
			break
		}
		var list []proto.Message
		for _, s := range variants(x.GetSend(), what) {
			list = append(list, sendFrame(s.(*petrelv1.Send)))
		}
		return list
	case *petrelv1.ChangeSettingsRequest:
		c := proto.CloneOf(x)
		if what == "user" {
			c.Conv, c.User = "", "x"
		} else if c.Conv == "" {
			c.Conv = "x"
		}
		return []proto.Message{c}
	case *petrelv1.CreateGroupRequest:
		c := proto.CloneOf(x)
		if len(c.Users) == 0 {
			c.Users = []string{"x"}
		}
		return []proto.Message{c}
	case *petrelv1.RegisterRequest:
		c := proto.CloneOf(x)
		c.Tenant = "x"
		return []proto.Message{c}
	case *petrelv1.LoginRequest:
		c := proto.CloneOf(x)
		c.Tenant = "x"
		return []proto.Message{c}
	case *petrelv1.ExchangeRequest:
		c := proto.CloneOf(x)
		c.Tenant = "x"
		return []proto.Message{c}
	}
	return []proto.Message{m}
}

// pair is a conversation that exists, and an id of the same kind that is none.
type pair struct{ what, exists, none string }

// secrets are conversations of which an outsider may not know.
func (w *world) secrets() []pair {
	w.t.Helper()
	send := &petrelv1.Send{User: w.name("member"), ClientMsgId: "secret", Body: &petrelv1.Send_Text{Text: "between us"}}
	direct, err := w.srv.Admin.SendAs(w.t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{From: w.name("owner"), Send: send}))
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := w.srv.Admin.CreateGroup(w.t.Context(), connect.NewRequest(&petrelv1.AdminCreateGroupRequest{Members: []*petrelv1.MemberRef{{User: w.name("owner")}}}))
	if err == nil {
		_, err = w.srv.Admin.DissolveGroup(w.t.Context(), connect.NewRequest(&petrelv1.AdminDissolveGroupRequest{Conv: made.Msg.Conv}))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	inbox := w.srv.Dial(wire.TCP, wire.JSON, w.mint("", "member"), "").Welcome.Inbox
	return []pair{
		{"a group", w.conv, "gAAAAAAAAAAAAAAAAAAAA"},
		{"a direct conversation", direct.Msg.Conv, "dAAAAAAAAAAAAAAAAAAAA"},
		{"an inbox", inbox, "iAAAAAAAAAAAAAAAAAAAA"},
		{"a dissolved group", made.Msg.Conv, "gAAAAAAAAAAAAAAAAAAAB"},
	}
}

// An outsider is answered the same about a conversation that exists as about one that
// does not: by every method and by every frame, word for word. Spec: P-8.9.
func TestNoAnswerTellsThatAConversationExists(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	w := newWorld(t, srv, "owner")
	secrets := w.secrets()
	w.suffix += "x"                  // outsiders are none of the world's
	srv.Users("", w.name("member2")) // to whom they forward
	srv.Users("acme", w.name("member2"))
	for _, p := range []*prober{newProber(t, srv, w.mint("", "outsider")), newProber(t, srv, w.mint("acme", "outsider"))} {
		n := 0
		for _, q := range questions(t, w, "conversation") {
			for _, s := range secrets {
				n++
				if there, none := q.ask(p, s.exists), q.ask(p, s.none); there != none {
					t.Errorf("%s: an outsider is told of %s:\n%s\nand of none:\n%s", q.name, s.what, there, none)
				}
			}
		}
		t.Logf("%d questions about a conversation that exists and one that does not", n)
	}
}

// noUserFrom are the questions that tell whether a user exists: the exception of P-8.9. GetUsers
// has the names in unknown.
var noUserFrom = []string{account + "GetUser", account + "GetUsers", contact + "RequestContact", account + "Report", convs + "AddMembers", convs + "CreateGroup", message + "Send", "frame send"}

// No other call tells any caller whether a user exists.
func TestOnlyTheExceptionTellsThatAUserExists(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	for _, caller := range []string{"owner", "other"} {
		w := newWorld(t, srv, caller)
		p := newProber(t, srv, w.credential)
		for i, q := range questions(t, w, "user") {
			if strings.HasPrefix(q.name, auth) {
				continue // TestNoAnswerTellsThatATenantExists, and the tests of logins
			}
			known := w.name(fmt.Sprint("known", i)) // a new one: the earlier questions have begun conversations
			srv.Users("", known)
			there, none := q.ask(p, known), q.ask(p, w.name(fmt.Sprint("nobody", i)))
			excepted := slices.ContainsFunc(noUserFrom, func(name string) bool { return strings.HasPrefix(q.name, name) })
			if there != none && !(excepted && (strings.Contains(none, "no_user") || strings.Contains(none, `"unknown":["THING"]`))) {
				t.Errorf("%s by %s, with a user who exists:\n%s\nwith nobody:\n%s", q.name, caller, there, none)
			}
		}
	}
}

// The tries of one user at names are counted over all methods and frames together, and
// without a try left nothing is looked up. Requests that need no look-up are answered as
// before. Spec: P-8.9.
func TestTriesAtNamesAreCountedTogether(t *testing.T) {
	const tries = 6
	srv := imtest.Start(t, imtest.Options{Config: map[string]string{"accounts.look_ups_per_min": fmt.Sprint(tries)}})
	asks := map[string]func(p *prober, w *world, name string) string{
		"GetUser": func(p *prober, _ *world, name string) string {
			return p.call(account+"GetUser", &petrelv1.GetUserRequest{User: name})
		},
		"GetUsers": func(p *prober, w *world, name string) string {
			return p.call(account+"GetUsers", &petrelv1.GetUsersRequest{Users: []*petrelv1.UserVersion{{User: name}}, Conv: w.conv})
		},
		"RequestContact": func(p *prober, _ *world, name string) string {
			return p.call(contact+"RequestContact", &petrelv1.RequestContactRequest{User: name})
		},
		"AddMembers": func(p *prober, w *world, name string) string {
			return p.call(convs+"AddMembers", &petrelv1.AddMembersRequest{Conv: w.conv, Users: []string{name}})
		},
		"CreateGroup": func(p *prober, _ *world, name string) string {
			return p.call(convs+"CreateGroup", &petrelv1.CreateGroupRequest{Title: "x", Users: []string{name}})
		},
		"Send": func(p *prober, w *world, name string) string {
			s := w.send()
			s.Conv, s.User = "", name
			return p.call(message+"Send", s)
		},
		"a frame": func(p *prober, w *world, name string) string {
			s := w.send()
			s.Conv, s.User = "", name
			return protojson.Format(p.frame(sendFrame(s)))
		},
	}
	for first := range asks {
		w := newWorld(t, srv, "owner")
		p := newProber(t, srv, w.credential)
		for i := range tries {
			if got := asks[first](p, w, w.name(fmt.Sprint("nobody", i))); !strings.Contains(got, "no_user") && !strings.Contains(got, "unknown") {
				t.Errorf("try %d by %s: %s", i, first, got)
			}
		}
		for then, ask := range asks {
			for _, name := range []string{w.name("other2"), w.name("nobody")} {
				if got := ask(p, w, name); !strings.Contains(got, "rate_limited") {
					t.Errorf("%s of %s after %d tries by %s: %s", then, name, tries, first, got)
				}
			}
		}
		if got := p.frame(sendFrame(w.send())); got.GetAck() == nil {
			t.Errorf("a send to a group without a try left: %v", got)
		}
	}
	// One call with many names costs as many tries.
	w := newWorld(t, srv, "owner")
	p := newProber(t, srv, w.credential)
	many := &petrelv1.CreateGroupRequest{Title: "x", Users: []string{w.name("member2"), w.name("other2"), w.name("admin"), w.name("member"), w.name("left"), w.name("nobody")}}
	if got := p.call(convs+"CreateGroup", many); !strings.Contains(got, "no_user") {
		t.Errorf("six names at once: %s", got)
	}
	if got := asks["GetUser"](p, w, w.name("other2")); !strings.Contains(got, "rate_limited") {
		t.Errorf("GetUser after six names at once: %s", got)
	}
}
