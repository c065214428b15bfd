//go:build linux

package way

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/test/way/record"
)

// resultFile names the environment's variable with the file that TestOneMessage
// writes what it has seen to.
const resultFile = "PETREL_WAY_RESULT"

const (
	warmUp  = 5  // messages before the first one that is watched
	watched = 20 // messages that are watched
	quiet   = 4  // looks, of which the first are 15 ms apart, between which nothing is called: nothing follows any more
)

// recorded is what TestOneMessage has seen.
type recorded struct {
	Idle     [][]record.Call // before each message
	Messages [][]record.Call
}

// TestOneMessage sends messages to a friend who is online. In a server that is
// built for it, it notes what each of them calls.
func TestOneMessage(t *testing.T) {
	server := imtest.Start(t, imtest.Options{})
	tokens := server.Users("", "alice", "bob")
	url := server.URL(wire.WebSocket) + "/v1/ws"
	alice, bob := dial(t, url, tokens[0]), dial(t, url, tokens[1])
	var seen recorded
	for n := range warmUp + watched {
		watch := n >= warmUp
		if watch {
			record.Start()
			settle(t)
			seen.Idle = append(seen.Idle, record.Stop())
			record.Start()
		}
		text := fmt.Sprintf("message %d", n)
		alice.write(map[string]any{"id": n + 2, "send": map[string]any{"user": "bob", "clientMsgId": text, "after": n, "text": text}})
		bob.await(func(f frame) bool {
			return len(f.Events.Messages) == 1 && f.Events.Messages[0].Text == text && f.Events.Messages[0].From == "alice"
		})
		alice.await(func(f frame) bool { return f.Ack.Seq == fmt.Sprint(n+1) })
		if watch {
			settle(t)
			seen.Messages = append(seen.Messages, record.Stop())
		}
	}
	if name := os.Getenv(resultFile); name != "" {
		b, err := json.Marshal(seen)
		if err == nil {
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// settle returns when nothing is called any more.
func settle(t *testing.T) {
	t.Helper()
	last, same := -1, 0
	eventually.True(t, "nothing is called any more", func() bool {
		now := record.Len()
		if same++; now != last {
			last, same = now, 0
		}
		return same == quiet
	})
}

// client is a plain WebSocket client.
type client struct {
	t    *testing.T
	conn net.Conn
	rw   io.ReadWriter
}

// frame is what the test reads of a frame of the server.
type frame struct {
	Welcome *struct{}
	Ack     struct{ Seq string }
	Events  struct {
		Messages []struct{ From, Text string }
	}
}

func dial(t *testing.T, url, token string) *client {
	t.Helper()
	conn, early, _, err := ws.Dial(eventually.Context(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	c := &client{t, conn, conn}
	if early != nil {
		c.rw = struct {
			io.Reader
			io.Writer
		}{early, conn}
	}
	c.write(map[string]any{"id": 1, "hello": map[string]any{"versionMin": 1, "versionMax": 1, "token": token, "device": "laptop"}})
	c.await(func(f frame) bool { return f.Welcome != nil })
	return c
}

func (c *client) write(f any) {
	c.t.Helper()
	b, err := json.Marshal(f)
	if err == nil {
		err = wsutil.WriteClientText(c.conn, b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// await reads until a frame is the one that is wanted.
func (c *client) await(wanted func(frame) bool) {
	c.t.Helper()
	defer context.AfterFunc(eventually.Context(c.t), func() { _ = c.conn.Close() })() // the read tells
	for {
		b, err := wsutil.ReadServerText(c.rw)
		if err != nil {
			c.t.Fatal(err)
		}
		var f frame
		if err := json.Unmarshal(b, &f); err != nil {
			c.t.Fatalf("frame %s: %v", b, err)
		}
		if wanted(f) {
			return
		}
	}
}
