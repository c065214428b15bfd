// Package crowd plays users who send, receive and read while a test kills, stops and cuts off their server, or
// nodes of their cluster. They write an op log. In the end the checker compares it with what the server has
// stored.
//
// PETREL_OPLOGS names a folder in which the op log of a failed run is kept.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
)

// SettleTime is how long messages may take until their outcome is known, and receivers until they have caught up,
// when the server is left alone.
const SettleTime = eventually.Limit

// Role is a user with the framing and the codec of their connections.
type Role struct {
	User    string
	Framing wire.Framing
	Codec   wire.Codec
}

func (r Role) String() string {
	return fmt.Sprintf("%s over %s %s", r.User, [...]string{"WebSocket", "TCP"}[r.Framing], r.Codec)
}

// Options name the users of a crowd, and what they do.
type Options struct {
	Seed      uint64
	Senders   []Role
	Receivers []Role // further devices, which keep up by events, syncs and history
	Readers   []Role // read random pages of history
	Outsider  Role   // sends to the first group, of which it is no member
	Groups    [][]string
	Directs   [][2]string

	// URL returns the address to which a device connects. It is called before every attempt.
	URL func(f wire.Framing, user, device string) string

	// Pace is the time between two messages of a sender, which then takes its conversations in turn; 0: it picks
	// them at random, and sends as many messages as the window takes.
	Pace time.Duration

	// ReadEvery is the time between two pages of a reader; 0: it reads without a pause.
	ReadEvery time.Duration

	// Patience is how long a sender waits for an answer on a connection that is silent, before it connects again
	// and repeats the send; 0: as long as the connection lasts.
	Patience time.Duration
}

// Crowd is one run.
type Crowd struct {
	Ledger *Ledger

	t      *testing.T
	o      Options
	seed   uint64
	key    string // of the operator
	tokens map[string]string

	senders   []*sender
	receivers []*receiver
	stop      context.CancelFunc
	running   sync.WaitGroup

	mu    sync.Mutex // tier 0; guards the ids in convs
	convs []*conv
}

// conv is a conversation of the run.
type conv struct {
	id      string // of a direct conversation it is known from the first ack on
	a, b    string // of a direct one
	members []string
}

// New makes a crowd, which does nothing before Start.
func New(t *testing.T, o Options) *Crowd {
	return &Crowd{t: t, o: o, seed: o.Seed, Ledger: newLedger(t, len(o.Senders)), tokens: map[string]string{}}
}

// Populate redeems a setup link, and makes the users and the conversations. base is the URL of a server for
// operators.
func (w *Crowd) Populate(base, link string) {
	w.t.Helper()
	_, code, _ := strings.Cut(strings.TrimSpace(link), "#k=")
	r, err := petrelv1connect.NewSetupServiceClient(httpClient(), base).Redeem(w.t.Context(),
		connect.NewRequest(&petrelv1.RedeemRequest{Code: code}))
	if err != nil {
		w.t.Fatalf("redeem the setup code: %v", err)
	}
	w.key = r.Msg.AdminKey
	admin := w.Admin(base)
	var users []string
	for _, list := range [][]Role{w.o.Senders, w.o.Receivers, w.o.Readers, {w.o.Outsider}} {
		for _, r := range list {
			if _, ok := w.tokens[r.User]; !ok {
				w.tokens[r.User] = ""
				users = append(users, r.User)
			}
		}
	}
	u, err := admin.CreateUsers(w.t.Context(), connect.NewRequest(&petrelv1.CreateUsersRequest{Users: users}))
	if err != nil {
		w.t.Fatalf("make users: %v", err)
	}
	for _, x := range u.Msg.Tokens {
		w.tokens[x.User] = x.Token
	}
	for i, members := range w.o.Groups {
		w.group(admin, fmt.Sprintf("group-%d", i), members)
	}
	for _, d := range w.o.Directs {
		c := &conv{a: d[0], b: d[1], members: []string{d[0], d[1]}}
		if d[0] == d[1] {
			c.members = c.members[:1]
		}
		w.convs = append(w.convs, c)
	}
}

func (w *Crowd) group(admin petrelv1connect.AdminServiceClient, key string, members []string) {
	w.t.Helper()
	q := &petrelv1.AdminCreateGroupRequest{Key: key}
	for _, m := range members {
		q.Members = append(q.Members, &petrelv1.MemberRef{User: m, Role: petrelv1.Role_ROLE_MEMBER})
	}
	r, err := admin.CreateGroup(w.t.Context(), connect.NewRequest(q))
	if err != nil {
		w.t.Fatalf("make group %s: %v", key, err)
	}
	w.convs = append(w.convs, &conv{id: r.Msg.Conv, members: members})
}

// Token returns the access token of a user of the run.
func (w *Crowd) Token(user string) string { return w.tokens[user] }

// AdminKey returns the operator's key, after Populate.
func (w *Crowd) AdminKey() string { return w.key }

// Group returns the conversation id of Options.Groups[i].
func (w *Crowd) Group(i int) string { return w.convs[i].id }

// Admin returns a client of the operator. base is the URL of a server for operators.
func (w *Crowd) Admin(base string) petrelv1connect.AdminServiceClient {
	return petrelv1connect.NewAdminServiceClient(httpClient(), base, connect.WithInterceptors(bearer(w.key)))
}

func httpClient() *http.Client {
	return &http.Client{Timeout: SettleTime, Transport: &http.Transport{DisableKeepAlives: true}}
}

func bearer(key string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+key)
			return next(ctx, r)
		}
	}
}

// Start starts all senders, receivers and readers, and the outsider. They go on until End.
func (w *Crowd) Start(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	for i, r := range w.o.Senders {
		s := newSender(w, i, r)
		w.senders = append(w.senders, s)
		w.running.Go(func() { s.run(ctx) })
	}
	for i, r := range w.o.Receivers {
		v := newReceiver(w, r, i)
		w.receivers = append(w.receivers, v)
		w.running.Go(func() { v.run(ctx) })
	}
	for i, r := range w.o.Readers {
		w.running.Go(func() { w.readHistory(ctx, r, i) })
	}
	w.running.Go(func() { w.intrude(ctx, w.o.Outsider) })
}

// End ends what Start began.
func (w *Crowd) End() {
	w.stop()
	w.running.Wait()
}

// idOf returns the id of a conversation, "" while it is not known.
func (w *Crowd) idOf(c *conv) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.id
}

// named records the id of a direct conversation, which an ack has named. Another id than before is a fault.
func (w *Crowd) named(c *conv, id string) {
	w.mu.Lock()
	was := c.id
	c.id = id
	w.mu.Unlock()
	if was != "" && was != id {
		w.Ledger.fault("the conversation of %s and %s was %s and is %s", c.a, c.b, was, id)
	}
}

// clientQueue is how many frames a client may queue for Recv: more than come while it reads history.
const clientQueue = 1 << 16

// dial connects as a role. It tries until the server is there. It returns nil when ctx ends, or when the server
// refuses the token, which is a fault.
func (w *Crowd) dial(ctx context.Context, r Role, device string) *wiretest.Conn {
	return w.dialAt(ctx, r, device, func(string) {})
}

// dialAt is dial, and calls at with the URL of the connection.
func (w *Crowd) dialAt(ctx context.Context, r Role, device string, at func(url string)) *wiretest.Conn {
	for ctx.Err() == nil {
		url := w.o.URL(r.Framing, r.User, device)
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		c, err := wiretest.Dial(one, wiretest.Options{URL: url, Codec: r.Codec, Token: w.tokens[r.User], Device: device,
			Queue: clientQueue})
		cancel()
		if err == nil {
			at(url)
			return c
		}
		if closed, ok := errors.AsType[*wiretest.Closed](err); ok && closed.Err != nil {
			if code := codeOf(closed.Err); code == "unauthenticated" {
				w.Ledger.fault("the token of %s is not known any more: %v", r.User, err)
				return nil
			}
		}
		Wait(ctx, 3*time.Millisecond)
	}
	return nil
}

// Storm connects n further devices at the same time, and closes each after its welcome. It returns how long the
// last one took.
func (w *Crowd) Storm(ctx context.Context, n int) time.Duration {
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		r := w.o.Senders[i%len(w.o.Senders)]
		wg.Go(func() {
			if c := w.dial(ctx, r, fmt.Sprintf("storm-%d", i)); c != nil {
				_ = c.Close() // it was there
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

// Intruder connects the outsider to url. The function that it returns sends to a group of which the outsider is
// no member: a server that answers no_conversation has decided something.
func (w *Crowd) Intruder(url string) func(ctx context.Context) error {
	w.t.Helper()
	c, err := wiretest.Dial(w.t.Context(), wiretest.Options{URL: url, Token: w.tokens[w.o.Outsider.User],
		Device: "intruder", Queue: clientQueue})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() }) // it may have ended
	return func(ctx context.Context) error {
		_, err := c.Send(ctx, &petrelv1.Send{Conv: w.convs[0].id,
			ClientMsgId: fmt.Sprintf("intruder-%d", time.Now().UnixNano()),
			Body:        &petrelv1.Send_Text{Text: "let me in"}})
		return err
	}
}

// Settle waits until the outcome of every message is known and every receiver has caught up, while the server is
// left alone. First it lets a short run go on until each conversation was written to.
func (w *Crowd) Settle() {
	w.t.Helper()
	unwritten := func(c *conv) bool { return w.idOf(c) == "" }
	// Audit says which one is missing
	Until(w.t.Context(), SettleTime, func() bool { return !slices.ContainsFunc(w.convs, unwritten) })
	for _, s := range w.senders {
		s.quiet.Store(true)
	}
	for _, s := range w.senders {
		if !Until(w.t.Context(), SettleTime, func() bool { return s.waiting.Load() == 0 }) {
			w.t.Errorf("%s has %d messages without an answer after %v", s.role, s.waiting.Load(), SettleTime)
		}
	}
	for _, v := range w.receivers {
		if !Until(w.t.Context(), SettleTime, v.caughtUp) {
			w.t.Errorf("%s has not got everything after %v: %s", v.role, SettleTime, v.missing())
		}
	}
}

// Wait waits for d or the end of ctx.
func Wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Until polls ok until it returns true. It returns false after d, or when ctx ends.
func Until(ctx context.Context, d time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(d)
	for !ok() {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		Wait(ctx, 5*time.Millisecond)
	}
	return true
}
