package conv_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/conv/convpb"
	"github.com/petrel-im/petrel/internal/conv/convtest"
	"github.com/petrel-im/petrel/internal/store"
)

// A page reads what it answers, in both directions. Downwards it read 200 rows of 40 KB
// to answer one. Spec: P-5.2.
func TestPageOfHistoryReadsWhatItAnswers(t *testing.T) {
	w := newWorld(t)
	key := w.Group("alice", "bob")
	for i := range 30 {
		w.MustSend(convtest.Message(key, "alice", fmt.Sprint("k", i), i+1, strings.Repeat("x", 20<<10)))
	}
	for what, q := range map[string]*convpb.GetHistory{"down": {Before: math.MaxUint64}, "up": {After: 1}} {
		read := 0
		w.Gate.OnRow(func(store.Row) { read++ })
		h, err := w.page(key, "bob", q)
		w.Gate.OnRow(nil)
		if err != nil || len(h.Rows) != conv.MaxPageBytes/(20<<10) || !h.More {
			t.Fatalf("%s: %d rows, more %t, %v", what, len(h.GetRows()), h.GetMore(), err)
		}
		if read > len(h.Rows)+1 {
			t.Errorf("%s: a page of %d rows reads %d", what, len(h.Rows), read)
		}
	}
}
