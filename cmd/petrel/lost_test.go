package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/petrel-im/petrel/internal/config"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Spec: P-5.7.
func TestLostEntryHasNoTimeAndNoSender(t *testing.T) {
	m := &petrelv1.Message{Seq: 7, Lost: true}
	if got := when(m, time.DateTime); strings.TrimSpace(got) != "-" || len(got) != len(time.DateTime) {
		t.Errorf("its time is %q", got)
	}
	if got := sender(m) + " " + content(m); got != "(nobody knows) (lost)" {
		t.Errorf("got %q", got)
	}
}

// stacked is an error that prints its stack with %+v, as those of Pebble do.
type stacked struct{}

func (stacked) Error() string                 { return "bad block" }
func (stacked) Format(s fmt.State, verb rune) { fmt.Fprintf(s, "bad block\ngoroutine 1 %c", verb) }

func TestLogForPeopleHasNoStacks(t *testing.T) {
	var b strings.Builder
	newLog(&b, config.Log{Format: "text"}, new(slog.LevelVar)).Error("stored data is damaged", "err", stacked{})
	if got := b.String(); !strings.Contains(got, `err="bad block"`) || strings.Contains(got, "goroutine") {
		t.Errorf("got %q", got)
	}
}

func TestReportOfAToolHasNoLogInIt(t *testing.T) {
	for format, want := range map[string]bool{"auto": false, "text": true, "json": true} {
		var b strings.Builder
		toolLog(&b, config.Log{Format: format}).Error("stored data is damaged")
		if got := b.String() != ""; got != want {
			t.Errorf("log.format %s: %q", format, b.String())
		}
	}
}

func TestCallThatTheServerDidNotTakeSaysWhatToDo(t *testing.T) {
	f := fromServer("http://x", "ask", connect.NewError(connect.CodeUnavailable, errors.New("the server has reached its limit of HTTP connections")))
	if f.fix == "" || !strings.Contains(f.why, "HTTP connections") {
		t.Errorf("got %+v", f)
	}
}
