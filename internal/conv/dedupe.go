package conv

import (
	"context"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// repeat tells whether s is stored already, whatever its sender's standing is
// now. It comes before everything that could refuse s. Spec: P-4.4, P-4.7.
//
// found: r is the answer. errScan: the tail must be extended first. slot: with
// a keyed send that is new, where its dedupe key goes.
func (b *builder) repeat(c *conv, s *Send, hash, mac uint64) (r Result, found bool, slot uint8, err error) {
	l := &c.log
	if s.Create != nil && l.head > 0 {
		r, err := b.created(c, s, mac)
		return r, true, 0, err
	}
	var failure error
	match := func(q im.Seq) bool {
		r, found, failure = b.compare(c, s, q, mac)
		return found || failure != nil
	}
	if !s.Keyed {
		if e := c.checkAfter(s.After); e != nil {
			return Result{Err: e}, true, 0, nil
		}
		if s.After < l.tail.from {
			return Result{}, false, 0, errScan
		}
		l.tail.find(s.After, hash, match)
		return r, found, 0, failure
	}
	// The tail holds what a dedupe key of this very batch cannot show yet.
	if l.tail.find(0, hash, match) || failure != nil {
		return r, found, 0, failure
	}
	seqs, err := b.ow.store.Dedupe(context.Background(), c.key, hash)
	if err != nil {
		return Result{}, false, 0, err
	}
	for _, q := range seqs {
		if q < l.info.firstSeq() {
			return Result{Err: &im.Error{Code: im.CodeTooOld}}, true, 0, nil
		}
		if match(q) {
			break
		}
	}
	return r, found, uint8(len(seqs)), failure
}

// created answers the creation of a group that is there. The operator's key
// names it, whatever was asked; a user's call is repeated with the same content.
func (b *builder) created(c *conv, s *Send, mac uint64) (Result, error) {
	if s.Entry.From == "" {
		return Result{Seq: 1, Repeat: true}, nil
	}
	if c.log.info.firstSeq() > 1 {
		return Result{Err: &im.Error{Code: im.CodeTooOld}}, nil
	}
	r, found, err := b.compare(c, s, 1, mac)
	if !found {
		r.Err = &im.Error{Code: im.CodeConflict}
	}
	return r, err
}

// checkAfter refuses an after that cannot be looked up.
func (c *conv) checkAfter(after im.Seq) *im.Error {
	l := &c.log
	switch {
	case after > l.head:
		return &im.Error{Code: im.CodeAfterAhead, Head: l.head}
	case after+1 < l.info.firstSeq():
		return &im.Error{Code: im.CodeTooOld}
	case after < l.tail.from && l.head-after > MaxScan:
		return &im.Error{Code: im.CodeBehind, Head: c.point.Load().head}
	}
	return nil
}

// compare looks at the row q, whose hash is that of s: the same sender and id
// make s a repeat, and another first body a conflict.
func (b *builder) compare(c *conv, s *Send, q im.Seq, mac uint64) (Result, bool, error) {
	value, err := b.row(c, q)
	if err != nil {
		return Result{}, false, err
	}
	head, stored, err := store.SplitRow(value)
	if err != nil {
		return Result{}, false, err
	}
	var m petrelv1.Message
	if err := wire.ParseMessage(stored, &m); err != nil {
		return Result{}, false, fmt.Errorf("read %s seq %d: %w", c.key, q, store.ErrCorrupt)
	}
	switch {
	case m.From != s.Entry.From || m.ClientMsgId != s.Entry.ClientMsgId:
		return Result{}, false, nil // two ids with one hash
	case head.MAC != mac:
		return Result{Err: &im.Error{Code: im.CodeConflict}}, true, nil
	default:
		return Result{Seq: q, TimeMs: m.TimeMs, Repeat: true}, true, nil
	}
}

// row finds a row of the log's side: in the batch being built, else in the
// store, durable or not. An answer drawn from it leaves behind the batch.
func (b *builder) row(c *conv, q im.Seq) ([]byte, error) {
	for _, st := range b.staged {
		if st.seq == q {
			return st.value, nil
		}
	}
	var value []byte
	err := b.ow.store.Rows(context.Background(), c.key, q, q, func(r store.Row) bool {
		value = append(value, r.Value...)
		return true
	})
	return value, err
}
