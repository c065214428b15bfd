package inbox

import (
	"context"
	"maps"
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
	since im.Seq // of the conversation, when the user joined or left last
	at    im.Seq // of the newest inbox entry about it
}

// list is what a user's inbox comes to. It never changes.
type list struct {
	items    []item                       // sorted by conv
	settings map[string]map[string]string // conv, "" for the account → name → value
	head     im.Seq                       // of the inbox, up to which it was read

	read int // bytes of the entries up to head
	set  int // bytes of the settings, with what their maps take
}

// A list of at least keepFrom entries or keepBytes of them is kept: a shorter
// one is read again in less than a millisecond, and there are many of them. It
// does not matter what the entries are: somebody with two conversations who
// changes a setting each day has a long inbox too.
//
// All kept lists take maxKept bytes, one of them at least minKept.
const (
	keepFrom  = 500
	keepBytes = 256 << 10
	maxKept   = 16 << 20
	minKept   = 4 << 10

	itemBytes    = 250 // about what an item takes
	settingBytes = 100 // about what a setting takes beside its texts
)

// bytes is about what l takes when it is kept.
func (l *list) bytes() int { return max(minKept, len(l.items)*itemBytes+l.set) }

// lists keeps long lists, so that a page of a sync, or a look at the settings,
// reads only what was added to the inbox since the last one. A full one forgets
// any.
type lists struct {
	mu   sync.Mutex // tier 0; guards the fields below
	of   map[im.Account]*list
	kept int // bytes
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
	if l.head < keepFrom && l.read < keepBytes || l.bytes() > maxKept {
		return
	}
	for other, old := range ls.of {
		if ls.kept+l.bytes() <= maxKept {
			break
		}
		ls.drop(other, old)
	}
	if ls.of == nil {
		ls.of = map[im.Account]*list{}
	}
	ls.of[a] = l
	ls.kept += l.bytes()
}

// drop is called with mu held.
func (ls *lists) drop(a im.Account, l *list) {
	delete(ls.of, a)
	ls.kept -= l.bytes()
}

// list folds the user's inbox. What it returns must not be modified.
func (y *Syncer) list(ctx context.Context, a im.Account) (*list, error) {
	old := y.lists.get(a)
	f := folding{list: *old}
	head, err := eachEntry(ctx, y.Router, a, old.head, f.add)
	if err != nil {
		return nil, err
	}
	if head <= old.head { // nothing is new
		return old, nil
	}
	l, err := f.end(head)
	if err != nil {
		return nil, err
	}
	y.lists.put(a, l)
	return l, nil
}

// folding makes the next list of one. What the two share is copied when it
// changes.
type folding struct {
	list
	byConv map[string]*item // the items; nil: they are the same
	own    map[string]bool  // whose settings are not the former list's
}

func (f *folding) add(e *petrelv1.InboxEntry, q im.Seq, bytes int) {
	f.read += bytes
	switch e := e.GetEntry().(type) {
	case *petrelv1.InboxEntry_Joined:
		it := f.touch(e.Joined.Conv, q)
		if !it.moves(e.Joined.Seq) {
			return
		}
		it.kind, it.peer, it.title, it.left = e.Joined.Kind, strings.Clone(e.Joined.Peer), strings.Clone(e.Joined.Title), false
	case *petrelv1.InboxEntry_Left:
		it := f.touch(e.Left.Conv, q)
		if !it.moves(e.Left.Seq) {
			return
		}
		it.left, it.title = true, strings.Clone(e.Left.Title)
	case *petrelv1.InboxEntry_Role:
		f.touch(e.Role.Conv, q)
	case *petrelv1.InboxEntry_Settings:
		values := f.settingsOf(strings.Clone(e.Settings.Conv)) // what is kept does not hold the row
		for name, v := range e.Settings.Values {
			if old, ok := values[name]; ok {
				f.set -= settingBytes + len(name) + len(old)
			}
			if v == "" {
				delete(values, name)
				continue
			}
			values[strings.Clone(name)] = strings.Clone(v)
			f.set += settingBytes + len(name) + len(v)
		}
		if len(values) == 0 {
			delete(f.settings, e.Settings.Conv)
		}
	}
}

// moves tells whether a joining or leaving at q is the newest: behind a reset of
// the consumer one may be entered again that is not.
func (it *item) moves(q uint64) bool {
	if im.Seq(q) < it.since {
		return false
	}
	it.since = im.Seq(q)
	return true
}

// touch is the item of a conversation that an entry is about.
func (f *folding) touch(conv string, q im.Seq) *item {
	if f.byConv == nil {
		f.byConv = make(map[string]*item, len(f.items))
		for _, it := range f.items {
			f.byConv[it.conv] = &it
		}
	}
	it := f.byConv[conv]
	if it == nil {
		it = &item{conv: strings.Clone(conv)}
		f.byConv[it.conv] = it
	}
	it.at = q
	return it
}

// settingsOf are the settings of a conversation, to be changed.
func (f *folding) settingsOf(conv string) map[string]string {
	if f.own == nil {
		f.own, f.settings = map[string]bool{}, maps.Clone(f.settings)
		if f.settings == nil {
			f.settings = map[string]map[string]string{}
		}
	}
	values := f.settings[conv]
	if !f.own[conv] {
		values = maps.Clone(values)
	}
	if values == nil {
		values = map[string]string{}
	}
	f.own[conv], f.settings[conv] = true, values
	return values
}

// end is the list up to head.
func (f *folding) end(head im.Seq) (*list, error) {
	l := f.list
	l.head = head
	if f.byConv == nil {
		return &l, nil
	}
	l.items = make([]item, 0, len(f.byConv))
	for _, it := range f.byConv {
		var err error
		if it.id, err = im.ParseConvID(it.conv); err != nil {
			return nil, err
		}
		l.items = append(l.items, *it)
	}
	slices.SortFunc(l.items, func(a, b item) int { return strings.Compare(a.conv, b.conv) })
	return &l, nil
}
