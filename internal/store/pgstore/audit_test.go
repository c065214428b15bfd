package pgstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Three nodes write their chains into one database at once. All of it can be read and
// verified at any of them, and changes that somebody makes in the table are noticed.
func TestAuditLogOfThreeNodesIsInOneDatabase(t *testing.T) {
	const nodes, each = 3, 10
	s := mustOpen(t, Options{DSNs: []string{blank(t)}})
	defer mustClose(t, s)
	var all []*audit.Log
	ctx, stop := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	for i := range nodes {
		l := audit.New(audit.Options{}, s, im.Node(fmt.Sprint("n", i)))
		all = append(all, l)
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		writing.Go(func() {
			for n := range each {
				if err := l.Append(ctx, &audit.Record{Event: fmt.Sprint(n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	stop()
	running.Wait()
	for _, l := range all {
		if v, err := l.Verify(t.Context(), nil, nil); err != nil || len(v.Faults) > 0 || v.Records != nodes*each || len(v.Heads) != nodes {
			t.Errorf("verify: %+v, %v", v, err)
		}
	}
	page, more, err := all[0].List(t.Context(), audit.Query{})
	if err != nil || len(more) > 0 || len(page) != nodes*each {
		t.Fatalf("%d records, %v", len(page), err)
	}
	sql := fmt.Sprintf(`DELETE FROM petrel.records WHERE tbl = %d AND key = (SELECT key FROM petrel.records WHERE tbl = %d AND substr(key, 17) = 'n1' ORDER BY key OFFSET 4 LIMIT 1)`, store.Audit, store.Audit)
	if _, err := s.records().exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	v, err := all[0].Verify(t.Context(), nil, nil)
	if err != nil || len(v.Faults) != 1 || v.Faults[0].Node != "n1" || v.Faults[0].Number != 5 || v.Faults[0].What != audit.Missing {
		t.Errorf("after a deletion: %+v, %v", v, err)
	}
}
