package inbox

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/internal/store"
	"github.com/petrel-im/petrel/internal/store/storepb"
)

// A long list is stored, so that the whole inbox need not be read when the server has started, or
// when the list has left memory. It is the sum of the inbox up to one entry. It can be deleted at
// any time, and made from the inbox again. Any node writes it when it has read many entries to make
// the list. The table Lists has, under the id of the user:
//
//	user 0 'h'              storepb.List: the head, and which parts there are
//	user 0 'p' name index   a part, as items.encode
//	user 0 's' name index   storepb.ListSettings
//	user 0 'i' name index   sizes of settings, as indexOf makes them
//
// Each stored list has a name of its own. The write of a new one deletes the parts of the former one. A reader
// that has found a header, but does not find a part of it, begins again.

// header is a stored list without its parts.
type header struct {
	record []byte // as it is in the store; nil: there is none
	name   uint64
	head   im.Seq
	read   int
	first  im.Seq
	parts  int
	sets   int // parts of settings
	index  int // parts of their index
}

// base describes the settings of a list that are in the store.
type base struct {
	name  uint64   // of the list, in the keys of its parts
	parts []im.Seq // the lowest seq of each
	last  im.Seq   // the highest seq of all
	index []uint64 // the lowest subject of each part of the index
}

// from returns the first part that may have settings above q.
func (b *base) from(q im.Seq) int {
	if q >= b.last {
		return len(b.parts)
	}
	i, _ := slices.BinarySearch(b.parts, q+1)
	i-- // the part before may end with the same seq
	return max(0, i)
}

// errGone says that a part of a stored list is not there, because the list was stored anew.
var errGone = errors.New("the list was stored anew")

// maxStoredSettings is how many bytes of settings are stored with a list. A list with
// more is not stored. One record has about settingsPart of them, which is one page.
const (
	maxStoredSettings = 8 << 20
	settingsPart      = 64 << 10
)

// dueToStore tells whether l is to be stored again. l must be long, and its settings must not exceed
// maxStoredSettings. Then one of these is enough: the inbox was compacted since; or l has folded 64 more entries,
// and a 32nd of its conversations and settings (with changed settings, maxRecent entries are enough); or the
// further entries take a quarter of keepBytes, and a 16th of the bytes of the settings.
func (l *list) dueToStore() bool {
	if !l.long() || l.set > maxStoredSettings {
		return false
	}
	news, due := int(l.head-l.stored.head), max(64, (l.convs()+l.sums.names)/32)
	if len(l.recent) > 0 {
		due = min(due, maxRecent)
	}
	return l.first != l.stored.first || news >= due || l.read-l.stored.read >= max(keepBytes/4, l.set/16)
}

// maxRecent is after how many entries changed settings are stored. A list that has left memory folds the
// later entries again, with a look into the index for each of them.
const maxRecent = 256

func listKey(u im.User, kind byte) []byte { return append(append([]byte(u), 0), kind) }

func partKey(u im.User, name uint64, i int) []byte { return listPartKey(u, 'p', name, i) }

func listPartKey(u im.User, kind byte, name uint64, i int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(listKey(u, kind), name), uint32(i))
}

// record reads a record of a list. A damaged one counts as missing, since the inbox has all of it.
func (y *Syncer) record(ctx context.Context, a im.Account, key []byte) ([]byte, error) {
	b, err := y.Store.Record(ctx, store.Lists, a.Tenant, key)
	if errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	return b, err
}

// load reads the stored list of a user, without its parts. Without a stored list it returns an empty one.
func (y *Syncer) load(ctx context.Context, a im.Account) (*list, error) {
	b, err := y.record(ctx, a, listKey(a.User, 'h'))
	if err != nil {
		return nil, err
	}
	l := &list{stored: header{record: b}}
	var m storepb.List
	if b == nil || m.UnmarshalVT(b) != nil {
		return l, nil
	}
	l.stored.name, l.stored.parts, l.stored.sets, l.stored.index = m.Name, len(m.Parts), len(m.SettingsFirst),
		len(m.IndexFirst)
	if m.HistoryId != y.Store.Info().HistoryID || m.SettingsBytes > 0 && len(m.SettingsFirst) == 0 {
		return l, nil
	}
	for _, p := range m.Parts {
		if len(p.First) != len(im.ConvID{}) {
			return &list{stored: l.stored}, nil
		}
		l.parts = append(l.parts, part{first: im.ConvID(p.First), convs: int(p.Convs)})
	}
	l.base = base{name: m.Name, last: im.Seq(m.Newest), index: m.IndexFirst}
	for _, q := range m.SettingsFirst {
		l.base.parts = append(l.base.parts, im.Seq(q))
	}
	l.sums = sums{names: int(m.SetNames), bytes: int(m.SetBytes), users: int(m.SetUsers),
		contactBytes: int(m.ContactBytes),
		contacts:     ContactCount{int(m.Contacts), int(m.RequestsSent), int(m.RequestsReceived)}}
	l.head, l.first, l.newest = im.Seq(m.Head), im.Seq(m.First), im.Seq(m.Newest)
	l.read, l.set = int(m.ReadBytes), int(m.SettingsBytes)
	l.stored.head, l.stored.read, l.stored.first = l.head, l.read, l.first
	return l, nil
}

// items returns the conversations of a part. Errors: errGone.
func (y *Syncer) items(ctx context.Context, a im.Account, l *list, i int) (*items, error) {
	p := &l.parts[i]
	if p.items != nil {
		return p.items, nil
	}
	b, err := y.record(ctx, a, partKey(a.User, l.stored.name, i))
	if err != nil {
		return nil, err
	}
	all, err := decodeItems(b, p.convs)
	if err != nil {
		return nil, errGone
	}
	return all, nil
}

// settingsPart returns a part of the settings of a list that are in the store. Errors: errGone.
func (y *Syncer) settingsPart(ctx context.Context, a im.Account, l *list, i int) ([]setting, error) {
	b, err := y.record(ctx, a, listPartKey(a.User, 's', l.base.name, i))
	if err != nil {
		return nil, err
	}
	var m storepb.ListSettings
	if b == nil || m.UnmarshalVTUnsafe(b) != nil {
		return nil, errGone
	}
	all := make([]setting, len(m.Settings))
	for i, s := range m.Settings {
		all[i] = setting{nameOf{subject{s.Conv, s.User}, s.Name}, s.Value, im.Seq(s.Seq)}
	}
	return all, nil
}

// putSettings encodes settings in parts, and returns the lowest seq of each.
func putSettings(settings []setting) (parts [][]byte, first []uint64, err error) {
	for len(settings) > 0 {
		m, bytes := &storepb.ListSettings{}, 0
		first = append(first, uint64(settings[0].seq))
		for len(settings) > 0 && bytes < settingsPart {
			s := &settings[0]
			m.Settings = append(m.Settings, &storepb.ListSetting{Conv: s.conv, User: s.user, Name: s.name,
				Value: s.value, Seq: uint64(s.seq)})
			bytes += s.bytes()
			settings = settings[1:]
		}
		b, err := m.MarshalVT()
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, b)
	}
	return parts, first, nil
}

// loadAllParts returns l with all its parts in memory. Errors: errGone.
func (y *Syncer) loadAllParts(ctx context.Context, a im.Account, l *list) (*list, error) {
	all := *l
	all.parts = slices.Clone(l.parts)
	var err error
	for i := range all.parts {
		if all.parts[i].items, err = y.items(ctx, a, l, i); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// store stores l, which has all parts in memory, and notes the stored state in it. If the store does not take
// it, the next sync folds a little more, and tries again. Errors: errGone.
func (y *Syncer) store(ctx context.Context, a im.Account, l *list) error {
	if y.Store.Writable() != nil {
		return nil
	}
	settings, err := y.allSettings(ctx, a, l)
	if err != nil {
		return err
	}
	set := 0
	for i := range settings {
		set += settings[i].bytes()
	}
	sets, first, err := putSettings(settings)
	if err != nil {
		return nil
	}
	m := &storepb.List{
		Head: uint64(l.head), HistoryId: y.Store.Info().HistoryID, Name: rand.Uint64() | 1, First: uint64(l.first),
		Newest:    uint64(l.newest),
		ReadBytes: uint64(l.read), SettingsBytes: uint64(set), SettingsFirst: first,
		SetNames: uint64(l.sums.names), SetBytes: uint64(l.sums.bytes), SetUsers: uint64(l.sums.users),
		ContactBytes: uint64(l.sums.contactBytes), Contacts: uint64(l.sums.contacts.Contacts),
		RequestsSent: uint64(l.sums.contacts.Sent), RequestsReceived: uint64(l.sums.contacts.Received),
	}
	index, subjects := indexOf(settings, m.Name)
	m.IndexFirst = subjects
	put := func(key, value []byte) store.RecordPut {
		return store.RecordPut{Table: store.Lists, Tenant: a.Tenant, Key: key, Value: value}
	}
	puts := []store.RecordPut{put(listKey(a.User, 'h'), nil)}
	for i, p := range l.parts {
		m.Parts = append(m.Parts, &storepb.ListPart{First: p.first[:], Convs: uint32(p.convs)})
		puts = append(puts, put(partKey(a.User, m.Name, i), p.items.encode()))
	}
	for i, b := range sets {
		puts = append(puts, put(listPartKey(a.User, 's', m.Name, i), b))
	}
	for i, b := range index {
		puts = append(puts, put(listPartKey(a.User, 'i', m.Name, i), b))
	}
	if l.stored.name != 0 {
		for kind, n := range map[byte]int{'p': l.stored.parts, 's': l.stored.sets, 'i': l.stored.index} {
			for i := range n {
				puts = append(puts, put(listPartKey(a.User, kind, l.stored.name, i), nil))
			}
		}
	}
	b, err := m.MarshalVT()
	if err != nil {
		return nil
	}
	puts[0].Value, puts[0].Check, puts[0].Was = b, true, l.stored.record
	if err := y.Store.Update(ctx, puts); err != nil {
		if now, err := y.load(ctx, a); err == nil { // another sync was first
			l.stored = now.stored
		}
		return nil
	}
	l.stored = header{record: b, name: m.Name, head: l.head, read: l.read, first: l.first, parts: len(m.Parts),
		sets: len(sets), index: len(index)}
	l.base = base{name: m.Name, last: l.newest, index: subjects}
	for _, q := range first {
		l.base.parts = append(l.base.parts, im.Seq(q))
	}
	l.recent, l.held, l.set = nil, 0, set
	return nil
}
