package checker

import (
	"math/rand/v2"
	"testing"
)

func TestAStreamTakesEverySeqOnce(t *testing.T) {
	const n = 200
	for round := range uint64(50) {
		r := rand.New(rand.NewPCG(round, 0))
		s := NewStream(0)
		firsts := 0
		for i, at := range append(r.Perm(n), r.Perm(n)...) {
			came := s.Push(uint64(at + 1))
			if came == Fresh || came == Late {
				firsts++
			} else if i < n {
				t.Fatalf("round %d: seq %d came for the first time, as %d", round, at+1, came)
			}
		}
		if firsts != n || s.Missing(n) != 0 || s.Missing(n+3) != 3 || s.Lowest() != n+1 {
			t.Fatalf("round %d: %d firsts, %d missing, lowest %d", round, firsts, s.Missing(n), s.Lowest())
		}
	}
}
