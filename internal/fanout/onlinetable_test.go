package fanout

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
)

func TestTableKeepsWhoEntered(t *testing.T) {
	table := NewTable()
	a, b := im.Account{Tenant: 1, User: "alice"}, im.Account{Tenant: 2, User: "alice"}
	o := []*Outbox{{Account: a}, {Account: a}, {Account: a}}
	for i, x := range o {
		if !table.Enter(a, x, 3) {
			t.Errorf("session %d of 3 was refused", i)
		}
	}
	if table.Enter(a, &Outbox{}, 3) || len(table.Of(a)) != 3 {
		t.Errorf("a fourth session got in: %d", len(table.Of(a)))
	}
	if got := table.Of(b); len(got) != 0 {
		t.Errorf("another tenant's user has %d sessions", len(got))
	}
	held := table.Of(a)
	table.Leave(a, o[1])
	table.Leave(a, o[1])
	table.Leave(b, o[0])
	if !slices.Equal(held, o) {
		t.Error("a list that was handed out has changed")
	}
	if got := table.Of(a); !slices.Equal(got, []*Outbox{o[0], o[2]}) {
		t.Errorf("left are %v", got)
	}
	if !table.Enter(a, o[1], 3) {
		t.Error("the place of one who left was refused")
	}
	for _, x := range o {
		table.Leave(a, x)
	}
	if n := len(table.withHash(table.hash(a))); n != 0 {
		t.Errorf("%d sessions stay in the table of those who left", n)
	}
	if table.Enter(a, o[0], 0) || !table.Enter(a, o[0], -1) {
		t.Error("a limit of 0 lets in, or none refuses")
	}
}

func TestTableUnderConcurrency(t *testing.T) {
	table := NewTable()
	const users, sessions, limit = 8, 8, 3
	var inside [users]atomic.Int32
	var wg sync.WaitGroup
	for i := range users * sessions {
		wg.Go(func() {
			n := i % users
			a := im.Account{Tenant: im.Tenant(n % 2), User: im.User(fmt.Sprint("user", n/2))}
			o := &Outbox{Account: a}
			for range 500 {
				if !table.Enter(a, o, limit) {
					continue
				}
				if got := inside[n].Add(1); got > limit {
					t.Errorf("%d sessions of %s are inside, at most %d may", got, a, limit)
				}
				if !slices.Contains(table.Of(a), o) {
					t.Errorf("who has entered is not seen")
				}
				inside[n].Add(-1)
				table.Leave(a, o)
			}
		})
	}
	wg.Wait()
	for i := range table.parts {
		if n := len(table.parts[i].online); n != 0 {
			t.Errorf("%d users stay in shard %d", n, i)
		}
	}
}
