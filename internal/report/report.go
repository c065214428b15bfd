// Package report keeps what users report to the operators of their tenant: a user, or a message with copies of it
// and of those before it. It decides neither what a reporter may see nor what becomes of the reported user:
// package api does.
package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
	"github.com/petrel-im/petrel/internal/transaction"
)

// The bounds of reports. Spec: P-14.21, P-14.22.
const (
	maxPerDay  = 20 // of one reporter
	maxOpen    = 10_000
	maxClosed  = 100_000
	keptClosed = 90 * 24 * time.Hour
	maxNotes   = 50

	MaxContextBytes = 64 << 10
)

const day = 24 * time.Hour

// The first byte of a key in the table Reports says what the record is.
const (
	keyReport  = 'r' // and the number: storepb.Report
	keyContext = 'c' // and the number: storepb.ReportContext
	keyOpen    = 'o' // and the number, while the report is open
	keyClosed  = 'x' // and when the report was closed, and the number
	keyUser    = 'u' // and the reported user, 0 and the number
	keyBy      = 'b' // and the reporter, 0 and the number; value: when
	keySame    = 's' // and a hash of reporter and target, while the report is open; value: the number
	keyCounts  = 'n' // storepb.ReportCounts
)

// Reports are those of all tenants.
type Reports struct {
	store store.Store
	txs   *transaction.Manager
	now   func() time.Time
}

// Report is a report with its number: 1, 2, 3, … in each tenant.
type Report struct {
	Number uint64
	*storepb.Report
}

// New opens the reports of a store. now nil: the wall clock.
func New(st store.Store, now func() time.Time) *Reports {
	if now == nil {
		now = time.Now
	}
	return &Reports{st, transaction.New(st), now}
}

// File stores a report. While a report of the same reporter about the same user or message is open, it gets the new
// reason and text instead, and keeps its context. Codes: rate_limited, too_many_reports. Spec: P-14.21.
func (rs *Reports) File(ctx context.Context, t im.Tenant, r *storepb.Report, with *storepb.ReportContext) error {
	return rs.change(ctx, t, func(c *change) error {
		same := sameKey(r)
		number, err := c.Record(ctx, store.Reports, t, same)
		if err != nil {
			return err
		}
		if number != nil {
			open, err := c.report(ctx, binary.BigEndian.Uint64(number))
			if err != nil {
				return err
			}
			open.Reason, open.Text = r.Reason, r.Text
			return c.put(open)
		}
		if err := rs.checkRate(ctx, t, r.Reporter); err != nil {
			return err
		}
		if c.counts.Open >= maxOpen {
			return &im.Error{Code: im.CodeTooManyReports, RetryAfter: time.Hour}
		}
		c.counts.Last++
		c.counts.Open++
		r.TimeMs = c.nowMs()
		next := Report{c.counts.Last, r}
		context, err := with.MarshalVT()
		if err != nil {
			return err
		}
		c.Put(store.Reports, t, key(keyContext, next.Number), context)
		c.Put(store.Reports, t, key(keyOpen, next.Number), []byte{1})
		c.Put(store.Reports, t, userKey(keyUser, r.User, next.Number), []byte{1})
		c.Put(store.Reports, t, userKey(keyBy, r.Reporter, next.Number), binary.BigEndian.AppendUint64(nil, r.TimeMs))
		c.Put(store.Reports, t, same, binary.BigEndian.AppendUint64(nil, next.Number))
		return c.put(next)
	})
}

// checkRate refuses a reporter who has filed maxPerDay reports in the last day. All changes of a tenant write its
// counts, so none is filed between this read and the commit. Codes: rate_limited.
func (rs *Reports) checkRate(ctx context.Context, t im.Tenant, reporter string) error {
	n, oldest := 0, uint64(0)
	err := rs.store.RecordsDown(ctx, store.Reports, t, userPrefix(keyBy, reporter), nil, func(_, value []byte) bool {
		n, oldest = n+1, binary.BigEndian.Uint64(value)
		return n < maxPerDay
	})
	if free := time.UnixMilli(int64(oldest)).Add(day).Sub(rs.now()); err == nil && n == maxPerDay && free > 0 {
		err = &im.Error{Code: im.CodeRateLimited, RetryAfter: free}
	}
	return err
}

// Get returns a report. Codes: no_report.
func (rs *Reports) Get(ctx context.Context, t im.Tenant, number uint64) (Report, error) {
	return (&change{Tx: rs.txs.Begin(), tenant: t}).report(ctx, number)
}

// Context returns what a report keeps of messages.
func (rs *Reports) Context(ctx context.Context, t im.Tenant, number uint64) (*storepb.ReportContext, error) {
	value, err := rs.store.Record(ctx, store.Reports, t, key(keyContext, number))
	if err != nil {
		return nil, err
	}
	return transaction.Parse[storepb.ReportContext]("context of a report", value)
}

// Open returns how many reports of a tenant are open.
func (rs *Reports) Open(ctx context.Context, t im.Tenant) (uint64, error) {
	value, err := rs.store.Record(ctx, store.Reports, t, []byte{keyCounts})
	if err != nil {
		return 0, err
	}
	counts, err := transaction.Parse[storepb.ReportCounts]("counts of reports", value)
	return counts.GetOpen(), err
}

// Note adds a note to a report, and closes the report if closing is set. Codes: no_report, report_closed, invalid.
// Spec: P-14.23.
func (rs *Reports) Note(ctx context.Context, t im.Tenant, number uint64, note *storepb.ReportNote,
	closing bool) (done Report, err error) {
	err = rs.change(ctx, t, func(c *change) error {
		r, err := c.report(ctx, number)
		switch {
		case err != nil:
			return err
		case closing && r.ClosedMs > 0:
			return Closed(r)
		case len(r.Notes) >= maxNotes && !closing:
			return im.Errorf(im.CodeInvalid, "a report has at most %d notes", maxNotes)
		}
		note.TimeMs = c.nowMs()
		r.Notes = append(r.Notes, note)
		if closing {
			r.ClosedMs, r.Action = note.TimeMs, note.Action
			c.counts.Open--
			c.counts.Closed++
			c.Put(store.Reports, t, key(keyOpen, number), nil)
			c.Put(store.Reports, t, sameKey(r.Report), nil)
			c.Put(store.Reports, t, closedKey(r), []byte{1})
		}
		done = r
		return c.put(r)
	})
	return done, err
}

// Closed is the refusal of an action on a closed report.
func Closed(r Report) error {
	return im.Errorf(im.CodeReportClosed, "report %d was closed by %s", r.Number, closingNote(r).GetBy())
}

// ClosedBy reports whether the note of an operator has closed a report.
func ClosedBy(r Report, note *storepb.ReportNote) bool {
	n := closingNote(r)
	return n.GetBy() == note.By && n.GetAction() == note.Action && n.GetText() == note.Text
}

func closingNote(r Report) *storepb.ReportNote {
	for _, n := range r.Notes {
		if n.TimeMs == r.ClosedMs && n.Action == r.Action {
			return n
		}
	}
	return nil
}

// Sweep deletes closed reports of a tenant that are too old or too many. Spec: P-14.22.
func (rs *Reports) Sweep(ctx context.Context, t im.Tenant) error {
	for {
		more := false
		err := rs.change(ctx, t, func(c *change) error {
			n, err := rs.dropOldest(ctx, c)
			if more = n == sweepAtOnce; n == 0 && err == nil {
				err = errNothing
			}
			return err
		})
		if errors.Is(err, errNothing) {
			return nil
		}
		if err != nil || !more {
			return err
		}
	}
}

// errNothing ends a change that has nothing to write.
var errNothing = errors.New("nothing to delete")

// sweepAtOnce is how many reports one change deletes.
const sweepAtOnce = 100

// dropOldest deletes the oldest closed reports that must go, at most sweepAtOnce, and returns how many.
func (rs *Reports) dropOldest(ctx context.Context, c *change) (n int, err error) {
	old := uint64(max(0, rs.now().Add(-keptClosed).UnixMilli()))
	var numbers []uint64
	var keys [][]byte
	err = rs.store.Records(ctx, store.Reports, c.tenant, []byte{keyClosed}, func(k, _ []byte) bool {
		surplus := c.counts.Closed > maxClosed+uint64(len(numbers))
		if len(k) != 17 || !surplus && binary.BigEndian.Uint64(k[1:]) > old {
			return false
		}
		numbers, keys = append(numbers, binary.BigEndian.Uint64(k[9:])), append(keys, bytes.Clone(k))
		return len(numbers) < sweepAtOnce
	})
	if err != nil {
		return 0, err
	}
	for i, n := range numbers {
		gone := [][]byte{key(keyReport, n), key(keyContext, n), keys[i]}
		r, err := c.report(ctx, n)
		switch {
		case err == nil:
			gone = append(gone, userKey(keyUser, r.User, n), userKey(keyBy, r.Reporter, n))
		case im.CodeOf(err) != im.CodeNoReport: // else damage has taken the record
			return 0, err
		}
		for _, k := range gone {
			c.Put(store.Reports, c.tenant, k, nil)
		}
		c.counts.Closed--
	}
	return len(numbers), nil
}

// change is one transaction on the reports of a tenant.
type change struct {
	*transaction.Tx
	tenant im.Tenant
	now    time.Time
	counts *storepb.ReportCounts
}

// change runs f in a transaction that reads and writes the counts of the tenant, so the changes of a tenant have one
// order. Codes: those of f, disk_full, store_stalled, overloaded.
func (rs *Reports) change(ctx context.Context, t im.Tenant, f func(*change) error) error {
	_, err := rs.txs.Do(ctx, []im.Account{{Tenant: t}}, func(tx *transaction.Tx) error {
		c := &change{Tx: tx, tenant: t, now: rs.now()}
		value, err := c.Record(ctx, store.Reports, t, []byte{keyCounts})
		if err != nil {
			return err
		}
		if c.counts, err = transaction.Parse[storepb.ReportCounts]("counts of reports", value); err != nil {
			return err
		}
		if c.counts == nil {
			c.counts = &storepb.ReportCounts{}
		}
		if err := f(c); err != nil {
			return err
		}
		value, err = c.counts.MarshalVT()
		c.Put(store.Reports, t, []byte{keyCounts}, value)
		return err
	})
	return err
}

func (c *change) nowMs() uint64 { return uint64(c.now.UnixMilli()) }

// report reads a report. Codes: no_report.
func (c *change) report(ctx context.Context, number uint64) (Report, error) {
	value, err := c.Record(ctx, store.Reports, c.tenant, key(keyReport, number))
	if err != nil {
		return Report{}, err
	}
	r, err := transaction.Parse[storepb.Report]("report", value)
	if err == nil && r == nil {
		err = im.Errorf(im.CodeNoReport, "there is no report %d", number)
	}
	return Report{number, r}, err
}

func (c *change) put(r Report) error {
	value, err := r.MarshalVT()
	c.Put(store.Reports, c.tenant, key(keyReport, r.Number), value)
	return err
}

func key(kind byte, number uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, number) }

func closedKey(r Report) []byte {
	return binary.BigEndian.AppendUint64(key(keyClosed, r.ClosedMs), r.Number)
}

func userPrefix(kind byte, user string) []byte {
	return slices.Concat([]byte{kind}, []byte(user), []byte{0})
}

func userKey(kind byte, user string, number uint64) []byte {
	return binary.BigEndian.AppendUint64(userPrefix(kind, user), number)
}

// sameKey is the key under which an open report of this reporter about this target is found.
func sameKey(r *storepb.Report) []byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(r.Reporter), []byte(r.User), r.Conv} {
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) // never fails
		_, _ = h.Write(part)                                                  // the same
	}
	return h.Sum(binary.BigEndian.AppendUint64([]byte{keySame}, r.Seq))
}
