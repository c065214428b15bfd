// Package passenger has clients of the Go SDK and of the TypeScript SDK that send messages, and records how long
// each ack takes and how often they had to connect. Tests break the servers and the links under them.
package passenger

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
	"github.com/petrel-im/petrel/test/crowd"
)

// Options say who sends, to whom, over which URL, and how much.
type Options struct {
	Name  string // name of the passenger, in errors; unique within a Node process
	URL   string // ws://HOST:PORT, where it connects first
	Token string
	To    []string // users, in turn

	Count int           // of messages; 0: until it is stopped
	Every time.Duration // between two messages; 0: all at once, so Count says how many
	Bytes int           // of each text
	Reads bool          // it reads pages of history too, at the pace of Every

	Protobuf bool // the Go SDK speaks protobuf instead of JSON
}

// Passenger is one client. It ends with the test.
type Passenger struct {
	Name string

	t    *testing.T
	stop func() // called once

	mu     sync.Mutex // tier 0; guards the fields below
	at     []string   // host:port of each connection, in their order
	sent   int
	acked  int
	since  int // acked since the newest connection
	worst  time.Duration
	timers int // that have fired
	failed error
}

// Connections returns host:port of each connection so far, also of those that were opened in vain.
func (p *Passenger) Connections() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[:len(p.at):len(p.at)]
}

// Acked returns how many messages have an ack, in all and since the newest connection was opened, and how many
// have none yet.
func (p *Passenger) Acked() (all, since, without int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked, p.since, p.sent - p.acked
}

// Longest returns the longest wait of a message for its ack, and sets it to 0.
func (p *Passenger) Longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.worst
	p.worst = 0
	return d
}

// Timers returns how many timers had fired when the client was stopped; 0 for the Go SDK.
func (p *Passenger) Timers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.timers
}

// Stop ends the passenger. It does not wait for missing acks.
func (p *Passenger) Stop() {
	p.t.Helper()
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		p.t.Errorf("%s: %v", p.Name, p.failed)
	}
}

func (p *Passenger) connected(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.since = append(p.at, addr), 0
}

func (p *Passenger) sentOne() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
}

func (p *Passenger) ackedAfter(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acked++
	p.since++
	p.worst = max(p.worst, d)
}

func (p *Passenger) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
}

// Go starts a client of the Go SDK in this process.
func Go(t *testing.T, o Options) *Passenger {
	t.Helper()
	p := &Passenger{Name: o.Name, t: t}
	client, err := petrel.New(petrel.Options{
		URL: o.URL, Token: petrel.StaticToken(o.Token), Device: o.Name, JSON: !o.Protobuf,
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				p.connected(addr)
			}
			return conn, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := client.Run(ctx); err != nil {
			p.fail(fmt.Errorf("run: %w", err))
		}
	})
	running.Go(func() {
		var waiting sync.WaitGroup
		defer waiting.Wait()
		for i := 0; ctx.Err() == nil && (o.Count == 0 || i < o.Count); i++ {
			begun := time.Now()
			out, err := client.Send(petrel.Draft{User: o.To[i%len(o.To)], Text: strings.Repeat("x", max(1, o.Bytes))})
			if err != nil {
				p.fail(fmt.Errorf("send: %w", err))
				return
			}
			p.sentOne()
			waiting.Go(func() {
				if _, err := out.Wait(ctx); err == nil {
					p.ackedAfter(time.Since(begun))
				} else if ctx.Err() == nil {
					p.fail(fmt.Errorf("message %s: %w", out.ID, err))
				}
			})
			if o.Every > 0 {
				crowd.Wait(ctx, o.Every)
			}
		}
	})
	running.Go(func() {
		for o.Reads && ctx.Err() == nil {
			crowd.Wait(ctx, o.Every)
			conv := client.Direct(o.To[0])
			if conv == "" {
				continue // nothing is stored yet
			}
			if _, err := client.History(ctx, &petrelv1.GetHistory{Conv: conv, Limit: 10}); err != nil &&
				ctx.Err() == nil {
				p.fail(fmt.Errorf("read: %w", err))
				return
			}
		}
	})
	p.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(p.Stop)
	return p
}
