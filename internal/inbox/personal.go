package inbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/petrel-im/petrel/internal/im"
	"github.com/petrel-im/petrel/sdk/go/petrelv1"
)

// subject is what a setting is of: a conversation, another user, or, if both are empty,
// the account.
type subject struct{ conv, user string }

// nameOf is a name under which there is at most one setting.
type nameOf struct {
	subject
	name string
}

// setting is the newest value of a name. One without a value was removed: it stays, so
// that a device that knows an older value is told, until the inbox is compacted.
type setting struct {
	nameOf
	value string
	seq   im.Seq // of the entry of the inbox
}

func (s *setting) bytes() int {
	return settingBytes + len(s.conv) + len(s.user) + len(s.name) + len(s.value)
}

// setOne notes what an entry says of one name. What is kept does not hold the entry's
// row.
func (f *folding) setOne(of subject, name, value string, q im.Seq) {
	key := nameOf{subject{strings.Clone(of.conv), strings.Clone(of.user)}, strings.Clone(name)}
	if old, ok := f.named[key]; ok && old.seq > q {
		return
	}
	if f.named == nil {
		f.named = map[nameOf]setting{}
	}
	f.named[key] = setting{key, strings.Clone(value), q}
}

// mergeSettings makes the settings of l those that it has and news. Each of news is of an
// entry that l has not read, or was restated by a snapshot.
func (l *list) mergeSettings(news map[nameOf]setting) {
	all := make([]setting, 0, len(l.settings)+len(news))
	for _, s := range l.settings {
		if n, ok := news[s.nameOf]; !ok || n.seq < s.seq {
			all = append(all, s)
		} else {
			l.set -= s.bytes()
			continue
		}
		delete(news, s.nameOf)
	}
	from := len(all)
	for _, s := range news {
		all = append(all, s)
		l.set += s.bytes()
	}
	slices.SortFunc(all[from:], bySeq)
	if from > 0 && from < len(all) && all[from].seq < all[from-1].seq {
		slices.SortFunc(all, bySeq)
	}
	l.settings, l.newest = all, max(l.newest, all[len(all)-1].seq)
}

// bySeq is the order in which settings are told. Those of one entry have an order too: a
// page may end between them only if the next one begins there.
func bySeq(a, b setting) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.conv, b.conv), cmp.Compare(a.user, b.user), cmp.Compare(a.name, b.name))
}

// pagePersonal is about how many bytes of settings one page of a sync has.
const pagePersonal = 64 << 10

// personal adds to the page what is new of the settings: ascending by seq, whole entries
// of the inbox at a time, so that a token can say by a seq how far the client was told. It
// reports whether nothing is left. Spec: P-6.2, P-8.10.
func (p *pager) personal(ctx context.Context) (all bool, err error) {
	t, l := p.token, p.list
	switch {
	case t.Told > 0 && t.Told >= t.Next.Personal: // on an earlier page, or nothing is new
		return true, nil
	case !t.Reset_ && (t.Told == 0 || t.Told+1 < uint64(l.first)):
		// Nothing was told yet, or what was removed since is not known any more.
		t.Told, t.Reset_, p.page.PersonalReset = 0, true, true
	}
	if l.newest <= im.Seq(t.Told) {
		t.Told = t.Next.Personal
		return true, nil
	}
	settings, err := p.y.settings(ctx, p.account, l)
	if err != nil {
		return false, err
	}
	if l.settings == nil { // so the next page finds them in memory
		with := *l
		with.settings, p.list = settings, &with
		p.y.lists.put(p.account, &with)
	}
	for bytes, i := 0, firstAfter(settings, im.Seq(t.Told)); i < len(settings); i++ {
		s := &settings[i]
		if bytes > pagePersonal && uint64(s.seq) > t.Told {
			return false, nil
		}
		t.Told = uint64(s.seq)
		if s.value == "" && t.Reset_ {
			continue
		}
		bytes += s.bytes()
		p.page.Personal = append(p.page.Personal, s.personal())
	}
	t.Told = max(t.Told, t.Next.Personal)
	return true, nil
}

func (s *setting) personal() *petrelv1.Personal {
	return &petrelv1.Personal{Seq: uint64(s.seq), Conv: s.conv, User: s.user, Name: s.name, Value: s.value}
}

// Settings is a page of what a user has set by entries of the inbox behind after: the
// oldest first, grouped by what it is of. What was removed is told from the second page on
// only, as an empty value. next is the after of the next page; 0: there is none.
func (y *Syncer) Settings(ctx context.Context, a im.Account, after im.Seq) (page []*petrelv1.Settings, next im.Seq, err error) {
	err = y.eachSetting(ctx, a, func(settings []setting) {
		page, next = settingsAfter(settings, after)
	})
	return page, next, err
}

func settingsAfter(settings []setting, after im.Seq) (page []*petrelv1.Settings, next im.Seq) {
	of := map[subject]*petrelv1.Settings{}
	told := after
	for bytes, i := 0, firstAfter(settings, after); i < len(settings); i++ {
		s := &settings[i]
		if bytes > pagePersonal && s.seq > told {
			next = told
			break
		}
		told = s.seq
		if s.value == "" && after == 0 {
			continue
		}
		bytes += s.bytes()
		if of[s.subject] == nil {
			of[s.subject] = &petrelv1.Settings{Conv: s.conv, User: s.user, Values: map[string]string{}}
		}
		of[s.subject].Values[s.name] = s.value
	}
	return slices.SortedFunc(maps.Values(of), func(a, b *petrelv1.Settings) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Conv, b.Conv))
	}), next
}

// firstAfter is where the settings behind q begin; they are ascending by seq.
func firstAfter(settings []setting, q im.Seq) int {
	i, _ := slices.BinarySearchFunc(settings, q+1, func(s setting, q im.Seq) int { return cmp.Compare(s.seq, q) })
	return i
}

// SettingsRoom is what a change of settings is judged by: what is set already.
type SettingsRoom struct {
	Values map[string]string // of what changes, by name
	Users  int               // other users of whom something is set
	Bytes  int               // that all settings take: their texts, and 100 for each
}

// SettingsOf is what a user has set of one conversation, of another user, or, without
// either, of the account, and how much of everything.
func (y *Syncer) SettingsOf(ctx context.Context, a im.Account, conv, user string) (*SettingsRoom, error) {
	var room *SettingsRoom
	err := y.eachSetting(ctx, a, func(settings []setting) {
		room = &SettingsRoom{Values: map[string]string{}}
		seen := map[string]struct{}{}
		for i := range settings {
			s := &settings[i]
			if s.value == "" {
				continue
			}
			room.Bytes += s.bytes()
			if s.user != "" {
				seen[s.user] = struct{}{}
			}
			if s.conv == conv && s.user == user {
				room.Values[s.name] = s.value
			}
		}
		room.Users = len(seen)
	})
	return room, err
}

// eachSetting calls f with the settings of a user, which it must not modify. It may call
// it more than once; the last time counts.
func (y *Syncer) eachSetting(ctx context.Context, a im.Account, f func([]setting)) error {
	return y.withList(ctx, a, func(l *list) error {
		settings, err := y.settings(ctx, a, l)
		if err == nil {
			f(settings)
		}
		return err
	})
}
