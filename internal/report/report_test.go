package report

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// world is the reports of a store in memory, with a clock of their own.
type world struct {
	*Reports
	t     *testing.T
	clock time.Time
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: vfs.NewMem(), CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, clock: time.UnixMilli(1795262400000)}
	w.Reports = New(st, func() time.Time { return w.clock })
	return w
}

func (w *world) pass(d time.Duration) { w.clock = w.clock.Add(d) }

const tenant = im.DefaultTenant

func (w *world) file(reporter, user string, seq uint64) error {
	r := &storepb.Report{Reporter: reporter, User: user, Text: reporter}
	if seq > 0 {
		r.Conv, r.Seq = make([]byte, 16), seq
	}
	return w.File(w.t.Context(), tenant, r, &storepb.ReportContext{Messages: [][]byte{[]byte("hi")}})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantCode(what string, err error, want im.Code) {
	w.t.Helper()
	if err == nil || im.CodeOf(err) != want {
		w.t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// list returns the numbers of a whole list, page by page.
func (w *world) list(q Query) (all []uint64) {
	w.t.Helper()
	for more := true; more; more = q.Token != nil {
		page, next, err := w.List(w.t.Context(), tenant, q)
		w.must(err)
		for _, r := range page {
			all = append(all, r.Number)
		}
		q.Token = next
	}
	return all
}

func (w *world) wantList(what string, q Query, want ...uint64) {
	w.t.Helper()
	for _, q.Limit = range []int{1, 2, 0} {
		if got := w.list(q); !slices.Equal(got, want) {
			w.t.Errorf("%s, %d in a page: %v, want %v", what, q.Limit, got, want)
		}
	}
}

func (w *world) close(number uint64) error {
	_, err := w.Note(w.t.Context(), tenant, number, &storepb.ReportNote{By: "olga", Action: 2}, true)
	return err
}

// A repeat while the report is open changes its text. Closed reports have the order of their ends. Spec: P-14.21,
// P-14.22.
func TestReportsAreListedByTheirState(t *testing.T) {
	w := newWorld(t)
	w.must(w.file("alice", "bob", 0))
	w.must(w.file("alice", "bob", 7))
	w.must(w.file("carol", "bob", 7))
	w.must(w.file("carol", "dave", 0))
	w.must(w.File(w.t.Context(), tenant, &storepb.Report{Reporter: "alice", User: "bob", Text: "again", Reason: 3}, nil))
	w.wantList("all", Query{}, 4, 3, 2, 1)
	if r, err := w.Get(w.t.Context(), tenant, 1); err != nil || r.Text != "again" || r.Reason != 3 {
		t.Errorf("after a repeat: %v, %v", r, err)
	}
	if kept, err := w.Context(w.t.Context(), tenant, 1); err != nil || len(kept.GetMessages()) != 1 {
		t.Errorf("after a repeat: it keeps %v, %v", kept, err)
	}
	w.must(w.close(3))
	w.pass(time.Second)
	w.must(w.close(1))
	w.wantCode("closed once more", w.close(1), im.CodeReportClosed)
	w.wantCode("no such report", w.close(9), im.CodeNoReport)
	w.wantList("open", Query{State: OnlyOpen}, 4, 2)
	w.wantList("closed", Query{State: OnlyClosed}, 1, 3)
	w.wantList("of bob", Query{User: "bob"}, 3, 2, 1)
	w.wantList("open ones of bob", Query{User: "bob", State: OnlyOpen}, 2)
	w.wantList("of bo", Query{User: "bo"})
	if n, err := w.Open(w.t.Context(), tenant); n != 2 || err != nil {
		t.Errorf("open: %d, %v", n, err)
	}
	w.must(w.file("alice", "bob", 0)) // a new one: the former is closed
	w.wantList("open", Query{State: OnlyOpen}, 5, 4, 2)
	if _, _, err := w.List(w.t.Context(), tenant, Query{State: OnlyOpen, Token: []byte("x1")}); im.CodeOf(err) != im.CodeInvalid {
		t.Errorf("the token of another list: %v", err)
	}
	if page, _, err := w.List(w.t.Context(), tenant+1, Query{}); len(page) > 0 || err != nil {
		t.Errorf("another tenant has %v, %v", page, err)
	}
}

// Spec: P-14.21.
func TestAReporterHasTwentyReportsADay(t *testing.T) {
	w := newWorld(t)
	for i := range maxPerDay {
		w.must(w.file("alice", fmt.Sprint("u", i), 0))
		w.pass(time.Minute)
	}
	err := w.file("alice", "one more", 0)
	w.wantCode("one more", err, im.CodeRateLimited)
	wait := err.(*im.Error).RetryAfter
	if want := day - maxPerDay*time.Minute; wait != want {
		t.Errorf("wait %s, want %s", wait, want)
	}
	w.must(w.file("alice", "u3", 0)) // a repeat
	w.must(w.file("bob", "one more", 0))
	w.pass(wait)
	w.must(w.file("alice", "one more", 0))
	w.wantCode("and another one", w.file("alice", "and another one", 0), im.CodeRateLimited)
}

// counted sets the counts of the tenant, as if there were so many.
func (w *world) counted(open, closed uint64) {
	w.t.Helper()
	w.must(w.change(context.Background(), tenant, func(c *change) error {
		c.counts.Open, c.counts.Closed = open, closed
		return nil
	}))
}

// Closed reports go after 90 days, or if there are too many, with all that is stored of them. Open ones stay.
// Spec: P-14.22.
func TestClosedReportsGo(t *testing.T) {
	w := newWorld(t)
	w.counted(maxOpen, 0)
	w.wantCode("too many are open", w.file("alice", "bob", 0), im.CodeTooManyReports)
	w.counted(0, 0)
	for i := range 3 {
		w.must(w.file(fmt.Sprint("r", i), "bob", 0))
	}
	w.must(w.close(2))
	w.pass(45 * day)
	w.must(w.close(1))
	w.pass(45*day - time.Second)
	w.must(w.Sweep(w.t.Context(), tenant))
	w.wantList("before", Query{}, 3, 2, 1)
	w.pass(time.Second)
	w.must(w.Sweep(w.t.Context(), tenant))
	w.wantList("after 90 days", Query{}, 3, 1)
	w.counted(1, maxClosed+1)
	w.must(w.Sweep(w.t.Context(), tenant))
	w.wantList("too many", Query{}, 3)
	w.must(w.close(3))
	w.counted(0, 1)
	w.pass(90 * day)
	w.must(w.Sweep(w.t.Context(), tenant))
	var left []string
	w.must(w.store.Records(w.t.Context(), store.Reports, tenant, nil, func(k, _ []byte) bool {
		left = append(left, string(k))
		return true
	}))
	if !slices.Equal(left, []string{string([]byte{keyCounts})}) {
		t.Errorf("left are %q", left)
	}
}

// A report has a bound of notes, and is closed all the same.
func TestNotesOfAReport(t *testing.T) {
	w := newWorld(t)
	w.must(w.file("alice", "bob", 0))
	for range maxNotes {
		_, err := w.Note(w.t.Context(), tenant, 1, &storepb.ReportNote{By: "olga", Action: 1, Text: "x"}, false)
		w.must(err)
	}
	_, err := w.Note(w.t.Context(), tenant, 1, &storepb.ReportNote{By: "olga", Action: 1, Text: "x"}, false)
	w.wantCode("one more", err, im.CodeInvalid)
	w.must(w.close(1))
}
