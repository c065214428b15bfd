package passenger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/imtest/eventually"
)

// Node is a Node process with clients of the TypeScript SDK. It ends with the test.
type Node struct {
	t *testing.T

	mu         sync.Mutex // tier 0; guards the fields below
	commands   *json.Encoder
	passengers map[string]*Passenger
	ended      map[string]chan struct{} // closed when the passenger has ended
}

// command is a line that the process reads: sdk/ts/test/passenger.ts.
type command struct {
	Begin *begin `json:"begin,omitempty"`
	End   string `json:"end,omitempty"` // a name
}

type begin struct {
	Name    string   `json:"name"`
	URL     string   `json:"url"`
	Token   string   `json:"token"`
	To      []string `json:"to"`
	Count   int      `json:"count"`
	EveryMs int64    `json:"everyMs"`
	Bytes   int      `json:"bytes"`
	Reads   bool     `json:"reads"`
}

// event is a line that the process prints.
type event struct {
	Name    string   `json:"name"`
	At      string   `json:"at"`      // it has connected to this host:port
	Sent    bool     `json:"sent"`    // it has sent a message
	AckedMs *float64 `json:"ackedMs"` // a message got its ack, after this time
	Failed  string   `json:"failed"`
	Ended   bool     `json:"ended"`
	Timers  int      `json:"timers"` // that have fired, with Ended
}

// StartNode starts a process without clients.
func StartNode(t *testing.T) *Node {
	t.Helper()
	sdk, err := filepath.Abs("../../sdk/ts")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sdk, "node_modules", "esbuild")); err != nil {
		t.Fatal("the packages of sdk/ts are missing; run `make test`, or: npm ci --prefix sdk/ts")
	}
	cmd := exec.Command("node", "scripts/run.mjs", "test/passenger.ts")
	cmd.Dir, cmd.Stderr = sdk, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := &Node{t: t, commands: json.NewEncoder(stdin), passengers: map[string]*Passenger{},
		ended: map[string]chan struct{}{}}
	over := make(chan error, 1)
	go func() {
		err := n.read(stdout)
		over <- errors.Join(err, cmd.Wait())
	}()
	t.Cleanup(func() {
		_ = stdin.Close() // it ends then
		if err := eventually.Receive(t, "the Node process ends", over); err != nil {
			t.Errorf("the Node process: %v", err)
		}
	})
	return n
}

// Passenger starts a client of the TypeScript SDK.
func (n *Node) Passenger(o Options) *Passenger {
	n.t.Helper()
	p, ended := &Passenger{Name: o.Name, t: n.t}, make(chan struct{})
	n.mu.Lock()
	n.passengers[o.Name], n.ended[o.Name] = p, ended
	n.mu.Unlock()
	n.command(command{Begin: &begin{Name: o.Name, URL: o.URL, Token: o.Token, To: o.To, Count: o.Count,
		EveryMs: o.Every.Milliseconds(), Bytes: max(1, o.Bytes), Reads: o.Reads}})
	p.stop = sync.OnceFunc(func() {
		n.command(command{End: o.Name})
		eventually.Receive(n.t, o.Name+" ends", ended)
	})
	n.t.Cleanup(p.Stop)
	return p
}

func (n *Node) command(c command) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.commands.Encode(c); err != nil {
		n.t.Fatalf("tell the Node process: %v", err)
	}
}

// read records the events that the process prints, until it ends.
func (n *Node) read(from io.Reader) error {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		n.mu.Lock()
		p, ended := n.passengers[e.Name], n.ended[e.Name]
		n.mu.Unlock()
		switch {
		case p == nil:
			return fmt.Errorf("line %q is of nobody", lines.Text())
		case e.At != "":
			p.connected(e.At)
		case e.Sent:
			p.sentOne()
		case e.AckedMs != nil:
			p.ackedAfter(time.Duration(*e.AckedMs * float64(time.Millisecond)))
		case e.Failed != "":
			p.fail(errors.New(e.Failed))
		case e.Ended:
			p.mu.Lock()
			p.timers = e.Timers
			p.mu.Unlock()
			close(ended)
		}
	}
	return lines.Err()
}
