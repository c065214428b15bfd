package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/inbox"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Totals are counted while operators look at them. After a count there is none for ten minutes, or for a hundred
// times the duration of the count if that is longer. So counting takes at most a hundredth of a core.
const (
	totalsEvery = 10 * time.Minute
	totalsPart  = 100
	totalsPage  = 1000 // records between two checks of ctx
	largestKept = 10   // conversations that are listed
)

// totals has the newest counts.
type totals struct {
	wanted chan struct{} // capacity 1; a token: an operator looks

	mu   sync.Mutex // tier 0; guards the field below
	last *petrelv1.Totals
}

// wantTotals asks for a new count. It returns the newest totals, with the bytes that tenants have stored lately;
// nil: there was no count yet.
func (c *Console) wantTotals(now time.Time) *petrelv1.Totals {
	select {
	case c.totals.wanted <- struct{}{}:
	default:
	}
	c.totals.mu.Lock()
	last := c.totals.last
	c.totals.mu.Unlock()
	if last == nil {
		return nil
	}
	t := &petrelv1.Totals{CountedMs: last.CountedMs, Largest: last.Largest}
	for _, x := range last.Tenants {
		y := &petrelv1.TenantTotals{Tenant: x.Tenant, Users: x.Users, Groups: x.Groups, Messages: x.Messages,
			StoredBytes: x.StoredBytes}
		if id, err := c.o.Users.Tenant(context.Background(), x.Tenant); err == nil { // it is in memory
			taken, bound := c.o.Taken(now, im.Account{Tenant: id})
			y.TakenBytes, y.BoundBytes = uint64(taken), uint64(bound)
		}
		t.Tenants = append(t.Tenants, y)
	}
	return t
}

// CountTotals counts the totals when operators look at them, until ctx ends.
func (c *Console) CountTotals(ctx context.Context) error {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-rest.C:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-c.totals.wanted:
		case <-ctx.Done():
			return nil
		}
		begun := time.Now()
		if t, err := c.countAll(ctx); err == nil {
			t.CountedMs = uint64(begun.UnixMilli())
			c.totals.mu.Lock()
			c.totals.last = t
			c.totals.mu.Unlock()
		} else if ctx.Err() == nil {
			c.o.Log.WarnContext(ctx, "users, groups and messages were not counted", "err", err)
		}
		rest.Reset(max(totalsEvery, totalsPart*time.Since(begun)))
	}
}

func (c *Console) countAll(ctx context.Context) (*petrelv1.Totals, error) {
	list, err := c.o.Users.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	t := &petrelv1.Totals{}
	tenants := map[im.Tenant]*petrelv1.TenantTotals{}
	for _, x := range list {
		id, err := c.o.Users.Tenant(ctx, x.Name)
		if err != nil {
			continue // nobody has used it yet
		}
		of := &petrelv1.TenantTotals{Tenant: x.Name}
		if of.Users, err = c.countRecords(ctx, store.Users, id, nil); err == nil {
			of.Groups, err = c.countRecords(ctx, store.Titles, id, inbox.TitlesByConv)
		}
		if err != nil {
			return nil, err
		}
		t.Tenants = append(t.Tenants, of)
		tenants[id] = of
	}
	switch largest, err := c.countMessages(ctx, tenants); {
	case err == nil:
		t.Largest = largest
	case errors.Is(err, store.ErrCorrupt): // the incident store_damaged says so
	default:
		return nil, err
	}
	return t, nil
}

// countMessages counts the messages of tenants and their bytes, and returns the largest conversations. After an
// error no tenant has changed.
func (c *Console) countMessages(ctx context.Context,
	tenants map[im.Tenant]*petrelv1.TenantTotals) (largest []*petrelv1.LargeConversation, err error) {
	sums := map[im.Tenant]store.Size{}
	n := 0
	err = c.o.Store.Sizes(ctx, func(key im.Key, x store.Size) bool {
		if of := tenants[key.Tenant]; of != nil && !policy.Of(key.Conv.Kind()).List { // inboxes have no messages
			sum := sums[key.Tenant]
			sums[key.Tenant] = store.Size{Rows: sum.Rows + x.Rows, Bytes: sum.Bytes + x.Bytes}
			if len(largest) < largestKept || x.Bytes > largest[largestKept-1].StoredBytes {
				largest = append(largest[:min(len(largest), largestKept-1)],
					&petrelv1.LargeConversation{Tenant: of.Tenant, Conv: key.Conv.String(), Messages: x.Rows,
						StoredBytes: x.Bytes})
				slices.SortStableFunc(largest, func(x, y *petrelv1.LargeConversation) int {
					return cmp.Compare(y.StoredBytes, x.StoredBytes)
				})
			}
		}
		n++
		return n%totalsPage != 0 || ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	for id, of := range tenants {
		sum := sums[id]
		of.Messages, of.StoredBytes = &sum.Rows, &sum.Bytes
	}
	return largest, nil
}

// countRecords counts the records of a tenant whose key begins with prefix.
func (c *Console) countRecords(ctx context.Context, table store.Table, t im.Tenant,
	prefix []byte) (n uint64, err error) {
	err = c.o.Store.Records(ctx, table, t, prefix, func(_, _ []byte) bool {
		n++
		return n%totalsPage != 0 || ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return n, err
}
