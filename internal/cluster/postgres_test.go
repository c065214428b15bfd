//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/petrel-im/petrel/internal/bus/localbus"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgstore"
	"github.com/petrel-im/petrel/internal/store/pgtest"
)

// process is a node on a real database, in real time.
type process struct {
	c     *Cluster
	store *pgstore.Store
	looks *looks
	end   func() // as kill -9 does
}

// looks is a store that counts how often its rows of nodes were read.
type looks struct {
	store.Store
	read, failed atomic.Int64
}

// Records is of store.Store.
func (l *looks) Records(ctx context.Context, t store.Table, tenant im.Tenant, prefix []byte, fn func(key, value []byte) bool) error {
	err := l.Store.Records(ctx, t, tenant, prefix, fn)
	if err == nil {
		l.read.Add(1)
	} else {
		l.failed.Add(1)
	}
	return err
}

func startProcess(t *testing.T, net *localbus.Net, id im.Node, dsn string) *process {
	t.Helper()
	p, err := joinProcess(t, net, id, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// joinProcess starts a process; an error is that of Join, and it has ended then.
func joinProcess(t *testing.T, net *localbus.Net, id im.Node, dsn string) (*process, error) {
	t.Helper()
	st, err := pgstore.Open(t.Context(), pgstore.Options{DSNs: []string{dsn}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := net.Join(id)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{store: st, looks: &looks{Store: st}}
	p.c = New(Options{Databases: &Databases{Seen: st.Seen, Hear: st.Hear, Behind: st.Behind}}, p.looks, b)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx) })
	p.end = sync.OnceFunc(func() {
		stop()
		wg.Wait()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	if err := p.c.Join(ctx); err != nil {
		p.end()
		return nil, err
	}
	wg.Go(func() {
		err := p.c.Run(ctx, Owners{
			Open: func(ctx context.Context, f store.Feed) (im.Epoch, error) {
				e, _, err := st.Takeover(ctx, f, p.c.Incarnation())
				return e, err
			},
			Close: func(context.Context, store.Feed) {},
		})
		if err != nil {
			t.Error(err)
		}
	})
	return p, nil
}

// has waits until p owns so many feeds, and all other feeds are somebody's as well.
func (p *process) has(t *testing.T, want int) {
	t.Helper()
	own, unowned := 0, 0
	if !eventually.Holds(func() bool {
		s := p.c.Status()
		own, unowned = 0, len(s.Unowned)
		for _, n := range s.Nodes {
			if n.Node == p.c.Self() {
				own = len(n.Feeds)
			}
		}
		return own == want && unowned == 0
	}) {
		t.Fatalf("%s has %d feeds, want %d; %d have no owner", p.c.Self(), own, want, unowned)
	}
}

// The same on PostgreSQL, with its syncs: a start, a join, a database that does
// not answer for longer than a node may, a kill, a drain.
func TestOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t, pgtest.Options{Settings: map[string]string{"fsync": "on"}})
	dsn := server.New(t)
	net := localbus.New()
	a := startProcess(t, net, "a", dsn)
	a.has(t, im.Partitions)
	b := startProcess(t, net, "b", dsn)
	a.has(t, im.Partitions/2)
	before := holders(t, a.store)
	if err := server.Pause(true); err != nil {
		t.Fatal(err)
	}
	both := []*process{a, b}
	for _, p := range both {
		was := p.looks.failed.Load()
		const fails = 4 // each takes storeWait, together longer than a node may be silent
		eventually.True(t, "the database does not answer", func() bool { return p.looks.failed.Load() >= was+fails })
	}
	if err := server.Pause(false); err != nil {
		t.Fatal(err)
	}
	for _, p := range both {
		was := p.looks.read.Load()
		eventually.True(t, "the database answers again", func() bool { return p.looks.read.Load() >= was+6 })
	}
	if after := holders(t, a.store); !maps.Equal(before, after) {
		t.Error("feeds were taken over because the database did not answer")
	}
	b.end()
	a.has(t, im.Partitions)
	c := startProcess(t, net, "c", dsn)
	a.has(t, im.Partitions/2)
	if err := a.c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.has(t, im.Partitions)
}

func holders(t *testing.T, st store.Store) map[store.Feed]store.Holder {
	t.Helper()
	list, err := st.Holders(t.Context(), st.Feeds())
	if err != nil {
		t.Fatal(err)
	}
	out := map[store.Feed]store.Holder{}
	for i, f := range st.Feeds() {
		out[f] = list[i]
	}
	return out
}

// A standby was promoted, and the primary from before is there still. A node that uses it
// gives it up when a peer knows better, and no node can start on it.
func TestPrimaryFromBeforeAFailoverHasNoNodes(t *testing.T) {
	t.Parallel()
	primary := pgtest.Own(t, pgtest.Options{})
	old := primary.New(t)
	follower, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(follower.Remove)
	promoted := follower.DSN("petrel1")
	both := fmt.Sprintf("postgres://petrel@127.0.0.1:%d,127.0.0.1:%d/petrel1?sslmode=disable", primary.Port, follower.Port)
	net := localbus.New()
	a := startProcess(t, net, "a", both)
	a.has(t, im.Partitions)
	if err := follower.Promote(); err != nil {
		t.Fatal(err)
	}
	if err := primary.Exec("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''"); err != nil {
		t.Fatal(err)
	}
	if err := primary.Exec("postgres", "SELECT pg_reload_conf()"); err != nil { // it takes commits alone
		t.Fatal(err)
	}
	if g := a.store.Figures(0).Generation; g != 1 {
		t.Fatalf("generation %d before anybody has seen the new primary", g)
	}
	c := startProcess(t, net, "c", promoted)
	if !eventually.Holds(func() bool { return a.store.Figures(0).Generation == 2 }) {
		t.Fatalf("a uses the former primary still: %v", a.store.Behind())
	}
	c.has(t, im.Partitions/2)
	// The nodes that the former primary knows have left it: nothing in it says that
	// there are others.
	if err := primary.Exec("petrel1", "DELETE FROM petrel.records WHERE tbl = 8"); err != nil {
		t.Fatal(err)
	}
	late, err := joinProcess(t, net, "late", old)
	if err == nil {
		late.end()
		t.Fatal("a node joins in the former primary")
	}
	if p, ok := errors.AsType[*pgstore.Problem](err); !ok || p.Code != "database_behind" {
		t.Errorf("join: %v, want database_behind", err)
	}
	if err := primary.Exec("petrel1", "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM petrel.records WHERE tbl = 8); END $$"); err != nil {
		t.Errorf("the node that was not let in has a heartbeat: %v", err)
	}
	select {
	case <-a.store.Failed():
		t.Error(a.store.Writable())
	default:
	}
}
