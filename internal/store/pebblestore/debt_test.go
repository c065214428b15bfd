package pebblestore

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// fillDir names the folder that the process is to fill instead of running tests; it
// kills itself when the last row was told to be durable.
const fillDir = "PETREL_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fillDir); dir != "" {
		st, err := Open(Options{Dir: dir})
		if err == nil {
			err = fillUp(st, fromEnv("PETREL_ROWS", 200_000))
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // never fails
	}
	os.Exit(m.Run())
}

// fillUp appends rows as fast as the store takes them, so that tables pile up.
func fillUp(st *Store, rows int) error {
	ctx := context.Background()
	w := &writer{st: st}
	var err error
	if w.epoch, w.pos, err = st.Takeover(ctx, feed, holder); err != nil {
		return err
	}
	rng, heads := rand.New(rand.NewPCG(1, 2)), make([]im.Seq, 10_000)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for n := 0; n < rows; n += 1000 {
		batch := &store.Batch{Epoch: w.epoch, Holder: holder, From: w.pos}
		benchBatch(batch, 1000, rng, heads)
		w.pos++
		wg.Add(1)
		st.Append(batch, func(e error) {
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				err = e
			}
			wg.Done()
		})
	}
	wg.Wait()
	return err
}

// BenchmarkStartAndStop kills a process in the middle of a fill of PETREL_ROWS rows, opens the store that it left, adds
// the other rows, and closes it.
//
//	PETREL_ROWS=20000000 go test -run none -bench StartAndStop -benchtime 1x ./internal/store/pebblestore
func BenchmarkStartAndStop(b *testing.B) {
	rows := fromEnv("PETREL_ROWS", 200_000)
	for b.Loop() {
		dir := b.TempDir()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), fillDir+"="+dir, "PETREL_ROWS="+strconv.Itoa(rows))
		child.Stderr = os.Stderr
		if err := child.Run(); child.ProcessState == nil || child.ProcessState.Exited() {
			b.Fatalf("the process that fills the store was not killed: %v", err)
		}
		begun := time.Now()
		st := mustOpen(b, Options{Dir: dir})
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "start-ms")
		m := st.db.Metrics()
		b.ReportMetric(float64(m.Levels[0].Sublevels), "sublevels")
		b.ReportMetric(float64(m.Compact.EstimatedDebt)/(1<<20), "debt-MiB")
		if err := fillUp(st, min(rows, 2_000_000)); err != nil {
			b.Fatal(err)
		}
		begun = time.Now()
		mustClose(b, st)
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "stop-ms")
		begun = time.Now()
		mustClose(b, mustOpen(b, Options{Dir: dir}))
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "again-ms")
	}
}
