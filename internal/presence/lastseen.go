package presence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wake"
)

const (
	// lastSeenStep is the precision of the times of being online last, which are rounded down: the
	// exact time is private.
	lastSeenStep = 10 * time.Minute

	maxToWrite   = 1 << 16     // times that wait to be stored
	writeAtOnce  = 512         // in one update of the store
	writeEvery   = time.Second // from one update to the next
	endTime      = 2 * time.Second
	storeTries   = 3 // of one update, if other nodes store times of the same users
	lastSeenSize = 8 // bytes of a record: Unix milliseconds, big endian
)

// leaving is a user whose last session here has ended.
type leaving struct {
	account im.Account
	hash    uint64
	at      time.Time
	ms      uint64
}

// lastSeen is the time until which a user was online.
type lastSeen struct {
	account im.Account
	ms      uint64
}

// coarse returns a time in Unix milliseconds, rounded down to the precision that other users may know.
func coarse(t time.Time) uint64 {
	return uint64(t.Truncate(lastSeenStep).UnixMilli())
}

// LastSeen returns when a user was online last, but not after at, in Unix milliseconds. ms is rounded for other
// users; 0: not known. While the user is shown as online, onlineMs is the exact time: at itself, or the end of
// the user's last session on this node. Otherwise it is 0. A damaged record counts as not known.
func (p *Presence) LastSeen(ctx context.Context, a im.Account, at time.Time) (ms, onlineMs uint64, err error) {
	ms = coarse(at)
	hash := p.o.Table.Hash(a)
	if p.o.Table.Online(hash) {
		return ms, uint64(at.UnixMilli()), nil
	}
	p.mu.Lock()
	for _, l := range slices.Backward(p.leaving) { // their times are not stored yet
		if l.hash == hash {
			p.mu.Unlock()
			return min(l.ms, ms), uint64(p.o.Now().Add(-time.Since(l.at)).UnixMilli()), nil
		}
	}
	p.mu.Unlock()
	stored, err := p.readLastSeen(ctx, a)
	if errors.Is(err, store.ErrCorrupt) {
		return 0, 0, nil
	}
	return min(stored, ms), 0, err
}

func (p *Presence) leaveLocked(a im.Account, hash uint64) {
	if len(p.leaving) >= maxLeaving {
		p.Dropped.Add(1)
		return
	}
	p.leaving = append(p.leaving, leaving{a, hash, time.Now(), coarse(p.o.Now())})
	if len(p.leaving) == 1 {
		wake.Set(p.wake)
	}
}

// settleLeaving queues the times of users who have been gone for holdOnline, to be stored. Most users
// are back before that, so few records are written. It returns how long to wait for the next call.
func (p *Presence) settleLeaving(now time.Time) time.Duration {
	for range tellAtOnce {
		p.mu.Lock()
		if len(p.leaving) == 0 {
			p.leaving = nil
			p.mu.Unlock()
			return never
		}
		l := p.leaving[0]
		if wait := l.at.Add(holdOnline).Sub(now); wait > 0 {
			p.mu.Unlock()
			return wait
		}
		p.leaving = p.leaving[1:]
		p.mu.Unlock()
		if p.o.Table.Online(l.hash) {
			continue
		}
		p.mu.Lock()
		if len(p.write) < maxToWrite {
			p.write = append(p.write, lastSeen{l.account, l.ms})
		} else {
			p.Dropped.Add(1)
		}
		p.mu.Unlock()
		wake.Set(p.due)
	}
	return tellPause
}

// writeLastSeen stores the queued times, in batches, until ctx ends.
func (p *Presence) writeLastSeen(ctx context.Context) {
	for {
		select {
		case <-p.due:
		case <-ctx.Done():
			return
		}
		for p.writeSome(ctx) {
			select {
			case <-time.After(writeEvery):
			case <-ctx.Done():
				return
			}
		}
	}
}

// writeSome stores some of the times, and returns whether there may be more.
func (p *Presence) writeSome(ctx context.Context) bool {
	p.mu.Lock()
	list := p.write[:min(len(p.write), writeAtOnce)]
	p.write = p.write[len(list):]
	p.mu.Unlock()
	if len(list) == 0 {
		return false
	}
	err := p.raiseLastSeen(ctx, list)
	for try := 1; try < storeTries && errors.Is(err, store.ErrChanged); try++ {
		err = p.raiseLastSeen(ctx, list)
	}
	if err != nil {
		p.Dropped.Add(uint64(len(list)))
		p.o.Log.Warn("store when users were online last failed", "users", len(list), "err", err)
	}
	return true
}

// raiseLastSeen stores those times that are later than the stored ones. A node that stood still has older times
// than the node to which its users went meanwhile. ErrChanged: another node wrote first, and nothing is stored.
func (p *Presence) raiseLastSeen(ctx context.Context, list []lastSeen) error {
	latest := map[im.Account]uint64{}
	for _, l := range list {
		latest[l.account] = max(latest[l.account], l.ms)
	}
	var puts []store.RecordPut
	for a, ms := range latest {
		was, err := p.o.Store.Record(ctx, store.LastSeen, a.Tenant, []byte(a.User))
		if err != nil {
			return err
		}
		if len(was) != lastSeenSize || binary.BigEndian.Uint64(was) < ms {
			puts = append(puts, store.RecordPut{
				Table: store.LastSeen, Tenant: a.Tenant, Key: []byte(a.User),
				Value: binary.BigEndian.AppendUint64(nil, ms), Check: true, Was: was,
			})
		}
	}
	if len(puts) == 0 {
		return nil
	}
	return p.o.Store.Update(ctx, puts)
}

// writeAtTheEnd stores the times of users whose sessions have ended lately, because the process stops and no
// other node knows these times. It gives up after endTime, or if the store is not writable.
func (p *Presence) writeAtTheEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	p.mu.Lock()
	for _, l := range p.leaving {
		p.write = append(p.write, lastSeen{l.account, l.ms})
	}
	p.leaving = nil
	p.mu.Unlock()
	for ctx.Err() == nil && p.o.Store.Writable() == nil && p.writeSome(ctx) {
	}
}

// readLastSeen returns the time until which a user was online; 0: not known.
func (p *Presence) readLastSeen(ctx context.Context, a im.Account) (uint64, error) {
	b, err := p.o.Store.Record(ctx, store.LastSeen, a.Tenant, []byte(a.User))
	if err != nil || b == nil {
		return 0, err
	}
	if len(b) != lastSeenSize {
		return 0, fmt.Errorf("read when %s was online last: %w", a, store.ErrCorrupt)
	}
	return binary.BigEndian.Uint64(b), nil
}
