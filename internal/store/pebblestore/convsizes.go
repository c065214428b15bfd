package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
)

// sizesAtOnce bounds the conversations that one iterator visits: while it is open, compacted tables stay on
// the disk.
const sizesAtOnce = 1000

// Sizes implements store.Store.
func (s *Store) Sizes(ctx context.Context, fn func(im.Key, store.Size) bool) error {
	for from := []byte{kindRow}; from != nil; {
		err := s.read(ctx, func() (err error) {
			from, err = s.someSizes(from, fn)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// someSizes calls fn for at most sizesAtOnce conversations, beginning at the key from, and returns the key from which
// to continue; nil: there are no more conversations, or fn has returned false.
func (s *Store) someSizes(from []byte, fn func(im.Key, store.Size) bool) (next []byte, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{kindRow + 1}})
	if err != nil {
		return nil, asRead(err)
	}
	defer func() {
		if e := it.Close(); err == nil {
			err = asRead(e)
		}
	}()
	ok := it.First()
	for range sizesAtOnce {
		if !ok {
			return nil, asRead(it.Error())
		}
		key := it.Key()
		if len(key) != rowKeyLen {
			return nil, fmt.Errorf("the key of a row has %d bytes: %w", len(key), store.ErrCorrupt)
		}
		c, first := im.Key{Tenant: im.Tenant(binary.BigEndian.Uint32(key[1:])), Conv: im.ConvID(key[5:convKeyLen])},
			seqOf(key)
		next = after(convKey(kindRow, c))
		if !it.SeekLT(next) {
			return nil, asRead(it.Error())
		}
		size := store.Size{Rows: uint64(seqOf(it.Key())-first) + 1}
		step, read, sum := store.SizeStep(size.Rows), uint64(0), uint64(0)
		for at := uint64(0); at < size.Rows; at += step {
			if !it.SeekGE(rowKey(c, first+im.Seq(at))) {
				return nil, asRead(it.Error())
			}
			v := it.LazyValue()
			read, sum = read+1, sum+uint64(v.Len())
		}
		size.Bytes = sum * size.Rows / read
		if !fn(c, size) {
			return nil, nil
		}
		ok = it.SeekGE(next)
	}
	return next, nil
}
