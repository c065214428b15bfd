package inbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/dchest/siphash"

	"github.com/petrel-im/petrel/internal/im"
)

// The limits of a change of settings depend on the settings of its subject, the number of other
// users with settings, and the bytes of all settings. A list keeps the sums, and an index by
// subject is stored beside the settings, so a check reads one record and not all settings.

// sums are the sums of the settings with a value.
type sums struct {
	names int
	bytes int // as setting.bytes counts them
	users int // other users with settings that ChangeSettings has made

	contacts     ContactCount
	contactBytes int // of the contacts and requests, in bytes too
}

// change brings the sums up to date with s, the new value of its name. before has the sizes of the subject of s,
// and gets the new one. change subtracts the size of the former value from set.
func (m *sums) change(before sizes, s *setting, set *int) {
	some := before.own(s.subject) > 0
	if size, ok := before[nameHash(s.name)]; ok {
		former := s.bytes() - len(s.value) + size
		m.add(s, -1, -former)
		*set -= former
	}
	if before.note(s); s.value != "" {
		m.add(s, 1, s.bytes())
	}
	switch now := before.own(s.subject) > 0; {
	case s.user == "" || now == some:
	case now:
		m.users++
	default:
		m.users--
	}
}

// add counts n settings with the name and the subject of s.
func (m *sums) add(s *setting, n, bytes int) {
	m.names, m.bytes = m.names+n, m.bytes+bytes
	if s.user == "" || !IsContactName(s.name) {
		return
	}
	m.contactBytes += bytes
	switch s.name {
	case ContactName:
		m.contacts.Contacts += n
	case SentName:
		m.contacts.Sent += n
	case ReceivedName:
		m.contacts.Received += n
	}
}

// sizes are the bytes of the values of one subject, by the hash of their name. A name
// without a value is not in it.
type sizes map[uint64]int

func (z sizes) note(s *setting) {
	if s.value == "" {
		delete(z, nameHash(s.name))
	} else {
		z[nameHash(s.name)] = len(s.value)
	}
}

// own returns how many settings of a subject ChangeSettings has made: all but those of contacts.
func (z sizes) own(of subject) int {
	n := len(z)
	if of.user == "" {
		return n
	}
	for _, h := range contactHashes {
		if _, ok := z[h]; ok {
			n--
		}
	}
	return n
}

var contactHashes = [...]uint64{nameHash(ContactName), nameHash(SentName), nameHash(ReceivedName),
	nameHash(MessagesName)}

// nameHash distinguishes the few names of one subject. A user who finds two names with the same hash gains
// nothing but one more name than the limit.
func nameHash(name string) uint64 { return siphash.Hash(0x70657472656c, 0, []byte(name)) }

// Room has the sums for the limits of a change of settings.
type Room struct {
	about subject
	of    sizes
	Users int // other users who have settings
	Bytes int // that all settings but those of contacts take: their texts, and 100 for each
}

// Names returns how many settings the subject of the change has, without those of contacts.
func (r *Room) Names() int { return r.of.own(r.about) }

// Size returns how many bytes the value of a name has, and whether it has one.
func (r *Room) Size(name string) (bytes int, set bool) {
	bytes, set = r.of[nameHash(name)]
	return bytes, set
}

// SettingsRoom returns the room for a change of a user's settings of one conversation, of another
// user, or, without either, of the account.
func (y *Syncer) SettingsRoom(ctx context.Context, a im.Account, conv, user string) (room *Room, err error) {
	err = y.withList(ctx, a, func(l *list) error {
		of := subject{conv, user}
		known, err := y.storedSizes(ctx, a, l, of)
		if err != nil {
			return err
		}
		for i := range l.recent {
			if s := &l.recent[i]; s.subject == of {
				known.note(s)
			}
		}
		room = &Room{about: of, of: known, Users: l.sums.users, Bytes: l.sums.bytes - l.sums.contactBytes}
		return nil
	})
	return room, err
}

// The index has an entry of indexed bytes for each setting with a value: the hash of its subject, that of its
// name, and the length of the value. The entries ascend, and all of one subject are in one record.
const (
	indexed   = 8 + 8 + 4
	indexPart = 16 << 10 // bytes of a record, about
)

// hash returns the hash of a subject in the index of a stored list. The list's name is secret, so
// nobody finds subjects that share a hash.
func (of subject) hash(name uint64) uint64 {
	return siphash.Hash(name, 1, []byte(of.conv+"\x00"+of.user))
}

// indexOf returns the index of settings, in parts, and the lowest subject of each part.
func indexOf(settings []setting, name uint64) (parts [][]byte, first []uint64) {
	type entry struct{ subject, name, bytes uint64 }
	var all []entry
	for i := range settings {
		if s := &settings[i]; s.value != "" {
			all = append(all, entry{s.hash(name), nameHash(s.name), uint64(len(s.value))})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return slices.Compare([]uint64{a.subject, a.name}, []uint64{b.subject, b.name})
	})
	for i, e := range all {
		if last := len(parts) - 1; last < 0 || len(parts[last]) >= indexPart && e.subject != all[i-1].subject {
			parts, first = append(parts, nil), append(first, e.subject)
		}
		p := &parts[len(parts)-1]
		*p = binary.BigEndian.AppendUint64(*p, e.subject)
		*p = binary.BigEndian.AppendUint64(*p, e.name)
		*p = binary.BigEndian.AppendUint32(*p, uint32(e.bytes))
	}
	return parts, first
}

// storedSizes returns the sizes of a subject among the settings of l that are in the store. Errors:
// errGone.
func (y *Syncer) storedSizes(ctx context.Context, a im.Account, l *list, of subject) (sizes, error) {
	found, h := sizes{}, of.hash(l.base.name)
	i := sort.Search(len(l.base.index), func(i int) bool { return l.base.index[i] > h }) - 1
	if i < 0 {
		return found, nil
	}
	b, err := y.record(ctx, a, listPartKey(a.User, 'i', l.base.name, i))
	if err != nil {
		return nil, err
	}
	if len(b) < indexed || len(b)%indexed != 0 || binary.BigEndian.Uint64(b) != l.base.index[i] {
		return nil, errGone
	}
	key := binary.BigEndian.AppendUint64(nil, h)
	at := indexed * sort.Search(len(b)/indexed, func(i int) bool { return bytes.Compare(b[i*indexed:][:8], key) >= 0 })
	for ; at < len(b) && bytes.Equal(b[at:][:8], key); at += indexed {
		found[binary.BigEndian.Uint64(b[at+8:])] = int(binary.BigEndian.Uint32(b[at+16:]))
	}
	return found, nil
}
