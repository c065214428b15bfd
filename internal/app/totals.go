package app

import (
	"context"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Totals are counted while somebody looks, and no more often than once in ten minutes, or in a
// hundred times what it takes: counting is at most a hundredth of a core.
const (
	totalsEvery = 10 * time.Minute
	totalsPart  = 100
	totalsPage  = 1000 // records between two looks whether the server ends
)

// totals is how much there is, as it was counted last.
type totals struct {
	wanted chan struct{} // capacity 1; a token: somebody looks. A full one is enough

	mu   sync.Mutex // tier 0; guards the field below
	last *petrelv1.Totals
}

// want has the totals counted, and returns the last ones, with what is taken now.
func (a *App) wantTotals(now time.Time) *petrelv1.Totals {
	select {
	case a.watch.totals.wanted <- struct{}{}:
	default:
	}
	a.watch.totals.mu.Lock()
	last := a.watch.totals.last
	a.watch.totals.mu.Unlock()
	if last == nil {
		return nil
	}
	t := &petrelv1.Totals{CountedMs: last.CountedMs}
	for _, x := range last.Tenants {
		y := &petrelv1.TenantTotals{Tenant: x.Tenant, Users: x.Users, Groups: x.Groups}
		if id, err := a.users.Tenant(context.Background(), x.Tenant); err == nil { // it is in memory
			taken, bound := a.stored.TakenBy(now, im.Account{Tenant: id})
			y.TakenBytes, y.BoundBytes = uint64(taken), uint64(bound)
		}
		t.Tenants = append(t.Tenants, y)
	}
	return t
}

// countTotals counts when somebody looks, until ctx ends.
func (a *App) countTotals(ctx context.Context) error {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-a.watch.totals.wanted:
		case <-ctx.Done():
			return nil
		}
		begun := time.Now()
		if t, err := a.countAll(ctx); err == nil {
			t.CountedMs = uint64(begun.UnixMilli())
			a.watch.totals.mu.Lock()
			a.watch.totals.last = t
			a.watch.totals.mu.Unlock()
		} else if ctx.Err() == nil {
			a.log.WarnContext(ctx, "users and groups were not counted", "err", err)
		}
		rest.Reset(max(totalsEvery, totalsPart*time.Since(begun)))
	}
}

func (a *App) countAll(ctx context.Context) (*petrelv1.Totals, error) {
	list, err := a.users.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	t := &petrelv1.Totals{}
	for _, x := range list {
		id, err := a.users.Tenant(ctx, x.Name)
		if err != nil {
			continue // nobody has used it yet
		}
		of := &petrelv1.TenantTotals{Tenant: x.Name}
		if of.Users, err = a.countRecords(ctx, store.Users, id, nil); err == nil {
			of.Groups, err = a.countRecords(ctx, store.Titles, id, inbox.TitlesByConv)
		}
		if err != nil {
			return nil, err
		}
		t.Tenants = append(t.Tenants, of)
	}
	return t, nil
}

// countRecords counts the records of a tenant whose key begins with prefix.
func (a *App) countRecords(ctx context.Context, table store.Table, t im.Tenant, prefix []byte) (n uint64, err error) {
	err = a.store.Records(ctx, table, t, prefix, func(_, _ []byte) bool {
		n++
		return n%totalsPage != 0 || ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return n, err
}
