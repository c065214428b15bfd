package crowd

import (
	"fmt"
	"hash/maphash"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Ledger is what clients were told. Everything in it must be so in the end,
// and all along.
type Ledger struct {
	mu       sync.Mutex // tier 0; guards the fields below
	seed     maphash.Seed
	entries  map[string][]uint64 // conversation → seq → hash of the entry as first told; 0: nobody was
	heads    map[string]uint64   // the highest that was told
	outcomes [][]outcome         // by sender and number of the message

	watched time.Time // the outage is measured from here on
	outage  Outage
	last    map[string]time.Time // conversation → its last ack
	fresh   map[string]time.Time // conversation → when the newest message was written that was acked
	via     map[string]int       // URL → acks that came over a connection to it

	acked, resent, unsettled, conflicts, refused, events, pages int
	lost, dup, moved, ghost, changed, holes                     int
	faults                                                      []string // the first ones
}

// outcome is what became of one message.
type outcome struct {
	conv     uint8  // index into Crowd.convs
	seq      uint64 // 0: not acked yet
	stored   int    // times the audit met it
	deferred bool   // an unsettled error made it wait while later ones went on (P-4.3)
	begun    time.Time
	floor    uint64 // somebody was told this seq before it was begun
}

func newLedger(senders int) *Ledger {
	return &Ledger{seed: maphash.MakeSeed(), entries: map[string][]uint64{}, heads: map[string]uint64{}, outcomes: make([][]outcome, senders), last: map[string]time.Time{}, fresh: map[string]time.Time{}, via: map[string]int{}}
}

// fault notes a broken promise; only the first ones are kept in words.
func (l *Ledger) faultLocked(count *int, format string, a ...any) {
	*count++
	if len(l.faults) < 20 {
		l.faults = append(l.faults, fmt.Sprintf(format, a...))
	}
}

// Broken tells whether a promise was broken.
func (l *Ledger) Broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faults) > 0
}

// told notes an entry that who was shown.
func (l *Ledger) told(who string, m *petrelv1.Message) {
	b, err := m.MarshalVT()
	h := maphash.Bytes(l.seed, b) | 1
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || m.Seq == 0 || m.Seq > 1<<32 {
		l.faultLocked(&l.changed, "%s was told an entry %v: %v", who, m, err)
		return
	}
	e := l.entries[m.Conv]
	for uint64(len(e)) <= m.Seq {
		e = append(e, 0)
	}
	l.entries[m.Conv] = e
	if e[m.Seq] != 0 && e[m.Seq] != h {
		l.faultLocked(&l.changed, "%s was told another %s seq %d than before: %v", who, m.Conv, m.Seq, m)
	}
	e[m.Seq] = h
	l.heads[m.Conv] = max(l.heads[m.Conv], m.Seq)
}

// head is the highest seq that anybody was told of a conversation.
func (l *Ledger) head(conv string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads[conv]
}

// toldHead notes a head that who was told in answer to a request that began
// when floor was known: it must not be lower (I7).
func (l *Ledger) toldHead(who, conv string, head, floor uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if head < floor {
		l.faultLocked(&l.lost, "%s was told the head %d of %s, where %d was told before", who, head, conv, floor)
	}
	l.heads[conv] = max(l.heads[conv], head)
}

// composed makes room for the next message of a sender and returns its number.
func (l *Ledger) composed(sender, conv int, id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[sender] = append(l.outcomes[sender], outcome{conv: uint8(conv), begun: time.Now(), floor: l.heads[id]})
	return len(l.outcomes[sender]) - 1
}

// ack notes where a message is; each ack of it must say the same.
func (l *Ledger) ack(m *message, url, conv string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.via[url]++
	o := &l.outcomes[m.sender][m.n]
	switch {
	case seq == 0:
		l.faultLocked(&l.moved, "%s was acked without a seq", m.k())
	case seq <= o.floor:
		l.faultLocked(&l.moved, "%s was acked at seq %d, and %d was known before it was begun", m.k(), seq, o.floor)
		o.seq = seq
	case o.seq == 0:
		o.seq = seq
		l.acked++
		l.ackedLocked(o, conv)
	case o.seq != seq:
		l.faultLocked(&l.moved, "%s was acked at seq %d and at seq %d", m.k(), o.seq, seq)
	}
	l.heads[conv] = max(l.heads[conv], seq)
}

func (l *Ledger) add(count *int, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count += n
}

func (l *Ledger) note(count *int, format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faultLocked(count, format, a...)
}

// Counts are what happened, and how often a promise was broken. moved counts
// messages that stand elsewhere than they were acked, or out of order.
func (l *Ledger) Counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("acked=%d unknown_resent=%d unsettled=%d conflicts=%d refused=%d events=%d pages=%d | lost=%d dup=%d moved=%d ghost=%d changed=%d holes=%d",
		l.acked, l.resent, l.unsettled, l.conflicts, l.refused, l.events, l.pages, l.lost, l.dup, l.moved, l.ghost, l.changed, l.holes)
}

// Resent is how often a message without an answer was sent again.
func (l *Ledger) Resent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resent
}

// Acked is how many messages were acked.
func (l *Ledger) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// AckedBy is how many acks came over connections to the URLs.
func (l *Ledger) AckedBy(urls ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range urls {
		n += l.via[u]
	}
	return n
}

// Unsettled is how many answers said that nothing was decided.
func (l *Ledger) Unsettled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsettled
}

// Report fails the test for every broken promise.
func (l *Ledger) Report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	if n := l.lost + l.dup + l.moved + l.ghost + l.changed + l.holes; n > 0 {
		t.Errorf("%d faults", n)
	}
	if l.acked == 0 || l.events == 0 || l.pages == 0 || l.refused == 0 || l.conflicts == 0 {
		t.Error("one of the counts is 0: the run did not do what it is for")
	}
}

// Outage is what a fault cost those who sent.
type Outage struct {
	Gap  time.Duration // the longest time without an ack in a conversation
	Wait time.Duration // the longest time from a message's first frame to its ack
}

// Down is the time without service: a conversation that is seldom written to
// has long gaps, and a client that comes back slowly long waits, but only where
// there is no service are both long.
func (o Outage) Down() time.Duration { return min(o.Gap, o.Wait) }

// Watch begins to measure an outage.
func (l *Ledger) Watch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched, l.outage = time.Now(), Outage{}
}

// Outage is the worst since Watch, of what had an answer.
func (l *Ledger) Outage() Outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outage
}

// Served tells whether every conversation had an ack since t for a message that
// was written since t.
func (l *Ledger) Served(t time.Time) bool { return len(l.Stuck(t)) == 0 }

// Stuck names the conversations of which Served says no.
func (l *Ledger) Stuck(t time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for conv, fresh := range l.fresh {
		if fresh.Before(t) {
			list = append(list, conv)
		}
	}
	return list
}

// ackedLocked measures.
func (l *Ledger) ackedLocked(o *outcome, conv string) {
	now := time.Now()
	if since := l.last[conv]; !since.IsZero() && !l.watched.IsZero() {
		l.outage.Gap = max(l.outage.Gap, now.Sub(since))
		l.outage.Wait = max(l.outage.Wait, now.Sub(o.begun))
	}
	l.last[conv] = now
	if o.begun.After(l.fresh[conv]) {
		l.fresh[conv] = o.begun
	}
}

// deferred notes that nothing was decided of a message: later ones of its
// sender may stand before it.
func (l *Ledger) deferred(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[m.sender][m.n].deferred = true
	l.unsettled++
}

// excuse is deferred for a message of which that cannot be told.
func (l *Ledger) excuse(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[m.sender][m.n].deferred = true
}
