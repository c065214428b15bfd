package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/petrel-im/petrel/internal/conv"
	"github.com/petrel-im/petrel/internal/fanout"
	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/wire"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// An inbox of many entries about few conversations and settings is compacted. A snapshot of their sum is
// written after them, in parts, and its last part removes the entries before the snapshot. Each part is
// admitted only directly after the one before (conv/admit.go). If another entry comes between, the rest of
// the snapshot is refused, and its stored parts do not count. Any node may compact, after it has folded the
// inbox for a sync. Spec: P-8.11.

// An inbox is compacted in two cases. It has Syncer.CompactFrom entries, and compactTimes as many as
// conversations and settings. Or its removed settings take maxRemoved bytes, and as many as the present ones:
// one entry may remove many settings.
const (
	compactFrom  = 1024
	compactTimes = 4
	maxRemoved   = 1 << 20 // bytes

	snapshotPart = 32 << 10        // bytes, about
	compactTime  = 5 * time.Second // that a sync may spend on it
)

// dueToCompact tells whether the inbox of l is to be compacted.
func (l *list) dueToCompact(from int) bool {
	if l.entries() < cmp.Or(from, compactFrom) && l.set < maxRemoved {
		return false
	}
	things, removed := l.convs()+l.sums.names, l.set-l.sums.bytes
	return l.entries() >= max(cmp.Or(from, compactFrom), compactTimes*things) ||
		removed >= max(maxRemoved, l.sums.bytes)
}

// snapshot gathers the parts of a snapshot while they are folded.
type snapshot struct {
	first uint64
	parts uint32 // how many parts have come
	bytes int
	items map[im.ConvID]*item
	named map[nameOf]setting
}

// addSnapshot folds a part of a snapshot. With the last part, the snapshot replaces all that was folded
// before. A setting that is not in it was removed.
func (f *folding) addSnapshot(p *petrelv1.InboxSnapshot, q im.Seq, bytes int) error {
	if p.Part == 0 {
		f.snapshot = &snapshot{first: p.First, items: map[im.ConvID]*item{}, named: map[nameOf]setting{}}
	}
	s := f.snapshot
	if s == nil || s.first != p.First || s.parts != p.Part || uint64(q) != p.First+uint64(p.Part) {
		return nil // its beginning was refused, or is gone
	}
	s.parts++
	s.bytes += bytes
	for _, c := range p.Items {
		id, err := im.ParseConvID(c.Conv)
		if err != nil {
			return err
		}
		s.items[id] = &item{id: id, kind: c.Kind, peer: c.Peer, title: c.Title, left: c.Left, since: im.Seq(c.Since),
			at: im.Seq(c.At)}
	}
	parts := folding{named: s.named}
	for _, x := range p.Personal {
		parts.setOne(subject{x.Conv, x.User}, x.Name, x.Value, im.Seq(x.Seq))
	}
	s.named = parts.named
	if p.Last {
		f.list = list{stored: f.stored, first: im.Seq(s.first), read: s.bytes}
		f.touched, f.named, f.snapshot = s.items, s.named, nil
	}
	return nil
}

// snapshotOf returns a snapshot of l and of its settings, in parts. It leaves out removed settings.
func (l *list) snapshotOf(settings []setting) []*petrelv1.InboxSnapshot {
	first := uint64(l.head + 1)
	part := &petrelv1.InboxSnapshot{First: first}
	parts, bytes := []*petrelv1.InboxSnapshot{part}, 0
	grow := func(n int) {
		if bytes += n; bytes > snapshotPart && bytes > n {
			part = &petrelv1.InboxSnapshot{First: first, Part: uint32(len(parts))}
			parts, bytes = append(parts, part), n
		}
	}
	for _, p := range l.parts {
		for i := range p.items.ids {
			it := p.items.item(i)
			grow(len(it.peer) + len(it.title) + 64)
			part.Items = append(part.Items, &petrelv1.InboxItem{
				Conv: it.id.String(), Kind: it.kind, Peer: it.peer, Title: it.title, Left: it.left,
				Since: uint64(it.since), At: uint64(it.at),
			})
		}
	}
	for i := range settings {
		if s := &settings[i]; s.value != "" {
			grow(s.bytes() - SettingBytes + 16)
			part.Personal = append(part.Personal, s.personal())
		}
	}
	part.Last = true
	return parts
}

// compact writes a snapshot of l, which has all parts in memory. If that fails, the next sync with news tries
// again.
func (y *Syncer) compact(ctx context.Context, a im.Account, l *list) {
	if y.Convs == nil || y.Store.Writable() != nil {
		return
	}
	if _, busy := y.compacting.LoadOrStore(a, struct{}{}); busy {
		return
	}
	defer y.compacting.Delete(a)
	ctx, cancel := context.WithTimeout(ctx, compactTime)
	defer cancel()
	key := im.Key{Tenant: a.Tenant, Conv: y.Router.IDs().Inbox(a.Tenant, a.User)}
	// The consumer must have carried the entries first: they are not read again.
	if y.Router.AwaitInboxes(ctx, key) != nil {
		return
	}
	settings, err := y.allSettings(ctx, a, l)
	if err != nil {
		return
	}
	for _, part := range l.snapshotOf(settings) {
		s := &conv.Send{Conv: key, Peer: a.User, Keyed: true}
		s.Entry.ClientMsgId = fmt.Sprintf("snapshot:%d:%d", part.First, part.Part)
		s.Entry.Body = &petrelv1.Message_Inbox{
			Inbox: &petrelv1.InboxEntry{Entry: &petrelv1.InboxEntry_Snapshot{Snapshot: part}}}
		if _, err := send(ctx, y.Convs, s); err != nil {
			return
		}
	}
	y.Compacted.Add(1)
}

// send appends an entry, and waits until it is durable.
func send(ctx context.Context, cs *conv.Convs, s *conv.Send) (im.Seq, error) {
	done := make(chan conv.Result, 1)
	s.Done = func(r conv.Result) { done <- r }
	var wakeUps fanout.WakeUps
	cs.Submit([]*conv.Send{s}, &wakeUps)
	wakeUps.Flush()
	select {
	case r := <-done:
		if r.Err != nil {
			return 0, r.Err
		}
		return r.Seq, nil
	case <-ctx.Done():
		return 0, &im.Error{Code: im.CodeStoreStalled, RetryAfter: time.Second}
	}
}

// keepDropped is how long the rows before a snapshot are kept. They are not read any more, but dedupe finds
// repeats by them. No repeat comes later than that. Spec: P-4.8, P-8.11, P-12.4.
const keepDropped = 30 * 24 * time.Hour

// dropCompacted removes the rows of an inbox below first, the beginning of a snapshot, that are older than
// keepDropped. The younger rows, and all of them if it fails, are left to the next snapshot.
func (c *Consumer) dropCompacted(ctx context.Context, key im.Key, first im.Seq) {
	until := uint64(c.Now().Add(-keepDropped).UnixMilli())
	var failed error
	young := sort.Search(int(first)-1, func(i int) bool { // of the seqs 1..first-1
		old, err := c.isBefore(ctx, key, im.Seq(i+1), until)
		failed = errors.Join(failed, err)
		return !old
	})
	if failed == nil && young > 0 {
		failed = c.store.DropRows(ctx, key, im.Seq(young+1))
	}
	if failed != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "drop compacted entries of an inbox failed", "conv", key.Conv.String(), "err", failed)
	}
}

// isBefore tells whether the row q is older than a time, or dropped already. A damaged row counts
// as old.
func (c *Consumer) isBefore(ctx context.Context, key im.Key, q im.Seq, ms uint64) (before bool, err error) {
	var bad error
	err = c.store.Rows(ctx, key, q, q, func(row store.Row) bool {
		var m petrelv1.Message
		var stored []byte
		if _, stored, bad = store.SplitRow(row.Value); bad == nil {
			bad = wire.ParseMessage(stored, &m)
		}
		before = m.TimeMs < ms
		return true
	})
	if err = cmp.Or(err, bad); errors.Is(err, store.ErrCorrupt) {
		return true, nil
	}
	return before, err
}
