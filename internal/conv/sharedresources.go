package conv

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/measure"
	"github.com/petrel-im/petrel/internal/note"
	"github.com/petrel-im/petrel/internal/store"
)

// node has the resources that the owners of one node share: the goroutines that load conversations,
// the budgets of the node, and its counters.
type node struct {
	loaders     loaders
	inFlight    atomic.Int64  // bytes of unanswered sends
	sendBudget  int64         // for inFlight
	convBytes   atomic.Int64  // of conversations and notes in memory, about
	convBudget  int64         // for convBytes
	evicted     atomic.Uint64 // conversations that left memory to make room for others
	cursorMoves atomic.Int64  // moves of cursors that are not answered
	moveBudget  int64         // for cursorMoves
	notes       note.Node
	accepted    atomic.Uint64     // entries made durable
	repeats     atomic.Uint64     // sends answered from dedupe
	stale       atomic.Uint64     // batches that ended because another node has the feed
	taken       atomic.Uint64     // commits that are durable
	refused     atomic.Uint64     // commits that the store did not take, or whose outcome is unknown
	commits     measure.Histogram // from an append to its end
	warnings    warnings
	damage      damageLog
	signals     signals
	onRefused   func(*Send, *im.Error) // Options.Refused
}

// noteRefused reports a refused send.
func (n *node) noteRefused(s *Send, e *im.Error) {
	if n.onRefused != nil {
		n.onRefused(s, e)
	}
}

// refuseAll refuses sends with the same error.
func (n *node) refuseAll(sends []*Send, e *im.Error, k *fanout.WakeUps) {
	for _, s := range sends {
		n.noteRefused(s, e)
		s.Answer(Result{Err: e}, k)
	}
}

// crowded tells whether no other conversation may be loaded.
func (n *node) crowded() bool { return n.convBytes.Load() > 2*n.convBudget }

// warnings limits the log lines about refused commits. Without it, a full database made 1,387 lines in 12
// seconds.
type warnings struct {
	last   atomic.Int64 // Unix nanoseconds; of the last line
	hidden atomic.Uint64
}

// warnEvery is the shortest time between two lines about refused commits.
const warnEvery = 10 * time.Second

// due reports whether to write a line now, and how many were left out since the last one.
func (w *warnings) due(now time.Time) (hidden uint64, ok bool) {
	last := w.last.Load()
	if since := now.UnixNano() - last; last != 0 && since >= 0 && since < int64(warnEvery) ||
		!w.last.CompareAndSwap(last, now.UnixNano()) {
		w.hidden.Add(1)
		return 0, false
	}
	return w.hidden.Swap(0), true
}

// damageAgain is the shortest time between two lines about a damaged conversation: each of its readers meets
// the damage.
const damageAgain = 10 * time.Minute

// maxDamaged bounds the conversations that damageLog remembers. More of them are
// logged each time.
const maxDamaged = 1024

// damageLog logs failed reads of the store, and damage once for each conversation in damageAgain.
type damageLog struct {
	mu     sync.Mutex // tier 0; guards logged
	logged map[string]time.Time
}

// log writes a line to l: the operation that what names has failed for a conversation.
func (d *damageLog) log(l *slog.Logger, what, conv string, err error) {
	if errors.Is(err, store.ErrCorrupt) && !d.first(conv) {
		return
	}
	l.Error(what+" failed", "conv", conv, "err", err)
}

func (d *damageLog) first(conv string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if at, ok := d.logged[conv]; ok && now.Sub(at) < damageAgain {
		return false
	}
	if d.logged == nil {
		d.logged = map[string]time.Time{}
	}
	if _, known := d.logged[conv]; known || len(d.logged) < maxDamaged {
		d.logged[conv] = now
	}
	return true
}

// loaders are goroutines that read conversations from the store.
type loaders struct {
	mu      sync.Mutex // tier 1; guards the fields below
	jobs    []func()
	closing bool
	ready   *sync.Cond
}

// add has f run on a loader.
func (l *loaders) add(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, f)
	l.ready.Signal()
}

// run does jobs until stop is called and none is left.
func (l *loaders) run() {
	for {
		l.mu.Lock()
		for len(l.jobs) == 0 && !l.closing {
			l.ready.Wait()
		}
		if len(l.jobs) == 0 {
			l.mu.Unlock()
			return
		}
		f := l.jobs[0]
		l.jobs = l.jobs[1:]
		l.mu.Unlock()
		f()
	}
}

func (l *loaders) stop() {
	l.mu.Lock()
	l.closing = true
	l.ready.Broadcast()
	l.mu.Unlock()
}
