// Package audit keeps the audit log: logins, refusals, and the actions of operators. Each node
// appends to a chain of its own in the store. A record is tied to the one before it by a hash with
// a key of the store, so a record that was changed, removed or moved is noticed (chain.go,
// read.go).
//
// An action of an operator is durable before its answer (Append). Actions of users and strangers
// are written within a second (Note), and refusals are summed up (Summed): a flood costs a few
// records a minute, and no write for each.
package audit

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/rate"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/wake"
)

// Options tune a Log; zero values are the defaults.
type Options struct {
	Log  *slog.Logger
	Now  func() time.Time
	Keep time.Duration // how long a record is kept; 0: for ever
	Part int           // records that Verify reads in one turn; 2,000, which take some milliseconds
}

// Record is one thing that happened.
type Record struct {
	Event    string  // the method that was called, or another name
	Code     im.Code // of the refusal; empty: the caller was not refused
	Key      string  // id of the admin key of the caller
	KeyName  string
	Operator string // name of the caller, who has a session; then there is no Key
	Tenant   string // by name; Tenant and User are those of a caller with an access token
	User     im.User
	Device   string
	Address  netip.Addr // of the caller; the zero value: not known
	Details  []Detail   // nothing secret
}

// WantsRight reports whether a code means that the caller has no right to something, or must not learn whether it
// exists.
func WantsRight(c im.Code) bool {
	switch c {
	case im.CodeUnauthenticated, im.CodeForbidden, im.CodeNotMember, im.CodeNoConversation, im.CodeNoKey,
		im.CodeRevoked, im.CodeReplaced, im.CodeUserDisabled, im.CodeRefreshReused, im.CodeBadCredentials:
		return true
	}
	return false
}

// Detail is a field of the request.
type Detail struct{ Name, Value string }

const (
	maxQueue = 4096 // records that wait to be written
	maxBatch = 256  // records in one write
	// sums of one minute, by caller and address; further refusals are summed by their code alone
	maxSums   = 128
	lazy      = time.Second     // within which records that nobody waits for are written
	sumTime   = time.Minute     // for which equal refusals are one record
	headEvery = time.Hour       // how often the head is logged, if it has moved, and old records are removed
	lastTime  = 2 * time.Second // for the last write, when Run ends
)

// Log is the audit log of one node. A nil Log takes everything and keeps nothing.
type Log struct {
	o     Options
	store store.Store
	node  im.Node
	key   []byte

	wake chan struct{} // capacity 1; a token: a caller waits for a record

	Written, Dropped, Failed atomic.Uint64 // records written, records lost, writes that failed

	// Only Run uses these.
	head    *head  // nil: it has to be read
	known   uint64 // the highest number that was read or written
	said    uint64 // the number of the head that was logged last
	failing bool   // the last write failed

	mu      sync.Mutex      // tier 0; guards the fields below
	queue   []*item         // at most maxQueue
	dropped uint64          // records that did not fit the queue since the last write
	sums    map[sumKey]*sum // of the refusals in the present window
	window  time.Time       // when the present window of sums began
	ended   bool            // nothing is written any more
}

// item is a record that waits to be written.
type item struct {
	rec  *storepb.AuditRecord
	done chan error // capacity 1; nil: nobody waits
}

// sumKey tells refusals apart.
type sumKey struct {
	event  string
	code   im.Code
	host   netip.Prefix
	key    string // or the operator
	tenant string
	user   im.User
}

type sum struct {
	last    *storepb.AuditRecord
	count   uint64 // without the first one, which has a record
	sinceMs uint64 // when the second one happened
}

// New makes the log of a node. Run writes it.
func New(o Options, st store.Store, node im.Node) *Log {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Part <= 0 {
		o.Part = 2000
	}
	secret := st.Info().Secret
	h := hmac.New(sha256.New, secret[:])
	h.Write([]byte("petrel audit log"))
	return &Log{o: o, store: st, node: node, key: h.Sum(nil), wake: make(chan struct{}, 1), sums: map[sumKey]*sum{},
		window: o.Now()}
}

// Append writes a record and returns when it is durable. If ctx ends before that (store_stalled), the record may
// still be written. Codes: overloaded, disk_full, store_stalled.
func (l *Log) Append(ctx context.Context, r *Record) error {
	if l == nil {
		return nil
	}
	it := &item{rec: l.encode(r), done: make(chan error, 1)}
	if !l.enqueue(it) {
		return &im.Error{Code: im.CodeOverloaded, RetryAfter: time.Second}
	}
	wake.Set(l.wake)
	select {
	case err := <-it.done:
		return err
	case <-ctx.Done():
		return &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}

// Note queues a record, which is written within a second. It does not block. Records that do not fit the queue
// are counted, and the count is a record of its own.
func (l *Log) Note(r *Record) {
	if l == nil {
		return
	}
	l.enqueue(&item{rec: l.encode(r)})
}

// Summed records a frequent event, such as a refusal, and does not block. The first one of a caller in a window of
// a minute is recorded as by Note. The others of the window with the same event and code become one record: the
// last of them, with their count.
func (l *Log) Summed(r *Record) {
	if l == nil {
		return
	}
	rec := l.encode(r)
	k := sumKey{r.Event, r.Code, rate.Host(r.Address), cmp.Or(r.Key, r.Operator), r.Tenant, r.User}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sums[k] == nil && len(l.sums) >= maxSums {
		k = sumKey{event: othersEvent, code: r.Code}
		rec = &storepb.AuditRecord{TimeMs: rec.TimeMs, Event: othersEvent, Code: rec.Code}
	}
	s := l.sums[k]
	if s == nil {
		l.sums[k] = &sum{}
		l.enqueueLocked(&item{rec: rec})
		return
	}
	if s.count++; s.count == 1 {
		s.sinceMs = rec.TimeMs
	}
	s.last = rec
}

// Events that are no methods.
const (
	othersEvent  = "others"  // refusals of callers for whom there were no more sums
	droppedEvent = "dropped" // records that were lost
	brokenEvent  = "broken"  // the node found that its chain had been changed
)

func (l *Log) encode(r *Record) *storepb.AuditRecord {
	rec := &storepb.AuditRecord{
		TimeMs: uint64(l.o.Now().UnixMilli()), Event: r.Event, Code: string(r.Code), Key: r.Key, KeyName: r.KeyName,
		Operator: r.Operator,
		Tenant:   r.Tenant, User: string(r.User), Device: r.Device,
	}
	if r.Address.IsValid() {
		rec.Address = r.Address.String()
	}
	for _, d := range r.Details {
		rec.Details = append(rec.Details, &storepb.AuditDetail{Name: d.Name, Value: d.Value})
	}
	return rec
}

func (l *Log) enqueue(it *item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enqueueLocked(it)
}

func (l *Log) enqueueLocked(it *item) bool {
	if l.ended || len(l.queue) >= maxQueue {
		l.Dropped.Add(1)
		l.dropped++
		return false
	}
	l.queue = append(l.queue, it)
	return true
}

// closeWindowLocked queues the sums as records and begins a new window, if a minute is over or force is set.
func (l *Log) closeWindowLocked(now time.Time, force bool) {
	if !force && now.Sub(l.window) < sumTime {
		return
	}
	l.window = now
	for _, s := range l.sums {
		if s.count == 0 {
			continue
		}
		s.last.Count, s.last.SinceMs = s.count, s.sinceMs
		l.enqueueLocked(&item{rec: s.last})
	}
	clear(l.sums)
}

// Run writes the log until ctx ends, and then what is still queued.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(lazy)
	defer tick.Stop()
	tidied := l.o.Now()
	if _, err := l.present(ctx); err == nil { // else the first write reads it
		l.tidy(ctx)
	}
	for {
		select {
		case <-l.wake:
		case <-tick.C:
			l.mu.Lock()
			l.closeWindowLocked(l.o.Now(), false)
			l.mu.Unlock()
		case <-ctx.Done():
			l.end()
			return nil
		}
		l.writeAll(context.WithoutCancel(ctx))
		if now := l.o.Now(); now.Sub(tidied) >= headEvery {
			tidied = now
			l.tidy(ctx)
		}
	}
}

// end writes what is still queued, answers the rest with store_stalled, and logs the head of the chain.
func (l *Log) end() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	l.mu.Lock()
	l.closeWindowLocked(l.o.Now(), true)
	l.mu.Unlock()
	l.writeAll(ctx)
	l.mu.Lock()
	l.ended = true
	left := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.answer(left, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second})
	l.sayHead()
}

// tidy logs the head of the chain, and removes records that are too old.
func (l *Log) tidy(ctx context.Context) {
	l.sayHead()
	if err := l.forget(ctx); err != nil && ctx.Err() == nil {
		l.o.Log.WarnContext(ctx, "forget old records of the audit log failed", "err", err)
	}
}

// sayHead logs the head of the chain. With a copy of this line, it can be proved later that the end of the chain
// was cut off.
func (l *Log) sayHead() {
	if h := l.head; h != nil && h.rec.Number != l.said {
		l.said = h.rec.Number
		l.o.Log.Info("audit log", "head", Head{l.node, h.rec.Number, hex.EncodeToString(h.rec.Hash)}.String())
	}
}

// answer passes the outcome of a record to its waiting caller.
func (l *Log) answer(items []*item, err error) {
	for _, it := range items {
		if it.done != nil {
			it.done <- err
		}
	}
}
