package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/petrel-im/petrel/internal/store"
)

// eachBatch calls fn with each batch in a log file until fn returns false. repr is valid during the call. end
// is the offset behind the last batch for which fn returned true. err is nil if the read has reached the end of
// the file, or fn has stopped it.
func eachBatch(l wal.LogicalLog, fn func(repr []byte) bool) (end int64, err error) {
	r := l.OpenForRead()
	defer func() { _ = r.Close() }() // read-only
	var buf bytes.Buffer
	for {
		rec, at, err := r.NextRecord()
		if err == nil {
			buf.Reset()
			_, err = buf.ReadFrom(rec)
		}
		if errors.Is(err, io.EOF) {
			return at.Physical, nil
		} else if err != nil {
			return at.Physical, err
		}
		if !fn(buf.Bytes()) {
			return at.Physical, nil
		}
	}
}

// readLog calls fn with the number of each commit in a log file until fn returns false. end is the offset
// behind the last commit for which fn returned true. err is nil if the read has reached the end of the file, or
// fn has stopped it. A batch without a commit number is ErrCorrupt.
func readLog(l wal.LogicalLog, fn func(commit uint64) bool) (end int64, err error) {
	whole := true
	end, err = eachBatch(l, func(repr []byte) bool {
		c, ok := commitOf(repr)
		whole = ok
		return ok && fn(c)
	})
	if !whole {
		err = store.ErrCorrupt
	}
	return end, err
}

// commitOf returns the number of the commit in a batch of the log; false: the batch has none.
func commitOf(repr []byte) (uint64, bool) {
	if len(repr) < batchrepr.HeaderLen {
		return 0, false
	}
	for r := batchrepr.Read(repr); ; {
		kind, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return 0, false
		}
		if kind == pebble.InternalKeyKindSet && bytes.Equal(key, keyCommit) {
			l, err := parseLast(value)
			return l.n, err == nil
		}
	}
}

// checkLogs calls the function each with every batch of the log files in replayed, the numbers of those that Pebble
// would replay. It returns the first range of commit numbers that is missing, nil if none is. n is the newest commit
// in the tables; 0: it is not known, and the log may begin with any commit. The first file must have a commit then:
// if it is empty, nothing shows what it has lost. Pebble does not notice such a gap: if one bit of the log number in a
// chunk has changed, it takes the chunk for the end of the file. A loss at the end of the last file is left to the
// comparison with the witness. Damage that Pebble would refuse is an error.
func checkLogs(fs vfs.FS, dir string, replayed []uint64, n uint64, each func(repr []byte) error) (*Damaged, error) {
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return nil, err
	}
	logs = slices.DeleteFunc(logs, func(l wal.LogicalLog) bool { return !slices.Contains(replayed, uint64(l.Num)) })
	var gap *Damaged
	for i, l := range logs {
		var failed error
		_, err := eachBatch(l, func(repr []byte) bool {
			if c, ok := commitOf(repr); ok && gap == nil {
				if n > 0 && c > n+1 {
					gap = &Damaged{First: n + 1, Last: c - 1}
				}
				n = max(n, c)
			}
			failed = each(repr)
			return failed == nil
		})
		if failed != nil {
			return nil, failed
		}
		// the torn end of the newest file, which was never acked
		torn := i == len(logs)-1 && errors.Is(err, record.ErrUnexpectedEOF)
		if err != nil && !torn {
			return nil, fmt.Errorf("read log file %s: %w", logName(uint64(l.Num)), err)
		}
		if n == 0 {
			return nil, fmt.Errorf("log file %s has no commit, and the tables do not show the one before it: %w",
				logName(uint64(l.Num)), store.ErrCorrupt)
		}
	}
	return gap, nil
}
