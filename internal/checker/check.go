package checker

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Options are what Check needs besides the logs. The zero value is the default.
type Options struct {
	// Dir is the folder for temporary files, which take somewhat more bytes than the logs; empty: the system's.
	Dir string
}

// Log is one op log.
type Log struct {
	Name string // for witnesses
	io.Reader
}

// Sums count the judged operations.
type Sums struct {
	Ops           uint64 `json:"ops"`
	Conversations uint64 `json:"conversations"`
	Messages      uint64 `json:"messages"` // different ones that were sent
	Attempts      uint64 `json:"attempts"`
	Acked         uint64 `json:"acked"`
	Rejected      uint64 `json:"rejected"`     // messages whose every attempt was rejected
	Unknown       uint64 `json:"unknown"`      // messages without an ack that were not rejected
	UnknownKept   uint64 `json:"unknown_kept"` // of those, that are stored
	Deliveries    uint64 `json:"deliveries"`   // entries that devices took as new
	Reads         uint64 `json:"reads"`        // entries that clients were shown, but did not take as new
	Heads         uint64 `json:"heads"`        // that were told
	Cursors       uint64 `json:"cursors"`      // pairs that were told
	Rewrites      uint64 `json:"rewrites"`     // edits and recalls that are stored
	Due           uint64 `json:"due"`          // entries that devices had to get
	Entries       uint64 `json:"entries"`      // of the history
	WithHistory   uint64 `json:"with_history"` // conversations whose history is there
	WithMembers   uint64 `json:"with_members"` // conversations whose members are known
}

func (s *Sums) add(o Sums) {
	s.Conversations += o.Conversations
	s.Messages += o.Messages
	s.Attempts += o.Attempts
	s.Acked += o.Acked
	s.Rejected += o.Rejected
	s.Unknown += o.Unknown
	s.UnknownKept += o.UnknownKept
	s.Deliveries += o.Deliveries
	s.Reads += o.Reads
	s.Heads += o.Heads
	s.Cursors += o.Cursors
	s.Rewrites += o.Rewrites
	s.Due += o.Due
	s.Entries += o.Entries
	s.WithHistory += o.WithHistory
	s.WithMembers += o.WithMembers
}

// count1 adds the sums of one conversation to s.
func (c *conversation) count1(s *Sums) {
	s.Conversations++
	for i := uint64(1); i <= uint64(c.count); i++ {
		m := c.messages.At(i)
		s.Messages++
		_, _, how := c.places.known(uint64(m.seq))
		switch {
		case m.seq != 0 && how&ByAck != 0:
			s.Acked++
		case m.definite():
			s.Rejected++
		default:
			s.Unknown++
			if how != 0 {
				s.UnknownKept++
			}
		}
	}
	for _, f := range c.streams {
		if f.owed && !f.Gone && c.head() > f.start {
			s.Due += c.head() - f.start
		}
	}
	s.Heads += uint64(len(c.heads))
	for _, list := range c.rewrites {
		s.Rewrites += uint64(len(list))
	}
	for _, b := range c.cursors {
		s.Cursors += uint64(len(b.answers))
	}
	if c.history != nil {
		s.WithHistory++
	}
	if c.members != nil {
		s.WithMembers++
	}
}

// Report is the result of Check.
type Report struct {
	Sums
	Findings  Findings  `json:"findings"`
	Witnesses []Witness `json:"witnesses"` // the first MaxWitnesses of each class
}

const (
	parts     = 32
	batchSize = 512 // ops that go from a reader to the parts at once
)

// Check reads logs to their ends and judges them. It judges a 32nd of all conversations at a time on each core,
// and keeps about 150 bytes in memory for each message of these. An error means that there is no verdict, for
// example because a log cannot be read.
func Check(logs []Log, o Options) (*Report, error) {
	if len(logs) == 0 || len(logs) >= 1<<logBits {
		return nil, fmt.Errorf("%d logs; allowed: 1 to %d", len(logs), 1<<logBits-1)
	}
	dir, err := os.MkdirTemp(o.Dir, "petrel-check-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for temporary files: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // nobody needs it any more
	d := &divider{covered: map[string]bool{}, convs: map[string]string{}, seed: maphash.MakeSeed()}
	for range parts + 1 {
		d.parts = append(d.parts, &part{dir: dir})
	}
	r, err := d.check(logs)
	return r, errors.Join(err, d.remove())
}

// divider deals the ops of logs to parts.
type divider struct {
	parts   []*part           // the last one has ops of conversations whose ids were not known
	convs   map[string]string // ids of direct conversations, by both users
	covered map[string]bool
	ended   []Op // End ops that name no conversation: they hold for all
	seed    maphash.Seed
	ops     uint64
}

func (d *divider) remove() error {
	var errs []error
	for _, p := range d.parts {
		errs = append(errs, p.remove())
	}
	return errors.Join(errs...)
}

func (d *divider) check(logs []Log) (*Report, error) {
	if err := d.divide(logs); err != nil {
		return nil, err
	}
	if err := d.resolve(); err != nil {
		return nil, err
	}
	d.parts = d.parts[:parts:parts]
	next := make(chan *part, parts) // all of them
	for _, p := range d.parts {
		next <- p
	}
	close(next)
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for p := range next {
				errs[i] = errors.Join(errs[i], p.judge(d.covered))
				p.convs = nil
			}
		})
	}
	wg.Wait()
	r := &Report{Witnesses: []Witness{}}
	var all Verdict
	for _, p := range d.parts {
		all.merge(&p.verdict)
		r.Sums.add(p.sums)
	}
	r.Ops, r.Findings = d.ops, all.Findings
	slices.SortStableFunc(all.Witnesses, func(a, b Witness) int { return cmp.Compare(a.Class, b.Class) })
	for _, w := range all.Witnesses {
		if w.where != 0 {
			w.Where = fmt.Sprintf("%s:%d", filepath.Base(logs[w.where&(1<<logBits-1)].Name), w.where>>logBits)
		}
		r.Witnesses = append(r.Witnesses, w)
	}
	return r, errors.Join(errs...)
}

// divide reads all logs, each in a goroutine of its own.
func (d *divider) divide(logs []Log) error {
	type batch struct {
		ops []Op
		err error
	}
	batches := make(chan batch, 8) // a full one makes the readers wait
	free := make(chan []Op, 16)    // batches to be used again; a full one leaves them to the garbage collector
	stop := make(chan struct{})
	var wg sync.WaitGroup
	turn := make(chan struct{}, runtime.GOMAXPROCS(0)) // how many logs are read at a time
	for n, l := range logs {
		wg.Go(func() {
			select {
			case turn <- struct{}{}:
			case <-stop:
				return
			}
			defer func() { <-turn }()
			r, err := NewReader(l.Reader)
			for err == nil {
				var ops []Op
				select {
				case ops = <-free:
				default:
					ops = make([]Op, batchSize)
				}
				ops = ops[:batchSize]
				i := 0
				for ; i < batchSize && err == nil; i++ {
					if err = r.Next(&ops[i]); err != nil {
						break
					}
					ops[i].where |= uint64(n)
				}
				select {
				case batches <- batch{ops: ops[:i]}:
				case <-stop:
					return
				}
			}
			if err != io.EOF {
				select {
				case batches <- batch{err: fmt.Errorf("%s: %w", l.Name, err)}:
				case <-stop:
				}
			}
		})
	}
	go func() { // ends with the readers
		wg.Wait()
		close(batches)
	}()
	var err error
	for b := range batches {
		if err == nil {
			if err = b.err; err == nil {
				err = d.deal(b.ops)
			}
			if err != nil {
				close(stop)
			}
		}
		select {
		case free <- b.ops[:cap(b.ops)]:
		default:
		}
	}
	return err
}

func (d *divider) deal(ops []Op) error {
	for i := range ops {
		op := &ops[i]
		d.ops++
		if op.Kind == Invoke || op.Kind == Follow {
			if !d.covered[op.User] {
				d.covered[op.User] = true
			}
		}
		if op.To != "" && op.Conv != "" {
			d.convs[pair(op)] = op.Conv
		}
		var err error
		switch {
		case op.Conv != "":
			err = d.partOf(op.Conv).write(op)
		case op.Kind == End:
			d.ended = append(d.ended, *op)
		default:
			err = d.parts[parts].write(op)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pair names the direct conversation of two users.
func pair(op *Op) string {
	a, b := op.User, op.To
	if a > b {
		a, b = b, a
	}
	return a + "\x00" + b
}

func (d *divider) partOf(conv string) *part {
	return d.parts[maphash.String(d.seed, conv)%parts]
}

// resolve deals the ops that were put aside because the ids of their conversations were not known.
func (d *divider) resolve() error {
	aside := d.parts[parts]
	var errs []error
	for s := range sections {
		errs = append(errs, aside.each(s, func(op *Op, _ int64) {
			op.Conv = cmp.Or(d.convs[pair(op)], "the conversation of "+op.User+" and "+op.To)
			errs = append(errs, d.partOf(op.Conv).write(op))
		}))
	}
	for i := range d.ended {
		for _, p := range d.parts[:parts] {
			errs = append(errs, p.write(&d.ended[i]))
		}
	}
	return errors.Join(append(errs, aside.remove())...)
}

// tried returns in how many cases a finding of the class was possible, and what these cases are.
func (r *Report) tried(c Class) (n uint64, of string) {
	switch c {
	case Lost:
		return r.Acked + r.Due, "acked messages and entries that had to be shown"
	case Refused:
		return r.Rejected, "rejected messages"
	case Recalled:
		return r.Rewrites, "edits and recalls"
	case Ghost, Altered, Gap, Leaked:
		return r.Deliveries + r.Reads + r.Entries, "entries that were shown or read back"
	case Stale:
		return r.Heads, "heads that were told"
	case Cursor:
		return r.Cursors, "cursors that were told"
	}
	return r.Acked, "acked messages"
}

// Verdict returns a sentence about the findings of a class, or about the significance of none.
func (r *Report) Verdict(c Class) string {
	n, of := r.tried(c)
	switch {
	case r.Findings[c] > 0:
		return fmt.Sprintf("%d FOUND", r.Findings[c])
	case n == 0:
		return "not looked for: there were no " + of
	case n < 3:
		return fmt.Sprintf("0 in %d %s", n, of)
	}
	return fmt.Sprintf("0 in %d %s: at most %s, at 95 %%", n, of, percent(AtMost(n)))
}

func percent(p float64) string {
	digits := max(0, 1-int(math.Floor(math.Log10(p*100))))
	return fmt.Sprintf("%.*f %%", digits, p*100)
}

// Add adds the report of other logs, which are about other conversations.
func (r *Report) Add(o *Report) {
	r.Ops += o.Ops
	r.Sums.add(o.Sums)
	var all Verdict
	all.merge(&Verdict{Findings: r.Findings, Witnesses: r.Witnesses})
	all.merge(&Verdict{Findings: o.Findings, Witnesses: o.Witnesses})
	r.Findings, r.Witnesses = all.Findings, append([]Witness{}, all.Witnesses...)
}
