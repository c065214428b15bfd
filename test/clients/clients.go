// Package clients has clients that write to one group and keep the entries that they get, while their server is
// put back to an earlier state. Some use the Go SDK. One was written from the protocol alone
// (test/foreign/python/device.py). In the end each of them must hold exactly what the server holds.
package clients

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/sdk/go/petrelv1/petrelv1connect"
	"github.com/petrel-im/petrel/test/crowd"
)

const (
	maxPending = 4 // unanswered messages of one client; with more it does not write
	writeEvery = 20 * time.Millisecond
	settleTime = eventually.Limit // for all answers, and until all clients hold the same
)

// Options name the clients, their servers and the group.
type Options struct {
	URLs    []string // ws://HOST:PORT, of each node
	Users   []string // have a client of the Go SDK each
	Foreign string   // the user of the device
	Group   string   // conversation id; all are members
	Token   func(user string) string
	Admin   func() petrelv1connect.AdminServiceClient // of a node that runs
}

// Clients are the clients of one test.
type Clients struct {
	Device *Device

	t       *testing.T
	o       Options
	writers []*writer
	load    atomic.Bool // the clients write
	writing sync.WaitGroup
}

// writer is a client of the Go SDK.
type writer struct {
	*petrel.Client
	user   string
	acked  atomic.Int64
	cancel context.CancelFunc // disconnects the client; nil: it is offline
	ran    chan struct{}      // closed when it is disconnected
}

// Start starts all clients, which write from then on, and waits until each of them has an ack.
func Start(t *testing.T, o Options) *Clients {
	t.Helper()
	c := &Clients{t: t, o: o}
	ctx, stop := context.WithCancel(t.Context())
	for i, user := range o.Users {
		w := &writer{Client: c.client(user, i), user: user}
		c.writers = append(c.writers, w)
		c.writing.Go(func() { c.write(ctx, w) })
	}
	t.Cleanup(func() { stop(); c.Offline(); c.writing.Wait() })
	c.Device = startDevice(t, deviceOptions{URLs: o.URLs, Token: o.Token(o.Foreign), Device: "device-" + o.Foreign,
		WaitMs: 100, MaxWaitMs: 1000})
	c.Online()
	c.Load(true)
	if !crowd.Until(t.Context(), settleTime, func() bool {
		return !slices.ContainsFunc(c.writers, func(w *writer) bool { return w.acked.Load() == 0 }) &&
			c.Device.Count().Acked > 0
	}) {
		t.Fatal("the clients do not get going")
	}
	return c
}

func (c *Clients) client(user string, i int) *petrel.Client {
	c.t.Helper()
	k, err := petrel.New(petrel.Options{
		URL: c.o.URLs[i%len(c.o.URLs)], Token: petrel.StaticToken(c.o.Token(user)), Device: fmt.Sprint(user, i),
		Store: petrel.NewMemory(), Keep: 1 << 20, Newest: 1 << 20,
		NetDial: (&net.Dialer{Timeout: time.Second}).DialContext,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

// write makes a client write to the group, a few messages at a time.
func (c *Clients) write(ctx context.Context, w *writer) {
	for n := 0; ctx.Err() == nil; n++ {
		crowd.Wait(ctx, writeEvery)
		if v, ok := w.Conversation(c.o.Group); !c.load.Load() || !ok || !v.Known ||
			len(w.Pending(c.o.Group)) > maxPending {
			continue
		}
		out, err := w.Send(petrel.Draft{Conv: c.o.Group, Text: fmt.Sprintf("%s %d", w.user, n)})
		if err != nil {
			c.t.Errorf("%s: %v", w.user, err)
			return
		}
		c.writing.Go(func() {
			if _, err := out.Wait(ctx); err == nil {
				w.acked.Add(1)
			} else if ctx.Err() == nil {
				c.t.Errorf("%s: message %s ended with %v", w.user, out.ID, err)
			}
		})
	}
}

// Load makes the clients write, or pause.
func (c *Clients) Load(on bool) {
	c.t.Helper()
	c.load.Store(on)
	if on {
		c.Device.do(map[string]any{"do": "write", "conv": c.o.Group, "everyMs": writeEvery.Milliseconds()}, nil)
	} else {
		c.Device.do(map[string]any{"do": "pause"}, nil)
	}
}

// Offline disconnects the clients of the Go SDK. They go on writing into their outboxes.
func (c *Clients) Offline() {
	for _, w := range c.writers {
		if w.cancel != nil {
			w.cancel()
			<-w.ran
			w.cancel = nil
		}
	}
}

// Online connects the clients of the Go SDK.
func (c *Clients) Online() {
	for _, w := range c.writers {
		if w.cancel != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background()) // Offline ends it
		ran := make(chan struct{})
		w.cancel, w.ran = cancel, ran
		go func() {
			defer close(ran)
			if err := w.Run(ctx); err != nil {
				c.t.Errorf("%s: %v", w.user, err)
			}
		}()
	}
}

// Acked returns how many messages of the clients of the Go SDK were acked.
func (c *Clients) Acked() (n int64) {
	for _, w := range c.writers {
		n += w.acked.Load()
	}
	return n
}

// AllAcked returns how many messages of all clients, the device included, were acked.
func (c *Clients) AllAcked() int64 { return c.Acked() + int64(c.Device.Count().Acked) }

// Pending returns the client message ids of all messages without an answer.
func (c *Clients) Pending() []string {
	c.t.Helper()
	return append(c.Device.Holds().Outbox, c.pending()...)
}

// AwaitLoss is called after the death of all servers. It waits until each client has noticed the death. Then the
// clients have read every ack that came before, so Pending has no message that was acked.
func (c *Clients) AwaitLoss() {
	c.t.Helper()
	eventually.True(c.t, "all clients have lost their connections", func() bool {
		state := c.Device.Count().State
		return state != "live" && state != "greeted" && !slices.ContainsFunc(c.writers,
			func(w *writer) bool { return w.Status().State == petrel.Live })
	})
}

// pending returns the unanswered messages of the clients of the Go SDK.
func (c *Clients) pending() (ids []string) {
	for _, w := range c.writers {
		for _, o := range w.Pending(c.o.Group) {
			if s, _, _, _ := o.State(); s == petrel.Sending {
				ids = append(ids, o.ID)
			}
		}
	}
	return ids
}

// Served waits until three more messages of each client are acked.
func (c *Clients) Served(when string) {
	c.t.Helper()
	begun, device := time.Now(), c.Device.Count().Acked
	var before []int64
	for _, w := range c.writers {
		before = append(before, w.acked.Load())
	}
	if !crowd.Until(c.t.Context(), settleTime, func() bool {
		for i, w := range c.writers {
			if w.acked.Load() < before[i]+3 {
				return false
			}
		}
		return c.Device.Count().Acked > device+2
	}) {
		c.t.Fatalf("some clients get no acks %s; the device: %+v", when, c.Device.Count())
	}
	c.t.Logf("%s: all are served after %v", when, time.Since(begun).Round(time.Millisecond))
}

// Settle makes the clients pause, and waits until every message has an answer.
func (c *Clients) Settle() {
	c.t.Helper()
	c.Load(false)
	if !crowd.Until(c.t.Context(), settleTime, func() bool {
		return c.Device.Count().Outbox == 0 &&
			len(c.pending()) == 0
	}) {
		c.t.Fatalf("some messages are never answered: %v; the device: %+v", c.Pending(), c.Device.Count())
	}
}

// Equal compares what each client holds with what the server holds. pending has the ids of messages that were
// under way before: the server must have each of them. Equal returns how many messages the server has.
func (c *Clients) Equal(pending []string) int {
	c.t.Helper()
	want, ids := c.stored()
	for _, id := range pending {
		if !ids[id] {
			c.t.Errorf("message %s was in an outbox, and the server does not have it", id)
		}
	}
	for _, w := range c.writers {
		c.same(w.user, want, func() []string {
			if v, _ := w.Conversation(c.o.Group); v.Have < v.Head {
				return nil
			}
			var list []string
			for _, m := range w.Messages(c.o.Group, 0, 0) {
				list = append(list, line(m.Message))
			}
			return list
		})
	}
	c.same("the device", want, func() []string { return c.Device.holds(c.o.Group) })
	return len(want)
}

func line(m *petrelv1.Message) string {
	return fmt.Sprintf("%d %s %s %s", m.Seq, m.From, m.ClientMsgId, m.GetText())
}

func (c *Clients) same(who string, want []string, held func() []string) {
	c.t.Helper()
	var got []string
	if crowd.Until(c.t.Context(), settleTime/3, func() bool { got = held(); return slices.Equal(got, want) }) {
		return
	}
	c.t.Errorf("%s holds %d messages, the server has %d, and they differ", who, len(got), len(want))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			c.t.Errorf("first: %q, want %q", got[i], want[i])
			return
		}
	}
}

// stored returns what the server holds, as the operator reads it, and the client message ids in it. It fails the
// test if one is there twice.
func (c *Clients) stored() (list []string, ids map[string]bool) {
	c.t.Helper()
	ids = map[string]bool{}
	admin := c.o.Admin()
	for more, after := true, uint64(0); more; {
		r, err := admin.GetHistory(c.t.Context(),
			connect.NewRequest(&petrelv1.AdminGetHistoryRequest{History: &petrelv1.GetHistory{Conv: c.o.Group,
				After: after}}))
		if err != nil {
			c.t.Fatalf("read the group after %d: %v", after, err)
		}
		for _, m := range r.Msg.Messages {
			if after++; m.Seq != after || ids[m.ClientMsgId] {
				c.t.Errorf("the server has %s where seq %d is expected", line(m), after)
			}
			ids[m.ClientMsgId] = true
			list = append(list, line(m))
		}
		if more = r.Msg.More; more && len(r.Msg.Messages) == 0 {
			c.t.Fatalf("read the group after %d: an empty page and more", after)
		}
	}
	return list, ids
}
