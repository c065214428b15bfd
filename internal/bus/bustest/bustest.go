// Package bustest has the tests that every implementation of bus.Bus must pass.
package bustest

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/bus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

var tests = map[string]func(t *testing.T, c *cluster){
	"ARequestIsAnsweredByItsSubject":    requestIsAnswered,
	"ANodeReachesItself":                reachesItself,
	"SendsOfOneSenderKeepTheirOrder":    sendsKeepOrder,
	"AnAbsentNodeIsAnError":             absentNode,
	"ARequestEndsWithItsContext":        requestEndsWithContext,
	"ANodeThatLeftIsNoPeer":             leftIsNoPeer,
	"APayloadMayBeReused":               payloadMayBeReused,
	"AMessageBeyondTheLimitIsRefused":   tooLarge,
	"ASubjectWithoutHandlerAnswersNone": noHandler,
	"AnAnswerMayComeLater":              answerLater,
	"AnAnswerBeyondTheLimitIsAnError":   answerTooLarge,
	"ASendHasNoAnswer":                  sendHasNoAnswer,
}

// Run tests an implementation of a bus. join begins a new cluster; the function that it returns
// adds a node, "a" or "b". Clusters run in parallel, so join must keep their nodes apart. A bus may
// lose messages in transit when a connection breaks; the tests send them again.
func Run(t *testing.T, join func(t *testing.T) func(im.Node) bus.Bus) {
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a node on sockets listens for others before it serves
			test(t, join, true, f)
		})
	}
}

// RunInBubbles is Run for buses without sockets, each cluster in a bubble of testing/synctest.
// Nothing may be lost.
func RunInBubbles(t *testing.T, join func(t *testing.T) func(im.Node) bus.Bus) {
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, join, false, f) })
		})
	}
}

func test(t *testing.T, join func(t *testing.T) func(im.Node) bus.Bus, loses bool, f func(t *testing.T, c *cluster)) {
	c := &cluster{t: t, join: join(t), loses: loses, stop: map[im.Node]func(){}}
	t.Cleanup(c.close)
	f(t, c)
}

type cluster struct {
	t     *testing.T
	join  func(im.Node) bus.Bus
	loses bool // connections may end
	wg    sync.WaitGroup
	stop  map[im.Node]func()
}

func (c *cluster) node(n im.Node, handlers map[bus.Subject]bus.Handler) bus.Bus {
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

// sees waits until node n, whose bus is b, has its peers: nodes of other
// processes need a moment to find each other.
func (c *cluster) sees(n im.Node, b bus.Bus, peers ...im.Node) {
	c.t.Helper()
	if !eventually.Holds(func() bool { return slices.Equal(b.Peers(), peers) }) {
		c.t.Fatalf("node %s has the peers %v, want %v", n, b.Peers(), peers)
	}
}

func (c *cluster) close() {
	for _, stop := range c.stop {
		stop()
	}
	c.wg.Wait()
}

var answer = bus.Answering

func echo(from im.Node, p []byte) []byte { return append([]byte(from+":"), p...) }

// ask returns the answer to a request.
func (c *cluster) ask(b bus.Bus, to im.Node, s bus.Subject, p string) string {
	c.t.Helper()
	request := func(ctx context.Context) ([]byte, error) { return b.Request(ctx, to, s, []byte(p)) }
	if c.loses {
		return string(eventually.Answer(c.t, "an answer to "+string(s), request))
	}
	r, err := request(eventually.Context(c.t))
	if err != nil {
		c.t.Fatalf("request %s of %s: %v", s, to, err)
	}
	return string(r)
}

// send sends until arrived returns true, once where nothing is lost.
func (c *cluster) send(what string, send func() error, arrived func() bool) {
	c.t.Helper()
	sent := false
	eventually.True(c.t, what, func() bool {
		if !sent || c.loses {
			if err := send(); err != nil && !c.loses {
				c.t.Fatal(err)
			}
			sent = true
		}
		return arrived()
	})
}

func requestIsAnswered(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	c.node("b", map[bus.Subject]bus.Handler{"echo": answer(echo),
		"other": answer(func(im.Node, []byte) []byte { return []byte("no") })})
	c.sees("a", a, "b")
	if got := c.ask(a, "b", "echo", "hi"); got != "a:hi" {
		t.Errorf("answer %q, want %q", got, "a:hi")
	}
}

func reachesItself(t *testing.T, c *cluster) {
	got := make(chan string, 1)
	a := c.node("a", map[bus.Subject]bus.Handler{
		"echo": answer(echo),
		"s":    func(from im.Node, p []byte, _ func([]byte)) { got <- string(from) + ":" + string(p) },
	})
	if got := c.ask(a, a.Self(), "echo", "hi"); got != "a:hi" {
		t.Errorf("answer %q, want %q", got, "a:hi")
	}
	if err := a.Send(a.Self(), "s", []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if s := eventually.Receive(t, "the message", got); s != "a:hi" {
		t.Errorf("message %q, want %q", s, "a:hi")
	}
}

func sendsKeepOrder(t *testing.T, c *cluster) {
	const n = 500
	got := make(chan uint32, 100*n)
	c.node("b", map[bus.Subject]bus.Handler{
		"n":   func(_ im.Node, p []byte, _ func([]byte)) { got <- binary.BigEndian.Uint32(p) },
		"end": answer(echo),
	})
	a := c.node("a", nil)
	c.sees("a", a, "b")
	for i := range uint32(n) {
		if err := a.Send("b", "n", binary.BigEndian.AppendUint32(nil, i)); err != nil && !c.loses {
			t.Fatal(err)
		}
		if i%100 == 99 {
			c.ask(a, "b", "end", "") // all earlier messages have arrived before it, so nothing is lost to a full queue
		}
	}
	next := uint32(0)
	receive := func() bool {
		for range len(got) {
			i := <-got
			if i < next {
				t.Fatalf("message %d came behind %d", i, next-1)
			}
			next = i + 1
		}
		return next > n
	}
	receive()
	if next != n && !c.loses {
		t.Errorf("the last message is %d, want %d", next-1, n-1)
	}
	last := uint32(n - 1)
	c.send("a message after all others",
		func() error { last++; return a.Send("b", "n", binary.BigEndian.AppendUint32(nil, last)) }, receive)
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
	arrived := make(chan struct{}, 2)
	a := c.node("a", nil)
	c.node("b", map[bus.Subject]bus.Handler{"slow": func(_ im.Node, _ []byte, reply func([]byte)) {
		arrived <- struct{}{}
		<-hold
		reply(nil)
	}})
	c.sees("a", a, "b")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-arrived:
		case <-eventually.Context(t).Done(): // the request is lost
		}
		cancel()
	}()
	_, err := a.Request(ctx, "b", "slow", nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Request: %v, want context.Canceled", err)
	}
	_, err = a.Request(ctx, "b", "slow", nil)
	close(hold)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Request that begins too late: %v, want context.Canceled", err)
	}
}

func leftIsNoPeer(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	c.node("b", map[bus.Subject]bus.Handler{"echo": answer(echo)})
	c.sees("a", a, "b")
	c.ask(a, "b", "echo", "")
	c.stop["b"]()
	c.sees("a", a)
	if _, err := a.Request(context.Background(), "b", "echo", nil); !errors.Is(err, bus.ErrNoNode) {
		t.Errorf("Request: %v, want ErrNoNode", err)
	}
}

func payloadMayBeReused(t *testing.T, c *cluster) {
	got := make(chan string, 2)
	var hold sync.Mutex
	c.node("b", map[bus.Subject]bus.Handler{"s": func(_ im.Node, p []byte, _ func([]byte)) {
		hold.Lock()
		defer hold.Unlock()
		select {
		case got <- string(p):
		default:
		}
	}})
	a := c.node("a", nil)
	c.sees("a", a, "b")
	c.send("the message", func() error {
		hold.Lock()
		defer hold.Unlock()
		p := []byte("first")
		defer copy(p, "xxxxx")
		return a.Send("b", "s", p)
	}, func() bool { return len(got) > 0 })
	if s := <-got; s != "first" {
		t.Errorf("payload %q, want %q", s, "first")
	}
}

func tooLarge(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	if err := a.Send("a", "s", make([]byte, bus.MaxMessage+1)); !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("Send: %v, want ErrTooLarge", err)
	}
	if _, err := a.Request(context.Background(), "a", "s", make([]byte, bus.MaxMessage+1)); !errors.Is(err,
		bus.ErrTooLarge) {
		t.Errorf("Request: %v, want ErrTooLarge", err)
	}
}

func noHandler(t *testing.T, c *cluster) {
	a := c.node("a", nil)
	if got := c.ask(a, "a", "nothing", "x"); got != "" {
		t.Errorf("answer %q, want none", got)
	}
}

// A handler that has returned without an answer lets the next message in, and
// answers from another goroutine; answers may change places.
func answerLater(t *testing.T, c *cluster) {
	type asked struct {
		p     string
		reply func([]byte)
	}
	got := make(chan asked, 2)
	c.node("b", map[bus.Subject]bus.Handler{"later": func(_ im.Node, p []byte, reply func([]byte)) {
		got <- asked{string(p), reply}
	}})
	a := c.node("a", nil)
	c.sees("a", a, "b")
	var wg sync.WaitGroup
	for _, p := range []string{"one", "two"} {
		wg.Go(func() {
			if r := c.ask(a, "b", "later", p); r != p+"!" {
				t.Errorf("answer %q to %q", r, p)
			}
		})
	}
	first, second := eventually.Receive(t, "a question", got), eventually.Receive(t, "the other question", got)
	second.reply([]byte(second.p + "!"))
	first.reply([]byte(first.p + "!"))
	answered := make(chan struct{})
	go func() { wg.Wait(); close(answered) }()
	for {
		select {
		case again := <-got: // its answer was lost
			again.reply([]byte(again.p + "!"))
		case <-answered:
			return
		}
	}
}

func answerTooLarge(t *testing.T, c *cluster) {
	c.node("b", map[bus.Subject]bus.Handler{
		"big":  answer(func(im.Node, []byte) []byte { return make([]byte, bus.MaxMessage+1) }),
		"full": answer(func(im.Node, []byte) []byte { return make([]byte, bus.MaxMessage) }),
	})
	a := c.node("a", nil)
	c.sees("a", a, "b")
	var err error
	eventually.Answer(t, "the error", func(ctx context.Context) (bool, error) {
		_, err = a.Request(ctx, "b", "big", nil)
		if c.loses && !errors.Is(err, bus.ErrTooLarge) {
			return false, err
		}
		return true, nil
	})
	if !errors.Is(err, bus.ErrTooLarge) {
		t.Errorf("Request: %v, want ErrTooLarge", err)
	}
	if n := len(c.ask(a, "b", "full", string(make([]byte, bus.MaxMessage)))); n != bus.MaxMessage {
		t.Errorf("an answer of the largest size has %d bytes", n)
	}
}

func sendHasNoAnswer(t *testing.T, c *cluster) {
	var plain, replied atomic.Int64
	c.node("b", map[bus.Subject]bus.Handler{"s": func(_ im.Node, _ []byte, reply func([]byte)) {
		if reply == nil {
			plain.Add(1)
		} else {
			replied.Add(1)
		}
	}})
	a := c.node("a", nil)
	c.sees("a", a, "b")
	c.send("the message", func() error { return a.Send("b", "s", []byte("x")) },
		func() bool { return plain.Load()+replied.Load() > 0 })
	if replied.Load() > 0 {
		t.Error("a Send has a reply")
	}
}
