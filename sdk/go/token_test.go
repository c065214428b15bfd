package petrel

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// porter refreshes tokens, and loses some answers.
type porter struct {
	petrelv1connect.UnimplementedAuthServiceHandler
	path string // of the file that asks

	mu    sync.Mutex // guards the fields below
	lose  int
	asked []string // request ids
	kept  []string // those that the file had when they came
}

func (p *porter) Refresh(_ context.Context, r *connect.Request[petrelv1.RefreshRequest]) (*connect.Response[petrelv1.LoginResponse], error) {
	file, err := OpenTokens(p.path, Auth{})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.kept = append(p.asked, r.Msg.RequestId), append(p.kept, file.have.RequestID)
	if p.lose > 0 {
		p.lose--
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the answer is lost"))
	}
	return connect.NewResponse(&petrelv1.LoginResponse{AccessToken: "new", AccessExpiresMs: uint64(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()), RefreshToken: "r2"}), nil
}

// Spec: S-3.4, P-11.3.
func TestARefreshIsRepeatedWithItsRequestID(t *testing.T) {
	p := &porter{path: filepath.Join(t.TempDir(), "login"), lose: 2}
	mux := http.NewServeMux()
	mux.Handle(petrelv1connect.NewAuthServiceHandler(p))
	s := httptest.NewServer(mux)
	defer s.Close()
	auth := Auth{URL: s.URL, HTTP: s.Client()}
	file, err := SaveTokens(p.path, auth, Tokens{Access: "old", Refresh: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	for range p.lose {
		if token, err := file.Token(t.Context(), "old"); err == nil {
			t.Errorf("a refresh whose answer is lost: got %q", token)
		}
		if file, err = OpenTokens(p.path, auth); err != nil { // another process
			t.Fatal(err)
		}
	}
	var both sync.WaitGroup
	for range 2 { // of which one refreshes
		both.Go(func() {
			if token, err := file.Token(t.Context(), "old"); token != "new" || err != nil {
				t.Errorf("got %q, %v", token, err)
			}
		})
	}
	both.Wait()
	if len(p.asked) != 3 || p.asked[0] == "" || p.asked[1] != p.asked[0] || p.asked[2] != p.asked[0] {
		t.Errorf("got request ids %q, want the same three times", p.asked)
	}
	expect(t, "ids in the file when they were sent", p.kept, p.asked)
	if _, err := file.Token(t.Context(), "new"); err != nil || len(p.asked) != 4 || p.asked[3] == p.asked[0] {
		t.Errorf("the next refresh: got %q, %v, want another id", p.asked, err)
	}
}
