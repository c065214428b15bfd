package pebblestore

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/wake"
)

// compactions lets Pebble begin compactions: as many at once as Pebble itself wants, but none before
// pebble.Open has returned. pebble.Open waits for the compactions that have begun, and after a kill under heavy
// writes more than ten seconds of them may be due.
type compactions struct {
	db   pebble.DBForCompaction // set by Register, before all other calls
	look chan struct{}          // capacity 1; a token: perhaps another compaction may begin
	stop chan struct{}          // closed by Unregister
	done chan struct{}          // closed when grant has returned

	mu      sync.Mutex // tier 0; guards the fields below
	open    bool       // begin was called, and Unregister was not
	rest    time.Time  // no compaction begins before this time
	running int
}

// lookEvery is the interval at which grant samples whether Pebble wants more compactions: Pebble does not
// report every change of that.
const lookEvery = 100 * time.Millisecond

// restAfter is the pause after a failed compaction. Pebble retries a compaction at once, and one that has met a
// damaged table would keep a CPU core busy until the table is mended.
const restAfter = time.Second

func newCompactions() *compactions {
	return &compactions{look: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// begin lets compactions run, and starts grant. Unregister ends grant, and lets no further compaction begin.
func (c *compactions) begin() {
	c.mu.Lock()
	c.open = true
	c.mu.Unlock()
	wake.Set(c.look)
	go c.grant() // Unregister waits for done
}

// grant starts the compactions that were not let through when Pebble asked.
func (c *compactions) grant() {
	defer close(c.done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-c.look:
		case <-tick.C:
		}
		for c.take() {
			waiting, _ := c.db.GetWaitingCompaction()
			if !waiting || !c.db.Schedule(c) {
				c.giveBack()
				break
			}
		}
	}
}

// ended begins a pause of restAfter if a compaction has failed, and not if it was cancelled.
func (c *compactions) ended(i pebble.CompactionInfo) {
	if i.Err == nil || errors.Is(i.Err, pebble.ErrCancelledCompaction) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = time.Now().Add(restAfter)
}

// take reserves a slot for one compaction; false: no compaction may begin now.
func (c *compactions) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open || time.Now().Before(c.rest) || c.running >= c.db.GetAllowedWithoutPermission() {
		return false
	}
	c.running++
	return true
}

func (c *compactions) giveBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
}

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) { c.db = db }

// Unregister implements pebble.CompactionScheduler.
func (c *compactions) Unregister() {
	c.mu.Lock()
	open := c.open
	c.open = false
	c.mu.Unlock()
	if open {
		close(c.stop)
		<-c.done
	}
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) { return c.take(), c }

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (c *compactions) UpdateGetAllowedWithoutPermission() { wake.Set(c.look) }

// Started implements pebble.CompactionGrantHandle.
func (c *compactions) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (c *compactions) Done() {
	c.giveBack()
	wake.Set(c.look)
}

// errEnding is the error of a write to a table while the database is being closed. With it Pebble counts the
// compaction as cancelled, and not as failed.
var errEnding = fmt.Errorf("the database is being closed: %w", pebble.ErrCancelledCompaction)

// closePebble closes a database that g guards. Flushes and compactions under way are cancelled at their next write:
// their inputs still exist. No manifest names their unfinished tables, so the next open removes these.
func closePebble(db *pebble.DB, g *guard) error {
	g.ending.Store(true)
	defer g.ending.Store(false)
	return db.Close()
}
