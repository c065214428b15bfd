package cluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

func TestMajority(t *testing.T) {
	for _, test := range []struct {
		name  string
		hears string // "a:b,c b:a …"; a* takes no feeds, a? does not say whom it hears
		want  string
	}{
		{"alone", "a:", "a"},
		{"all", "a:b,c b:a,c c:a,b", "a b c"},
		{"nobody", "a: b: c:", ""},
		{"half", "a:b b:a c:d d:c", ""},
		{"one of two", "a: b:a", ""},
		{"one hears nobody", "a:b b:a c:", "a b"},
		{"one is heard by nobody", "a:b b:a c:a,b", "a b"},
		{"one is heard by one", "a:b,c b:a,c c:a", "a b"},
		{"two pairs do not hear each other", "a:b,c,d b:a,d c:a,d d:a,b,c", "a b d"},
		{"the others take no feeds", "a*:b b*:a c:", ""},
		{"one of the others does", "a*:b b:a c:", "a b"},
		{"a former release", "a? b? c?", "a b c"},
		{"heard by a former release", "a? b:a c:", "a b"},
	} {
		all := map[im.Node]*storepb.Node{}
		for s := range strings.FieldsSeq(test.hears) {
			name, heard, says := strings.Cut(s, ":")
			rec := &storepb.Node{Taking: !strings.Contains(name, "*")}
			if says {
				rec.Hearing = &storepb.Hearing{}
			}
			if heard != "" {
				rec.Hearing.Nodes = strings.Split(heard, ",")
			}
			all[im.Node(name[:1])] = rec
		}
		var got []string
		for _, n := range slices.Sorted(maps.Keys(majority(all))) {
			got = append(got, string(n))
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s: %q, want %q", test.name, s, test.want)
		}
	}
}
