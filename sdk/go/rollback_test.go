package petrel

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// The history id is as before, and the store is not: the client drops its copies of it, and
// keeps the messages that it has to send. Spec: P-6.8.
func TestServerThatWentBackIsNoticedByWhatItSays(t *testing.T) {
	for what, again := range map[string]func(v *fakeConv){
		"a lower head":                   func(v *fakeConv) { v.log = v.log[:10] },
		"another message under its seqs": func(v *fakeConv) { v.log = v.log[:10]; addAll(v, 10, 40, "carol") },
	} {
		t.Run(what, func(t *testing.T) {
			play(t, func(t *testing.T, s *fake) {
				s.caps = append(s.caps, capNewest)
				v := s.conv("g1", "")
				addAll(v, 0, 30, "bob")
				store := NewMemory()
				c := s.client(Options{Store: store, Newest: 50})
				stop := run(c)
				synctest.Wait()
				expect(t, "shown", shown(c, "g1"), stored(s, "g1"))
				expect(t, "run", stop(), nil)

				again(v)
				c = s.client(Options{Store: store, Newest: 50})
				stop = run(c)
				synctest.Wait()
				expect(t, "shown", shown(c, "g1"), stored(s, "g1"))
				expect(t, "run", stop(), nil)
			})
		})
	}
}

func addAll(v *fakeConv, from, to int, user string) {
	for i := from; i < to; i++ {
		v.add(text(user, fmt.Sprint(user, i)))
	}
}
