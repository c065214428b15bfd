package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/sabotage"
	"github.com/petrel-im/petrel/internal/store"
)

// Append implements store.Store. It returns when the log is synced; done
// follows after the witness. Two batches for one feed are an error of the
// caller.
func (s *Store) Append(batches []*store.Batch, done func([]error)) {
	c := newCommit(len(batches), done)
	if err := s.enter(); err != nil {
		s.refuse(c, err)
		return
	}
	defer s.leave()
	im.Assert(len(batches) <= 1, "append of %d batches to one feed", len(batches))
	if !s.begin() {
		s.refuse(c, s.out.err())
		return
	}
	c.placed = true
	b, refusal := s.stage(batches)
	if refusal != nil || b == nil {
		s.refuse(c, refusal)
		<-s.turn
		return
	}
	next := last{n: s.last.n + 1, timeMs: uint64(s.o.Now().UnixMilli()), pos: s.last.pos + 1}
	if s.commit(c, b, next) == nil {
		s.wait(b, next)
	}
}

// refuse answers an append that writes nothing, when its turn comes.
func (s *Store) refuse(c *commit, err error) {
	c.fill(err)
	if !s.ack.push(c) {
		c.done(c.result) // the store is closed, and every earlier done has returned
	}
}

// begin takes the turn and a place among the pending commits; false means that
// the store has failed.
func (s *Store) begin() bool {
	select {
	case s.ack.places <- struct{}{}:
	case <-s.out.ch:
		return false
	}
	select {
	case s.turn <- struct{}{}:
		return true
	case <-s.out.ch:
		return false
	}
}

// stage builds the Pebble batch of an append, or says why it is refused. The
// caller has the turn.
func (s *Store) stage(batches []*store.Batch) (*pebble.Batch, error) {
	if s.space.full.Load() {
		return nil, store.ErrFull
	}
	if len(batches) == 0 {
		return nil, nil
	}
	in := batches[0]
	if in.Feed != feed || in.Epoch != s.epoch || in.From != s.last.pos {
		return nil, fmt.Errorf("append to feed %d from %d in epoch %d, it stands at %d in epoch %d: %w",
			in.Feed, in.From, in.Epoch, s.last.pos, s.epoch, store.ErrStale)
	}
	b := s.db.NewBatchWithSize(sizeOf(in))
	if err := fillBatch(b, in); err != nil {
		_ = b.Close() // was not committed
		return nil, err
	}
	return b, nil
}

// commit writes b, with its number, to the log and makes it readable, without
// waiting for the disk, and gives the turn back.
func (s *Store) commit(c *commit, b *pebble.Batch, next last) error {
	c.last, c.begun = next, time.Now()
	var buf [3 * binary.MaxVarintLen64]byte
	err := b.Set(keyCommit, next.append(buf[:0]), nil)
	if err == nil {
		s.ack.push(c)
		err = s.apply(b)
	}
	if err != nil {
		s.out.fail(fmt.Errorf("write commit %d: %w", next.n, err))
		<-s.turn
		return s.out.err()
	}
	s.last = next
	s.commits.Add(1)
	<-s.turn
	return nil
}

// apply writes b to the log. Pebble panics when the log is broken.
func (s *Store) apply(b *pebble.Batch) error {
	return caught(func() error {
		if sabotage.On("ack-before-sync") {
			return s.db.Apply(b, pebble.NoSync)
		}
		return s.db.ApplyNoSyncWait(b, pebble.Sync)
	})
}

// wait returns when b is synced, and lets its witness be written.
func (s *Store) wait(b *pebble.Batch, l last) {
	if !sabotage.On("ack-before-sync") {
		if err := b.SyncWait(); err != nil {
			s.out.fail(fmt.Errorf("sync commit %d: %w", l.n, err))
			return
		}
	}
	_ = b.Close() // is synced
	s.ack.synced(l.n)
}

// write commits what fill puts into a batch and returns when it is witnessed.
// fill has the turn; an error from it means that nothing was written.
func (s *Store) write(ctx context.Context, size int, fill func(*pebble.Batch) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.begin() {
		return s.out.err()
	}
	b := s.db.NewBatchWithSize(size)
	if err := fill(b); err != nil {
		_ = b.Close() // was not committed
		<-s.turn
		<-s.ack.places
		return err
	}
	next := last{n: s.last.n + 1, timeMs: uint64(s.o.Now().UnixMilli()), pos: s.last.pos}
	witnessed := make(chan error, 1)
	c := newCommit(1, func(r []error) { witnessed <- r[0] })
	c.placed = true
	if err := s.commit(c, b, next); err != nil {
		return err
	}
	s.wait(b, next)
	select {
	case err := <-witnessed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for commit %d: %w", next.n, ctx.Err())
	}
}

// sizeOf is about what in takes as a Pebble batch.
func sizeOf(in *store.Batch) int {
	n := 128 + len(in.Dedupe)*(dedupeKeyLen+12)
	for i := range in.Rows {
		n += rowKeyLen + len(in.Rows[i].Value) + 6
	}
	if in.Entry != nil {
		n += feedKeyLen + in.Entry.SizeVT() + 6
	}
	for _, p := range in.Convs {
		n += convKeyLen + p.Record.SizeVT() + 6
	}
	for _, p := range in.Members {
		n += convKeyLen + len(p.User) + p.Record.SizeVT() + 6
	}
	for _, p := range in.Cursors {
		n += convKeyLen + len(p.User) + p.Record.SizeVT() + 6
	}
	return n
}

func fillBatch(b *pebble.Batch, in *store.Batch) error {
	for i := range in.Rows {
		r := &in.Rows[i]
		op := b.SetDeferred(rowKeyLen, len(r.Value))
		putRowKey(op.Key, r.Conv, r.Seq)
		copy(op.Value, r.Value)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	for _, d := range in.Dedupe {
		var v [binary.MaxVarintLen64]byte
		n := binary.PutUvarint(v[:], uint64(d.Seq))
		op := b.SetDeferred(dedupeKeyLen, n)
		putDedupeKey(op.Key, d.Conv, d.Hash, d.Slot)
		copy(op.Value, v[:n])
		if err := op.Finish(); err != nil {
			return err
		}
	}
	for _, p := range in.Convs {
		if err := setRecord(b, kindConversation, p.Conv, "", p.Record); err != nil {
			return err
		}
	}
	for _, p := range in.Members {
		if err := setRecord(b, kindMember, p.Conv, p.User, p.Record); err != nil {
			return err
		}
	}
	for _, p := range in.Cursors {
		if err := setRecord(b, kindCursor, p.Conv, p.User, p.Record); err != nil {
			return err
		}
	}
	if in.Entry == nil {
		return b.Set(feedKey(in.Feed, in.From+1), nil, nil)
	}
	op := b.SetDeferred(feedKeyLen, in.Entry.SizeVT())
	putFeedKey(op.Key, in.Feed, in.From+1)
	if _, err := in.Entry.MarshalToSizedBufferVT(op.Value); err != nil {
		return err
	}
	return op.Finish()
}

// message is what vtprotobuf generates for a record.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}

func setRecord(b *pebble.Batch, kind byte, c im.Key, u im.User, m message) error {
	op := b.SetDeferred(convKeyLen+len(u), m.SizeVT())
	putConvKey(op.Key, kind, c)
	copy(op.Key[convKeyLen:], u)
	if _, err := m.MarshalToSizedBufferVT(op.Value); err != nil {
		return err
	}
	return op.Finish()
}
