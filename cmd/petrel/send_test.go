package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// sends runs send against a script, under the id k1.
func sends(t *testing.T, s *scripted, more ...string) result {
	t.Helper()
	return s.petrel(t, append([]string{"send", "--to", "bob", "--id", "k1", "hi", "--json"}, more...)...)
}

func TestSendIsRepeatedUntilItsFateIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		s := serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1")}
			case f.Send == nil:
				return nil // the list of conversations is not needed
			}
			if f.Send.User != "bob" || f.Send.ClientMsgID != "k1" || f.Send.After != "" || f.Send.Text != "hi" {
				t.Errorf("attempt %d: got %+v", attempts, *f.Send)
			}
			switch attempts++; attempts {
			case 1:
				return []string{"close"}
			case 2:
				return []string{`{"id":"ID","error":{"code":"overloaded","retryable":true,"retryAfterMs":1}}`}
			}
			return []string{fmt.Sprintf(`{"id":"ID","ack":{"conv":"%s","seq":"7","timeMs":"1795262400123"}}`, someConv)}
		})
		sends(t, s).want(t, exitOK, `"conv":"`+someConv+`"`, `"seq":"7"`, `"client_msg_id":"k1"`, `"time_ms":"1795262400123"`, `"took_ms":`)
		if attempts != 3 || s.conns.Load() != 2 {
			t.Errorf("%d attempts over %d connections, want 3 over 2", attempts, s.conns.Load())
		}
	})
}

func TestSendThatIsNotAnsweredIsOfUnknownFate(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer string // to the send
		parts  []string
	}{
		{"silence", "", []string{`"code":"failed"`, "deadline exceeded"}},
		{"put off", `{"id":"ID","error":{"code":"rate_limited","message":"slowly","retryable":true,"retryAfterMs":60000}}`, []string{`"code":"rate_limited"`, "slowly"}},
		{"connection lost", "close", []string{`"code":"failed"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveScript(t, func(n int, f frame) []string {
					switch {
					case f.Hello != nil && n == 1:
						return []string{welcome("h1")}
					case f.Hello != nil:
						return []string{"close"}
					case f.Ping != nil:
						return []string{`{"id":"ID","pong":{}}`}
					case f.Send != nil && c.answer != "":
						return []string{c.answer}
					}
					return nil
				})
				begun := time.Now()
				sends(t, s).want(t, exitFailed,
					append(c.parts, "it is not known whether the message is stored", "send it again with --id k1")...)
				if took := time.Since(begun); took != 30*time.Second {
					t.Errorf("given up after %s, want 30 s", took)
				}
			})
		})
	}
}

// send waits for a server that it has reached once: the message may have been stored.
func TestSendWaitsForAServerThatWentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *scripted
		s = serveScript(t, func(_ int, f frame) []string {
			switch {
			case f.Hello != nil:
				return []string{welcome("h1")}
			case f.Send == nil:
				return nil
			}
			s.close() // no further connection
			return []string{"close"}
		})
		sends(t, s).want(t, exitUnreachable, "it is not known whether the message is stored", "connection refused")
	})
}

func TestSendThatNeverLeftIsNotOfUnknownFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveScript(t, func(_ int, f frame) []string {
			return []string{`{"id":"ID","error":{"code":"too_many_connections","message":"later","retryable":true,"retryAfterMs":60000}}`}
		})
		sends(t, s).want(t, exitFailed, `"code":"too_many_connections"`, `"what":"send"`, "later")
	})
}
