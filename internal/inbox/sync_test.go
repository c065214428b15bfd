package inbox_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/route"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// page asks for one page of a sync.
func (w *world) page(u im.User, token []byte) *petrelv1.SyncPage {
	w.t.Helper()
	p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: u}, token, inbox.Wants{})
	if err != nil {
		w.t.Fatalf("sync of %s: %v", u, err)
	}
	return p
}

// all asks until there is no more, and returns the last token.
func (w *world) all(u im.User, token []byte) (map[string]*petrelv1.ConvState, []byte) {
	w.t.Helper()
	states := map[string]*petrelv1.ConvState{}
	for range 100 {
		p := w.page(u, token)
		for _, c := range p.Convs {
			if states[c.Conv] != nil {
				w.t.Errorf("%s is in two pages of one sync", c.Conv)
			}
			states[c.Conv] = c
		}
		token = p.Token
		if !p.More {
			return states, token
		}
	}
	w.t.Fatal("a sync has no end")
	return nil, nil
}

func ids(states map[string]*petrelv1.ConvState) []string {
	var out []string
	for id := range states {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (w *world) wantConvs(what string, states map[string]*petrelv1.ConvState, keys ...im.Key) {
	w.t.Helper()
	var want []string
	for _, k := range keys {
		want = append(want, k.Conv.String())
	}
	slices.Sort(want)
	if d := cmp.Diff(want, ids(states)); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestSyncOfANewUserIsEmptyAndItsTokenWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		states, token := w.all("alice", nil)
		w.wantConvs("a new user", states)
		if len(token) == 0 {
			t.Fatal("no token")
		}
		key := w.direct("bob", "alice", "hi")
		w.settle()
		states, _ = w.all("alice", token)
		w.wantConvs("after the first message", states, key)
	})
}

// Spec: P-6.2.
func TestSyncSaysTheStateOfEveryConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		w.say(key, "bob", "one")
		w.change(key, &petrelv1.MemberChange{Added: refs(petrelv1.Role_ROLE_ADMIN, "carol")})
		w.say(key, "bob", "two")
		direct := w.direct("bob", "carol", "hi")
		self := w.direct("carol", "carol", "note")
		w.settle()
		states, _ := w.all("carol", nil)
		for _, want := range []*petrelv1.ConvState{
			{Conv: key.Conv.String(), Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Title: "team", Head: 4, Counted: 2, FirstSeq: 1, Role: petrelv1.Role_ROLE_ADMIN, Joined: 3, ReadCounted: 1},
			{Conv: direct.Conv.String(), Kind: petrelv1.ConvKind_CONV_KIND_DIRECT, Peer: "bob", Head: 1, Counted: 1, FirstSeq: 1, Role: petrelv1.Role_ROLE_MEMBER, Joined: 1},
			{Conv: self.Conv.String(), Kind: petrelv1.ConvKind_CONV_KIND_DIRECT, Peer: "carol", Head: 1, Counted: 1, FirstSeq: 1, Role: petrelv1.Role_ROLE_MEMBER, Joined: 1},
		} {
			if d := cmp.Diff(want, states[want.Conv], protocmp.Transform()); d != "" {
				t.Errorf("state (-want +got):\n%s", d)
			}
		}
		w.wantConvs("carol's list", states, key, direct, self) // not the inbox
	})
}

func TestSyncNamesOnlyWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two, other := w.group("one", "alice", "bob"), w.group("two", "alice", "bob"), w.group("other", "bob")
		w.settle()
		states, token := w.all("alice", nil)
		w.wantConvs("everything", states, one, two)
		again, same := w.all("alice", token)
		w.wantConvs("nothing has changed", again)
		w.say(two, "bob", "hi")
		w.say(other, "bob", "not for alice")
		for _, from := range [][]byte{token, same} {
			states, _ = w.all("alice", from)
			w.wantConvs("a message came", states, two)
			if got := states[two.Conv.String()]; got.Head != 2 || got.Counted != 1 {
				t.Errorf("state %v", got)
			}
		}
		_, token = w.all("alice", token)
		three := w.group("three", "alice")
		w.change(one, &petrelv1.MemberChange{Roles: refs(petrelv1.Role_ROLE_ADMIN, "alice")})
		w.settle()
		w.restart()
		w.settle()
		states, token = w.all("alice", token)
		w.wantConvs("a new group and a role, over a restart", states, one, three)
		if got := states[one.Conv.String()].Role; got != petrelv1.Role_ROLE_ADMIN {
			t.Errorf("role %s", got)
		}
		states, _ = w.all("alice", token)
		w.wantConvs("nothing more", states)
	})
}

// The list runs behind the conversations: changes that a sync could not know are in the
// next one, though the conversation has not moved since.
func TestSyncNamesWhatReachedTheInboxAfterTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := w.group("old", "alice")
		w.settle()
		w.kill()
		key := w.group("team", "alice", "bob")
		states, token := w.all("alice", nil)
		w.wantConvs("before the inbox has it", states, old)
		w.consume()
		w.settle()
		states, token = w.all("alice", token)
		w.wantConvs("behind it", states, key)
		states, _ = w.all("alice", token)
		w.wantConvs("nothing more", states)
	})
}

// Spec: P-6.2, P-8.3: a user who left gets the end of their part, and nothing later.
func TestSyncOfAConversationThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		w.say(key, "bob", "one")
		w.settle()
		_, before := w.all("alice", nil)
		w.change(key, &petrelv1.MemberChange{Removed: []string{"alice"}})
		want := &petrelv1.ConvState{Conv: key.Conv.String(), Kind: petrelv1.ConvKind_CONV_KIND_GROUP, Title: "team", Head: 3, Counted: 1, FirstSeq: 1, Joined: 1, Left: true}
		for range 3 {
			w.settle()
			for what, token := range map[string][]byte{"with an old token": before, "without a token": nil} {
				states, _ := w.all("alice", token)
				if d := cmp.Diff(want, states[want.Conv], protocmp.Transform()); d != "" {
					t.Errorf("%s (-want +got):\n%s", what, d)
				}
			}
			w.say(key, "bob", "not for alice")
			w.restart()
		}
		back := w.change(key, &petrelv1.MemberChange{Added: refs(0, "alice")})
		w.settle()
		states, _ := w.all("alice", before)
		if got := states[want.Conv]; got.GetLeft() || got.GetHead() != uint64(back) || got.GetJoined() != 1 || got.GetRole() != petrelv1.Role_ROLE_MEMBER {
			t.Errorf("back again: %v", got)
		}
	})
}

// Spec: P-8.3: one conversation that was left is told as a sync tells it, with the title that
// it had then, also from a list that is stored in parts.
func TestConversationThatWasLeftHasTheTitleOfThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.group("team", "alice", "bob")
		w.rename(key, "crew")
		w.change(key, &petrelv1.MemberChange{Removed: []string{"alice"}})
		w.rename(key, "not for alice")
		for _, groups := range []int{0, 600} { // the list of so many is stored
			for i := range groups {
				w.group(fmt.Sprint("g", i), "alice")
			}
			w.settle()
			w.restart()
			states, _ := w.all("alice", nil)
			got, err := w.sync.Conversation(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, key.Conv, false)
			if d := cmp.Diff(states[key.Conv.String()], got, protocmp.Transform()); err != nil || d != "" || got.GetTitle() != "crew" {
				t.Errorf("beside %d groups: title %q, %v (-sync +conversation):\n%s", groups, got.GetTitle(), err, d)
			}
		}
		if got, err := w.sync.Conversation(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "bob"}, key.Conv, false); err != nil || got.Title != "not for alice" {
			t.Errorf("to a member: %v, %v", got, err)
		}
	})
}

// Spec: P-8.3: the inboxes may be written long after a user has left, and the group have
// another title by then. It is not for those who are gone.
func TestFormerMemberIsNotToldALaterTitle(t *testing.T) {
	for what, lose := range map[string]func(w *world){"late": func(*world) {}, "from a trimmed feed": func(w *world) {
		w.trim()
		w.allowed = "feed was trimmed"
	}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.group("carried", "alice")
				w.settle()
				w.kill()
				key := w.group("team", "alice", "bob", "carol")
				w.rename(key, "crew")
				w.change(key, &petrelv1.MemberChange{Removed: []string{"alice"}})
				w.rename(key, "without alice")
				w.change(key, &petrelv1.MemberChange{Removed: []string{"bob"}})
				for i := range 9 {
					w.rename(key, fmt.Sprint("secret ", i))
				}
				lose(w)
				w.say(key, "carol", "the last entry of the feed")
				w.consume()
				w.settle()
				for u, want := range map[im.User]string{"alice": "", "bob": "", "carol": "secret 8"} { // nine titles ago: not remembered
					if states, _ := w.all(u, nil); states[key.Conv.String()].GetTitle() != want {
						t.Errorf("%s is told the title %q, want %q", u, states[key.Conv.String()].GetTitle(), want)
					}
				}
				w.kill()
				next := w.group("boat", "alice", "bob")
				w.change(next, &petrelv1.MemberChange{Removed: []string{"alice"}})
				w.rename(next, "secret")
				lose(w)
				w.say(next, "bob", "the last entry of the feed")
				w.consume()
				w.settle()
				if states, _ := w.all("alice", nil); states[next.Conv.String()].GetTitle() != "boat" {
					t.Errorf("alice is told the title %q, want boat", states[next.Conv.String()].GetTitle())
				}
			})
		})
	}
}

// The list comes in pages. A change while they are read, before or behind the place
// reached, is in them or in the next sync.
func TestSyncInPagesLosesNothingThatChangesBetweenThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var keys []im.Key
		for i := range 620 { // a list that is kept
			keys = append(keys, w.group(fmt.Sprint("group ", i), "alice", "bob"))
		}
		w.settle()
		slices.SortFunc(keys, func(a, b im.Key) int { return slices.Compare(a.Conv[:], b.Conv[:]) })
		heads := map[string]uint64{}
		var token []byte
		joined := 0
		pages := 0
		read := func() {
			p := w.page("alice", token)
			pages++
			if len(p.Convs) > 200 {
				t.Fatalf("a page of %d conversations", len(p.Convs))
			}
			for _, c := range p.Convs {
				heads[c.Conv] = max(heads[c.Conv], c.Head)
			}
			token = p.Token
			for i := 5; i < len(keys) && p.More; i += 60 { // in every part of the list
				w.say(keys[i], "bob", "between pages")
			}
			if p.More {
				joined++
				keys = append(keys, w.group(fmt.Sprint("joined between pages ", joined), "alice", "bob"))
				role := []petrelv1.Role{petrelv1.Role_ROLE_MEMBER, petrelv1.Role_ROLE_ADMIN}[joined%2]
				w.change(keys[3], &petrelv1.MemberChange{Roles: refs(role, "alice")})
				w.settle()
			} else if pages < 4 {
				t.Errorf("%d pages for 620 conversations", pages)
			}
		}
		for more := true; more; {
			before := token
			read()
			more = w.page("alice", before).More // the same page again changes nothing
		}
		states, token := w.all("alice", token)
		for id, st := range states {
			heads[id] = max(heads[id], st.Head)
		}
		for _, k := range keys {
			st, err := w.look(k, "alice")
			if err != nil {
				t.Fatal(err)
			}
			if got := heads[k.Conv.String()]; got != uint64(st.Head) {
				t.Errorf("%s is known up to %d, its head is %d", k, got, st.Head)
			}
		}
		states, _ = w.all("alice", token)
		w.wantConvs("after the last page", states)
	})
}

func TestForeignTokensAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := newWorld(t), newWorld(t)
		w.group("team", "alice")
		w.settle()
		_, good := w.all("alice", nil)
		_, foreign := other.all("alice", nil)
		bad := map[string][]byte{"of another store": foreign, "text": []byte("token"), "zero": {0}, "more behind it": append(slices.Clone(good), 0x30, 1), "twice": append(slices.Clone(good), good...)}
		for i := range good {
			altered := slices.Clone(good)
			altered[i] ^= 1
			bad[fmt.Sprint("altered at ", i)] = altered
			if i > 0 {
				bad[fmt.Sprint("cut at ", i)] = good[:i]
			}
		}
		for what, token := range bad {
			if p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, token, inbox.Wants{}); err == nil || im.CodeOf(err) != im.CodeBadToken {
				t.Errorf("%s: %v, %v; want %s", what, p, err, im.CodeBadToken)
			}
		}
		if _, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: "alice"}, good, inbox.Wants{}); err != nil {
			t.Errorf("the good token: %v", err)
		}
	})
}

// renamed is a store that says it is another one.
type renamed struct {
	store.Store
	info store.Info
}

func (r renamed) Info() store.Info { return r.info }

// Spec: P-3.4, P-6.2.
func TestTokenOfAnotherHistoryCountsAsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var keys []im.Key
		for i := range 250 {
			keys = append(keys, w.group(fmt.Sprint("group ", i), "alice"))
		}
		w.settle()
		first := w.page("alice", nil).Token // of the middle of a list
		_, last := w.all("alice", nil)
		info := w.store.Info()
		info.HistoryID++
		w.sync = &inbox.Syncer{Router: w.router, Store: renamed{w.store, info}}
		for what, token := range map[string][]byte{"first page": first, "last page": last} {
			states, again := w.all("alice", token)
			w.wantConvs("token of a "+what, states, keys...)
			states, _ = w.all("alice", again)
			w.wantConvs("its successor", states)
		}
	})
}

// Spec: P-6.3, P-6.4: who lags drops events; the sync behind Resume names them,
// or they are pushed.
func TestSyncAfterALagNamesWhatWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.group("one", "alice", "bob"), w.group("two", "alice", "bob")
		w.settle()
		_, token := w.all("alice", nil)
		out := fanout.NewOutbox(wire.Encoding{Codec: wire.Proto, Framing: wire.TCP}, fanout.NewFlusher(func() {}), 300)
		out.Account = im.Account{Tenant: im.DefaultTenant, User: "alice"}
		w.table.Enter(out.Account, out, -1)
		out.Welcome(&petrelv1.ServerFrame{}, &fanout.WakeUps{})
		seen := map[string]bool{} // what was pushed
		pushed := func() (lagged bool) {
			p, _ := out.Take()
			defer out.Wrote(p, 0)
			for b := p.Bytes; len(b) > 0; {
				n := binary.BigEndian.Uint32(b)
				var f petrelv1.ServerFrame
				if err := f.UnmarshalVT(b[4 : 4+n]); err != nil {
					t.Fatal(err)
				}
				b = b[4+n:]
				lagged = lagged || f.GetLagged() != nil
				for _, m := range f.GetEvents().GetMessages() {
					seen[fmt.Sprintf("%s %d", m.Conv, m.Seq)] = true
				}
			}
			return lagged
		}
		for range 20 {
			w.say(one, "bob", "a message that takes its place in the outbox")
		}
		w.say(two, "bob", "the last one, dropped")
		if !pushed() || seen[fmt.Sprintf("%s %d", two.Conv, 2)] {
			t.Fatal("the outbox did not overflow")
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { // others go on writing meanwhile
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
					w.say(two, "bob", "meanwhile")
					if pushed() {
						t.Error("lagged again")
					}
				}
			}
		}()
		out.Resume()
		states, _ := w.all("alice", token)
		close(stop)
		<-done
		pushed()
		w.wantConvs("behind the lag", states, one, two)
		for _, k := range []im.Key{one, two} {
			st, err := w.look(k, "alice")
			if err != nil {
				t.Fatal(err)
			}
			for q := states[k.Conv.String()].GetHead() + 1; q <= uint64(st.Head); q++ {
				if !seen[fmt.Sprintf("%s %d", k.Conv, q)] {
					t.Errorf("%s seq %d was neither pushed nor below the head of the sync", k, q)
				}
			}
		}
	})
}

func TestTenantsHaveTheirOwnLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.group("team", "alice")
		w.settle()
		p, err := w.sync.Sync(context.Background(), im.Account{Tenant: 2, User: "alice"}, nil, inbox.Wants{})
		if err != nil || len(p.Convs) != 0 {
			t.Errorf("alice of another tenant: %v, %v", p, err)
		}
	})
}

func (w *world) move(u im.User, key im.Key, delivered, read im.Seq) (*petrelv1.CursorMoved, error) {
	return route.Ask(context.Background(), w.router, conv.Query{Conv: key, User: u}, (*conv.Owner).MoveCursor, &convpb.MoveCursor{Delivered: uint64(delivered), Read: uint64(read)})
}

// A page of a sync is bounded by what it takes in JSON, where a control character has 6
// bytes: it has about 64 KiB of newest messages and settings, and at most one message that
// goes beyond. Each conversation is on one page. Spec: P-6.2.
func TestSyncPageOfControlCharactersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = 48 << 10
		w := newWorld(t)
		keys := w.groups(12)
		for i, key := range keys {
			text := strings.Repeat("\x01", body)
			if i%3 == 0 {
				text = "short"
			}
			w.say(key, "bob", text)
		}
		for i := range 10 {
			w.setOne("", fmt.Sprint("name", i), strings.Repeat("\x01", 20_000))
		}
		w.settle()
		seen, settings := map[string]int{}, 0
		var token []byte
		for more := true; more; {
			p, err := w.sync.Sync(t.Context(), alice, token, inbox.Wants{Newest: conv.Newest{Messages: 1}, Personal: true})
			if err != nil {
				t.Fatal(err)
			}
			b, ok := wire.AppendPage(nil, p)
			if most := 2*(64<<10) + 6*body + 8<<10; !ok || len(b) > most {
				t.Errorf("a page has %d bytes, want at most %d", len(b), most)
			}
			for _, c := range p.Convs {
				seen[c.Conv]++
			}
			settings += len(p.Personal)
			more, token = p.More, p.Token
		}
		for _, key := range keys {
			if n := seen[key.Conv.String()]; n != 1 {
				t.Errorf("%s is on %d pages", key.Conv, n)
			}
		}
		if settings != 10 {
			t.Errorf("%d settings, want 10", settings)
		}
	})
}
