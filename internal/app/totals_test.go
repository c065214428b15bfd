package app

import (
	"fmt"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/internal/wire/wiretest"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// The totals have the messages that are stored, and no entries of inboxes.
func TestTotalsCountMessages(t *testing.T) {
	s := startTuned(t, t.TempDir(), func(*App) {})
	token := s.token("alice")
	for _, u := range []im.User{"bob", "carol"} {
		s.token(u)
	}
	c, err := wiretest.Dial(t.Context(), wiretest.Options{URL: "ws://" + s.HTTPAddr().String(), Codec: wire.Proto, Token: token, Device: "d"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // nothing waits
	var small, large string
	send := func(to string, n int) (conv string) {
		for i := range n {
			ack, err := c.Send(t.Context(), &petrelv1.Send{User: to, ClientMsgId: fmt.Sprint(to, i), Body: &petrelv1.Send_Text{Text: "a message of a test"}})
			if err != nil {
				t.Fatal(err)
			}
			conv = ack.Conv
		}
		return conv
	}
	small, large = send("bob", 2), send("carol", 20)
	var totals *petrelv1.Totals
	eventually.True(t, "the totals are counted", func() bool {
		totals = s.console.Overview(t.Context(), &petrelv1.GetOverviewRequest{}).Totals
		return totals != nil
	})
	if n := len(totals.Tenants); n != 1 {
		t.Fatalf("%d tenants, want 1", n)
	}
	if x := totals.Tenants[0]; x.Users != 3 || x.GetMessages() != 22 || x.GetStoredBytes() < 22*uint64(len("a message of a test")) {
		t.Errorf("got %v, want 3 users and 22 messages with their bytes", x)
	}
	if l := totals.Largest; len(l) != 2 || l[0].Conv != large || l[0].Messages != 20 || l[1].Conv != small || l[1].Messages != 2 || l[0].StoredBytes <= l[1].StoredBytes {
		t.Errorf("largest: got %v, want %s with 20 messages, then %s with 2", l, large, small)
	}
}
