package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/terminal"
)

// scripted is a server of JSON lines, in the synctest bubble of a test, that answers frames as the test says.
type scripted struct {
	arrive chan net.Conn // connections that clients have made
	closed chan struct{} // nobody listens any more
	close  func()
	conns  atomic.Int32 // connections taken
}

// frame has the parts of a client frame that the tests look at.
type frame struct {
	ID      string
	Hello   *struct{}
	Ping    *struct{}
	Sync    *struct{ Token string }
	History *struct{ Conv, After string }
	Send    *struct{ User, ClientMsgID, After, Text string }
}

// serveScript answers each frame of connection n (1, 2, …) with the lines that answer returns; the line "close" closes
// the connection.
func serveScript(t *testing.T, answer func(n int, f frame) []string) *scripted {
	t.Helper()
	s := &scripted{arrive: make(chan net.Conn), closed: make(chan struct{})}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	t.Cleanup(s.close)
	go func() {
		for {
			select {
			case conn := <-s.arrive:
				n := int(s.conns.Add(1))
				talk(t, conn, func(f frame) []string { return answer(n, f) }) // one client, one connection at a time
			case <-s.closed:
				return
			}
		}
	}()
	return s
}

// dial connects a client. As the system does, it refuses when nobody listens.
func (s *scripted) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case <-s.closed:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	default:
	}
	select {
	case s.arrive <- far:
		return near, nil
	case <-s.closed:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// petrel runs a command line of a client that speaks JSON with s.
func (s *scripted) petrel(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	c := &cli{env: []string{"PETREL_TOKEN=pt_x", "PETREL_STORE__DIR=" + t.TempDir()}, in: strings.NewReader(""), out: terminal.NewWriter(&out), err: terminal.NewWriter(&errOut), dial: s.dial}
	exit := c.run(t.Context(), append(args, "--server", "tcp://script:1", "--codec", "json"))
	return result{exit, out.String(), errOut.String()}
}

func talk(t *testing.T, conn net.Conn, answer func(frame) []string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var f frame
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			t.Errorf("%v of %s", err, lines.Text())
			return
		}
		for _, out := range answer(f) {
			if out == "close" {
				return
			}
			if _, err := fmt.Fprintln(conn, strings.ReplaceAll(out, "ID", f.ID)); err != nil {
				return // the client has seen enough
			}
		}
	}
}

// The conversation of these tests.
const someConv = "d8RN7iMNITU0mIb0XxQAv"

func welcome(history string) string {
	return fmt.Sprintf(`{"id":"ID","welcome":{"version":1,"user":"alice","historyId":"%s"}}`, history)
}

func entry(seq int) string {
	return fmt.Sprintf(`{"conv":"%s","seq":"%d","from":"bob","text":"m%d"}`, someConv, seq, seq)
}

func pushed(seqs ...int) string { return `{"events":{"messages":[` + entries(seqs) + `]}}` }

func page(head int, more bool, seqs ...int) string {
	return fmt.Sprintf(`{"id":"ID","history":{"conv":"%s","head":"%d","more":%t,"messages":[%s]}}`, someConv, head, more, entries(seqs))
}

func entries(seqs []int) string {
	list := make([]string, len(seqs))
	for i, s := range seqs {
		list[i] = entry(s)
	}
	return strings.Join(list, ",")
}

func synced(token string, head int) string {
	return fmt.Sprintf(`{"id":"ID","sync":{"token":"%s","convs":[{"conv":"%s","peer":"bob","head":"%d"}]}}`, token, someConv, head)
}

// shows runs `petrel tail` against a script, and compares the texts that it prints with want.
func shows(t *testing.T, s *scripted, last, count int, want ...string) {
	t.Helper()
	r := s.petrel(t, "tail", "--json", "--last", fmt.Sprint(last), "--count", fmt.Sprint(count))
	r.want(t, exitOK)
	var texts []string
	for line := range strings.Lines(r.out) {
		var m struct{ Text string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%v of %s", err, line)
		}
		texts = append(texts, m.Text)
	}
	if got := strings.Join(texts, " "); !slices.Contains(want, got) {
		t.Errorf("got %s, want %s\n%s", got, strings.Join(want, " or "), r.err)
	}
}

func TestTailReadsWhatThePushMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1")}
			case f.Sync != nil:
				// Entry 1 is old, and 2 comes twice. 3 and 4 are missing; the client holds 5 and 6 back until
				// they are there.
				return []string{synced("AQ==", 1), pushed(2), pushed(2), pushed(5), pushed(6)}
			}
			asked++
			switch f.History.After {
			case "2":
				return []string{page(6, true, 3, 4), pushed(7)}
			}
			t.Errorf("asked for history after %s", f.History.After)
			return nil
		})
		shows(t, s, 0, 6, "m2 m3 m4 m5 m6 m7")
		if asked != 1 {
			t.Errorf("asked for %d pages, want 1: one request at a time for a conversation", asked)
		}
	})
}

func TestTailBeginsWithTheLastEntriesWhateverIsPushedBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1"), pushed(9)}
			case f.Sync != nil:
				return []string{synced("AQ==", 8)}
			}
			if f.History.After != "6" {
				t.Errorf("asked for history after %s, want 6", f.History.After)
			}
			return []string{page(9, false, 7, 8, 9)}
		})
		shows(t, s, 2, 3, "m7 m8 m9")
	})
}

func TestTailShowsWhatWasPushedBeforeTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1"), pushed(5)}
			case f.Sync != nil:
				return []string{synced("AQ==", 6)}
			}
			if f.History.After != "5" {
				t.Errorf("asked for history after %s, want 5", f.History.After)
			}
			return []string{page(6, false, 6)}
		})
		shows(t, s, 0, 2, "m5 m6")
	})
}

func TestTailShowsANewGroupOnceItKnowsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const group = "gKQtYt3wSdI4pbTbl9KK9"
		of := func(s string) string { return strings.ReplaceAll(s, someConv, group) }
		syncs := 0
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1")}
			case f.Sync == nil:
				return []string{of(page(2, false, 1, 2))}
			}
			switch syncs++; syncs {
			case 1:
				return []string{synced("AQ==", 0), of(pushed(1))}
			case 2: // too early: the list does not have the group yet
				return []string{`{"id":"ID","sync":{"token":"Ag=="}}`, of(pushed(2)),
					`{"events":{"messages":[{"conv":"iDZyNF3ZHqisvWUE89S2_","seq":"1","inbox":{"joined":{"conv":"` + group + `"}}}]}}`}
			}
			return []string{of(`{"id":"ID","sync":{"token":"Aw==","convs":[{"conv":"` + someConv + `","title":"Team","head":"2","joined":"1"}]}}`)}
		})
		s.petrel(t, "tail", "--count", "2").want(t, exitOK, `"Team" #1  bob: m1`, `"Team" #2  bob: m2`)
	})
}

func TestTailSkipsWhatTheUserMayNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1")}
			case f.Sync != nil:
				return []string{synced("AQ==", 9)}
			}
			return []string{page(9, false, 5, 8), pushed(10)}
		})
		shows(t, s, 9, 3, "m5 m8 m10")
	})
}

func TestTailSyncsWithItsLastTokenAfterLagging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1")}
			case f.Sync != nil && f.Sync.Token == "":
				return []string{synced("AQ==", 0), pushed(1), `{"lagged":{}}`}
			case f.Sync != nil:
				if f.Sync.Token != "AQ==" {
					t.Errorf("synced with token %q, want that of the last page", f.Sync.Token)
				}
				return []string{synced("Ag==", 3)}
			}
			return []string{page(3, false, 2, 3)}
		})
		shows(t, s, 0, 3, "m1 m2 m3")
	})
}

func TestTailForgetsWhatAnotherHistoryTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(n int, f frame) []string {
			switch {
			case f.Hello != nil && n == 1:
				return []string{welcome("h1")}
			case f.Hello != nil:
				return []string{welcome("h2")}
			case f.Sync != nil && n == 1:
				return []string{synced("AQ==", 0), pushed(1, 2), "close"}
			case f.Sync != nil:
				if f.Sync.Token != "" {
					t.Errorf("synced with token %q of another history", f.Sync.Token)
				}
				// The repair has lost entry 2: seq 2 has another message now.
				return []string{synced("AQ==", 1), pushed(2, 3, 4)}
			}
			return nil
		})
		// Entries of the first history are gone if their connection ends before they are shown.
		shows(t, s, 0, 3, "m1 m2 m2", "m2 m3 m4")
	})
}

func TestTailEndsWhenItMayNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(_ int, f frame) []string {
			if f.Hello != nil {
				return []string{welcome("h1")}
			}
			return []string{synced("AQ==", 0), `{"kick":{"code":"revoked","message":"the token was revoked"}}`, "close"}
		})
		s.petrel(t, "tail").want(t, exitAuth, "error revoked")
	})
}
