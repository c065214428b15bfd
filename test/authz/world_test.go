package authz

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

const password = "correct horse battery staple"

// world is a group of its own, with one user of each standing, and the caller
// who tries something.
type world struct {
	t          *testing.T
	srv        *imtest.Server
	suffix     string // of the user ids, which are no other world's
	conv       string
	credential string
	accept     string // the header of calls; empty: none

	ownersMessage, membersMessage uint64 // seqs
}

var worlds atomic.Uint64

func newWorld(t *testing.T, srv *imtest.Server, caller string) *world {
	t.Helper()
	w := &world{t: t, srv: srv, suffix: fmt.Sprintf("-%d", worlds.Add(1))}
	var roles []*petrelv1.MemberRef
	for _, m := range []struct {
		name string
		role petrelv1.Role
	}{
		{"owner", petrelv1.Role_ROLE_OWNER}, {"admin", petrelv1.Role_ROLE_ADMIN}, {"member", petrelv1.Role_ROLE_MEMBER},
		{"member2", petrelv1.Role_ROLE_MEMBER}, {"left", petrelv1.Role_ROLE_MEMBER}, {"revoked", petrelv1.Role_ROLE_MEMBER},
	} {
		roles = append(roles, &petrelv1.MemberRef{User: w.name(m.name), Role: m.role})
	}
	srv.Users("", w.name("owner"), w.name("admin"), w.name("member"), w.name("member2"), w.name("left"), w.name("revoked"), w.name("other2"))
	made, err := srv.Admin.CreateGroup(t.Context(), connect.NewRequest(&petrelv1.AdminCreateGroupRequest{Title: "boat", Members: roles}))
	if err != nil {
		t.Fatalf("make a group: %v", err)
	}
	w.conv = made.Msg.Conv
	w.ownersMessage, w.membersMessage = w.sendAs("owner"), w.sendAs("member2")
	_, err = srv.Admin.ChangeMembers(t.Context(), connect.NewRequest(&petrelv1.ChangeMembersRequest{
		Conv: w.conv, Change: &petrelv1.MemberChange{Removed: []string{w.name("left")}}}))
	if err != nil {
		t.Fatalf("remove a member: %v", err)
	}
	if caller == "admin" || caller == "owner" {
		w.mint("", "member2") // whose device is an operator's to revoke
	}
	w.credential = w.credentialOf(caller)
	return w
}

// name is the id of a user of this world.
func (w *world) name(user string) string { return user + w.suffix }

// handle is the one of member2, which this call makes.
func (w *world) handle() string {
	w.t.Helper()
	h := fmt.Sprintf("handle.%d", worlds.Add(1))
	w.setProfiles(&petrelv1.ProfileChange{User: w.name("member2"), Handle: &h})
	return h
}

func (w *world) setProfiles(changes ...*petrelv1.ProfileChange) {
	w.t.Helper()
	if _, err := w.srv.Admin.SetProfiles(w.t.Context(), connect.NewRequest(&petrelv1.SetProfilesRequest{Profiles: changes})); err != nil {
		w.t.Fatalf("set profiles: %v", err)
	}
}

func device(id string) *petrelv1.DeviceRef { return &petrelv1.DeviceRef{Id: id} }

// mint logs a user's device in; its id is the user's.
func (w *world) mint(tenant, user string) string {
	w.t.Helper()
	r, err := w.srv.Admin.MintToken(w.t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{
		Tenant: tenant, User: w.name(user), Device: device(w.name(user))}))
	if err != nil {
		w.t.Fatalf("mint a token of %s: %v", user, err)
	}
	return r.Msg.AccessToken
}

func (w *world) credentialOf(caller string) string {
	w.t.Helper()
	switch caller {
	case "anonymous":
		return ""
	case "foreign":
		return w.mint("acme", caller)
	case "noscope":
		// Of all scopes but admin, the server's covers least; the server's own
		// methods are tried with one that covers users.
		scope := "server"
		if slices.ContainsFunc([]string{"Limits", "Stats", "Overview", "Refusals", "ReadLog", "Compact", "Cluster", "DrainNode", "ResumeNode", "MovePartition"}, func(m string) bool { return strings.Contains(w.t.Name(), m) }) {
			scope = "users"
		}
		return w.makeKey("noscope", scope).Key
	case "scope":
		w.mint("", "member2")
		return w.makeKey("scope", "admin").Key
	case "revoked":
		token := w.mint("", caller)
		_, err := w.srv.Admin.RevokeDevice(w.t.Context(), connect.NewRequest(&petrelv1.AdminRevokeDeviceRequest{
			User: w.name(caller), Device: w.name(caller)}))
		if err != nil {
			w.t.Fatalf("revoke a device: %v", err)
		}
		return token
	}
	return w.mint("", caller)
}

func (w *world) makeKey(name string, scopes ...string) *petrelv1.CreateKeyResponse {
	w.t.Helper()
	r, err := w.srv.Admin.CreateKey(w.t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: name, Scopes: scopes}))
	if err != nil {
		w.t.Fatalf("make a key: %v", err)
	}
	return r.Msg
}

func (w *world) send() *petrelv1.Send {
	return &petrelv1.Send{Conv: w.conv, ClientMsgId: fmt.Sprintf("m%d", worlds.Add(1)), Body: &petrelv1.Send_Text{Text: "ahoy"}}
}

func (w *world) sendAs(user string) uint64 {
	w.t.Helper()
	r, err := w.srv.Admin.SendAs(w.t.Context(), connect.NewRequest(&petrelv1.SendAsRequest{From: w.name(user), Send: w.send()}))
	if err != nil {
		w.t.Fatalf("send as %s: %v", user, err)
	}
	return r.Msg.Seq
}

// call calls a method as the caller, with JSON over HTTP, and returns the
// Petrel code of the answer.
func (w *world) call(method string, request proto.Message) string {
	w.t.Helper()
	body, err := protojson.Marshal(request)
	if err != nil {
		w.t.Fatalf("encode the request of %s: %v", method, err)
	}
	q, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.srv.MethodURL(method)+"/"+method, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if w.credential != "" {
		q.Header.Set("Authorization", "Bearer "+w.credential)
	}
	if w.accept != "" {
		q.Header.Set("Accept", w.accept)
	}
	r, err := w.srv.HTTP().Do(q)
	if err != nil {
		w.t.Fatalf("call %s: %v", method, err)
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusOK && (w.accept == "" || w.accept == r.Header.Get("Content-Type")) {
		return "ok"
	}
	text, _ := io.ReadAll(r.Body) // for the message only
	if code := r.Header.Get("Petrel-Error"); code != "" {
		return code
	}
	return fmt.Sprintf("%s without a code: %s", r.Status, text)
}

func (w *world) hello() *petrelv1.Hello {
	return &petrelv1.Hello{VersionMin: 1, VersionMax: 1, Token: w.credential, Capabilities: []string{"edit", "cursor", "focus", "newest", "call", "rel", "signal", "presence", "notes", "profiles"}}
}

// frame connects as the caller, says hello unless there is no credential, and
// returns the code of what answers f, or of the refused hello.
func (w *world) frame(f *petrelv1.ClientFrame) string {
	w.t.Helper()
	_, isHello := f.Body.(*petrelv1.ClientFrame_Hello)
	nc, err := net.DialTimeout("tcp", strings.TrimPrefix(w.srv.URL(wire.TCP), "tcp://"), eventually.Limit)
	if err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	defer nc.Close()
	if err := nc.SetDeadline(eventually.Deadline()); err != nil {
		w.t.Fatal(err)
	}
	in := bufio.NewReader(nc)
	if w.credential != "" && !isHello {
		w.write(nc, &petrelv1.ClientFrame{Id: 1, Body: &petrelv1.ClientFrame_Hello{Hello: w.hello()}})
		if code := w.answer(in, 1); code != "ok" {
			return code
		}
	}
	f.Id = 2
	w.write(nc, f)
	if _, ok := f.Body.(*petrelv1.ClientFrame_Pong); ok && w.credential != "" {
		w.write(nc, &petrelv1.ClientFrame{Id: 2, Body: &petrelv1.ClientFrame_Ping{Ping: &petrelv1.Ping{}}})
	}
	return w.answer(in, 2)
}

func (w *world) write(nc net.Conn, f *petrelv1.ClientFrame) {
	w.t.Helper()
	b, err := protojson.Marshal(f)
	if err == nil {
		_, err = nc.Write(append(b, '\n'))
	}
	if err != nil {
		w.t.Fatalf("write a frame: %v", err)
	}
}

// answer reads up to the answer to id, or the end of the connection.
func (w *world) answer(in *bufio.Reader, id uint64) string {
	w.t.Helper()
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return "closed without a word"
		}
		if err != nil {
			w.t.Fatalf("read a frame: %v", err)
		}
		var f petrelv1.ServerFrame
		if err := protojson.Unmarshal(line, &f); err != nil {
			w.t.Fatalf("read %s: %v", line, err)
		}
		if k := f.GetKick(); k != nil {
			return k.Code
		}
		if f.Id != id {
			continue
		}
		if e := f.GetError(); e != nil {
			return e.Code
		}
		return "ok"
	}
}

// operatorName is one that nobody has.
func (w *world) operatorName() string { return fmt.Sprintf("operator%d", worlds.Add(1)) }

func (w *world) makeOperator() string {
	w.t.Helper()
	name := w.operatorName()
	if _, err := w.srv.Admin.CreateOperator(w.t.Context(), connect.NewRequest(&petrelv1.CreateOperatorRequest{Name: name, Scopes: []string{"users"}})); err != nil {
		w.t.Fatalf("make an operator: %v", err)
	}
	return name
}
