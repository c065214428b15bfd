package petrel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// damage has s answer a history as a server does that cannot read from..to.
func damage(s *fake, from, to uint64) {
	s.onFrame = func(ss *fakeSession, f *petrelv1.ClientFrame) bool {
		q := f.GetHistory()
		if q == nil {
			return false
		}
		next := q.After + 1
		if q.Before > 0 {
			next = min(q.Before, s.convs[q.Conv].head()+1) - 1
		}
		if from <= next && next <= to {
			ss.write(&petrelv1.ServerFrame{Id: f.Id, Body: &petrelv1.ServerFrame_Error{Error: &petrelv1.Error{
				Code: CodeDamaged, Retryable: true, RetryAfterMs: 30000, DamagedFrom: from, DamagedTo: to,
			}}})
			return true
		}
		if q.Before == 0 && next < from {
			q.Limit = uint32(min(uint64(s.page), from-next))
		} else if q.Before > 0 && next > to {
			q.Limit = uint32(min(uint64(s.page), next-to))
		}
		return false // as always: q has as many entries as there are before the damage
	}
}

// Spec: P-9.5.
func TestDamagedEntriesArePassedOverAndNamed(t *testing.T) {
	for what, newest := range map[string]int{"upwards": 100, "downwards": 10} {
		t.Run(what, func(t *testing.T) {
			play(t, func(t *testing.T, s *fake) {
				v := s.conv("g1", "")
				addAll(v, 0, 40, "bob")
				damage(s, 11, 20)
				store := NewMemory()
				c := s.client(Options{Store: store, Newest: newest})
				stop := run(c)
				synctest.Wait()
				begun := time.Now()
				for more := true; more; {
					var err error
					if more, err = c.Older(t.Context(), "g1", 0); err != nil {
						t.Fatal(err)
					}
				}
				all := stored(s, "g1")
				want := fmt.Sprint(append(all[:10:10], all[20:]...))
				expect(t, "shown", fmt.Sprint(shown(c, "g1")), want)
				expect(t, "waited", time.Since(begun), time.Duration(0))
				known, _ := c.Conversation("g1")
				expect(t, "damaged", fmt.Sprint(known.Damaged), fmt.Sprint([]Range{{11, 20}}))
				_, err := c.History(t.Context(), &petrelv1.GetHistory{Conv: "g1", After: 15})
				expect(t, "a page of it", refusal(err).Damaged, Range{11, 20})
				expect(t, "run", stop(), nil)

				// Another process has it from its store.
				c = s.client(Options{Store: store, Newest: newest})
				known, _ = c.Conversation("g1")
				expect(t, "damaged", fmt.Sprint(known.Damaged), fmt.Sprint([]Range{{11, 20}}))

				s.onFrame, s.history = nil, "h2" // repaired
				c = s.client(Options{Store: store, Newest: 100})
				stop = run(c)
				synctest.Wait()
				expect(t, "shown", shown(c, "g1"), stored(s, "g1"))
				known, _ = c.Conversation("g1")
				expect(t, "damaged", len(known.Damaged), 0)
				expect(t, "run", stop(), nil)
			})
		})
	}
}
