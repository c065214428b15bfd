package crash

import (
	"fmt"
	"hash/maphash"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// ledger is what clients were told. Everything in it must be so in the end,
// and all along.
type ledger struct {
	mu       sync.Mutex // tier 0; guards the fields below
	seed     maphash.Seed
	entries  map[string][]uint64 // conversation → seq → hash of the entry as first told; 0: nobody was
	heads    map[string]uint64   // the highest that was told
	outcomes [][]outcome         // by sender and number of the message

	acked, resent, conflicts, refused, events, pages int
	lost, dup, moved, ghost, changed, holes          int
	faults                                           []string // the first ones
}

// outcome is what became of one message.
type outcome struct {
	conv   uint8  // index into world.convs
	seq    uint64 // 0: not acked yet
	stored int    // times the audit met it
}

func newLedger() *ledger {
	return &ledger{seed: maphash.MakeSeed(), entries: map[string][]uint64{}, heads: map[string]uint64{}, outcomes: make([][]outcome, len(senders))}
}

// fault notes a broken promise; only the first ones are kept in words.
func (l *ledger) faultLocked(count *int, format string, a ...any) {
	*count++
	if len(l.faults) < 20 {
		l.faults = append(l.faults, fmt.Sprintf(format, a...))
	}
}

func (l *ledger) broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faults) > 0
}

// told notes an entry that who was shown.
func (l *ledger) told(who string, m *petrelv1.Message) {
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
func (l *ledger) head(conv string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads[conv]
}

// toldHead notes a head that who was told in answer to a request that began
// when floor was known: it must not be lower (I7).
func (l *ledger) toldHead(who, conv string, head, floor uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if head < floor {
		l.faultLocked(&l.lost, "%s was told the head %d of %s, where %d was told before", who, head, conv, floor)
	}
	l.heads[conv] = max(l.heads[conv], head)
}

// composed makes room for the next message of a sender and returns its number.
func (l *ledger) composed(sender, conv int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[sender] = append(l.outcomes[sender], outcome{conv: uint8(conv)})
	return len(l.outcomes[sender]) - 1
}

// ack notes where a message is; each ack of it must say the same.
func (l *ledger) ack(m *message, conv string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &l.outcomes[m.sender][m.n]
	switch {
	case seq == 0:
		l.faultLocked(&l.moved, "%s was acked without a seq", m.k())
	case o.seq == 0:
		o.seq = seq
		l.acked++
	case o.seq != seq:
		l.faultLocked(&l.moved, "%s was acked at seq %d and at seq %d", m.k(), o.seq, seq)
	}
	l.heads[conv] = max(l.heads[conv], seq)
}

func (l *ledger) add(count *int, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count += n
}

func (l *ledger) note(count *int, format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faultLocked(count, format, a...)
}

func (l *ledger) summary(kills int, slowest time.Duration) string {
	return fmt.Sprintf("kills=%d acked=%d unknown_resent=%d conflicts=%d refused=%d events=%d pages=%d max_ready=%v | lost=%d dup=%d moved=%d ghost=%d changed=%d holes=%d",
		kills, l.acked, l.resent, l.conflicts, l.refused, l.events, l.pages, slowest.Round(time.Millisecond),
		l.lost, l.dup, l.moved, l.ghost, l.changed, l.holes)
}

func (l *ledger) report(t *testing.T) {
	t.Helper()
	for _, f := range l.faults {
		t.Error(f)
	}
	if n := l.lost + l.dup + l.moved + l.ghost + l.changed + l.holes; n > 0 {
		t.Errorf("%d faults", n)
	}
	if l.acked == 0 || l.resent == 0 || l.events == 0 || l.pages == 0 || l.refused == 0 || l.conflicts == 0 {
		t.Error("one of the counts is 0: the run did not do what it is for")
	}
}
