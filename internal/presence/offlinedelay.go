package presence

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A user whose last session has ended is shown as online for holdOnline. A user who
// begins to block a watcher is shown to that watcher in the same way. Both also hold for
// new watches. Otherwise a watcher who sets the same list again would see short losses
// of a connection, and could tell a block from a lost connection. Spec: P-13.5, P-5.4.

// delayNewTargets shows new targets as online if they went offline less than holdOnline ago.
func (p *Presence) delayNewTargets(added []*target) {
	gone := map[uint64]*target{}
	for _, t := range added {
		if !t.online {
			gone[t.hash] = t
		}
	}
	if len(gone) == 0 {
		return
	}
	for i := range p.pending { // of targets that lost their last watcher
		f := &p.pending[i]
		if t := gone[f.t.hash]; t != nil && f.watcher == "" && f.t != t && f.t.goneAt.Equal(f.goneAt) {
			t.online, t.goneAt, t.goneMs = true, f.goneAt, f.t.goneMs
			f.t = t
			delete(gone, t.hash)
		}
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.leaving {
		if t := gone[l.hash]; t != nil && now.Sub(l.at) < holdOnline {
			t.online, t.goneAt, t.goneMs = true, l.at, l.ms
		}
	}
	for _, t := range gone {
		if t.online {
			p.delayOffline(pendingOffline{t: t, goneAt: t.goneAt})
		}
	}
}

// delayOffline puts f into pending, ordered by goneAt. The loop shows
// the user as offline holdOnline after goneAt.
func (p *Presence) delayOffline(f pendingOffline) {
	i := len(p.pending)
	for i > 0 && p.pending[i-1].goneAt.After(f.goneAt) {
		i--
	}
	p.pending = slices.Insert(p.pending, i, f)
}

// blockerOnlineSince returns the time from which on a blocker has no session, as the blocked user sees it.
// Zero: the blocker is shown as offline, because that time is holdOnline or more ago, or in the future. A step
// of the wall clock shifts the result.
func (p *Presence) blockerOnlineSince(b *storepb.Block, now time.Time) time.Time {
	gone := p.o.Now().Sub(time.UnixMilli(int64(b.OnlineMs)))
	if gone < 0 || gone >= holdOnline {
		return time.Time{}
	}
	return now.Add(-gone)
}
