package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// scripted is a server on TCP in JSON lines that answers frames as a test says.
type scripted struct {
	addr  string
	conns atomic.Int32 // connections taken
}

// frame is a frame of a client with what tests look at.
type frame struct {
	ID      string
	Hello   *struct{}
	Sync    *struct{ Token string }
	History *struct{ Conv, After string }
	Send    *struct{ User, ClientMsgID, After, Text string }
}

// serveScript answers each frame of connection n (1, 2, …) with the lines that
// answer returns; "close" closes the connection.
func serveScript(t *testing.T, answer func(n int, f frame) []string) *scripted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{addr: l.Addr().String()}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n := int(s.conns.Add(1))
			talk(t, conn, func(f frame) []string { return answer(n, f) }) // one client, one connection at a time
		}
	}()
	return s
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

// shows runs tail against a script and compares the texts it prints with those
// that it may print.
func shows(t *testing.T, s *scripted, last, count int, want ...string) {
	t.Helper()
	done := inBackground(t, []string{"PETREL_TOKEN=pt_x", "PETREL_STORE__DIR=" + t.TempDir()}, "tail", "--server", "tcp://"+s.addr, "--codec", "json",
		"--json", "--last", fmt.Sprint(last), "--count", fmt.Sprint(count))
	r := await(t, "tail", done)
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
	asked := 0
	s := serveScript(t, func(_ int, f frame) []string {
		switch {
		case f.Hello != nil:
			return []string{welcome("h1")}
		case f.Sync != nil:
			// 1 is old; 2 comes twice; 3 and 4 are missing, and 5 and 6 are held back until they are there.
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
}

func TestTailBeginsWithTheLastEntriesWhateverIsPushedBeforeTheSync(t *testing.T) {
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
}

func TestTailShowsWhatWasPushedBeforeTheSync(t *testing.T) {
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
}

func TestTailShowsANewGroupOnceItKnowsItsName(t *testing.T) {
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
	env := []string{"PETREL_TOKEN=pt_x", "PETREL_STORE__DIR=" + t.TempDir()}
	r := await(t, "tail", inBackground(t, env, "tail", "--server", "tcp://"+s.addr, "--codec", "json", "--count", "2"))
	r.want(t, exitOK, `"Team" #1  bob: m1`, `"Team" #2  bob: m2`)
}

func TestTailSkipsWhatTheUserMayNotRead(t *testing.T) {
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
}

func TestTailSyncsWithItsLastTokenAfterLagging(t *testing.T) {
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
}

func TestTailForgetsWhatAnotherHistoryTold(t *testing.T) {
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
			// The repair has lost 2: what is 2 now is another message.
			return []string{synced("AQ==", 1), pushed(2, 3, 4)}
		}
		return nil
	})
	// What the first history told is gone when its connection ends before it is shown.
	shows(t, s, 0, 3, "m1 m2 m2", "m2 m3 m4")
}

func TestTailEndsWhenItMayNotComeBack(t *testing.T) {
	s := serveScript(t, func(_ int, f frame) []string {
		if f.Hello != nil {
			return []string{welcome("h1")}
		}
		return []string{synced("AQ==", 0), `{"kick":{"code":"revoked","message":"the token was revoked"}}`, "close"}
	})
	env := []string{"PETREL_TOKEN=pt_x", "PETREL_STORE__DIR=" + t.TempDir()}
	await(t, "tail", inBackground(t, env, "tail", "--server", "tcp://"+s.addr, "--codec", "json")).want(t, exitAuth, "error revoked")
}
