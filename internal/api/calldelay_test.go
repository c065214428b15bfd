package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
)

// took is what a call got, and after which time.
type took struct {
	code  im.Code // "": an answer
	after time.Duration
}

// timed makes calls at once, and returns what each got.
func timed(calls ...func() im.Code) []took {
	all, begin := make([]took, len(calls)), time.Now()
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			code := call()
			all[i] = took{code, time.Since(begin).Round(10 * time.Millisecond)}
		})
		synctest.Wait()
	}
	wg.Wait()
	return all
}

// Calls of a user that come too fast wait, before their bodies are read, and are refused after a
// second if their time has not come by then; large requests and answers count as several. Those of
// others, and of admin keys, do not wait. Spec: P-12.7.
func TestCallsOfAUserThatComeEarlyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		tokens := map[string]string{"alice": w.token("alice"), "bob": w.token("bob")}
		w.srv.o.Pace = rate.NewPace[im.Account](2, 3)
		call := func(user, method string, body io.Reader) func() im.Code {
			return func() im.Code {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/petrel.v1."+method, body)
				w.must(err)
				r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + tokens[user]}}
				res, err := w.http.Client().Do(r)
				w.must(err)
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				return im.Code(res.Header.Get(errorHeader))
			}
		}
		get := func(user string) func() im.Code {
			return call(user, "AccountService/GetAccount", strings.NewReader("{}"))
		}
		expect := func(what string, have []took, want ...took) {
			t.Helper()
			for i, w := range want { // refusals come within the last half of their second
				if h := &have[i]; w.code != "" && h.after >= w.after-500*time.Millisecond && h.after <= w.after {
					h.after = w.after
				}
			}
			if fmt.Sprint(have) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", what, have, want)
			}
			time.Sleep(time.Minute) // nothing is owed
		}
		const late = im.CodeRateLimited
		var seven []func() im.Code
		for range 6 {
			seven = append(seven, get("alice"))
		}
		expect("small calls", timed(append(seven, get("bob"))...),
			took{}, took{}, took{}, took{after: 500 * time.Millisecond}, took{after: time.Second}, took{late, time.Second}, took{})

		values := `{"values":{"a":"` + strings.Repeat("x", 1000) + `"},"x":"` + strings.Repeat("x", 20<<10) + `"}`
		change := func(body io.Reader) func() im.Code { return call("alice", "AccountService/ChangeSettings", body) }
		expect("after a large request", timed(change(strings.NewReader(values)), get("alice")), took{}, took{after: 500 * time.Millisecond})
		chunked := func() io.Reader { return io.MultiReader(strings.NewReader(values)) } // its length is not said
		expect("large requests of unknown length, which wait again behind the body", timed(change(chunked()), change(chunked()), change(chunked())),
			took{}, took{after: 1500 * time.Millisecond}, took{late, 2 * time.Second})

		for range 10 {
			if r := w.curl("AdminService", "GetUser", "Bearer "+w.key, `{"user":"alice"}`); r.status != http.StatusOK {
				t.Errorf("a call of a key: %d %s", r.status, r.body)
			}
		}
	})
}

// Refusals of an address that are many wait, up to a second: who asks again at once asks less often.
// Others, and operators, do not wait for them. Spec: P-12.7.
func TestRefusalsOfAnAddressThatAreManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.srv.o.StrangersPerSecond = 2
		doors := map[Listener]http.Handler{Public: w.srv.handle(Public, http.NewServeMux()), Inside: w.srv.handle(Inside, http.NewServeMux())}
		ask := func(d Listener, addr, method string) time.Duration {
			begin := time.Now()
			r := httptest.NewRequest(http.MethodPost, "/petrel.v1."+method, strings.NewReader("{}"))
			r.RemoteAddr = addr + ":1"
			r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer wrong"}}
			a := httptest.NewRecorder()
			doors[d].ServeHTTP(a, r)
			if a.Header().Get(errorHeader) == "" {
				t.Errorf("%s: %d %s", method, a.Code, a.Body)
			}
			return time.Since(begin)
		}
		for range 10 {
			if a, b := ask(Public, "192.0.2.1", "AccountService/NoMethod"), ask(Public, "192.0.2.1", "AccountService/GetAccount"); a+b > 0 {
				t.Fatalf("the first ones wait %v and %v", a, b)
			}
		}
		for _, method := range []string{"AccountService/NoMethod", "AccountService/GetAccount", "AdminService/GetUser", "No/No"} {
			if d := ask(Public, "192.0.2.1", method); d != 500*time.Millisecond {
				t.Errorf("%s waits %v, want half a second", method, d)
			}
		}
		ofGRPC := httptest.NewRequest(http.MethodPost, "/petrel.v1.AccountService/GetAccount", http.NoBody)
		ofGRPC.ProtoMajor, ofGRPC.RemoteAddr, ofGRPC.Header = 2, "192.0.2.1:1", http.Header{"Content-Type": {"application/grpc"}}
		begin := time.Now()
		doors[Public].ServeHTTP(httptest.NewRecorder(), ofGRPC)
		if d := time.Since(begin); d != 500*time.Millisecond {
			t.Errorf("a refusal of gRPC waits %v, want half a second", d)
		}
		if d := ask(Public, "192.0.2.2", "AccountService/NoMethod"); d > 0 {
			t.Errorf("another address waits %v", d)
		}
		for range 30 {
			if d := ask(Inside, "192.0.2.1", "AdminService/GetUser"); d > 0 {
				t.Fatalf("an operator waits %v", d)
			}
		}
		var all sync.WaitGroup
		for range 10 { // at once: none waits longer than a second
			all.Go(func() {
				if d := ask(Public, "192.0.2.1", "AccountService/NoMethod"); d > time.Second {
					t.Errorf("one of ten waits %v", d)
				}
			})
		}
		all.Wait()
	})
}
