package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// followed is an answer that comes line by line.
type followed struct {
	t      *testing.T
	status int
	code   im.Code // of the header
	lines  *bufio.Scanner
	leave  context.CancelFunc
}

// line is one of the overview, or the error that is the last one.
type line struct {
	TimeMs     string
	Partitions int // the stepS of its request
	PetrelCode im.Code
}

func (f *followed) next() (l line) {
	f.t.Helper()
	if !f.lines.Scan() {
		f.t.Fatalf("no line: %v", f.lines.Err())
	}
	if err := json.Unmarshal(f.lines.Bytes(), &l); err != nil {
		f.t.Fatalf("%s: %v", f.lines.Text(), err)
	}
	return l
}

// ends reads up to the last line and returns its code.
func (f *followed) ends() im.Code {
	f.t.Helper()
	l := f.next()
	for l.PetrelCode == "" {
		l = f.next()
	}
	if f.lines.Scan() {
		f.t.Errorf("behind the end: %s", f.lines.Text())
	}
	return l.PetrelCode
}

// follower has a world in which an overview ends 5 s behind the one before, and returns how
// it is followed with a key.
func follower(t *testing.T) (*world, func(key string) *followed) {
	w := newWorld(t)
	w.srv.o.Console.Overview = func(_ context.Context, q *petrelv1.GetOverviewRequest) *petrelv1.Overview {
		return &petrelv1.Overview{TimeMs: q.AfterMs + 5000, Partitions: q.StepS}
	}
	server, _ := serveInMemory(t, w.srv.Handler(Inside, http.NewServeMux()), func(s *http.Server) {
		s.ReadTimeout, s.WriteTimeout = 3*followEvery/2, 3*followEvery/2 // shorter than what is followed
	})
	return w, func(key string) *followed {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/petrel.v1.AdminService/GetOverview", strings.NewReader(`{"afterMs":"1000","stepS":10}`))
		w.must(err)
		q.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {jsonLines}, "Authorization": {"Bearer " + key}}
		res, err := server.Client().Do(q)
		w.must(err)
		t.Cleanup(func() { _ = res.Body.Close() })
		return &followed{t: t, status: res.StatusCode, code: im.Code(res.Header.Get(errorHeader)), lines: bufio.NewScanner(res.Body), leave: cancel}
	}
}

// Spec: P-10.11.
func TestOverviewIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, follow := follower(t)
		f := follow(w.key)
		begun := time.Now()
		for i, want := range []line{{TimeMs: "6000", Partitions: 10}, {TimeMs: "11000", Partitions: 1}, {TimeMs: "16000", Partitions: 1}} {
			if got := f.next(); got != want {
				t.Errorf("line %d: %+v, want %+v", i, got, want)
			}
			if at := time.Since(begun); at != time.Duration(i)*time.Second {
				t.Errorf("line %d comes after %s, want one each second", i, at)
			}
		}
		f.leave()
		synctest.Wait()
		if n := w.srv.Followers(); n > 0 {
			t.Errorf("%d callers are followed, and nobody is there", n)
		}
	})
}

func TestFollowingIsRefusedAsTheCallIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, follow := follower(t)
		made, err := w.admin.CreateKey(t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: "x", Scopes: []string{"users"}}))
		w.must(err)
		bound, err := w.admin.CreateKey(t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: "x", Scopes: []string{"server"}, Tenant: "acme"}))
		w.must(err)
		for key, want := range map[string]im.Code{"": im.CodeUnauthenticated, made.Msg.Key: im.CodeForbidden, bound.Msg.Key: im.CodeForbidden} {
			if f := follow(key); f.status != want.Info().HTTP || f.code != want || f.ends() != want {
				t.Errorf("%d %s, want %s", f.status, f.code, want)
			}
		}
	})
}

func TestFollowingEndsWithTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, follow := follower(t)
		made, err := w.admin.CreateKey(t.Context(), connect.NewRequest(&petrelv1.CreateKeyRequest{Name: "x", Scopes: []string{"server"}}))
		w.must(err)
		f := follow(made.Msg.Key)
		f.next()
		_, err = w.admin.RevokeKey(t.Context(), connect.NewRequest(&petrelv1.RevokeKeyRequest{Id: made.Msg.Info.Id}))
		w.must(err)
		if code := f.ends(); code != im.CodeUnauthenticated {
			t.Errorf("it ends with %s", code)
		}
	})
}

func TestFollowersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, follow := follower(t)
		for range cap(w.srv.followers) {
			w.srv.followers <- struct{}{}
		}
		if f := follow(w.key); f.status != http.StatusTooManyRequests || f.ends() != im.CodeTooManyConnections {
			t.Errorf("one too many: %d %s", f.status, f.code)
		}
		<-w.srv.followers
		follow(w.key).next()
	})
}

func TestFollowingEndsWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, follow := follower(t)
		f := follow(w.key)
		f.next()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.must(w.srv.Run(ctx))
		if code := f.ends(); code != im.CodeDraining {
			t.Errorf("it ends with %s", code)
		}
	})
}
