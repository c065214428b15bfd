package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"

	cerrors "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
)

// table is one table in use, as the manifest describes it.
type table struct {
	name   string // of the file
	level  int
	size   uint64
	whole  keyRange // of its keys
	maxSeq uint64
	damage error // set by damagedTables
}

// liveTables returns the tables that db uses.
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
				whole: keyRange{bytes.Clone(i.Smallest.UserKey), next(i.Largest.UserKey)},
			})
		}
	}
	return all, nil
}

func tableName(number uint64) string { return fmt.Sprintf("%06d.sst", number) }

// next returns the least key above key.
func next(key []byte) []byte { return append(bytes.Clone(key), 0) }

// asDamage turns a disk error about the content into damage: an unreadable sector is like a block with a bad
// checksum. Errors of the system, such as a lack of file descriptors, stay as they are.
func asDamage(err error) error {
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EBADMSG) || errors.Is(err, syscall.EUCLEAN) {
		return cerrors.Mark(err, pebble.ErrCorruption)
	}
	return err
}

// tableReader is a table file, open for reading. It turns disk errors about the content into damage.
type tableReader struct {
	vfs.File
	read func(bytes int) // is called before each read with its number of bytes; may be nil
}

// ReadAt implements vfs.File.
func (f *tableReader) ReadAt(p []byte, off int64) (int, error) {
	if f.read != nil {
		f.read(len(p))
	}
	n, err := f.File.ReadAt(p, off)
	return n, asDamage(err)
}

func tableOptions(o Options) *pebble.Options {
	po := pebbleOptions(o, o.FS, newFailure(o.Log))
	po.EnsureDefaults()
	return po
}

// openTable opens a table for reading. See tableReader for the function read.
func openTable(po *pebble.Options, fs vfs.FS, path string, read func(int)) (*sstable.Reader, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	in, err := sstable.NewSimpleReadable(&tableReader{f, read})
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

// checkTable reads a table and compares its length and checksums. damage describes the fault of the table, also a
// missing file; err is an error of the system.
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

// loss is the unreadable part of a table.
type loss struct {
	keyRange
	entries uint64 // 0: not known
}

// of returns l as the damaged range with the number n, in the table t.
func (l loss) of(t table, n uint64) damagedRange {
	return damagedRange{keyRange: l.keyRange, N: n, File: t.name, MaxSeq: t.maxSeq, Entries: l.entries}
}

// salvage adds to w the entries of a table before its first damaged block and after its last one, and the deletions
// of ranges. It returns the range between the damaged blocks; nil: all entries were read. A missing table, or one
// with an unreadable index, is lost as a whole. With a nil w it only reads. Errors: errTransient, and others.
func salvage(po *pebble.Options, fs vfs.FS, path string, t table, w sstable.RawWriter) (*loss, error) {
	r, err := openTable(po, fs, path, nil)
	if err != nil {
		if isNotExist(err) || pebble.IsCorruptionError(err) {
			return &loss{keyRange: t.whole}, nil
		}
		return nil, err
	}
	defer func() { _ = r.Close() }() // read-only
	// The iterator leaves out an entry that a newer one in the same table replaces: the newer one may be lost.
	it, err := r.NewIter(sstable.IterTransforms{HideObsoletePoints: true}, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		if pebble.IsCorruptionError(err) {
			return &loss{keyRange: t.whole}, nil
		}
		return nil, err
	}
	defer func() { _ = it.Close() }() // read-only
	kept := uint64(0)
	add := func(k pebble.InternalKey, value []byte) error {
		if kept++; w == nil {
			return nil
		}
		return w.Add(k, value, false)
	}
	var before, after []byte // the last key before the damage, and the first one after it
	for kv := it.First(); kv != nil; kv = it.Next() {
		if err := add(kv.K, kv.InPlaceValue()); err != nil {
			return nil, err
		}
		before = append(before[:0], kv.K.UserKey...)
	}
	if it.Error() == nil {
		return nil, deletions(r, w)
	}
	if pebble.IsCorruptionError(it.Error()) {
		for kv := it.Last(); kv != nil; kv = it.Prev() {
			after = append(after[:0], kv.K.UserKey...)
		}
	}
	if err := it.Error(); err == nil || !pebble.IsCorruptionError(err) {
		return nil, fmt.Errorf("read %s once more: %w", path, errors.Join(err, errTransient))
	}
	lost := &loss{keyRange: t.whole}
	if before != nil {
		lost.From = next(before)
	}
	if after != nil {
		lost.To = after
		for kv := it.SeekGE(after, 0); kv != nil; kv = it.Next() {
			if err := add(kv.K, kv.InPlaceValue()); err != nil {
				return nil, err
			}
		}
		if err := it.Error(); err != nil {
			return nil, err
		}
	}
	if props, err := r.ReadPropertiesBlock(context.Background(), nil); err == nil {
		lost.entries = props.NumEntries - props.NumRangeDeletions - kept
	}
	return lost, deletions(r, w)
}

// errTransient is the error of a table that reads differently the second time.
var errTransient = errors.New("the table changes while it is read")

// deletions copies the deletions of ranges to w, and omits unreadable ones. They cover only rows below first_seq,
// feed entries below the trim, and marks of damaged ranges that a repair has ended, and nobody reads those. All
// other keys are deleted one by one: if the deletion of a range is lost, its keys come back without a trace.
func deletions(r *sstable.Reader, w sstable.RawWriter) error {
	if w == nil {
		return nil
	}
	it, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err == nil && it != nil {
		defer it.Close()
		span, e := it.First()
		for ; span != nil; span, e = it.Next() {
			if err := w.EncodeSpan(*span); err != nil {
				return err
			}
		}
		err = e
	}
	if pebble.IsCorruptionError(err) {
		return nil
	}
	return err
}

// mendTable makes a new file, to, with the readable part of table t, and returns the lost part, nil if there is none.
// The file gets the size that Pebble's manifest has for the table. The surplus bytes lie before the footer, where
// nothing refers to them. If the readable part does not fit into this size, mendTable fails.
func mendTable(po *pebble.Options, fs vfs.FS, dir, to string, t table) (*loss, error) {
	format := pebbleFormat.MaxTableFormat()
	for _, smaller := range []bool{false, true} {
		wo := po.MakeWriterOptions(t.level, format)
		if smaller {
			wo.Compression, wo.BlockSize, wo.FilterPolicy = sstable.ZstdCompression, 64<<10, nil
		}
		f, err := fs.Create(to, vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, err
		}
		w := sstable.NewRawWriter(tableWriter{f}, wo)
		lost, err := salvage(po, fs, fs.PathJoin(dir, t.name), t, w)
		if e := w.Close(); err == nil {
			err = e
		}
		if err != nil {
			return nil, err
		}
		m, err := w.Metadata()
		if err != nil {
			return nil, err
		}
		if m.Size <= t.size {
			return lost, pad(fs, to, int64(m.Size), int64(t.size), format.FooterSize())
		}
	}
	return nil, fmt.Errorf("the readable part of table %s does not fit into its %d bytes", t.name, t.size)
}

// tableWriter is a new table file.
type tableWriter struct{ file vfs.File }

// Write implements objstorage.Writable.
func (w tableWriter) Write(p []byte) error {
	_, err := w.file.Write(p)
	return err
}

// Finish implements objstorage.Writable.
func (w tableWriter) Finish() error { return errors.Join(w.file.Sync(), w.file.Close()) }

// Abort implements objstorage.Writable.
func (w tableWriter) Abort() { _ = w.file.Close() } // the table is written again

// pad makes a file longer: from and to are its old and its new length, and footer is the length of its footer, which
// pad moves to the new end. The file is durable when pad returns.
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
