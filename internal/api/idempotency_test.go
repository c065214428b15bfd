package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func keyRequest(name, request string) *connect.Request[petrelv1.CreateKeyRequest] {
	return connect.NewRequest(&petrelv1.CreateKeyRequest{Name: name, Scopes: []string{"users"}, RequestId: request})
}

func (w *world) keys() int {
	w.t.Helper()
	keys, err := w.operators.Keys(context.Background())
	w.must(err)
	return len(keys)
}

// answers are the records of the answers that are kept.
func (w *world) answers() (values []string) {
	w.t.Helper()
	w.must(w.store.Records(context.Background(), store.Requests, 0, nil, func(_, v []byte) bool {
		values = append(values, string(v))
		return true
	}))
	return values
}

// Spec: P-12.4.
func TestRepeatedCallIsAnsweredAsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r1"))
		w.must(err)
		for what, c := range w.clients() {
			two, err := c.CreateKey(t.Context(), keyRequest("ci", "r1"))
			if err != nil || two.Msg.Key != one.Msg.Key || two.Msg.Info.Id != one.Msg.Info.Id {
				t.Errorf("repeated by %s: %v, %v; want %v", what, two, err, one.Msg)
			}
		}
		if n := w.keys(); n != 2 { // setup's and ours
			t.Errorf("%d keys", n)
		}
		_, err = w.admin.CreateKey(t.Context(), keyRequest("other", "r1"))
		w.wantCode("another content", err, im.CodeConflict)
		three, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r2"))
		if err != nil || three.Msg.Key == one.Msg.Key {
			t.Errorf("another request id: %v, %v", three, err)
		}
		four, err := w.admin.CreateKey(t.Context(), keyRequest("ci", ""))
		five, err2 := w.admin.CreateKey(t.Context(), keyRequest("ci", ""))
		if err != nil || err2 != nil || four.Msg.Key == five.Msg.Key {
			t.Errorf("without a request id: %v, %v; %v, %v", four, err, five, err2)
		}
		_, err = w.admin.CreateKey(t.Context(), keyRequest("ci", strings.Repeat("r", maxRequestID+1)))
		w.wantCode("a long request id", err, im.CodeInvalid)
		// The request ids of callers do not meet.
		_, err = w.as(one.Msg.Key).SetPassword(t.Context(), connect.NewRequest(&petrelv1.SetPasswordRequest{User: "nobody", Password: "correct horse battery", RequestId: "r1"}))
		w.wantCode("another caller", err, im.CodeNoUser)
		_, err = w.as(one.Msg.Key).CreateKey(t.Context(), keyRequest("ci", "r1"))
		w.wantCode("a caller who may not", err, im.CodeForbidden)
	})
}

func TestConcurrentRepeatsWaitForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var wg sync.WaitGroup
		got := make([]string, 16)
		for i := range got {
			wg.Go(func() {
				r, err := w.admin.CreateKey(context.Background(), keyRequest("ci", "r1"))
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = r.Msg.Key
			})
		}
		wg.Wait()
		for _, k := range got {
			if k != got[0] || k == "" {
				t.Fatalf("one call made the keys %v", got)
			}
		}
		if n := w.keys(); n != 2 {
			t.Errorf("%d keys", n)
		}
		w.srv.turns.mu.Lock()
		defer w.srv.turns.mu.Unlock()
		if n := len(w.srv.turns.keys); n != 0 {
			t.Errorf("%d turns are left", n)
		}
	})
}

func TestRepeatAfterARestartIsAnsweredAsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		set := func() *petrelv1.UserInfo {
			r, err := w.admin.SetPassword(t.Context(), connect.NewRequest(&petrelv1.SetPasswordRequest{User: "alice", Password: "correct horse battery", RequestId: "r1"}))
			w.must(err)
			return r.Msg
		}
		set()
		if len(w.closed) != 1 {
			t.Fatalf("sessions closed %d times", len(w.closed))
		}
		w.serve() // a server that remembers nothing but the store
		w.admin = w.as(w.key)
		if r := set(); !r.HasPassword || len(w.closed) != 1 {
			t.Errorf("%v, sessions closed %d times", r, len(w.closed))
		}
		_, err := w.admin.SetPassword(t.Context(), connect.NewRequest(&petrelv1.SetPasswordRequest{User: "alice", Password: "another password", RequestId: "r1"}))
		w.wantCode("another password", err, im.CodeConflict)
		if r := set(); !r.HasPassword || len(w.closed) != 1 {
			t.Errorf("after a conflict: %v, sessions closed %d times", r, len(w.closed))
		}
	})
}

func TestFailedCallLeavesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		req := func() error {
			_, err := w.admin.DisableUser(t.Context(), connect.NewRequest(&petrelv1.DisableUserRequest{User: "alice", RequestId: "r1"}))
			return err
		}
		w.wantCode("nobody", req(), im.CodeNoUser)
		w.makeUsers("", "alice")
		w.must(req())
	})
}

func TestAnswersAreForgottenAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r1"))
		w.must(err)
		time.Sleep(repeatTime - time.Millisecond)
		w.must(w.srv.sweep(t.Context()))
		two, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r1"))
		if err != nil || two.Msg.Key != one.Msg.Key {
			t.Errorf("within the hour: %v, %v", two, err)
		}
		time.Sleep(time.Millisecond)
		three, err := w.admin.CreateKey(t.Context(), keyRequest("other", "r1"))
		if err != nil || three.Msg.Key == one.Msg.Key {
			t.Errorf("after the hour: %v, %v", three, err)
		}
		time.Sleep(repeatTime)
		if n := len(w.answers()); n != 1 {
			t.Errorf("%d answers before the sweep", n)
		}
		w.must(w.srv.sweep(t.Context()))
		if n := len(w.answers()); n != 0 {
			t.Errorf("%d answers are left", n)
		}
	})
}

// A thief of the database gets no tokens from the kept answers, and nothing by which a guess of a password could be
// checked quickly.
func TestKeptAnswersGiveNothingAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r1"))
		w.must(err)
		body := `{"user":"alice","password":"correct horse battery","device":{"id":"d"},"requestId":"r1"}`
		r := w.curl("AuthService", "Register", "", body)
		if r.status != 200 || w.curl("AuthService", "Register", "", body).body != r.body {
			t.Fatalf("register: %s", r.body)
		}
		all := strings.Join(w.answers(), "|")
		if n := len(w.answers()); n != 2 {
			t.Errorf("%d answers", n)
		}
		for _, secret := range []string{k.Msg.Key, "pk_", "pt_", "pr_", "correct horse"} {
			if strings.Contains(all, secret) {
				t.Errorf("the records have %q", secret)
			}
		}
		content := hashOf("content", "\x12\x05alice\x1a\x15correct horse battery", "")
		if strings.Contains(all, string(content[:])) {
			t.Error("a digest is of the password itself")
		}
	})
}

// A kept answer is no way to try passwords: the first wrong one ends it.
func TestKeptLoginIsNoOracle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if r := w.curl("AuthService", "Register", "", `{"user":"alice","password":"correct horse battery","device":{"id":"d"}}`); r.status != 200 {
			t.Fatalf("register: %s", r.body)
		}
		login := func(password string) reply {
			return w.curl("AuthService", "Login", "", fmt.Sprintf(`{"user":"alice","password":%q,"device":{"id":"d"},"requestId":"r1"}`, password))
		}
		first := login("correct horse battery")
		if again := login("correct horse battery"); first.status != 200 || again.body != first.body {
			t.Fatalf("%s, repeated %s", first.body, again.body)
		}
		if r := login("a wrong password"); r.code != im.CodeConflict {
			t.Errorf("wrong password: %s %s", r.code, r.body)
		}
		if r := login("a wrong password"); r.code != im.CodeBadCredentials {
			t.Errorf("wrong password again: %s %s", r.code, r.body)
		}
		if r := login("correct horse battery"); r.status != 200 || r.body == first.body {
			t.Errorf("the answer outlived a wrong password: %s", r.body)
		}
	})
}

// A repeat costs a hash, as a login does: endless repeats are refused before the hash, by
// address or, with a token, by user.
func TestRepeatsWithAPasswordAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var err error
		w.users, err = user.New(t.Context(), user.Options{Registration: user.Open, Rates: user.Rates{Logins: 2, LoginsPerIP: 1}, PasswordWork: cheapPasswords}, w.store)
		w.must(err)
		w.serve()
		repeat := func(what string, allowed int, call func() reply) {
			t.Helper()
			first := call()
			if first.status != 200 {
				t.Fatalf("%s: %s", what, first.body)
			}
			for i := range allowed {
				if r := call(); r.body != first.body {
					t.Fatalf("%s, repeat %d: %d %s", what, i, r.status, r.body)
				}
			}
			if r := call(); r.code != im.CodeRateLimited || r.detail(t).RetryAfterMs == 0 {
				t.Errorf("%s, one repeat more: %d %s", what, r.status, r.body)
			}
			time.Sleep(time.Minute)
			if r := call(); r.body != first.body {
				t.Errorf("%s, a minute later: %d %s", what, r.status, r.body)
			}
			time.Sleep(time.Minute)
		}
		repeat("register", 4, func() reply {
			return w.curl("AuthService", "Register", "", `{"user":"alice","password":"correct horse battery","device":{"id":"d"},"requestId":"r1"}`)
		})
		var login struct{ AccessToken string }
		repeat("login", 4, func() reply {
			r := w.curl("AuthService", "Login", "", `{"user":"alice","password":"correct horse battery","device":{"id":"d"},"requestId":"r2"}`)
			if r.status == 200 {
				w.must(json.Unmarshal([]byte(r.body), &login))
			}
			return r
		})
		repeat("change of the password", 8, func() reply {
			return w.curl("AccountService", "ChangePassword", "Bearer "+login.AccessToken, `{"oldPassword":"correct horse battery","newPassword":"another password","requestId":"r3"}`)
		})
		// A request without a password costs nothing, and is not counted.
		for range 9 {
			if r := w.curl("AccountService", "UpdateAccount", "Bearer "+login.AccessToken, `{"displayName":"Alice","requestId":"r4"}`); r.status != 200 {
				t.Fatalf("without a password: %s", r.body)
			}
		}
	})
}

// A caller who goes away does not leave a call half done and unrecorded.
func TestCallGoesOnWithoutItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.makeUsers("", "alice")
		in, out := make(chan struct{}), make(chan struct{})
		inner := w.srv.o.CloseUser
		w.srv.o.CloseUser = func(ctx context.Context, a im.Account, code im.Code) (int, error) {
			select {
			case in <- struct{}{}:
				<-out
			case <-out: // a second run, which the count below shows
			}
			if ctx.Err() != nil {
				t.Error("the call was given up")
			}
			return inner(ctx, a, code)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		req := &petrelv1.DisableUserRequest{User: "alice", RequestId: "r1"}
		go func() {
			_, err := w.admin.DisableUser(ctx, connect.NewRequest(req))
			ended <- err
		}()
		<-in
		cancel()
		if err := <-ended; err == nil {
			t.Error("the caller did not go away")
		}
		close(out)
		r, err := w.admin.DisableUser(t.Context(), connect.NewRequest(req))
		if err != nil || !r.Msg.Disabled || len(w.closed) != 1 {
			t.Errorf("repeated: %v, %v; closed %d times", r, err, len(w.closed))
		}
	})
}
