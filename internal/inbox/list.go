package inbox

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// item is a conversation in a user's list, as the inbox's entries left it.
type item struct {
	id    im.ConvID
	conv  string
	kind  petrelv1.ConvKind
	peer  string
	title string // when the user left, else when they joined
	left  bool
	at    im.Seq // of the newest inbox entry about it
}

// list is a user's list of conversations. It never changes.
type list struct {
	items []item // sorted by conv
	head  im.Seq // of the inbox, up to which it was read
}

// keepFrom is from how many conversations on a list is kept: a shorter one is
// read again in less than a millisecond, and there are many of them.
// maxKept is how many conversations all kept lists have, 250 bytes each.
const (
	keepFrom = 500
	maxKept  = 64 << 10
)

// lists keeps long lists, so that a page of a sync reads only what was added
// to the inbox since the last one. A full one forgets any.
type lists struct {
	mu   sync.Mutex // tier 0; guards the fields below
	of   map[im.Account]*list
	kept int // conversations in all of them
}

func (ls *lists) get(a im.Account) *list {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.of[a]; l != nil {
		return l
	}
	return &list{}
}

func (ls *lists) put(a im.Account, l *list) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if old := ls.of[a]; old != nil {
		if old.head >= l.head {
			return
		}
		ls.drop(a, old)
	}
	if len(l.items) < keepFrom || len(l.items) > maxKept {
		return
	}
	for other, old := range ls.of {
		if ls.kept+len(l.items) <= maxKept {
			break
		}
		ls.drop(other, old)
	}
	if ls.of == nil {
		ls.of = map[im.Account]*list{}
	}
	ls.of[a] = l
	ls.kept += len(l.items)
}

// drop is called with mu held.
func (ls *lists) drop(a im.Account, l *list) {
	delete(ls.of, a)
	ls.kept -= len(l.items)
}

// list folds the user's inbox into their conversations.
func (y *Syncer) list(ctx context.Context, a im.Account) (*list, error) {
	old := y.lists.get(a)
	var byConv map[string]*item
	head, err := eachEntry(ctx, y.Convs, a, old.head, func(e *petrelv1.InboxEntry, q im.Seq) {
		if byConv == nil {
			byConv = old.byConv()
		}
		fold(byConv, e, q)
	})
	if err != nil || byConv == nil { // nothing is new
		return old, err
	}
	l := &list{items: make([]item, 0, len(byConv)), head: head}
	for _, it := range byConv {
		if it.id, err = im.ParseConvID(it.conv); err != nil {
			return nil, err
		}
		l.items = append(l.items, *it)
	}
	slices.SortFunc(l.items, func(a, b item) int { return strings.Compare(a.conv, b.conv) })
	y.lists.put(a, l)
	return l, nil
}

func (l *list) byConv() map[string]*item {
	m := make(map[string]*item, len(l.items))
	for _, it := range l.items {
		m[it.conv] = &it
	}
	return m
}

func fold(byConv map[string]*item, e *petrelv1.InboxEntry, q im.Seq) {
	touch := func(conv string) *item {
		it := byConv[conv]
		if it == nil {
			it = &item{conv: strings.Clone(conv)} // what is kept does not hold the row
			byConv[it.conv] = it
		}
		it.at = q
		return it
	}
	switch e := e.GetEntry().(type) {
	case *petrelv1.InboxEntry_Joined:
		it := touch(e.Joined.Conv)
		it.kind, it.peer, it.title, it.left = e.Joined.Kind, strings.Clone(e.Joined.Peer), strings.Clone(e.Joined.Title), false
	case *petrelv1.InboxEntry_Left:
		it := touch(e.Left.Conv)
		it.left, it.title = true, strings.Clone(e.Left.Title)
	case *petrelv1.InboxEntry_Role:
		touch(e.Role.Conv)
	}
}
