package api

import (
	"context"
	"errors"
	"fmt"
	"github.com/petrel-im/petrel/internal/operator"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// nodes makes w one of two nodes on its store, and returns the other one's
// operator.
func (w *world) nodes(o user.Options) petrelv1connect.AdminServiceClient {
	w.t.Helper()
	w.shared = true
	var others petrelv1connect.AdminServiceClient
	for range 2 {
		var err error
		o.Registration, o.PasswordWork = user.Open, cheapPasswords
		w.users, err = user.New(context.Background(), o, w.store)
		w.must(err)
		w.operators = operator.New(operator.Options{Logins: 5, LoginsPerIP: 20}, w.store, w.users)
		w.serve()
		others, w.admin = w.admin, w.as(w.key)
	}
	return others
}

// Spec: P-12.4.
func TestRepeatOnAnotherNodeWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		clients := []petrelv1connect.AdminServiceClient{w.nodes(user.Options{}), w.admin}
		var wg sync.WaitGroup
		got := make([]string, 16)
		for i := range got {
			wg.Go(func() {
				r, err := clients[i%2].CreateKey(context.Background(), keyRequest("ci", "r1"))
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
		if n := w.keys(); n != 2 { // setup's and ours
			t.Errorf("%d keys", n)
		}
		_, err := clients[0].CreateKey(t.Context(), keyRequest("other", "r1"))
		w.wantCode("another content", err, im.CodeConflict)
		// Both have looked, and found nothing.
		var one *connect.Response[petrelv1.CreateKeyResponse]
		between := func() { one, err = clients[1].CreateKey(t.Context(), keyRequest("ci", "r2")) }
		w.store.between.Store(&between)
		two, err2 := clients[0].CreateKey(t.Context(), keyRequest("ci", "r2"))
		if err != nil || err2 != nil || one.Msg.Key != two.Msg.Key {
			t.Errorf("the same call between the look and the write: %v, %v; %v, %v", one, err, two, err2)
		}
	})
}

// However long the first node takes, the call is done once; with another content
// it is a conflict in the end.
func TestRepeatOnAnotherNodeWhileTheCallIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.nodes(user.Options{})
		w.makeUsers("", "alice")
		in, out := make(chan struct{}), make(chan struct{})
		inner := w.srv.o.CloseUser
		w.srv.o.CloseUser = func(ctx context.Context, a im.Account, code im.Code) (int, error) {
			close(in)
			<-out
			return inner(ctx, a, code)
		}
		disable := func(c petrelv1connect.AdminServiceClient, user string) error {
			_, err := c.DisableUser(context.Background(), connect.NewRequest(&petrelv1.DisableUserRequest{User: user, RequestId: "r1"}))
			return err
		}
		ended := make(chan error, 3)
		go func() { ended <- disable(w.admin, "alice") }()
		<-in
		conflict := make(chan error, 1)
		go func() { ended <- disable(other, "alice") }()
		go func() { conflict <- disable(other, "bob") }()
		time.Sleep(4 * claimPoll)
		synctest.Wait()
		if len(ended)+len(conflict) > 0 {
			t.Error("a repeat is answered before the first call has ended")
		}
		close(out)
		for range 2 {
			w.must(<-ended)
		}
		w.wantCode("another content", <-conflict, im.CodeConflict)
		if len(w.closed) != 1 {
			t.Errorf("closed %d times", len(w.closed))
		}
	})
}

// A node that dies in a call holds its request id for claimTime only; one whose
// call fails does not hold it at all.
func TestClaimOfADeadNodeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.nodes(user.Options{})
		_, err := w.admin.DisableUser(t.Context(), connect.NewRequest(&petrelv1.DisableUserRequest{User: "nobody", RequestId: "r1"}))
		w.wantCode("nobody", err, im.CodeNoUser)
		if n := len(w.answers()); n != 0 {
			t.Errorf("a call that failed leaves %d records", n)
		}
		w.must(w.srv.sweep(t.Context()))
		_, err = w.admin.CreateKey(t.Context(), keyRequest("ci", "r1"))
		w.must(err)
		// The claim that a dead node leaves, for the same call with the next request id.
		key, err := w.operators.AuthenticateKey(t.Context(), w.key)
		w.must(err)
		ctx := context.WithValue(t.Context(), callKey{}, &call{caller: &caller{key: &key, credential: w.key}})
		dead := &repeat{s: w.srv, key: hashOf("request", "petrel.v1.AdminService/CreateKey", callerName(ctx, nil), "r2"), msg: keyRequest("ci", "r2").Msg}
		if again, err := dead.begin(ctx); again != nil || err != nil || dead.claim == nil {
			t.Fatal(again, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 4*claimPoll)
		defer cancel()
		if _, err := w.admin.CreateKey(short, keyRequest("ci", "r2")); err == nil {
			t.Error("done beside the node that may be doing it")
		}
		w.must(w.srv.sweep(t.Context()))
		time.Sleep(claimTime - 4*claimPoll)
		two, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r2"))
		w.must(err)
		again, err := w.admin.CreateKey(t.Context(), keyRequest("ci", "r2"))
		if err != nil || again.Msg.Key != two.Msg.Key {
			t.Errorf("repeated: %v, %v", again, err)
		}
		// The dead one was only slow: an answer that it keeps now comes too late.
		if err := dead.keep(ctx, &petrelv1.CreateKeyResponse{Key: "pk_late"}); !errors.Is(err, store.ErrChanged) {
			t.Errorf("an answer that comes behind the end of its claim: %v", err)
		}
	})
}

// A claim is a write, and strangers get few of them.
func TestStrangersMakeFewClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.nodes(user.Options{Rates: user.Rates{LoginsPerIP: 1}})
		before := w.store.updates.Load()
		for i := range 30 {
			body := fmt.Sprintf(`{"user":"alice","password":"correct horse battery","device":{"id":"d"},"requestId":"r%d"}`, i)
			if r := w.curl("AuthService", "Login", "", body); r.status == 200 {
				t.Fatal(r.body)
			}
		}
		if n := w.store.updates.Load() - before; n == 0 || n > 2*4 {
			t.Errorf("30 wrong logins with request ids are %d writes", n)
		}
	})
}
