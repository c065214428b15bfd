package conv

import (
	"context"
	"errors"
	"fmt"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// errScan says that the tail of a conversation does not reach down to the after
// of a send: a loader must extend it first.
var errScan = errors.New("the tail does not reach down to after")

// deduper finds out whether a send is stored already.
type deduper struct {
	store store.Store
	batch *batch // the one being built
}

// identity has the two hashes by which dedupe recognizes a repeat: hash is of the sender and the client message
// id, mac of the first body (hasher.first).
type identity struct{ hash, mac uint64 }

// find tells whether s is stored already. It comes before admission, because a repeat gets its seq even if
// its sender is not a member any more. (Prepare has refused before only for reasons in the frame itself.)
// Spec: P-4.4, P-4.7.
//
// found: r is the answer to s, an ack or a refusal. errScan: the tail must be extended first. slot is for a
// new keyed send: the slot of its dedupe key.
func (d *deduper) find(c *conv, s *Send, id identity) (r Result, found bool, slot uint8, err error) {
	l := &c.log
	if s.Create != nil && l.head > 0 {
		r, err := d.created(c, s, id)
		return r, true, 0, err
	}
	var failure error
	met := false // whether there is a row with this hash
	match := func(q im.Seq) bool {
		met = true
		r, found, failure = d.compare(c, s, q, id)
		if q < l.info.firstSeq() && errors.Is(failure, store.ErrCorrupt) { // the row was dropped
			r, found, failure = Result{Err: &im.Error{Code: im.CodeTooOld}}, true, nil
		}
		return found || failure != nil
	}
	if !s.Keyed {
		if e := c.checkAfter(s.After); e != nil {
			// a former member must not learn how many entries followed. Spec: P-8.3
			if last, left := l.info.members.leftAt(im.User(s.Entry.From)); left {
				if s.After >= last {
					return Result{}, false, 0, nil // nothing that they sent is above it
				}
				e.Head = min(e.Head, last)
			}
			return Result{Err: e}, true, 0, nil
		}
		if s.After < l.tail.from {
			return Result{}, false, 0, errScan
		}
		l.tail.find(s.After, id.hash, match)
		return r, found, 0, failure
	}
	// The store does not have the dedupe keys of this batch yet. The tail has its
	// hashes.
	if l.tail.find(0, id.hash, match) || failure != nil {
		return r, found, 0, failure
	}
	if l.tail.from == 0 && !met { // the tail has every row that there ever was
		return r, false, 0, nil
	}
	seqs, err := d.store.Dedupe(context.Background(), c.key, id.hash)
	if err != nil {
		return Result{}, false, 0, err
	}
	for _, q := range seqs {
		if match(q) {
			break
		}
	}
	return r, found, uint8(len(seqs)), failure
}

// created answers the creation of a group that exists already. The operator names a group by a key, and gets its
// first entry as the answer, without a comparison. The creation by a user is a repeat if it equals the first one,
// and otherwise a conflict. Codes: conflict, too_old.
func (d *deduper) created(c *conv, s *Send, id identity) (Result, error) {
	if s.Entry.From == "" {
		return Result{Seq: 1, Repeat: true}, nil
	}
	if c.log.info.firstSeq() > 1 {
		return Result{Err: &im.Error{Code: im.CodeTooOld}}, nil
	}
	r, found, err := d.compare(c, s, 1, id)
	if !found {
		r.Err = &im.Error{Code: im.CodeConflict}
	}
	return r, err
}

// checkAfter refuses an after that is above the head, below the first seq, or both below the tail and more than
// MaxScan rows below the head. Codes: after_ahead, too_old, behind.
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

// compare looks at the row q, which has the hash of s. If the row has the sender and
// the client message id of s, it settles s: with the same first body s is a repeat,
// with another one a conflict. If not, it returns false: two ids have one hash.
func (d *deduper) compare(c *conv, s *Send, q im.Seq, id identity) (Result, bool, error) {
	value, err := d.batch.row(d.store, c.key, q)
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
	case head.MAC != id.mac:
		return Result{Err: &im.Error{Code: im.CodeConflict}}, true, nil
	default:
		if head.Flags&perViewerFlags != 0 { // the sender gets the answer of the first ack
			if stored, err = c.log.info.viewer(im.User(m.From)).see(&head, stored); err == nil {
				err = wire.ParseMessage(stored, &m)
			}
			if err != nil {
				return Result{}, false, err
			}
		}
		r := s.stored(&m, stored)
		r.Repeat = true
		return r, true, nil
	}
}
