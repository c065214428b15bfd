package inbox

import (
	"fmt"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
)

func TestKeptListsAreBounded(t *testing.T) {
	var ls lists
	for i := range 1000 {
		a := im.Account{Tenant: im.DefaultTenant, User: im.User(fmt.Sprint(i % 300))}
		n := 1 + i*37%2000
		ls.put(a, &list{items: make([]item, n), head: im.Seq(i + 1)})
		got, sum := ls.get(a), 0
		if kept := got.head == im.Seq(i+1) && len(got.items) == n; kept != (n >= keepFrom) {
			t.Fatalf("a list of %d conversations: kept %t", n, kept)
		}
		for _, l := range ls.of {
			sum += len(l.items)
		}
		if sum != ls.kept || sum > maxKept {
			t.Fatalf("%d conversations are kept, counted %d, limit %d", sum, ls.kept, maxKept)
		}
	}
	if ls.kept < maxKept/2 {
		t.Errorf("only %d conversations are kept", ls.kept)
	}
	ls.put(im.Account{User: "much"}, &list{items: make([]item, maxKept+1), head: 1})
	if len(ls.of) == 1 || ls.get(im.Account{User: "much"}).head != 0 {
		t.Error("a list that never fits drives out the others")
	}
}

// A sync that began earlier does not put an older list back.
func TestKeptListIsTheNewest(t *testing.T) {
	var ls lists
	a := im.Account{Tenant: im.DefaultTenant, User: "alice"}
	for _, head := range []im.Seq{2, 1} {
		ls.put(a, &list{items: make([]item, keepFrom), head: head})
	}
	if got := ls.get(a).head; got != 2 {
		t.Errorf("list up to %d, want 2", got)
	}
}
