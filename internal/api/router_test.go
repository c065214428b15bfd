package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// do sends a request as it is, with the admin key.
func (w *world) do(method, path string, header map[string]string, body []byte) (*http.Response, string) {
	w.t.Helper()
	q, err := http.NewRequest(method, w.http.URL+path, bytes.NewReader(body))
	w.must(err)
	q.Header.Set("Authorization", "Bearer "+w.key)
	for k, v := range header {
		q.Header.Set(k, v)
	}
	res, err := w.http.Client().Do(q)
	w.must(err)
	defer func() { _ = res.Body.Close() }() // read to its end
	b, err := io.ReadAll(res.Body)
	w.must(err)
	return res, string(b)
}

const getUser = "/petrel.v1.AdminService/GetUser"

// Every error has the form of the catalogue, also one that Connect finds. Spec: P-12.2,
// P-12.3.
func TestEveryFailureHasTheFormOfTheCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.Stats = func() *petrelv1.Stats { panic("a bug") }
		large := []byte(`{"user":"` + strings.Repeat("x", maxRequestBytes) + `"}`)
		var bomb bytes.Buffer
		z := gzip.NewWriter(&bomb)
		_, err := z.Write(bytes.Repeat(large, 8))
		w.must(err)
		w.must(z.Close())
		json := map[string]string{"Content-Type": "application/json"}
		with := func(k, v string) map[string]string {
			return map[string]string{"Content-Type": "application/json", k: v}
		}
		for what, c := range map[string]struct {
			method, path string
			header       map[string]string
			body         []byte
			status       int
			code         im.Code
		}{
			"malformed JSON":          {"POST", getUser, json, []byte("{"), 400, im.CodeInvalid},
			"JSON of another type":    {"POST", getUser, json, []byte(`{"user":7}`), 400, im.CodeInvalid},
			"no JSON":                 {"POST", getUser, json, nil, 400, im.CodeInvalid},
			"malformed protobuf":      {"POST", getUser, map[string]string{"Content-Type": "application/proto"}, []byte{0xff}, 400, im.CodeInvalid},
			"invalid UTF-8":           {"POST", getUser, map[string]string{"Content-Type": "application/proto"}, []byte{0x12, 1, 0xff}, 400, im.CodeInvalid},
			"a large body":            {"POST", getUser, json, large, 413, im.CodeTooLarge},
			"a compressed body":       {"POST", getUser, with("Content-Encoding", "gzip"), bomb.Bytes(), 400, im.CodeInvalid},
			"an unknown compression":  {"POST", getUser, with("Content-Encoding", "zip"), []byte("{}"), 400, im.CodeInvalid},
			"a bad timeout":           {"POST", getUser, with("Connect-Timeout-Ms", "soon"), []byte("{}"), 400, im.CodeInvalid},
			"a bad protocol version":  {"POST", getUser, with("Connect-Protocol-Version", "9"), []byte("{}"), 400, im.CodeInvalid},
			"an unknown content type": {"POST", getUser, map[string]string{"Content-Type": "text/plain"}, []byte("{}"), 415, im.CodeInvalid},
			"no content type":         {"POST", getUser, map[string]string{"Content-Type": ""}, []byte("{}"), 415, im.CodeInvalid},
			"GET":                     {"GET", getUser, nil, nil, 405, im.CodeInvalid},
			"PUT":                     {"PUT", getUser, json, []byte("{}"), 405, im.CodeInvalid},
			"TRACE":                   {"TRACE", getUser, nil, nil, 405, im.CodeInvalid},
			"an unknown method":       {"POST", "/petrel.v1.AdminService/Nothing", json, []byte("{}"), 404, im.CodeNoMethod},
			"an unknown service":      {"POST", "/petrel.v1.NoService/GetUser", json, []byte("{}"), 404, im.CodeNoMethod},
			"a method with a slash":   {"POST", getUser + "/", json, []byte("{}"), 404, im.CodeNoMethod},
			"a panic":                 {"POST", "/petrel.v1.AdminService/GetStats", json, []byte("{}"), 500, im.CodeInternal},
			"a token in the URL":      {"POST", getUser + "?access_token=x", json, []byte("{}"), 400, im.CodeTokenInURL},
			"a key in the URL":        {"POST", getUser + "?k=" + w.key, json, []byte("{}"), 400, im.CodeTokenInURL},
			"on another page":         {"GET", "/healthz?x=pt_default.alice.x", nil, nil, 400, im.CodeTokenInURL},
			"on no page":              {"GET", "/nowhere?refresh_token=pr_x", nil, nil, 400, im.CodeTokenInURL},
			"an unusual page":         {"GET", "/petrel.v1.AdminService/Nothing?token", nil, nil, 400, im.CodeTokenInURL},
		} {
			res, body := w.do(c.method, c.path, c.header, c.body)
			if res.StatusCode != c.status || im.Code(res.Header.Get(errorHeader)) != c.code || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s, code %q, %s: %s; want %d and %s", what, res.Status, res.Header.Get(errorHeader), res.Header.Get("Content-Type"), body, c.status, c.code)
			}
			r := w.reply(res.StatusCode, res.Header, body)
			if d := r.detail(t); d.Code != string(c.code) || d.Message == "" || d.Message != r.err.Message || r.err.Code == "" {
				t.Errorf("%s: detail %v of %s", what, d, body)
			}
			if r.err.PetrelCode != c.code || r.err.Hint != c.code.Info().Hint || r.err.Docs != "/docs#error-"+string(c.code) {
				t.Errorf("%s: the code, the hint and the link of %s", what, body)
			}
			if id := res.Header.Get("Request-Id"); len(id) != 32 || c.code == im.CodeInternal && r.detail(t).RequestId != id {
				t.Errorf("%s: request id %q, detail %v", what, id, r.detail(t))
			}
		}
		if log := w.log.String(); !strings.Contains(log, "a bug") || strings.Contains(log, w.key) {
			t.Errorf("log: %s", log)
		}
	})
}

func TestEveryAnswerHasARequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		seen := map[string]bool{}
		for path, body := range map[string]string{getUser: `{"user":"alice"}`, "/petrel.v1.SetupService/Redeem": "{}", "/petrel.v1.None/None": "{}"} {
			res, _ := w.do("POST", path, map[string]string{"Content-Type": "application/json"}, []byte(body))
			seen[res.Header.Get("Request-Id")] = true
		}
		for _, path := range []string{"/healthz", "/nowhere", "/setup"} {
			res, _ := w.do("GET", path, map[string]string{"Request-Id": "mine"}, nil)
			seen[res.Header.Get("Request-Id")] = true
		}
		if len(seen) != 6 || seen[""] || seen["mine"] {
			t.Errorf("request ids %v", seen)
		}
	})
}

// overHTTP2 is a client that speaks HTTP/2 only.
func (w *world) overHTTP2() *http.Client {
	p := &http.Protocols{}
	p.SetUnencryptedHTTP2(true)
	h2 := &http.Transport{Protocols: p, DialContext: w.dial}
	w.t.Cleanup(h2.CloseIdleConnections)
	return &http.Client{Transport: h2}
}

// clients speak each protocol of Connect.
func (w *world) clients() map[string]petrelv1connect.AdminServiceClient {
	key := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+w.key)
			return next(ctx, r)
		}
	}))
	return map[string]petrelv1connect.AdminServiceClient{
		"JSON":     petrelv1connect.NewAdminServiceClient(w.http.Client(), w.http.URL, key, connect.WithProtoJSON()),
		"protobuf": petrelv1connect.NewAdminServiceClient(w.http.Client(), w.http.URL, key),
		"gRPC":     petrelv1connect.NewAdminServiceClient(w.overHTTP2(), w.http.URL, key, connect.WithGRPC()),
		"gRPC-Web": petrelv1connect.NewAdminServiceClient(w.http.Client(), w.http.URL, key, connect.WithGRPCWeb()),
	}
}

// wantRefusal checks the header, the detail and the code of a client's error.
func wantRefusal(t *testing.T, what string, err error, code im.Code, near connect.Code) {
	t.Helper()
	c, ok := errors.AsType[*connect.Error](err)
	if !ok || im.Code(c.Meta().Get(errorHeader)) != code || c.Code() != near || len(c.Details()) == 0 {
		t.Errorf("%s: %v, want %s", what, err, code)
		return
	}
	v, err := c.Details()[0].Value()
	if d, ok := v.(*petrelv1.Error); err != nil || !ok || d.Code != string(code) || d.Message == "" {
		t.Errorf("%s: detail %v, %v", what, v, err)
	}
}

// Spec: P-12.1, P-12.3.
func TestEveryProtocolCarriesTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.Stats = func() *petrelv1.Stats { panic("a bug") }
		for how, c := range w.clients() {
			_, err := c.GetUser(t.Context(), connect.NewRequest(&petrelv1.AdminGetUserRequest{User: "nobody"}))
			wantRefusal(t, how+", no user", err, im.CodeNoUser, connect.CodeNotFound)
			_, err = c.GetUser(t.Context(), connect.NewRequest(&petrelv1.AdminGetUserRequest{User: strings.Repeat("x", maxRequestBytes+1)}))
			wantRefusal(t, how+", large", err, im.CodeTooLarge, connect.CodeInvalidArgument)
			_, err = c.GetStats(t.Context(), connect.NewRequest(&petrelv1.GetStatsRequest{}))
			wantRefusal(t, how+", panic", err, im.CodeInternal, connect.CodeInternal)
		}
		h2 := w.clients()["gRPC"]
		if _, err := h2.CreateUsers(t.Context(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: []string{"alice"}})); err != nil {
			t.Errorf("over gRPC: %v", err)
		}
		p := &http.Protocols{}
		p.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: p, DialContext: w.dial}
		defer tr.CloseIdleConnections()
		none := connect.NewClient[petrelv1.AdminGetUserRequest, petrelv1.UserInfo](&http.Client{Transport: tr}, w.http.URL+"/petrel.v1.AdminService/Nothing", connect.WithGRPC())
		_, err := none.CallUnary(t.Context(), connect.NewRequest(&petrelv1.AdminGetUserRequest{}))
		wantRefusal(t, "unknown method over gRPC", err, im.CodeNoMethod, connect.CodeNotFound)
	})
}

// The link of an error leads to its line on the page of the same server.
// Spec: P-12.5.
func TestLinkOfAnErrorLeadsToItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.curl("AdminService", "GetUser", "Bearer "+w.key, `{"user":"nobody"}`)
		link, err := url.Parse(r.err.Docs)
		w.must(err)
		res, page := w.do("GET", link.Path, nil, nil)
		if _, line, there := strings.Cut(page, `<tr id="`+link.Fragment+`">`); res.StatusCode != 200 || !there || !strings.Contains(line[:strings.Index(line, "</tr>")], im.CodeNoUser.Info().Text) {
			t.Errorf("%q leads to no line of the page", r.err.Docs)
		}
		for _, c := range im.Codes() {
			if !strings.Contains(page, `<tr id="error-`+string(c)+`">`) {
				t.Errorf("%s has no line on the page", c)
			}
		}
	})
}

// A call that waits too long is told so. Spec: P-9.2.
func TestLateAnswersAreStoreStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		begun := time.Now()
		w.srv.o.CompactStore = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		res, body := w.do("POST", "/petrel.v1.AdminService/Compact", map[string]string{"Content-Type": "application/json", "Connect-Timeout-Ms": "20"}, []byte("{}"))
		if took := time.Since(begun); took != 20*time.Millisecond {
			t.Errorf("the call is given up after %s, want 20 ms", took)
		}
		r := w.reply(res.StatusCode, res.Header, body)
		if res.StatusCode != 503 || r.code != im.CodeStoreStalled || res.Header.Get("Retry-After") != "1" || r.err.RetryAfterMs != 1000 {
			t.Errorf("%s %v %s", res.Status, res.Header, body)
		}
	})
}

// Spec: P-9.2, P-12.3.
func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "", time.Millisecond: "1", time.Second: "1", 1500 * time.Millisecond: "2", 3 * time.Minute: "180"} {
		if got := asConnect(&im.Error{Code: im.CodeRateLimited, RetryAfter: wait}).Meta().Get("Retry-After"); got != want {
			t.Errorf("%v: %q, want %q", wait, got, want)
		}
	}
}
