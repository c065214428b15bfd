package presence

import (
	"testing"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
)

// A user who changes their policy all the time, while the loop is behind, does not make the list of policies that
// are to be read again grow without bound.
func TestPoliciesToReadAgainAreBounded(t *testing.T) {
	table := fanout.NewTable()
	p := New(Options{Table: table})
	a := im.Account{Tenant: im.DefaultTenant, User: "alice"}
	p.targets[table.Hash(a)] = &target{account: a, hash: table.Hash(a)}
	for range 100 {
		p.policyChanged(a, "", false)
	}
	if len(p.stale) != 1 {
		t.Errorf("the policy of one user waits %d times to be read again", len(p.stale))
	}
}
