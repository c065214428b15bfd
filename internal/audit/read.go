package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Stored is a record as it was read.
type Stored struct {
	Node im.Node
	*storepb.AuditRecord
}

// MaxPage is the longest page of List.
const MaxPage = 1000

// MaxLooked is how many records one call of List looks at.
const MaxLooked = 10_000

// Query says which records List reads: those that fit all its fields.
type Query struct {
	SinceMs uint64 // Unix milliseconds; 0: from the oldest on
	UntilMs uint64 // before this time; 0: to the newest
	Token   []byte // where another page ended; then SinceMs is not used, or, if Down, UntilMs
	Down    bool   // newest first
	Limit   int    // 0 or too large: MaxPage

	Event   string // a part of the event's name
	Who     string // the operator, the user, or the id or name of the key
	About   string // a value of a detail, or one of the values with commas between them
	Refused bool   // only refusals
}

func (q *Query) fits(r *storepb.AuditRecord) bool {
	return (!q.Refused || r.Code != "") && strings.Contains(r.Event, q.Event) &&
		(q.Who == "" || q.Who == r.Operator || q.Who == r.User || q.Who == r.Key || q.Who == r.KeyName) &&
		(q.About == "" || slices.ContainsFunc(r.Details, func(d *storepb.AuditDetail) bool {
			return d.Value == q.About || slices.Contains(strings.Split(d.Value, ","), q.About)
		}))
}

// List reads a page of the records of all nodes, in the order of time. It begins behind the token of another
// page, or else at the time in q. next is the token for the following page; empty: there are no more records at
// present. List looks at MaxLooked records at most, so a page may be short although another one follows. It
// leaves out records that cannot be read. Codes: invalid.
func (l *Log) List(ctx context.Context, q Query) (page []Stored, next []byte, err error) {
	if l == nil {
		return nil, nil, nil
	}
	token, limit := q.Token, q.Limit
	if limit <= 0 || limit > MaxPage {
		limit = MaxPage
	}
	if _, _, _, ok := parseKey(token); len(token) > 0 && (!ok || len(token) > placeBytes+im.MaxUser) {
		return nil, nil, im.Errorf(im.CodeInvalid, "this is no token of a page")
	}
	begin := token
	switch { // a time alone is less than every key of that time
	case len(token) > 0:
	case !q.Down:
		begin = be64(q.SinceMs)
	case q.UntilMs > 0:
		begin = be64(q.UntilMs)
	}
	var last []byte
	looked := 0
	err = store.RecordsBehind(ctx, l.store, store.Audit, 0, nil, begin, q.Down, func(key, value []byte) bool {
		if len(page) == limit || looked == MaxLooked {
			next = last
			return false
		}
		node, timeMs, _, ok := parseKey(key)
		if ok && (!q.Down && q.UntilMs > 0 && timeMs >= q.UntilMs || q.Down && timeMs < q.SinceMs) {
			return false
		}
		looked++
		last = bytes.Clone(key)
		link, rec := &storepb.AuditLink{}, &storepb.AuditRecord{}
		if ok && link.UnmarshalVT(value) == nil && rec.UnmarshalVT(link.Record) == nil && q.fits(rec) {
			page = append(page, Stored{node, rec})
		}
		return true
	})
	return page, next, err
}

// Head is where the chain of a node ended at some time.
type Head struct {
	Node   im.Node
	Number uint64
	Hash   string // in hex
}

// Fault is a changed place of the log.
type Fault struct {
	Node   im.Node
	Number uint64 // of the record; 0: it is about the chain
	What   string // one of the constants below
	Text   string // for people
}

// Kinds of faults of a record or a chain.
const (
	Changed = "changed" // its hash is wrong, or a node had found a change
	Missing = "missing" // it was there, and is gone
	Moved   = "moved"   // it is not where it belongs
	Cut     = "cut"     // the end of a chain is missing
	Unknown = "unknown" // it was never written by a node
)

// MaxFaults is how many faults a verification names.
const MaxFaults = 1000

// Verification is the result of Verify.
type Verification struct {
	Records uint64
	Heads   []Head  // of all chains, at the end of the verification
	Faults  []Fault // at most MaxFaults
}

func (v *Verification) fault(node im.Node, number uint64, what, format string, args ...any) {
	if len(v.Faults) < MaxFaults {
		v.Faults = append(v.Faults, Fault{node, number, what, fmt.Sprintf(format, args...)})
	}
}

// chainReader follows one chain while the log is read.
type chainReader struct {
	head   storepb.AuditHead
	number uint64
	hash   []byte
	want   map[uint64]string // known hashes that the records must have, by number
}

// Verify reads the whole log and checks it. known are heads that were logged or printed earlier: the log must
// still have their records. Records that are written meanwhile do no harm.
//
// Verify reads the log in parts. It passes each read to turn, which runs it when the machine has room, or returns
// an error. A nil turn runs each at once.
//
// Without known heads it cannot notice that the end of a chain was put back to an earlier state together with its
// head, or that a chain is gone with its head.
func (l *Log) Verify(ctx context.Context, known []Head, turn func(read func() error) error) (*Verification, error) {
	if l == nil {
		return &Verification{}, nil
	}
	if turn == nil {
		turn = func(read func() error) error { return read() }
	}
	const tries = 3
	for try := 1; ; try++ {
		before, err := l.oldest(ctx)
		if err != nil {
			return nil, err
		}
		v, err := l.verify(ctx, known, turn)
		if err != nil || len(v.Faults) == 0 || try == tries {
			return v, err
		}
		// Records may have been removed by age while the log was read.
		if after, err := l.oldest(ctx); err != nil || maps.Equal(before, after) {
			return v, err
		}
	}
}

// oldest returns, for each chain, the number of its oldest record.
func (l *Log) oldest(ctx context.Context) (map[im.Node]uint64, error) {
	all := map[im.Node]uint64{}
	err := l.store.Records(ctx, store.AuditHeads, 0, nil, func(key, value []byte) bool {
		h := &storepb.AuditHead{}
		_ = h.UnmarshalVT(value) // verify reports a damaged head
		all[im.Node(key)] = h.Oldest
		return true
	})
	return all, err
}

func (l *Log) verify(ctx context.Context, known []Head, turn func(func() error) error) (*Verification, error) {
	v := &Verification{}
	chains := map[im.Node]*chainReader{}
	err := l.store.Records(ctx, store.AuditHeads, 0, nil, func(key, value []byte) bool {
		node, c := im.Node(key), &chainReader{want: map[uint64]string{}}
		if c.head.UnmarshalVT(value) != nil || !hmac.Equal(c.head.Seal, l.seal(node, &c.head)) {
			v.fault(node, 0, Changed, "the head of the chain of node %s is not as it was written", node)
		}
		c.number, c.hash = max(c.head.Oldest, 1)-1, bytes.Clone(c.head.Before)
		chains[node] = c
		return true
	})
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if c := chains[k.Node]; c == nil {
			v.fault(k.Node, k.Number, Cut, "the log has no chain of node %s", k.Node)
		} else {
			c.want[k.Number] = k.Hash
		}
	}
	for from, done := []byte(nil), false; !done; {
		err := turn(func() error {
			done = true
			n := 0
			return l.store.RecordsFrom(ctx, store.Audit, 0, from, func(key, value []byte) bool {
				if n == l.o.Part {
					from, done = bytes.Clone(key), false
					return false
				}
				n++
				l.check(v, chains, key, value)
				return true
			})
		})
		if err != nil {
			return nil, err
		}
	}
	for _, node := range slices.Sorted(maps.Keys(chains)) {
		c := chains[node]
		c.end(v, node)
		v.Heads = append(v.Heads, Head{node, c.number, hex.EncodeToString(c.hash)})
	}
	return v, nil
}

// check checks the next record of the log.
func (l *Log) check(v *Verification, chains map[im.Node]*chainReader, key, value []byte) {
	v.Records++
	node, timeMs, number, ok := parseKey(key)
	if c := chains[node]; ok && c != nil {
		l.follow(v, c, node, timeMs, number, value)
	} else {
		v.fault(node, number, Unknown, "there is a record of a node %q that has no chain", node)
	}
}

// follow checks the next record of a chain.
func (l *Log) follow(v *Verification, c *chainReader, node im.Node, timeMs, number uint64, value []byte) {
	link, rec := &storepb.AuditLink{}, &storepb.AuditRecord{}
	sound := link.UnmarshalVT(value) == nil && rec.UnmarshalVT(link.Record) == nil
	if sound {
		sound = hmac.Equal(link.Hash, l.hash(node, link.Before, link.Record))
	}
	switch {
	case number <= c.number:
		v.fault(node, number, Moved, "record %d of node %s stands behind record %d", number, node, c.number)
		return
	case !sound:
		v.fault(node, number, Changed, "record %d of node %s is not as it was written", number, node)
	case rec.Number != number || rec.TimeMs != timeMs:
		v.fault(node, number, Moved, "record %d of node %s stands where record %d belongs", rec.Number, node, number)
	case rec.Event == brokenEvent:
		v.fault(node, number, Changed, "at record %d node %s found that the end of its chain had been changed", number,
			node)
	}
	switch next := c.number + 1; {
	case number == next+1:
		v.fault(node, next, Missing, "record %d of node %s is missing", next, node)
	case number > next:
		v.fault(node, next, Missing, "records %d to %d of node %s are missing", next, number-1, node)
	case sound && !bytes.Equal(link.Before, c.hash) && c.hash != nil:
		v.fault(node, number, Changed, "record %d of node %s does not follow the one before it", number, node)
	}
	if c.number, c.hash = number, bytes.Clone(link.Hash); !sound {
		c.hash = nil // one fault is enough
	}
	c.compare(v, node)
}

// compare compares the last read record with the known hashes and with the head of the chain.
func (c *chainReader) compare(v *Verification, node im.Node) {
	if want, ok := c.want[c.number]; ok {
		delete(c.want, c.number)
		if want != hex.EncodeToString(c.hash) {
			v.fault(node, c.number, Changed, "record %d of node %s has another hash than it had", c.number, node)
		}
	}
	if c.number == c.head.Number && c.hash != nil && !bytes.Equal(c.hash, c.head.Hash) {
		v.fault(node, c.number, Changed, "record %d of node %s is not the one at which the chain ends", c.number, node)
	}
}

// end reports records that are missing at the end of a chain.
func (c *chainReader) end(v *Verification, node im.Node) {
	if c.number < c.head.Number {
		v.fault(node, c.number+1, Cut, "the records of node %s end at %d, and there were %d", node, c.number,
			c.head.Number)
	}
	for number := range c.want {
		if number > c.number {
			v.fault(node, number, Cut, "the records of node %s end at %d, and there was a record %d", node, c.number,
				number)
		}
	}
}

// String returns the head in the form in which it is logged: node:number:hash.
func (h Head) String() string { return fmt.Sprintf("%s:%d:%s", h.Node, h.Number, h.Hash) }
