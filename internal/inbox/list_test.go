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
		n := i * 37 % 2000
		// Of each kind one: long, of large entries, short, with many settings.
		l := &list{items: make([]item, n), head: im.Seq(keepFrom + i)}
		switch i % 4 {
		case 1:
			l.head, l.read = im.Seq(i%300), keepBytes
		case 2:
			l.head, l.read = im.Seq(i%300), keepBytes-1
		case 3:
			l.set = n * 100
		}
		// A former one of the same user may be newer here.
		if old := ls.of[a]; old != nil {
			ls.drop(a, old)
		}
		ls.put(a, l)
		if kept := ls.of[a] == l; kept != (l.head >= keepFrom || l.read >= keepBytes) {
			t.Fatalf("a list of %d entries, %d bytes: kept %t", l.head, l.read, kept)
		}
		sum := 0
		for _, l := range ls.of {
			sum += max(4096, len(l.items)*250+l.set)
		}
		if sum != ls.kept || sum > maxKept {
			t.Fatalf("%d bytes are kept, counted %d, limit %d", sum, ls.kept, maxKept)
		}
	}
	if ls.kept < maxKept/2 {
		t.Errorf("only %d bytes are kept", ls.kept)
	}
	ls.put(im.Account{User: "much"}, &list{items: make([]item, maxKept/itemBytes+1), head: keepFrom})
	if len(ls.of) < 2 || ls.get(im.Account{User: "much"}).head != 0 {
		t.Error("a list that never fits drives out the others")
	}
}

// A sync that began earlier does not put an older list back.
func TestKeptListIsTheNewest(t *testing.T) {
	var ls lists
	a := im.Account{Tenant: im.DefaultTenant, User: "alice"}
	for _, head := range []im.Seq{2, 1} {
		ls.put(a, &list{items: make([]item, keepFrom), head: keepFrom + head})
	}
	if got := ls.get(a).head; got != keepFrom+2 {
		t.Errorf("list up to %d, want %d", got, keepFrom+2)
	}
}
