package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// Tools of gRPC learn the services of a listener and their schema, and whether the server is
// ready. Spec: P-12.1.
func TestToolsOfGRPCFindSchemaAndHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ready := true
		w.srv.o.Ready = func() bool { return ready }
		tools := grpcreflect.NewClient(w.overHTTP2(), w.http.URL, connect.WithGRPC()).NewStream(t.Context())
		names, err := tools.ListServices()
		w.must(err)
		got := []string{}
		for _, n := range names {
			got = append(got, string(n))
		}
		if want := servicesOn(Public); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("services %v, want %v", got, want)
		}
		files, err := tools.FileContainingSymbol(petrelv1connect.MessageServiceName)
		if err != nil || len(files) == 0 || !strings.HasSuffix(files[0].GetName(), "conversation.proto") {
			t.Errorf("the file of MessageService: %d files, %v", len(files), err)
		}
		_, _ = tools.Close() // its answers were read

		check := func(what, body string, status int, want string) {
			t.Helper()
			r, text := w.do(http.MethodPost, "/grpc.health.v1.Health/Check", map[string]string{"Content-Type": "application/json"}, []byte(body))
			if r.StatusCode != status || !strings.Contains(strings.ReplaceAll(text, " ", ""), want) {
				t.Errorf("%s: %d %s, want %d and %q", what, r.StatusCode, text, status, want)
			}
		}
		check("ready", `{}`, http.StatusOK, `STATUS_SERVING"`)
		check("a service", `{"service":"`+petrelv1connect.MessageServiceName+`"}`, http.StatusOK, `STATUS_SERVING"`)
		check("one that is not there", `{"service":"x"}`, http.StatusNotFound, "not_found")
		ready = false
		check("not ready", `{}`, http.StatusOK, `STATUS_NOT_SERVING"`)
	})
}
