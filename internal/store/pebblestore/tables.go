package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	cerrors "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
)

// hole is a range of keys of which some cannot be read in a table:
// from <= key < to.
type hole struct{ from, to []byte }

// table is one table in use: what the manifest says of it.
type table struct {
	name   string // of the file
	level  int
	size   uint64
	whole  hole // the range of its keys
	maxSeq uint64
}

// liveTables are the tables that db uses.
func liveTables(db *pebble.DB) ([]table, error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, err
	}
	var all []table
	for l, infos := range levels {
		for _, i := range infos {
			all = append(all, table{
				name: tableName(uint64(i.FileNum)), level: l, size: i.Size, maxSeq: uint64(i.LargestSeqNum),
				whole: hole{bytes.Clone(i.Smallest.UserKey), next(i.Largest.UserKey)},
			})
		}
	}
	return all, nil
}

func tableName(number uint64) string { return fmt.Sprintf("%06d.sst", number) }

// next is the least key above key.
func next(key []byte) []byte { return append(bytes.Clone(key), 0) }

// asDamage marks an error of the disk that is about what lies there as damage:
// a sector that cannot be read is one like a block with a bad checksum. Errors of
// the system, such as a lack of file descriptors, are left as they are.
func asDamage(err error) error {
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) || errors.Is(err, syscall.EUCLEAN) {
		return cerrors.Mark(err, pebble.ErrCorruption)
	}
	return err
}

// tableReader is a table file that is read.
type tableReader struct {
	vfs.File
	read func(bytes int) // is told before bytes are read; nil: nobody
}

// ReadAt implements vfs.File.
func (f *tableReader) ReadAt(p []byte, off int64) (int, error) {
	if f.read != nil {
		f.read(len(p))
	}
	n, err := f.File.ReadAt(p, off)
	return n, asDamage(err)
}

// openTable opens a table for reading. nil without an error: it is missing.
func openTable(po *pebble.Options, fs vfs.FS, path string, read func(int)) (*sstable.Reader, error) {
	f, err := fs.Open(path)
	if isNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	in, err := objstorageprovider.NewFileReadable(&tableReader{f, read}, fs, objstorageprovider.NewReadaheadConfig(), path)
	if err != nil {
		_ = f.Close() // read-only
		return nil, err
	}
	r, err := sstable.NewReader(context.Background(), in, po.MakeReaderOptions())
	if err != nil {
		_ = in.Close() // read-only
		return nil, err
	}
	return r, nil
}

// checkTable reads a table and compares its checksums. missing, damage: what is
// wrong, nil if nothing. Any other error is of the system.
func checkTable(po *pebble.Options, fs vfs.FS, dir string, t table, read func(int)) (damage, err error) {
	path := fs.PathJoin(dir, t.name)
	st, err := fs.Stat(path)
	if isNotExist(err) {
		return fmt.Errorf("table %s is missing: %w", t.name, store.ErrCorrupt), nil
	} else if err != nil {
		return nil, err
	}
	if uint64(st.Size()) != t.size {
		return fmt.Errorf("table %s has %d bytes, not %d: %w", t.name, st.Size(), t.size, store.ErrCorrupt), nil
	}
	r, err := openTable(po, fs, path, read)
	if err == nil && r == nil {
		return fmt.Errorf("table %s is missing: %w", t.name, store.ErrCorrupt), nil
	}
	if err == nil {
		err = r.ValidateBlockChecksums()
		if e := r.Close(); err == nil {
			err = e
		}
	}
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("table %s: %w: %w", t.name, store.ErrCorrupt, plain{err}), nil
	}
	return nil, err
}

// salvage passes what can be read of a table to w, in order, and returns where it
// has holes: each block is read by its own checksum, where the index says or, if that
// cannot be read, where the block before it ends. w may be nil.
func salvage(po *pebble.Options, fs vfs.FS, path string, t table, w sstable.RawWriter) (holes []hole, err error) {
	in, err := fs.Open(path)
	if isNotExist(err) {
		return []hole{t.whole}, nil
	} else if err != nil {
		return nil, err
	}
	f := &tableReader{File: in}
	defer func() { _ = f.Close() }() // read-only
	s := &salvager{po: po, t: t, w: w, blocks: dataBlocks{schema: po.KeySchemas[po.KeySchema], file: f}}
	r, err := openTable(po, fs, path, nil)
	if err == nil && r != nil {
		var l *sstable.Layout
		if l, err = r.Layout(); err == nil {
			s.blocks.known, s.blocks.at = true, l.Data
		}
	}
	if r != nil {
		defer func() { _ = r.Close() }() // read-only
	}
	if err != nil && !pebble.IsCorruptionError(err) {
		return nil, err
	}
	if !s.blocks.known {
		if s.blocks.content, err = readWhole(f); err != nil {
			return nil, err
		}
	}
	if holes, err = s.points(); err != nil || r == nil || w == nil {
		return holes, err
	}
	return holes, s.deletions(r)
}

type salvager struct {
	po     *pebble.Options
	t      table
	blocks dataBlocks
	w      sstable.RawWriter
	last   []byte // key of the newest entry that was passed on; nil: there was none
}

// points passes the entries on.
func (s *salvager) points() (holes []hole, err error) {
	from := s.t.whole.from // where a hole would begin
	open := false          // there is one
	for {
		b, behind, err := s.blocks.next()
		if err != nil {
			return nil, err
		}
		open = open || behind
		if b == nil {
			break
		}
		first, err := s.pass(b)
		if err != nil {
			return nil, err
		}
		if first == nil { // nothing in it is in use, or it is not of this table
			continue
		}
		if open {
			holes = append(holes, hole{from, first})
		}
		from, open = next(s.last), false
	}
	if open && bytes.Compare(from, s.t.whole.to) < 0 {
		holes = append(holes, hole{from, s.t.whole.to})
	}
	return holes, nil
}

// pass passes the entries of a block on, and returns the first key. Those that a newer
// one in the same table has replaced are left out: the newer one may be in a hole.
func (s *salvager) pass(b *colblk.DataBlockDecoder) (first []byte, err error) {
	var it colblk.DataBlockIter
	it.InitOnce(s.blocks.schema, s.po.Comparer, nil)
	if err := it.Init(b, block.IterTransforms{HideObsoletePoints: true}); err != nil {
		return nil, err
	}
	defer func() { _ = it.Close() }() // it holds nothing
	for kv := it.First(); kv != nil; kv = it.Next() {
		if first == nil {
			if !s.t.whole.has(kv.K.UserKey) || s.last != nil && bytes.Compare(kv.K.UserKey, s.last) < 0 {
				return nil, nil
			}
			first = bytes.Clone(kv.K.UserKey)
		}
		if s.w != nil {
			if err := s.w.Add(kv.K, kv.InPlaceValue(), false); err != nil {
				return nil, err
			}
		}
		s.last = append(s.last[:0], kv.K.UserKey...)
	}
	return first, it.Error()
}

// deletions copies the deletions of ranges. If they cannot be read they are given
// up: only rows below first_seq and entries of the feed below the trim were
// deleted so, and nobody asks for those; and scars that a repair has ended, which then
// hide what is sound. All else is deleted key by key, or it would be back and nobody told.
func (s *salvager) deletions(r *sstable.Reader) error {
	it, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || it == nil {
		_, err = corrupt(err)
		return err
	}
	defer it.Close()
	span, err := it.First()
	for ; span != nil; span, err = it.Next() {
		if err := s.w.EncodeSpan(*span); err != nil {
			return err
		}
	}
	_, err = corrupt(err)
	return err
}

// corrupt tells damage from other errors.
func corrupt(err error) (bool, error) {
	if err != nil && pebble.IsCorruptionError(err) {
		return true, nil
	}
	return false, err
}

// mendTable writes what can be read of a table to the file to, of the same size:
// Pebble's manifest names it. The bytes that are too many lie before the footer,
// where nothing refers to them.
func mendTable(po *pebble.Options, fs vfs.FS, dir, to string, t table) ([]hole, error) {
	for _, smaller := range []bool{false, true} {
		holes, size, footer, err := rewriteTable(po, fs, dir, to, t, smaller)
		if err != nil {
			return nil, err
		}
		if size <= t.size {
			return holes, pad(fs, to, int64(size), int64(t.size), footer)
		}
	}
	return nil, fmt.Errorf("what is left of table %s does not fit into its %d bytes", t.name, t.size)
}

func rewriteTable(po *pebble.Options, fs vfs.FS, dir, to string, t table, smaller bool) (holes []hole, size uint64, footer int, err error) {
	f, err := fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, 0, 0, err
	}
	format := pebbleFormat.MaxTableFormat()
	wo := po.MakeWriterOptions(t.level, format)
	if smaller {
		wo.Compression, wo.BlockSize, wo.FilterPolicy = block.ZstdCompression, 64<<10, nil
	}
	w := sstable.NewRawWriter(objstorageprovider.NewFileWritable(f), wo)
	holes, err = salvage(po, fs, fs.PathJoin(dir, t.name), t, w)
	if e := w.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, 0, 0, err
	}
	m, err := w.Metadata()
	if err != nil {
		return nil, 0, 0, err
	}
	return holes, m.Size, format.FooterSize(), nil
}

// pad moves the footer of a file to the end of a larger one.
func pad(fs vfs.FS, path string, from, to int64, footer int) error {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	foot := make([]byte, footer)
	at := from - int64(footer)
	if _, err = f.ReadAt(foot, at); err == nil && from < to {
		zero := make([]byte, 64<<10)
		for end := to - int64(footer); at < end && err == nil; at += int64(len(zero)) {
			_, err = f.WriteAt(zero[:min(int64(len(zero)), end-at)], at)
		}
		if err == nil {
			_, err = f.WriteAt(foot, to-int64(footer))
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
