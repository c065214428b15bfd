package pebblestore

import (
	"log/slog"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configure a store. The zero value of a field stands for its default: the number or the "nil:" in its
// comment.
type Options struct {
	Dir string           // made if it is missing
	FS  vfs.FS           // nil: the disk
	Log *slog.Logger     // nil: nothing is logged
	Now func() time.Time // wall clock of the commit times; nil: time.Now

	CacheBytes    int64 // block cache, 256 MiB; memtables are reserved out of it
	MemTableBytes int64 // an eighth of the cache, at most 32 MiB; four of them may wait for the disk
	OpenTables    int   // files of tables that stay open, 1,000; at least 64

	StoreID      uint64 // the folder must hold this store; 0: any, and a new one only where none was before
	Mark         string // file outside the folder that says how far the store has come; empty: none
	AcceptCopies bool   // open also a folder whose files are copies

	MinFreeBytes int64                  // appends are refused while the disk has less, 256 MiB; negative: no limit
	BallastBytes int64                  // a file given up when the disk is nearly full, 64 MiB; negative: none
	FreeBytes    func() (uint64, error) // what the disk has left; nil: ask the FS
	FreeFiles    func() (uint64, error) // how many files (inodes) may still be made; nil: ask the disk

	CheckEvery time.Duration // interval of the checks of free space and of hung syncs, 1 s
	StallAfter time.Duration // a commit that takes longer makes Writable refuse, 2 s

	ScrubEvery time.Duration // all tables are read once in this time in search of damage, 7 days; negative: never
	ScrubRate  int64         // bytes per second that are read for that, 8 MiB

	tune      func(*pebble.Options) // for tests: smaller files
	sealShare time.Duration         // for tests: seals take at most 1/sealShare of the time, 100
	anyState  bool                  // take also a store that may be an earlier state; set by Renew
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = min(32<<20, o.CacheBytes/8)
	}
	if o.OpenTables == 0 {
		o.OpenTables = 1000
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = 256 << 20
	}
	if o.BallastBytes == 0 {
		o.BallastBytes = 64 << 20
	}
	if o.FreeBytes == nil {
		fs, dir := o.FS, o.Dir
		o.FreeBytes = func() (uint64, error) {
			u, err := fs.GetDiskUsage(dir)
			if err != nil {
				return math.MaxUint64, nil //nolint:nilerr // a file system that cannot tell has no limit
			}
			return u.AvailBytes, nil
		}
	}
	if o.FreeFiles == nil {
		dir := o.Dir
		o.FreeFiles = func() (uint64, error) { return math.MaxUint64, nil }
		if o.FS == vfs.Default {
			o.FreeFiles = func() (uint64, error) { return freeFiles(dir) }
		}
	}
	if o.sealShare == 0 {
		o.sealShare = sealShare
	}
	if o.CheckEvery == 0 {
		o.CheckEvery = time.Second
	}
	if o.ScrubEvery == 0 {
		o.ScrubEvery = 7 * 24 * time.Hour
	}
	if o.ScrubRate <= 0 {
		o.ScrubRate = 8 << 20
	}
	if o.StallAfter == 0 {
		o.StallAfter = 2 * time.Second
	}
	return o
}

// pebbleFormat is the newest format of the pinned Pebble: it has offsets in the log that tell damage from a torn end,
// and checksums in the footers of tables. A higher format makes a store unreadable to older Petrels, so it comes with
// a new store.FormatLevel.
const pebbleFormat = pebble.FormatValueSeparation

// stopWritesAt is the number of overlapping tables in L0 at which all writes stop.
const stopWritesAt = 36

// pebbleOptions returns the options of Pebble. They were measured with batches of 1 to 1,000 rows of 200 bytes.
// L0 may have more than 4 files before a compaction, and the base level is large: reads, which mostly hit the
// tail, become slower, and there are fewer rewrites, so that 12 % more writes can be sustained. After a kill
// the next start replays the log of all memtables and writes them as tables before anything else: 0.9 s of CPU
// for 64 MiB.
func pebbleOptions(o Options, fs vfs.FS, out *failure) *pebble.Options {
	p := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebbleFormat,
		CacheSize:                   o.CacheBytes,
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       12,
		L0StopWritesThreshold:       stopWritesAt,
		LBaseMaxBytes:               1 << 30,
		MaxOpenFiles:                o.OpenTables,
		ErrorIfNotExists:            true,
		EventListener:               out.events(),
		Logger:                      out,
	}
	p.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	for i := range p.Levels {
		p.Levels[i].BlockSize = 16 << 10
		p.Levels[i].IndexBlockSize = 64 << 10
		p.Levels[i].FilterPolicy = keyFilter{}
	}
	if o.tune != nil {
		o.tune(p)
	}
	return p
}

// keyFilter is a Bloom filter with 10 bits for each key that is looked up by itself. Rows and feed entries,
// which are nearly all keys, are read in ranges, and these use no filter. Leaving them out saves a hash per row
// and compaction.
type keyFilter struct{}

const keyFilterPolicy = bloom.FilterPolicy(10)

func filtered(key []byte) bool {
	return len(key) > 0 && key[0] != kindRow && key[0] != kindFeed
}

func (keyFilter) Name() string { return "petrel.keys.1" }

func (keyFilter) MayContain(t pebble.FilterType, filter, key []byte) bool {
	return !filtered(key) || keyFilterPolicy.MayContain(t, filter, key)
}

func (keyFilter) NewWriter(t pebble.FilterType) pebble.FilterWriter {
	return keyFilterWriter{keyFilterPolicy.NewWriter(t)}
}

type keyFilterWriter struct{ pebble.FilterWriter }

func (w keyFilterWriter) AddKey(key []byte) {
	if filtered(key) {
		w.FilterWriter.AddKey(key)
	}
}
