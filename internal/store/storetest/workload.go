package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// Workload records the use of one store over all its lives (from an open to a crash): the commits that a writer has
// tried, the number of acked ones, the counter of a second writer, and the rows that a reader saw. Drive fills it,
// and Promise.Check compares it with a store.
type Workload struct {
	convs []im.Key

	mu    sync.Mutex // tier 0; guards the fields below
	steps []step     // in the order of their commits
	acked int        // this many are durable
	heads map[im.Key]im.Seq
	first map[im.Key]im.Seq
	saw   map[im.Key]map[im.Seq]uint64 // what readers were given: the MAC of each row
	ticks [2]uint64                    // the counter that a second writer raises: acked, tried
	info  store.Info
	born  bool
}

// step is one write: a batch, or one of the other kinds.
type step struct {
	batch *store.Batch
	put   []store.RecordPut
	drop  im.Key
	below im.Seq // with drop
	trim  im.Pos
}

// NewWorkload returns a workload without commits.
func NewWorkload() *Workload {
	t := &Workload{
		heads: map[im.Key]im.Seq{}, first: map[im.Key]im.Seq{}, saw: map[im.Key]map[im.Seq]uint64{},
	}
	for i := range byte(5) {
		c := key(im.Tenant(1+i/4), i)
		t.convs = append(t.convs, c)
		t.first[c], t.saw[c] = 1, map[im.Seq]uint64{}
	}
	return t
}

// partition returns the partition of all conversations of t.
func (t *Workload) partition() im.Partition { return im.PartitionOf(t.convs[0].Conv) }

// macOf returns the MAC of a row, which rewrites keep; 0 if the row cannot be read.
func macOf(row []byte) uint64 {
	h, _, err := store.SplitRow(row)
	if err != nil {
		return 0
	}
	return h.MAC
}

// Acked returns the number of commits that were acked to the writer.
func (t *Workload) Acked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acked
}

// Drive writes n commits to st while a second writer and a reader use it too, and returns when all have their
// answers or st has failed. The store must be that of t, in the state of the last Adopt.
func (t *Workload) Drive(ctx context.Context, st store.Store, rng *rand.Rand, n int) error {
	f := st.FeedOf(t.partition())
	epoch, pos, err := st.Takeover(ctx, f, holder)
	if err != nil {
		return err
	}
	d := &driver{t: t, st: st, rng: rng, feed: f, epoch: epoch, pos: pos, model: t.model(len(t.steps))}
	var wg sync.WaitGroup
	var stop atomic.Bool
	errs := make(chan error, 3)
	seed := rng.Uint64()
	wg.Go(func() { errs <- t.tick(ctx, st, &stop) })
	wg.Go(func() { errs <- t.read(ctx, st, rand.New(rand.NewPCG(seed, 1)), &stop) })
	err = d.run(ctx, n)
	stop.Store(true)
	wg.Wait()
	return errors.Join(err, <-errs, <-errs)
}

// driver is the writer of a workload in one life of the store.
type driver struct {
	t     *Workload
	st    store.Store
	rng   *rand.Rand
	feed  store.Feed
	epoch im.Epoch
	pos   im.Pos
	model *state // after all steps tried
}

func (d *driver) run(ctx context.Context, n int) error {
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range n {
		if failed.Load() != nil {
			break
		}
		s := d.next()
		d.t.mu.Lock()
		d.t.steps = append(d.t.steps, s)
		place := len(d.t.steps)
		d.t.mu.Unlock()
		d.model.apply(s)
		settle := func(err error) {
			if err != nil {
				err = fmt.Errorf("commit %d: %w", place, err)
				failed.CompareAndSwap(nil, &err)
				return
			}
			d.t.ack(place)
		}
		if s.batch == nil && len(d.st.Feeds()) > 1 {
			// A step that is no append does not wait for the appends by itself, and must not be acked after a
			// failed append.
			wg.Wait()
			if failed.Load() != nil {
				break
			}
		}
		switch {
		case s.batch != nil:
			d.pos++
			wg.Add(1)
			d.st.Append(s.batch, func(err error) { defer wg.Done(); settle(err) })
		case s.put != nil:
			settle(d.st.Update(ctx, s.put))
		case s.below != 0:
			d.t.mu.Lock()
			d.t.first[s.drop] = s.below
			d.t.mu.Unlock()
			settle(d.st.DropRows(ctx, s.drop, s.below))
		default:
			settle(d.st.TrimFeed(ctx, d.feed, s.trim))
		}
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// ack counts the steps up to number place, from 1, as acked, and publishes the heads of this step.
func (t *Workload) ack(place int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked = max(t.acked, place)
	if b := t.steps[place-1].batch; b != nil {
		for _, r := range b.Rows {
			t.heads[r.Conv] = max(t.heads[r.Conv], r.Seq)
		}
	}
}

// next makes the next step.
func (d *driver) next() step {
	c := d.t.convs[d.rng.IntN(len(d.t.convs))]
	last := d.model.next[c] - 1
	switch p := d.rng.IntN(100); {
	case p < 6:
		k := fmt.Appendf(nil, "k%d", d.rng.IntN(9))
		put := store.RecordPut{Table: store.Settings, Key: k, Value: d.bytes(40)}
		if d.rng.IntN(4) == 0 {
			put.Value = nil
		}
		return step{put: []store.RecordPut{put}}
	case p < 8 && last > d.model.first[c]+3:
		return step{drop: c, below: last - 2}
	case p < 10 && d.pos > d.model.trim+3:
		return step{trim: d.pos - 2}
	}
	return step{batch: d.batch()}
}

// batch makes a batch of 1 to 8 rows, sometimes of 300 rows or of one of 40 KiB, with records and marks.
func (d *driver) batch() *store.Batch {
	b := &store.Batch{Feed: d.feed, Epoch: d.epoch, Holder: holder, From: d.pos,
		Entry: &storepb.FeedEntry{TimeMs: d.rng.Uint64() >> 20}}
	heads := map[im.Key]im.Seq{}
	count, size := 1+d.rng.IntN(8), 200
	switch d.rng.IntN(60) {
	case 0:
		count = 300
	case 1:
		count, size = 1, 40<<10
	}
	for range count {
		c := d.t.convs[d.rng.IntN(len(d.t.convs))]
		if heads[c] == 0 {
			heads[c] = d.model.next[c] - 1
		}
		if n := d.model.next[c] - d.model.first[c]; n > 0 && d.rng.IntN(12) == 0 {
			q := d.model.first[c] + im.Seq(d.rng.Uint64N(uint64(n)))
			if slices.ContainsFunc(b.Rows, func(r store.RowPut) bool { return r.Conv == c && r.Seq == q }) {
				continue // a batch has each row once
			}
			h := store.RowHead{Flags: store.RowRewritten,
				MAC: macOf([]byte(d.model.holds[place{what: row, conv: c, seq: q}]))}
			b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: q, Value: d.row(h, 30), Rewrite: true})
			continue
		}
		heads[c]++
		b.Rows = append(b.Rows, store.RowPut{Conv: c, Seq: heads[c],
			Value: d.row(store.RowHead{MAC: d.rng.Uint64()}, size)})
		b.Entry.Items = append(b.Entry.Items, &storepb.FeedItem{Tenant: uint32(c.Tenant), Conv: c.Conv[:],
			From: uint64(heads[c]), Count: 1, Kinds: 1})
		if d.rng.IntN(3) == 0 {
			b.Dedupe = append(b.Dedupe, store.DedupePut{Conv: c, Hash: uint64(heads[c]) << 8, Seq: heads[c]})
		}
	}
	c, u := d.t.convs[d.rng.IntN(len(d.t.convs))], markNames[d.rng.IntN(len(markNames))]
	if heads[c] == 0 {
		heads[c] = d.model.next[c] - 1
	}
	head := uint64(heads[c]) // nothing points above the head of a conversation
	switch d.rng.IntN(8) {
	case 0:
		b.Convs = append(b.Convs, store.ConvPut{Conv: c,
			Record: &storepb.Conversation{Kind: 2, CreatedMs: d.rng.Uint64() >> 20}})
	case 1:
		b.Members = append(b.Members, store.MemberPut{Conv: c, User: u,
			Record: &storepb.Member{Version: d.rng.Uint64N(head + 1), ChangedPos: uint64(d.pos) + 1}})
	case 2:
		b.Cursors = append(b.Cursors, store.CursorPut{Conv: c, User: u,
			Record: &storepb.Cursor{Read: d.rng.Uint64N(head + 1), ChangedPos: uint64(d.pos) + 1}})
	case 3, 4:
		if first := d.model.first[c]; first <= heads[c] { // there are marks beside rows only
			q := first + im.Seq(d.rng.Uint64N(uint64(heads[c]-first)+1))
			p := store.MarkPut{Conv: c, Kind: store.MarkNote, Seq: q, Value: d.bytes(20)}
			if k := d.rng.IntN(3); k > 0 {
				p.Kind, p.Name = []store.MarkKind{store.MarkReactions, store.MarkMention}[k-1], string(u)
			}
			if d.rng.IntN(3) == 0 {
				p.Value = nil
			}
			b.Marks = append(b.Marks, p)
		}
	}
	return b
}

// row returns a row with a body of at most n+12 bytes.
func (d *driver) row(h store.RowHead, n int) []byte {
	return append(store.AppendRowHead(nil, h), d.bytes(n)...)
}

// bytes returns 12 to n+12 random bytes.
func (d *driver) bytes(n int) []byte {
	b := make([]byte, 12+d.rng.IntN(n+1))
	for i := range b {
		b[i] = byte(d.rng.Uint32())
	}
	return b
}

// tick raises a counter, each time when the last update was acked, until stop is set.
func (t *Workload) tick(ctx context.Context, st store.Store, stop *atomic.Bool) error {
	for !stop.Load() {
		t.mu.Lock()
		t.ticks[1]++
		n := t.ticks[1]
		t.mu.Unlock()
		put := store.RecordPut{Table: store.Consumers, Key: []byte("ticks"), Value: fmt.Append(nil, n)}
		if err := st.Update(ctx, []store.RecordPut{put}); err != nil {
			return fmt.Errorf("tick %d: %w", n, err)
		}
		t.mu.Lock()
		t.ticks[0] = n
		t.mu.Unlock()
	}
	return nil
}

// read reads rows up to the published heads, until stop is set.
func (t *Workload) read(ctx context.Context, st store.Store, rng *rand.Rand, stop *atomic.Bool) error {
	for !stop.Load() {
		c := t.convs[rng.IntN(len(t.convs))]
		t.mu.Lock()
		from, to := t.first[c], t.heads[c]
		t.mu.Unlock()
		from = max(from, to-min(to, 20))
		macs := map[im.Seq]uint64{}
		err := st.Rows(ctx, c, from, to, func(r store.Row) bool {
			macs[r.Seq] = macOf(r.Value)
			return true
		})
		t.mu.Lock()
		if t.first[c] > from {
			err = nil // the rows were dropped meanwhile
		}
		for q, mac := range macs {
			if old, ok := t.saw[c][q]; ok && old != mac {
				err = fmt.Errorf("row %d of %s was %x and is now %x", q, c, old, mac)
			}
			t.saw[c][q] = mac
		}
		t.mu.Unlock()
		if err != nil {
			return fmt.Errorf("reader: %w", err)
		}
	}
	return nil
}

// Promise is the set of commits acked at one moment.
type Promise struct {
	t     *Workload
	acked int
	ticks uint64
	saw   map[im.Key]map[im.Seq]uint64
	info  store.Info
	born  bool
}

// Promise returns the commits acked so far. A crash after it must keep them.
func (t *Workload) Promise() Promise {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := Promise{t: t, acked: t.acked, ticks: t.ticks[0], saw: map[im.Key]map[im.Seq]uint64{}, info: t.info,
		born: t.born}
	for c, m := range t.saw {
		p.saw[c] = maps.Clone(m)
	}
	return p
}

// Acked returns the number of commits that the promise covers.
func (p Promise) Acked() int { return p.acked }

// Lossy returns the promise that a repaired store keeps: its content is the result of the first k commits, for
// some k.
func (p Promise) Lossy() Promise { return Promise{t: p.t} }

// Found is the state of a store after a crash.
type Found struct {
	Steps int // commits of the first writer
	ticks uint64
}

// Check compares st with the promise: the content of st must be the result of the first k commits that were
// tried, for one k that is at least the number of acked ones. So no acked commit is lost, changed or moved, no
// part of a batch is visible alone, and nothing that a reader saw is gone.
func (p Promise) Check(ctx context.Context, st store.Store) (Found, error) {
	if p.born && p.info != st.Info() {
		return Found{}, fmt.Errorf("identity: got %+v, want %+v", st.Info(), p.info)
	}
	_, pos, err := st.Takeover(ctx, st.FeedOf(p.t.partition()), holder)
	if err != nil {
		return Found{}, err
	}
	v, err := st.Record(ctx, store.Consumers, 0, []byte("ticks"))
	if err != nil {
		return Found{}, err
	}
	p.t.mu.Lock()
	tried := p.t.ticks[1]
	steps := p.t.steps
	p.t.mu.Unlock()
	var ticks uint64
	if len(v) > 0 {
		if _, err := fmt.Sscan(string(v), &ticks); err != nil {
			return Found{}, fmt.Errorf("ticks %q: %w", v, err)
		}
	}
	if ticks < p.ticks || ticks > tried {
		return Found{}, fmt.Errorf("the counter is %d: %d was acked, %d tried", ticks, p.ticks, tried)
	}
	k, err := p.find(ctx, st, pos, steps)
	if err != nil {
		return Found{}, err
	}
	return Found{Steps: k, ticks: ticks}, p.seen(ctx, st, k)
}

// find returns the largest k for which the first k steps result in the content of st.
func (p Promise) find(ctx context.Context, st store.Store, pos im.Pos, steps []step) (int, error) {
	m := p.t.model(p.acked)
	if pos < m.pos {
		return 0, fmt.Errorf("acked commits are lost: the feed stands at %d, %d was acked", pos, m.pos)
	}
	found := -1
	var differs error
	for k := p.acked; m.pos <= pos; k++ {
		if m.pos == pos {
			if err := m.compare(ctx, st, p.t.convs); err == nil {
				found = k
			} else {
				differs = err
			}
		}
		if k == len(steps) {
			break
		}
		m.apply(steps[k])
	}
	switch {
	case found >= 0:
		return found, nil
	case differs == nil:
		return 0, fmt.Errorf("the feed stands at %d, only %d were tried", pos, m.pos)
	}
	return 0, fmt.Errorf("at position %d, %d commits acked: %w", pos, p.acked, differs)
}

// seen checks that everything the readers saw is still there.
func (p Promise) seen(ctx context.Context, st store.Store, k int) error {
	m := p.t.model(k)
	for c, macs := range p.saw {
		for q, mac := range macs {
			if q < m.first[c] {
				continue
			}
			same := false
			err := st.Rows(ctx, c, q, q, func(r store.Row) bool {
				same = macOf(r.Value) == mac
				return true
			})
			if err != nil {
				return fmt.Errorf("row %d of %s was read and is gone: %w", q, c, err)
			}
			if !same {
				return fmt.Errorf("row %d of %s was read and is another now", q, c)
			}
		}
	}
	return nil
}

// Adopt makes the state found by Check the history of the store: the next life continues from there.
func (t *Workload) Adopt(st store.Store, f Found) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = t.steps[:f.Steps:f.Steps]
	t.acked, t.ticks = f.Steps, [2]uint64{f.ticks, f.ticks}
	t.info, t.born = st.Info(), true
	m := t.modelLocked(f.Steps)
	for _, c := range t.convs {
		t.first[c] = m.first[c]
		t.heads[c] = m.next[c] - 1
		maps.DeleteFunc(t.saw[c], func(q im.Seq, _ uint64) bool { return q < m.first[c] || q > t.heads[c] })
	}
}
