package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/petrel-im/petrel/internal/store"
)

// readLog calls fn with the number of each commit in a log file, until it
// returns false. end is the offset behind the last commit for which it returned
// true; err is nil if that is the end of the file or fn ended it.
func readLog(l wal.LogicalLog, fn func(commit uint64) bool) (end int64, err error) {
	r := l.OpenForRead()
	defer func() { _ = r.Close() }() // read-only
	for {
		rec, at, err := r.NextRecord()
		var repr []byte
		if err == nil {
			repr, err = io.ReadAll(rec)
		}
		if errors.Is(err, io.EOF) {
			return at.Physical, nil
		} else if err != nil {
			return at.Physical, err
		}
		c, ok := commitOf(repr)
		if !ok {
			return at.Physical, store.ErrCorrupt
		}
		if !fn(c) {
			return at.Physical, nil
		}
	}
}

// commitOf is the number of the commit that a batch in the log is.
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

// trailerBytes is the most that Pebble writes behind the last commit when it
// closes a log file: the rest of a block and an empty chunk. A commit has more.
const trailerBytes = 18 + 11

// checkLogs looks for commits that are missing in the log files that Pebble has
// replayed. The newest commit shows what the last file lacks, and Pebble refuses
// most damage to the others; but it takes one changed bit in the number of a
// chunk for the end of the file. So these must go on from each other and reach
// to their end.
func (v inventory) checkLogs(fs vfs.FS, dir string, replayed []uint64) (*Damaged, error) {
	if len(replayed) < 2 {
		return nil, nil
	}
	logs, err := wal.Scan(wal.Dir{FS: fs, Dirname: dir})
	if err != nil {
		return nil, err
	}
	var gap, short *Damaged
	n := uint64(0)
	for _, l := range logs {
		if !slices.Contains(replayed, uint64(l.Num)) {
			continue
		}
		// An error is the torn end of the newest; in others Pebble has seen it.
		end, _ := readLog(l, func(c uint64) bool {
			if n > 0 && c != n+1 {
				gap = &Damaged{First: n + 1, Last: c - 1}
			}
			n = c
			return gap == nil
		})
		if gap != nil {
			return gap, nil // says more than the length
		}
		i := slices.IndexFunc(v.logs, func(f logFile) bool { return f.number == uint64(l.Num) })
		if i >= 0 && int64(v.logs[i].length) > end+trailerBytes {
			name := logName(v.logs[i].number)
			short = &Damaged{Missing: fmt.Sprintf("log file %s ends after %d of %d bytes", name, end, v.logs[i].length)}
		}
	}
	return short, nil
}
