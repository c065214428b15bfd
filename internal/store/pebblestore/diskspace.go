package pebblestore

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/petrel-im/petrel/internal/store"
)

// minFreeFiles is the least number of files that the disk must have room for: logs and tables of some hours.
const minFreeFiles = 1000

// space refuses appends before the disk is full: below a limit of free bytes, or of free files, while Pebble
// can still write tables. If the free bytes fall below half of the limit, it deletes the ballast file, so that
// Pebble has more room. The space between the limit and a quarter of it is a reserve for operators.
type space struct {
	log     *slog.Logger
	fs      vfs.FS
	path    string // of the ballast
	ballast int64  // bytes; 0: none
	limit   uint64 // free bytes below which appends are refused
	free    func() (uint64, error)
	files   func() (uint64, error)

	full  atomic.Bool
	spent atomic.Bool // the reserve is used up
	held  bool        // the ballast exists; after init only check uses this field and the next one
	low   bool        // warn has logged, and is not armed again
}

func (s *space) init(o Options, p place) {
	s.log, s.fs, s.path, s.free, s.files = o.Log, p.fs, p.ballast, o.FreeBytes, o.FreeFiles
	s.limit, s.ballast = uint64(max(o.MinFreeBytes, 0)), max(o.BallastBytes, 0)
	if st, err := s.fs.Stat(s.path); err == nil {
		s.held = true
		if s.ballast == 0 || st.Size() > s.ballast {
			s.drop()
		}
	}
}

// check compares the free bytes and files with their limits. It takes appends again only when a quarter more
// than the limit is free, so that the answer does not flap. If the free bytes are unknown, it changes nothing. If
// only the free files are unknown, it does not begin to refuse appends for lack of files, nor take them again.
func (s *space) check() {
	free, err := s.free()
	if err != nil {
		s.log.Warn("free space is unknown", "err", err)
		return
	}
	files, err := s.files()
	if err != nil {
		s.log.Warn("free files are unknown", "err", err)
		files = minFreeFiles
	}
	s.warn(free)
	full := s.full.Load()
	s.spent.Store(free < s.limit/4 || files < minFreeFiles/4)
	switch {
	case files < minFreeFiles:
		if !full {
			s.full.Store(true)
			s.log.Error("disk nearly out of inodes, sends are refused: remove files", "free_files", files,
				"limit_files", minFreeFiles)
		}
	case free < s.limit:
		if s.held && free < s.limit/2 {
			s.drop()
		}
		if !full {
			s.full.Store(true)
			s.log.Error("disk nearly full, sends are refused", "free_bytes", free, "limit_bytes", s.limit)
		}
	case free >= s.limit+s.limit/4 && (!full || files >= minFreeFiles+minFreeFiles/4):
		if full {
			s.full.Store(false)
			s.log.Info("disk has space again", "free_bytes", free, "free_files", files)
		}
		if !s.held && s.ballast > 0 && free >= 2*s.limit+uint64(s.ballast) {
			s.take()
		}
	}
}

// warn logs once when less than twice the limit is free, while there is time to free some space. It logs this again
// only after two and a half times the limit were free.
func (s *space) warn(free uint64) {
	switch {
	case free >= 2*s.limit+s.limit/2:
		s.low = false
	case free < 2*s.limit && free >= s.limit && !s.low:
		s.low = true
		s.log.Warn("disk is getting full: with less than limit_bytes sends are refused", "free_bytes", free,
			"limit_bytes", s.limit)
	}
}

// refuses tells whether an update with this context gets ErrFull.
func (s *space) refuses(ctx context.Context) bool {
	return s.full.Load() && (s.spent.Load() || !store.IsForOperators(ctx))
}

// take creates the ballast. If the file system cannot reserve blocks, the store has no ballast.
func (s *space) take() {
	f, err := s.fs.Create(s.path, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Preallocate(0, s.ballast)
		if e := f.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		s.ballast = 0
		s.log.Info("reserve ballast failed", "err", fmt.Errorf("reserve %s: %w", s.path, err))
		return
	}
	s.held = true
}

func (s *space) drop() {
	if err := s.fs.Remove(s.path); err != nil && !isNotExist(err) {
		s.log.Warn("give up ballast failed", "err", err)
		return
	}
	s.held = false
}
