package conv_test

import (
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// lossy is a store that loses records, as damage does.
type lossy struct {
	store.Store
	lose func(b *store.Batch)
}

func (l *lossy) Append(b *store.Batch, done func(error)) {
	l.lose(b)
	l.Store.Append(b, done)
}

func loseRecord(b *store.Batch)  { b.Convs = nil }
func loseMembers(b *store.Batch) { b.Members = nil }
func loseOne(b *store.Batch) {
	for i, m := range b.Members {
		if m.User == "bob" {
			b.Members = append(b.Members[:i:i], b.Members[i+1:]...)
			return
		}
	}
}

// guessOne is what a repair writes that has found one member only.
func guessOne(b *store.Batch) {
	loseOne(b)
	for i := range b.Convs {
		b.Convs[i].Record = &storepb.Conversation{Kind: 1, Participants: []string{"alice", "alice"}}
	}
}

func TestADirectConversationThatLostItsRecordsIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, loss := range []struct {
			what  string
			lose  []func(*store.Batch)
			by    im.User
			names bool // the send names the user, not the conversation
		}{
			{"record and members", []func(*store.Batch){loseRecord, loseMembers}, "bob", true},
			{"record", []func(*store.Batch){loseRecord}, "bob", true},
			{"members", []func(*store.Batch){loseMembers}, "alice", true},
			{"the sender", []func(*store.Batch){loseOne}, "bob", true},
			{"the other user", []func(*store.Batch){loseOne}, "alice", true},
			{"the other user, the conversation is named", []func(*store.Batch){loseOne}, "alice", false},
			{"the other user, also in the record", []func(*store.Batch){guessOne}, "alice", true},
		} {
			w := newWorld(t)
			key := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Direct(im.DefaultTenant, "alice", "bob")}
			to := func(from, peer im.User, k string) *conv.Send {
				s := convtest.Message(key, from, k, -1, "hi")
				s.Peer = peer
				return s
			}
			lost := &lossy{Store: w.Gate.Store, lose: func(b *store.Batch) {
				for _, l := range loss.lose {
					l(b)
				}
			}}
			w.Gate.Store = lost
			w.MustSend(to("alice", "bob", "1"))
			w.MustSend(to("alice", "bob", "2"))
			w.restart()
			peer := map[im.User]im.User{"alice": "bob", "bob": "alice"}[loss.by]
			if !loss.names {
				peer = ""
			}
			if r := w.Send(to(loss.by, peer, "3")); r.Err != nil || r.Seq != 3 {
				t.Errorf("%s lost: a send by %s got %+v, want seq 3", loss.what, loss.by, r)
				continue
			}
			for range 2 {
				for _, u := range []im.User{"alice", "bob"} {
					if h, err := w.page(key, u, &convpb.GetHistory{}); err != nil || len(h.Rows) != 3 {
						t.Errorf("%s lost: %s reads %d rows, %v, want 3", loss.what, u, len(h.GetRows()), err)
					}
				}
				w.restart()
			}
			if q := w.MustSend(convtest.Message(key, "bob", "4", 3, "hi")); q != 4 {
				t.Errorf("%s lost: seq %d, want 4", loss.what, q)
			}
			convtest.WantCode(t, w.Send(convtest.Message(key, "eve", "5", 0, "hi")), im.CodeNoConversation)
		}
	})
}

func TestAnInboxThatLostItsRecordsIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, lose := range map[string]func(*store.Batch){
			"members": loseMembers,
			"both":    func(b *store.Batch) { loseRecord(b); loseMembers(b) },
		} {
			w := newWorld(t)
			inbox := im.Key{Tenant: im.DefaultTenant, Conv: w.Convs.IDs().Inbox(im.DefaultTenant, "alice")}
			entry := func(k string) *conv.Send {
				s := &conv.Send{Conv: inbox, Peer: "alice", Keyed: true}
				s.Entry.ClientMsgId = k
				s.Entry.Body = &petrelv1.Message_Inbox{Inbox: &petrelv1.InboxEntry{}}
				return s
			}
			w.Gate.Store = &lossy{Store: w.Gate.Store, lose: lose}
			w.MustSend(entry("1"))
			w.restart()
			if q := w.MustSend(entry("2")); q != 2 {
				t.Errorf("%s lost: seq %d, want 2", what, q)
			}
			w.restart()
			if h, err := w.page(inbox, "alice", &convpb.GetHistory{}); err != nil || len(h.Rows) != 2 {
				t.Errorf("%s lost: %d rows, %v, want 2", what, len(h.GetRows()), err)
			}
		}
	})
}
