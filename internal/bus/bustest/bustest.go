// Package bustest decides whether an implementation is a bus.
package bustest

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
)

// wait bounds what a correct bus does at once.
const wait = 10 * time.Second

// Run tests the buses that join makes: each call adds one node to the same
// cluster. The nodes are called "a", "b", "c".
func Run(t *testing.T, join func(t *testing.T) func(im.Node) bus.Bus) {
	tests := map[string]func(t *testing.T, c *cluster){
		"ARequestIsAnsweredByItsSubject":    requestIsAnswered,
		"ANodeReachesItself":                reachesItself,
		"SendsOfOneSenderKeepTheirOrder":    sendsKeepOrder,
		"AnAbsentNodeIsAnError":             absentNode,
		"ARequestEndsWithItsContext":        requestEndsWithContext,
		"ANodeThatLeftIsNoPeer":             leftIsNoPeer,
		"APayloadMayBeReused":               payloadMayBeReused,
		"AMessageBeyondTheLimitIsRefused":   tooLarge,
		"ASubjectWithoutHandlerAnswersNone": noHandler,
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			c := &cluster{t: t, join: join(t), stop: map[im.Node]func(){}}
			t.Cleanup(c.close)
			f(t, c)
		})
	}
}

type cluster struct {
	t    *testing.T
	join func(im.Node) bus.Bus
	wg   sync.WaitGroup
	stop map[im.Node]func()
}

func (c *cluster) node(n im.Node, handlers map[bus.Subject]func(im.Node, []byte) []byte) bus.Bus {
	b := c.join(n)
	for s, h := range handlers {
		b.Handle(s, h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.stop[n] = func() { cancel(); <-done }
	c.wg.Go(func() {
		defer close(done)
		if err := b.Run(ctx); err != nil {
			c.t.Errorf("run %s: %v", n, err)
		}
	})
	return b
}

func (c *cluster) close() {
	for _, stop := range c.stop {
		stop()
	}
	c.wg.Wait()
}

func echo(from im.Node, p []byte) []byte { return append([]byte(from+":"), p...) }

func ask(t *testing.T, b bus.Bus, to im.Node, s bus.Subject, p string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	r, err := b.Request(ctx, to, s, []byte(p))
	if err != nil {
		t.Fatalf("request %s of %s: %v", s, to, err)
	}
	return string(r)
}

func requestIsAnswered(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	c.node("b", map[bus.Subject]func(im.Node, []byte) []byte{"echo": echo, "other": func(im.Node, []byte) []byte { return []byte("no") }})
	if got := ask(t, a, "b", "echo", "hi"); got != "a:hi" {
		t.Errorf("answer %q, want %q", got, "a:hi")
	}
}

func reachesItself(t *testing.T, c *cluster) {
	a := c.node("a", map[bus.Subject]func(im.Node, []byte) []byte{"echo": echo})
	if got := ask(t, a, a.Self(), "echo", "hi"); got != "a:hi" {
		t.Errorf("answer %q, want %q", got, "a:hi")
	}
}

func sendsKeepOrder(t *testing.T, c *cluster) {
	const n = 500
	got := make(chan uint32, 2*n)
	c.node("b", map[bus.Subject]func(im.Node, []byte) []byte{
		"n":   func(_ im.Node, p []byte) []byte { got <- binary.BigEndian.Uint32(p); return nil },
		"end": echo,
	})
	a := c.node("a", nil)
	for i := range uint32(n) {
		if err := a.Send("b", "n", binary.BigEndian.AppendUint32(nil, i)); err != nil {
			t.Fatal(err)
		}
		if i%100 == 99 {
			ask(t, a, "b", "end", "") // what was sent before it has arrived, so nothing is lost to a full queue
		}
	}
	close(got)
	next := uint32(0)
	for i := range got {
		if i < next {
			t.Fatalf("message %d came behind %d", i, next-1)
		}
		next = i + 1
	}
	if next != n {
		t.Errorf("the last message is %d, want %d", next-1, n-1)
	}
}

func absentNode(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	if err := a.Send("nobody", "s", nil); !errors.Is(err, bus.ErrNoNode) {
		t.Errorf("Send: %v, want ErrNoNode", err)
	}
	if _, err := a.Request(context.Background(), "nobody", "s", nil); !errors.Is(err, bus.ErrNoNode) {
		t.Errorf("Request: %v, want ErrNoNode", err)
	}
}

func requestEndsWithContext(t *testing.T, c *cluster) {
	hold := make(chan struct{})
	a := c.node("a", nil)
	c.node("b", map[bus.Subject]func(im.Node, []byte) []byte{"slow": func(im.Node, []byte) []byte { <-hold; return nil }})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := a.Request(ctx, "b", "slow", nil)
	close(hold)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Request: %v, want context.Canceled", err)
	}
}

func leftIsNoPeer(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	c.node("b", map[bus.Subject]func(im.Node, []byte) []byte{"echo": echo})
	ask(t, a, "b", "echo", "")
	if p := a.Peers(); len(p) != 1 || p[0] != "b" {
		t.Fatalf("peers %v, want [b]", p)
	}
	c.stop["b"]()
	if p := a.Peers(); len(p) != 0 {
		t.Errorf("peers %v after b has left", p)
	}
	if _, err := a.Request(context.Background(), "b", "echo", nil); !errors.Is(err, bus.ErrNoNode) {
		t.Errorf("Request: %v, want ErrNoNode", err)
	}
}

func payloadMayBeReused(t *testing.T, c *cluster) {
	got := make(chan string, 2)
	hold := make(chan struct{})
	c.node("b", map[bus.Subject]func(im.Node, []byte) []byte{"s": func(_ im.Node, p []byte) []byte { <-hold; got <- string(p); return nil }})
	a := c.node("a", nil)
	p := []byte("first")
	if err := a.Send("b", "s", p); err != nil {
		t.Fatal(err)
	}
	copy(p, "xxxxx")
	close(hold)
	if s := <-got; s != "first" {
		t.Errorf("payload %q, want %q", s, "first")
	}
}

func tooLarge(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	if err := a.Send("a", "s", make([]byte, bus.MaxMessage+1)); err == nil {
		t.Error("a message beyond the limit was taken")
	}
}

func noHandler(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	if got := ask(t, a, "a", "nothing", "x"); got != "" {
		t.Errorf("answer %q, want none", got)
	}
}
