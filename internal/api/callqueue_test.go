package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/share"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// queueCalls has three workers for the calls of users, two for those of one.
func (w *world) queueCalls() {
	ctx, cancel := context.WithCancel(context.Background())
	w.srv.o.Calls = share.New(share.Options{Workers: 3, PerUser: 2, Waiting: 100, UserWaiting: 10})
	ended := make(chan struct{})
	go func() { w.srv.o.Calls.Run(ctx); close(ended) }()
	w.t.Cleanup(func() { cancel(); <-ended })
}

// token lets a user call.
func (w *world) token(u string) string {
	res, err := w.admin.MintToken(w.t.Context(), connect.NewRequest(&petrelv1.MintTokenRequest{User: u, Device: &petrelv1.DeviceRef{Id: "d"}}))
	w.must(err)
	return res.Msg.AccessToken
}

// Calls of users over HTTP take turns with those over connections, whatever connections they
// come over: a hundred of one user leave places to others. A call whose body is not there yet,
// or whose answer waits for its client, has no turn. Those of admin keys, and of callers whom
// nobody knows, do not wait.
func TestCallsOfUsersOverHTTPTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice", "bob")
		tokens := map[string]string{}
		for _, u := range []string{"alice", "bob"} {
			tokens[u] = w.token(u)
		}
		w.queueCalls()
		var mu sync.Mutex
		got := map[string]int{}
		call := func(what, method, token string, body io.Reader) {
			go func() {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/petrel.v1."+method, body)
				w.must(err)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer "+token)
				res, err := w.http.Client().Do(r)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					got[what+" failed"]++
					return
				}
				_ = res.Body.Close()
				got[fmt.Sprint(what, " ", res.StatusCode, " ", res.Header.Get(errorHeader))]++
			}()
		}
		expect := func(when string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for what, n := range want {
				if got[what] != n {
					t.Errorf("%s: %q %d times, want %d: %v", when, what, got[what], n, got)
				}
			}
		}
		// Bodies that do not come to their end have no turn.
		var slow []*io.PipeWriter
		for range 5 {
			r, pw := io.Pipe()
			slow = append(slow, pw)
			call("slow", "AccountService/GetAccount", tokens["alice"], r)
		}
		synctest.Wait()
		call("quick", "AccountService/GetAccount", tokens["alice"], strings.NewReader("{}"))
		expect("beside slow bodies", map[string]int{"quick 200 ": 1})

		// Two turns of alice are taken, as by calls over a connection.
		alice := im.Account{Tenant: im.DefaultTenant, User: "alice"}
		var leave []func()
		for range 2 {
			l, ok := w.srv.o.Calls.Enter(t.Context(), alice)
			if !ok {
				t.Fatal("no turn")
			}
			leave = append(leave, l)
		}
		for _, pw := range slow {
			_, _ = pw.Write([]byte("{}"))
			_ = pw.Close()
		}
		go func() {
			account := petrelv1connect.NewAccountServiceClient(w.overHTTP2(), w.http.URL, connect.WithGRPC())
			r := connect.NewRequest(&petrelv1.GetAccountRequest{})
			r.Header().Set("Authorization", "Bearer "+tokens["alice"])
			_, err := account.GetAccount(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			got[fmt.Sprint("gRPC ", err)]++
		}()
		synctest.Wait()
		call("broken", "AccountService/GetAccount", tokens["alice"], strings.NewReader("{"))
		synctest.Wait()
		for range 10 {
			call("many", "AccountService/GetAccount", tokens["alice"], strings.NewReader("{}"))
		}
		synctest.Wait()
		call("another's", "AccountService/GetAccount", tokens["bob"], strings.NewReader("{}"))
		call("a key's", "AdminService/GetUser", w.key, strings.NewReader(`{"user":"alice"}`))
		expect("while her turns are taken", map[string]int{"slow 200 ": 0, "gRPC <nil>": 0, "broken 400 invalid": 0, "many 200 ": 0, "many 503 overloaded": 7, "another's 200 ": 1, "a key's 200 ": 1})
		for _, l := range leave {
			l()
		}
		expect("when they are free", map[string]int{"slow 200 ": 5, "gRPC <nil>": 1, "broken 400 invalid": 1, "many 200 ": 3})
	})
}

// An answer, or a refusal, that waits for its client has no turn: others of the user go on.
func TestAnswersThatWaitForAClientHaveNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		w.queueCalls()
		token := w.token("alice")
		values := map[string]string{}
		for i := range 20 {
			values[fmt.Sprint("a.", i)] = strings.Repeat("v", 1000)
		}
		body, err := json.Marshal(map[string]any{"values": values})
		w.must(err)
		if r := w.curl("AccountService", "ChangeSettings", "Bearer "+token, string(body)); r.status != http.StatusOK {
			t.Fatal(r.body)
		}
		for what, method := range map[string]string{"answers": "AccountService/GetSettings", "refusals": "ConversationService/GetConversation"} {
			ask, _, hangUp := w.unread()
			for range 3 {
				ask(method, token)
			}
			if n := w.srv.o.Calls.Waiting(); n != 0 {
				t.Errorf("beside %s that wait %d calls wait for a turn", what, n)
			}
			hangUp()
			synctest.Wait()
		}
	})
}
