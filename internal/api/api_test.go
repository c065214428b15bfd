package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"github.com/petrel-im/petrel/internal/operator"
	"github.com/petrel-im/petrel/internal/password"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/report"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/user"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// breakable is a store whose records a test can make unreadable.
type breakable struct {
	store.Store
	updates atomic.Int64
	between atomic.Pointer[func()] // done once, before the next update
	mu      sync.Mutex
	err     error
}

func (b *breakable) Update(ctx context.Context, puts []store.RecordPut) error {
	b.updates.Add(1)
	if f := b.between.Swap(nil); f != nil {
		(*f)()
	}
	return b.Store.Update(ctx, puts)
}

func (b *breakable) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func (b *breakable) Conversation(ctx context.Context, c im.Key) (rec *storepb.Conversation, err error) {
	b.mu.Lock()
	err = b.err
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return b.Store.Conversation(ctx, c)
}

// someStore makes ids like those of a store.
var someStore = im.NewIDs([16]byte{1})

// world is the services on HTTP, over a store in memory.
type world struct {
	t         testing.TB
	store     *breakable
	users     *user.Users
	operators *operator.Operators
	convs     *conv.Convs
	router    *route.Router
	inbox     *inbox.Consumer
	srv       *Server
	http      *httptest.Server
	dial      func(context.Context, string, string) (net.Conn, error) // to http
	log       bytes.Buffer
	admin     petrelv1connect.AdminServiceClient
	key       string

	audit    *audit.Log // nil: nothing is recorded
	redeemed int
	shared   bool // the servers are nodes on one store

	mu     sync.Mutex
	closed []im.Account // by CloseUser
	free   uint64       // what the disk has left
}

// cheapPasswords are hashed with little work: package user tests the cost of a hash.
var cheapPasswords = password.Work{Memory: 8, Time: 1, Threads: 1}

func newWorld(t testing.TB) *world {
	w := &world{t: t, free: 1 << 40}
	ctx := context.Background()
	st, err := pebblestore.Open(pebblestore.Options{
		Dir: "data", FS: vfs.NewMem(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1,
		FreeBytes: func() (uint64, error) { w.mu.Lock(); defer w.mu.Unlock(); return w.free, nil },
	})
	w.must(err)
	t.Cleanup(func() { w.must(st.Close()) })
	w.store = &breakable{Store: st}
	w.users, err = user.New(ctx, user.Options{Registration: user.Open, PasswordWork: cheapPasswords}, w.store)
	w.must(err)
	w.operators = operator.New(operator.Options{Logins: 5, LoginsPerIP: 20}, w.store, w.users)
	w.convs, err = conv.New(ctx, conv.Options{LookUp: w.users.LookUp}, w.store, fanout.NewTable())
	w.must(err)
	w.router = route.New(route.Options{LookUps: w.users.TakeLookUps}, w.convs, w.store)
	w.inbox, err = inbox.NewConsumer(ctx, slog.New(slog.DiscardHandler), w.convs, w.convs.Owners()[0], w.store)
	w.must(err)
	for _, run := range []func(context.Context) error{w.convs.Run, w.inbox.Run} {
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	w.serve()
	code, err := w.operators.OpenSetup(ctx)
	w.must(err)
	r := w.curl("SetupService", "Redeem", "", `{"code":"`+code+`"}`)
	if w.key, _, _ = strings.Cut(strings.TrimPrefix(r.body, `{"adminKey":"`), `"`); r.status != http.StatusOK || !strings.HasPrefix(w.key, "pk_") || w.redeemed != 1 {
		t.Fatalf("redeem: %d %s, told %d times", r.status, r.body, w.redeemed)
	}
	if r := w.curl("SetupService", "Redeem", "", `{"code":"`+code+`"}`); r.code != im.CodeSetupClosed {
		t.Errorf("redeem again: %d %s", r.status, r.body)
	}
	w.admin = w.as(w.key)
	return w
}

// bothDoors serves every method at the door where it is.
func bothDoors(s *Server, rest *http.ServeMux) http.Handler {
	public, inside := s.Handler(Public, rest), s.Handler(Inside, http.NewServeMux())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m := table[strings.TrimPrefix(r.URL.Path, "/")]; m.forOperators() || r.URL.Path == "/setup" {
			inside.ServeHTTP(w, r)
			return
		}
		public.ServeHTTP(w, r)
	})
}

func (w *world) serve() {
	closed := func(a im.Account, code im.Code) (int, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = append(w.closed, a)
		if code != im.CodeRevoked && code != im.CodeUserDisabled {
			w.t.Errorf("sessions are closed with %s", code)
		}
		return 3, nil
	}
	w.srv = New(Options{
		Shared: w.shared,
		Log:    slog.New(slog.NewTextHandler(&w.log, nil)), Store: w.store, Users: w.users, Operators: w.operators, Convs: w.convs, Route: w.router, Settle: func(ctx context.Context, _ im.Key) error { return w.inbox.Await(ctx) },
		Inbox:       &inbox.Syncer{Router: w.router, Store: w.store},
		Reports:     report.New(w.store, nil),
		Audit:       w.audit,
		CloseUser:   func(_ context.Context, a im.Account, code im.Code) (int, error) { return closed(a, code) },
		Announce:    func(context.Context, im.Account, im.Standing) error { return nil },
		UserChanged: func(im.Account) {},
		CloseDevice: func(_ context.Context, a im.Account, _ string, code im.Code) (int, error) {
			if code == im.CodeReplaced {
				return 0, nil // a login ends the one before
			}
			return closed(a, code)
		},
		Sessions:      func(context.Context, im.Account) (map[string]int, error) { return nil, nil },
		GroupsPerHour: -1, MembersPerMinute: -1, StrangersPerSecond: -1,
		Limits: func() *petrelv1.ServerLimits { return &petrelv1.ServerLimits{SendBurst: -1} },
		Console: Console{
			Overview: func(context.Context, *petrelv1.GetOverviewRequest) *petrelv1.Overview { return &petrelv1.Overview{} },
			Refusals: func(context.Context, *petrelv1.ListRefusalsRequest) *petrelv1.ListRefusalsResponse {
				return &petrelv1.ListRefusalsResponse{}
			},
			Log: func(context.Context, *petrelv1.ReadLogRequest) (*petrelv1.ReadLogResponse, error) {
				return &petrelv1.ReadLogResponse{}, nil
			},
			Sessions: func(context.Context, *petrelv1.ListSessionsRequest) *petrelv1.ListSessionsResponse {
				return &petrelv1.ListSessionsResponse{}
			},
			Preview: func(context.Context, *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
				return &petrelv1.PreviewLimitsResponse{}
			},
			Online:   func(im.Account) bool { return false },
			OnlineAt: func(im.Account) []im.Node { return nil },
			LastSeen: func(context.Context, im.Account) (uint64, error) { return 0, nil },
			Owner:    func(id im.ConvID) (im.Partition, im.Node) { return im.PartitionOf(id), "" },
			Limits: func(context.Context) *petrelv1.ClusterLimits {
				return &petrelv1.ClusterLimits{Nodes: []*petrelv1.NodeLimits{{Node: "n1", Limits: &petrelv1.ServerLimits{Connections: 7}}}, Silent: []string{"n2", "n4"}}
			},
			SetLimits: func(_ context.Context, l *petrelv1.ServerLimits) *petrelv1.PreviewLimitsResponse {
				return &petrelv1.PreviewLimitsResponse{
					Changes: []*petrelv1.LimitChange{{Name: "sends_per_s", From: 1, To: l.SendsPerS}, {Name: "sends_per_s", From: 2, To: l.SendsPerS, Nodes: []string{"n2", "n3"}}},
					Silent:  []string{"n4", "n5"},
				}
			},
		},
		Stats:        func() *petrelv1.Stats { return &petrelv1.Stats{Commits: 9} },
		CompactStore: func(context.Context) error { return nil },
		Checkpoint:   func(context.Context) (string, error) { return "checkpoint-x", nil },
		Redeemed:     func() { w.redeemed++ },
		BodyBytes:    func() int { return 1000 },
		PageSize:     func() int { return conv.MaxPage },
	})
	rest := http.NewServeMux()
	rest.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	w.http, w.dial = serveInMemory(w.t, bothDoors(w.srv, rest), func(s *http.Server) {
		s.Protocols = &http.Protocols{}
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// as is a client with an admin key.
func (w *world) as(key string) petrelv1connect.AdminServiceClient {
	return petrelv1connect.NewAdminServiceClient(w.http.Client(), w.http.URL, connect.WithInterceptors(connect.UnaryInterceptorFunc(
		func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
				r.Header().Set("Authorization", "Bearer "+key)
				return next(ctx, r)
			}
		})))
}

// reply is an answer to curl.
type reply struct {
	status int
	code   im.Code // of the header
	body   string
	err    struct {
		Code, Message, Hint, Docs string
		PetrelCode                im.Code
		RetryAfterMs              int64
		Details                   []struct{ Type, Value string }
	}
}

// curl posts a body to a method, with an Authorization header unless it is empty.
func (w *world) curl(service, method, auth, body string) reply {
	w.t.Helper()
	q, err := http.NewRequest(http.MethodPost, w.http.URL+"/petrel.v1."+service+"/"+method, strings.NewReader(body))
	w.must(err)
	q.Header.Set("Content-Type", "application/json")
	if auth != "" {
		q.Header.Set("Authorization", auth)
	}
	res, err := w.http.Client().Do(q)
	w.must(err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	w.must(err)
	return w.reply(res.StatusCode, res.Header, string(b))
}

func (w *world) reply(status int, h http.Header, body string) reply {
	w.t.Helper()
	r := reply{status: status, code: im.Code(h.Get(errorHeader)), body: body}
	if status >= 400 {
		if err := json.Unmarshal([]byte(body), &r.err); err != nil {
			w.t.Errorf("the error is %d %q: %v", status, body, err)
		}
	}
	return r
}

// detail is the first detail of an error.
func (r reply) detail(t *testing.T) *petrelv1.Error {
	t.Helper()
	e := &petrelv1.Error{}
	if len(r.err.Details) == 0 || r.err.Details[0].Type != "petrel.v1.Error" {
		t.Errorf("the error has the details %v", r.err.Details)
		return e
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(r.err.Details[0].Value, "="))
	if err == nil {
		err = proto.Unmarshal(b, e)
	}
	if err != nil {
		t.Error(err)
	}
	return e
}

// codeOf is the catalogue's code of a client's error.
func codeOf(err error) im.Code {
	if c, ok := errors.AsType[*connect.Error](err); ok {
		return im.Code(c.Meta().Get("Petrel-Error"))
	}
	return ""
}

func (w *world) wantCode(what string, err error, code im.Code) {
	w.t.Helper()
	if got := codeOf(err); got != code {
		w.t.Errorf("%s: code %q (%v), want %s", what, got, err, code)
	}
}

// makeUsers makes users of a tenant.
func (w *world) makeUsers(tenant string, users ...string) {
	w.t.Helper()
	_, err := w.admin.CreateUsers(context.Background(), connect.NewRequest(&petrelv1.CreateUsersRequest{Tenant: tenant, Users: users}))
	w.must(err)
}

func refs(role petrelv1.Role, users ...string) []*petrelv1.MemberRef {
	var all []*petrelv1.MemberRef
	for _, u := range users {
		all = append(all, &petrelv1.MemberRef{User: u, Role: role})
	}
	return all
}

func (w *world) group(tenant, key string, users ...string) *petrelv1.AdminCreateGroupResponse {
	w.t.Helper()
	r, err := w.admin.CreateGroup(context.Background(), connect.NewRequest(&petrelv1.AdminCreateGroupRequest{Tenant: tenant, Key: key, Title: "team", Members: refs(0, users...)}))
	w.must(err)
	return r.Msg
}

func (w *world) change(conv, request string, ch *petrelv1.MemberChange) (uint64, error) {
	r, err := w.admin.ChangeMembers(context.Background(), connect.NewRequest(&petrelv1.ChangeMembersRequest{Conv: conv, RequestId: request, Change: ch}))
	if err != nil {
		return 0, err
	}
	return r.Msg.Seq, nil
}

func (w *world) sendAs(from string, s *petrelv1.Send) (*petrelv1.Ack, error) {
	r, err := w.admin.SendAs(context.Background(), connect.NewRequest(&petrelv1.SendAsRequest{From: from, Send: s}))
	if err != nil {
		return nil, err
	}
	return r.Msg, nil
}

func (w *world) history(conv string) *petrelv1.HistoryPage {
	w.t.Helper()
	r, err := w.admin.GetHistory(context.Background(), connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: conv}}))
	w.must(err)
	return r.Msg
}
