package presence

import (
	"slices"
	"time"

	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A user who has gone, or has begun to block a watcher, is told as online for holdOnline, also to
// those who begin to watch meanwhile. Otherwise a watcher who sets the same list again sees short losses
// of a connection, and tells a block from going. Spec: P-13.5, P-5.4.

// fadeOn has targets that are new be told as online who have gone less than holdOnline ago.
func (p *Presence) fadeOn(added []*target) {
	gone := map[uint64]*target{}
	for _, t := range added {
		if !t.online {
			gone[t.hash] = t
		}
	}
	if len(gone) == 0 {
		return
	}
	for i := range p.fading { // of targets that nobody watched any more
		f := &p.fading[i]
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
			p.fade(fading{t: t, goneAt: t.goneAt})
		}
	}
}

// fade adds one who is told as offline later. Those who are told first are first.
func (p *Presence) fade(f fading) {
	i := len(p.fading)
	for i > 0 && p.fading[i-1].goneAt.After(f.goneAt) {
		i--
	}
	p.fading = slices.Insert(p.fading, i, f)
}

// fadesSince is when a user was online last who blocks somebody since a moment ago, and is still
// told to them as online; the zero time: the user is told as offline. A wall clock that was set
// in between makes it sooner or later.
func (p *Presence) fadesSince(b *storepb.Block, now time.Time) time.Time {
	gone := p.o.Now().Sub(time.UnixMilli(int64(b.OnlineMs)))
	if gone < 0 || gone >= holdOnline {
		return time.Time{}
	}
	return now.Add(-gone)
}
