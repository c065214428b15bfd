package crowd

import (
	"cmp"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/checker"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// Ledger writes the op log of a run: what the clients have sent, and what the server has told them. In the end
// the checker judges it. A Ledger also has the figures that a test needs during its run.
type Ledger struct {
	mu       sync.Mutex // tier 0; guards the fields below
	base     time.Time
	file     *os.File
	log      *checker.Writer
	heads    map[string]uint64 // by conversation; the highest that a client was told
	outcomes [][]outcome       // by sender and number of the message

	watched time.Time // start of the measurement; zero: none
	outage  Outage
	last    map[string]time.Time // conversation → its last ack
	fresh   map[string]time.Time // conversation → when the newest acked message was written
	via     map[string]int       // URL → acks that came over a connection to it

	acked, resent, unsettled, conflicts, refused, events, pages int
	// faults that no op shows, for example that the server does not know a token any more
	wrong   int
	faults  []string        // the first ones
	verdict *checker.Report // nil before the audit
}

// outcome is the outcome of one message.
type outcome struct {
	acked bool
	begun time.Time
}

func newLedger(t *testing.T, senders int) *Ledger {
	keep := os.Getenv("PETREL_OPLOGS")
	f, err := os.CreateTemp(cmp.Or(keep, t.TempDir()), "crowd-*.ops")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.Close() // its content was judged
		switch {
		case !t.Failed():
			_ = os.Remove(f.Name()) // best effort
		case keep != "":
			t.Logf("petrel check %s", f.Name())
		}
	})
	return &Ledger{
		base: time.Now(), file: f, log: checker.NewWriter(f), heads: map[string]uint64{},
		outcomes: make([][]outcome, senders),
		last:     map[string]time.Time{}, fresh: map[string]time.Time{}, via: map[string]int{},
	}
}

// now returns the time as an op has it.
func (l *Ledger) now() int64 { return int64(time.Since(l.base)) + 1 }

// write adds an op, now.
func (l *Ledger) write(op checker.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeLocked(op)
}

func (l *Ledger) writeLocked(op checker.Op) {
	if op.Kind != checker.Entry {
		op.At = l.now()
	}
	_ = l.log.Write(&op) // the error stays, and judge returns it
}

// judge lets the checker judge the op log.
func (l *Ledger) judge(t *testing.T) {
	t.Helper()
	if err := l.log.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	r, err := checker.Check([]checker.Log{{Name: l.file.Name(), Reader: l.file}}, checker.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdict = r
}

// fault counts a fault that no op shows. It keeps the texts of the first 20.
func (l *Ledger) fault(format string, a ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong++
	if len(l.faults) < 20 {
		l.faults = append(l.faults, fmt.Sprintf(format, a...))
	}
}

// Broken reports whether a fault is known already, before the audit.
func (l *Ledger) Broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faults) > 0
}

// told writes the op of an entry or a head that a client was shown.
func (l *Ledger) told(op checker.Op) {
	if op.Conv[0] == byte(im.Inbox) {
		return // the server's own, to one user
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeLocked(op)
	l.heads[op.Conv] = max(l.heads[op.Conv], op.Seq)
}

// shown returns the op of an entry that a client was shown over a connection.
func shown(kind checker.Kind, r Role, device, session string, m *petrelv1.Message) checker.Op {
	op := checker.Shown(kind, m)
	op.User, op.Device, op.Session = r.User, device, session
	return op
}

// head returns the highest seq of a conversation that a client was told.
func (l *Ledger) head(conv string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heads[conv]
}

// composed adds an open outcome for the next message of a sender, and returns the number of the message.
func (l *Ledger) composed(sender int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes[sender] = append(l.outcomes[sender], outcome{begun: time.Now()})
	return len(l.outcomes[sender]) - 1
}

// ack records that a message is stored. It counts the first ack of each message.
func (l *Ledger) ack(m *message, url, conv string, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.via[url]++
	if o := &l.outcomes[m.sender][m.n]; !o.acked {
		o.acked = true
		l.acked++
		l.ackedLocked(o, conv)
	}
	l.heads[conv] = max(l.heads[conv], seq)
}

func (l *Ledger) add(count *int, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count += n
}

// Counts returns a line with what happened and how often a promise was broken.
func (l *Ledger) Counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := "not judged"
	if l.verdict != nil {
		found = l.verdict.Findings.String()
	}
	return fmt.Sprintf(
		"acked=%d unknown_resent=%d unsettled=%d conflicts=%d refused=%d events=%d pages=%d | %s, %d faults besides",
		l.acked, l.resent, l.unsettled, l.conflicts, l.refused, l.events, l.pages, found, l.wrong)
}

// Resent returns how often a message without an answer was sent again.
func (l *Ledger) Resent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resent
}

// Acked returns how many messages were acked.
func (l *Ledger) Acked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// AckedBy returns how many acks came over connections to the URLs.
func (l *Ledger) AckedBy(urls ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range urls {
		n += l.via[u]
	}
	return n
}

// Unsettled returns how many answers said that nothing was decided.
func (l *Ledger) Unsettled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsettled
}

// IsComplete tells whether each kind of outcome that a run is for has occurred.
func (l *Ledger) IsComplete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isCompleteLocked()
}

func (l *Ledger) isCompleteLocked() bool {
	return l.acked > 0 && l.events > 0 && l.pages > 0 && l.refused > 0 && l.conflicts > 0
}

// Report fails the test for every broken promise, and if the run was not judged or did not do all that it is for.
func (l *Ledger) Report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	if l.wrong > 0 {
		t.Errorf("%d faults", l.wrong)
	}
	switch v := l.verdict; {
	case v == nil:
		t.Error("nobody has judged the run")
	case !v.Findings.Clean():
		for _, w := range v.Witnesses {
			t.Error(w)
		}
		t.Errorf("findings: %v", v.Findings)
	case int(v.Acked) != l.acked || v.Deliveries == 0 || v.Reads == 0 || v.Heads == 0 || v.Due == 0 ||
		v.WithHistory != v.Conversations || v.WithMembers != v.Conversations:
		t.Errorf("the op log is not that of the run, which had %d acks: %+v", l.acked, v.Sums)
	}
	if !l.isCompleteLocked() {
		t.Error("one of the counts is 0: the run did not do what it is for")
	}
}

// Outage is how a fault delayed the senders.
type Outage struct {
	Gap  time.Duration // the longest time without an ack in a conversation
	Wait time.Duration // the longest time from a message's first frame to its ack
}

// Down returns the time without service. A conversation with few messages has long gaps, and a client that
// reconnects slowly has long waits. Only without service are both long.
func (o Outage) Down() time.Duration { return min(o.Gap, o.Wait) }

// Watch starts to measure an outage.
func (l *Ledger) Watch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched, l.outage = time.Now(), Outage{}
}

// Outage returns the longest times since Watch, of messages that were acked.
func (l *Ledger) Outage() Outage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outage
}

// Served reports whether every conversation that ever had an ack has had one since t for a message that was
// written since t.
func (l *Ledger) Served(t time.Time) bool { return len(l.Stuck(t)) == 0 }

// Stuck returns the conversations that had no such ack since t.
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

// ackedLocked measures the outage, and records when conv was last served. l.mu is held.
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
