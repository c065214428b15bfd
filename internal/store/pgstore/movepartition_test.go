package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/imtest/eventually"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/pgtest"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// owner writes one feed for as long as it is let, as an owner does: when it is
// refused it takes the feed over again and reads what is there.
type owner struct {
	st     *Store
	rng    *rand.Rand
	w      *feedWriter
	wrote  map[string]string // what was acked, by a readable name
	epochs int
	turn   chan struct{} // each value lets one commit go; nil: none waits
	free   chan struct{} // closed: no commit waits for its turn
}

// wait returns when the next commit may go, false if ctx ends first.
func (o *owner) wait(ctx context.Context) bool {
	if o.turn == nil {
		return ctx.Err() == nil
	}
	select {
	case <-o.turn:
	case <-o.free:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

const movedFeed store.Feed = 4

func (o *owner) run(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		epoch, pos, err := o.st.Takeover(ctx, movedFeed, holder)
		if err != nil {
			if !errors.Is(err, store.ErrStalled) && ctx.Err() == nil {
				t.Errorf("takeover: %v", err)
				return
			}
			continue
		}
		o.epochs++
		o.w = &feedWriter{feed: movedFeed, epoch: epoch, pos: pos, heads: map[byte]im.Seq{}}
		for n := range byte(5) {
			row, err := o.st.LastRow(context.Background(), conv(movedFeed, n))
			if err != nil {
				t.Errorf("last row: %v", err)
				return
			}
			if row != nil {
				o.w.heads[n] = row.Seq
			}
		}
		for err == nil && o.wait(ctx) {
			b, names := o.batch()
			if err = appendOne(o.st, b); err == nil {
				o.w.pos++
				for k, v := range names {
					o.wrote[k] = v
				}
				if _, e := o.st.LastRow(context.Background(), b.Rows[0].Conv); e != nil && !errors.Is(e, store.ErrStalled) {
					t.Errorf("last row: %v", e)
				}
			}
		}
		if err != nil && !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrStalled) {
			t.Errorf("append: %v", err)
			return
		}
	}
}

// value is a row that says who wrote it, behind a real head.
func value(pos im.Pos, flags byte, text string) []byte {
	return append(store.AppendRowHead(nil, store.RowHead{Flags: flags, Pos: pos}), text...)
}

func (o *owner) batch() (*store.Batch, map[string]string) {
	w, pos := o.w, o.w.pos+1
	n := byte(o.rng.IntN(5))
	c := conv(movedFeed, n)
	names := map[string]string{}
	b := &store.Batch{Feed: movedFeed, Epoch: w.epoch, Holder: holder, From: w.pos, Entry: &storepb.FeedEntry{TimeMs: uint64(pos)}}
	it := &storepb.FeedItem{Tenant: 1, Conv: c.Conv[:], From: uint64(w.heads[n]) + 1, Kinds: 1}
	old := w.heads[n]
	for range 1 + o.rng.IntN(4) {
		w.heads[n]++
		it.Count++
		v := value(pos, 0, fmt.Sprintf("row %d of %d", w.heads[n], pos))
		b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: w.heads[n], Value: v})
		names[fmt.Sprint("row ", n, w.heads[n])] = string(v)
		b.Dedupe = append(b.Dedupe, store.DedupePut{Conv: c, Hash: uint64(w.heads[n]), Seq: w.heads[n]})
	}
	switch user := im.User(fmt.Sprint("u", o.rng.IntN(9))); o.rng.IntN(5) {
	case 0:
		if old > 0 {
			q := 1 + im.Seq(o.rng.Uint64N(uint64(old)))
			v := value(pos, store.RowRewritten, fmt.Sprintf("rewritten in %d", pos))
			b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: q, Value: v, Rewrite: true})
			names[fmt.Sprint("row ", n, q)] = string(v)
			it.Kinds |= feedRewrites
		}
	case 1:
		r := &storepb.Member{Version: uint64(pos)}
		b.Members = append(b.Members, store.MemberPut{Conv: c, User: user, Record: r})
		names[fmt.Sprint("member ", n, user)] = r.String()
		it.Kinds |= feedMembership
	case 2:
		r := &storepb.Cursor{Read: uint64(pos)}
		b.Cursors = append(b.Cursors, store.CursorPut{Conv: c, User: user, Record: r})
		names[fmt.Sprint("cursor ", n, user)] = r.String()
		it.Kinds |= feedCursors
	case 3:
		r := &storepb.Conversation{CreatedMs: uint64(pos)}
		b.Convs = append(b.Convs, store.ConvPut{Conv: c, Record: r})
		names[fmt.Sprint("conversation ", n)] = r.String()
	case 4:
		p := store.MarkPut{Conv: c, Kind: store.MarkReactions, Seq: 1, Name: string(user)}
		if o.rng.IntN(3) > 0 {
			p.Value = fmt.Append(nil, "mark of ", pos)
		}
		b.Marks = append(b.Marks, p)
		names[fmt.Sprint("mark ", n, user)] = string(p.Value)
		it.Kinds |= feedMarks
	}
	b.Entry.Items = []*storepb.FeedItem{it}
	return b, names
}

// compare reads all of the feed and compares it with what was acked.
func (o *owner) compare(t *testing.T, st *Store) {
	t.Helper()
	got := map[string]string{}
	ctx := t.Context()
	for n := range byte(5) {
		c := conv(movedFeed, n)
		last, err := st.LastRow(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		if last != nil {
			err = st.Rows(ctx, c, 1, last.Seq, func(r store.Row) bool {
				got[fmt.Sprint("row ", n, r.Seq)] = string(r.Value)
				if r.Seq%16 != 0 && r.Seq < last.Seq-16 { // most of them, to save time
					return true
				}
				if seqs, err := st.Dedupe(ctx, c, uint64(r.Seq)); err != nil || !slices.Equal(seqs, []im.Seq{r.Seq}) {
					t.Errorf("hash of row %d: got %v, %v", r.Seq, seqs, err)
				}
				return true
			})
		}
		rec, e := st.Conversation(ctx, c)
		if rec != nil {
			got[fmt.Sprint("conversation ", n)] = rec.String()
		}
		err = errors.Join(err, e, st.Members(ctx, c, func(u im.User, r *storepb.Member) bool {
			got[fmt.Sprint("member ", n, u)] = r.String()
			return true
		}), st.Cursors(ctx, c, "", func(u im.User, r *storepb.Cursor) bool {
			got[fmt.Sprint("cursor ", n, u)] = r.String()
			return true
		}), st.Marks(ctx, c, store.MarkReactions, 1, 1, "", func(_ im.Seq, name string, v []byte) bool {
			got[fmt.Sprint("mark ", n, name)] = string(v)
			return true
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range o.wrote {
		if got[k] != v {
			t.Errorf("%s: got %q, want %q", k, got[k], v)
		}
	}
	maps.DeleteFunc(o.wrote, func(_, v string) bool { return v == "" }) // marks that were removed
	if len(got) != len(o.wrote) {
		t.Errorf("%d records and rows, want %d", len(got), len(o.wrote))
	}
	n := im.Pos(0)
	if err := st.ScanFeed(ctx, movedFeed, 0, o.w.pos, func(p im.Pos, e *storepb.FeedEntry) bool {
		n++
		return e.GetTimeMs() == uint64(p)
	}); err != nil || n != o.w.pos {
		t.Errorf("%d of %d commits: %v", n, o.w.pos, err)
	}
}

func TestF27PartitionMovesUnderTraffic(t *testing.T) {
	opts := Options{DSNs: []string{blank(t), blank(t)}}
	st, mover := mustOpen(t, opts), mustOpen(t, opts)
	defer mustClose(t, st)
	defer mustClose(t, mover)
	o := &owner{st: st, rng: rand.New(rand.NewPCG(*seed, 1)), wrote: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { o.run(ctx, t) })
	old := newRaw(t, opts.DSNs[0])
	commits := func(r *raw) int64 { return r.number(`SELECT pos FROM petrel.part WHERE id = 4`) }
	eventually.True(t, "some commits", func() bool { return commits(old) > 300 })
	if err := mover.MovePartition(t.Context(), 4, 2); err != nil {
		t.Fatal(err)
	}
	sealed := commits(old)
	fresh := newRaw(t, opts.DSNs[1])
	eventually.True(t, "commits in the other database", func() bool { return t.Failed() || commits(fresh) > sealed+100 })
	if err := mover.MovePartition(t.Context(), 4, 2); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("move to where it is: got %v", err)
	}
	stop()
	wg.Wait()
	if n := commits(old); n != sealed {
		t.Errorf("the source took %d commits after it was sealed", n-sealed)
	}
	o.compare(t, st)
	o.compare(t, mover)
	t.Logf("%d commits, %d before the seal, %d owners", o.w.pos, sealed, o.epochs)
	// A node that has not heard of it asks the source, and is sent on.
	late := mustOpen(t, opts)
	defer mustClose(t, late)
	at := *late.at.Load()
	at[4] = 0
	late.at.Store(&at)
	h, err := late.Holders(t.Context(), []store.Feed{3, 4})
	if err != nil || h[1].Pos != o.w.pos || h[1].State != store.FeedOpen {
		t.Errorf("holders by an old map: got %+v, %v, want position %d", h, err, o.w.pos)
	}
	// And back, where an old copy is.
	if err := st.MovePartition(t.Context(), 4, 1); err != nil {
		t.Fatal(err)
	}
	o.compare(t, st)
	h2, err := st.Holders(t.Context(), []store.Feed{4})
	if err != nil || h2[0].Epoch <= h[1].Epoch || h2[0].Pos != o.w.pos {
		t.Errorf("after the way back: got %+v, %v, want an epoch above %d", h2, err, h[1].Epoch)
	}
}

// TestF27MoveThatIsCutGoesOn ends moves at a random one of the requests that a whole one
// sends. Each request of a move lets the owner commit once, so that a slow machine has no
// more to copy than a fast one.
func TestF27MoveThatIsCutGoesOn(t *testing.T) {
	t.Logf("replay with -seed %d", *seed)
	opts := Options{DSNs: []string{blank(t), blank(t)}}
	st := mustOpen(t, opts)
	defer mustClose(t, st)
	var sent, last atomic.Int64 // requests of the move under way; the one at which it ends, 0: none
	var end atomic.Pointer[context.CancelFunc]
	o := &owner{
		st: st, rng: rand.New(rand.NewPCG(*seed, 2)), wrote: map[string]string{},
		turn: make(chan struct{}, 8), free: make(chan struct{}), // full: the commits that may go already are enough
	}
	var far []string
	for _, dsn := range opts.DSNs {
		p, through := newProxy(t, dsn)
		p.sends(func() {
			select {
			case o.turn <- struct{}{}:
			default:
			}
			if n := sent.Add(1); n == last.Load() {
				(*end.Load())()
			}
		})
		far = append(far, through)
	}
	mover := mustOpen(t, Options{DSNs: far, CheckEvery: time.Hour})
	defer mustClose(t, mover)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { o.run(ctx, t) })
	move := func(to int, cut int64) (err error) {
		// The server may not have seen yet that the last move was cut.
		eventually.True(t, "no other move is under way", func() bool {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end.Store(&cancel)
			sent.Store(0)
			last.Store(cut)
			err = mover.MovePartition(ctx, 4, to)
			return err == nil || !strings.Contains(err.Error(), "another process")
		})
		return err
	}
	if err := move(2, 0); err != nil {
		t.Fatal(err)
	}
	whole := sent.Load()
	rng := rand.New(rand.NewPCG(*seed, 3))
	const wanted, most = 8, 100
	cut, to := 0, 1
	for n := 0; n < most && cut < wanted; n++ {
		if err := move(to, 1+rng.Int64N(whole)); err == nil || strings.Contains(err.Error(), "there already") {
			to = 3 - to
		} else {
			cut++
		}
	}
	target := 1 + rng.IntN(2)
	if err := move(target, 0); err != nil && !strings.Contains(err.Error(), "there already") {
		t.Fatal(err)
	}
	close(o.free)
	n := newRaw(t, opts.DSNs[target-1])
	before := n.number(`SELECT pos FROM petrel.part WHERE id = 4`)
	eventually.True(t, "commits go on", func() bool { return n.number(`SELECT pos FROM petrel.part WHERE id = 4`) > before+50 })
	stop()
	wg.Wait()
	o.compare(t, st)
	t.Logf("%d commits, %d moves were cut, of %d requests each, %d owners", o.w.pos, cut, whole, o.epochs)
	if cut < wanted {
		t.Errorf("%d of %d moves were cut, want %d", cut, most, wanted)
	}
}

// F27: the next move of a partition ends a move that was interrupted while the source was sealed, whichever database
// the next move goes to. Each case moves another partition.
func TestF27NextMoveFinishesTheOneThatWasCut(t *testing.T) {
	opts := Options{DSNs: []string{blank(t), blank(t), blank(t)}}
	st := mustOpen(t, opts)
	defer mustClose(t, st)
	var dbs []*raw
	for _, dsn := range opts.DSNs {
		dbs = append(dbs, newRaw(t, dsn))
	}
	here, there := dbs[0], dbs[1]
	cuts := map[string]func(part im.Partition){
		"after the copy was opened": func(part im.Partition) { here.do(`UPDATE petrel.placement SET db = 0 WHERE part = $1`, part) },
		"before the copy was opened": func(part im.Partition) {
			here.do(`UPDATE petrel.placement SET db = 0 WHERE part = $1`, part)
			there.do(`UPDATE petrel.part SET state = 2, holder = 77 WHERE id = $1`, part)
		},
	}
	part := im.Partition(4)
	for name, cut := range cuts {
		for to := 1; to <= 3; to++ {
			t.Run(fmt.Sprintf("%s, to %d", name, to), func(t *testing.T) {
				if err := st.MovePartition(t.Context(), part, 1); err != nil { // a new store has it in the second one of three
					t.Fatal(err)
				}
				w := newFeedWriter(t, st, store.Feed(part))
				w.add(t, st, 5)
				if err := st.MovePartition(t.Context(), part, 2); err != nil {
					t.Fatal(err)
				}
				cut(part)
				if err := st.MovePartition(t.Context(), part, to); err != nil {
					t.Fatal(err)
				}
				next := newFeedWriter(t, st, store.Feed(part))
				next.heads = w.heads
				next.add(t, st, 1)
				for n, db := range dbs {
					open := db.number(`SELECT count(*) FROM petrel.part WHERE id = $1 AND state <> 2`, part)
					if want := map[bool]int64{true: 1}[n == to-1]; open != want {
						t.Errorf("database %d has %d open partitions, want %d", n+1, open, want)
					}
				}
				if n := dbs[to-1].number(`SELECT count(*) FROM petrel.msg WHERE part = $1`, part); n != 6 {
					t.Errorf("%d rows are where the partition is, want 6", n)
				}
			})
			part += 3
		}
	}
}

// F27: a node that has not heard yet where the partition is moves it from there.
func TestF27MoveByAnOldMap(t *testing.T) {
	opts := Options{DSNs: []string{blank(t), blank(t)}}
	st, late := mustOpen(t, opts), mustOpen(t, opts)
	defer mustClose(t, st)
	defer mustClose(t, late)
	o := &owner{st: st, rng: rand.New(rand.NewPCG(*seed, 4)), wrote: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { o.run(ctx, t) })
	there := newRaw(t, opts.DSNs[1])
	if err := st.MovePartition(t.Context(), 4, 2); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "some commits", func() bool { return t.Failed() || there.number(`SELECT pos FROM petrel.part WHERE id = 4`) > 300 })
	if err := late.MovePartition(t.Context(), 4, 1); err != nil {
		t.Fatal(err)
	}
	stop()
	wg.Wait()
	o.compare(t, late)
}

// F27: a copy that differs from its source is refused, and the partition stays where it is.
func TestF27CopyThatDiffersIsRefused(t *testing.T) {
	opts := Options{DSNs: []string{blank(t), pgtest.Shared(t).New(t)}} // whose tables are changed
	st := mustOpen(t, opts)
	defer mustClose(t, st)
	w := newFeedWriter(t, st, movedFeed)
	w.add(t, st, 5)
	other := newRaw(t, opts.DSNs[1])
	other.do(`CREATE FUNCTION petrel.mangle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.value = ''; RETURN NEW; END $$`)
	other.do(`CREATE TRIGGER mangle BEFORE INSERT ON petrel.msg FOR EACH ROW EXECUTE FUNCTION petrel.mangle()`)
	wantErr(t, "MovePartition", st.MovePartition(t.Context(), 4, 2), store.ErrCorrupt)
	w.add(t, st, 1)
	if n := newRaw(t, opts.DSNs[0]).number(`SELECT count(*) FROM petrel.msg WHERE part = 4`); n != 6 {
		t.Errorf("%d rows are where the partition was, want 6", n)
	}
}

// F27: a move that has stood still, and whose lock another move has taken meanwhile, opens nothing.
func TestF27MoveThatLostItsPlaceOpensNothing(t *testing.T) {
	opts := Options{DSNs: []string{blank(t), blank(t)}}
	st := mustOpen(t, opts)
	defer mustClose(t, st)
	newFeedWriter(t, st, movedFeed).add(t, st, 5)
	here, looker, there := newRaw(t, opts.DSNs[0]), newRaw(t, opts.DSNs[0]), newRaw(t, opts.DSNs[1])
	here.do(`BEGIN`)
	here.do(`SELECT 1 FROM petrel.part WHERE id = 4 FOR UPDATE`)
	moved := make(chan error, 1)
	go func() { moved <- st.MovePartition(t.Context(), 4, 2) }() // ends behind the lock
	eventually.True(t, "a move that waits", func() bool { return looker.locked() == 1 })
	there.do(`UPDATE petrel.part SET holder = 77 WHERE id = 4`) // as another one claims it
	here.do(`COMMIT`)
	if err := <-moved; err == nil || !strings.Contains(err.Error(), "another process moves the partition") {
		t.Errorf("the move ends with %v", err)
	}
	for db, r := range map[string]*raw{"the source": here, "the destination": there} {
		want := map[string]int64{"the source": int64(store.FeedOpen), "the destination": int64(store.FeedSealed)}[db]
		if state := r.number(`SELECT state FROM petrel.part WHERE id = 4`); state != want {
			t.Errorf("state at %s is %d, want %d", db, state, want)
		}
	}
}

func TestF27NothingIsDroppedFromWhatMoves(t *testing.T) {
	st, r := one(t)
	w := newFeedWriter(t, st, 1)
	w.add(t, st, 10)
	r.do(`UPDATE petrel.part SET state = 1 WHERE id = 1`)
	wantErr(t, "DropRows", st.DropRows(t.Context(), conv(1, 0), 5), store.ErrStalled)
	wantErr(t, "TrimFeed", st.TrimFeed(t.Context(), 1, 5), store.ErrStalled)
	if n := r.number(`SELECT count(*) FROM petrel.msg`) + r.number(`SELECT count(*) FROM petrel.feed`) + r.number(`SELECT trim FROM petrel.part WHERE id = 1`); n != 20 {
		t.Errorf("%d rows and entries are left, want 20", n)
	}
	w.add(t, st, 1) // it is written still
	r.do(`UPDATE petrel.part SET state = 2 WHERE id = 1`)
	wantErr(t, "append to a sealed feed", appendOne(st, w.next()), store.ErrStale)
	_, _, err := st.Takeover(t.Context(), 1, holder)
	wantErr(t, "takeover of a sealed feed", err, store.ErrStalled)
}
