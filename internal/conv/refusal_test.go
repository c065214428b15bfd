package conv_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// behindARefusal submits one and then two while the commit of one is under way,
// which the store then refuses.
func (w *world) behindARefusal(one, two *conv.Send) (first, second conv.Result) {
	w.t.Helper()
	open := w.gate.shut()
	w.gate.refuse(true)
	a := w.submit(one)[0]
	for w.gate.stopped() == 0 {
		runtime.Gosched()
	}
	b := w.submit(two)[0]
	for range 10_000 { // the committer looks for the commit that is under way
		runtime.Gosched()
	}
	open()
	return w.await(a), w.await(b)
}

func TestWhatIsQueuedBehindARefusedKickIsNotJudgedByIt(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	kicked, said := w.behindARefusal(kick(key, "kick", "bob"), message(key, "bob", "m1", -1, "hi"))
	wantCode(t, kicked, im.CodeDiskFull)
	wantCode(t, said, im.CodeDiskFull)
	w.gate.refuse(false)
	w.mustSend(message(key, "bob", "m1", -1, "hi"))
}

func TestARefusedCreationIsNoRepeat(t *testing.T) {
	w := newWorld(t)
	key := im.Key{Tenant: im.DefaultTenant, Conv: im.KeyedGroupID(im.DefaultTenant, "crew")}
	create := func() *conv.Send {
		s := entry(key, "create", &petrelv1.MemberChange{Added: []*petrelv1.MemberRef{ref("alice", 0)}})
		s.Create = &storepb.Conversation{Kind: uint32(petrelv1.ConvKind_CONV_KIND_GROUP)}
		return s
	}
	first, second := w.behindARefusal(create(), create())
	wantCode(t, first, im.CodeDiskFull)
	wantCode(t, second, im.CodeDiskFull)
	if _, err := w.look(context.Background(), key, "alice"); im.CodeOf(err) != im.CodeNoConversation {
		t.Errorf("the group: %v, want no_conversation", err)
	}
}

func TestAFormerMemberReadsNothingThatCameLater(t *testing.T) {
	w := newWorld(t)
	key := w.group("alice", "bob")
	q := w.mustSend(message(key, "alice", "m1", -1, "hello"))
	w.mustSend(kick(key, "kick", "bob"))
	w.mustSend(edit(key, "alice", "e1", q, "written after bob was removed"))
	w.mustSend(rename(key, "t2", "named after bob was removed"))
	if st, err := w.look(context.Background(), key, "bob"); err != nil || st.Title != "" {
		t.Errorf("title %q, %v", st.Title, err)
	}
	page, err := w.router.HistoryPage(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "bob"}, &petrelv1.GetHistory{Conv: key.Conv.String()}, 200)
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
}
