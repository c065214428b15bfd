package inbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/policy"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// item is a conversation in a user's list, as the inbox's entries left it.
type item struct {
	id    im.ConvID
	kind  petrelv1.ConvKind
	peer  string
	title string // when the user left, else when they joined
	left  bool
	since im.Seq // the seq in the conversation at which the user joined or left last
	at    im.Seq // of the newest inbox entry about it
}

// isPair reports whether the conversation has two users, whose cursors are in a sync.
func (it item) isPair() bool { return policy.OfRecord(it.kind).Pair }

// list is the sum of a user's inbox up to the entry head. It never changes. A long list is stored in parts
// (storedlist.go), and some lists are kept in memory.
type list struct {
	parts []part // ascending by their conversations
	head  im.Seq // of the inbox, up to which it was read
	first im.Seq // the oldest entry that the inbox has; 0, 1: nothing was removed
	read  int    // bytes of the entries from first to head

	base   base      // settings that are in the store only
	recent []setting // those that changed after base, ascending by seq; all have higher seqs than those of base
	newest im.Seq    // of the settings
	sums   sums      // of the settings
	set    int       // bytes of the settings, also the removed ones, about
	held   int       // bytes of recent, a part of set

	stored header // of the stored list, which may be an older one
}

// part is some conversations of a list.
type part struct {
	first im.ConvID
	convs int
	items *items // nil: they are in the store only
}

// Lists of at least keepFrom entries, or of entries of at least keepBytes, are stored and kept in memory. A
// shorter inbox is read again in about a millisecond, and there are many of them. All entries count: a user
// with two conversations who changes a setting each day has a long inbox, too.
//
// The lists in memory take at most keptBytes; each counts as at least minKept.
const (
	keepFrom  = 500
	keepBytes = 32 << 10
	keptBytes = 16 << 20
	minKept   = 4 << 10

	SettingBytes = 100 // bytes of a setting beside its texts, about, also in a record
)

// long tells whether l is stored and kept.
func (l *list) long() bool { return l.entries() >= keepFrom || l.read >= keepBytes }

// entries returns how many entries the inbox has up to head.
func (l *list) entries() int { return int(l.head+1) - int(max(l.first, 1)) }

// convs returns how many conversations are in the list.
func (l *list) convs() int {
	n := 0
	for _, p := range l.parts {
		n += p.convs
	}
	return n
}

// bytes returns about how many bytes of memory l takes.
func (l *list) bytes() int {
	n := l.held
	for _, p := range l.parts {
		if p.items != nil {
			n += p.items.bytes()
		}
	}
	return max(minKept, n)
}

// loaded returns how many parts of l are in memory.
func (l *list) loaded() int {
	n := 0
	for _, p := range l.parts {
		if p.items != nil {
			n++
		}
	}
	return n
}

// from returns the index of the first part that may hold id or conversations after it.
func (l *list) from(id im.ConvID) int {
	i, found := slices.BinarySearchFunc(l.parts, id, func(p part, id im.ConvID) int { return compare(p.first, id) })
	if !found && i > 0 {
		i--
	}
	return i
}

// lists keeps long lists in memory. When it is full, it forgets lists in no particular order.
type lists struct {
	mu   sync.Mutex // tier 0; guards the fields below
	of   map[im.Account]*list
	kept int // bytes
}

// get returns the list of a user, nil if it is not kept.
func (ls *lists) get(a im.Account) *list {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.of[a]
}

// drop forgets the list of a user.
func (ls *lists) drop(a im.Account) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of[a]; l != nil {
		ls.dropLocked(a, l)
	}
}

func (ls *lists) put(a im.Account, l *list) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if old := ls.of[a]; old != nil {
		if old.head > l.head || old.head == l.head && old.stored.head >= l.stored.head && old.loaded() >= l.loaded() {
			return
		}
		ls.dropLocked(a, old)
	}
	if !l.long() || l.bytes() > keptBytes {
		return
	}
	for other, old := range ls.of {
		if ls.kept+l.bytes() <= keptBytes {
			break
		}
		ls.dropLocked(other, old)
	}
	if ls.of == nil {
		ls.of = map[im.Account]*list{}
	}
	ls.of[a] = l
	ls.kept += l.bytes()
}

func (ls *lists) dropLocked(a im.Account, l *list) {
	delete(ls.of, a)
	ls.kept -= l.bytes()
}

// withList calls f with the user's present list, which must not be modified. If a part of the stored list is
// gone meanwhile (errGone), it begins again with the new list. The last time it does without the stored list,
// which may be damaged.
func (y *Syncer) withList(ctx context.Context, a im.Account, f func(*list) error) error {
	for try := 0; ; try++ {
		l, err := y.list(ctx, a, try > 1)
		if err == nil {
			err = f(l)
		}
		if !errors.Is(err, errGone) {
			return err
		}
		im.Assert(try <= 2, "a list that was just folded lacks a part")
		y.lists.drop(a)
	}
}

// list returns the present list of a user. It begins with the list in memory or in the store, or anew with an
// empty one, and folds the later entries. Errors: errGone.
func (y *Syncer) list(ctx context.Context, a im.Account, anew bool) (*list, error) {
	old := y.lists.get(a)
	if old == nil {
		var err error
		if old, err = y.load(ctx, a); err != nil {
			return nil, err
		}
	}
	if anew {
		old = &list{stored: header{record: old.stored.record, name: old.stored.name, parts: old.stored.parts,
			sets: old.stored.sets, index: old.stored.index}}
	}
	var f *folding
	var failed error
	head, err := eachEntry(ctx, y.Router, a, old.head, func(e *petrelv1.InboxEntry, q im.Seq, bytes int) {
		if f == nil && failed == nil {
			var all *list
			if all, failed = y.loadAllParts(ctx, a, old); failed == nil {
				f = &folding{list: *all}
			}
		}
		if failed == nil {
			failed = f.add(e, q, bytes)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, failed
	case f == nil: // nothing is new
		return old, nil
	}
	l, err := y.fold(ctx, a, f, head)
	if err != nil {
		return nil, err
	}
	kept := l
	if l.dueToStore() {
		stored := *l
		if kept, err = &stored, y.store(ctx, a, &stored); err != nil {
			return nil, err
		}
	}
	y.lists.put(a, kept)
	if !anew { // a list that was folded anew is all in memory, so no part can be gone
		l = kept
	}
	if l.dueToCompact(y.CompactFrom) {
		y.compact(ctx, a, l)
	}
	return l, nil
}

// folding makes the next list from a list with all parts in memory. It does not modify the parts of that
// list.
type folding struct {
	list
	touched map[im.ConvID]*item // changed conversations
	named   map[nameOf]setting  // changed settings

	snapshot *snapshot // a snapshot of which the last part has not come yet; nil: none
}

func (f *folding) add(e *petrelv1.InboxEntry, q im.Seq, bytes int) error {
	f.read += bytes
	switch e := e.GetEntry().(type) {
	case *petrelv1.InboxEntry_Joined:
		it, err := f.touch(e.Joined.Conv, q)
		if err != nil || !it.moves(e.Joined.Seq) {
			return err
		}
		it.kind, it.peer, it.title, it.left = e.Joined.Kind, e.Joined.Peer, e.Joined.Title, false
	case *petrelv1.InboxEntry_Left:
		it, err := f.touch(e.Left.Conv, q)
		if err != nil || !it.moves(e.Left.Seq) {
			return err
		}
		it.left, it.title = true, e.Left.Title
	case *petrelv1.InboxEntry_Role:
		_, err := f.touch(e.Role.Conv, q)
		return err
	case *petrelv1.InboxEntry_Settings:
		for name, v := range e.Settings.Values {
			f.setOne(subject{e.Settings.Conv, e.Settings.User}, name, v, q)
		}
	case *petrelv1.InboxEntry_Snapshot:
		return f.addSnapshot(e.Snapshot, q, bytes)
	}
	return nil
}

// moves tells whether a joining or leaving at q is the newest of the conversation, and notes q if so. After a
// reset, the consumer may enter older ones again.
func (it *item) moves(q uint64) bool {
	if im.Seq(q) < it.since {
		return false
	}
	it.since = im.Seq(q)
	return true
}

// touch returns the item of the conversation that the entry q of the inbox is about, for changes.
func (f *folding) touch(conv string, q im.Seq) (*item, error) {
	id, err := im.ParseConvID(conv)
	if err != nil {
		return nil, err
	}
	it := f.touched[id]
	if it == nil {
		it = &item{id: id}
		if len(f.parts) > 0 {
			if all := f.parts[f.from(id)].items; all != nil {
				if i, found := all.find(id); found {
					*it = all.item(i)
				}
			}
		}
		if f.touched == nil {
			f.touched = map[im.ConvID]*item{}
		}
		f.touched[id] = it
	}
	it.at = q
	return it, nil
}

// fold returns the list of f up to head. Errors: errGone.
func (y *Syncer) fold(ctx context.Context, a im.Account, f *folding, head im.Seq) (*list, error) {
	l := f.list
	l.head = head
	if len(f.named) > 0 {
		if err := y.mergeSettings(ctx, a, &l, f.named); err != nil {
			return nil, err
		}
	}
	if len(f.touched) > 0 {
		l.parts = f.mergeParts()
	}
	return &l, nil
}

// mergeParts returns the parts of the list with the changed conversations.
func (f *folding) mergeParts() (parts []part) {
	news := slices.SortedFunc(maps.Values(f.touched), func(a, b *item) int { return compare(a.id, b.id) })
	var now *items
	add := func(from *items, i int, it *item) { // item i of from; without from, it
		if now == nil || len(now.ids) == partConvs {
			now = &items{}
			parts = append(parts, part{items: now})
		}
		if from != nil {
			now.copy(from, i)
		} else {
			now.add(it)
		}
	}
	for _, p := range f.parts {
		for i, id := range p.items.ids {
			for len(news) > 0 && compare(news[0].id, id) < 0 {
				add(nil, 0, news[0])
				news = news[1:]
			}
			if len(news) > 0 && news[0].id == id {
				add(nil, 0, news[0])
				news = news[1:]
			} else {
				add(p.items, i, nil)
			}
		}
	}
	for _, it := range news {
		add(nil, 0, it)
	}
	for i := range parts {
		p := &parts[i]
		p.first, p.convs = p.items.ids[0], len(p.items.ids)
		p.items.clip()
	}
	return parts
}
