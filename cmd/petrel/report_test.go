package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	sdk "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

func TestReportsAreListedShownAndResolved(t *testing.T) {
	s := serveShared(t)
	petrel(t, s.env(), "user", "create", "alice-r", "bob-r").want(t, exitOK)
	token, err := os.ReadFile(filepath.Join(s.data, "tokens", "default", "alice-r"))
	if err != nil {
		t.Fatal(err)
	}
	ack := jsonLines(t, petrel(t, s.env(), "send", "--as", "bob-r", "--to", "alice-r", "buy my boats", "--json"))[0]
	conv, _ := ack["conv"].(string)
	api := sdk.NewAPI("http://"+s.http, nil, sdk.StaticToken(strings.TrimSpace(string(token))))
	if _, err = api.Account.Report(t.Context(), connect.NewRequest(&petrelv1.ReportRequest{Conv: conv, Seq: 1,
		Reason: petrelv1.ReportReason_REPORT_REASON_SPAM, Text: "again"})); err != nil {
		t.Fatal(err)
	}
	petrel(t, s.env(), "report", "list", "--user", "bob-r").want(t, exitOK, "bob-r", "spam", "alice-r", "open", "again")
	number := ""
	for _, r := range jsonLines(t, petrel(t, s.env(), "report", "list", "--user", "bob-r", "--json")) {
		number, _ = r["report"].(string)
	}
	if r := petrel(t, s.env(), "report", "show", number); strings.Contains(r.out, "boats") {
		t.Errorf("without a reason: %s", r.out)
	}
	petrel(t, s.env(), "report", "show", number, "--reason", "a test").want(t, exitOK, "#1  bob-r: buy my boats")
	petrel(t, s.env(), "report", "resolve", number, "recall", "--note", "advertising").want(t, exitOK, "closed: recall")
	petrel(t, s.env(), "report", "resolve", number, "mute").want(t, exitFailed, "error report_closed")
	petrel(t, s.env(), "report", "resolve", number, "nothing").want(t, exitUsage)
	petrel(t, s.env(), "report", "list", "--closed", "--user", "bob-r").want(t, exitOK, "closed: recall")
	petrel(t, s.env(), "user", "mute", "bob-r", "--for", "1h").want(t, exitOK, "bob-r is muted until")
	petrel(t, s.env(), "send", "--as", "bob-r", "--to", "alice-r", "hello").want(t, exitFailed, "error muted")
	petrel(t, s.env(), "user", "mute", "bob-r", "--for", "0").want(t, exitOK, "bob-r may write")
	petrel(t, s.env(), "user", "restore", "bob-r").want(t, exitOK, "bob-r has the account back")
	petrel(t, s.env(), "tenant", "reports", "3", "--tenant", "acme-r").want(t, exitOK, "keep the reported message and 3 before it")
}
