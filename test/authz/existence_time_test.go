package authz

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aclements/go-moremath/stats"

	"github.com/petrel-im/petrel/internal/imtest"
)

// Time tells an outsider no more than the words do. PETREL_EXISTENCE_N is how often each
// question is asked about a conversation that exists and about one that does not, in
// random order, on one connection; by default this is not measured. For each question
// the test prints both medians and p of the two-sided Mann-Whitney test, and fails if p
// is below 0.001, shared out over all questions (Bonferroni), and the medians differ by
// more than 2 %: so much an outsider could make use of.
//
//	PETREL_EXISTENCE_N=2000 go test -v -run TestNoTimeTells ./test/authz
func TestNoTimeTellsThatAConversationExists(t *testing.T) {
	n := timesEach()
	srv := imtest.Start(t, imtest.Options{})
	w := newWorld(t, srv, "owner")
	secrets := w.secrets()
	w.suffix += "x"
	p := newProber(t, srv, w.mint("", "outsider"))
	judgeTimes(t, p, questions(t, w, "conversation"), secrets[:2], n)
}

// judgeTimes asks each question n times about both of each pair, and fails where time tells which is which.
func judgeTimes(t *testing.T, p *prober, list []question, pairs []pair, n int) {
	t.Helper()
	t.Logf("%-52s %-22s %6s %12s %12s %9s", "question", "about", "n", "median there", "median none", "p")
	for _, q := range list {
		for _, s := range pairs {
			there, none := q.times(p, s, n)
			r, err := stats.MannWhitneyUTest(there, none, stats.LocationDiffers)
			if err != nil {
				t.Fatalf("%s: %v", q.name, err)
			}
			a, b := median(there), median(none)
			t.Logf("%-52s %-22s %6d %9.1f µs %9.1f µs %9.4f", q.name, s.what, n, a, b, r.P)
			if apart := (a - b) / b; r.P < 0.001/float64(len(pairs)*len(list)) && max(apart, -apart) > 0.02 {
				t.Errorf("%s about %s takes %.1f µs, about none %.1f µs (n = %d each, Mann-Whitney p = %.2g)", q.name, s.what, a, b, n, r.P)
			}
		}
	}
}

// timesEach is how often each question is asked about each thing.
func timesEach() int {
	n, err := strconv.Atoi(os.Getenv("PETREL_EXISTENCE_N"))
	if err != nil {
		n = 3 // the test itself works
	}
	return n
}

// times asks n times about each of a pair, in random order, and returns how long the
// answers took, in µs.
func (q *question) times(p *prober, s pair, n int) (there, none []float64) {
	order := make([]bool, 2*n)
	for i := range n {
		order[i] = true
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for range 3 { // caches, and the connection
		q.ask(p, s.exists)
		q.ask(p, s.none)
	}
	for _, exists := range order {
		thing := s.none
		if exists {
			thing = s.exists
		}
		begun := time.Now()
		q.ask(p, thing)
		took := float64(time.Since(begun).Nanoseconds()) / 1000
		if exists {
			there = append(there, took)
		} else {
			none = append(none, took)
		}
	}
	return there, none
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
