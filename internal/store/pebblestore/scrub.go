package pebblestore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// keyScrub is the key of the time at which the last pass ended.
var keyScrub = []byte("sscrub")

// scrubFirst is the least time between a start and its first pass, unless ScrubEvery is shorter.
const scrubFirst = time.Minute

// scrub reads all tables once in ScrubEvery, slowly, until Close, to find damage before a reader does.
func (s *Store) scrub() {
	if s.o.ScrubEvery < 0 {
		return
	}
	wait := scrubFirst
	if at, err := s.scrubbed(); err == nil && !at.IsZero() {
		s.scrubAt.Store(at.UnixMilli())
		wait = max(wait, at.Add(s.o.ScrubEvery).Sub(s.o.Now()))
	}
	for s.rest(min(wait, s.o.ScrubEvery)) {
		if err := s.scrubPass(); err != nil {
			s.log.Warn("scrub failed", "err", err)
		}
		wait = s.o.ScrubEvery
	}
}

// rest waits for d; false: the store closes, or has failed.
func (s *Store) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
	case <-s.out.ch:
	}
	return false
}

// scrubbed returns the end of the last pass; zero: there was none.
func (s *Store) scrubbed() (at time.Time, err error) {
	err = s.read(context.Background(), func() error {
		v, err := s.get(keyScrub)
		if len(v) == 8 {
			at = time.UnixMilli(int64(binary.BigEndian.Uint64(v)))
		}
		return err
	})
	return at, err
}

// scrubPass reads all tables that are in use when it begins, notes the damaged ones, and stores the time of its end.
// If the store closes or fails meanwhile, it returns nil without that.
func (s *Store) scrubPass() error {
	if err := s.enter(); err != nil {
		return err
	}
	all, err := liveTables(s.db)
	s.leave()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b table) int { return slices.Compare([]byte(a.name), []byte(b.name)) })
	po, p := tableOptions(s.o), s.o.place()
	pace := func(bytes int) {
		s.scrubBytes.Add(uint64(bytes))
		s.rest(time.Duration(bytes) * time.Second / time.Duration(s.o.ScrubRate))
	}
	found := 0
	for _, t := range all {
		select {
		case <-s.stop:
			return nil
		case <-s.out.ch:
			return nil
		default:
		}
		damage, err := checkTable(po, p.fs, p.db, t, pace)
		if err != nil {
			return fmt.Errorf("read table %s: %w", t.name, err)
		}
		if damage == nil {
			continue
		}
		if now, err := s.tableOf(t.name); err != nil {
			return err
		} else if now != nil { // it is still in use
			found++
			s.damage.found(t.name, damage)
		}
	}
	now := s.o.Now()
	s.scrubFound.Add(uint64(found))
	s.scrubAt.Store(now.UnixMilli())
	s.log.Info("store was scrubbed", "tables", len(all), "damaged", found)
	return s.write(context.Background(), 64, func(b *pebble.Batch) error {
		return b.Set(keyScrub, be64(uint64(now.UnixMilli())), nil)
	})
}
