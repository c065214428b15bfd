package api

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// A request of a user with many values is refused before it is decoded, whichever way it
// comes. The largest ones that are of use are taken, and those of an admin key have no such
// bound. Spec: P-12.7.
func TestRequestOfManyValuesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		token, err := w.admin.MintToken(t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: "alice", Device: &petrelv1.DeviceRef{Id: "d"}}))
		w.must(err)
		who, err := w.users.Authenticate(t.Context(), token.Msg.AccessToken)
		w.must(err)
		const method = "petrel.v1.ConversationService/CreateGroup"
		post := func(kind string, body []byte) im.Code {
			res, _ := w.do(http.MethodPost, "/"+method, map[string]string{"Content-Type": kind, "Authorization": "Bearer " + token.Msg.AccessToken}, body)
			return im.Code(res.Header.Get(errorHeader))
		}
		call := func(asJSON bool, body []byte) im.Code {
			_, err := w.srv.Call(t.Context(), who, netip.Addr{}, method, asJSON, bytes.NewReader(body))
			return im.CodeOf(err)
		}
		for _, n := range []int{1000, 60_000} {
			m := &petrelv1.CreateGroupRequest{Title: "many"}
			for i := range n {
				m.Users = append(m.Users, fmt.Sprint("u", i))
			}
			asJSON, err := protojson.Marshal(m)
			w.must(err)
			asProto, err := proto.Marshal(m)
			w.must(err)
			want := im.CodeNoUser // there are no such users
			if n > wire.MaxValues {
				want = im.CodeInvalid
			}
			for way, code := range map[string]im.Code{
				"JSON": post("application/json", asJSON), "protobuf": post("application/proto", asProto),
				"call in JSON": call(true, asJSON), "call in protobuf": call(false, asProto),
			} {
				if code != want {
					t.Errorf("%d users by %s: %q, want %q", n, way, code, want)
				}
			}
			codecs := map[string]func([]byte, any) error{
				string(asJSON):  jsonCodec{"json", newCoding(share.NewTurns(1)), newBoundedRequests()}.Unmarshal,
				string(asProto): protoCodec{newCoding(share.NewTurns(1)), newBoundedRequests()}.Unmarshal,
			}
			for b, decode := range codecs {
				if allocs := testing.AllocsPerRun(1, func() { err = decode([]byte(b), &petrelv1.CreateGroupRequest{}) }); n > wire.MaxValues && (err == nil || allocs > 10) {
					t.Errorf("%.10q is decoded: %v, with %.0f allocations", b, err, allocs)
				}
			}
		}
		many := &petrelv1.CreateUsersRequest{}
		for i := range maxUsers {
			many.Users = append(many.Users, fmt.Sprint("user", i))
		}
		body := strings.TrimSuffix(protojson.Format(many), "}") + `,"x":[` + strings.Repeat("1,", 10_000) + `1]}`
		if r := w.curl("AdminService", "CreateUsers", "Bearer "+w.key, body); r.code != "" {
			t.Errorf("users made with an admin key: %.200s", r.body)
		}
	})
}
