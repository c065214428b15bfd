package conv_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// moves moves the cursors of a user who shows how far they read, or does not.
func (w *world) moves(key im.Key, u im.User, delivered, read im.Seq, private bool) {
	w.T.Helper()
	done := make(chan *im.Error, 1)
	m := &conv.CursorMove{Conv: key, User: u, Delivered: delivered, Read: read, Private: private,
		Done: func(_ conv.Cursor, err *im.Error, _ *fanout.WakeUps) { done <- err }}
	if err := w.owner().Move(w.T.Context(), m); err != nil {
		w.T.Fatal(err)
	}
	if err := <-done; err != nil {
		w.T.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the next move is a commit of its own
	synctest.Wait()
}

// Others see the cursors of a private reader where they stood when that began, and what the client says itself of
// delivery. Spec: P-14.14.
func TestPrivateReadingShowsNothing(t *testing.T) {
	for name, group := range map[string]bool{"direct": false, "group": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				key := w.pair("alice", "bob")
				if group {
					key = w.Group("alice", "bob")
				}
				for i := range 6 {
					if from := []im.User{"alice", "bob"}[i%2]; group {
						w.MustSend(convtest.Message(key, from, string(rune('a'+i)), i+1, "hi"))
					} else {
						w.MustSend(w.text(from, []im.User{"bob", "alice"}[i%2], string(rune('a'+i)), "hi"))
					}
				}
				alice, phone := w.Online("alice", convtest.Receipts), w.Online("bob", convtest.Receipts)
				told := func(s *convtest.Screen) (all []string) {
					for _, f := range s.Frames() {
						all = append(all, showReceipts(f.GetEvents().GetReceipts())...)
					}
					return all
				}
				pos := w.owner().Published()
				synced := func() string {
					q := &convpb.Ask{Conv: key.Conv[:], Kind: petrelv1.ConvKind_CONV_KIND_DIRECT, Peer: "bob", Since: uint64(pos)}
					st, err := w.owner().Changed(t.Context(), im.Account{Tenant: key.Tenant, User: "alice"}, q, conv.Newest{})
					if err != nil {
						t.Fatal(err)
					}
					pos = w.owner().Published()
					if st == nil {
						return "nothing"
					}
					return showReceipts([]*petrelv1.Receipt{st.PeerReceipt})[0]
				}
				w.moves(key, "bob", 2, 2, false)
				want(t, "shown", []string{"bob 2 2"}, told(alice))
				want(t, "to his own", []string{"bob 2 2"}, told(phone))
				if !group {
					want(t, "sync", "bob 2 2", synced())
				}
				for range 2 { // the second time by what is stored
					w.moves(key, "bob", 0, 4, true)
					w.moves(key, "bob", 2, 4, true)
					list, err := w.receiptsOf(key, "alice")
					want(t, "the list", []string{"bob 2 2"}, showReceipts(list))
					own, _ := w.receiptsOf(key, "bob")
					want(t, "his own list", []string{"bob 4 4"}, showReceipts(own))
					if err != nil {
						t.Fatal(err)
					}
					if !group {
						want(t, "sync", "nothing", synced())
					}
					want(t, "pushed", []string(nil), told(alice))
					w.Table.Leave(alice.Out.Account, alice.Out)
					w.Table.Leave(phone.Out.Account, phone.Out)
					w.restart()
					alice, phone = w.Online("alice", convtest.Receipts), w.Online("bob", convtest.Receipts)
				}
				w.moves(key, "bob", 3, 0, true)
				want(t, "what another client says later", []string{"bob 3 2"}, told(alice))
				list, err := w.receiptsOf(key, "alice")
				want(t, "the list", []string{"bob 3 2"}, showReceipts(list))
				if err != nil {
					t.Fatal(err)
				}
				want(t, "to his own", []string{"bob 4 4"}, told(phone))
				w.moves(key, "bob", 5, 0, true)
				want(t, "what his client says", []string{"bob 5 2"}, told(alice))
				want(t, "to his own", []string{"bob 5 4"}, told(phone))
				w.moves(key, "bob", 0, 6, false)
				want(t, "shown again", []string{"bob 6 6"}, told(alice))
			})
		})
	}
}

// A block keeps what the blocked user saw of a private reader when it began: not how far the reader was. So it stays
// when the reader shows it to all others again. Spec: P-5.4, P-14.14.
func TestABlockKeepsWhatAPrivateReaderHasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.pair("alice", "bob")
		w.MustSend(w.text("bob", "alice", "a", "hi"))
		for _, k := range []string{"b", "c", "d", "e"} {
			w.MustSend(w.text("alice", "bob", k, "hi"))
		}
		w.moves(key, "bob", 0, 2, false)
		w.moves(key, "bob", 0, 4, true)
		told := func() []string {
			list, err := w.receiptsOf(key, "alice")
			if err != nil {
				t.Fatal(err)
			}
			return showReceipts(list)
		}
		want(t, "before the block", []string{"bob 2 2"}, told())
		w.MustSend(w.block("bob", "alice", true, 1))
		want(t, "blocked", []string{"bob 2 2"}, told())
		w.moves(key, "bob", 0, 5, false)
		want(t, "shown to others, and still blocked", []string{"bob 2 2"}, told())
		w.restart()
		want(t, "after a restart", []string{"bob 2 2"}, told())
		w.MustSend(w.block("bob", "alice", false, 2))
		want(t, "after the block", []string{"bob 5 5"}, told())
	})
}

// The own line of a private reader is as in the list of others: in a large conversation without delivered, and not
// after the last user of the page before. Spec: P-8.6, P-14.14.
func TestAPrivateReadersOwnLineIsAsInTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		users := []im.User{"alice", "bob"}
		for i := range conv.MaxReceipts {
			users = append(users, im.User(fmt.Sprint("u", i)))
		}
		key := w.Group(users...)
		w.upTo(key, "alice", 5)
		w.moves(key, "bob", 0, 4, true)
		own := func(after string) []string {
			list, err := w.owner().Receipts(t.Context(), conv.Query{Conv: key, User: "bob"}, &convpb.ListReceipts{Own: true, After: after})
			if err != nil {
				t.Fatal(err)
			}
			return showReceipts(list.Receipts)
		}
		want(t, "the own line", []string{"bob 0 4"}, own(""))
		want(t, "after alice", []string{"bob 0 4"}, own("alice"))
		want(t, "after bob", []string(nil), own("bob"))
	})
}
