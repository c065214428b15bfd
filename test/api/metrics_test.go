package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// /metrics counts calls and refusals, and has the times that calls took.
func TestFiguresTellOutcomesAndTimes(t *testing.T) {
	srv := imtest.Start(t, imtest.Options{})
	token := srv.Users("", "alice", "bob")[0]
	c := srv.Dial(wire.WebSocket, wire.Proto, token, "phone")
	send := func(text string) error {
		_, err := c.Send(t.Context(), &petrelv1.Send{User: "bob", ClientMsgId: "m1", Body: &petrelv1.Send_Text{Text: text}})
		return err
	}
	if err := send("hi"); err != nil {
		t.Fatal(err)
	}
	if err := send("something else"); err == nil {
		t.Fatal("another text under the same id is taken")
	}
	if _, err := c.Sync(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.History(t.Context(), &petrelv1.GetHistory{Conv: "gKQtYt3wSdI4pbTbl9KK9"}); err == nil {
		t.Fatal("there is a history of nothing")
	}
	if _, err := wiretest.Dial(t.Context(), wiretest.Options{URL: srv.URL(wire.TCP), Codec: wire.JSON, Token: "pt_default.alice.no"}); err == nil {
		t.Fatal("a wrong token is welcomed")
	}
	_, err := srv.Call(t.Context(), imtest.ByJSON, "petrel.v1.AuthService/Login", "", &petrelv1.LoginRequest{User: "alice", Password: "not hers", Device: &petrelv1.DeviceRef{Id: "x"}})
	if err == nil {
		t.Fatal("a wrong password is taken")
	}
	res, err := http.Get(srv.AdminURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`petrel_ack_seconds_count 1`, `petrel_ack_seconds_bucket{le="0.0128"} `, `petrel_commit_seconds_count `, `petrel_request_seconds_count{request="hello"} 1`,
		`petrel_request_seconds_count{request="sync"} 1`, `petrel_call_seconds_count{method="petrel.v1.AuthService/Login"} 1`,
		`petrel_call_seconds_count{method="petrel.v1.AdminService/CreateUsers"} 1`,
		`petrel_refusals_total{code="conflict",of="frame"} 1`, `petrel_refusals_total{code="no_conversation",of="frame"} 1`, `petrel_refusals_total{code="unauthenticated",of="frame"} 1`,
		`petrel_refusals_total{code="bad_credentials",of="call"} 1`, `petrel_logins_total{outcome="bad_credentials",way="password"} 1`,
		`petrel_logins_total{outcome="ok",way="token"} 1`, `petrel_logins_total{outcome="unauthenticated",way="token"} 1`,
	} {
		if !strings.Contains(string(body), "\n"+want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(string(body)) {
			if strings.Contains(line, "_seconds_count") || strings.Contains(line, "refusals") || strings.Contains(line, "logins") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
