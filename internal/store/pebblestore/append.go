package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// Append implements store.Store. It returns when the log is synced, when the batch is refused, or when the store
// has failed. done is called when the witness is written or its write has failed; then done gets that error.
func (s *Store) Append(b *store.Batch, done func(error)) {
	c := newCommit(done)
	c.stage = func() (*pebble.Batch, error) { return s.stageAppend(b) }
	if err := s.enter(); err != nil {
		// callBack answers a refused commit without staging, but writeLog may take it, and call stage, before that.
		c.refusal, c.stage = err, func() (*pebble.Batch, error) { return nil, err }
		if !s.queue.push(c) {
			done(err) // the store is closed, and every earlier done has returned
		}
		return
	}
	defer s.leave()
	s.submit(c)
	select {
	case <-c.synced:
	case <-s.out.ch:
	}
}

// submit waits until the queue has room, and queues c. If the store fails meanwhile, it queues c without room, and c
// gets the error of the failed store like all queued commits.
func (s *Store) submit(c *commit) {
	select {
	case s.queue.places <- struct{}{}:
		c.placed = true
	case <-s.out.ch:
	}
	s.queue.push(c)
}

// stageAppend builds the Pebble batch of an append, or returns the reason why the append is refused.
func (s *Store) stageAppend(in *store.Batch) (*pebble.Batch, error) {
	if s.space.full.Load() {
		return nil, store.ErrFull
	}
	if in.Feed != feed || in.Epoch != s.epoch || in.Holder != s.holder || in.From != s.last.pos {
		return nil, fmt.Errorf("append to feed %d from %d in epoch %d, it stands at %d in epoch %d: %w",
			in.Feed, in.From, in.Epoch, s.last.pos, s.epoch, store.ErrStale)
	}
	b := s.db.NewBatchWithSize(sizeOf(in))
	if err := fillBatch(b, in); err != nil {
		_ = b.Close() // was not committed
		return nil, err
	}
	s.last.pos++
	return b, nil
}

// write makes a commit of a batch of about size bytes, which fill fills in the goroutine of writeLog, and returns
// when the witness has the commit. If fill returns an error, nothing is written, and write returns this error. If ctx
// ends while write waits, the outcome is unknown.
func (s *Store) write(ctx context.Context, size int, fill func(*pebble.Batch) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	c := newCommit(func(err error) { answer <- err })
	c.stage = func() (*pebble.Batch, error) {
		b := s.db.NewBatchWithSize(size)
		if err := fill(b); err != nil {
			_ = b.Close() // was not committed
			return nil, err
		}
		return b, nil
	}
	s.submit(c)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the disk: %w", ctx.Err())
	}
}

// sizeOf estimates the bytes of in as a Pebble batch.
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
	for i := range in.Marks {
		n += markKeyLen + 1 + len(in.Marks[i].Name) + len(in.Marks[i].Value) + 6
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
	for i := range in.Marks {
		if err := setMark(b, &in.Marks[i]); err != nil {
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

func setMark(b *pebble.Batch, p *store.MarkPut) error {
	if len(p.Value) == 0 {
		return b.Delete(markKey(p.Conv, p.Kind, p.Seq, p.Name), nil)
	}
	n := markKeyLen + len(p.Name)
	if p.Kind.ByName() {
		n++
	}
	op := b.SetDeferred(n, len(p.Value))
	appendMarkKey(op.Key[:0], p.Conv, p.Kind, p.Seq, p.Name)
	copy(op.Value, p.Value)
	return op.Finish()
}

// message is the interface that vtprotobuf generates for a record.
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
