// Package requests measures what one request of a user costs the server, for each of them, at
// the largest sizes that a user may ask for.
package requests

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	connectrpc "connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestMain(m *testing.M) {
	imtest.ServeChild()
	m.Run()
}

// request is one of a user: the frame of a long connection, or the method of the API.
type request struct {
	name  string
	make  func(w *town, turn int) proto.Message // turn counts the times that it is asked
	odd   string                                // the method in odd turns, if it is another one: it undoes the former turn
	paced bool                                  // the server lets one user or session do it a few times in a second: admins of the large group take turns
}

const (
	accounts      = "petrel.v1.AccountService/"
	conversations = "petrel.v1.ConversationService/"
	texts         = "petrel.v1.MessageService/"
)

func fixed(m proto.Message) func(*town, int) proto.Message {
	return func(*town, int) proto.Message { return m }
}

func (w *town) conv() string { return w.crowd.Conv.String() }

// other is a member of the large group, another one in each turn.
func other(turn int) string { return string(userName(1 + turn*37%(members-1))) }

// newID is a new id of a message or a request.
func newID() string { return rand.Text() }

// frames are the requests that a long connection has.
var frames = []request{
	{name: "send to 10,000", make: func(w *town, turn int) proto.Message {
		return &petrelv1.Send{Conv: w.conv(), ClientMsgId: newID(), Body: &petrelv1.Send_Text{Text: "hello"}}
	}},
	{name: "send mention of all 10,000", make: func(w *town, turn int) proto.Message {
		return &petrelv1.Send{Conv: w.conv(), ClientMsgId: newID(), Body: &petrelv1.Send_Text{Text: "hello"}, Rel: &petrelv1.Relations{MentionAll: true}}
	}},
	{name: "send mention of 50", make: func(w *town, turn int) proto.Message {
		return &petrelv1.Send{Conv: w.conv(), ClientMsgId: newID(), Body: &petrelv1.Send_Text{Text: "hello"}, Rel: &petrelv1.Relations{Mentions: named(1000, 50)}}
	}},
	{name: "send edit to 10,000", make: func(w *town, turn int) proto.Message {
		return &petrelv1.Send{Conv: w.conv(), ClientMsgId: newID(), Body: &petrelv1.Send_Edit{Edit: &petrelv1.Edit{Target: 1 + members/atOnce, Body: &petrelv1.Edit_Text{Text: fmt.Sprint("edit ", turn)}}}}
	}},
	{name: "send to one", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.Send{User: other(1), ClientMsgId: newID(), Body: &petrelv1.Send_Text{Text: "hello"}}
	}},
	{name: "history of 200", make: func(w *town, turn int) proto.Message {
		return &petrelv1.GetHistory{Conv: w.conv(), After: uint64(turn * 7919 % (messages - conv.MaxPage)), Limit: conv.MaxPage}
	}},
	{name: "history of 200 around a time", make: func(w *town, turn int) proto.Message {
		at := w.start.Add(time.Duration(turn*7919%messages) * step)
		return &petrelv1.GetHistory{Conv: w.conv(), AtMs: uint64(at.UnixMilli()), Limit: conv.MaxPage}
	}},
	{name: "sync of all", make: fixed(&petrelv1.Sync{})},
	{name: "sync with newest of 200", make: fixed(&petrelv1.Sync{Newest: conv.MaxPage})},
	{name: "cursor", make: func(w *town, turn int) proto.Message {
		return &petrelv1.MoveCursor{Conv: w.small[turn%groups].Conv.String(), Read: uint64(2 + turn/groups)}
	}},
	{name: "focus of 1,000", make: func(w *town, _ int) proto.Message {
		f := &petrelv1.SetFocus{}
		for _, key := range w.small {
			f.Convs = append(f.Convs, key.Conv.String())
		}
		return f
	}},
	{name: "watch of 200", paced: true, make: func(w *town, turn int) proto.Message {
		return &petrelv1.SetWatch{Users: named(1+turn%5*200, 200), Conv: w.conv()}
	}},
	{name: "signal to 10,000", paced: true, make: func(w *town, _ int) proto.Message {
		return &petrelv1.SendSignal{Conv: w.conv(), Kind: "typing"}
	}},
}

// several are methods that name 1,000 users. limits.members_per_min counts each of them.
var several = []request{
	{name: conversations + "CreateGroup", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.CreateGroupRequest{Title: "new", Users: named(1, atOnce), RequestId: newID()}
	}},
	{name: conversations + "RemoveMembers", odd: conversations + "AddMembers", make: func(w *town, turn int) proto.Message {
		return change(w, turn, named(members-atOnce, atOnce))
	}},
}

// named are n users.
func named(from, n int) []string {
	var all []string
	for i := range n {
		all = append(all, string(userName(from+i)))
	}
	return all
}

// change removes users from the large group, and adds them again in odd turns.
func change(w *town, turn int, users []string) proto.Message {
	if turn%2 == 0 {
		return &petrelv1.RemoveMembersRequest{Conv: w.conv(), Users: users, RequestId: newID()}
	}
	return &petrelv1.AddMembersRequest{Conv: w.conv(), Users: users, RequestId: newID()}
}

// methods are the others.
var methods = []request{
	{name: accounts + "GetAccount", make: fixed(&petrelv1.GetAccountRequest{})},
	{name: accounts + "UpdateAccount", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.UpdateAccountRequest{DisplayName: new(fmt.Sprint("Anna ", turn)), RequestId: newID()}
	}},
	{name: accounts + "SetAddPolicy", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.SetAddPolicyRequest{Policy: petrelv1.AddPolicy(1 + turn%2), RequestId: newID()}
	}},
	{name: accounts + "SetForwardPolicy", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.SetForwardPolicyRequest{Policy: petrelv1.ForwardPolicy(1 + turn%2), RequestId: newID()}
	}},
	{name: accounts + "SetPresencePolicy", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.SetPresencePolicyRequest{Policy: petrelv1.PresencePolicy(1 + turn%2), RequestId: newID()}
	}},
	{name: accounts + "SetFirstMessages", make: func(*town, int) proto.Message {
		return &petrelv1.SetFirstMessagesRequest{RequestId: newID()}
	}},
	{name: accounts + "SetPrivateReading", make: func(_ *town, turn int) proto.Message {
		return &petrelv1.SetPrivateReadingRequest{Private: turn%2 == 0, RequestId: newID()}
	}},
	{name: accounts + "ListDevices", make: fixed(&petrelv1.ListDevicesRequest{})},
	{name: accounts + "GetUser", make: func(_ *town, turn int) proto.Message { return &petrelv1.GetUserRequest{User: other(turn)} }},
	{name: accounts + "GetUsers", make: func(w *town, turn int) proto.Message {
		q := &petrelv1.GetUsersRequest{Conv: w.conv()}
		for _, u := range named(1+turn%90*100, user.MaxProfiles) {
			q.Users = append(q.Users, &petrelv1.UserVersion{User: u})
		}
		return q
	}},
	{name: accounts + "GetSettings", make: fixed(&petrelv1.GetSettingsRequest{})},
	{name: accounts + "ChangeSettings", make: func(w *town, turn int) proto.Message {
		return &petrelv1.ChangeSettingsRequest{Conv: w.small[turn%groups].Conv.String(), Values: map[string]string{"draft": fmt.Sprint(turn)}, RequestId: newID()}
	}},
	{name: conversations + "RenameGroup", make: func(w *town, turn int) proto.Message {
		return &petrelv1.RenameGroupRequest{Conv: w.conv(), Title: fmt.Sprint("The crowd ", turn%2), RequestId: newID()}
	}},
	{name: conversations + "RemoveMembers", odd: conversations + "AddMembers", make: func(w *town, turn int) proto.Message {
		return change(w, turn, named(members-1, 1))
	}},
	{name: conversations + "SetRole", make: func(w *town, turn int) proto.Message {
		return &petrelv1.SetRoleRequest{Conv: w.conv(), User: string(userName(members / 2)), Role: petrelv1.Role(2 - turn%2), RequestId: newID()}
	}},
	{name: conversations + "GetConversation", make: func(w *town, _ int) proto.Message { return &petrelv1.GetConversationRequest{Conv: w.conv()} }},
	{name: conversations + "ListMembers", make: func(w *town, _ int) proto.Message {
		return &petrelv1.ListMembersRequest{Conv: w.conv(), After: string(userName(4000)), Profiles: true}
	}},
	{name: texts + "ListReceipts", make: func(w *town, _ int) proto.Message {
		return &petrelv1.ListReceiptsRequest{Conv: w.conv(), After: string(userName(4000))}
	}},
	{name: texts + "React", paced: true, make: func(w *town, turn int) proto.Message {
		return &petrelv1.ReactRequest{Conv: w.conv(), Seq: messages, Emoji: fmt.Sprint(turn % 2), Removed: turn/admins%2 == 1}
	}},
	{name: texts + "Pin", paced: true, make: func(w *town, turn int) proto.Message {
		return &petrelv1.PinRequest{Conv: w.conv(), Seq: messages, Removed: turn%2 == 0}
	}},
	{name: texts + "ListReactions", make: func(w *town, _ int) proto.Message {
		return &petrelv1.ListReactionsRequest{Conv: w.conv(), Seq: messages}
	}},
	{name: texts + "ListPins", make: func(w *town, _ int) proto.Message { return &petrelv1.ListPinsRequest{Conv: w.conv()} }},
}

// elsewhere are the methods of a user that are not measured.
var elsewhere = map[string]string{
	accounts + "ChangePassword":         "hashes a password, which is to be slow",
	accounts + "RenameDevice":           "a write of one record, as UpdateAccount",
	accounts + "RevokeDevice":           "ends the login that asks",
	accounts + "Logout":                 "the same",
	accounts + "DeleteAccount":          "once in the life of an account; a check of the password, as Login",
	accounts + "Report":                 "20 in a day: a page of at most 21 messages, as GetHistory, and a write of a few records",
	conversations + "LeaveGroup":        "ends what is measured; a change of one member, as SetRole",
	conversations + "TransferOwnership": "a change of two members, as SetRole",
	conversations + "DissolveGroup":     "once in the life of a group",
	texts + "Send":                      "a frame",
	texts + "GetHistory":                "a frame",
	texts + "Sync":                      "a frame",
	texts + "MoveCursor":                "a frame",
}

func TestEveryMethodOfAUserIsMeasured(t *testing.T) {
	var want, got []string
	for name := range imtest.Methods() {
		if strings.HasPrefix(name, accounts) || strings.HasPrefix(name, conversations) || strings.HasPrefix(name, texts) {
			want = append(want, name)
		}
	}
	for _, r := range slices.Concat(methods, several) {
		got = append(got, r.name)
		if r.odd != "" {
			got = append(got, r.odd)
		}
	}
	got = slices.AppendSeq(got, maps.Keys(elsewhere))
	slices.Sort(want)
	slices.Sort(got)
	got = slices.Compact(got)
	if !slices.Equal(got, want) {
		t.Errorf("measured or explained: %q, methods of a user: %q", got, want)
	}
}

// BenchmarkRequests measures the CPU of the server's process for one request, in JSON, with
// the server's own work of that time. Nobody else is online: BenchmarkDeliver measures
// the cost of a message for each session that gets it.
func BenchmarkRequests(b *testing.B) {
	w := &town{}
	srv := imtest.Start(b, imtest.Options{Process: true, Config: map[string]string{"log.level": "error"}})
	begun := time.Now()
	srv.RestartOn(func(dir string) { w.fill(b, dir) })
	tokens := srv.Users("", named(0, 1+admins)...)
	c := connect(b, srv, tokens[0])
	awaitRest(b, srv)
	b.Logf("filled after %s", time.Since(begun).Round(time.Second))
	for _, r := range frames {
		turn, from := 0, []*wiretest.Conn{c}
		if r.paced {
			from = connectAll(b, srv, tokens[1:])
		}
		measure(b, srv, r.name, &turn, func() error { return ask(b.Context(), from[turn%len(from)], frameOf(r.make(w, turn))) })
		if r.paced {
			for _, c := range from {
				_ = c.Close() // it has done its part
			}
		}
	}
	for _, r := range methods {
		w.call(b, srv, r, "", c, tokens)
	}
	for _, r := range several {
		w.call(b, srv, r, " of 1,000", c, tokens)
	}
}

// call measures a method, over the long connection and over HTTP. The first of tokens is the owner's.
func (w *town) call(b *testing.B, srv *imtest.Server, r request, size string, c *wiretest.Conn, tokens []string) {
	_, name, _ := strings.Cut(r.name, "/")
	if r.odd != "" {
		_, odd, _ := strings.Cut(r.odd, "/")
		name += ", " + odd
	}
	turn := 0 // of both ways, since an odd turn undoes the one before
	method := func() string {
		if turn%2 == 1 && r.odd != "" {
			return r.odd
		}
		return r.name
	}
	if !r.paced {
		measure(b, srv, name+size+", connection", &turn, func() error {
			q, err := protojson.Marshal(r.make(w, turn))
			if err != nil {
				return err
			}
			return ask(b.Context(), c, &petrelv1.ClientFrame{Body: &petrelv1.ClientFrame_Call{Call: &petrelv1.Call{Method: method(), Request: &petrelv1.Call_Json{Json: string(q)}}}})
		})
	}
	measure(b, srv, name+size+", HTTP", &turn, func() error {
		token := tokens[0]
		if r.paced {
			token = tokens[1+turn%admins]
		}
		return post(b.Context(), srv, method(), token, r.make(w, turn))
	})
}

// measure asks again and again, and counts the turns.
func measure(b *testing.B, srv *imtest.Server, name string, turn *int, ask func() error) {
	b.Run(name, func(b *testing.B) {
		first, before := *turn, cpu(b, srv)
		for b.Loop() {
			if err := patiently(ask); err != nil {
				b.Fatal(err)
			}
			*turn++
		}
		b.ReportMetric(1000*(cpu(b, srv)-before)/float64(*turn-first), "cpu-ms/request")
	})
}

// patiently asks again when the server lets it. A refusal costs next to nothing.
func patiently(ask func() error) error {
	for {
		err := ask()
		if im.CodeOf(err) != im.CodeRateLimited {
			return err
		}
		<-time.After(err.(*im.Error).RetryAfter)
	}
}

// cpu is what the server's process has used, in seconds.
func cpu(b *testing.B, srv *imtest.Server) float64 {
	r, err := srv.Admin.GetStats(b.Context(), connectrpc.NewRequest(&petrelv1.GetStatsRequest{}))
	if err != nil {
		b.Fatal(err)
	}
	return r.Msg.CpuS
}

// awaitRest waits until the server has nothing to do by itself, such as compactions after a start.
func awaitRest(b *testing.B, srv *imtest.Server) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 120 {
		before := cpu(b, srv)
		<-tick.C
		if cpu(b, srv)-before < 0.05 {
			return
		}
	}
	b.Log("the server has not come to rest")
}

// connect is a long connection that has announced what the requests need.
func connect(b *testing.B, srv *imtest.Server, token string) *wiretest.Conn {
	c, err := wiretest.Open(b.Context(), wiretest.Options{URL: srv.URL(wire.WebSocket), Codec: wire.JSON})
	if err == nil {
		b.Cleanup(func() { _ = c.Close() }) // the benchmark is over
		err = c.Hello(b.Context(), &petrelv1.Hello{VersionMin: wiretest.Version, VersionMax: wiretest.Version, Token: token, Device: "laptop", Capabilities: []string{"edit", "cursor", "focus", "newest", "call", "rel", "signal", "notes", "presence", "personal", "mentions", "large", "profiles"}})
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// connectAll makes three connections of each of some users.
func connectAll(b *testing.B, srv *imtest.Server, tokens []string) []*wiretest.Conn {
	var all []*wiretest.Conn
	for _, t := range tokens {
		for range 3 {
			all = append(all, connect(b, srv, t))
		}
	}
	return all
}

func frameOf(m proto.Message) *petrelv1.ClientFrame {
	f := &petrelv1.ClientFrame{}
	switch m := m.(type) {
	case *petrelv1.Send:
		f.Body = &petrelv1.ClientFrame_Send{Send: m}
	case *petrelv1.GetHistory:
		f.Body = &petrelv1.ClientFrame_History{History: m}
	case *petrelv1.Sync:
		f.Body = &petrelv1.ClientFrame_Sync{Sync: m}
	case *petrelv1.MoveCursor:
		f.Body = &petrelv1.ClientFrame_Cursor{Cursor: m}
	case *petrelv1.SetFocus:
		f.Body = &petrelv1.ClientFrame_Focus{Focus: m}
	case *petrelv1.SetWatch:
		f.Body = &petrelv1.ClientFrame_Watch{Watch: m}
	case *petrelv1.SendSignal:
		f.Body = &petrelv1.ClientFrame_Signal{Signal: m}
	}
	return f
}

// ask writes a request and reads up to its answer.
func ask(ctx context.Context, c *wiretest.Conn, f *petrelv1.ClientFrame) error {
	id, err := c.Write(f)
	for err == nil {
		var a *petrelv1.ServerFrame
		if a, err = c.Recv(ctx); err == nil && a.Id == id {
			if e := a.GetError(); e != nil {
				err = wiretest.Error(e)
			}
			return err
		}
	}
	return err
}

// post calls a method over HTTP, on a connection that is kept.
func post(ctx context.Context, srv *imtest.Server, method, token string, q proto.Message) error {
	body, err := protojson.Marshal(q)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.BaseURL()+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	switch {
	case err != nil:
	case res.StatusCode == http.StatusTooManyRequests:
		err = &im.Error{Code: im.CodeRateLimited, RetryAfter: 50 * time.Millisecond}
	case res.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s: %s: %.300s", method, res.Status, text)
	}
	return err
}
