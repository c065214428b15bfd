package inbox_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
)

// unreadable is a store that does not answer the first reads of the place of a consumer.
type unreadable struct {
	store.Store
	left int
}

func (s *unreadable) Record(ctx context.Context, t store.Table, tenant im.Tenant, key []byte) ([]byte, error) {
	if t == store.Consumers && s.left > 0 {
		s.left--
		return nil, errors.New("no answer")
	}
	return s.Store.Record(ctx, t, tenant, key)
}

// consumers are those of a world; follow starts the one of its feed.
func (w *world) consumers(st store.Store) (all *inbox.Consumers, follow func() (stop func())) {
	all = &inbox.Consumers{Log: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn})), Convs: w.convs, Store: st}
	return all, func() func() {
		return w.run("consumers", func(ctx context.Context) error {
			all.Follow(ctx, w.convs.Owners()[0])
			return nil
		})
	}
}

// A node owns a feed before its consumer has begun. Await waits for the consumer, and
// then for the inboxes.
func TestInboxesAreAwaitedBeforeTheirConsumerBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.kill()
		team := w.group("team", "alice")
		reads := make(chan struct{}) // closed: the consumer may read the group
		w.rows.onRows = func(c im.Key) {
			if c == team {
				<-reads
			}
		}
		all, follow := w.consumers(w.store)
		answered := make(chan error, 1)
		go func() { answered <- all.Await(context.Background(), w.convs.Owners()[0]) }()
		waits := func(what string) {
			t.Helper()
			time.Sleep(time.Minute)
			if len(answered) != 0 {
				t.Errorf("%s: Await says %v", what, <-answered)
			}
		}
		waits("no consumer has begun")
		stop := follow()
		defer stop()
		waits("the consumer still carries the change")
		close(reads)
		synctest.Wait()
		if len(answered) != 1 {
			t.Fatal("the consumer has carried the change, and Await waits")
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if got := len(w.inbox("alice")); got != 1 {
			t.Errorf("after Await the inbox has %d entries, want 1", got)
		}
	})
}

// A consumer that cannot read its place tries again each second.
func TestConsumerBeginsOnceTheStoreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.kill()
		w.group("team", "alice")
		w.allowed = "start consumer failed"
		_, follow := w.consumers(&unreadable{w.store, 3})
		stop := follow()
		defer stop()
		time.Sleep(3*time.Second - 1)
		w.wantInbox("alice")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := len(w.inbox("alice")); got != 1 {
			t.Errorf("the store answers the fourth read, after 3 s, and the inbox has %d entries, want 1", got)
		}
	})
}
