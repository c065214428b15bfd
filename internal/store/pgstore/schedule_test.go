package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// together makes one statement of batches: while another feed's append waits
// for a lock, they queue up behind it.
func together(t *testing.T, st *Store, r *raw, batches ...*store.Batch) []<-chan error {
	t.Helper()
	w := newFeedWriter(t, st, 200)
	r.do(`BEGIN`)
	r.do(`SELECT 1 FROM petrel.part WHERE id = 200 FOR UPDATE`)
	first := start(st, w.next())
	waiting(t, st, 1)
	var all []<-chan error
	for _, b := range batches {
		all = append(all, start(st, b))
	}
	r.do(`COMMIT`)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	return all
}

// waiting returns when n of the store's connections wait for a lock.
func waiting(t *testing.T, st *Store, n int64) {
	t.Helper()
	r := newRaw(t, st.o.DSNs[0])
	eventually.True(t, "a statement that waits for a lock", func() bool { return r.locked() == n })
}

// locked is how many of a store's connections wait for a lock.
func (r *raw) locked() int64 {
	return r.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petrel' AND wait_event_type = 'Lock'`)
}

func TestF5ZombieIsRefusedAloneInAStatementWithOthers(t *testing.T) {
	st, r := one(t)
	zombie, healthy := newFeedWriter(t, st, 1), newFeedWriter(t, st, 2)
	zombie.add(t, st, 2)
	fresh := newFeedWriter(t, st, 1)
	b := zombie.next()
	b.Dedupe = []store.DedupePut{{Conv: conv(1, 0), Hash: 5, Seq: 3}}
	b.Convs = []store.ConvPut{{Conv: conv(1, 0), Record: &storepb.Conversation{Kind: 2}}}
	b.Members = []store.MemberPut{{Conv: conv(1, 0), User: "ann", Record: &storepb.Member{Role: 1}}}
	b.Cursors = []store.CursorPut{{Conv: conv(1, 0), User: "ann", Record: &storepb.Cursor{Read: 1}}}
	b.Rows = append(b.Rows, store.RowPut{Conv: conv(1, 0), Seq: 1, Value: []byte("rewritten"), Rewrite: true})
	before := st.dbs[0].statements.Load()
	got := together(t, st, r, b, healthy.next())
	wantErr(t, "append of the zombie", <-got[0], store.ErrStale)
	wantErr(t, "append of the healthy feed", <-got[1], nil)
	if n := st.dbs[0].statements.Load() - before; n != 2 {
		t.Errorf("%d statements, want one that they waited for and one for both", n)
	}
	if h := head(t, st, 2); h != 1 {
		t.Errorf("the healthy feed's row is %d, want 1", h)
	}
	for _, table := range []string{"dedupe", "convs", "members", "cursors"} {
		if n := r.number(`SELECT count(*) FROM petrel.` + table); n != 0 {
			t.Errorf("the refused batch left %d rows in %s", n, table)
		}
	}
	if n := r.number(`SELECT count(*) FROM petrel.msg WHERE part = 1 AND (seq = 3 OR position('rewritten'::bytea IN value) = 1)`); n != 0 {
		t.Errorf("the refused batch left %d rows", n)
	}
	fresh.heads[0] = 2
	fresh.add(t, st, 1)
}

func TestF5TakeoverUnderAStatementOfTheZombie(t *testing.T) {
	st, r := one(t)
	zombie, healthy := newFeedWriter(t, st, 1), newFeedWriter(t, st, 2)
	zombie.add(t, st, 1)
	healthy.add(t, st, 1)
	taker := newRaw(t, st.o.DSNs[0])
	taker.do(`BEGIN`)
	taker.do(`UPDATE petrel.part SET epoch = epoch + 1, holder = 7 WHERE id = 1`)
	got := together(t, st, r, zombie.next(), healthy.next())
	waiting(t, st, 1) // its snapshot is older than the takeover
	taker.do(`COMMIT`)
	wantErr(t, "append of the zombie", <-got[0], store.ErrStale)
	wantErr(t, "append of the healthy feed", <-got[1], nil)
	if h := head(t, st, 1); h != 1 {
		t.Errorf("the zombie wrote row %d", h)
	}
	if h := head(t, st, 2); h != 2 {
		t.Errorf("the healthy feed's row is %d, want 2", h)
	}
}

func TestF5SameEpochOfAnotherHolderIsRefused(t *testing.T) {
	st, r := one(t)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 1)
	r.do(`UPDATE petrel.part SET holder = 7 WHERE id = 1`) // as after a restore: epochs are given again
	wantErr(t, "append", appendOne(st, w.next()), store.ErrStale)
}

// TestF6OutcomeIsSettledByTakeover cuts the connection before the statement reaches the server, and after its commit.
// Only the takeover tells the outcome.
func TestF6OutcomeIsSettledByTakeover(t *testing.T) {
	for _, c := range []struct {
		name string
		at   fault
		want im.Pos
	}{{"the request is lost", noRequest, 1}, {"the answer is lost", noAnswer, 2}} {
		t.Run(c.name, func(t *testing.T) {
			p, dsn := newProxy(t, blank(t))
			st := mustOpen(t, Options{DSNs: []string{dsn}, CheckEvery: time.Hour})
			defer mustClose(t, st)
			w := newFeedWriter(t, st, 1)
			w.add(t, st, 1)
			p.arm(c.at)
			wantErr(t, "append over a lost connection", appendOne(st, w.next()), store.ErrUnknown)
			old := w.epoch
			w = newFeedWriter(t, st, 1)
			if w.pos != c.want || w.epoch != old+1 {
				t.Errorf("takeover: at %d in epoch %d, want %d in %d", w.pos, w.epoch, c.want, old+1)
			}
			if h := head(t, st, 1); h != im.Seq(c.want) {
				t.Errorf("last row is %d, want %d", h, c.want)
			}
			w.heads[0] = im.Seq(w.pos)
			eventually.True(t, "appends are taken", func() bool { return st.Writable() == nil })
			w.add(t, st, 3)
		})
	}
}

// TestF6TakeoverWaitsForTheCommitInDoubt has the statement under way on the
// server when its connection is lost. A row that is read then does not show the outcome.
func TestF6TakeoverWaitsForTheCommitInDoubt(t *testing.T) {
	for _, c := range []struct {
		name, end string
		want      im.Pos
	}{
		{"it commits", `ROLLBACK`, 2}, // of what it waits for
		{"it is terminated", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'WITH b AS%' AND wait_event_type = 'Lock'`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			direct := blank(t)
			p, dsn := newProxy(t, direct)
			st := mustOpen(t, Options{DSNs: []string{dsn}, CheckEvery: time.Hour})
			defer mustClose(t, st)
			w := newFeedWriter(t, st, 1)
			w.add(t, st, 1)
			other := newRaw(t, direct)
			other.do(`BEGIN`)
			other.do(`INSERT INTO petrel.feed (part, pos, entry) VALUES (1, 2, '')`) // the append will wait for its end
			got := start(st, w.next())
			waiting(t, st, 1)
			p.cut()
			wantErr(t, "append over a lost connection", <-got, store.ErrUnknown)
			if h := head(t, st, 1); h != 1 {
				t.Fatalf("last row is %d while the commit is in doubt", h)
			}
			type outcome struct {
				pos im.Pos
				err error
			}
			settled := make(chan outcome, 1)
			go func() { // ends with the takeover
				_, pos, err := st.Takeover(context.Background(), 1, holder)
				settled <- outcome{pos, err}
			}()
			looker := newRaw(t, direct)
			eventually.True(t, "a takeover that waits, or has ended", func() bool { return len(settled) == 1 || looker.locked() == 2 })
			select {
			case o := <-settled:
				t.Fatalf("takeover did not wait: %+v", o)
			default:
			}
			other.do(c.end)
			o := <-settled
			if o.err != nil || o.pos != c.want {
				t.Errorf("takeover: at %d, %v, want %d", o.pos, o.err, c.want)
			}
			if h := head(t, st, 1); h != im.Seq(c.want) {
				t.Errorf("last row is %d, want %d", h, c.want)
			}
		})
	}
}

// TestF6WarningIsAnUnknownOutcome cancels a commit in its wait for the standby:
// the server answers with success and a warning.
func TestF6WarningIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t, pgtest.Options{})
	standby, err := server.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	st := mustOpen(t, Options{DSNs: []string{server.New(t)}, RequireStandby: true, StallAfter: Options{}.withDefaults().StallAfter, CheckEvery: time.Hour})
	defer mustClose(t, st)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 1)
	if err := standby.Pause(true); err != nil {
		t.Fatal(err)
	}
	got := start(st, w.next())
	eventually.True(t, "appends are refused while a commit hangs", func() bool { return errors.Is(st.Writable(), store.ErrStalled) })
	r := newRaw(t, st.o.DSNs[0])
	eventually.True(t, "a commit that waits for the standby", func() bool {
		return r.number(`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'petrel' AND wait_event = 'SyncRep'`) == 1
	})
	r.do(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'petrel' AND wait_event = 'SyncRep'`)
	wantErr(t, "append with a warning", <-got, store.ErrUnknown)
	if err := standby.Pause(false); err != nil {
		t.Fatal(err)
	}
	w = newFeedWriter(t, st, 1)
	if w.pos != 2 {
		t.Errorf("takeover: at %d, want 2", w.pos)
	}
	// The commit that the takeover has seen is on the standby.
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	if n := newRaw(t, standby.DSN("petrel1")).number(`SELECT max(seq) FROM petrel.msg`); n != 2 {
		t.Errorf("the standby has row %d, want 2", n)
	}
}

func TestF7RowsBelowFirstSeqGoInTheBackground(t *testing.T) {
	st, r := one(t)
	w := newFeedWriter(t, st, 1)
	c := conv(1, 0)
	const n, first = 3500, 3201
	b := w.next()
	b.Rows, b.Dedupe = nil, []store.DedupePut{{Conv: c, Hash: 9, Seq: 9}}
	for q := im.Seq(1); q <= n; q++ {
		b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: q, Value: []byte("x")})
	}
	w.heads[0] = n
	if err := appendOne(st, b); err != nil {
		t.Fatal(err)
	}
	w.pos++
	b = w.next()
	b.Convs = []store.ConvPut{{Conv: c, Record: &storepb.Conversation{FirstSeq: first}}}
	if err := appendOne(st, b); err != nil {
		t.Fatal(err)
	}
	w.pos++
	// The first rows go, then it must wait, and is given up.
	r.do(`BEGIN`)
	r.do(`SELECT 1 FROM petrel.msg WHERE seq = 1500 FOR UPDATE`)
	ctx, cancel := context.WithCancel(t.Context())
	dropped := make(chan error, 1)
	go func() { dropped <- st.DropRows(ctx, c, first) }() // ends with the test's context
	waiting(t, st, 1)
	w.add(t, st, 1) // nobody else waits
	if err := st.Rows(t.Context(), c, first, n+2, func(store.Row) bool { return true }); err != nil {
		t.Error(err)
	}
	cancel()
	wantErr(t, "DropRows without time", <-dropped, context.Canceled)
	other := newRaw(t, st.o.DSNs[0])
	eventually.True(t, "the statement that was given up has ended", func() bool {
		return other.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'petrel' AND state = 'active'`) == 0
	})
	r.do(`COMMIT`)
	if low, count := r.number(`SELECT min(seq) FROM petrel.msg`), r.number(`SELECT count(*) FROM petrel.msg`); low != 1001 || count != n+2-1000 {
		t.Errorf("%d rows are left from %d on, want all from 1001 on", count, low)
	}
	if err := st.DropRows(t.Context(), c, first); err != nil {
		t.Fatal(err)
	}
	if low, count := r.number(`SELECT min(seq) FROM petrel.msg`), r.number(`SELECT count(*) FROM petrel.msg`); low != first || count != n+2-first+1 {
		t.Errorf("%d rows are left from %d on, want all from %d on", count, low, first)
	}
	if seqs, err := st.Dedupe(t.Context(), c, 9); err != nil || len(seqs) != 0 {
		t.Errorf("the hash of a dropped row: got %v, %v, want none", seqs, err)
	}
}

// F6: of a commit only ERROR says that it was rolled back. FATAL may come behind
// it, and so may the end of the connection.
func TestF6OnlyAnErrorSaysThatNothingWasWritten(t *testing.T) {
	said := func(severity, code string) error {
		return fmt.Errorf("append: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{io.ErrUnexpectedEOF, unknown},
		{context.DeadlineExceeded, unknown},
		{said("FATAL", "57P01"), unknown}, // terminated
		{said("FATAL", "57P02"), unknown}, // another process has crashed
		{said("PANIC", "53100"), unknown},
		{said("ERROR", "57P01"), away},
		{said("ERROR", "57014"), away}, // cancelled
		{said("ERROR", "53100"), full},
		{said("ERROR", "40P01"), again},
		{said("ERROR", "25006"), away},
		{said("ERROR", "XX001"), damaged},
		{said("ERROR", "23505"), broken},
		{errUnfit, broken},
	} {
		if got := judge(c.err); got != c.want {
			t.Errorf("%v: verdict %d, want %d", c.err, got, c.want)
		}
	}
}

// F7: a read of a feed during a trim, or after an interrupted one, returns ErrTrimmed for the removed commits: the
// trim is durable before a commit below it is deleted.
func TestF7FloorOfAFeedIsRaisedBeforeAnythingGoes(t *testing.T) {
	st, r := one(t)
	const upTo, last = 2200, 2500
	var entries [][]byte
	for pos := im.Pos(1); pos <= last; pos++ {
		entries = append(entries, seal(feedAddress(1, pos), nil))
	}
	r.do(`INSERT INTO petrel.feed (part, pos, entry) SELECT 1, pos, entry FROM unnest($1::bytea[]) WITH ORDINALITY AS e (entry, pos)`, entries)
	r.do(`UPDATE petrel.part SET pos = 2500 WHERE id = 1`)
	r.do(`BEGIN`)
	r.do(`SELECT 1 FROM petrel.feed WHERE part = 1 AND pos = 1500 FOR UPDATE`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trimmed := make(chan error, 1)
	go func() { trimmed <- st.TrimFeed(ctx, 1, upTo) }() // ends with its context
	waiting(t, st, 1)                                    // the first thousand has gone
	scans := func(when string) {
		t.Helper()
		for after, want := range map[im.Pos]error{0: store.ErrTrimmed, 999: store.ErrTrimmed, upTo: nil} {
			err := st.ScanFeed(t.Context(), 1, after, last, func(im.Pos, *storepb.FeedEntry) bool { return true })
			wantErr(t, fmt.Sprintf("scan behind %d %s", after, when), err, want)
		}
	}
	scans("while it is trimmed")
	cancel()
	wantErr(t, "TrimFeed without time", <-trimmed, context.Canceled)
	scans("when that was given up")
	r.do(`COMMIT`)
}

// TestSeqGivenTwiceIsRefused: a batch that breaks an invariant does not fail the other batches of its statement, and
// its feed takes nothing more until a takeover.
func TestSeqGivenTwiceIsRefused(t *testing.T) {
	st, r := one(t)
	w, healthy := newFeedWriter(t, st, 1), newFeedWriter(t, st, 2)
	w.add(t, st, 3)
	w.heads[0] = 1
	got := together(t, st, r, w.next(), healthy.next())
	wantErr(t, "append of row 2 again", <-got[0], store.ErrFailed)
	wantErr(t, "append of the healthy feed", <-got[1], nil)
	w.heads[0] = 3
	wantErr(t, "append to the poisoned feed", appendOne(st, w.next()), store.ErrFailed)
	select {
	case <-st.Failed():
		t.Error("the store has failed")
	default:
	}
	w = newFeedWriter(t, st, 1)
	w.heads[0] = 3
	w.add(t, st, 1)
	if v := r.number(`SELECT count(*) FROM petrel.msg WHERE part = 1 AND position('row 2'::bytea IN value) = 1`); v != 1 {
		t.Error("row 2 is another")
	}
}

func TestSameHashTwiceIsRefused(t *testing.T) {
	st, _ := one(t)
	w := newFeedWriter(t, st, 1)
	for i, want := range []error{nil, store.ErrFailed} {
		b := w.next()
		b.Dedupe = []store.DedupePut{{Conv: conv(1, 0), Hash: 5, Seq: im.Seq(i)}}
		wantErr(t, "append", appendOne(st, b), want)
		w.pos++
	}
}

func TestBatchMayNameAPlaceTwice(t *testing.T) {
	st, _ := one(t)
	w := newFeedWriter(t, st, 1)
	c := conv(1, 0)
	b := w.next()
	for i := range uint32(3) {
		b.Convs = append(b.Convs, store.ConvPut{Conv: c, Record: &storepb.Conversation{Kind: i}})
		b.Members = append(b.Members, store.MemberPut{Conv: c, User: "ann", Record: &storepb.Member{Role: i}})
		b.Cursors = append(b.Cursors, store.CursorPut{Conv: c, User: "ann", Record: &storepb.Cursor{Read: uint64(i)}})
	}
	if err := appendOne(st, b); err != nil {
		t.Fatal(err)
	}
	rec, err := st.Conversation(t.Context(), c)
	if err != nil || rec.GetKind() != 2 {
		t.Errorf("got %v, %v, want the last of three", rec, err)
	}
	cursor, err := st.Cursor(t.Context(), c, "ann")
	if err != nil || cursor.GetRead() != 2 {
		t.Errorf("got %v, %v, want the last of three", cursor, err)
	}
	if err := st.Members(t.Context(), c, func(_ im.User, m *storepb.Member) bool {
		if m.GetRole() != 2 {
			t.Errorf("got %v, want the last of three", m)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
}

// TestTwoNodesNeverBothWrite has two stores take one feed from each other all
// the time: every position is taken once.
func TestTwoNodesNeverBothWrite(t *testing.T) {
	dsn := blank(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := map[im.Pos]uint64{}
	for node := uint64(1); node <= 2; node++ {
		st := mustOpen(t, Options{DSNs: []string{dsn}})
		t.Cleanup(func() { mustClose(t, st) })
		wg.Go(func() {
			for range 40 {
				epoch, pos, err := st.Takeover(t.Context(), 1, node)
				if err != nil {
					t.Error(err)
					return
				}
				for err == nil {
					b := &store.Batch{Feed: 1, Epoch: epoch, Holder: node, From: pos, Entry: &storepb.FeedEntry{TimeMs: node},
						Rows: []store.RowPut{{Conv: conv(1, 0), Seq: im.Seq(pos) + 1, Value: []byte{byte(node)}}}}
					if err = appendOne(st, b); err == nil {
						pos++
						mu.Lock()
						if by, taken := acked[pos]; taken {
							t.Errorf("position %d was acked to %d and to %d", pos, by, node)
						}
						acked[pos] = node
						mu.Unlock()
						if pos%5 == 0 {
							break
						}
					}
				}
				if err != nil && !errors.Is(err, store.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	st := mustOpen(t, Options{DSNs: []string{dsn}})
	defer mustClose(t, st)
	n := im.Pos(0)
	if err := st.ScanFeed(t.Context(), 1, 0, im.Pos(len(acked)), func(p im.Pos, e *storepb.FeedEntry) bool {
		if n++; e.GetTimeMs() != acked[p] {
			t.Errorf("position %d is %d's and was acked to %d", p, e.GetTimeMs(), acked[p])
		}
		return true
	}); err != nil || n != im.Pos(len(acked)) {
		t.Errorf("%d of %d commits: %v", n, len(acked), err)
	}
}
