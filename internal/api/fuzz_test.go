package api

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The bodies of all methods, in each codec, with and without the right to call them. No
// request of a caller is a fault of the server: no answer is internal, and no ERROR is in
// the log.
func FuzzBodies(f *testing.F) {
	w := newWorld(f)
	w.srv.o.Cluster = Cluster{
		State: func(context.Context) *petrelv1.ClusterState { return &petrelv1.ClusterState{} },
		Drain: func(context.Context, im.Node) (*petrelv1.DrainNodeResponse, error) {
			return nil, &im.Error{Code: im.CodeNoNode}
		},
		Resume:    func(context.Context, im.Node) error { return &im.Error{Code: im.CodeNoNode} },
		Rebalance: func(context.Context) (*petrelv1.ClusterState, error) { return &petrelv1.ClusterState{}, nil },
		Move: func(context.Context, im.Partition, int) (*petrelv1.MovePartitionResponse, error) {
			return nil, &im.Error{Code: im.CodeNoNode}
		},
		Finalize: func(context.Context) (*petrelv1.FinalizeClusterResponse, error) {
			return &petrelv1.FinalizeClusterResponse{}, nil
		},
		Gateways: func(im.Account) []string { return nil },
	}
	issued, err := w.users.Create(context.Background(), "", []im.User{"alice", "bob"})
	if err != nil {
		f.Fatal(err)
	}
	methods := slices.Sorted(maps.Keys(table))
	kinds := []string{"application/json", "application/proto", "application/grpc-web+proto", "application/grpc-web+json", "application/connect+json", "text/plain", ""}
	credentials := []string{"", "Bearer " + w.key, "Bearer " + issued[0].Token, "Bearer pt_default.alice.x", "Basic eDp5"}
	for i := range methods {
		f.Add(uint8(i), uint8(0), uint8(1+i%2), []byte(`{"tenant":"","user":"alice","users":["bob"],"conv":"gKQtYt3wSdI4pbTbl9KK9","limit":3}`))
		f.Add(uint8(i), uint8(1), uint8(1+i%2), []byte("\x0a\x05alice"))
		f.Add(uint8(i), uint8(2), uint8(1+i%2), []byte("\x00\x00\x00\x00\x07\x0a\x05alice"))
	}
	send := slices.Index(methods, "petrel.v1.MessageService/Send")
	f.Add(uint8(send), uint8(0), uint8(2), []byte(`{"user":"bob","clientMsgId":"1","text":"hi"}`))
	f.Add(uint8(slices.Index(methods, "petrel.v1.AdminService/SendAs")), uint8(0), uint8(1), []byte(`{"from":"bob","send":{"user":"alice","clientMsgId":"2","data":"AAEC","type":"x"}}`))
	f.Add(uint8(slices.Index(methods, "petrel.v1.AuthService/ExchangeToken")), uint8(0), uint8(0), []byte(`{"jwt":"eyJhbGciOiJub25lIn0.e30.","device":{"id":"d","kind":"web"}}`))
	f.Fuzz(func(t *testing.T, method, kind, credential uint8, body []byte) {
		name := methods[int(method)%len(methods)]
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/"+name, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kinds[int(kind)%len(kinds)])
		if c := credentials[int(credential)%len(credentials)]; c != "" {
			r.Header.Set("Authorization", c)
		}
		if kind&0x80 != 0 {
			r.Header.Set("Content-Encoding", "gzip")
		}
		res, err := w.http.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // it was read
		if code := res.Header.Get(errorHeader); err != nil || code == string(im.CodeInternal) {
			t.Errorf("%s of %s, %q: %s %q, %v", name, r.Header, body, res.Status, answer, err)
		}
		if text := w.log.String(); strings.Contains(text, "level=ERROR") {
			w.log.Reset()
			t.Errorf("%s of %s, %q: the log: %s", name, r.Header, body, text)
		}
	})
}
