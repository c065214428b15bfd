package conv_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// behindARefusal submits one and then two while the commit of one is under way,
// which the store then refuses.
func (w *world) behindARefusal(one, two *conv.Send) (first, second conv.Result) {
	w.T.Helper()
	open := w.Gate.Shut()
	w.Gate.Refuse(true)
	a := w.Submit(one)[0]
	synctest.Wait()
	b := w.Submit(two)[0]
	synctest.Wait()
	open()
	return w.Await(a), w.Await(b)
}

func TestWhatIsQueuedBehindARefusedKickIsNotJudgedByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		kicked, said := w.behindARefusal(convtest.Kick(key, "kick", "bob"), convtest.Message(key, "bob", "m1", -1, "hi"))
		convtest.WantCode(t, kicked, im.CodeDiskFull)
		convtest.WantCode(t, said, im.CodeDiskFull)
		w.Gate.Refuse(false)
		w.MustSend(convtest.Message(key, "bob", "m1", -1, "hi"))
	})
}

func TestARefusedCreationIsNoRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := im.Key{Tenant: im.DefaultTenant, Conv: someStore.KeyedGroup(im.DefaultTenant, "crew")}
		create := func() *conv.Send {
			s := convtest.Entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("alice", 0)}})
			s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
			return s
		}
		first, second := w.behindARefusal(create(), create())
		convtest.WantCode(t, first, im.CodeDiskFull)
		convtest.WantCode(t, second, im.CodeDiskFull)
		if _, err := w.look(key, "alice"); im.CodeOf(err) != im.CodeNoConversation {
			t.Errorf("the group: %v, want no_conversation", err)
		}
	})
}

// A send that was tried before is not stored behind a later one of the same user, though that
// one is only in the next batch. Later messages of other users do not matter for this.
func TestASendThatWasTriedStaysInFrontOfALaterBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		last := func() *conv.Send { return convtest.Message(key, "alice", "last", 1, "last") }
		w.MustSend(last())
		sends := []*conv.Send{convtest.Message(key, "alice", "first", 1, "first"), convtest.Message(key, "bob", "bob's", 1, "bob's")}
		for i := range 300 { // a batch has 256
			sends = append(sends, convtest.Message(key, "bob", fmt.Sprint(i), 1, "bob's"))
		}
		sends = append(sends, last())
		for _, s := range sends {
			s.Tried = true
		}
		open := w.Gate.Shut() // sends of the meantime come together
		w.Submit(convtest.Message(key, "bob", "before", 1, "before"))
		synctest.Wait()
		answers := w.Submit(sends...)
		synctest.Wait()
		open()
		convtest.WantCode(t, w.Await(answers[0]), im.CodeStoreStalled)
		if r := w.Await(answers[1]); r.Err != nil || r.Seq != 4 {
			t.Errorf("bob is answered %+v, want seq 4", r)
		}
		if r := w.Await(answers[len(answers)-1]); r.Err != nil || r.Seq != 2 {
			t.Errorf("the last send of alice is answered %+v, want seq 2", r)
		}
	})
}

func TestAFormerMemberReadsNothingThatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Group("alice", "bob")
		q := w.MustSend(convtest.Message(key, "alice", "m1", -1, "hello"))
		w.MustSend(convtest.Kick(key, "kick", "bob"))
		w.MustSend(edit(key, "alice", "e1", q, "written after bob was removed"))
		w.MustSend(rename(key, "t2", "named after bob was removed"))
		if st, err := w.look(key, "bob"); err != nil || st.Title != "" {
			t.Errorf("title %q, %v", st.Title, err)
		}
		read, err := w.page(key, "bob", &convpb.GetHistory{})
		if err != nil {
			t.Fatal(err)
		}
		page, err := conv.HistoryPage(key.Conv, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			if m.GetText() != "" {
				t.Errorf("bob reads %q at %d", m.GetText(), m.Seq)
			}
		}
		if len(page.Messages) != 3 {
			t.Errorf("%d entries, want 3", len(page.Messages))
		}
	})
}
