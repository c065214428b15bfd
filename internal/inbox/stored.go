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

// A long list is stored, so that the whole inbox need not be read when the server has
// started, or when the list has left memory. It says what the inbox comes to up to one
// entry. It can be thrown away at any time, and made from the inbox again. Any node writes
// it when it has read many entries to make the list. Under a user's id in the table Lists are
//
//	user 0 'h'              storepb.List: the head, and which parts there are
//	user 0 'p' name index   a part, as items.encode
//	user 0 's' name index   storepb.ListSettings
//
// A list that is stored anew has another name. The parts of the former one are deleted
// in the same write, so who reads a header and then finds no part begins anew.

// header is what is stored of a list, without its parts.
type header struct {
	record []byte // as it stands in the store; nil: nothing does
	name   uint64
	head   im.Seq
	read   int
	first  im.Seq
	parts  int
	sets   int // parts of settings
}

// errGone: a part of a stored list is not there, because the list was stored anew.
var errGone = errors.New("the list was stored anew")

// maxStoredSettings is how many bytes of settings are stored with a list. A list with
// more is not stored. One record has about settingsPart of them.
const (
	maxStoredSettings = 8 << 20
	settingsPart      = 256 << 10
)

// dueToStore tells whether so much was folded since l was stored that it is to be
// stored again: a 32nd of what is in it, but 64 entries at least.
func (l *list) dueToStore() bool {
	return l.long() && l.set <= maxStoredSettings &&
		(l.first != l.stored.first || int(l.head-l.stored.head) >= max(64, (l.convs()+len(l.settings))/32) || l.read-l.stored.read >= keepBytes/4)
}

func listKey(u im.User, kind byte) []byte { return append(append([]byte(u), 0), kind) }

func partKey(u im.User, name uint64, i int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(listKey(u, 'p'), name), uint32(i))
}

func settingsKey(u im.User, name uint64, i int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(listKey(u, 's'), name), uint32(i))
}

// record reads a record of a list. Damage counts as if it was not there: the inbox has
// it all.
func (y *Syncer) record(ctx context.Context, a im.Account, key []byte) ([]byte, error) {
	b, err := y.Store.Record(ctx, store.Lists, a.Tenant, key)
	if errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	return b, err
}

// load reads what is stored of a user's list, without its parts; an empty list if
// nothing is.
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
	l.stored.name, l.stored.parts, l.stored.sets = m.Name, len(m.Parts), int(m.SettingsParts)
	if m.HistoryId != y.Store.Info().HistoryID {
		return l, nil
	}
	for _, p := range m.Parts {
		if len(p.First) != len(im.ConvID{}) {
			return &list{stored: l.stored}, nil
		}
		l.parts = append(l.parts, part{first: im.ConvID(p.First), convs: int(p.Convs)})
	}
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

// settings returns the settings of a list. Errors: errGone.
func (y *Syncer) settings(ctx context.Context, a im.Account, l *list) ([]setting, error) {
	if l.settings != nil || l.set == 0 {
		return l.settings, nil
	}
	var all []setting
	for i := range l.stored.sets {
		b, err := y.record(ctx, a, settingsKey(a.User, l.stored.name, i))
		if err != nil {
			return nil, err
		}
		var m storepb.ListSettings
		if b == nil || m.UnmarshalVTUnsafe(b) != nil {
			return nil, errGone
		}
		for _, s := range m.Settings {
			all = append(all, setting{nameOf{subject{s.Conv, s.User}, s.Name}, s.Value, im.Seq(s.Seq)})
		}
	}
	return all, nil
}

// putSettings encodes the settings of a list in parts.
func putSettings(settings []setting) ([][]byte, error) {
	var parts [][]byte
	for len(settings) > 0 {
		m, bytes := &storepb.ListSettings{}, 0
		for len(settings) > 0 && bytes < settingsPart {
			s := &settings[0]
			m.Settings = append(m.Settings, &storepb.ListSetting{Conv: s.conv, User: s.user, Name: s.name, Value: s.value, Seq: uint64(s.seq)})
			bytes += s.bytes()
			settings = settings[1:]
		}
		b, err := m.MarshalVT()
		if err != nil {
			return nil, err
		}
		parts = append(parts, b)
	}
	return parts, nil
}

// whole is l with all its parts and settings. Errors: errGone.
func (y *Syncer) whole(ctx context.Context, a im.Account, l *list) (*list, error) {
	all := *l
	all.parts = slices.Clone(l.parts)
	var err error
	for i := range all.parts {
		if all.parts[i].items, err = y.items(ctx, a, l, i); err != nil {
			return nil, err
		}
	}
	all.settings, err = y.settings(ctx, a, l)
	return &all, err
}

// store stores a list that is whole, and returns what the store has then. If it does
// not take it, the next sync folds a little more, and tries again.
func (y *Syncer) store(ctx context.Context, a im.Account, l *list) header {
	if y.Store.Writable() != nil {
		return l.stored
	}
	sets, err := putSettings(l.settings)
	if err != nil {
		return l.stored
	}
	m := &storepb.List{
		Head: uint64(l.head), HistoryId: y.Store.Info().HistoryID, Name: rand.Uint64() | 1, First: uint64(l.first), Newest: uint64(l.newest),
		ReadBytes: uint64(l.read), SettingsBytes: uint64(l.set), SettingsParts: uint32(len(sets)),
	}
	put := func(key, value []byte) store.RecordPut {
		return store.RecordPut{Table: store.Lists, Tenant: a.Tenant, Key: key, Value: value}
	}
	puts := []store.RecordPut{put(listKey(a.User, 'h'), nil)}
	for i, p := range l.parts {
		m.Parts = append(m.Parts, &storepb.ListPart{First: p.first[:], Convs: uint32(p.convs)})
		puts = append(puts, put(partKey(a.User, m.Name, i), p.items.encode()))
	}
	for i, b := range sets {
		puts = append(puts, put(settingsKey(a.User, m.Name, i), b))
	}
	if l.stored.name != 0 {
		for i := range l.stored.parts {
			puts = append(puts, put(partKey(a.User, l.stored.name, i), nil))
		}
		for i := range l.stored.sets {
			puts = append(puts, put(settingsKey(a.User, l.stored.name, i), nil))
		}
	}
	b, err := m.MarshalVT()
	if err != nil {
		return l.stored
	}
	puts[0].Value, puts[0].Check, puts[0].Was = b, true, l.stored.record
	if err := y.Store.Update(ctx, puts); err != nil {
		if now, err := y.load(ctx, a); err == nil { // another sync was first
			return now.stored
		}
		return l.stored
	}
	return header{record: b, name: m.Name, head: l.head, read: l.read, first: l.first, parts: len(m.Parts), sets: len(sets)}
}
