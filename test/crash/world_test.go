package crash

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/client"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// world is one run.
type world struct {
	t      *testing.T
	seed   uint64
	server *server
	ledger *ledger
	admin  petrelv1connect.AdminServiceClient
	tokens map[string]string

	senders   []*sender
	receivers []*receiver

	mu    sync.Mutex // tier 0; guards convs
	convs []*conv
}

// conv is a conversation of the run.
type conv struct {
	id      string // of a direct one known from the first ack on
	a, b    string // of a direct one
	members []string
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, seed: seed, server: newServer(t), ledger: newLedger(), tokens: map[string]string{}}
}

// populate redeems the setup link and makes users and conversations.
func (w *world) populate() {
	w.t.Helper()
	link, err := os.ReadFile(filepath.Join(w.server.dir, "setup-link"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, code, _ := strings.Cut(strings.TrimSpace(string(link)), "#k=")
	h, base := &http.Client{Timeout: settleTime}, "http://"+w.server.http
	r, err := petrelv1connect.NewSetupServiceClient(h, base).Redeem(w.t.Context(), connect.NewRequest(&petrelv1.RedeemRequest{Code: code}))
	if err != nil {
		w.t.Fatalf("redeem the setup code: %v", err)
	}
	w.admin = petrelv1connect.NewAdminServiceClient(h, base, connect.WithInterceptors(bearer(r.Msg.AdminKey)))
	users := []string{"ann", "ben", "cat", "dan", "eve", "fay", "gus", "hal", "zoe"}
	u, err := w.admin.CreateUsers(w.t.Context(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: users}))
	if err != nil {
		w.t.Fatalf("make users: %v", err)
	}
	for _, x := range u.Msg.Tokens {
		w.tokens[x.User] = x.Token
	}
	w.group("all", "ann", "ben", "cat", "dan", "eve", "fay", "gus", "hal")
	w.group("some", "ann", "ben", "gus", "eve")
	w.group("few", "cat", "hal", "fay", "gus")
	w.convs = append(w.convs,
		&conv{a: "ann", b: "gus", members: []string{"ann", "gus"}}, &conv{a: "ben", b: "ann", members: []string{"ann", "ben"}},
		&conv{a: "eve", b: "hal", members: []string{"eve", "hal"}}, &conv{a: "dan", b: "dan", members: []string{"dan"}},
	)
}

func (w *world) group(key string, members ...string) {
	w.t.Helper()
	q := &petrelv1.CreateConversationRequest{Key: key}
	for _, m := range members {
		q.Members = append(q.Members, &petrelv1.MemberRef{User: m, Role: petrelv1.Role_ROLE_MEMBER})
	}
	r, err := w.admin.CreateConversation(w.t.Context(), connect.NewRequest(q))
	if err != nil {
		w.t.Fatalf("make group %s: %v", key, err)
	}
	w.convs = append(w.convs, &conv{id: r.Msg.Conv, members: members})
}

func bearer(key string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+key)
			return next(ctx, r)
		}
	}
}

// idOf is the id of a conversation, "" while it is not known.
func (w *world) idOf(c *conv) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.id
}

// named notes the id that an ack gave a direct conversation.
func (w *world) named(c *conv, id string) {
	w.mu.Lock()
	was := c.id
	c.id = id
	w.mu.Unlock()
	if was != "" && was != id {
		w.ledger.note(&w.ledger.changed, "the conversation of %s and %s was %s and is %s", c.a, c.b, was, id)
	}
}

// clientQueue is how many frames a client may hold that it has not looked at:
// more than come while it reads history.
const clientQueue = 1 << 16

// dial connects as a role, trying until the server is there or ctx ends.
func (w *world) dial(ctx context.Context, r role, device string) *client.Conn {
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		c, err := client.Dial(one, client.Options{URL: w.server.url(r.framing), Codec: r.codec, Token: w.tokens[r.user], Device: device, Queue: clientQueue})
		cancel()
		if err == nil {
			return c
		}
		if closed, ok := errors.AsType[*client.Closed](err); ok && closed.Err != nil {
			if code := codeOf(closed.Err); code == "unauthenticated" {
				w.ledger.note(&w.ledger.lost, "the token of %s is not known any more: %v", r.user, err)
				return nil
			}
		}
		wait(ctx, 3*time.Millisecond)
	}
	return nil
}

// settle lets every message find its fate and every receiver catch up, with
// the server left alone.
func (w *world) settle() {
	w.t.Helper()
	for _, s := range w.senders {
		s.quiet.Store(true)
	}
	for _, s := range w.senders {
		if !until(w.t.Context(), settleTime, func() bool { return s.waiting.Load() == 0 }) {
			w.t.Errorf("%s has %d messages without an answer after %v", s.role, s.waiting.Load(), settleTime)
		}
	}
	for _, v := range w.receivers {
		if !until(w.t.Context(), settleTime, v.caughtUp) {
			w.t.Errorf("%s has not got everything after %v: %s", v.role, settleTime, v.missing())
		}
	}
}
