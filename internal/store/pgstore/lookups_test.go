package pgstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
)

// table is what lookups of these tests read: slowly, so that others come meanwhile.
type table struct {
	mu         sync.Mutex
	version    int
	statements int
	most       int // keys of one statement
}

func (x *table) read(ctx context.Context, keys []int) ([][]byte, error) {
	x.mu.Lock()
	x.statements++
	x.most = max(x.most, len(keys))
	version := x.version
	x.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	values := make([][]byte, len(keys))
	for i, k := range keys {
		if k != 13 { // which is not there
			values[i] = fmt.Appendf(nil, "%d in %d", k, version)
		}
	}
	return values, nil
}

// want looks a key up, in a state that is not earlier than version.
func (x *table) want(l *lookup[int], k, version int) error {
	v, err := l.get(context.Background(), k)
	if k == 13 && v == nil {
		return err
	}
	var key, of int
	if n, _ := fmt.Sscanf(string(v), "%d in %d", &key, &of); err != nil || n != 2 || key != k || of < version {
		return fmt.Errorf("key %d, asked in version %d: got %q, %v", k, version, v, err)
	}
	return nil
}

func TestLookupsAtTheSameTimeShareAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &table{}
		l := &lookup[int]{read: x.read}
		var all errgroup.Group
		for k := range 1000 {
			all.Go(func() error { return x.want(l, k, 0) })
		}
		begun := time.Now()
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
		// Two statements may have begun with one key each; the others are full, but the last one.
		if d := time.Since(begun); d > 3*time.Second || x.most != joinedKeys || x.statements > 6 {
			t.Errorf("1000 lookups took %v in %d statements, the largest with %d keys", d, x.statements, x.most)
		}
		if l.tasks.Wait(); l.readers != 0 || l.waiting != nil {
			t.Errorf("%d statements are under way after all", l.readers)
		}
		began := time.Now()
		if err := x.want(l, 5, 0); err != nil || time.Since(began) != time.Second {
			t.Errorf("a lookup alone took %v, %v", time.Since(began), err)
		}
	})
}

// Nobody is answered by a statement that had begun before the question.
func TestLookupSeesWhatWasThereBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &table{}
		l := &lookup[int]{read: x.read}
		var all errgroup.Group
		for version := range 6 { // the first while nothing is under way, the others while one statement or two are
			x.mu.Lock()
			x.version = version
			x.mu.Unlock()
			for k := range 9 {
				all.Go(func() error { return x.want(l, k, version) })
			}
			time.Sleep(400 * time.Millisecond)
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A caller that gives up keeps no other caller from the answer.
func TestLookupsOutliveTheirReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &table{}
		l := &lookup[int]{read: x.read}
		for round := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			var all errgroup.Group
			for k := range 30 {
				if k >= 2 && k%3 == 0 && round%2 == 0 {
					all.Go(func() error { return x.want(l, k, 0) })
				} else {
					all.Go(func() error { _, _ = l.get(ctx, k); return nil }) // it gives up
				}
			}
			time.Sleep(time.Duration(round) * 100 * time.Millisecond)
			cancel()
			if err := all.Wait(); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
			err := x.want(l, 5, 0)
			if l.tasks.Wait(); err != nil || l.readers != 0 || l.waiting != nil {
				t.Errorf("round %d: after it all: %v, %d statements are under way", round, err, l.readers)
			}
		}
	})
}
