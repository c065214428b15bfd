package inbox_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// save saves the place of the consumer, as it does every few seconds.
func (w *world) save() {
	w.t.Helper()
	w.kill()
	if err := w.consumer.Save(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.consume()
}

// groups makes many groups of alice's.
func (w *world) groups(n int) []im.Key {
	w.t.Helper()
	var keys []im.Key
	var sends []*conv.Send
	for i := range n {
		s := &conv.Send{Conv: im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, fmt.Sprint(w.id(), " ", i))}, Keyed: true}
		s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP), Title: fmt.Sprint("group ", i)}
		s.Entry.ClientMsgId, s.Entry.Body = "first", &petrelv1.Message_Members{Members: &petrelv1.MemberChange{Added: refs(0, "alice", "bob")}}
		keys, sends = append(keys, s.Conv), append(sends, s)
	}
	w.many(sends)
	w.settle()
	return keys
}

// A sync reads the conversations that have news, and hardly any other: with everything
// in memory, and after a start with nothing there. It reads no entry of the inbox again.
func TestSyncReadsWhatHasNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1200
		w := newWorld(t)
		keys := w.groups(n)
		_, token := w.all("alice", nil)
		sync := func(what string, most int64, want ...im.Key) {
			t.Helper()
			rows, looks := w.rows.read.Load(), w.rows.looks.Load()
			var states map[string]*petrelv1.ConvState
			states, token = w.all("alice", token)
			w.wantConvs(what, states, want...)
			if rows, looks = w.rows.read.Load()-rows, w.rows.looks.Load()-looks; rows > 10 || looks > most {
				t.Fatalf("%s: a sync reads %d rows and %d records", what, rows, looks)
			}
		}
		sync("no news", 10)
		w.say(keys[3], "bob", "hi")
		w.mustMove("alice", keys[700], 1, 1)
		sync("two have news", 20, keys[3], keys[700])
		w.save()
		w.say(keys[5], "bob", "after the save")
		for i := range 2 {
			w.restart()
			w.settle()
			if i == 0 {
				sync("one has news, after a start", 30, keys[5])
			} else {
				sync("no news, after a start", 20)
			}
		}
		w.save()
		w.restart()
		synctest.Wait() // until the consumer has read the index
		sync("no news, after a save and a start", 19)
	})
}

// A list that is stored is the one that the inbox comes to, however often it was stored
// in between, and also if a part of it is damaged or gone.
func TestStoredListIsThatOfTheInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		keys := w.groups(450)
		w.setOne("", "theme", "dark")
		check := func(what string) {
			t.Helper()
			got, _ := w.all("alice", nil)
			settings := w.settings(alice)
			w.forgetLists()
			w.restart()
			w.settle()
			want, _ := w.all("alice", nil)
			if !maps.EqualFunc(want, got, func(a, b *petrelv1.ConvState) bool { return proto.Equal(a, b) }) {
				t.Fatalf("%s: list (-folded +stored):\n%s", what, cmp.Diff(want, got, protocmp.Transform()))
			}
			if d := cmp.Diff(w.settings(alice), settings); d != "" {
				t.Fatalf("%s: settings (-folded +stored):\n%s", what, d)
			}
		}
		w.all("alice", nil)
		w.restart()
		check("stored once")
		for i := range 110 { // enough to store it again
			w.change(keys[4*i], &petrelv1.MemberChange{Removed: []string{"alice"}})
		}
		w.setOne(keys[0].Conv.String(), "mute", "1")
		w.settle()
		w.all("alice", nil)
		w.restart()
		for i := range 5 {
			w.change(keys[4*i], &petrelv1.MemberChange{Added: refs(0, "alice")})
		}
		w.groups(10)
		check("stored twice, and some entries after that")

		for what, value := range map[string][]byte{"gone": nil, "damaged": []byte("damaged")} {
			w.restart()
			w.all("alice", nil)
			var puts []store.RecordPut
			err := w.store.Records(context.Background(), store.Lists, im.DefaultTenant, []byte("alice\x00"), func(key, _ []byte) bool {
				if key[len("alice\x00")] != 'h' {
					puts = append(puts, store.RecordPut{Table: store.Lists, Tenant: im.DefaultTenant, Key: append([]byte(nil), key...), Value: value})
				}
				return true
			})
			if err != nil || len(puts) < 2 {
				t.Fatalf("%d records, %v", len(puts), err)
			}
			if err := w.store.Update(context.Background(), puts); err != nil {
				t.Fatal(err)
			}
			w.restart()
			w.settle()
			check(what)
		}
	})
}
