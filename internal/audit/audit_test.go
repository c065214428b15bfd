package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/petrel-im/petrel/internal/audit"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pebblestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faulty is a store whose updates a test can make fail.
type faulty struct {
	store.Store
	after atomic.Pointer[func(error) error] // of an update: what it returns instead
}

func (f *faulty) Update(ctx context.Context, puts []store.RecordPut) error {
	g := f.after.Load()
	if g == nil {
		return f.Store.Update(ctx, puts)
	}
	if err := (*g)(nil); errors.Is(err, store.ErrFull) {
		return err // nothing was written
	}
	return (*g)(f.Store.Update(ctx, puts))
}

func (f *faulty) failWith(g func(error) error) {
	if g == nil {
		f.after.Store(nil)
		return
	}
	f.after.Store(&g)
}

func newStore(t *testing.T, fs vfs.FS) *faulty {
	t.Helper()
	st, err := pebblestore.Open(pebblestore.Options{Dir: "data", FS: fs, CacheBytes: 8 << 20, MemTableBytes: 1 << 20, BallastBytes: -1, AcceptCopies: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() }) // some tests close it
	return &faulty{Store: st}
}

// start runs a log until stop is called, which returns when all of it is written.
func start(t *testing.T, l *audit.Log) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func appendAll(t *testing.T, l *audit.Log, events ...string) {
	t.Helper()
	for _, e := range events {
		if err := l.Append(t.Context(), &audit.Record{Event: e}); err != nil {
			t.Fatalf("append %s: %v", e, err)
		}
	}
}

func list(t *testing.T, l *audit.Log) []audit.Stored {
	t.Helper()
	page, next, err := l.List(t.Context(), audit.Query{})
	if err != nil || len(next) > 0 {
		t.Fatalf("list: %v, next page %q", err, next)
	}
	return page
}

func events(page []audit.Stored) (list []string) {
	for _, r := range page {
		list = append(list, r.Event)
	}
	return list
}

func verify(t *testing.T, l *audit.Log, known ...audit.Head) *audit.Verification {
	t.Helper()
	v, err := l.Verify(t.Context(), known, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantWhole(t *testing.T, l *audit.Log, records int) *audit.Verification {
	t.Helper()
	v := verify(t, l)
	if len(v.Faults) > 0 || v.Records != uint64(records) {
		t.Errorf("verify: %d records, faults %v; want %d and none", v.Records, v.Faults, records)
	}
	return v
}

// Spec: P-10.9.
func TestAnswerOfAppendMeansDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		st := newStore(t, fs)
		st.failWith(func(err error) error {
			time.Sleep(500 * time.Millisecond) // an answer that waits for no disk is here before the record is on it
			return err
		})
		l := audit.New(audit.Options{}, st, "a")
		start(t, l)
		r := &audit.Record{
			Event: "petrel.v1.AdminService/DisableUser", Key: "k1", KeyName: "ops", Address: netip.MustParseAddr("192.0.2.7"), Details: []audit.Detail{{Name: "user", Value: "bob"}},
		}
		if err := l.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		after := audit.New(audit.Options{}, newStore(t, fs.CrashClone(vfs.CrashCloneCfg{})), "a")
		page := list(t, after)
		if len(page) != 1 || page[0].Node != "a" || page[0].Number != 1 || page[0].Event != r.Event || page[0].Key != "k1" || page[0].Address != "192.0.2.7" || page[0].Details[0].Value != "bob" {
			t.Errorf("after the crash: %v", page)
		}
		wantWhole(t, after, 1)
	})
}

// place is a record of the log as it is stored.
type place struct{ key, value []byte }

// vandal changes what is stored.
type vandal struct {
	t  *testing.T
	st store.Store
}

func (v vandal) table(table store.Table) (all []place) {
	err := v.st.Records(v.t.Context(), table, 0, nil, func(key, value []byte) bool {
		all = append(all, place{bytes.Clone(key), bytes.Clone(value)})
		return true
	})
	if err != nil {
		v.t.Fatal(err)
	}
	return all
}

func (v vandal) put(table store.Table, key, value []byte) {
	if err := v.st.Update(v.t.Context(), []store.RecordPut{{Table: table, Key: key, Value: value}}); err != nil {
		v.t.Fatal(err)
	}
}

// Each thing that somebody with access to the store may do to five records of node a
// is noticed, and named.
func TestVerifyNoticesWhatWasDoneToTheLog(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(v vandal, of []place)
		known  bool // the head is known from the log of the server
		what   string
		number uint64
	}{
		{"one bit of a record is changed", func(v vandal, of []place) {
			of[2].value[10] ^= 1
			v.put(store.Audit, of[2].key, of[2].value)
		}, false, audit.Changed, 3},
		{"a record is removed", func(v vandal, of []place) { v.put(store.Audit, of[2].key, nil) }, false, audit.Missing, 3},
		{"the first record is removed", func(v vandal, of []place) { v.put(store.Audit, of[0].key, nil) }, false, audit.Missing, 1},
		{"two records are swapped", func(v vandal, of []place) {
			v.put(store.Audit, of[1].key, of[2].value)
			v.put(store.Audit, of[2].key, of[1].value)
		}, false, audit.Moved, 2},
		{"a record is at another time", func(v vandal, of []place) {
			v.put(store.Audit, of[2].key, nil)
			of[2].key[7]++
			v.put(store.Audit, of[2].key, of[2].value)
		}, false, audit.Moved, 3},
		{"a record is copied to another node", func(v vandal, of []place) {
			key := append(bytes.Clone(of[4].key[:16]), 'b')
			v.put(store.Audit, key, of[4].value)
		}, false, audit.Unknown, 5},
		{"the last record is removed", func(v vandal, of []place) { v.put(store.Audit, of[4].key, nil) }, false, audit.Cut, 5},
		{"the head is changed", func(v vandal, _ []place) {
			h := v.table(store.AuditHeads)[0]
			h.value[1]--
			v.put(store.AuditHeads, h.key, h.value)
		}, false, audit.Changed, 0},
		{"the head is removed", func(v vandal, _ []place) { v.put(store.AuditHeads, []byte("a"), nil) }, false, audit.Unknown, 1},
		{"all of it is removed, and the head is known", func(v vandal, of []place) {
			for _, p := range of {
				v.put(store.Audit, p.key, nil)
			}
			v.put(store.AuditHeads, []byte("a"), nil)
		}, true, audit.Cut, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStore(t, vfs.NewMem())
				l := audit.New(audit.Options{Part: 2}, st, "a")
				stop := start(t, l)
				appendAll(t, l, "1", "2", "3", "4", "5")
				stop()
				head := wantWhole(t, l, 5).Heads[0]
				if got := head.String(); !strings.HasPrefix(got, "a:5:") {
					t.Errorf("head %q", got)
				}
				if v := verify(t, l, head); len(v.Faults) > 0 {
					t.Errorf("with its own head: %v", v.Faults)
				}
				c.do(vandal{t, st}, vandal{t, st}.table(store.Audit))
				var known []audit.Head
				if c.known {
					known = append(known, head)
				}
				faults := verify(t, l, known...).Faults
				if !slices.ContainsFunc(faults, func(f audit.Fault) bool { return f.What == c.what && f.Number == c.number }) {
					t.Errorf("faults %v, want record %d %s", faults, c.number, c.what)
				}
			})
		})
	}
}

// A verification of a long log waits for a turn with each part of it.
func TestVerifyTakesATurnForEachPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := audit.New(audit.Options{Part: 2}, newStore(t, vfs.NewMem()), "a")
		stop := start(t, l)
		appendAll(t, l, "1", "2", "3", "4", "5")
		stop()
		turns := 0
		v, err := l.Verify(t.Context(), nil, func(read func() error) error {
			turns++
			return read()
		})
		if err != nil || v.Records != 5 || turns != 3 {
			t.Errorf("%d records in %d turns, %v; want 5 in 3", v.Records, turns, err)
		}
		refused := errors.New("refused")
		if _, err := l.Verify(t.Context(), nil, func(func() error) error { return refused }); !errors.Is(err, refused) {
			t.Errorf("without a turn: %v", err)
		}
	})
}

// The end of a chain that was put back to an earlier state with its head is whole in
// itself. Only who knows a later head can tell.
func TestEndThatWasPutBackIsNoticedByAKnownHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, vfs.NewMem())
		l := audit.New(audit.Options{}, st, "a")
		stop := start(t, l)
		appendAll(t, l, "1", "2")
		v := vandal{t, st}
		before := v.table(store.AuditHeads)[0]
		appendAll(t, l, "3")
		stop()
		later := verify(t, l).Heads[0]
		v.put(store.Audit, v.table(store.Audit)[2].key, nil)
		v.put(store.AuditHeads, before.key, before.value)
		wantWhole(t, l, 2)
		if faults := verify(t, l, later).Faults; len(faults) != 1 || faults[0].What != audit.Cut || faults[0].Number != 3 {
			t.Errorf("with the later head: %v, want record 3 cut", faults)
		}
	})
}

// A node that finds another end of its chain than it wrote says so in the chain: the
// records that it goes on to write would hide it otherwise.
func TestNodeSaysThatItsChainWasChanged(t *testing.T) {
	for name, do := range map[string]func(v vandal, earlier place){
		"the head is changed": func(v vandal, _ place) {
			h := v.table(store.AuditHeads)[0]
			h.value[len(h.value)-1]++
			v.put(store.AuditHeads, h.key, h.value)
		},
		"the head is put back while the node runs": func(v vandal, earlier place) {
			v.put(store.Audit, v.table(store.Audit)[1].key, nil)
			v.put(store.AuditHeads, earlier.key, earlier.value)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newStore(t, vfs.NewMem())
				l := audit.New(audit.Options{}, st, "a")
				stop := start(t, l)
				appendAll(t, l, "1")
				v := vandal{t, st}
				earlier := v.table(store.AuditHeads)[0]
				appendAll(t, l, "2")
				do(v, earlier)
				if strings.HasSuffix(name, "changed") { // else the node knows what it wrote
					stop()
					l = audit.New(audit.Options{}, st, "a")
					start(t, l)
				}
				appendAll(t, l, "3", "4")
				faults := verify(t, l).Faults
				if !slices.ContainsFunc(faults, func(f audit.Fault) bool {
					return f.What == audit.Changed && strings.Contains(f.Text, "found that the end")
				}) {
					t.Errorf("faults %v, want that the node found it", faults)
				}
			})
		})
	}
}

// 20,000 refusals of 1,000 addresses are a few records, and none is missing in the
// counts.
func TestFloodOfRefusalsIsAFewRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const addresses, each = 1000, 20
		l := audit.New(audit.Options{}, newStore(t, vfs.NewMem()), "a")
		stop := start(t, l)
		for range each {
			for i := range addresses {
				l.Summed(&audit.Record{Event: "login", Code: im.CodeBadCredentials, Address: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})})
			}
		}
		stop()
		total, page := uint64(0), list(t, l)
		for _, r := range page {
			total += max(r.Count, 1)
			if r.Code != string(im.CodeBadCredentials) || r.Count > 0 && (r.SinceMs == 0 || r.SinceMs > r.TimeMs) {
				t.Errorf("record %v", r)
			}
		}
		if total != addresses*each || len(page) > 400 {
			t.Errorf("%d records of %d refusals, want at most 400 of %d", len(page), total, addresses*each)
		}
		wantWhole(t, l, len(page))
	})
}

// The addresses of one IPv6 subscriber count as one.
func TestRefusalsAreSummedForEachCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := audit.New(audit.Options{}, newStore(t, vfs.NewMem()), "a")
		stop := start(t, l)
		for _, r := range []audit.Record{
			{Address: netip.MustParseAddr("2001:db8::1")}, {Address: netip.MustParseAddr("2001:db8::2")}, {Address: netip.MustParseAddr("2001:db8:0:1::1")},
			{User: "alice"}, {User: "alice"}, {User: "bob"}, {Key: "k"}, {Code: im.CodeForbidden},
		} {
			r.Event = "x"
			l.Summed(&r)
		}
		stop()
		if page := list(t, l); len(page) != 8 { // 6 callers, and 2 sums
			t.Errorf("%d records: %v", len(page), page)
		}
	})
}

func TestWhatDoesNotFitTheQueueIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := audit.New(audit.Options{}, newStore(t, vfs.NewMem()), "a")
		for range 5000 {
			l.Note(&audit.Record{Event: "x"})
		}
		if err := l.Append(t.Context(), &audit.Record{Event: "y"}); im.CodeOf(err) != im.CodeOverloaded {
			t.Errorf("append to a full queue: %v, want overloaded", err)
		}
		lost := l.Dropped.Load()
		stop := start(t, l)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := l.Written.Load(); n != 5001-lost+1 {
			t.Errorf("%d records are written within a second, want %d", n, 5001-lost+1)
		}
		stop()
		page, _, err := l.List(t.Context(), audit.Query{Limit: 1000})
		if err != nil || len(page) != 1000 {
			t.Fatalf("%d records, %v", len(page), err)
		}
		v := verify(t, l)
		if len(v.Faults) > 0 || v.Records+lost != 5001+1 {
			t.Errorf("%d records and %d lost ones, faults %v; want 5,002 with the one that counts them", v.Records, lost, v.Faults)
		}
	})
}

func TestOldRecordsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, vfs.NewMem())
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		o := audit.Options{Keep: 24 * time.Hour, Now: func() time.Time { return now }}
		run := func(node im.Node, n int) *audit.Log {
			l := audit.New(o, st, node)
			defer start(t, l)()
			for i := range n {
				l.Note(&audit.Record{Event: fmt.Sprint(node, i)})
			}
			return l
		}
		run("a", 600)
		run("gone", 3)
		now = now.Add(23 * time.Hour)
		run("a", 2)
		now = now.Add(2 * time.Hour)
		l := audit.New(o, st, "a") // forgets what is older than a day
		stop := start(t, l)
		appendAll(t, l, "new")
		stop()
		if got := events(list(t, l)); !slices.Equal(got, []string{"a0", "a1", "new"}) {
			t.Errorf("left: %v", got)
		}
		wantWhole(t, l, 3)
		v := vandal{t, st}
		v.put(store.Audit, v.table(store.Audit)[0].key, nil)
		if faults := verify(t, l).Faults; len(faults) != 1 || faults[0].What != audit.Missing || faults[0].Number != 601 {
			t.Errorf("the oldest one is removed: %v", faults)
		}
	})
}

// Two processes with one name write one chain.
func TestTwoWritersOfOneChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, vfs.NewMem())
		var wg sync.WaitGroup
		for range 2 {
			l := audit.New(audit.Options{}, st, "a")
			start(t, l)
			wg.Go(func() { appendAll(t, l, slices.Repeat([]string{"x"}, 20)...) })
		}
		wg.Wait()
		wantWhole(t, audit.New(audit.Options{}, st, "a"), 40)
	})
}

// A write of which nobody knows whether it was done is not done twice.
func TestRecordOfUnknownOutcomeIsThereOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, vfs.NewMem())
		l := audit.New(audit.Options{}, st, "a")
		start(t, l)
		appendAll(t, l, "1")
		lost := errors.New("connection lost")
		n := 0
		st.failWith(func(err error) error {
			if n++; n == 2 { // the first call asks whether the disk is full
				return lost
			}
			return err
		})
		appendAll(t, l, "2", "3")
		if got := events(list(t, l)); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("got %v", got)
		}
		wantWhole(t, l, 3)
	})
}

// On a full disk a call that waits for its record is refused. Records without a waiting
// call are written later.
func TestFullDiskRefusesAndKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, vfs.NewMem())
		l := audit.New(audit.Options{}, st, "a")
		stop := start(t, l)
		st.failWith(func(error) error { return store.ErrFull })
		l.Note(&audit.Record{Event: "noted"})
		if err := l.Append(t.Context(), &audit.Record{Event: "refused"}); !errors.Is(err, store.ErrFull) {
			t.Errorf("got %v", err)
		}
		st.failWith(nil)
		appendAll(t, l, "done")
		stop()
		if got := events(list(t, l)); !slices.Equal(got, []string{"noted", "done"}) {
			t.Errorf("got %v", got)
		}
		if l.Failed.Load() == 0 {
			t.Error("the failure is not counted")
		}
		if err := l.Append(t.Context(), &audit.Record{Event: "late"}); err == nil {
			t.Error("a log that has ended takes a record")
		}
	})
}

func TestPagesOfAllNodesAreInTheOrderOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t, vfs.NewMem())
		now := time.UnixMilli(1000)
		nodes := []*audit.Log{audit.New(audit.Options{Now: func() time.Time { return now }}, st, "b"), audit.New(audit.Options{Now: func() time.Time { return now }}, st, "a")}
		var want []string
		for i := range 6 {
			now = now.Add(time.Second)
			stop := start(t, nodes[i%2])
			appendAll(t, nodes[i%2], fmt.Sprint(i))
			stop()
			nodes[i%2] = audit.New(audit.Options{Now: func() time.Time { return now }}, st, im.Node([]string{"b", "a"}[i%2]))
			want = append(want, fmt.Sprint(i))
		}
		pages := func(q audit.Query) (got []string) {
			for q.Limit = 2; ; {
				page, next, err := nodes[0].List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, events(page)...)
				if q.Token = next; len(next) == 0 {
					return got
				}
			}
		}
		if got := pages(audit.Query{SinceMs: 3000}); !slices.Equal(got, want[1:]) {
			t.Errorf("from the second second on: %v, want %v", got, want[1:])
		}
		for _, x := range []struct {
			q    audit.Query
			want []string
		}{
			{audit.Query{}, []string{"5", "4", "3", "2", "1", "0"}},
			{audit.Query{SinceMs: 3000}, []string{"5", "4", "3", "2", "1"}},
			{audit.Query{SinceMs: 3000, UntilMs: 6000}, []string{"3", "2", "1"}},
			{audit.Query{UntilMs: 6001}, []string{"4", "3", "2", "1", "0"}},
			{audit.Query{UntilMs: 2000}, nil},
			{audit.Query{SinceMs: 7001}, nil},
		} {
			x.q.Down = true
			if got := pages(x.q); !slices.Equal(got, x.want) {
				t.Errorf("newest first, %+v: %v, want %v", x.q, got, x.want)
			}
		}
		if _, _, err := nodes[0].List(t.Context(), audit.Query{Token: []byte("short"), Limit: 2}); im.CodeOf(err) != im.CodeInvalid {
			t.Errorf("a token that is none: %v", err)
		}
		wantWhole(t, nodes[0], 6)
	})
}
