package inbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
)

// lost makes a world whose store was put back to an earlier state: later happens
// after that state, and first before it. It returns the world with the future
// and the one without it, and the proofs for which the latter has to end.
func lost(t *testing.T, first, later func(w *world)) (future, back *world, proofs *[]string) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	future = &world{t: t, fs: mem, cache: 8 << 20}
	future.start()
	t.Cleanup(future.stop)
	first(future)
	future.settle()
	disk := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	later(future)
	future.settle()
	back = &world{t: t, fs: disk, cache: 8 << 20}
	back.start()
	t.Cleanup(back.stop)
	back.settle()
	proofs = new([]string)
	back.sync.Refute = func(proof string) { *proofs = append(*proofs, proof) }
	return future, back, proofs
}

func (w *world) wantRefuted(u im.User, token []byte, proofs *[]string, what string) {
	w.t.Helper()
	p, err := w.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: u}, token, inbox.Wants{Newest: conv.Newest{Messages: 10}})
	if err == nil || im.CodeOf(err) != im.CodeStoreStalled {
		w.t.Errorf("got %v, %v, want %s", p, err, im.CodeStoreStalled)
	}
	if len(*proofs) != 1 || !strings.Contains((*proofs)[0], what) || !strings.Contains((*proofs)[0], string(u)) {
		w.t.Errorf("proofs %q, want one of %s with %q", *proofs, u, what)
	}
	*proofs = nil
}

// A client has synced what a store that was put back does not know. Spec: P-6.8.
func TestTokenOfALostMessageRefutesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var key im.Key
		future, back, proofs := lost(t,
			func(w *world) { key = w.group("team", "alice", "bob") },
			func(w *world) { w.say(key, "bob", "lost") })
		_, token := future.all("alice", nil)
		back.wantRefuted("alice", token, proofs, "commit ")
	})
}

func TestTokenOfALostConversationRefutesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		future, back, proofs := lost(t, func(*world) {}, func(w *world) { w.group("team", "alice", "bob") })
		_, token := future.all("alice", nil)
		back.wantRefuted("alice", token, proofs, "of their inbox")
	})
}

func TestTokenFromTheMiddleOfALostListRefutesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var key im.Key
		future, back, proofs := lost(t, func(w *world) {
			for i := range 250 {
				key = w.group(fmt.Sprint("group ", i), "alice", "bob")
			}
		}, func(w *world) { w.say(key, "bob", "lost") })
		p := future.page("alice", nil)
		if !p.More {
			t.Fatal("the list has one page")
		}
		back.wantRefuted("alice", p.Token, proofs, "commit ")
	})
}

// A claim that a client can make up proves nothing; otherwise a client could stop the
// server for all.
func TestOnlyAnOwnTokenRefutesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var key im.Key
		future, back, proofs := lost(t,
			func(w *world) { key = w.group("team", "alice", "bob") },
			func(w *world) { w.say(key, "bob", "lost") })
		_, early := back.all("alice", nil)
		_, token := future.all("alice", nil)
		for what, c := range map[string]struct {
			user  im.User
			token []byte
			code  im.Code
		}{
			"of another user":     {"bob", token, im.CodeBadToken},
			"altered":             {"alice", append([]byte{token[0], token[1] ^ 1}, token[2:]...), im.CodeBadToken},
			"of this state":       {"alice", early, ""},
			"of nobody, no token": {"zoe", nil, ""},
		} {
			_, err := back.sync.Sync(context.Background(), im.Account{Tenant: im.DefaultTenant, User: c.user}, c.token, inbox.Wants{Newest: conv.Newest{Messages: 10}})
			if c.code == "" && err != nil || c.code != "" && im.CodeOf(err) != c.code {
				t.Errorf("%s: got %v, want code %q", what, err, c.code)
			}
		}
		if len(*proofs) > 0 {
			t.Errorf("proofs %q, want none", *proofs)
		}
	})
}

// ahead is a store that has more commits than the owner here has published, as
// for the node of a cluster whose owner was not heard of yet.
type ahead struct{ store.Store }

func (s ahead) Holders(ctx context.Context, feeds []store.Feed) ([]store.Holder, error) {
	all, err := s.Store.Holders(ctx, feeds)
	for i := range all {
		all[i].Pos += 1000
	}
	return all, err
}

func TestTokenAheadOfAnOwnerButNotOfTheStoreProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var key im.Key
		future, back, proofs := lost(t,
			func(w *world) { key = w.group("team", "alice", "bob") },
			func(w *world) { w.say(key, "bob", "not heard of") })
		_, token := future.all("alice", nil)
		back.sync.Store = ahead{back.store}
		back.all("alice", token)
		if len(*proofs) > 0 {
			t.Errorf("proofs %q, want none: the store decides", *proofs)
		}
	})
}
