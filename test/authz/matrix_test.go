// Package authz holds the authorization matrix: every method of the API and
// every frame of a client, tried by everybody who could try it.
package authz

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The columns of the matrix: who tries. The first nine are those that a server
// has to fend off or serve; the last is the control for the operator's methods.
var callers = []string{
	"anonymous", // no credential
	"other",     // a user who never was a member
	"left",      // was a member
	"member", "admin", "owner",
	"revoked", // a member whose device was revoked
	"foreign", // a user of another tenant
	"noscope", // an admin key without the scope of the method
	"scope",   // an admin key with every scope
}

// short forms of the outcomes in the tables.
var codes = map[string]string{
	"U": "unauthenticated", "NM": "not_member", "NC": "no_conversation", "F": "forbidden", "ND": "no_device", "NU": "no_user",
	"R": "revoked", "HE": "hello_expected", "BC": "bad_credentials", "UE": "user_exists", "SC": "setup_closed", "US": "unsupported", "NN": "not_now", "NT": "no_target", "CT": "no_contact", "UD": "user_disabled", "I": "invalid",
	"ok": "ok",
}

// row is what one method or frame answers to each of the callers. want has
// their outcomes in the order of callers.
type row struct {
	request func(w *world) proto.Message
	want    string
}

// TestMethods tries every method of every service over HTTP.
func TestMethods(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	seen := map[string]bool{}
	services(func(name string, m protoreflect.MethodDescriptor) {
		if _, ok := methods[name]; !ok {
			t.Errorf("method %s has no row in the matrix", name)
		}
		for key, r := range methods { // "GetUser by handle" is a row of GetUser
			if key == name || strings.HasPrefix(key, name+" ") {
				seen[key] = true
				each(t, key, r, func(w *world) string { return w.call(name, r.request(w)) }, srv)
			}
		}
	})
	for name := range methods {
		if !seen[name] {
			t.Errorf("the matrix has a row for %s, which is no method", name)
		}
	}
}

// TestFollowedOverview tries the one method that can be answered again and again. Spec: P-10.11.
func TestFollowedOverview(t *testing.T) {
	name := admin + "GetOverview"
	r := methods[name]
	each(t, name, r, func(w *world) string {
		w.accept = "application/jsonl"
		return w.call(name, r.request(w))
	}, imtest.Start(t, imtest.Options{}))
}

// TestFrames tries every frame of a client on a connection of its own.
func TestFrames(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	seen := map[string]bool{}
	fields := (&petrelv1.ClientFrame{}).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		found := false
		for key, r := range frames {
			if key != name && !strings.HasPrefix(key, name+" ") {
				continue
			}
			found, seen[key] = true, true
			each(t, key, r, func(w *world) string { return w.frame(r.request(w).(*petrelv1.ClientFrame)) }, srv)
		}
		if !found {
			t.Errorf("frame %s has no row in the matrix", name)
		}
	}
	for key := range frames {
		if !seen[key] {
			t.Errorf("the matrix has a row for %s, which is no frame", key)
		}
	}
}

// each runs one row, each caller in a world of its own.
func each(t *testing.T, name string, r row, try func(*world) string, srv *imtest.Server) {
	want := strings.Fields(r.want)
	if len(want) != len(callers) {
		t.Errorf("%s has %d outcomes for %d callers", name, len(want), len(callers))
		return
	}
	t.Run(name, func(t *testing.T) {
		for i, caller := range callers {
			expect, ok := codes[want[i]]
			if !ok {
				t.Errorf("%s: outcome %q is no short form", name, want[i])
				continue
			}
			w := newWorld(t, srv, caller)
			if got := try(w); got != expect {
				t.Errorf("%s by %s: %s, want %s", name, caller, got, expect)
			}
		}
	})
}

// services calls f for every method of the schema.
func services(f func(name string, m protoreflect.MethodDescriptor)) {
	for _, file := range []protoreflect.FileDescriptor{
		petrelv1.File_petrel_v1_account_proto, petrelv1.File_petrel_v1_contact_proto, petrelv1.File_petrel_v1_conversation_proto, petrelv1.File_petrel_v1_admin_proto,
		petrelv1.File_petrel_v1_frames_proto, petrelv1.File_petrel_v1_message_proto, petrelv1.File_petrel_v1_operator_proto,
	} {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				f(string(s.FullName())+"/"+string(m.Name()), m)
			}
		}
	}
}
