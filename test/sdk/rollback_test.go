package sdk

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/wire"
	petrel "github.com/petrel-im/petrel/sdk/go"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// putBack makes the folder what it was when it was copied to aside.
func putBack(t *testing.T, aside, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(aside)); err != nil {
		t.Fatal(err)
	}
}

// A folder and its mark are put back together, so that only a client knows that
// something is missing. It says so with its sync token. Spec: P-3.4, P-6.6, P-6.8.
func TestServerThatWentBackStopsBeforeItAnswers(t *testing.T) {
	t.Parallel()
	s := imtest.Start(t, imtest.Options{Process: true, Dir: filepath.Join(t.TempDir(), "data"), Config: map[string]string{"store.refuse_copies": "false"}})
	tokens := s.Users("", "alice", "bob", "carol")
	group := s.Group("", "g1", "alice", "bob")
	files := [2]string{filepath.Join(t.TempDir(), "alice"), filepath.Join(t.TempDir(), "bob")}
	stores := [2]*petrel.Store{}
	client := func(i int) *device {
		t.Helper()
		var err error
		if stores[i], err = petrel.OpenFile(files[i]); err != nil {
			t.Fatal(err)
		}
		return run(t, petrel.Options{URL: s.URL(wire.WebSocket), Token: petrel.StaticToken(tokens[i]), Store: stores[i], Newest: 50})
	}
	stop := func(of ...*device) {
		t.Helper()
		for i, d := range of {
			d.stop()
			if err := stores[i].Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	send := func(d *device, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if _, err := d.Send(petrel.Draft{Conv: group, Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		d.until("sent", func() bool { return len(d.Pending(group)) == 0 && slices.Contains(d.texts(group), texts[len(texts)-1]) })
	}
	alice, bob := client(0).synced(), client(1).synced()
	send(alice, "one", "two")
	bob.until("two", func() bool { return slices.Contains(bob.texts(group), "two") })
	aside := filepath.Join(t.TempDir(), "aside")
	s.RestartOn(func(dir string) {
		stop(alice, bob)
		if err := os.CopyFS(aside, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	})
	alice, bob = client(0).synced(), client(1).synced()
	send(alice, "three", "four")
	bob.until("four", func() bool { return slices.Contains(bob.texts(group), "four") })
	bob.stop() // a token is as new as the last sync
	if err := stores[1].Close(); err != nil {
		t.Fatal(err)
	}
	bob = client(1).synced()
	s.RestartOn(func(dir string) {
		if _, err := alice.Send(petrel.Draft{Conv: group, Text: "queued"}); err != nil {
			t.Fatal(err)
		}
		stop(alice, bob)
		putBack(t, aside, dir)
	})

	// Numbers that a client makes up prove nothing, and hurt nobody else.
	raw := s.Dial(wire.WebSocket, wire.Proto, tokens[0], "raw")
	if p, err := raw.History(t.Context(), &petrelv1.GetHistory{Conv: group, After: 1 << 40}); err != nil || p.Head != 3 {
		t.Errorf("history after a number: %v, %v, want head 3", p, err)
	}
	after := uint64(1 << 40)
	_, err := raw.Send(t.Context(), &petrelv1.Send{Conv: group, ClientMsgId: "raw", After: &after, Body: &petrelv1.Send_Text{Text: "x"}})
	if im.CodeOf(err) != im.CodeAfterAhead {
		t.Errorf("send with a number: %v, want %s", err, im.CodeAfterAhead)
	}
	if _, err := raw.Sync(t.Context(), nil); err != nil {
		t.Errorf("sync: %v", err)
	}

	bob = client(1)
	why := s.Ended()
	if why == nil || !strings.Contains(s.Log(), "gone back to an earlier state") || !strings.Contains(s.Log(), "user bob") {
		t.Errorf("the server ended with %v, and said\n%s", why, s.Log())
	}
	if got := bob.texts(group); bob.Status().Synced || len(got) != 4 {
		t.Errorf("bob was answered: %v, %q", bob.Status(), got)
	}
	bob.stop()
	if err := stores[1].Close(); err != nil {
		t.Fatal(err)
	}
	if why := s.Refused(); !strings.Contains(s.Log(), "petrel repair --new-history") {
		t.Errorf("the next start: %v\n%s", why, s.Log())
	}

	// Under a new history id the clients become equal to the server.
	if _, err := pebblestore.Renew(pebblestore.Options{Dir: s.Dir}); err != nil {
		t.Fatal(err)
	}
	s.Start()
	alice, bob = client(0).synced(), client(1).synced()
	defer stop(alice, bob)
	want := []string{"one", "two", "queued"}
	for name, d := range map[string]*device{"alice": alice, "bob": bob} {
		d.until("equal to the server", func() bool { return slices.Equal(d.texts(group), want) })
		p, err := d.History(context.Background(), &petrelv1.GetHistory{Conv: group})
		if err != nil {
			t.Fatal(err)
		}
		held := map[uint64]string{}
		for _, m := range d.Messages(group, 0, 0) {
			held[m.Seq] = m.GetText()
		}
		for _, m := range p.Messages {
			if got, ok := held[m.Seq]; ok && got != m.GetText() {
				t.Errorf("%s holds %q at seq %d, the server %q", name, got, m.Seq, m.GetText())
			}
		}
	}
}
