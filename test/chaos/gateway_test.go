package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/test/crowd"
)

// How long somebody may wait for an ack whose gateway is gone. Where the gateway also owns
// the conversation, another node has to take that over first.
const (
	leaveFrozen  = 6 * time.Second
	leaveKilled  = 6 * time.Second
	leaveDrained = time.Second
)

// passenger writes to themself with the Go SDK, and notes how long each ack takes.
type passenger struct {
	t      *testing.T
	client *petrel.Client

	mu    sync.Mutex // tier 0; guards the fields below
	at    string     // host:port to which the client has connected last
	worst time.Duration
	acked int
}

// board connects the outsider of the crowd, who writes until the test ends.
func (w *world) board() *passenger {
	w.t.Helper()
	p := &passenger{t: w.t}
	client, err := petrel.New(petrel.Options{
		URL: "ws://" + w.nodes[0].http, Token: petrel.StaticToken(w.crowd.Token("zoe")), Device: "passenger",
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				p.mu.Lock()
				p.at = addr
				p.mu.Unlock()
			}
			return conn, err
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.client = client
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.Run(ctx); err != nil {
			w.t.Errorf("the passenger: %v", err)
		}
	})
	running.Go(func() { p.write(ctx) })
	w.t.Cleanup(func() { stop(); running.Wait() })
	p.await(w)
	return p
}

func (p *passenger) write(ctx context.Context) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for i := 0; ctx.Err() == nil; i++ {
		begun := time.Now()
		o, err := p.client.Send(petrel.Draft{User: "zoe", Text: fmt.Sprint(i)})
		if err != nil {
			p.t.Errorf("send: %v", err)
			return
		}
		waiting.Go(func() {
			if _, err := o.Wait(ctx); err != nil {
				if ctx.Err() == nil {
					p.t.Errorf("message %s: %v", o.ID, err)
				}
				return
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.worst, p.acked = max(p.worst, time.Since(begun)), p.acked+1
		})
		crowd.Wait(ctx, 50*time.Millisecond)
	}
}

// await waits until the passenger has acks again, and nothing waits for one.
func (p *passenger) await(w *world) {
	w.t.Helper()
	p.mu.Lock()
	before := p.acked
	p.mu.Unlock()
	if !crowd.Until(w.t.Context(), time.Minute, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.acked > before+20
	}) {
		w.t.Error("the passenger has no acks for a minute")
	}
}

// gateway is the node to which the passenger is connected.
func (p *passenger) gateway(w *world) *node {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.http == p.at || n.tcp == p.at })
	if i < 0 {
		w.t.Fatalf("the passenger is at %s, which is no node", p.at)
	}
	return w.nodes[i]
}

// leave has something happen to the gateway of the passenger, times times, and compares the
// longest wait for an ack with limit.
func (w *world) leave(rng *rand.Rand, times int, name string, limit time.Duration, inject, mend func(n *node)) {
	w.t.Helper()
	p := w.board()
	var worst []time.Duration
	for range times {
		crowd.Wait(w.t.Context(), between(rng, 6*time.Second, 7*time.Second)) // the connection has lasted
		p.mu.Lock()
		p.worst = 0
		p.mu.Unlock()
		n := p.gateway(w)
		w.avoided.Store(n)
		inject(n)
		crowd.Wait(w.t.Context(), 8*time.Second)
		p.await(w)
		p.mu.Lock()
		worst = append(worst, p.worst)
		p.mu.Unlock()
		mend(n)
		w.avoided.Store(nil)
		w.awaitFeeds()
		if w.t.Failed() {
			return
		}
	}
	slices.Sort(worst)
	w.t.Logf("%s %d times: longest wait for an ack %v, median %v", name, len(worst), worst[len(worst)-1].Round(time.Millisecond), worst[len(worst)/2].Round(time.Millisecond))
	if worst[len(worst)-1] > limit {
		w.t.Errorf("%s: longest wait for an ack %v, want at most %v; all: %v", name, worst[len(worst)-1], limit, worst)
	}
}

// frozenGateway: a gateway stands still, and its sockets stay open.
func frozenGateway(w *world, rng *rand.Rand, times int) {
	w.leave(rng, times, "frozen gateway", leaveFrozen, func(n *node) { n.pause(true) }, func(n *node) { n.pause(false) })
}

// killedGateway: a gateway ends, and its sockets with it.
func killedGateway(w *world, rng *rand.Rand, times int) {
	w.leave(rng, times, "killed gateway", leaveKilled, func(n *node) { n.kill() }, func(n *node) { n.start() })
}

// drainedGateway: a gateway sends its clients away.
func drainedGateway(w *world, rng *rand.Rand, times int) {
	w.leave(rng, times, "drained gateway", leaveDrained, func(n *node) { n.end() }, func(n *node) { n.start() })
}
