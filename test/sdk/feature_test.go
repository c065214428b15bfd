package sdk

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// send sends d and waits until it is stored.
func (d *device) send(x petrel.Draft) (conv string, seq uint64) {
	d.t.Helper()
	o, err := d.Send(x)
	if err != nil {
		d.t.Fatal(err)
	}
	if seq, err = o.Wait(eventually.Context(d.t)); err != nil {
		d.t.Fatalf("send %+v: %v", x, err)
	}
	_, conv, _, _ = o.State()
	return conv, seq
}

// users starts a server and a client for each user.
func users(t *testing.T, o petrel.Options, names ...string) (*imtest.Server, []*device) {
	t.Helper()
	s := imtest.Start(t, imtest.Options{})
	var out []*device
	for _, token := range s.Users("", names...) {
		o := o
		o.URL, o.Token = s.URL(wire.WebSocket), petrel.StaticToken(token)
		out = append(out, run(t, o).synced())
	}
	return s, out
}

func (d *device) message(conv string, seq uint64) petrel.Message {
	d.t.Helper()
	ms := d.Messages(conv, seq-1, 1)
	if len(ms) == 0 || ms[0].Seq != seq {
		return petrel.Message{Message: &petrelv1.Message{}}
	}
	return ms[0]
}

func TestTicksAndUnreadFollowThePerson(t *testing.T) {
	s, ds := users(t, petrel.Options{}, "alice", "bob")
	alice, bob := ds[0], ds[1]
	conv, _ := alice.send(petrel.Draft{User: "bob", Text: "1"})
	_, seq := alice.send(petrel.Draft{User: "bob", Text: "2"})
	bob.until("the first message", func() bool { v, _ := bob.Conversation(conv); return v.Head == seq })
	bob.MarkRead(conv, seq-1) // before that, a stranger is told nothing of him
	alice.until("the tick delivered", func() bool {
		m := alice.message(conv, seq)
		return m.Delivered == 1 && m.Read == 0
	})
	tablet := run(t, petrel.Options{URL: s.URL(wire.TCP), Token: petrel.StaticToken(s.Users("", "bob")[0])}).synced()
	for _, d := range []*device{bob, tablet} {
		d.until("one unread", func() bool { v, _ := d.Conversation(conv); return v.Unread == 1 })
	}
	bob.MarkRead(conv, seq)
	alice.until("the tick read", func() bool { return alice.message(conv, seq).Read == 1 })
	tablet.until("none unread on the other device", func() bool { v, _ := tablet.Conversation(conv); return v.Unread == 0 && v.Read == seq })

	again := run(t, petrel.Options{URL: s.URL(wire.TCP), JSON: true, Token: petrel.StaticToken(s.Users("", "alice")[0])}).synced()
	again.until("the tick read on a new device", func() bool { return again.message(conv, seq).Read == 1 })
}

func TestTypingCallsAndPresenceComeToTheOthers(t *testing.T) {
	_, ds := users(t, petrel.Options{}, "alice", "bob")
	alice, bob := ds[0], ds[1]
	conv, _ := alice.send(petrel.Draft{User: "bob", Text: "hi"})
	bob.until("the conversation", func() bool { v, _ := bob.Conversation(conv); return v.Known && v.Head == 1 }) // so it is in bob's list
	alice.Typing(conv)
	bob.until("alice types", func() bool { v, _ := bob.Conversation(conv); return fmt.Sprint(v.Typing) == "[alice]" })
	alice.send(petrel.Draft{Conv: conv, Text: "there"})
	bob.until("alice has sent it", func() bool { v, _ := bob.Conversation(conv); return v.Head == 2 && len(v.Typing) == 0 })
	if err := alice.Signal(eventually.Context(t), &petrelv1.SendSignal{User: "bob", Kind: "call", Data: []byte("x"), HoldMs: 30000}); err != nil {
		t.Fatal(err)
	}
	bob.until("the call", func() bool { s := bob.Signals(); return len(s) == 1 && s[0].Kind == "call" && string(s[0].Data) == "x" })
	if err := alice.Signal(eventually.Context(t), &petrelv1.SendSignal{Kind: "call"}); petrel.CodeOf(err) != petrel.CodeInvalid {
		t.Errorf("a signal to nobody: got %v, want invalid", err)
	}
	bob.Watch("", "alice", "nobody")
	bob.until("alice is online, and nobody is not", func() bool {
		a, _ := bob.Presence("alice")
		n, known := bob.Presence("nobody")
		return a.Online && known && !n.Online
	})
}

func TestGroupLivesThroughTheClient(t *testing.T) {
	t.Parallel()
	_, ds := users(t, petrel.Options{}, "alice", "bob", "carol")
	alice, bob, carol := ds[0], ds[1], ds[2]
	ctx := eventually.Context(t)
	conv, err := alice.CreateGroup(ctx, "boat", "bob")
	if err != nil {
		t.Fatal(err)
	}
	alice.send(petrel.Draft{Conv: conv, Text: "before carol"})
	if err := alice.AddMembers(ctx, conv, "carol"); err != nil {
		t.Fatal(err)
	}
	_, seq := bob.send(petrel.Draft{Conv: conv, Text: "hi"})
	carol.until("carol sees what came since she is there", func() bool {
		v, _ := carol.Conversation(conv)
		return fmt.Sprint(carol.texts(conv)) == "[hi]" && v.Title == "boat" && v.Unread == 1
	})
	if err := alice.RenameGroup(ctx, conv, "ship"); err != nil {
		t.Fatal(err)
	}
	carol.until("the new title", func() bool { v, _ := carol.Conversation(conv); return v.Title == "ship" })
	if err := bob.RenameGroup(ctx, conv, "wreck"); petrel.CodeOf(err) != petrel.CodeForbidden {
		t.Errorf("a member renames: got %v, want forbidden", err)
	}
	if ms, err := carol.Members(ctx, conv); err != nil || len(ms) != 3 || ms[0].Role != petrelv1.Role_ROLE_OWNER {
		t.Errorf("members: got %v, %v", ms, err)
	}
	carol.MarkRead(conv, seq)
	bob.until("carol's receipt", func() bool { return bob.message(conv, seq).Read == 1 })

	if err := bob.React(ctx, conv, seq, "👍", false); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.EditText(conv, seq, "hello"); err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		d.until("the edit and the reaction", func() bool {
			m := d.message(conv, seq)
			return m.GetText() == "hello" && fmt.Sprint(m.Reactions) == fmt.Sprintf("[{👍 1 %v}]", d == bob)
		})
	}
	if _, err := alice.Recall(conv, seq); err != nil {
		t.Fatal(err)
	}
	carol.until("the recall", func() bool { return carol.message(conv, seq).RecalledBy != 0 })

	if err := alice.RemoveMembers(ctx, conv, "carol"); err != nil {
		t.Fatal(err)
	}
	carol.until("carol is out", func() bool { v, _ := carol.Conversation(conv); return v.Left })
	o, err := carol.Send(petrel.Draft{Conv: conv, Text: "let me in"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx); petrel.CodeOf(err) != petrel.CodeNotMember {
		t.Errorf("a send by who is out: got %v, want not_member", err)
	}
}

func TestFocusTurnsTheRestIntoHints(t *testing.T) {
	_, ds := users(t, petrel.Options{}, "alice", "bob")
	alice, bob := ds[0], ds[1]
	ctx := eventually.Context(t)
	var convs []string
	for i := range 3 {
		conv, err := alice.CreateGroup(ctx, fmt.Sprint(i), "bob")
		if err != nil {
			t.Fatal(err)
		}
		convs = append(convs, conv)
	}
	bob.until("the groups", func() bool { return len(bob.Conversations()) == 3 })
	bob.Focus(convs[0])
	bob.until("live", func() bool { return bob.Status().State == petrel.Live })
	// A call is answered behind the focus.
	if _, err := bob.Devices(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		for _, conv := range convs {
			alice.send(petrel.Draft{Conv: conv, Text: fmt.Sprint(i)})
		}
	}
	bob.until("the focused one whole, the others by hint", func() bool {
		v, _ := bob.Conversation(convs[1])
		return len(bob.texts(convs[0])) == 10 && v.Unread == 10 && v.Have < v.Head
	})
	bob.Focus(convs[1])
	bob.until("the other one whole", func() bool { return len(bob.texts(convs[1])) == 10 })
	bob.FocusAll()
	bob.until("all", func() bool { return len(bob.texts(convs[2])) == 10 })
}

// TestLoginRefreshAndReplacement: P-11.3, P-11.4.
func TestLoginRefreshAndReplacement(t *testing.T) {
	t.Parallel()
	s := imtest.Start(t, imtest.Options{Config: map[string]string{"accounts.access_ttl": "1m"}}) // so it is always about to end
	ctx := eventually.Context(t)
	auth := petrel.Auth{URL: s.URL(wire.WebSocket), HTTP: s.HTTP()}
	tokens, err := auth.Register(ctx, &petrelv1.RegisterRequest{
		User: "alice", Password: "correct horse battery", Device: &petrelv1.DeviceRef{Id: "d1", Kind: "desktop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Login(ctx, &petrelv1.LoginRequest{User: "alice", Password: "wrong", Device: &petrelv1.DeviceRef{Id: "d1"}}); petrel.CodeOf(err) != "bad_credentials" {
		t.Errorf("login with a wrong password: got %v", err)
	}
	path := filepath.Join(t.TempDir(), "login")
	file, err := petrel.SaveTokens(path, auth, tokens)
	if err != nil {
		t.Fatal(err)
	}
	c, err := petrel.New(petrel.Options{URL: s.URL(wire.TCP), Token: file.Token, Device: tokens.Device, DeviceKind: "desktop"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	d := &device{Client: c, t: t}
	d.synced()
	reopened, err := petrel.OpenTokens(path, auth)
	if err != nil || reopened.Tokens().Access == tokens.Access {
		t.Errorf("tokens after a refresh: got the old ones, %v", err)
	}
	if got, err := d.Devices(ctx); err != nil || len(got) != 1 || !got[0].Current || got[0].Id != "d1" {
		t.Errorf("devices: got %v, %v", got, err)
	}
	api := petrel.NewAPI(s.BaseURL(), s.HTTP(), file.Token)
	if a, err := api.Account.GetAccount(ctx, connect.NewRequest(&petrelv1.GetAccountRequest{})); err != nil || a.Msg.User != "alice" {
		t.Errorf("account over HTTP: got %v, %v", a, err)
	}

	// Another desktop logs in: the first ends, and does not come back.
	if _, err := auth.Login(ctx, &petrelv1.LoginRequest{
		User: "alice", Password: "correct horse battery", Device: &petrelv1.DeviceRef{Id: "d2", Kind: "desktop"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := eventually.Receive(t, "the end of the client after another login", ended); petrel.CodeOf(err) != petrel.CodeReplaced {
		t.Errorf("run after another login: got %v, want replaced", err)
	}
	if err := c.Run(ctx); petrel.CodeOf(err) == "" {
		t.Errorf("run again: got %v, want a refusal", err)
	}
}

func TestRevokedDeviceEnds(t *testing.T) {
	s := imtest.Start(t, imtest.Options{})
	ctx := eventually.Context(t)
	auth := petrel.Auth{URL: s.BaseURL(), HTTP: http.DefaultClient}
	var clients []*petrel.Client
	var ended []chan error
	for i, kind := range []string{"phone", "desktop"} {
		var tokens petrel.Tokens
		var err error
		ref := &petrelv1.DeviceRef{Id: kind, Kind: kind}
		if i == 0 {
			tokens, err = auth.Register(ctx, &petrelv1.RegisterRequest{User: "alice", Password: "correct horse battery", Device: ref})
		} else {
			tokens, err = auth.Login(ctx, &petrelv1.LoginRequest{User: "alice", Password: "correct horse battery", Device: ref})
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := petrel.New(petrel.Options{URL: s.URL(wire.WebSocket), Token: petrel.StaticToken(tokens.Access), Device: kind, DeviceKind: kind})
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		runCtx, stop := context.WithCancel(ctx)
		defer stop()
		go func() { end <- c.Run(runCtx) }()
		(&device{Client: c, t: t}).synced()
		clients, ended = append(clients, c), append(ended, end)
		if i == 1 {
			if err := clients[1].RevokeDevice(ctx, "phone"); err != nil {
				t.Fatal(err)
			}
			if err := clients[1].RevokeDevice(ctx, "toaster"); petrel.CodeOf(err) != "no_device" {
				t.Errorf("revoke of no device: got %v", err)
			}
			if err := eventually.Receive(t, "the end of a revoked device", ended[0]); petrel.CodeOf(err) != petrel.CodeRevoked {
				t.Errorf("run of a revoked device: got %v", err)
			}
			stop()
			if err := <-ended[1]; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestOfflineEditsAndRecallsAreSeenOnReturn(t *testing.T) {
	s, ds := users(t, petrel.Options{}, "alice", "bob")
	alice, bob := ds[0], ds[1]
	path := filepath.Join(t.TempDir(), "store")
	token := s.Users("", "bob")[0]
	start := func() (*device, *petrel.Store) {
		store, err := petrel.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return run(t, petrel.Options{URL: s.URL(wire.TCP), Token: petrel.StaticToken(token), Store: store}), store
	}
	conv, one := alice.send(petrel.Draft{User: "bob", Text: "one"})
	_, two := alice.send(petrel.Draft{User: "bob", Text: "two"})
	d, store := start()
	d.until("both", func() bool { return fmt.Sprint(d.texts(conv)) == "[one two]" })
	d.stop()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	alice.send(petrel.Draft{Conv: conv, Edit: &petrelv1.Edit{Target: one, Body: &petrelv1.Edit_Text{Text: "ONE"}}})
	alice.send(petrel.Draft{Conv: conv, Edit: &petrelv1.Edit{Target: one, Body: &petrelv1.Edit_Text{Text: "One"}}})
	alice.send(petrel.Draft{Conv: conv, Recall: &petrelv1.Recall{Target: two}})
	d, store = start()
	for _, x := range []*device{d, bob, alice} {
		x.until("the edit and the recall", func() bool {
			return x.message(conv, one).GetText() == "One" && x.message(conv, two).Body == nil && x.message(conv, two).RecalledBy != 0
		})
	}
	d.stop()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
