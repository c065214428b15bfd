//go:build linux

package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/wire"
)

// echo is an event loop whose connections have no session: each message goes back as it
// came. Everything else is as for clients: the handshake, the framing, control frames, the end.
type echo struct{ *loop }

// OnOpen takes a connection over, as one that is welcomed.
func (e *echo) OnOpen(gc gnet.Conn) (out []byte, action gnet.Action) {
	c := gc.Context().(*loopConn)
	c.place.welcome()
	c.place, c.live = nil, true
	c.frags = 1 << 15
	return e.loop.OnOpen(gc)
}

// OnTraffic does what the one of loop does, and echoes where that one asks a session.
func (e *echo) OnTraffic(gc gnet.Conn) gnet.Action {
	c := gc.Context().(*loopConn)
	b, _ := gc.Peek(-1)
	if c.state == stateOpen && !c.deaf {
		c.echo(b, &e.reader)
	}
	if c.state != stateClosed {
		_, _ = gc.Discard(-1)
	}
	return gnet.None
}

func (c *loopConn) echo(b []byte, r *reader) {
	c.limit = maxLength
	var ctl control
	var out []byte // leaves after a pong and before a close, as what a session answers
	ft := c.cut(b, func(f frame) *fault {
		switch {
		case f.op >= opClose:
			return c.conn.frame(f, r, c, &ctl)
		case f.op == opText && !utf8.Valid(f.payload): // as the decoder says to clients
			return &fault{err: &im.Error{Code: im.CodeBadUTF8}}
		}
		var head bytes.Buffer
		_ = ws.WriteHeader(&head, ws.Header{Fin: true, OpCode: ws.OpCode(f.op), Length: int64(len(f.payload))}) // a buffer takes everything
		out = append(append(out, head.Bytes()...), f.payload...)
		return nil
	})
	if ctl.op == opPing && ft == nil {
		c.answer(&ctl, c)
		ctl = control{}
	}
	c.put(out)
	if ft != nil && ft != stopped {
		c.deaf = true
		if ft.broken {
			c.marks.Or(markBroken)
		}
		c.put(c.closing(nil, ft.err, r.g)) // without the kick, which is a message of ours
		c.finish(false)
		return
	}
	c.answer(&ctl, c)
}

// serveEcho makes a gateway that echoes.
func serveEcho(t *testing.T) *server {
	s := serve(t, Options{}, noLimits()) // for its hub
	g, err := New(Options{HTTPAddr: "127.0.0.1:0", Loops: -1, Heartbeat: -1}, s.hub)
	must(t, err)
	l, err := newLoop(g)
	must(t, err)
	must(t, l.client.Stop())
	e := &echo{l}
	l.client, err = gnet.NewClient(e, gnet.WithNumEventLoop(1), gnet.WithReadBufferCap(readBuffer), gnet.WithLogger(gnetLog{g.log}))
	must(t, err)
	must(t, l.client.Start())
	g.loops = []*loop{l}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return &server{Gateway: g, t: t}
}

var (
	autobahn = flag.String("autobahn", "", "the program wstest of Autobahn's test suite, for `make autobahn`; empty: a few cases of our own")
	update   = flag.Bool("update", false, "write the result of Autobahn's suite to bench/results")
)

// TestEchoIsWebSocket is what keeps the echo right that Autobahn's suite talks to.
func TestEchoIsWebSocket(t *testing.T) {
	s := serveEcho(t)
	for _, c := range []struct {
		name string
		in   [][]byte
		want string // messages, opcode and payload
	}{
		{"texts in one read", [][]byte{masked(text, "a"), masked(text, "海燕")}, "1a 1海燕"},
		{"1,000 fragments", fragments(1000), "2" + strings.Repeat("f", 1000)},
		{"a ping among fragments", [][]byte{masked(opText, "a"), masked(fin|opPing, "p"), masked(fin, "b")}, ":p 1ab"},
		{"a close", [][]byte{masked(fin|opClose, "\x03\xe8bye")}, "8\x03\xe8"},
		{"a reserved bit", [][]byte{masked(text|0x40, "a")}, "8\x03\xeabad_frame"},
		{"a text that is none", [][]byte{masked(text, "\xff")}, "8\x03\xefbad_utf8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.dial(wire.WebSocket)
			p.write(slices.Concat(c.in...))
			var got []string
			for len(strings.Join(got, " ")) < len(c.want) {
				m, err := p.read()
				if err != nil {
					t.Fatalf("behind %q: %v", got, err)
				}
				got = append(got, string('0'+rune(m.op))+m.payload)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Fatalf("got %.200q, want %.200q", text, c.want)
			}
		})
	}
}

// unlike are the cases of Autobahn's suite in which Petrel does something else than the suite
// expects, on purpose.
var unlike = map[string]string{
	"2.10": "of the pings of one read only the newest is answered, as RFC 6455 5.5.3 allows: a flood of them costs one write for each read",
}

// suite is what bench/results/autobahn.json has.
type suite struct {
	Suite string    `json:"suite"`
	Cases []outcome `json:"cases"`
}

// outcome is what the suite says about a case.
type outcome struct {
	Case   string `json:"case"`
	Result string `json:"result"`
	Close  string `json:"close"`
	Reason string `json:"reason,omitempty"`
}

// TestAutobahn runs the cases of Autobahn's WebSocket suite against the echo: `make autobahn`.
func TestAutobahn(t *testing.T) {
	if *autobahn == "" {
		return // TestEchoIsWebSocket holds; the suite needs Python 2.7
	}
	s := serveEcho(t)
	dir := t.TempDir()
	conf, err := json.Marshal(map[string]any{
		"outdir":        dir,
		"servers":       []any{map[string]any{"agent": "petrel", "url": "ws://" + s.HTTPAddr().String() + Path}},
		"cases":         []string{"1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"},
		"exclude-cases": []string{}, "exclude-agent-cases": map[string]any{},
	})
	must(t, err)
	file := filepath.Join(dir, "fuzzingclient.json")
	must(t, os.WriteFile(file, conf, 0o600))
	out, err := exec.Command(*autobahn, "-m", "fuzzingclient", "-s", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", *autobahn, err, out)
	}
	got := readOutcomes(t, dir)
	const committed = "../../bench/results/autobahn.json"
	b, err := json.MarshalIndent(got, "", "  ")
	must(t, err)
	if *update {
		must(t, os.WriteFile(committed, append(b, '\n'), 0o644))
	}
	for _, o := range got.Cases {
		good := (o.Result == "OK" || o.Result == "NON-STRICT" || o.Result == "INFORMATIONAL") && (o.Close == "OK" || o.Close == "INFORMATIONAL")
		switch {
		case !good && o.Reason == "":
			t.Errorf("case %s: %s, close %s", o.Case, o.Result, o.Close)
		case good && o.Reason != "":
			t.Errorf("case %s passes, although %s", o.Case, o.Reason)
		}
	}
	was, err := os.ReadFile(committed)
	must(t, err)
	if !bytes.Equal(bytes.TrimSpace(was), b) {
		t.Errorf("the result is not the one in %s: run make autobahn ARGS=-update, and look at what changed", committed)
	}
	t.Logf("%d cases", len(got.Cases))
}

func readOutcomes(t *testing.T, dir string) suite {
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	must(t, err)
	var index map[string]map[string]struct {
		Behavior      string `json:"behavior"`
		BehaviorClose string `json:"behaviorClose"`
	}
	must(t, json.Unmarshal(b, &index))
	all := suite{Suite: "autobahntestsuite 0.8.2"}
	for name, o := range index["petrel"] {
		all.Cases = append(all.Cases, outcome{name, o.Behavior, o.BehaviorClose, unlike[name]})
	}
	number := func(s string) (n [3]int) {
		for i, part := range strings.Split(s, ".") {
			n[i], _ = strconv.Atoi(part)
		}
		return n
	}
	slices.SortFunc(all.Cases, func(a, b outcome) int {
		x, y := number(a.Case), number(b.Case)
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(x[2], y[2]))
	})
	return all
}
