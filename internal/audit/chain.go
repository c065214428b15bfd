package audit

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// hashBytes is the length of the hashes and seals.
const hashBytes = 16

// placeBytes is the length of the time and the number of a record. In a key these precede the name of the node. So
// the records of all nodes are in the order of time, and those of one node in the order of their numbers.
const placeBytes = 8 + 8

func recordKey(node im.Node, timeMs, number uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, placeBytes+len(node)), timeMs)
	b = binary.BigEndian.AppendUint64(b, number)
	return append(b, node...)
}

// parseKey returns the parts of a key that recordKey has made.
func parseKey(key []byte) (node im.Node, timeMs, number uint64, ok bool) {
	if len(key) < placeBytes {
		return "", 0, 0, false
	}
	return im.Node(key[placeBytes:]), binary.BigEndian.Uint64(key), binary.BigEndian.Uint64(key[8:]), true
}

// mac returns a keyed hash of several parts, each hashed with its length: different parts have different hashes.
func (l *Log) mac(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, l.key)
	h.Write([]byte(purpose))
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write(p)
	}
	return h.Sum(nil)[:hashBytes]
}

func be64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// hash returns the hash that ties a record to its node and to the link before it. The record contains its number.
func (l *Log) hash(node im.Node, before, record []byte) []byte {
	return l.mac("record", []byte(node), before, record)
}

// seal returns the keyed hash which shows that a node of this store has written a head.
func (l *Log) seal(node im.Node, h *storepb.AuditHead) []byte {
	return l.mac("head", []byte(node), be64(h.Number), be64(h.TimeMs), h.Hash, be64(h.Oldest), h.Before)
}

// head is the head of a chain, which says where the chain ends.
type head struct {
	rec    storepb.AuditHead
	was    []byte // as it is stored; nil: there is none
	broken bool   // the stored head was changed, removed, or put back to an earlier one
}

// readHead reads the head of a chain. sound: its seal is right, or the chain has no head yet.
func (l *Log) readHead(ctx context.Context, node im.Node) (h *head, sound bool, err error) {
	h = &head{}
	if h.was, err = l.store.Record(ctx, store.AuditHeads, 0, []byte(node)); err != nil {
		return nil, false, err
	}
	h.was = bytes.Clone(h.was)
	if h.was == nil {
		h.rec.Oldest = 1
		return h, true, nil
	}
	sound = h.rec.UnmarshalVT(h.was) == nil && hmac.Equal(h.rec.Seal, l.seal(node, &h.rec))
	return h, sound, nil
}

// put returns the write of a head. The write fails if the stored head is no longer was.
func (l *Log) put(node im.Node, h *storepb.AuditHead, was []byte) (store.RecordPut, error) {
	h.Seal = l.seal(node, h)
	value, err := h.MarshalVT()
	return store.RecordPut{Table: store.AuditHeads, Key: []byte(node), Value: value, Check: true, Was: was}, err
}

// maxTries is how often a write is tried, because somebody else may have written the head meanwhile: another node
// that removes old records, or another process with this node's name.
const maxTries = 10

// writeAll writes the queue, in batches. If the write of a batch fails, those of its records that no caller waits
// for stay in the queue.
func (l *Log) writeAll(ctx context.Context) {
	for {
		l.mu.Lock()
		if l.dropped > 0 && len(l.queue) < maxQueue {
			l.queue = append(l.queue,
				&item{rec: &storepb.AuditRecord{TimeMs: uint64(l.o.Now().UnixMilli()), Event: droppedEvent,
					Count: l.dropped}})
			l.dropped = 0
		}
		batch := l.queue[:min(len(l.queue), maxBatch)]
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		err := l.write(ctx, batch)
		l.answer(batch, err)
		l.mu.Lock()
		rest := l.queue[len(batch):]
		if err != nil {
			kept := make([]*item, 0, len(l.queue))
			for _, it := range batch {
				if it.done == nil {
					kept = append(kept, it)
				}
			}
			rest = append(kept, rest...)
		}
		if l.queue = rest; len(rest) == 0 {
			l.queue = nil
		}
		l.mu.Unlock()
		if l.noteFailure(err); err != nil {
			return
		}
	}
}

// noteFailure counts an error. It logs once that the log cannot be written, and once that it can be again.
func (l *Log) noteFailure(err error) {
	if err != nil {
		l.Failed.Add(1)
	}
	switch {
	case err != nil && !l.failing:
		l.o.Log.Warn("cannot write the audit log: actions of operators are refused until it works again", "err", err)
	case err == nil && l.failing:
		l.o.Log.Info("audit log is written again")
	}
	l.failing = err != nil
}

// present returns the present head of the chain. If the head was changed from outside, the next write first adds
// a record that says so: else its new seal would hide the change.
func (l *Log) present(ctx context.Context) (*head, error) {
	if l.head != nil {
		return l.head, nil
	}
	h, sound, err := l.readHead(ctx, l.node)
	if err != nil {
		return nil, err
	}
	if !sound || h.rec.Number < l.known {
		l.o.Log.Error("the end of the audit log is not as it was written: run petrel audit verify", "node",
			string(l.node))
		h.broken = true
		h.rec.Number = max(h.rec.Number, l.known)
	}
	l.head, l.known = h, h.rec.Number
	return h, nil
}

// write writes some records at the end of the chain, as one unit.
func (l *Log) write(ctx context.Context, batch []*item) (err error) {
	var meant []byte // the hash of the head that an earlier try may have written
	for range maxTries {
		h, e := l.present(ctx)
		if e != nil {
			return fmt.Errorf("read the end of the audit log: %w", e)
		}
		if meant != nil && bytes.Equal(h.rec.Hash, meant) {
			return nil // the write of unknown outcome has succeeded
		}
		next, puts, e := l.chain(h, batch)
		if e != nil {
			return e
		}
		if err = l.store.Update(store.ForOperators(ctx), puts); err == nil {
			l.head, l.known = next, next.rec.Number
			l.Written.Add(uint64(len(batch)))
			return nil
		}
		err = fmt.Errorf("write the audit log: %w", err)
		if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrStalled) || errors.Is(err, store.ErrFailed) {
			return err
		}
		l.head = nil
		if !errors.Is(err, store.ErrChanged) { // ErrChanged means that nothing was written
			meant = next.rec.Hash
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// chain makes the links that follow a head, and the head that follows them.
func (l *Log) chain(last *head, batch []*item) (*head, []store.RecordPut, error) {
	next := &head{}
	h := &next.rec
	h.Number, h.TimeMs, h.Hash, h.Oldest, h.Before = last.rec.Number, last.rec.TimeMs, last.rec.Hash,
		max(last.rec.Oldest, 1), last.rec.Before
	if last.broken {
		batch = append([]*item{{rec: &storepb.AuditRecord{TimeMs: uint64(l.o.Now().UnixMilli()), Event: brokenEvent}}},
			batch...)
	}
	puts := make([]store.RecordPut, 0, len(batch)+1)
	for _, it := range batch {
		h.Number++
		h.TimeMs = max(h.TimeMs, it.rec.TimeMs)
		it.rec.Number, it.rec.TimeMs = h.Number, h.TimeMs
		record, err := it.rec.MarshalVT()
		if err != nil {
			return nil, nil, err
		}
		link := &storepb.AuditLink{Record: record, Before: h.Hash, Hash: l.hash(l.node, h.Hash, record)}
		value, err := link.MarshalVT()
		if err != nil {
			return nil, nil, err
		}
		h.Hash = link.Hash
		puts = append(puts, store.RecordPut{Table: store.Audit, Key: recordKey(l.node, h.TimeMs, h.Number),
			Value: value, Check: true})
	}
	p, err := l.put(l.node, h, last.was)
	next.was = p.Value
	return next, append(puts, p), err
}

// maxForgotten is how many records are removed in one write.
const maxForgotten = 500

// forget removes the records of all nodes that are older than Keep. The head of each chain then says with which
// record the chain begins.
func (l *Log) forget(ctx context.Context) error {
	if l.o.Keep <= 0 {
		return nil
	}
	below := uint64(l.o.Now().Add(-l.o.Keep).UnixMilli())
	for {
		old := map[im.Node][]store.RecordPut{}
		last := map[im.Node]forgotten{}
		n := 0
		err := l.store.RecordsFrom(ctx, store.Audit, 0, nil, func(key, value []byte) bool {
			node, timeMs, number, ok := parseKey(key)
			if !ok {
				return true // no key of a record: the next verification reports it
			}
			if timeMs >= below || n == maxForgotten {
				return false
			}
			n++
			link := &storepb.AuditLink{}
			_ = link.UnmarshalVT(value) // the next verification reports a damaged one
			old[node] = append(old[node], store.RecordPut{Table: store.Audit, Key: bytes.Clone(key)})
			last[node] = forgotten{number, bytes.Clone(link.Hash)}
			return true
		})
		if err != nil || n == 0 {
			return err
		}
		for node, puts := range old {
			if err := l.forgetOf(ctx, node, last[node], puts); err != nil {
				return err
			}
		}
	}
}

// forgotten describes the newest removed record of a chain.
type forgotten struct {
	number uint64
	hash   []byte
}

// forgetOf removes the oldest records of a chain.
func (l *Log) forgetOf(ctx context.Context, node im.Node, last forgotten, puts []store.RecordPut) error {
	for range maxTries {
		h, sound, err := l.readHead(ctx, node)
		if err != nil {
			return err
		}
		if !sound || h.was == nil { // the records stay: they show what was changed
			return fmt.Errorf("the end of the records of node %s is not as it was written: run petrel audit verify",
				node)
		}
		if h.rec.Oldest <= last.number {
			h.rec.Oldest, h.rec.Before = last.number+1, last.hash
		}
		p, err := l.put(node, &h.rec, h.was)
		if err != nil {
			return err
		}
		if node == l.node {
			l.head = nil // the next write reads it again
		}
		if err := l.store.Update(ctx, append(puts, p)); !errors.Is(err, store.ErrChanged) {
			return err
		}
	}
	return nil // others write all the time: forget reads the records again
}
